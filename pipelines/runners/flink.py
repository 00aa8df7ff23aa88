"""A Flink cluster seen through its REST interface: what it has, what became of a job, and how to stop one.

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
"""States of a job that is over."""


class FlinkCluster:
    """One cluster.

    Args:
        master: "host:port" or URL of the JobManager's REST interface.
        timeout: Seconds one request may take.
    """

    def __init__(self, master: str, timeout: float = 20.0) -> None:
        self.url = (master if "://" in master else f"http://{master}").rstrip("/")
        self.title = f"the Flink cluster at {self.url}"
        self._timeout = timeout

    def version(self) -> str:
        """Flink's version, such as "1.20.5"."""
        return str(self._ask("/config")["flink-version"])

    def slots(self) -> int:
        """Slots of all TaskManagers."""
        return int(self._ask("/overview")["slots-total"])

    def taskmanagers(self) -> int:
        """TaskManagers that are there."""
        return int(self._ask("/overview")["taskmanagers"])

    def settings(self) -> dict[str, str]:
        """The cluster's configuration, as far as it was set."""
        return {entry["key"]: str(entry["value"]) for entry in self._ask("/jobmanager/config")}

    def job(self, name: str) -> Job | None:
        """The latest job of a name; `None` where the cluster knows of none."""
        found = [j for j in self._ask("/jobs/overview")["jobs"] if j["name"] == name]
        last = max(found, key=lambda j: j["start-time"], default=None)
        return None if last is None else Job(last["jid"], name, last["state"], last["state"] in ENDED)

    def cause(self, job_id: str) -> str:
        """Why a job failed: the innermost reason that Flink kept, "" without any."""
        entries = self._ask(f"/jobs/{job_id}/exceptions").get("exceptionHistory", {}).get("entries", [])
        lines = [line.strip() for entry in entries[:1] for line in entry.get("stacktrace", "").splitlines()]
        reasons = [line for line in lines if line and not line.startswith(("at ", "... ", "File "))]
        causes = [line for line in reasons if line.startswith("Caused by: ")]
        return _innermost(reasons, causes)

    def stages(self, job_id: str) -> dict[str, int]:
        """Number of a job's stages by their state."""
        counts: dict[str, int] = {}
        for vertex in self._ask(f"/jobs/{job_id}")["vertices"]:
            counts[vertex["status"]] = counts.get(vertex["status"], 0) + 1
        return counts

    def cancel(self, job_id: str) -> None:
        """Stops a job and its worker processes; one that is over already stays as it is."""
        self._ask(f"/jobs/{job_id}?mode=cancel", "PATCH")

    def stop(self, name: str, sleep: Callable[[float], None] = time.sleep, tries: int = 20) -> None:
        """Cancels the job of a name and waits until it is over; one that never appears is left alone."""
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
    """Of a stack trace's lines, the last of a Python error that a worker sent along, else the last cause."""
    python = [i for i, line in enumerate(reasons) if "Traceback (most recent call last)" in line]
    if python:
        after = [line for line in reasons[python[-1] + 1 :] if not line.startswith(("^", "~", "Caused by: "))]
        errors = [line for line in after if ": " in line and " " not in line.partition(": ")[0]]
        if errors:
            return errors[-1]
    return (causes or reasons[:1] or [""])[-1].removeprefix("Caused by: ")
