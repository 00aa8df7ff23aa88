"""Eval sets as datasets: a row for each case, cases chosen by name, nothing lost."""

import json

import pytest

from evalbeam.schemas.errors import ConfigError
from evalbeam.transforms.readers._files import expand, head
from evalbeam.transforms.readers.base import selection


def case(name, **more):
    return {"eval_id": name, "conversation": [{"user_content": {"parts": [{"text": name}]}}], **more}


@pytest.fixture
def eval_set(tmp_path):
    path = tmp_path / "dice.evalset.json"
    cases = [case("a", topic="x"), case("b"), case("tests/c.test.json")]
    path.write_text(json.dumps({"eval_set_id": "dice", "eval_cases": cases}, indent=2))
    return str(path)


def rows(path):
    blocks = head(expand([path]), rows=100)
    return [row["eval_id"] for b in blocks for _, row in b.rows], [
        (r.code, r.message) for b in blocks for r in b.rejected
    ]


def test_a_case_is_a_row(eval_set):
    assert rows(eval_set) == (["a", "b", "tests/c.test.json"], [])
    (block,) = head(expand([eval_set]))
    assert block.rows[0] == (1, {"eval_set_id": "dice", **case("a", topic="x")})


def test_cases_are_chosen_by_name(eval_set):
    assert rows(f"{eval_set}:b, a") == (["a", "b"], [])
    assert rows(f"{eval_set}:tests/c.test.json") == (["tests/c.test.json"], [])
    found, rejected = rows(f"{eval_set}:a,nobody")
    assert found == ["a"]
    assert rejected == [("unknown_eval_case", "the eval set has no case 'nobody' (allowed: a, b, tests/c.test.json)")]


def test_paths_that_choose_nothing():
    assert selection("gs://b/x.json:a,b") == ("gs://b/x.json", ("a", "b"))
    assert selection("C:/x.evalset.json") == ("C:/x.evalset.json", ())
    assert selection("gs://b/x.json") == ("gs://b/x.json", ())


def test_rows_of_other_files_are_not_chosen(tmp_path):
    (tmp_path / "x.json").write_text('[{"prompt": "p"}]')
    with pytest.raises(ConfigError, match="there is no file at"):
        expand([f"{tmp_path}/x.json:a"])


def test_configurations_beside_the_sets_are_no_data(tmp_path, eval_set):
    (tmp_path / "test_config.json").write_text('{"criteria": {}}')
    assert [f.path for f in expand([str(tmp_path)])] == [eval_set]


def test_what_is_no_eval_set_is_one_rejected_line(tmp_path):
    (tmp_path / "x.test.json").write_text("[1, 2]")
    found, ((code, message),) = rows(str(tmp_path / "x.test.json"))
    assert (found, code) == ([], "unknown_eval_set")
    assert "allowed: an EvalSet" in message
