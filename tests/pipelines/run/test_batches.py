"""Judges and agents in batch mode: the tables of a live run, and only what failed is asked again."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from anthropic_batch_server import AnthropicBatchServer
from batch_server import BatchServer, serving_batches
from gemini_batch_server import GeminiBatchServer, VertexTableServer, serving_tables
from model_server import Asked, Said, verdict
from written import tables

from evalbeam import evaluate
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.run.batches import POLL, wait_for_answers
from evalbeam.pipelines.run.build import make_plan
from evalbeam.pipelines.run.lifecycle import config_at
from evalbeam.schemas.config.evaluation import EvaluationConfig
from evalbeam.schemas.errors import ConfigError, RunError
from evalbeam.transforms.journal.summary import summarize

KEY = {"api_key": "${env:JUDGE_KEY}"}
TABLES = {"project": "p", "location": "europe-west4", "batch_into": "p.scratch"}
KINDS: dict[type[BatchServer], dict[str, str]] = {
    BatchServer: {"type": "openai", **KEY},
    GeminiBatchServer: {"type": "google", **KEY},
    AnthropicBatchServer: {"type": "anthropic", **KEY},
    VertexTableServer: {"type": "google", **TABLES},
}
ROWS = [{"prompt": f"question {i}", "response": f"answer {i}"} for i in range(500)]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setenv("JUDGE_KEY", "k-123")
    with serving_batches() as batches:
        batches.model.said = said
        yield batches


def serving(kind: type[BatchServer], patch: pytest.MonkeyPatch) -> AbstractContextManager[BatchServer]:
    """A server of this kind."""
    return serving_tables(patch) if kind is VertexTableServer else serving_batches(kind)


def said(asked: Asked) -> Said:
    """A verdict that depends on the question alone; now and then none."""
    number = int(hashlib.sha256(asked.user.encode()).hexdigest(), 16)
    if number % 41 == 0:
        return Said(refused=True)
    if number % 43 == 0:
        return Said(status=400)
    return verdict(explanation=f"points {number % 5}", score=number % 5 + 1)


def run(server: BatchServer, path: Path, mode: str, rows: Any = ROWS, metric: Any = "fluency", **more: Any) -> Any:
    judge = {
        **KINDS[type(server)], "model": "fake-1", "base_url": server.url, "mode": mode, "max_attempts": 2,
    }  # fmt: skip
    return evaluate(rows, [metric], judges={"default": judge}, output=str(path), **more)


def asked(server: BatchServer, path: Path, mode: str, rows: Any = ROWS, metrics: Any = ("exact_match",)) -> Any:
    """A run of an agent whose clock stands still, so that what is measured is the same in all runs."""
    agent = {
        "preset": "openai_chat", "target": f"{server.url}/chat/completions", "mode": mode, "max_attempts": 2,
        "body": {"model": "fake-1"}, "headers": {"authorization": "Bearer ${env:JUDGE_KEY}"},
        "answer": {"latency_in_seconds": "created"},
    }  # fmt: skip
    given = [{"prompt": row["prompt"], "reference": "fine"} for row in rows]
    return evaluate(given, list(metrics), agent=agent, output=str(path))


@pytest.mark.parametrize(
    ("kind", "start", "count", "left"),
    [
        (BatchServer, run, 500, "questions to judges were not asked"),
        (GeminiBatchServer, run, 200, "questions to judges were not asked"),
        (AnthropicBatchServer, run, 200, "questions to judges were not asked"),
        (VertexTableServer, run, 200, "questions to judges were not asked"),
        (BatchServer, asked, 200, "rows were not called"),
    ],
    ids=["openai judge", "gemini judge", "anthropic judge", "vertex judge by tables", "agent"],
)
def test_a_batch_run_gives_the_tables_of_a_live_run(
    kind: type[BatchServer],
    start: Callable[..., Any],
    count: int,
    left: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "k-123")
    rows, lost, served = ROWS[:count], count // 20, count // 50
    with serving(kind, monkeypatch) as server:
        server.model.said = said
        live = start(server, tmp_path / "live", "live", rows)
        assert (live.state, len(server.model.asked)) == ("finished", count)
        server.model.asked.clear()

        first = start(server, tmp_path / "batch", "batch", rows)
        assert (first.state, first.exit_code, len(server.model.asked)) == ("pending", 5, 0)
        assert f"{count} {left} so far; the same command takes their answers in" in first.manifest["reason"]
        waiting = start(server, tmp_path / "batch", "batch", rows)
        assert (waiting.state, [len(ids) for ids in server.requests]) == ("pending", [count])

        server.work(fate=lambda number: 500 if number % 20 == 0 else 200)  # 5 % fail
        second = start(server, tmp_path / "batch", "batch", rows)
        assert (second.state, [len(ids) for ids in server.requests]) == ("pending", [count, lost])
        assert set(server.requests[1]) == {key for i, key in enumerate(server.requests[0]) if i % 20 == 0}

        server.work("expired", fate=lambda number: 0 if number >= served else 200)
        third = start(server, tmp_path / "batch", "batch", rows)
        assert (third.state, [len(ids) for ids in server.requests]) == ("pending", [count, lost, lost - served])
        assert set(server.requests[2]) == set(server.requests[1][served:])

        server.work()
        last = start(server, tmp_path / "batch", "batch", rows)
        assert (last.state, len(server.jobs)) == ("finished", 3)
        assert tables(tmp_path / "batch") == tables(tmp_path / "live")
        assert len(tables(tmp_path / "live")) >= 2
        assert last.manifest.get("judging", {}).get("spent") == live.manifest.get("judging", {}).get("spent")
        assert max(Counter(asked.user for asked in server.model.asked).values()) == 1
        assert last.manifest["counts"] == live.manifest["counts"]
        if start is run:
            assert set(last.metrics_table["fluency/status"]) == {"scored", "error"}
        else:
            assert set(last.metrics_table["status"]) == {"ok", "failed"}


def test_agent_and_judge_may_both_be_asked_in_batches(server: BatchServer, tmp_path: Path) -> None:
    server.model.said = lambda asked: Said("fine") if asked.schema is None else verdict(explanation="", score=3)
    judge = {"type": "openai", "model": "fake-1", "base_url": server.url, "mode": "batch"}
    target = {"target": f"{server.url}/chat/completions", "body": {"model": "fake-1"}}
    given: dict[str, Any] = {"agent": {"preset": "openai_chat", "mode": "batch", **target}, "output": str(tmp_path)}
    states = []
    for _ in range(3):
        rows = [{"prompt": f"question {i}"} for i in range(7)]
        result = evaluate(rows, ["fluency"], judges={"default": judge}, **given)
        states.append((result.state, [len(ids) for ids in server.requests]))
        server.work()
    # all answers are the same, so that the rows have one question to the judge
    assert states == [("pending", [7]), ("pending", [7, 1]), ("finished", [7, 1])]
    assert set(result.metrics_table["fluency/score"]) == {3.0}
    assert {p.name for p in (tmp_path / "batch").iterdir()} == {"agent", "judges"}


def test_what_an_agent_says_in_files_is_what_it_says_live(server: BatchServer, tmp_path: Path) -> None:
    server.model.said = said
    asked(server, tmp_path / "live", "live", ROWS[:60])
    asked(server, tmp_path / "out", "batch_files", ROWS[:60])
    folder = tmp_path / "out" / "batch" / "agent" / "0001"
    lines = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    assert lines[0]["body"]["model"] == "fake-1"
    assert "k-123" not in (folder / "requests.jsonl").read_text()
    told = []
    for line in lines:
        found, body = server.model.answer("/v1/chat/completions", line["body"], {})
        told.append({"custom_id": line["custom_id"], "response": {"status_code": found.status, "body": body}})
    (folder / "results.jsonl").write_text("\n".join(map(json.dumps, told)))
    assert asked(server, tmp_path / "out", "batch_files", ROWS[:60]).state == "finished"
    assert tables(tmp_path / "out") == tables(tmp_path / "live")
    assert not server.jobs


def test_a_call_that_always_fails_ends_as_it_does_live(server: BatchServer, tmp_path: Path) -> None:
    rows = ROWS[:5]
    server.model.said = lambda asked: Said(status=500) if "answer 3" in asked.user else verdict(explanation="", score=2)
    run(server, tmp_path / "live", "live", rows)
    run(server, tmp_path / "batch", "batch", rows)
    server.work()
    assert run(server, tmp_path / "batch", "batch", rows).state == "pending"
    server.work()
    last = run(server, tmp_path / "batch", "batch", rows)  # max_attempts are made
    assert (last.state, [len(ids) for ids in server.requests]) == ("finished", [5, 1])
    assert last.metrics_table["fluency/error"][3] == "judge_failed: InternalServerError"
    assert tables(tmp_path / "batch") == tables(tmp_path / "live")


def test_a_panel_takes_further_rounds_and_shares_the_votes_of_a_live_run(server: BatchServer, tmp_path: Path) -> None:
    rows, panel = ROWS[:20], {"metric": "fluency", "samples": 3}
    turns: Counter[str] = Counter()

    def vary(asked: Asked) -> Said:
        turns[asked.user] += 1
        return verdict(explanation="", score=min(turns[asked.user], 2))

    server.model.said = vary
    run(server, tmp_path / "out", "live", rows)
    (tmp_path / "out" / "manifest.json").unlink()  # as a run that was killed before its end
    run(server, tmp_path / "out", "batch", rows, panel)
    assert [len(ids) for ids in server.requests] == [20]  # the second votes: the first are known
    server.work()
    run(server, tmp_path / "out", "batch", rows, panel)
    server.work()
    last = run(server, tmp_path / "out", "batch", rows, panel)
    assert (last.state, [len(ids) for ids in server.requests]) == ("finished", [20, 20])
    assert set(last.metrics_table["fluency/score"]) == {2.0}


def test_what_came_by_a_batch_is_priced_as_batches_are(server: BatchServer, tmp_path: Path) -> None:
    good = verdict(explanation="", score=2)
    server.model.said = lambda asked: Said(refused=True) if re.search(r"answer 1?3\n", asked.user) else good
    prices = {"fake-1": {"input": 2.0, "output": 10.0, "batch_input": 1.0, "batch_output": 4.0, "date": "2026-11-01"}}
    run(server, tmp_path, "live", ROWS[:10], prices=prices)
    for name in ("manifest.json", "summary.parquet"):  # as a run that was killed before its end
        (tmp_path / name).unlink()
    run(server, tmp_path, "batch", ROWS[:30], prices=prices)
    server.work()
    last = run(server, tmp_path, "batch", ROWS[:30], prices=prices)
    assert (last.state, [len(ids) for ids in server.requests]) == ("finished", [20])
    (spent,) = last.manifest["judging"]["spent"]
    assert (spent["answers"], spent["failed"], spent["input_tokens"], spent["output_tokens"]) == (28, 2, 3000, 600)
    cost = (10 * (100 * 2 + 20 * 10) + 20 * (100 * 1 + 20 * 4)) / 1e6
    assert spent["cost"] == pytest.approx(cost, rel=1e-12)
    (row,) = (r for r in pq.read_table(tmp_path / "summary.parquet").to_pylist() if r["metric"] == "fluency")
    assert (row["judge_input_tokens"], row["judge_cost"]) == (3000, spent["cost"])


def test_what_many_rows_ask_is_paid_once(server: BatchServer, tmp_path: Path) -> None:
    """600 rows and two trials with the same answer: several of them share a shard, a batch of rows, and a row."""
    server.model.said = lambda asked: Said(refused=True) if "Never" in asked.user else verdict(explanation="", score=2)
    rows = [{"prompt": f"{i}", "response": ("Done.", "Never.", f"answer {i}")[i % 3]} for i in range(600)]
    prices = {"fake-1": {"input": 2.0, "output": 10.0, "batch_input": 1.0, "batch_output": 4.0, "date": "2026-11-01"}}
    shared: dict[str, Any] = {"trials": 2, "prices": prices, "budget": {"max_calls": 203}}
    run(server, tmp_path, "batch", rows, **shared)
    assert [len(ids) for ids in server.requests] == [202]  # one of each, and 200 that differ
    server.work()
    last = run(server, tmp_path, "batch", rows, **shared)
    assert (last.state, len(server.jobs)) == ("finished", 1)
    (spent,) = last.manifest["judging"]["spent"]
    assert (spent["answers"], spent["failed"]) == (800, 400)
    assert (spent["input_tokens"], spent["output_tokens"]) == (20_200, 4_040)
    assert spent["cost"] == pytest.approx(202 * (100 * 1 + 20 * 4) / 1e6, rel=1e-12)
    found = summarize(str(tmp_path / "journal" / "judges"))
    assert (found.paid_calls, found.input_tokens, found.output_tokens) == (202, 20_200, 4_040)


@pytest.mark.parametrize("start", [run, asked])
def test_answers_of_a_batch_are_taken_in_although_the_run_goes_on_live(
    start: Callable[..., Any], server: BatchServer, tmp_path: Path
) -> None:
    start(server, tmp_path, "batch", ROWS[:5])
    server.work(fate=lambda number: 200 if number else 500)
    server.model.asked.clear()
    assert start(server, tmp_path, "live", ROWS[:5]).state == "finished"
    assert (len(server.model.asked), len(server.jobs)) == (1, 1)  # what failed is asked live


def test_waiting_for_a_pending_run_takes_the_answers_in(
    server: BatchServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    run(server, tmp_path / "live", "live", ROWS[:30])
    assert run(server, tmp_path / "out", "batch", ROWS[:30]).exit_code == 5
    plan = make_plan(EvaluationConfig.parse(config_at(out, "test")))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            server.work()

    assert wait_for_answers(plan, sleep=sleep)
    assert slept == [POLL] * 3
    assert main(["wait", out]) == 0
    assert "waiting for batches" in capsys.readouterr().err
    assert tables(tmp_path / "out") == tables(tmp_path / "live")
    assert wait_for_answers(plan, sleep=sleep) is False, "no batch is on its way"


def test_waiting_for_batches_ends_in_time(server: BatchServer, tmp_path: Path) -> None:
    run(server, tmp_path, "batch", ROWS[:3])
    plan, now = make_plan(EvaluationConfig.parse(config_at(str(tmp_path), "test"))), [0.0]
    with pytest.raises(RunError, match="the batches have no answers after 150 seconds"):
        wait_for_answers(plan, 150, clock=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    assert now[0] <= 150


def test_a_pending_run_is_no_error(server: BatchServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(server, tmp_path / "out", "batch", ROWS[:3])
    assert main(["show", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.startswith("RUN PENDING · 3 rows · ")
    again = {
        "type": "openai", "model": "fake-1", "api_key": "${env:JUDGE_KEY}", "base_url": server.url, "mode": "batch",
        "max_attempts": 2,
    }  # fmt: skip
    rows = tmp_path / "rows.jsonl"
    rows.write_text("\n".join(map(json.dumps, ROWS[:3])))
    given = ["--dataset", str(rows), "--metrics", "fluency", "--output", str(tmp_path / "other")]
    assert main(["run", *given, "--set", f"judges.default={json.dumps(again)}"]) == 5
    err = capsys.readouterr().err
    assert "error:" not in err
    assert f"the same command takes their answers in when they are there, or `evalbeam wait {tmp_path}/other`" in err


def test_files_may_be_carried_by_hand(server: BatchServer, tmp_path: Path) -> None:
    rows, folder = ROWS[:30], tmp_path / "out" / "batch" / "judges" / "default" / "0001"
    run(server, tmp_path / "live", "live", rows)
    run(server, tmp_path / "out", "batch_files", rows)
    assert not server.jobs
    lines = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    assert {(line["method"], line["url"]) for line in lines} == {("POST", "/v1/chat/completions")}
    assert "k-123" not in (folder / "requests.jsonl").read_text()
    told = []
    for line in lines:
        found, body = server.model.answer("/v1/chat/completions", line["body"], {})
        told.append({"custom_id": line["custom_id"], "response": {"status_code": found.status, "body": body}})
    (folder / "results.jsonl").write_text("\n".join(map(json.dumps, told)) + "\n\n")
    assert run(server, tmp_path / "out", "batch_files", rows).state == "finished"
    assert tables(tmp_path / "out") == tables(tmp_path / "live")


def test_results_that_are_none_name_file_and_line(server: BatchServer, tmp_path: Path) -> None:
    run(server, tmp_path, "batch_files", ROWS[:3])
    (tmp_path / "batch" / "judges" / "default" / "0001" / "results.jsonl").write_text('\n{"id": 1}\n')
    with pytest.raises(RunError, match=r"results\.jsonl, line 2: no line of a batch's results: KeyError: 'custom_id'"):
        run(server, tmp_path, "batch_files", ROWS[:3])


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_submitted_once_although_a_start_was_killed(
    kind: type[BatchServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "k-123")
    with serving(kind, monkeypatch) as server:
        run(server, tmp_path, "batch", ROWS[:3])
        job = tmp_path / "batch" / "judges" / "default" / "0001" / "job.json"
        known = json.loads(job.read_text())
        job.write_text(json.dumps({"state": "submitting", "name": known["name"]}))  # killed before it learned of the id
        run(server, tmp_path, "batch", ROWS[:3])
        assert (len(server.jobs), json.loads(job.read_text())) == (1, known)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_whose_start_nobody_heard_is_neither_started_twice_nor_lost(
    kind: type[BatchServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "k-123")
    with serving(kind, monkeypatch) as server:
        post = server.post

        def drop(path: str, body: bytes, headers: Any) -> Any:
            known, found = len(server.jobs), post(path, body, headers)
            if len(server.jobs) > known:
                raise ConnectionError("the answer is lost")
            return found

        monkeypatch.setattr(server, "post", drop)
        with pytest.raises(RunError, match=r"^judge default: batch .*/judges/default/0001: \w+: \w"):
            run(server, tmp_path, "batch", ROWS[:3])
        assert [len(ids) for ids in server.requests] == [3]
        monkeypatch.setattr(server, "post", post)
        run(server, tmp_path, "batch", ROWS[:3])
        assert [len(ids) for ids in server.requests] == [3]
        server.work()
        assert run(server, tmp_path, "batch", ROWS[:3]).state == "finished"


def test_a_budget_bounds_what_is_handed_over(server: BatchServer, tmp_path: Path) -> None:
    first = run(server, tmp_path, "batch", ROWS[:20], budget={"max_calls": 12})
    assert (first.state, [len(ids) for ids in server.requests]) == ("pending", [12])
    server.work()
    run(server, tmp_path, "batch", ROWS[:20], budget={"max_calls": 15})
    assert [len(ids) for ids in server.requests] == [12, 3]


def test_a_failed_batch_says_why_and_its_questions_are_open_again(
    server: BatchServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(server, tmp_path, "batch", ROWS[:3])
    errors = {"object": "list", "data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}]}
    server.jobs["batch_1"] |= {"status": "failed", "errors": errors}
    run(server, tmp_path, "batch", ROWS[:3])
    assert "failed; Enqueued token limit reached." in caplog.text
    assert [len(ids) for ids in server.requests] == [3, 3]


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        (
            {"type": "function", "target": "json:dumps"},
            "judges of type 'function' take no batches (allowed: live; or a judge of type openai, google or anthropic)",
        ),
        (
            {"type": "anthropic", "model": "m", "request": {"extra_headers": {"anthropic-beta": "b"}}},
            "request has extra_headers, which batches do not support (allowed: live; or without it)",
        ),
        (
            {"type": "openai", "model": "m", "request": {"extra_headers": {"x-team": "a"}}},
            "request has extra_headers, which batches do not support (allowed: live; or without it)",
        ),
        (
            {"type": "google", "model": "m", "request": {"extra_headers": {"x-team": "a"}}},
            "request has extra_headers, which batches do not support (allowed: live; or without it)",
        ),
        (
            {"type": "google", "model": "m", "project": "p"},
            "Vertex AI reads batches only from Cloud Storage or BigQuery, but output.path is out "
            "(allowed: output.path: gs://...; batch_into: project.dataset; or batch_files)",
        ),
    ],
)
def test_a_judge_that_takes_no_batches_is_refused(judge: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"response": "yes"}\n')
    base = {"dataset": {"path": str(tmp_path)}, "metrics": ["coherence"], "output": {"path": "out"}}
    with pytest.raises(ConfigError) as caught:
        make_plan(EvaluationConfig.parse({**base, "judges": {"default": {**judge, "mode": "batch"}}}))
    assert str(caught.value) == f"judges.default.mode: {message}"


CHAT = "https://localhost/v1/chat/completions"


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (
            {"target": "json:dumps"},
            "agents of type 'function' take no batches (allowed: live; or an agent of type http with preset: openai_ch",
        ),
        ({"target": CHAT}, "only chat completions can run in batches (allowed: live; or preset: openai_chat)"),
        ({"type": "recorded"}, "agents of type 'recorded' take no batches"),
        (
            {"target": CHAT, "preset": "openai_chat", "body": {"key": "${env:KEY}"}},
            "agent.body holds a secret, which would be written to files (allowed: secrets in agent.headers; or live)",
        ),
        (
            {"target": "https://localhost/chat", "preset": "openai_chat"},
            "https://localhost/chat has no OpenAI Batch API (allowed: https://.../chat/completions; or batch_files)",
        ),
    ],
)
def test_an_agent_that_takes_no_batches_is_refused(agent: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{}\n")
    base = {"dataset": {"path": str(tmp_path)}, "metrics": ["exact_match"], "agent": {**agent, "mode": "batch"}}
    with pytest.raises(ConfigError) as caught:
        make_plan(EvaluationConfig.parse(base))
    assert str(caught.value).startswith(f"agent.mode: {message}")
