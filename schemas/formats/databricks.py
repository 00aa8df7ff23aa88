"""The words of Databricks Agent Evaluation: its judges and when each of them runs, its columns and its row errors.

Nothing here calls a judge: the tables are read by whoever runs one, and by `evalbeam check`. Sources: the documentation
of Agent Evaluation's input schema, and what its package and MLflow do where the documentation is silent.
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
"""Codes of Databricks for a judge that cannot run on a row: required fields missing, invalid, in conflict."""
MAX_GUIDELINES = 20
"""Guidelines under one name."""
Get: TypeAlias = Callable[[str], Json]
"""What a row says of a field, `Example.get`; `None` where it says nothing."""


@dataclass(frozen=True, slots=True)
class Judge:
    """A judge of Agent Evaluation; every one says yes (good) or no.

    Attributes:
        name: Its name there.
        needs: Fields a row must have; "expected" stands for expected_response or expected_facts.
        ground_truth: Whether it runs on rows with ground truth only (True), without only (False), or on both (None).
        column: Path of its output columns.
        scorer: Name of the scorer that took its place in MLflow 3.
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
"""All judges by name. One with several named guidelines is one judge for each name, `<judge>/<name>`."""

OVERALL = Judge("overall_assessment", (), None, "response/overall_assessment", "overall_assessment")
"""What all judges of a row come to; no judge itself."""
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
"""The order in which the root cause of a failed row is looked for; other judges come last."""
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
"""What may help where a judge is the root cause."""

_EXPECTED = ("expected_response", "expected_facts")
_TAKES = {"request": ("instruction",), "expected": _EXPECTED}


def runs(judge: Judge, get: Get) -> bool:
    """Whether a judge runs on a row where nobody chose the judges.

    It does where the row has all it needs and ground truth is there, or is not, as the judge asks. A request of no
    known form keeps all judges from running, a response of no known form those that need it.

    Args:
        judge: One of `JUDGES`.
        get: What the row says of a field. `instruction` is the text of its request and `response` that of its
            response; where they have no known form they are no text.
    """
    if not isinstance(get("instruction"), str):
        return False
    if "response" in judge.needs and not isinstance(get("response"), str):
        return False
    truth = _given("expected", get)
    return judge.ground_truth in (None, truth) and all(_given(need, get) for need in judge.needs)


def obstacle(judge: Judge, get: Get) -> ScoreError | None:
    """Why a judge that was chosen cannot run on a row, under Databricks' code; `None` where it can.

    The codes belong to the scores of the judges that need the field; the row and its other scores stand.
    """
    if "expected" in judge.needs and all(_given(name, get) for name in _EXPECTED):
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
        if (name in judge.needs or (name in _EXPECTED and "expected" in judge.needs)) and get(name) is not None:
            try:
                read(get(name))
            except RowError as error:
                return ScoreError(error.code, error.message)
    return None


def _given(need: str, get: Get) -> bool:
    values = [get(name) for name in _TAKES.get(need, (need,))]
    return any(v is not None and v != "" and v != [] and v != () and v != {} for v in values)


def facts_of(value: Json) -> list[str]:
    """The facts of an `expected_facts` value: a list of texts, or its JSON text.

    Raises:
        RowError: Code 1006.
    """
    found = _unpacked(value)
    if not _are_texts(found):
        raise RowError(INVALID, f"expected_facts is {_shown(value)} (allowed: a list of texts)")
    return found


def guidelines_of(value: Json, judge: str = "guideline_adherence") -> dict[str, list[str]]:
    """Guidelines by the name of the judge they make: a list makes `judge`, a mapping one `judge/<name>` for each name.

    Raises:
        RowError: Code 1006; it is neither a list of texts nor a mapping of names to such lists, or too long.
    """
    found = _unpacked(value)
    given = {"": found} if isinstance(found, list) else found
    if not isinstance(given, Mapping) or not all(_are_texts(g) for g in given.values() if g is not None):
        raise RowError(INVALID, f"guidelines is {_shown(value)} (allowed: a list of texts, or {{name: list of texts}})")
    # A record column has every name in every row, null where a row lacks it.
    named = {f"{judge}/{name}" if name else judge: list(g) for name, g in given.items() if g is not None}
    for name, guidelines in named.items():
        if len(guidelines) > MAX_GUIDELINES:
            raise RowError(INVALID, f"{name} has {len(guidelines)} guidelines (allowed: at most {MAX_GUIDELINES})")
    return named


def _are_texts(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def context_of(value: Json, name: str = "retrieved_context") -> list[dict[str, Json]]:
    """The passages of a context as {content, doc_uri}, in their order, empty ones among them.

    A passage is an object with either or both (other keys are left out), the address alone as text, or null.

    Raises:
        RowError: Code 1006.
    """
    found = _unpacked(value)
    if not isinstance(found, list):
        raise RowError(INVALID, f"{name} is {_shown(value)} (allowed: a list of {{content, doc_uri}})")
    return [_passage(p, f"{name}[{i}]") for i, p in enumerate(found)]


def _passage(value: Json, place: str) -> dict[str, Json]:
    if value is None or isinstance(value, str):
        return {"content": "", "doc_uri": value}
    content, uri = (value.get("content"), value.get("doc_uri")) if isinstance(value, Mapping) else (0, 0)
    if not all(v is None or isinstance(v, str) for v in (content, uri)):
        raise RowError(INVALID, f"{place} is {_shown(value)} (allowed: {{content, doc_uri}} of texts, or an address)")
    return {"content": content or "", "doc_uri": uri}


def expectation_fields(expectations: Mapping[str, Json]) -> dict[str, Json]:
    """Standard fields that ground truth gives: its own names, and `reference` and `reference_trajectory`.

    `expected_tool_calls` are MLflow 3's, [{name, arguments}].
    """
    found = {k: v for k, v in expectations.items() if v is not None}
    if "expected_response" in found:
        found["expected_response"] = response_text(found["expected_response"])
        found["reference"] = found["expected_response"]
    if "expected_tool_calls" in found:
        found["reference_trajectory"] = found["expected_tool_calls"]
    return found


def _unpacked(value: Any) -> Json:
    """A list or object, also from its JSON text (a CSV cell); anything else as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return parse_json(value.encode("utf-8", "surrogateescape"))
    except RowError:
        return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
