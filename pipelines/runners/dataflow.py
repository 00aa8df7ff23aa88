"""A client of Dataflow: the state of a job, the cause of its failure, and how to stop it."""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from .jobs import Job, Unreachable

SCHEME = "dataflow://"
ENDED = ("DONE", "FAILED", "CANCELLED", "UPDATED", "DRAINED")
"""States of a job that is over, without their prefix."""


def address(project: str, region: str, endpoint: str | None = None) -> str:
    """Builds the address of Dataflow in a project and region, see `Dataflow`.

    Args:
        project, region: As in Beam's options.
        endpoint: URL of the service if it is not Google's own.
    """
    query = f"?{urllib.parse.urlencode({'endpoint': endpoint})}" if endpoint else ""
    return f"{SCHEME}{project}/{region}{query}"


class Dataflow:
    """The jobs of one project and region.

    Args:
        master: The address, as `address` builds it.
        timeout: Seconds of one request.
        jobs, messages: Google's clients, `JobsV1Beta3Client` and `MessagesV1Beta3Client`; injected by tests.
    """

    def __init__(self, master: str, timeout: float = 20.0, jobs: Any = None, messages: Any = None) -> None:
        place, _, query = master.removeprefix(SCHEME).partition("?")
        self.project, _, self.region = place.partition("/")
        self.title = f"Dataflow in {self.project}, {self.region}"
        self._endpoint = urllib.parse.parse_qs(query).get("endpoint", [None])[0]
        self._timeout = timeout
        self._given = (jobs, messages)

    def job(self, name: str) -> Job | None:
        """Returns the latest job of a name; `None` if Dataflow knows none."""
        request = {"project_id": self.project, "location": self.region, "name": name}
        with self._translate_errors():
            jobs = [j for j in self._jobs.list_jobs(request=request, timeout=self._timeout) if j.name == name]
        last = max(jobs, key=lambda j: j.create_time, default=None)
        if last is None:
            return None
        state = last.current_state.name.removeprefix("JOB_STATE_")
        return Job(last.id, name, state, state in ENDED)

    def stages(self, job_id: str) -> dict[str, int]:
        """Returns nothing: Dataflow's summary of a job has no stages."""
        return {}

    def cause(self, job_id: str) -> str:
        """Returns the last error among a job's messages; "" if there is none."""
        from google.cloud import dataflow_v1beta3 as api

        least = api.JobMessageImportance.JOB_MESSAGE_ERROR
        request = {"project_id": self.project, "location": self.region, "job_id": job_id, "minimum_importance": least}
        with self._translate_errors():
            texts = [m.message_text for m in self._messages.list_job_messages(request=request, timeout=self._timeout)]
        lines = [line.strip() for line in (texts[-1] if texts else "").splitlines() if line.strip()]
        return lines[-1] if lines else ""

    def stop(self, name: str, sleep: Callable[[float], None] = time.sleep, tries: int = 30) -> None:
        """Cancels the job of a name and waits a minute for its end; does nothing if the job never appears."""
        from google.cloud import dataflow_v1beta3 as api

        asked = False
        for _ in range(tries):
            job = self.job(name)
            if job is not None and job.ended:
                return
            if job is not None and not asked:
                wanted = api.Job(requested_state=api.JobState.JOB_STATE_CANCELLED)
                request = {"project_id": self.project, "location": self.region, "job_id": job.id, "job": wanted}
                with self._translate_errors():
                    self._jobs.update_job(request=request, timeout=self._timeout)
                asked = True
            sleep(2.0)

    @cached_property
    def _jobs(self) -> Any:
        return self._given[0] or self._client("JobsV1Beta3Client")

    @cached_property
    def _messages(self) -> Any:
        return self._given[1] or self._client("MessagesV1Beta3Client")

    def _client(self, kind: str) -> Any:
        from google.cloud import dataflow_v1beta3 as api

        if self._endpoint is None:
            return getattr(api, kind)()
        return getattr(api, kind)(client_options={"api_endpoint": self._endpoint.rstrip("/")}, transport="rest")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError

        try:
            yield
        except (GoogleAPIError, GoogleAuthError, OSError) as error:
            raise Unreachable(f"{self.title} does not answer: {type(error).__name__}: {error}"[:500]) from None
