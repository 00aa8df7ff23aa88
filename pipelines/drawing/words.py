"""Says numbers, names and verdicts of runs in words, the same for terminals, pages and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...schemas.json import Json
from ...schemas.run_folder import FINISHED

NOTHING = "–"
"""Placeholder for a value that does not exist."""
_CALLS_LEFT = (("not_called", "not called"), ("over_budget", "over budget"))


def number(value: Json) -> str:
    """Formats a statistic with three decimals, or three significant digits if it is very small or large."""
    if value is None:
        return NOTHING
    if value == 0 or 0.001 <= abs(value) < 10_000:
        return f"{value:.3f}"
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1e9 else f"{value:.3g}"


def signed(value: Json) -> str:
    """Formats a difference, positive ones with their sign."""
    return NOTHING if value is None else f"+{number(value)}" if value > 0 else number(value)


def share(value: Json) -> str:
    """Formats a share in [0, 1] as a percentage."""
    return NOTHING if value is None else f"{100 * value:.1f} %"


def interval(row: Mapping[str, Json], prefix: str = "") -> str:
    """Formats the confidence interval of a mean in a row of the summary table; `prefix` begins its columns."""
    low, high = row[f"{prefix}ci_low"], row[f"{prefix}ci_high"]
    return NOTHING if low is None or high is None else f"{number(low)} … {number(high)}"


def slice_name(values: Mapping[str, Json]) -> str:
    """Formats a slice as column=value, ..."""
    return ", ".join(f"{k}={NOTHING if v is None else v}" for k, v in values.items())


def state_verdict(manifest: Mapping[str, Json]) -> tuple[str, str]:
    """Returns the verdict of a run, or else its state, and the number of criteria that were met; "" without criteria.

    Args:
        manifest: Manifest of the run.
    """
    state = manifest["state"]
    if state != FINISHED or manifest.get("reason"):
        return ("NO RESULT" if state == FINISHED else f"RUN {state.upper()}"), ""
    judged = manifest.get("criteria") or []
    if not judged:
        return "RUN FINISHED", ""
    met = sum(j["verdict"] == "PASSED" for j in judged)
    return manifest["verdict"], f"{met}/{len(judged)} criteria"


def say_decision(manifest: Mapping[str, Json]) -> str:
    """Says whether the followed metric of a run is decided, and after how many rows; "" if none is followed."""
    return (manifest.get("sequential") or {}).get("text", "")


def count_parts(manifest: Mapping[str, Any]) -> list[str]:
    """Formats each number of rows by outcome, and the duration of the run."""
    counts = manifest["counts"]
    parts = [count(counts["rows"], "row")]
    trials = (manifest.get("config") or {}).get("trials", 1)
    if trials > 1:
        parts[0] += f" × {trials} trials"
    if recorded := manifest.get("trials"):
        taken = ", taken for dataset.trial" if recorded["taken"] else ""
        parts.append(f"trials {recorded['first']} to {recorded['last']} by column {recorded['column']}{taken}")
    if counts["rejected"]:
        parts.append(f"{counts['rejected']:,} unusable")
    if counts.get("failed"):
        parts.append(count(counts["failed"], "call") + " failed")
    parts += [f"{counts[status]:,} {words}" for status, words in _CALLS_LEFT if counts.get(status)]
    return [*parts, f"{manifest['measured']['seconds']:,.1f} s"]


def build_headline(manifest: Mapping[str, Json]) -> tuple[str, list[str]]:
    """Returns the verdict of a run, or its state, and the other parts of the sentence."""
    verdict, criteria = state_verdict(manifest)
    return verdict, [part for part in (criteria.replace("/", " of "), *count_parts(manifest)) if part]


def count(number: int, noun: str) -> str:
    """Formats a number of things, in the plural if it is not one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ranges_of(manifest: Mapping[str, Json]) -> dict[str, tuple[float, float]]:
    """Maps each metric with a range to its (worst, best) scores."""
    return {m["name"]: (m["worst"], m["best"]) for m in manifest.get("metrics", ()) if m["worst"] is not None}
