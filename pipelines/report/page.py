"""Writes a finished run as one self-contained HTML page that needs no network and can be read without its script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...schemas.run_folder import RunFolder
from ...transforms.io import storage
from ...transforms.runtime.collector import relaxed_collector
from ..display.digest import note_empty_columns
from ..display.terminal import FAULTS
from ..drawing.figures import build_statistics, draw_metrics, draw_slices
from ..drawing.words import build_headline, say_decision
from ..run.result import EvaluationResult
from ..run.tables import Row, summary_rows
from . import overview
from .overview import Gate
from .scan import Scan, scan
from .shell import fill_page

MOST_GROUPS = 12
"""Groups of failures on the page, as many failed checks, and as many slices that are worse than the rest."""


def write_report(result: EvaluationResult, gate: Gate = None) -> str:
    """Writes the page next to the tables of a run, replacing an existing one; the same run gives the same bytes.

    Args:
        result: The run.
        gate: The comparison with the run of its gate, or why there is none.

    Returns:
        The path of the page.
    """
    path = RunFolder(result.output).report
    with storage.replacing(path) as stream:
        for piece in _render(result, gate):
            stream.write(piece.encode("utf-8", "replace"))
    return path


def render_page(result: EvaluationResult, gate: Gate = None) -> str:
    """Renders the whole page, see `write_report`."""
    return "".join(_render(result, gate))


def _render(result: EvaluationResult, gate: Gate) -> Iterator[str]:
    """Renders the page in pieces: the rows that it holds are megabytes."""
    summary = summary_rows(result)
    with relaxed_collector():
        yield from fill_report(result, summary, scan(result, summary), gate)


def fill_report(
    result: EvaluationResult, summary: Sequence[Row], found: Scan, gate: Gate = None, *, served: bool = False
) -> Iterator[str]:
    """Fills the page of a run, in pieces.

    Args:
        result: The run.
        summary: Rows of its summary table.
        found: What its rows show.
        gate: The comparison with the run of its gate, or why there is none.
        served: Whether the explorer's script asks a server for the rows.
    """
    whole = [r for r in summary if not r["slice"]]
    errors, error_count = overview.build_errors(result)
    return fill_page(
        "report.html",
        scripted=True,
        served=served,
        title=f"Evaluation {result.output}",
        head=build_headline(result.manifest),
        reason=result.reason or say_decision(result.manifest),
        facts=overview.list_facts(result),
        criteria=overview.list_criteria(result, gate),
        statistics=build_statistics(whole),
        forests=draw_metrics(result.manifest, whole),
        slices=[(p, note_empty_columns(p.columns, p.slices)) for p in draw_slices(result.manifest, summary)],
        groups=overview.list_groups(result),
        worst=overview.list_worst_slices(result),
        scan=found,
        most_groups=MOST_GROUPS,
        output=result.output,
        unscored=overview.build_unscored(result, summary),
        judges=overview.build_judges(result),
        errors=errors,
        error_count=error_count,
        faults=FAULTS,
        config=result.manifest.get("config"),
        versions=result.manifest.get("versions"),
    )
