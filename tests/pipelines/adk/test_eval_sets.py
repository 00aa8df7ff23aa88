"""Eval sets written: google-adk reads them, and they say what the files and runs said."""

import json

import pytest

from evalbeam import evaluate
from evalbeam.pipelines.cli.main import main
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.formats.adk import case_fields, read_cases

eval_sets = pytest.importorskip("google.adk.evaluation.eval_set")

TURN = {"query": "roll", "reference": "4", "expected_tool_use": [{"tool_name": "roll", "tool_input": {"n": 6}}]}


def test_older_sets_become_current_ones(tmp_path, capsys):
    old, new, session = tmp_path / "dice.test.json", tmp_path / "new.test.json", tmp_path / "session.json"
    old.write_text(json.dumps([TURN, {"query": "and?"}]))
    session.write_text(json.dumps({"id": "x", "app_name": "dice", "user_id": "u", "state": {"n": 1}, "events": []}))
    assert main(["adk-migrate", str(old), str(new), "--initial_session_file", str(session)]) == 0
    assert "1 cases" in capsys.readouterr().out
    first = new.read_bytes()
    made = eval_sets.EvalSet.model_validate_json(first)
    (case,) = made.eval_cases
    assert (made.eval_set_id, case.eval_id, case.session_input.state) == ("dice", "dice", {"n": 1})
    assert case.conversation[0].intermediate_data.tool_uses[0].args == {"n": 6}
    assert len({i.invocation_id for i in case.conversation}) == 2
    main(["adk-migrate", str(old), str(new), "--initial_session_file", str(session)])
    assert new.read_bytes() == first
    assert main(["adk-migrate", str(session), str(new)]) == 2
    assert "session.json: found an object with" in capsys.readouterr().err


def test_every_public_older_file_migrates(conformance, tmp_path):
    files = [f for f in (conformance / "adk" / "files").glob("*.test.json") if f.read_bytes().lstrip()[:1] == b"["]
    assert len(files) == 5
    for file in files:
        assert main(["adk-migrate", str(file), str(tmp_path / file.name)]) == 0
        before, after = (read_cases(f.read_bytes(), f.name) for f in (file, tmp_path / file.name))
        eval_sets.EvalSet.model_validate_json((tmp_path / file.name).read_bytes())
        for old, new in zip(before, after, strict=True):
            fields = case_fields(new)
            for turn in fields["conversation"]:
                turn.pop("extra")
            assert fields == case_fields(old)


def test_a_run_becomes_a_set_that_expects_its_answers(tmp_path):
    turns = [
        {"prompt": "a", "response": "1", "predicted_trajectory": [{"name": "t", "args": {}}]},
        {"prompt": "b", "response": "2"},
    ]
    rows = [
        {"prompt": "p", "response": "r", "predicted_trajectory": [{"tool_name": "t", "tool_input": {"x": 1}}]},
        {"conversation": [{"prompt": "a"}, {"prompt": "b"}], "turns": turns},
        {"prompt": "lost"},
    ]
    evaluate(rows, ["failure"], output=str(tmp_path / "run"), dataset_options={"max_invalid_fraction": 0})
    path = tmp_path / "saved.evalset.json"
    assert main(["to-evalset", str(tmp_path / "run"), str(path)]) == 0
    made = eval_sets.EvalSet.model_validate_json(path.read_bytes())
    assert made.eval_set_id == "saved"
    found = {c.conversation[0].user_content.parts[0].text: c for c in made.eval_cases}
    assert found.keys() == {"p", "a"}
    assert [i.final_response.parts[0].text for i in found["a"].conversation] == ["1", "2"]
    fields = {c["prompt"]: c for c in map(case_fields, read_cases(path.read_bytes(), path.name))}
    assert fields["p"]["reference_trajectory"] == [{"tool_name": "t", "tool_input": {"x": 1}}]
    assert (fields["b"]["reference"], fields["b"]["reference_trajectory"]) == (
        "2",
        [{"tool_name": "t", "tool_input": {}}],
    )


def test_cases_of_one_name_get_names_of_their_own(tmp_path):
    from evalbeam.pipelines.adk.eval_sets import _convert_rows

    rows = [{"status": "ok", "trial": trial, "eval_id": "a", "response": "r"} for trial in (0, 0, 1, 0)]
    assert [c["eval_id"] for c in _convert_rows(iter(rows), lambda _: "p")] == ["a", "a-0", "a-1", "a-2"]


@pytest.mark.parametrize("command", ["to-evalset", "adk-migrate"])
def test_a_file_that_cannot_be_written_is_named(command, tmp_path, capsys):
    source = tmp_path / "run"
    if command == "to-evalset":
        evaluate([{"prompt": "p", "response": "r"}], ["failure"], output=str(source))
    else:
        source.write_text('{"eval_set_id": "s", "eval_cases": []}')
    (tmp_path / "folder").mkdir()
    assert main([command, str(source), str(tmp_path / "folder")]) == 2
    assert f"evalbeam: error: {tmp_path}/folder: cannot be written: " in capsys.readouterr().err


def test_a_run_that_is_not_there(tmp_path):
    from evalbeam.pipelines.adk.eval_sets import to_evalset

    with pytest.raises(ConfigError, match="no finished run"):
        to_evalset(str(tmp_path), str(tmp_path / "x.evalset.json"))


def test_traces_become_a_set_that_expects_what_they_saw(conformance, tmp_path):
    traces = sorted((conformance / "traces").rglob("*.json"))
    found = evaluate(
        [str(p) for p in traces], ["failure"], output=str(tmp_path / "run"), dataset_options={"max_invalid_fraction": 1}
    )
    path = tmp_path / "saved.evalset.json"
    assert main(["to-evalset", str(tmp_path / "run"), str(path)]) == 0
    cases = eval_sets.EvalSet.model_validate_json(path.read_bytes()).eval_cases
    assert len(cases) == found.manifest["counts"]["ok"] > 5
    assert all(c.conversation[0].user_content.parts[0].text for c in cases)


def test_a_set_keeps_the_order_of_its_file(tmp_path):
    names = [f"c{i * 7 % 20}" for i in range(20)]
    said = {"user_content": {"parts": [{"text": "q"}]}, "final_response": {"parts": [{"text": "a"}]}}
    cases = [{"eval_id": n, "conversation": [{**said, "user_content": {"parts": [{"text": n}]}}]} for n in names]
    source = tmp_path / "any name.json"
    source.write_text(json.dumps({"eval_set_id": "s", "description": "d" * 2000, "eval_cases": cases}))
    answer = lambda row: {"turns": [{"response": "a", "predicted_trajectory": []}]}  # noqa: E731
    evaluate(str(source), ["failure"], answer, output=str(tmp_path / "run"))
    assert main(["to-evalset", str(tmp_path / "run"), str(tmp_path / "x.evalset.json")]) == 0
    made = eval_sets.EvalSet.model_validate_json((tmp_path / "x.evalset.json").read_bytes())
    assert [case.eval_id for case in made.eval_cases] == names
