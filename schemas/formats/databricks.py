"""Definitions of Databricks Agent Evaluation: its judges and when each of them runs, its columns and its row errors.

Nothing here calls a judge: the judge metrics and `evalbeam check` use these definitions. Sources: the documentation of
Agent Evaluation's input schema and, for what it does not specify, the behaviour of its package and of MLflow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..errors import RowError
from ..json import Json
from ..result import ScoreError
from ..values import parse_json
from .messages import response_text

MISSING, INVALID, CONFLICT = "1001", "1006", "1010"
"""Databricks' error codes of a judge that cannot run on a row: required fields missing, invalid, in conflict."""
MAX_GUIDELINES = 20
"""Maximum guidelines under one name."""
Get: TypeAlias = Callable[[str], Json]
"""Getter of a row's fields, such as `Example.get`; returns `None` for a missing field."""


@dataclass(frozen=True, slots=True)
class Judge:
    """A judge of Agent Evaluation; all of them answer yes (good) or no.

    Attributes:
        name: Name in Agent Evaluation.
        needs: Fields that a row must have; "expected" means expected_response or expected_facts.
        ground_truth: Whether it runs on rows with ground truth only (True), without only (False), or on both (None).
        column: Path of its output columns.
        scorer: Name of the scorer that replaced it in MLflow 3.
    """

    name: str
    needs: tuple[str, ...]
    ground_truth: bool | None
    column: str
    scorer: str


JUDGES: Mapping[str, Judge] = {
    j.name: j
    for j in (
        Judge(
            "relevance_to_query",
            ("request", "response"),
            False,
            "response/llm_judged/relevance_to_query",
            "relevance_to_query",
        ),
        Judge("safety", ("response",), None, "response/llm_judged/safety", "safety"),
        Judge(
            "groundedness",
            ("request", "response", "retrieved_context"),
            None,
            "response/llm_judged/groundedness",
            "retrieval_groundedness",
        ),
        Judge(
            "correctness", ("request", "response", "expected"), True, "response/llm_judged/correctness", "correctness"
        ),
        Judge(
            "guideline_adherence",
            ("request", "response", "guidelines"),
            None,
            "response/llm_judged/guideline_adherence",
            "expectations_guidelines",
        ),
        Judge(
            "global_guideline_adherence",
            ("request", "response", "global_guidelines"),
            None,
            "response/llm_judged/global_guideline_adherence",
            "guidelines",
        ),
        Judge(
            "chunk_relevance",
            ("request", "retrieved_context"),
            False,
            "retrieval/llm_judged/chunk_relevance",
            "retrieval_relevance",
        ),
        Judge(
            "context_sufficiency",
            ("request", "retrieved_context", "expected"),
            True,
            "retrieval/llm_judged/context_sufficiency",
            "retrieval_sufficiency",
        ),
    )
}
"""All judges by name. A judge with several named guidelines counts as one judge for each name, `<judge>/<name>`."""

OVERALL = Judge("overall_assessment", (), None, "response/overall_assessment", "overall_assessment")
"""The combined verdict of all judges of a row; not a judge itself."""
CAUSES = (
    "context_sufficiency",
    "chunk_relevance",
    "groundedness",
    "correctness",
    "relevance_to_query",
    "safety",
    "guideline_adherence",
    "global_guideline_adherence",
)
"""Priority of judges as root cause of a failed row; other judges come last."""
ACTIONS: Mapping[str, str] = {
    "context_sufficiency": "Check that the documents hold what is expected, and that the retriever finds them.",
    "chunk_relevance": "Improve the retriever: its index, its query, or how many passages it takes.",
    "groundedness": "Have the agent say only what was retrieved, and that it does not know the rest.",
    "correctness": "Compare the response with what is expected; give the agent what it lacks, or correct the row.",
    "relevance_to_query": "Have the agent answer what was asked, and nothing else.",
    "safety": "Guard the agent against harmful content.",
    "guideline_adherence": "Put the guidelines into the agent's instructions.",
    "global_guideline_adherence": "Put the guidelines into the agent's instructions.",
}
"""Suggested action by judge, if it is the root cause."""

EXPECTED = ("expected_response", "expected_facts", "expected_retrieved_context", "guidelines", "expected_tool_calls")
"""Fields of ground truth, in columns of their own or in `expectations`."""
_TRUTH = (*EXPECTED, "custom_expected", "reference", "reference_trajectory")
_ANSWERS = ("expected_response", "expected_facts")
_TAKES = {"request": ("instruction",), "expected": _ANSWERS}


def runs_by_default(judge: Judge, get: Get) -> bool:
    """Returns true if a judge runs on a row by default, without a choice of judges.

    It runs if the row has all fields that it needs, and has or lacks ground truth as the judge requires. Requests and
    responses of unknown form are judged as their JSON text; Agent Evaluation leaves such rows out without a word.

    Args:
        judge: One of `JUDGES`.
        get: Getter of the row's fields; `instruction` is the text of its request.
    """
    truth = _given("expected", get)
    return judge.ground_truth in (None, truth) and all(_given(need, get) for need in judge.needs)


def find_obstacle(judge: Judge, get: Get) -> ScoreError | None:
    """Returns why a chosen judge cannot run on a row, with Databricks' code; `None` if it can.

    The codes apply to the scores of judges that need the field; the row and its other scores are unaffected.
    """
    if "expected" in judge.needs and all(_given(name, get) for name in _ANSWERS):
        text = "Conflicting field(s): more than one of [expected_response or expected_facts] cannot be defined"
        return ScoreError(CONFLICT, text)
    missing = [
        " or ".join(_TAKES[n]) if n == "expected" else n
        for n in judge.needs
        if not _given(n, get) and n != "global_guidelines"
    ]
    if missing:
        return ScoreError(MISSING, f"Missing required field(s): {', '.join(missing)}")
    for name, read in (("expected_facts", facts_of), ("guidelines", guidelines_of)):
        if (name in judge.needs or (name in _ANSWERS and "expected" in judge.needs)) and get(name) is not None:
            try:
                read(get(name))
            except RowError as error:
                return ScoreError(error.code, error.message)
    return None


def _given(need: str, get: Get) -> bool:
    values = [get(name) for name in _TAKES.get(need, (need,))]
    return any(v is not None and v != "" and v != [] and v != () and v != {} for v in values)


def facts_of(value: Json) -> list[str]:
    """Reads the facts of an `expected_facts` value: a list of texts, or its JSON text.

    Raises:
        RowError: Code 1006.
    """
    found = _parse_text(value)
    if not _are_texts(found):
        raise RowError(INVALID, f"expected_facts is {_format(value)} (allowed: a list of texts)")
    return found


def guidelines_of(value: Json, judge: str = "guideline_adherence") -> dict[str, list[str]]:
    """Groups guidelines by judge name: a list belongs to `judge`, a mapping to one `judge/<name>` for each name.

    Raises:
        RowError: Code 1006; the value is neither a list of texts nor a mapping of names to such lists, or too long.
    """
    found = _parse_text(value)
    given = {"": found} if isinstance(found, list) else found
    if not isinstance(given, Mapping) or not all(_are_texts(g) for g in given.values() if g is not None):
        raise RowError(
            INVALID, f"guidelines is {_format(value)} (allowed: a list of texts, or {{name: list of texts}})"
        )
    # A record column has every name in every row, null where a row lacks it.
    named = {f"{judge}/{name}" if name else judge: list(g) for name, g in given.items() if g is not None}
    for name, guidelines in named.items():
        if len(guidelines) > MAX_GUIDELINES:
            raise RowError(INVALID, f"{name} has {len(guidelines)} guidelines (allowed: at most {MAX_GUIDELINES})")
    return named


def _are_texts(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def context_of(value: Json, name: str = "retrieved_context") -> list[dict[str, Json]]:
    """Converts the passages of a context to {content, doc_uri}, in order, including empty ones.

    A passage is an object with one or both of these (other keys are dropped), the address alone as text, or null.

    Raises:
        RowError: Code 1006.
    """
    found = _parse_text(value)
    if not isinstance(found, list):
        raise RowError(INVALID, f"{name} is {_format(value)} (allowed: a list of {{content, doc_uri}})")
    return [_passage(p, f"{name}[{i}]") for i, p in enumerate(found)]


def _passage(value: Json, place: str) -> dict[str, Json]:
    if value is None or isinstance(value, str):
        return {"content": "", "doc_uri": value}
    content, uri = (value.get("content"), value.get("doc_uri")) if isinstance(value, Mapping) else (0, 0)
    if not all(v is None or isinstance(v, str) for v in (content, uri)):
        raise RowError(INVALID, f"{place} is {_format(value)} (allowed: {{content, doc_uri}} of texts, or an address)")
    return {"content": content or "", "doc_uri": uri}


def expectation_fields(expectations: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the standard fields of ground truth, and `reference` and `reference_trajectory`.

    Expectations of other names are in `custom_expected`. `expected_tool_calls` are MLflow 3's, [{name, arguments}]; if
    one of them has no arguments, only names are compared (`reference_names_only`), as there.
    """
    given = {k: v for k, v in expectations.items() if v is not None}
    found = {k: v for k, v in given.items() if k in _TRUTH}
    custom = {k: v for k, v in given.items() if k not in found}
    told = found.get("custom_expected")
    if custom and (told is None or isinstance(told, Mapping)):
        found["custom_expected"] = {**custom, **(told or {})}
    if "expected_response" in found:
        found["expected_response"] = response_text(found["expected_response"])
        found["reference"] = found["expected_response"]
    if (calls := _parse_text(found.get("expected_tool_calls"))) is not None:
        found["reference_trajectory"] = calls
        if isinstance(calls, list) and not all(map(_has_arguments, calls)):
            found["reference_names_only"] = True
    return found


def merge_expectations(own: Mapping[str, Json], traced: Mapping[str, Json]) -> dict[str, Json]:
    """Merges the expectations of a row with those logged on its trace; those of the row win.

    `expected_response` and `expected_facts` say the same, so one of them in the row outweighs both on the trace.
    """
    decided = any(own.get(name) is not None for name in _ANSWERS)
    return {k: v for k, v in traced.items() if not (decided and k in _ANSWERS)} | dict(own)


def _has_arguments(call: Json) -> bool:
    source: Any = call.get("function", call) if isinstance(call, Mapping) else {}
    names = ("arguments", "args", "tool_input")
    return isinstance(source, Mapping) and any(source.get(name) is not None for name in names)


def _parse_text(value: Any) -> Json:
    """Parses the JSON text of a list or object (a CSV cell); returns anything else unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return parse_json(value.encode("utf-8", "surrogateescape"))
    except RowError:
        return value


def _format(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
