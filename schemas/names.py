"""Names of output columns and aggregates: evalbeam's own, Databricks Agent Evaluation's or MLflow 3's.

| of a metric | `flat` | `databricks` | `mlflow3` |
|---|---|---|---|
| score | `<metric>/score` | `<path>/rating` of judges, yes or no; else `<path>` | `<metric>/value` |
| explanation | `<metric>/explanation` | `<path>/rationale` | `<metric>/rationale` |
| error | `<metric>/error` | `<path>/error_message` | `<metric>/error_message` |
| mean | `<metric>/mean` | `<path>/rating/percentage`, `<path>/average` | `<metric>/mean` |

`<path>` is the metric's path in Agent Evaluation, such as `response/llm_judged/correctness`. A metric that it does not
have, or that the configuration renames, gets `metric/<metric>/value` and `metric/<metric>/average`. Parts that the
other products do not have (status, confidence) keep evalbeam's names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from .formats.databricks import JUDGES as _JUDGES
from .formats.databricks import OVERALL
from .json import Json

Style: TypeAlias = Literal["flat", "databricks", "mlflow3"]

PERFORMANCE = ("latency_in_seconds", "failure")
"""Metrics whose column is `<metric>` instead of `<metric>/score`."""

WIN_RATES: Mapping[str, str] = {
    "CANDIDATE": "candidate_model_win_rate",
    "BASELINE": "baseline_model_win_rate",
    "TIE": "tie_rate",
}
"""Verdict of a pairwise metric -> its rate."""
RATES = tuple(f"/{rate}" for rate in WIN_RATES.values())
"""Endings of the summary rows that a pairwise metric has instead of one of its own."""

RATINGS: Mapping[float, str] = {1.0: "yes", 0.0: "no"}
"""Scores of yes-or-no judges as text, for styles of `output.column_style` that write them so."""
CATEGORIES: Mapping[str, Mapping[float, str]] = {
    "mlflow/user_frustration": {1.0: "none", 0.5: "resolved", 0.0: "unresolved"}
}
"""Registered name of a judge with categories -> the category of each score."""
WORD_SCORES = {word: score for words in (RATINGS, *CATEGORIES.values()) for score, word in words.items()}
"""The score of each word that may be written instead of it."""

JUDGES = {**_JUDGES, OVERALL.name: OVERALL}
_COMPUTED: Mapping[str, str] = {
    "document_recall": "retrieval/ground_truth/document_recall",
    "document_ratings": "retrieval/ground_truth/document_ratings",
    "total_token_count": "agent/total_token_count",
    "total_input_token_count": "agent/total_input_token_count",
    "total_output_token_count": "agent/total_output_token_count",
    "latency_in_seconds": "agent/latency_seconds",
}
_SPELLINGS: Mapping[str, str] = {
    "input_token_count": "total_input_token_count",
    "output_token_count": "total_output_token_count",
    "chunk_relevance_precision": "chunk_relevance",
}
"""Spelling in the documentation -> spelling in the product's output."""
_OURS = ("", "databricks", "agent", "response", "retrieval", "chain")
_PARTS = ("score", "explanation", "pairwise_choice", "confidence", "details", "status", "error")
_WORDS: Mapping[str, str] = {"score": "value", "explanation": "rationale", "error": "error_message"}


def registered_names(metrics: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Maps output names to registered names, from a configuration's (name, metric); "" for metrics given as objects."""
    return {name: metric if isinstance(metric, str) else "" for name, metric in metrics}


def find_known_name(metric: str, registered: str) -> str:
    """Returns the name of a metric in Agent Evaluation, "" if it has none.

    Args:
        metric: Output name of the metric.
        registered: Registered name of the metric, as configured.
    """
    name = registered.removesuffix("/rating").rpartition("/")[2]
    name = _SPELLINGS.get(name, name)
    own = metric not in (registered, registered.partition("/")[2]) and not metric.startswith(f"{name}/")
    if own or registered.partition("/")[0] not in (*_OURS, registered):
        return ""
    return name if name in _COMPUTED or name in JUDGES else ""


def score_words(style: str, metric: str, registered: str) -> Mapping[float, str]:
    """Returns the words that are written instead of scores, those of judges in the styles of other products.

    Empty if scores are written as numbers.
    """
    if style == "flat":
        return {}
    if registered.startswith("mlflow/"):
        return CATEGORIES.get(registered, RATINGS)
    name = find_known_name(metric, registered) or (style == "mlflow3" and _find_renamed_judge(registered))
    return RATINGS if name in JUDGES and name != "chunk_relevance" else {}


def _find_renamed_judge(registered: str) -> str:
    """Returns the judge behind a name of the user's own, "" if there is none: scorers of MLflow 3 have such names."""
    family, _, name = registered.partition("/")
    return name if family == "databricks" and name in JUDGES else ""


def titles(style: str, metric: str, registered: str) -> dict[str, str]:
    """Returns the column name of each part of a metric (score, explanation ...); empty if evalbeam's names apply."""
    name = find_known_name(metric, registered)
    if metric in PERFORMANCE:
        return {"score": _COMPUTED[name]} if style == "databricks" and name else {}
    if style == "databricks":
        return _build_databricks_titles(metric, name, registered.rpartition("/")[2])
    if style == "mlflow3":
        path = _add_guideline_name(JUDGES[name].scorer if name in JUDGES else metric, metric, name)
        passages = "chunk_relevance" in (name, _find_renamed_judge(registered))
        words = {**_WORDS, "score": "precision"} if passages else _WORDS
        return {part: f"{path}/{words.get(part, part)}" for part in _PARTS}
    return {}


def aggregates(style: str, metric: str, registered: str, row: Mapping[Any, Json]) -> dict[str, Json]:
    """Returns the entries of a run's metrics dictionary for one summary row of the whole dataset.

    Means are over scored rows; `judge/<judge>/error_count` counts scores that failed, not rows that lack an input.
    """
    if style == "mlflow3":
        path = titles(style, metric, registered).get("score", metric)
        return {f"{path.removesuffix('/value')}/mean": row["mean"]}
    if style != "databricks":
        return {f"{metric}/mean": row["mean"], f"{metric}/std": row["std"]}
    name = find_known_name(metric, registered)
    path = titles(style, metric, registered).get("score", metric)
    if name not in JUDGES:
        return {f"{path.removesuffix('/value')}/average": row["mean"]}
    share = "average" if name == "chunk_relevance" else "percentage"
    found = {f"{path}/{share}": row["mean"]}
    return (
        found
        if name == OVERALL.name
        else found | {f"judge/{_add_guideline_name(name, metric, name)}/error_count": row["error_count"]}
    )


def _build_databricks_titles(metric: str, name: str, asked: str) -> dict[str, str]:
    """Builds the titles of a metric; a metric that was asked for in a spelling of the documentation keeps it."""
    if name in JUDGES:
        path = _add_guideline_name(JUDGES[name].column, metric, name)
        words = {**_WORDS, "score": "precision" if name == "chunk_relevance" else "rating"}
    else:
        path, words = _COMPUTED.get(name) or f"metric/{metric}", _WORDS
    found = {part: f"{path}/{words.get(part, part)}" for part in _PARTS}
    if name == "document_ratings":
        found |= {"details": path, "score": f"{path}/precision"}
    elif name in _COMPUTED:
        found["score"] = path
    if name and asked in _SPELLINGS:
        found["score"] = f"{path.rpartition('/')[0]}/{asked}"
    return found


def documented_spelling(title: str) -> str:
    """Returns the spelling in the documentation of a column or aggregate of Agent Evaluation."""
    for documented, ours in _DOCUMENTED.items():
        if title == ours or title.startswith(f"{ours}/"):
            return documented + title.removeprefix(ours)
    return title


_DOCUMENTED: Mapping[str, str] = {
    "agent/input_token_count": "agent/total_input_token_count",
    "agent/output_token_count": "agent/total_output_token_count",
    "retrieval/llm_judged/chunk_relevance_precision": "retrieval/llm_judged/chunk_relevance/precision",
}
"""Column in the documentation -> column in the product's output."""


def _add_guideline_name(path: str, metric: str, name: str) -> str:
    """Returns the path of a judge, with the name of its guidelines if they have one (`guideline_adherence/english`)."""
    return f"{path}/{metric.removeprefix(f'{name}/')}" if name and metric.startswith(f"{name}/") else path
