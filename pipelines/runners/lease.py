"""Leases: one run at a time may write to an output.

`<run>/lease/<n>` is a small JSON object that names the holder. Objects are never changed: the next holder creates n +
1, which only one of several can do, and only if n was released or its holder is gone. The storage needs to support only
create-if-absent. `cancel` and `wait` find the engine's job in the latest lease.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from ...schemas.errors import ConfigError
from ...schemas.run_folder import RunFolder
from ...transforms.io import storage
from .clusters import jobs_at
from .jobs import Unreachable

SUBMITTED_IN = 600.0
"""Seconds after which a job that another machine submitted, and that has not arrived, never will."""
_RELEASED = ".released"


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lease: a process, and its job if that runs elsewhere.

    Attributes:
        host, process, began: The process that started the run: its machine, id, and start time as the system tells it.
        engine: Name of the engine.
        master: Address of the engine the job was sent to, see `jobs_at`; `None` if it runs with the process.
        job: Name of the engine's job.
        token: Unique for each holder.
        since: Time when the lease was taken, in seconds since 1970 by the clock of its machine.
    """

    host: str
    process: int
    began: str
    engine: str
    master: str | None = None
    job: str | None = None
    token: str = ""
    since: float = 0.0

    @classmethod
    def here(cls, engine: str, master: str | None = None, job: str | None = None) -> Holder:
        """Returns a holder for this process; its job gets a unique name unless one is given."""
        token = uuid.uuid4().hex
        return cls(
            socket.gethostname(),
            os.getpid(),
            _began(os.getpid()),
            engine,
            master,
            job or f"evalbeam-{token}",
            token,
            time.time(),
        )

    @property
    def who(self) -> str:
        """The process that started the run, for messages."""
        return f"process {self.process} on {self.host}"

    def state(self) -> str:
        """Returns "running", "gone", or "unknown" if this machine cannot tell."""
        if self.master is not None:
            try:
                job = jobs_at(self.master).job(self.job or "")
            except Unreachable:
                return "unknown"
            if job is not None:
                return "gone" if job.ended else "running"
        if self.host != socket.gethostname():
            submitting = time.time() - self.since < SUBMITTED_IN
            return "unknown" if self.master is None else "running" if submitting else "gone"
        return "running" if self.began and _began(self.process) == self.began else "gone"

    def end(self) -> None:
        """Ends the job on its engine, or the process if there is no such job.

        Raises:
            ConfigError: The process is on another machine.
            Unreachable: The engine does not answer.
        """
        if self.master is not None:
            jobs_at(self.master).stop(self.job or "")
        elif self.host == socket.gethostname():
            os.kill(self.process, signal.SIGTERM)
        else:
            found = f"process {self.process} runs on {self.host}"
            raise ConfigError(found, where="cancel --now", allowed="the same machine; or cancel without --now")


@dataclass(frozen=True, slots=True)
class Lease:
    """One lease: its number, its holder, and whether it was released."""

    number: int
    holder: Holder
    released: bool


def latest(output: str) -> Lease | None:
    """Reads the latest lease of a run; `None` if it never had one.

    Raises:
        ConfigError: The leases cannot be listed.
    """
    missed = None
    while (found := _numbered(output)) is not None:
        number, released = found
        path = _path(output, number)
        try:
            return Lease(number, Holder(**orjson.loads(storage.read_bytes(path))), released)
        except Exception:  # each filesystem has its own exceptions
            if number == missed or storage.exists(path):
                raise
        missed = number  # the holder of a later lease has deleted this one since the folder was listed
    return None


def _numbered(output: str) -> tuple[int, bool] | None:
    """Finds the number of the latest lease, and whether it was released."""
    folder = RunFolder(output).leases
    try:
        names = [path.rpartition("/")[2] for path in storage.below(folder)]
    except Exception as error:  # of object storage alone
        raise ConfigError(f"cannot be listed: {_reason(error)}", where=folder) from error
    number = max((int(n) for n in names if n.isdecimal()), default=None)
    return None if number is None else (number, f"{number:06d}{_RELEASED}" in names)


@contextlib.contextmanager
def held(output: str, holder: Holder, last: Lease | None, *, leave: bool = False) -> Iterator[None]:
    """Holds the lease of a run during the context; it is released at the end unless the process is killed.

    Args:
        output: Folder of the run.
        holder: The new holder.
        last: As of `take`.
        leave: Leave the lease to the job, which continues without this process, unless there is an error.

    Raises:
        ConfigError: As `take`.
    """
    number, done = take(output, holder, last), False
    try:
        yield
        done = True
    finally:
        if not (done and leave):
            storage.write_bytes(_path(output, number) + _RELEASED, b"")


def take(
    output: str, holder: Holder, last: Lease | None, create: Callable[[str, bytes], bool] = storage.create_new
) -> int:
    """Takes the lease of a run; returns its number.

    Args:
        output: Folder of the run.
        holder: The new holder.
        last: The latest lease. What was read after it and before this call is as it was: if another start has taken a
            lease meanwhile, this one does not get its own.
        create: Writes a file unless it exists, and returns whether it did.

    Raises:
        ConfigError: Another run writes there, or may do so; or nothing can be written there.
    """
    if (obstacle := find_obstacle(output, last)) is not None:
        raise obstacle
    number = 1 if last is None else last.number + 1
    with _writing(output):
        create(_path(output, number), orjson.dumps(asdict(holder)))
    now = latest(output)
    if now is not None and now.holder != holder:  # another process was faster, or holds a later lease by now
        raise _refuse(output, now, "running")
    storage.delete([_path(output, n) + end for n in range(max(1, number - 3), number) for end in ("", _RELEASED)])
    return number


def require_writable(output: str) -> None:
    """Checks that a run can write to a folder; changes nothing.

    Raises:
        ConfigError: Nothing can be written there.
    """
    with _writing(output):
        storage.try_folder(RunFolder(output).leases)


@contextlib.contextmanager
def _writing(output: str) -> Iterator[None]:
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:  # each filesystem has exceptions of its own
        found = f"nothing can be written to {output!r}: {_reason(error)}"
        allowed = "a folder, new or not, that this process may write to"
        raise ConfigError(found, where="output.path", allowed=allowed) from error


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())[:300]


def find_obstacle(output: str, last: Lease | None) -> ConfigError | None:
    """Returns why the next lease cannot be taken, given the latest one; `None` if it can."""
    if last is None or last.released or (state := last.holder.state()) == "gone":
        return None
    return _refuse(output, last, state)


def _refuse(output: str, lease: Lease, state: str) -> ConfigError:
    who = lease.holder.who
    if state == "running":
        allowed = "wait for its end (`evalbeam wait`), or stop it (`evalbeam cancel`)"
        return ConfigError(f"{output} is being written by another run ({who})", where="output.path", allowed=allowed)
    found = f"{output} may be written by another run ({who}), which cannot be checked from here"
    return ConfigError(found, where="output.path", allowed=how_to_free(output, lease))


def how_to_free(output: str, lease: Lease) -> str:
    """Returns the advice for a lease whose holder cannot be checked from here."""
    path = _path(output, lease.number)
    return f"once {lease.holder.who} has ended, delete {path}; then run the same command again to resume"


def _path(output: str, number: int) -> str:
    return storage.join(RunFolder(output).leases, f"{number:06d}")


def _began(process: int) -> str:
    """Returns when a process started, in the system's own unit; "" if there is none with that id."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return _alive(process)
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]


def _alive(process: int) -> str:
    if Path("/proc/self/stat").exists():
        return ""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        pass
    return "alive"
