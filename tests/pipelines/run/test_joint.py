"""Joint questions: what several metrics ask about a row is put to the judge as one, and the verdicts stay the same."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from written import instances

from evalbeam import evaluate
from evalbeam.pipelines.check.check import check
from evalbeam.pipelines.run.result import EvaluationResult
from evalbeam.schemas.config.evaluation import EvaluationConfig
from evalbeam.schemas.instance import Usage
from evalbeam.schemas.judging import Reply

ROWS = [
    {
        "prompt": f"question {i}",
        "response": f"answer {i}: " + "word " * (i % 5 + 1),
        "context": f"context {i % 7}",
        "baseline_model_response": f"baseline {i}",
        "retrieved_context": [{"doc_uri": "a", "content": f"passage {i}"}, {"doc_uri": "b", "content": "another"}],
    }
    for i in range(40)
]
SINGLE = ["fluency", "coherence", "groundedness", "question_answering_quality", "template/safety"]
PANELS = [
    {"metric": "fluency", "samples": 3},
    {"metric": "coherence", "samples": 5, "aggregate": "median"},
    {"metric": "pairwise_question_answering_quality", "samples": 4, "flip": True},
    {"metric": "rubric", "rubrics": ["It greets.", "It thanks.", "It is short."], "samples": 2},
    {"metric": "rubric", "name": "written"},
    {"metric": "databricks/relevance_to_query", "name": "relevance"},
    {"metric": "databricks/chunk_relevance", "name": "chunks"},
    {"metric": "groundedness"},
]
BLOCK = re.compile(r"<(\w+) ([0-9a-f]{16})>\n(.*?)\n</\1 \2>", re.DOTALL)
CALLS: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


def plain(text: str) -> str:
    """What a judge is given, with the data in place of the blocks."""
    blocks = {match[1]: match[3] for match in BLOCK.finditer(text)}
    text = BLOCK.sub(lambda match: match[3], text)
    return re.sub(r"\(the same text as in <(\w+) [0-9a-f]{16}>\)", lambda match: blocks[match[1]], text)


def questions(messages: list[dict[str, str]], schema: dict[str, Any]) -> Iterator[tuple[str, str, str, Any]]:
    """(name, what is told, what is given, shape) of each part; a question that has none is one itself."""
    system, user = messages[0]["content"], plain(messages[1]["content"])
    system = system.partition("\n\nAnswer with one JSON object")[0]
    names = list(schema["properties"])
    if names[0] != "question_1":
        yield "", system.partition("\n\nWhat you judge stands between")[0], user, schema
        return
    for name, after in zip(names, [*names[1:], None], strict=True):
        told, given = (text.partition(f"# {name}\n")[2].partition(f"\n\n# {after}\n")[0] for text in (system, user))
        yield name, told, given, schema["properties"][name]


def value_of(shape: Any, seed: str, given: str, name: str = "") -> Any:
    """Some value of a shape: a function of the seed alone."""
    number = int(hashlib.sha256(f"{seed}/{name}".encode()).hexdigest(), 16)
    if shape["type"] == "object":
        return {n: value_of(s, seed, given, f"{name}.{n}") for n, s in shape["properties"].items()}
    if shape["type"] == "array" and name == ".rubrics":
        return [f"property {number % 1000}", "another"]
    if shape["type"] == "array":
        listed = len(re.findall(r"^\d+\. ", given, flags=re.MULTILINE))
        items = [value_of(shape["items"], seed, given, f"{name}{i}") for i in range(listed)]
        return [{**item, "number": i} for i, item in enumerate(items, 1)]
    if "enum" in shape:
        return shape["enum"][number % len(shape["enum"])]
    return {"string": f"reason {number % 97}", "boolean": number % 2 == 0, "integer": 0}[shape["type"]]


async def by_part(messages: list[dict[str, str]], schema: dict[str, Any], vote: int) -> Reply:
    """A scripted judge: its answer to each part follows from what it is told and given there, and the vote."""
    CALLS["".join(m["content"] for m in messages) + str(vote)] += 1
    found = {n: value_of(s, f"{told}\0{given}\0{vote}", given) for n, told, given, s in questions(messages, schema)}
    return Reply(value=found.get("", found), usage=Usage(101, 7))


async def careless(messages: list[dict[str, str]], schema: dict[str, Any], vote: int) -> Reply:
    """Leaves out the coherence of some answers, and gives it six points of five in others."""
    value: Any = (await by_part(messages, schema, vote)).value
    for name, told, given, _ in questions(messages, schema):
        (number,) = re.findall(r"answer (\d+):", given)
        if "hangs together" in told and int(number) % 4 == 1:
            del value[name]
        if "hangs together" in told and int(number) % 4 == 2:
            value[name]["score"] = 6
    return Reply(value=value, usage=Usage(101, 7))


def scored(tmp_path: Path, metrics: list[Any], joint: bool, judge: Any = by_part, **more: Any) -> EvaluationResult:
    judges = {"default": {"target": judge, "combine_metrics": joint}}
    name = "joint" if joint else "separate"
    return evaluate(ROWS, metrics, **{"judges": judges, "output": str(tmp_path / name), **more})


@pytest.mark.parametrize("metrics", [SINGLE, PANELS], ids=["single", "panels"])
def test_joint_and_separate_questions_come_to_the_same_tables(metrics: list[Any], tmp_path: Path) -> None:
    separate = scored(tmp_path, metrics, joint=False)
    asked = sum(CALLS.values())
    CALLS.clear()
    scored(tmp_path, metrics, joint=True)
    assert instances(tmp_path / "joint") == instances(tmp_path / "separate")
    drop = ["judges", "judge_cost", "judge_input_tokens", "judge_output_tokens"]
    tables = [pq.read_table(tmp_path / name / "summary.parquet") for name in ("joint", "separate")]
    joint_summary, summary = (table.drop_columns(drop).to_pylist() for table in tables)
    assert joint_summary == summary
    assert separate.metrics_table["fluency/score"].nunique() > 1
    assert sum(CALLS.values()) < asked * 0.8
    if metrics is SINGLE:
        assert (asked, sum(CALLS.values())) == (200, 40)


def test_the_tokens_of_a_call_are_divided_over_its_metrics_and_nothing_is_lost(tmp_path: Path) -> None:
    result = scored(tmp_path, SINGLE[:3], joint=True)
    spent = result.manifest["judging"]["spent"]
    assert [one["answers"] for one in spent] == [40, 40, 40]
    assert sorted(one["input_tokens"] for one in spent) == [33 * 40, 34 * 40, 34 * 40]
    assert sum(one["input_tokens"] for one in spent) == 101 * 40
    assert sum(one["output_tokens"] for one in spent) == 7 * 40


def test_a_part_that_is_no_verdict_is_a_failed_vote_of_its_metric_alone(tmp_path: Path) -> None:
    good = scored(tmp_path, SINGLE, joint=True).metrics_table
    bad = scored(tmp_path, SINGLE, joint=True, judge=careless, output=str(tmp_path / "bad"))
    table = bad.metrics_table
    for metric in SINGLE:
        if metric != "coherence":
            assert table[f"{metric}/score"].tolist() == good[f"{metric}/score"].tolist()
    whole = [i % 4 not in (1, 2) for i in range(40)]
    assert (table["coherence/status"] == "scored").tolist() == whole
    assert table["coherence/score"][whole].tolist() == good["coherence/score"][whole].tolist()
    assert Counter(table["coherence/error"].dropna()) == {
        "invalid_verdict: InvalidVerdict: the answer lacks the question": 10,
        "invalid_verdict: InvalidVerdict: score is none of 1, 2, 3, 4, 5": 10,
    }
    spent = bad.manifest["judging"]["spent"]
    assert sum(one["input_tokens"] for one in spent) == 101 * 40


def test_joint_votes_are_found_again_by_a_resumed_run_and_by_a_replay(tmp_path: Path) -> None:
    scored(tmp_path, PANELS, joint=True)
    asked = sum(CALLS.values())
    tables = instances(tmp_path / "joint")
    (tmp_path / "joint" / "manifest.json").unlink()  # as a run that was killed before its end
    scored(tmp_path, list(reversed(PANELS)), joint=True)
    assert sum(CALLS.values()) == asked
    replay = {"default": {"type": "replay", "run": str(tmp_path / "joint")}}
    scored(tmp_path, PANELS, joint=False, judges=replay)
    assert sum(CALLS.values()) == asked
    assert instances(tmp_path / "separate") == tables


def test_check_says_what_is_asked_jointly(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a", "response": "b", "context": "c"}\n')
    judges = {"default": {"target": by_part, "combine_metrics": True}}
    config = {"dataset": {"path": str(tmp_path / "rows.jsonl")}, "metrics": PANELS, "judges": judges}
    found = check(EvaluationConfig.parse(config)).render(200)
    line = next(line for line in found.splitlines() if "asked jointly" in line)
    joined = "fluency, coherence, pairwise_question_answering_quality, rubric, relevance, groundedness"
    assert f"of default: {joined}; separately: written, chunks" in line
