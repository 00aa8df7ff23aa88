"""Writes eval sets: converts older files to the current format, and exports recorded runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson

from ...schemas.config.evaluation import EvaluationConfig
from ...schemas.errors import ConfigError
from ...schemas.formats.adk import SUFFIXES
from ...schemas.formats.adk_result import invocation_out
from ...schemas.json import Json
from ...schemas.tables import MOVED, OWN_NAMES
from ...transforms.agents.recorded import RecordedAgent
from ...transforms.dialects._rules import RowRules
from ...transforms.io import storage
from ...transforms.readers._files import holds_eval_set
from ...transforms.readers.base import selection
from ..config.files import load
from ..run.parts import build_rules
from ..run.result import EvaluationResult
from ..run.tables import rows_of, types_of_instances
from .evaluate import load_cases

_OPTIONS = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def adk_migrate(source: str, destination: str, initial_session_file: str | None = None) -> int:
    """Converts an eval set of any format to the current one.

    Missing ids of invocations are derived from their position, so that the same file gives the same bytes.

    Args:
        source: Path of the eval set.
        destination: Path of the new file; its ending (`.evalset.json`, `.test.json`) does not matter.
        initial_session_file: JSON file with the session of cases without one.

    Returns:
        Number of cases written.

    Raises:
        ConfigError: The file is unreadable, not an eval set or has a malformed case, or the new one is not writable.
    """
    cases = load_cases(source)
    session = _complete_session(load(initial_session_file)) if initial_session_file else None
    for case in cases:
        if session is not None and not case.get("session_input"):
            case["session_input"] = session
        for number, invocation in enumerate(case.get("conversation") or ()):
            if not (invocation.get("invocation_id") or invocation.get("invocationId")):
                invocation["invocation_id"] = _hash_id(case["eval_id"], number)
    _write(destination, encode_eval_set(cases[0]["eval_set_id"] if cases else "", cases))
    return len(cases)


def to_evalset(source: str, destination: str, eval_set_id: str | None = None) -> int:
    """Writes the answers of a finished run as an eval set that expects them, as `adk web` saves a session.

    Args:
        source: Folder of the run.
        destination: Path of the new file.
        eval_set_id: Id of the set; default: the name of the file.

    Returns:
        Number of cases written; rows without an answer are skipped.

    Raises:
        ConfigError: The run does not exist, or the file is not writable.
    """
    name = destination.replace("\\", "/").rpartition("/")[2]
    set_id = eval_set_id or next((name.removesuffix(s) for s in SUFFIXES if name.endswith(s)), name.partition(".")[0])
    result = EvaluationResult.load(source)
    config = EvaluationConfig.parse(result.manifest["config"])
    rules = replace(build_rules(config, RecordedAgent()), trial=None)
    types = {name: type_ for name, type_ in types_of_instances(result).items() if name not in OWN_NAMES}
    rows = _sort_rows(rows_of(result, "instances"), config)
    cases = list(_convert_rows(rows, lambda row: _read_prompt(row, types, rules)))
    _write(destination, encode_eval_set(set_id, cases))
    return len(cases)


def _sort_rows(rows: Iterable[Mapping[str, Any]], config: EvaluationConfig) -> Iterable[Mapping[str, Any]]:
    """Sorts the rows of a run over eval sets as their files do; those of other datasets stay as they are."""
    order: dict[tuple[str, str], int] = {}
    for path in config.dataset.paths or ():
        file, _ = selection(path)
        if not (file.endswith(SUFFIXES) or holds_eval_set(file)):
            return rows
        try:
            cases = load_cases(path)
        except ConfigError:  # no longer there
            return rows
        for case in cases:
            order.setdefault((str(case["eval_set_id"]), str(case["eval_id"])), len(order))
    if not order:
        return rows
    return sorted(
        rows, key=lambda r: (order.get((str(r.get("eval_set_id")), str(r.get("eval_id"))), len(order)), r["trial"])
    )


def _write(path: str, data: bytes) -> None:
    try:
        storage.write_bytes(path, data)
    except Exception as error:  # each filesystem raises exceptions of its own
        raise ConfigError(f"cannot be written: {error}", where=path, allowed="a file in a writable folder") from error


def _read_prompt(row: Mapping[str, Any], types: Mapping[str, str], rules: RowRules) -> str:
    """Returns the agent's input for a row of one turn, as the dialect reads it from the dataset's columns."""
    own = {n.removeprefix(MOVED): v for n, t in types.items() if (v := _decode(row.get(n), t)) is not None}
    _, fields = rules.read(own)
    found = next((v for n in ("prompt", "instruction") if (v := fields.get(n, own.get(n))) is not None), "")
    return found if isinstance(found, str) else orjson.dumps(found).decode()


def _decode(value: Json, kind: str) -> Json:
    return orjson.loads(value) if kind == "json" and isinstance(value, str) else value


def _convert_rows(
    rows: Iterable[Mapping[str, Any]], prompt_of: Callable[[Mapping[str, Any]], str]
) -> Iterator[dict[str, Json]]:
    names: set[str] = set()
    for row in rows:
        if row["status"] != "ok":
            continue
        base = str(row.get("eval_id") or row["instance_id"])
        name, number = base, int(row["trial"])
        while name in names:  # another trial, or a case of that name of another set
            name, number = f"{base}-{number}", number + 1
        names.add(name)
        case: dict[str, Json] = {"eval_id": name, "conversation": []}
        for number, turn in enumerate(_read_turns(row, prompt_of)):
            invocation = invocation_out(turn, _hash_id(name, number))
            invocation.pop("duration", None)  # measured: the same run gives the same bytes
            case["conversation"].append(invocation)
        session = row.get("session_input")
        yield {**case, "session_input": orjson.loads(session)} if session else case


def _read_turns(row: Mapping[str, Any], prompt_of: Callable[[Mapping[str, Any]], str]) -> list[dict[str, Json]]:
    """Returns the turns of a row; a row without turns is a single turn."""
    if row.get("turns"):
        return orjson.loads(row["turns"])
    calls = row.get("predicted_trajectory")
    turn = {"prompt": prompt_of(row), "response": row.get("response")}
    return [{**turn, "predicted_trajectory": orjson.loads(calls)} if calls else turn]


def encode_eval_set(set_id: str, cases: Iterable[Mapping[str, Json]]) -> bytes:
    """Encodes an EvalSet."""
    kept = [{key: value for key, value in case.items() if key != "eval_set_id"} for case in cases]
    return orjson.dumps({"eval_set_id": set_id, "name": set_id, "eval_cases": kept}, option=_OPTIONS)


def _complete_session(given: Json) -> Json:
    if not isinstance(given, Mapping):
        raise ConfigError(f"found {given!r:.50}", where="initial_session_file", allowed="an object with state")
    return {key: given.get(key) or default for key, default in (("app_name", ""), ("user_id", ""), ("state", {}))}


def _hash_id(name: str, number: int) -> str:
    return "e-" + hashlib.sha256(orjson.dumps([name, number])).hexdigest()[:12]
