"""The pages that the server shows: a run, the comparison of two, and the runs of a folder."""

from __future__ import annotations

import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import NamedTuple, Protocol

import numpy as np

from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ...transforms.io import storage
from ..compare import Comparison, compare
from ..paired_runs import PairedRuns
from ..report.comparison import render_comparison
from ..report.page import render_page
from ..report.rows import find_roles
from ..report.runs import render_runs
from ..run.columns import Floats, compute
from ..run.result import EvaluationResult
from ..run.tables import has_instances
from .changes import Scored, judge_rows
from .run_view import Given, RunView
from .table import RunTable


class Data(NamedTuple):
    """An answer that is no page."""

    value: Json


Wanted = Callable[[], bool]
"""Tells whether somebody still waits for an answer."""


class Shown(Protocol):
    """Something with a page."""

    def page(self) -> str:
        """Renders the page, of what is there now."""
        ...

    def ask(self, name: str, given: Given, wanted: Wanted) -> Data | None:
        """Answers what the script of the page asks for; `None` if there is nothing under that name."""
        ...


class RowsPage(ABC):
    """A page with rows, which its script asks for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._view: RunView | None = None
        self._page = ""

    @abstractmethod
    def page(self) -> str:
        """Renders the page, and opens its rows."""

    def ask(self, name: str, given: Given, wanted: Wanted) -> Data | None:
        """Answers for rows."""
        if self._view is None:
            self.page()
        if self._view is None or name not in ("rows", "row"):
            return None
        return Data((self._view.find if name == "rows" else self._view.open)(given, wanted))


class RunPage(RowsPage):
    """The page of a run."""

    def __init__(self, path: str, folder: str) -> None:
        """Reads nothing yet.

        Args:
            path: Folder of the run.
            folder: An existing folder for copies of its files.
        """
        super().__init__()
        self.path, self._folder = path, folder
        self._manifest: Json = None

    def page(self) -> str:
        """Renders the page; a run that was written anew since is read anew.

        Raises:
            ConfigError: There is no run, or one that cannot be shown.
        """
        with self._lock, readable(self.path):
            result = EvaluationResult.load(self.path)
            if result.manifest != self._manifest:
                self._view = self._open(result)
                self._page = self._view.page() if self._view else render_page(result)
                self._manifest = result.manifest
            return self._page

    def _open(self, result: EvaluationResult) -> RunView | None:
        """Opens the rows; `None` if the run wrote none."""
        return RunView(result, tempfile.mkdtemp(dir=self._folder)) if has_instances(result) else None


_CHANGE = "change"
"""Name of the column that says how a row changed."""


class ComparisonPage(RowsPage):
    """The page of a comparison, and the rows of the second run with what changed."""

    def __init__(self, before: str, after: str, folder: str) -> None:
        """Reads nothing yet.

        Args:
            before, after: Folders of the runs.
            folder: An existing folder for copies of their files.
        """
        super().__init__()
        self.before, self.after, self._folder = before, after, folder

    def page(self) -> str:
        """Renders the page once.

        Raises:
            ConfigError: The runs cannot be compared.
        """
        with self._lock, readable(f"{self.before} and {self.after}"):
            if not self._page:
                comparison = compare(self.before, self.after)
                self._view = self._open(PairedRuns(*map(EvaluationResult.load, (self.before, self.after))), comparison)
                self._page = render_comparison(comparison, rows=self._view.describe())
            return self._page

    def _open(self, runs: PairedRuns, comparison: Comparison) -> RunView:
        """Opens the rows of the second run, with the scores of the first and the changes as further columns."""
        view = RunView(runs.after, tempfile.mkdtemp(dir=self._folder))
        table = RunTable(runs.before, tempfile.mkdtemp(dir=self._folder))
        places = find_pairs(table, view.table)
        change = _CHANGE if _CHANGE not in view.table.types else f"comparison/{_CHANGE}"
        roles, found = find_roles(runs.after), {}
        shown = [change, "status", roles["prompt"], roles["response"]]
        metrics, facts = runs.scored(comparison.deciding), runs.facts()
        scales = runs.scales(metrics)
        for name in metrics:
            score = f"{name}/score"
            if score not in table.types or score not in view.table.types:
                continue
            before: Floats = np.append(table.numbers(score), np.nan)[places]
            after = view.table.numbers(score)
            best = facts[name]["best"] if facts[name]["better"] == "nearer" else None
            found[name] = Scored(scales[name], best, before, after)
            view.table.add(f"{name}/before", before)
            view.table.add(f"{name}/change", after - before)
            shown += [score, f"{name}/change"]
        view.table.add_words(change, *judge_rows(found, places < table.size))
        view.columns_shown, view.chosen_by, view.sort = shown[:10], [change], change
        return view


def find_pairs(before: RunTable, after: RunTable) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Finds the place of each row's instance and trial in another table; the size of that table where there is none."""
    keys = [
        compute.binary_join_element_wise(table.column("instance_id"), table.column("trial").cast("string"), "\x1f")
        for table in (before, after)
    ]
    return compute.index_in(keys[1], value_set=keys[0]).fill_null(before.size).to_numpy().astype(np.int64)


class RunsPage:
    """The list of the runs in a folder, each with its page below it."""

    def __init__(self, folder: str) -> None:
        """Reads nothing yet."""
        self.folder = folder

    def list_runs(self) -> dict[str, str]:
        """Maps the names of runs directly in the folder to their paths."""
        found = sorted(path.rpartition("/")[0] for path, _ in storage.matched_in(self.folder, "*/manifest.json"))
        return {path.rpartition("/")[2]: path for path in found}

    def page(self) -> str:
        """Renders the list of what is there now."""
        with readable(self.folder):
            return render_runs(self.folder, self.list_runs())

    def ask(self, name: str, given: Given, wanted: Wanted) -> Data | None:
        """Nothing is asked by a page without a script."""
        return None


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Says of a manifest or table of another version that it is one.

    Raises:
        ConfigError: Something is missing in it, or is something else.
    """
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        found = f"its files are not what evalbeam {version('evalbeam')} writes ({type(error).__name__}: {error})"
        allowed = "a run of this version: evalbeam run --replay scores the answers again"
        raise ConfigError(f"cannot be shown: {found}", where=path, allowed=allowed) from error
