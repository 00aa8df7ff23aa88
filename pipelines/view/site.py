"""What the server shows under which path: one run, two that are compared, or the runs of a folder; nothing else."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import unquote

from ...schemas.errors import ConfigError
from ...schemas.run_folder import RunFolder
from ...transforms.io import storage
from .pages import ComparisonPage, Data, RunPage, RunsPage, Shown, Wanted


class Site:
    """Answers paths below the token: "" is the first page, "NAME/" the page of a run beside it."""

    def __init__(self, folder: str) -> None:
        """Shows nothing yet.

        Args:
            folder: An existing folder for copies of files.
        """
        self._folder = folder
        self._pages: dict[str, Shown] = {}
        self._runs: RunsPage | None = None

    def open(self, path: str, other: str | None = None) -> str:
        """Chooses what is shown: a run, the runs of a folder, or the comparison of two runs.

        Returns:
            What it is, in words.

        Raises:
            ConfigError: There is no run.
        """
        if other is not None:
            for one in (path, other):
                _require_run(one)
            compared = ComparisonPage(path, other, self._folder)
            self._pages = {"": compared, "before": self._run(path), "after": self._run(other)}
            return f"{other} against {path}"
        if storage.exists(RunFolder(path).manifest):
            self._pages = {"": self._run(path)}
            return path
        runs = RunsPage(path)
        if not runs.list_runs():
            _require_run(path)
        self._pages, self._runs = {"": runs}, runs
        return f"the runs in {path}"

    def answer(self, path: str, given: Any, wanted: Wanted) -> str | Data | None:
        """Answers a request: text is a page; `None` if there is nothing at the path.

        Raises:
            ConfigError: The request has a mistake, or a run cannot be shown.
            Superseded: Nobody waits for the answer any longer.
        """
        place, _, name = path.rpartition("/")
        shown = self._find(unquote(place))
        if shown is None:
            return None
        return shown.ask(name, given, wanted) if name else shown.page()

    def prepare(self) -> None:
        """Renders the first page while the browser starts; what is wrong with it is told to who asks for it."""
        with contextlib.suppress(Exception):
            self._pages[""].page()

    def _find(self, place: str) -> Shown | None:
        """Finds the page at a place, which is looked up among the names of runs and never becomes a path of a file."""
        if place not in self._pages and self._runs is not None:
            path = self._runs.list_runs().get(place)
            if path is not None:
                self._pages[place] = self._run(path)
        return self._pages.get(place)

    def _run(self, path: str) -> RunPage:
        return RunPage(path, self._folder)


def _require_run(path: str) -> None:
    """Says what a folder is that has no manifest.

    Raises:
        ConfigError: It has none.
    """
    run = RunFolder(path)
    if storage.exists(run.manifest):
        return
    halves = [place for place in (run.journals, run.leases, run.temporary(), run.batches) if storage.below(place)]
    if halves:
        words = "holds half a run: it has no manifest.json, which a run writes last"
        raise ConfigError(
            words, where=path, allowed=f"a finished run; `evalbeam journal {path}` shows the calls so far"
        )
    raise ConfigError("is no run, and has none in it (no manifest.json)", where=path, allowed="the folder of a run")
