"""MLflow's scorers of conversations: which rows are conversations, what is shown of them, and what the answers make."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from evalbeam.schemas.conversation import turn_in
from evalbeam.schemas.errors import ConfigError, RowError
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.judging import Answer, Ask
from evalbeam.transforms import registry

from ..judging.scripted import driven, held

YES, NO = {"rationale": "good", "rating": "yes"}, {"rationale": "bad", "rating": "no"}


def metric(name: str, **params: Any) -> Any:
    return registry.build(registry.find("metric", f"mlflow/{name}"), params, "metrics.0")


def trace(number: int, said: str | None = "so", **inputs: Any) -> dict[str, Any]:
    """A trace of MLflow 3 with one span, which failed if nothing is said."""
    given = inputs or {"question": f"message {number}"}
    attributes = {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": json.dumps(given)}
    if said is not None:
        attributes["mlflow.spanOutputs"] = json.dumps(f"{said} {number}")
    where = {"trace_id": "AAAAAAAAAAAAAAAAAAAAAQ==", "span_id": "AAAAAAAAAAE=", "parent_span_id": None, "name": "agent"}
    status = {"code": "STATUS_CODE_OK" if said else "STATUS_CODE_ERROR", "message": ""}
    times = {"start_time_unix_nano": number, "end_time_unix_nano": number + 1, "status": status, "events": []}
    info = {
        "trace_id": f"tr-{number}",
        "trace_location": {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": "1"}},
        "request_time": f"2026-01-01T00:00:{number:02}Z",
        "state": "OK" if said else "ERROR",
        "trace_metadata": {"mlflow.trace.session": "s"},
    }
    attributes["mlflow.traceRequestId"] = json.dumps(info["trace_id"])
    return {"info": info, "data": {"spans": [{**where, **times, "attributes": attributes}]}}


def session_of(count: int) -> Example:
    return Example(Instance("0", {"session": [trace(i) for i in range(count)]}), Invocation("ok", "so 0"))


def test_a_row_of_several_turns_is_a_conversation() -> None:
    turns = tuple(turn_in({"prompt": f"hi {i}", "response": f"so {i}"}) for i in range(2))
    row = Example(Instance("0", {"conversation": [{"prompt": "hi 0"}, {"prompt": "hi 1"}]}), Invocation(turns=turns))
    score, (ask,) = held(metric("conversational_safety").judged(row), NO)
    assert (score.value, score.explanation) == (0.0, "bad")
    assert all(f"{word} {i}" in ask.messages[1].content for word in ("hi", "so") for i in range(2))


@pytest.mark.parametrize("row", [{"prompt": "hi"}, {"session": []}, {"trace": trace(1)}])
def test_other_rows_are_skipped(row: Any) -> None:
    score, asked = held(
        metric("conversation_completeness").judged(Example(Instance("0", row), Invocation("ok", "x"))), YES
    )
    assert (score.status, score.error and score.error.code, asked) == ("skipped", "missing_session", [])


def test_a_session_whose_first_trace_failed_is_judged() -> None:
    row = Instance("0", {"session": [trace(1, None), trace(2)]})
    score, (ask,) = held(metric("conversation_completeness").judged(Example(row, Invocation("failed"))), NO)
    assert score.value == 0.0
    assert '"user":"{\\"question\\":\\"message 1\\"}","steps":[],"agent":null' in ask.messages[1].content
    score, _ = held(metric("conversation_completeness").judged(Example(Instance("0", {}), Invocation("failed"))), NO)
    assert score.error
    assert score.error.code == "agent_failed"


def test_a_malformed_trace_of_a_session_is_an_error() -> None:
    row = Example(Instance("0", {"session": [{"info": {}}]}), Invocation("ok", "x"))
    with pytest.raises(RowError, match="found info"):
        held(metric("conversational_safety").judged(row), YES)


def test_of_a_request_with_its_history_the_last_message_is_shown_and_the_instructions_once() -> None:
    system, said = {"role": "system", "content": "You are Ada."}, {"role": "user", "content": "who are you?"}
    session = [
        trace(1, messages=[system, said]),
        trace(2, messages=[system, said, {"role": "user", "content": "sure?"}]),
    ]
    row = Example(Instance("0", {"session": session}), Invocation("ok", "x"))
    _, (ask,) = held(metric("conversational_role_adherence").judged(row), YES)
    shown = ask.messages[1].content
    assert shown.count("You are Ada.") == shown.count("who are you?") == shown.count("sure?") == 1


@pytest.mark.filterwarnings("ignore")  # MLflow's own
@pytest.mark.parametrize("seed", range(10))
def test_retention_fails_at_the_turns_at_which_mlflows_fails(seed: int) -> None:
    """MLflow's own scorer asks for each turn and joins the answers; its first turn is always retained here."""
    from mlflow.entities import Feedback, Trace
    from mlflow.genai.scorers import KnowledgeRetention
    from mlflow.genai.scorers.builtin_scorers import _LastTurnKnowledgeRetention

    draw, count = random.Random(seed), 1 + seed % 4
    said = ["yes", *(draw.choice(("yes", "no")) for _ in range(count - 1))]

    class Scripted(_LastTurnKnowledgeRetention):
        def __call__(self, *, session: Any = None, **_: Any) -> Feedback:
            return Feedback(name="last", value=said[len(session) - 1], rationale=f"turn {len(session)}")

    row = session_of(count)
    traces = [Trace.from_dict(t) for t in row.instance.row["session"]]  # type: ignore[union-attr]
    theirs = KnowledgeRetention(last_turn_scorer=Scripted())(session=traces)

    def answer(ask: Ask) -> Answer:
        turns = ask.messages[1].content.count("message ")
        return Answer({"rationale": f"turn {turns}", "rating": said[turns - 1]})

    score, rounds = driven(metric("knowledge_retention").judged(row), answer)
    assert (["no", "yes"][int(score.value)]) == str(theirs.value)
    assert score.details == {"turns": [float(word == "yes") for word in said]}
    failed = [f"Turn {i}: turn {i}" for i, word in enumerate(said, 1) if word == "no"]
    assert not failed or score.explanation == " ".join(failed)
    assert [len(asks) for asks in rounds] == ([count - 1] if count > 1 else [])


@pytest.mark.parametrize(("said", "score"), [("none", 1.0), ("resolved", 0.5), ("unresolved", 0.0)])
def test_frustration_has_categories(said: str, score: float) -> None:
    found, _ = held(metric("user_frustration").judged(session_of(2)), {"rationale": "so", "rating": said})
    assert (found.value, found.details) == (score, {"value": said})


def test_a_panel_on_frustration_shows_its_votes() -> None:
    said = [{"rationale": word, "rating": word} for word in ("none", "unresolved", "unresolved")]
    found, _ = held(metric("user_frustration", samples=3).judged(session_of(1)), *said)
    assert (found.value, found.explanation, found.details["value"]) == (0.0, "unresolved", "unresolved")
    assert len(found.details) > 1


def test_guidelines_are_shown_and_must_be_there() -> None:
    _, (ask,) = held(metric("conversational_guidelines", guidelines=["Be kind"]).judged(session_of(1)), YES)
    assert '["Be kind"]' in ask.messages[1].content
    with pytest.raises(ConfigError, match="guidelines is empty"):
        metric("conversational_guidelines")
