"""Draws results for notebooks: verdict, forest plots and a table, without a script, in less than 100 kB."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ...schemas.comparison import Difference
from ...schemas.json import Json
from .figures import build_statistics, draw_metrics
from .gains import count_verdicts, draw_gains
from .plots import Row
from .templates import fill, read_plots
from .words import build_headline

MOST_METRICS = 40
"""Metrics drawn; the tables have all."""


def draw_run(manifest: Mapping[str, Json], summary: Iterable[Row], place: str) -> str:
    """Draws a run.

    Args:
        manifest: Its manifest.
        summary: Rows of its summary table, each `slice` as a dict.
        place: Its folder.
    """
    whole = [row for row in summary if not row["slice"]]
    shown = whole[:MOST_METRICS]
    forests, table = draw_metrics(manifest, shown), build_statistics(shown)
    head, hidden = build_headline(manifest), len(whole) - len(shown)
    return _fill(head=head, place=place, forests=forests, gains=(), table=table, hidden=hidden)


def draw_comparison(
    verdict: str,
    differences: Sequence[Difference],
    decisive: Sequence[Difference],
    deciding: Collection[str],
    place: str,
) -> str:
    """Draws a comparison.

    Args:
        verdict: What it shows.
        differences: Difference of each metric and slice.
        decisive: Those that decide.
        deciding: The metrics that decide.
        place: The folders of both runs.
    """
    whole = [one for one in differences if not one.slice]
    gains = draw_gains(whole[:MOST_METRICS], deciding)
    head, hidden = count_verdicts(verdict, decisive), max(len(whole) - MOST_METRICS, 0)
    return _fill(head=head, place=place, forests=(), gains=gains, table=None, hidden=hidden)


def _fill(**values: object) -> str:
    return fill("card.html", style=read_plots(), **values)
