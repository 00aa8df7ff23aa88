"""mlflow.genai.evaluate's arguments and results; MLflow's own harness says what they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evalbeam import ConfigError, genai_evaluate

DATA: list[dict[str, Any]] = [
    {"inputs": {"question": "Who wrote Faust?"}, "expectations": {"expected_response": "Goethe", "mood": "calm"}},
    {"inputs": {"question": "Hi", "loud": True}, "expectations": {"expected_response": "HI"}},
    {"inputs": {"question": "Bye"}, "expectations": {"expected_response": "Farewell"}},
]


def answer(question: str, loud: bool = False) -> str:
    return {"Who wrote Faust?": "Goethe wrote it."}.get(question, question.upper() if loud else question)


def dicts(question: str, loud: bool = False) -> dict[str, Any]:
    return {"content": answer(question, loud), "loud": loud}


def scorers() -> list[Any]:
    from mlflow.entities import Feedback
    from mlflow.genai.scorers import scorer

    @scorer
    def length(outputs: Any) -> int:
        return len(outputs)

    @scorer
    def right(outputs: Any, expectations: dict[str, Any]) -> Feedback:
        found = expectations["expected_response"] in str(outputs)
        return Feedback(value="yes" if found else "no", rationale="It says so." if found else "It does not.")

    @scorer(name="asked")
    def kept(inputs: dict[str, Any], outputs: Any) -> bool | None:
        return inputs.get("loud")

    @scorer
    def broken(inputs: dict[str, Any]) -> float:
        return 1 / (len(inputs) - 1)

    return [length, right, kept, broken]


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """MLflow's own harness, on a store of files."""
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_SKIP_TRACE_VALIDATION", "true")
    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"file:{tmp_path}/store")
    yield mlflow.genai.evaluate
    mlflow.set_tracking_uri(before)


@pytest.mark.filterwarnings("ignore")  # MLflow's own
@pytest.mark.parametrize("predict", [answer, dicts, None])
def test_the_results_are_mlflows(peer: Any, predict: Any) -> None:
    import mlflow

    data = DATA if predict else [{**row, "outputs": answer(**row["inputs"])} for row in DATA]
    theirs = peer(data=data, scorers=scorers(), predict_fn=predict and mlflow.trace(predict))
    ours = genai_evaluate(data, scorers(), predict)
    shown = {name: value for name, value in ours.metrics.items() if name in theirs.metrics}
    assert shown == pytest.approx(theirs.metrics)
    by_question = {
        json.loads(r)["question"] if isinstance(r, str) else r["question"]: i
        for i, r in enumerate(theirs.result_df["request"])
    }
    order = [by_question[row["inputs"]["question"]] for row in data]
    for name in ("length", "right", "asked"):
        wanted = theirs.result_df.iloc[order][f"{name}/value"].tolist()
        wanted = [{"yes": 1.0, "no": 0.0}.get(v, v) for v in wanted]
        assert clean(ours.result_df[f"{name}/value"]) == clean(wanted)
    assert ours.result_df["right/rationale"].tolist() == theirs.result_df.iloc[order]["right/rationale"].tolist()
    assert ours.result_df["broken/error_message"][0].startswith("ZeroDivisionError")


def clean(values: Any) -> list[Any]:
    return [None if v is None or v != v else float(v) for v in values]


def test_a_list_of_traces_is_data(conformance: Path) -> None:
    from mlflow.entities import Trace

    names = ("rag_simple", "tool_agent")
    traces = [Trace.from_json((conformance / "traces" / "mlflow_v3" / f"{n}.json").read_text()) for n in names]
    result = genai_evaluate(traces, [tokens_of])
    wanted = [t.info.token_usage["total_tokens"] for t in traces]
    assert result.result_df["tokens_of/value"].tolist() == wanted
    assert result.metrics["tokens_of/mean"] == sum(wanted) / 2


@pytest.mark.parametrize("of", [list, pd.DataFrame])
def test_the_traces_of_a_session_are_scored_together(conformance: Path, of: Any) -> None:
    from mlflow.entities import Trace
    from mlflow.genai.scorers import scorer

    @scorer
    def turns(session: list[Any]) -> str:
        return " ".join(t.info.trace_id for t in session)

    names = ("session_turn3", "rag_simple", "session_turn1", "session_turn2")
    texts = [(conformance / "traces" / "mlflow_v3" / f"{n}.json").read_text() for n in names]
    data = [Trace.from_json(t) for t in texts] if of is list else pd.DataFrame({"trace": texts})
    found = genai_evaluate(data, [turns, tokens_of]).result_df
    assert found["turns/status"].tolist() == ["skipped", "skipped", "scored", "skipped"]
    ids = [json.loads(t)["info"]["trace_id"] for t in texts]
    assert found["turns/details"][2]["value"].split() == [ids[2], ids[3], ids[0]]


def tokens_of(trace: Any) -> int:
    return trace.info.token_usage["total_tokens"]


async def strict(messages: list[dict[str, str]], schema: dict[str, Any]) -> dict[str, Any]:
    """A scripted judge: what is about kindness is answered no."""
    no = "kind" in messages[-1]["content"]
    return {"rationale": "It is not." if no else "It is.", "rating": "no" if no else "yes"}


def test_built_in_scorers_are_decided_by_our_judges() -> None:
    from mlflow.genai.scorers import Correctness, Guidelines, RelevanceToQuery, RetrievalRelevance, Safety

    data = [
        {
            "inputs": {"question": "Who?"},
            "outputs": "Goethe",
            "expectations": {"expected_facts": ["Goethe"]},
            "retrieved_context": ["x"],
        }
    ]
    own = Guidelines(name="kindness", guidelines=["It must be kind"])
    found = genai_evaluate(
        pd.DataFrame(data),
        [Correctness(), Safety(), RelevanceToQuery(name="fits"), own, RetrievalRelevance(), "RetrievalSufficiency"],
        judges={"default": strict},
    )
    row = found.result_df.iloc[0]
    assert row["correctness/value"] == row["safety/value"] == row["fits/value"] == "yes"
    assert (row["kindness/value"], row["kindness/rationale"]) == ("no", "It is not.")
    assert found.metrics["correctness/mean"] == 1.0
    assert found.metrics["kindness/mean"] == 0.0
    assert {"retrieval_relevance/precision", "retrieval_sufficiency/value"} <= {*found.result_df}


def test_names_of_mlflows_scorers_are_known() -> None:
    from mlflow.genai.scorers import builtin_scorers as theirs

    from evalbeam.pipelines.compat.mlflow_scorers import BUILT_IN, COMPUTED
    from evalbeam.schemas.formats.databricks import JUDGES

    assert {c.__name__ for c in theirs._get_all_concrete_builtin_scorers()} == {*BUILT_IN, *COMPUTED}
    for name, metric in BUILT_IN.items():
        given = {"guidelines": ["x"]} if name.endswith("lGuidelines") or name == "Guidelines" else {}
        family, _, judge = metric.partition("/")
        assert getattr(theirs, name)(**given).name == (judge if family == "mlflow" else JUDGES[judge].scorer)


def answer_first(schema: dict[str, Any], said: str) -> dict[str, Any]:
    """An answer to a question of a scorer, with the first category if `said` is none of them."""
    allowed = schema["properties"]["rating"]["enum"]
    return {"rationale": "so", "rating": said if said in allowed else allowed[0]}


def read_session(conformance: Path) -> list[Any]:
    from mlflow.entities import Trace

    names = ("session_turn3", "rag_simple", "session_turn1", "session_turn2")
    return [Trace.from_json((conformance / "traces" / "mlflow_v3" / f"{n}.json").read_text()) for n in names]


@pytest.mark.filterwarnings("ignore")  # MLflow's own
@pytest.mark.parametrize("said", ["no", "resolved", "unresolved"])
def test_scorers_of_sessions_have_the_values_that_mlflow_gives_them(
    conformance: Path, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow and evalbeam ask the same fake model; MLflow's scorers are called one by one."""
    from mlflow.entities import Feedback
    from mlflow.genai.judges.instructions_judge import InstructionsJudge
    from mlflow.genai.scorers import builtin_scorers as theirs

    def call(self: Any, **_: Any) -> Feedback:
        allowed = self.feedback_value_type.__args__
        return Feedback(name=self.name, value=said if said in allowed else allowed[0], rationale="so")

    monkeypatch.setattr(InstructionsJudge, "__call__", call)

    async def judge(messages: Any, schema: dict[str, Any]) -> dict[str, Any]:
        return answer_first(schema, said)

    traces = read_session(conformance)
    kinds = [c for c in theirs._get_all_concrete_builtin_scorers() if issubclass(c, theirs.BuiltInSessionLevelScorer)]
    scorers = [c(guidelines=["be kind"]) if "Guidelines" in c.__name__ else c() for c in kinds]
    found = genai_evaluate(traces, scorers, judges={"default": judge}).result_df
    session = [traces[i] for i in (2, 3, 0)]
    assert len(scorers) == 7
    for scorer in scorers:
        values = found[f"{scorer.name}/value"]
        assert values[2] == str(scorer(session=session).value)
        assert values.isna().tolist() == [True, True, False, True]
        assert found[f"{scorer.name}/status"].tolist() == ["skipped", "skipped", "scored", "skipped"]


def test_metrics_of_conversations_get_the_sessions(conformance: Path) -> None:
    async def judge(messages: Any, schema: dict[str, Any]) -> dict[str, Any]:
        return {"explanation": messages[-1]["content"], "score": 3}

    name = "adk/multi_turn_task_success_v1"
    found = genai_evaluate(read_session(conformance)[2:] + read_session(conformance)[:1], [name],
                           judges={"default": judge}).result_df  # fmt: skip
    (column,) = [c for c in found if c.endswith("task_success_v1/value")]
    assert clean(found[column]) == [0.75, None, None]
    told = found[column.replace("/value", "/rationale")][0]
    from mlflow.genai.utils.trace_utils import resolve_conversation_from_session

    messages = resolve_conversation_from_session([read_session(conformance)[i] for i in (2, 3, 0)])
    places = [told.index(json.dumps(m["content"])) for m in messages]
    assert len(messages) == 6
    assert places == sorted(places)


def test_tool_calls_are_matched_without_a_judge() -> None:
    from mlflow.genai.scorers import ToolCallCorrectness

    calls = [{"name": "search", "arguments": {"q": "a"}}, {"name": "read", "arguments": {}}]
    data = [
        {"inputs": {"q": "a"}, "outputs": {"messages": [{"role": "assistant", "content": "x", "tool_calls": given}]},
         "expectations": {"expected_tool_calls": calls}}
        for given in (calls, calls[::-1], calls[:1])
    ]  # fmt: skip
    how = ToolCallCorrectness(should_exact_match=True)
    ordered = ToolCallCorrectness(name="in_order", should_exact_match=True, should_consider_ordering=True)
    found = genai_evaluate(data, [how, ordered]).result_df
    assert found["tool_call_correctness/value"].tolist() == ["yes", "yes", "no"]
    assert found["in_order/value"].tolist() == ["yes", "no", "no"]


def test_computed_scorers_of_mlflow_run() -> None:
    from mlflow.genai.scorers import RegexMatch

    result = genai_evaluate(
        [{"inputs": {"question": "a"}, "outputs": "abc"}, {"inputs": {"question": "b"}, "outputs": "xyz"}],
        [RegexMatch(pattern="a.c")],
    )
    assert clean(result.result_df["regex_match/value"]) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"model_id": "m-1"}, "model_id"),
        ({"scorers": ["Correctness"]}, "Correctness needs a judge model"),
        ({"scorers": ["Guidelines"], "judges": {"default": strict}}, "Guidelines has no guidelines"),
        ({"scorers": ["KnowledgeRetention"]}, "KnowledgeRetention needs a judge model"),
        ({"scorers": ["ConversationalGuidelines"], "judges": {"default": strict}}, "ConversationalGuidelines has no"),
        ({"scorers": ["RegexMatch"]}, r"RegexMatch alone \(allowed: an object of it, RegexMatch\(...\)"),
        ({"scorers": [5]}, "metrics: found int"),
    ],
)
def test_what_cannot_be_honoured_is_refused(more: dict[str, Any], words: str) -> None:
    data = [{"inputs": {"question": "Who?"}, "outputs": "Goethe"}]
    with pytest.raises(ConfigError, match=words):
        genai_evaluate(**{"data": data, "scorers": [], **more})


def test_the_model_of_a_scorer_is_asked() -> None:
    from mlflow.genai.scorers import Correctness, Safety

    from evalbeam.pipelines.compat.mlflow_scorers import find_judge_model

    model = "openai:/gpt-5-mini"
    assert find_judge_model([Safety(), Correctness(model=model)]) == {
        "default": {"type": "openai", "model": "gpt-5-mini"}
    }
    with pytest.raises(ConfigError, match="two models"):
        find_judge_model([Safety(model="openai:/a"), Correctness(model=model)])
    with pytest.raises(ConfigError, match="a model of 'bedrock'"):
        find_judge_model([Safety(model="bedrock:/a")])


def test_inputs_that_are_no_object_are_an_error_of_their_row() -> None:
    with pytest.warns(UserWarning, match="none of 1 rows"):
        result = genai_evaluate([{"inputs": [1, 2]}], [len_of], answer, agent={"failure_threshold": None})
    assert "allowed: an object" in result.result_df["model_error_message"][0]


def len_of(outputs: Any) -> int:
    return len(outputs)
