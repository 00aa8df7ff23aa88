"""A client of Flink's REST interface: the resources of a cluster, the state of a job, and how to stop it.

Beam's own `cancel` does not stop a job on Flink, and its counters show only the last attempt; this asks Flink itself.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from .jobs import Job, Unreachable

ENDED = ("FINISHED", "FAILED", "CANCELED")
"""Final states of a job."""


class FlinkCluster:
    """A Flink cluster.

    Args:
        master: "host:port" or URL of the JobManager's REST interface.
        timeout: Seconds of one request.
    """

    def __init__(self, master: str, timeout: float = 20.0) -> None:
        self.url = (master if "://" in master else f"http://{master}").rstrip("/")
        self.title = f"the Flink cluster at {self.url}"
        self._timeout = timeout

    def version(self) -> str:
        """Returns the version of Flink, such as "1.20.5"."""
        return str(self._ask("/config")["flink-version"])

    def slots(self) -> int:
        """Returns the number of slots of all TaskManagers."""
        return int(self._ask("/overview")["slots-total"])

    def taskmanagers(self) -> int:
        """Returns the number of registered TaskManagers."""
        return int(self._ask("/overview")["taskmanagers"])

    def settings(self) -> dict[str, str]:
        """Returns the settings of the cluster that were set explicitly."""
        return {entry["key"]: str(entry["value"]) for entry in self._ask("/jobmanager/config")}

    def job(self, name: str) -> Job | None:
        """Returns the latest job of a name; `None` if the cluster knows none."""
        found = [j for j in self._ask("/jobs/overview")["jobs"] if j["name"] == name]
        last = max(found, key=lambda j: j["start-time"], default=None)
        return None if last is None else Job(last["jid"], name, last["state"], last["state"] in ENDED)

    def cause(self, job_id: str) -> str:
        """Returns the innermost reason why a job failed; "" if Flink has none."""
        entries = self._ask(f"/jobs/{job_id}/exceptions").get("exceptionHistory", {}).get("entries", [])
        lines = [line.strip() for entry in entries[:1] for line in entry.get("stacktrace", "").splitlines()]
        reasons = [line for line in lines if line and not line.startswith(("at ", "... ", "File "))]
        causes = [line for line in reasons if line.startswith("Caused by: ")]
        return _innermost(reasons, causes)

    def stages(self, job_id: str) -> dict[str, int]:
        """Counts the stages of a job by their state."""
        counts: dict[str, int] = {}
        for vertex in self._ask(f"/jobs/{job_id}")["vertices"]:
            counts[vertex["status"]] = counts.get(vertex["status"], 0) + 1
        return counts

    def cancel(self, job_id: str) -> None:
        """Stops a job and its worker processes; does nothing if the job has ended."""
        self._ask(f"/jobs/{job_id}?mode=cancel", "PATCH")

    def stop(self, name: str, sleep: Callable[[float], None] = time.sleep, tries: int = 20) -> None:
        """Cancels the job of a name and waits for its end; does nothing if the job never appears."""
        for _ in range(tries):
            job = self.job(name)
            if job is not None:
                if job.ended:
                    return
                self.cancel(job.id)
            sleep(0.5)

    def _ask(self, path: str, method: str = "GET") -> Any:
        request = urllib.request.Request(self.url + path, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            if method == "PATCH" and error.code in (404, 409):
                return None
            raise Unreachable(f"{self.url}{path} answers HTTP {error.code}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise Unreachable(f"no Flink cluster answers at {self.url} ({reason})") from None


def _innermost(reasons: list[str], causes: list[str]) -> str:
    """Returns the last line of a Python error in a stack trace, or else its last cause."""
    python = [i for i, line in enumerate(reasons) if "Traceback (most recent call last)" in line]
    if python:
        after = [line for line in reasons[python[-1] + 1 :] if not line.startswith(("^", "~", "Caused by: "))]
        errors = [line for line in after if ": " in line and " " not in line.partition(": ")[0]]
        if errors:
            return errors[-1]
    return (causes or reasons[:1] or [""])[-1].removeprefix("Caused by: ")
