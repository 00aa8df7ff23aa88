"""Check Grounding by its front doors: the function, the command, and a run."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import evalbeam
from evalbeam import ConfigError, JudgeError, check_grounding
from evalbeam.pipelines.cli.main import main
from evalbeam.transforms.checkers.vertex import Vertex

from ...transforms.grounding.service import serving, session

SEED = json.loads((Path(__file__).parents[2] / "transforms" / "grounding" / "seed.json").read_text())
ANSWER = "Here is what I found. Titanic was directed by James Cameron."
REQUEST = {"answerCandidate": ANSWER, "facts": SEED["facts"], "groundingSpec": {"citationThreshold": "0.6"}}
APP = "projects/p/locations/global/collections/default_collection/engines/a/servingConfigs/default_search"


def test_the_response_has_the_apis_fields_and_no_others() -> None:
    response = check_grounding(REQUEST)
    assert set(response) == {"supportScore", "citedChunks", "citedFacts", "claims"}
    talk, claim = response["claims"]
    assert talk == {
        "startPos": 0,
        "endPos": 21,
        "claimText": "Here is what I found.",
        "citationIndices": [],
        "groundingCheckRequired": False,
    }
    assert claim["claimText"] == "Titanic was directed by James Cameron."
    assert response["citedChunks"][claim["citationIndices"][0]]["source"] == "0"
    full = {"enableAntiCitations": "true", "enableClaimLevelScore": True, "antiCitationThreshold": "0.8"}
    response = check_grounding({**REQUEST, "groundingSpec": full})
    assert set(response) == {"supportScore", "citedChunks", "citedFacts", "claims", "contradictionScore"}
    assert set(response["claims"][1]) - set(claim) == {"antiCitationIndices", "score"}
    assert set(response["claims"][0]) - set(talk) == {"antiCitationIndices"}


def command(monkeypatch: pytest.MonkeyPatch, text: str, *options: str) -> int:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    return main(["check-grounding", *options])


def test_the_command_reads_a_request_and_writes_the_response(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(REQUEST).replace('"0.6"}', '"0.6",},')[:-1] + "}"
    assert command(monkeypatch, text, "--checker", "{type: lexical}") == 0
    assert json.loads(capsys.readouterr().out) == check_grounding(REQUEST)
    assert command(monkeypatch, '{"answerCandidate": "A."}') == 2
    assert "request: found neither of facts and groundingSource" in capsys.readouterr().err
    assert command(monkeypatch, json.dumps(REQUEST), "--checker", "{") == 2
    assert "--checker: found '{'" in capsys.readouterr().err


def test_a_corpus_stands_for_the_facts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "docs.jsonl"
    documents = [{"id": str(i), "text": f["factText"]} for i, f in enumerate(SEED["facts"])]
    path.write_text("".join(json.dumps(d) + "\n" for d in documents))
    assert command(monkeypatch, json.dumps({"answerCandidate": ANSWER}), "--facts-from", str(path)) == 0
    assert json.loads(capsys.readouterr().out)["supportScore"] == 1.0


def test_the_service_answers_and_its_refusal_is_an_error() -> None:
    with serving() as service:
        checker = Vertex("p", endpoint=service.endpoint, session=session)
        assert check_grounding(REQUEST, checker=checker)["supportScore"] == 0.0
        service.failing = [403]
        with pytest.raises(JudgeError, match="HTTP 403"):
            check_grounding(REQUEST, checker=checker)
        source = {"answerCandidate": ANSWER, "groundingSource": {"searchSource": APP}}
        check_grounding(source, checker=checker)
        assert service.asked[-1][1]["groundingSource"] == {"searchSource": APP}


def test_a_search_app_given_from_python_finds_the_facts() -> None:
    from evalbeam.transforms.grounding.discovery import Discovery, Engine

    with serving() as service:
        engine = Engine(APP, Discovery(service.endpoint, session))
        request = {"answerCandidate": "The Titanic sank on April 15, 1912."}
        response = check_grounding(request, facts_from=engine)
    assert response["supportScore"] == 1.0
    assert response["citedChunks"][0]["uri"] == "gs://docs/d1.html"


def test_a_request_that_cannot_be_used_names_itself() -> None:
    with pytest.raises(ConfigError, match="request: line 1, column 2"):
        check_grounding("{answer}")


def test_in_a_run_it_is_a_metric_like_any_other(tmp_path: Path) -> None:
    facts = [f["factText"] for f in SEED["facts"]]
    rows: list[dict[str, Any]] = [
        {"prompt": "a", "response": ANSWER, "facts": facts},
        {"prompt": "b", "response": "It starred Brad Pitt.", "facts": facts},
        {"prompt": "c", "response": "It rained."},
        {"prompt": "d", "response": "Thanks!", "facts": facts},
    ]
    metric = {"metric": "grounding", "facts_from": "facts", "anti_citations": True}
    result = evalbeam.evaluate(rows, [metric], output=str(tmp_path / "out"))
    table = result.metrics_table.set_index("prompt")
    assert table["grounding/status"].to_dict() == {"a": "scored", "b": "scored", "c": "skipped", "d": "skipped"}
    assert table.loc["a", "grounding/score"] == 1.0
    assert table.loc["b", "grounding/score"] < 0.6
    assert "nothing_to_check" in str(table.loc["d", "grounding/error"])
    assert table.loc["a", "grounding/details"]["claims"][0]["groundingCheckRequired"] is False
