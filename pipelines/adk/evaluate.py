"""Evaluates ADK agents on ADK's own files, for `evalbeam adk-eval` and `assert_eval`."""

from __future__ import annotations

import difflib
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from ...schemas.config.evaluation import EvaluationConfig
from ...schemas.errors import ConfigError, RowError
from ...schemas.formats.adk import SUFFIXES, case_fields, read_each_case
from ...schemas.formats.adk_config import EXPECTING, AdkConfig, default_config, read_config
from ...schemas.formats.adk_result import CaseVerdict, Status, case_result, case_verdict, overall, result_file
from ...schemas.json import Json
from ...transforms.io import storage
from ...transforms.readers._files import holds_eval_set
from ...transforms.readers.base import selection
from ..config.adk_criteria import convert_criteria, load_test_config
from ..config.adk_models import build_simulator
from ..run.build import make_plan
from ..run.evaluate import run
from ..run.result import EvaluationResult
from ..run.tables import rows_of
from ..runners.options import pipeline_options

TURN_TIMEOUT = 300.0
"""Default timeout of a turn, in seconds."""
_CONVERSATION_TIMEOUT = 3600.0
_RATE_LIMIT_TIMEOUT = 120.0
"""Default seconds after which an endpoint that does nothing but refuse calls for their rate is called no more."""
_ASKED = {
    "timeout": _CONVERSATION_TIMEOUT,
    "turn_timeout": TURN_TIMEOUT,
    "rate_limit_timeout": _RATE_LIMIT_TIMEOUT,
}
"""Default policy of the agent."""
_JUDGED = {"rate_limit_timeout": _RATE_LIMIT_TIMEOUT, "deadline": 2 * _RATE_LIMIT_TIMEOUT, "failure_threshold": None}
"""Default policy of judges: one that fails ends its own metrics, not the conversations."""


@dataclass(frozen=True)
class AdkEvaluation:
    """The result of an evaluation.

    Attributes:
        run: The run, with its tables.
        config: The criteria.
        cases: The verdicts in the order of the eval sets' files, with all trials of a case together. Cases that cannot
            be read are FAILED.
    """

    run: EvaluationResult
    config: AdkConfig
    cases: tuple[CaseVerdict, ...]

    @property
    def verdicts(self) -> dict[str, Status]:
        """The verdict on each eval set, by its id."""
        sets: dict[str, list[Status]] = {}
        for case in self.cases:
            sets.setdefault(case.eval_set_id, []).append(case.status)
        return {name: overall(statuses) for name, statuses in sets.items()}

    @cached_property
    def by_row(self) -> dict[tuple[str, int], CaseVerdict]:
        """The verdict on each row of the instances table, by instance_id and trial."""
        return {(case.instance_id, case.trial): case for case in self.cases}

    @property
    def passed(self) -> bool:
        """True if there are cases and all of them passed."""
        return bool(self.cases) and all(case.status == "PASSED" for case in self.cases)


def adk_evaluate(
    agent: Any,
    eval_sets: str | Sequence[str],
    config: Any = None,
    *,
    num_runs: int = 1,
    output: str | None = None,
    agent_options: Mapping[str, Any] | None = None,
    judges: Mapping[str, Any] | None = None,
    lenient: bool = False,
    options: Sequence[str] = (),
    overwrite: bool = False,
) -> AdkEvaluation:
    """Runs an ADK agent on eval sets and decides the verdict on every case.

    Args:
        agent: Target of an agent of type `adk`.
        eval_sets: A file or several, each optionally followed by ":case,case".
        config: The criteria: the path of a test_config.json, or its content; default: ADK's own.
        num_runs, output, overwrite: Runs of each case; folder of the run; whether to replace a finished run there.
        agent_options, judges: Further keys of the agent's section; judges by name, default: the models criteria name.
        lenient, options: Whether verdicts are ADK's, as `compat.adk_verdicts`; Beam's options.

    Raises:
        ConfigError: A file, criterion or the agent is invalid, or no case is readable; nothing was called.
        RunError: The run itself failed.
    """
    eval_sets, config = [eval_sets] if isinstance(eval_sets, str) else eval_sets, _read_criteria(config)
    found, given = _load_checked_cases(eval_sets, config), agent_options or {}
    simulated = "simulator" not in given and _has_scenario(found)
    user = {"simulator": build_simulator(config.user_simulator or {}, judges)} if simulated else {}
    converted = _convert(config, lenient, judges)
    sections = {
        "dataset": {"path": list(eval_sets), "format": "evalset", "dialect": "adk", "max_invalid_fraction": 1.0},
        "agent": {"type": "adk", "target": agent, **_ASKED, **user, **given},
        "output": {"path": output or tempfile.mkdtemp(prefix="evalbeam-"), "overwrite": overwrite},
    }
    plan = make_plan(EvaluationConfig.parse({**sections, **converted, "trials": num_runs}))
    result = _check_started(run(plan, pipeline_options(options)))
    return AdkEvaluation(result, config, _build_verdicts(result, config, found, lenient))


def _read_criteria(config: Any) -> AdkConfig:
    if config is None or isinstance(config, AdkConfig):
        return config or default_config()
    named = isinstance(config, str | os.PathLike)
    path = os.fspath(config) if named else "config"
    return read_config(load_test_config(path) if named else config, path)


def _convert(config: AdkConfig, lenient: bool, judges: Mapping[str, Any] | None) -> dict[str, Any]:
    """Converts the criteria to sections of a configuration; judges get the default policy."""
    found = convert_criteria(config, lenient, judges)
    named = {n: {**_JUDGED, **judge} if isinstance(judge, Mapping) else judge for n, judge in found["judges"].items()}
    return {**found, "judges": named}


def _has_scenario(cases: Sequence[Mapping[str, Json] | CaseVerdict]) -> bool:
    return any(not isinstance(case, CaseVerdict) and "scenario" in case_fields(case) for case in cases)


def _check_started(result: EvaluationResult) -> EvaluationResult:
    if result.state == "failed":
        raise ConfigError(str(result.manifest.get("reason")), where="eval sets")
    return result


def _build_verdicts(
    result: EvaluationResult, config: AdkConfig, cases: Sequence[Mapping[str, Json] | CaseVerdict], lenient: bool
) -> tuple[CaseVerdict, ...]:
    """Builds the verdicts of a run, in the order of the cases."""
    keys = [
        (c.eval_set_id, c.eval_id) if isinstance(c, CaseVerdict) else (c["eval_set_id"], c["eval_id"]) for c in cases
    ]
    order = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    verdicts = [case_verdict(row, config.criteria, lenient) for row in rows_of(result, "instances")]
    verdicts += [case for case in cases if isinstance(case, CaseVerdict)]
    return tuple(sorted(verdicts, key=lambda v: (order.get((v.eval_set_id, v.eval_id), len(order)), v.trial)))


def find_eval_files(paths: Sequence[str], agent_dir: str = "", sets_dir: str | None = None) -> list[str]:
    """Finds the files of arguments: a file, all eval sets below a folder, or an eval set of the agent by its id.

    In a folder, `*.test.json` are the eval sets; without any, all files whose content is an EvalSet.

    Args:
        paths: The arguments.
        agent_dir: Folder of the agent.
        sets_dir: Folder of the eval sets with ids; default: that of the agent.

    Raises:
        ConfigError: An argument matches no file.
    """
    files: list[str] = []
    for path in paths:
        file, _ = selection(path)
        if os.path.isdir(path):
            files += _find_in_folder(path)
        elif "://" in file or os.path.isfile(file):
            files.append(path)
        else:
            name, colon, cases = path.partition(":")
            folder = sets_dir or agent_dir
            by_id = storage.join(folder, name + SUFFIXES[0])
            if not folder or not storage.exists(by_id):
                raise ConfigError(f"no eval set {path!r}", where="eval set", allowed="a file, folder or id")
            files.append(by_id + colon + cases)
    return files


def _find_in_folder(path: str) -> list[str]:
    files = sorted(
        str(p) for p in Path(path).rglob("*.json") if not any(s[:1] == "." for s in p.relative_to(path).parts)
    )
    inside = [file for file in files if file.endswith(SUFFIXES[1])] or [file for file in files if holds_eval_set(file)]
    if not inside:
        raise ConfigError(f"no {SUFFIXES[1]} and no EvalSet in {path!r}", where="eval set")
    return inside


def choose_config(files: Sequence[str], config_file_path: str | None) -> AdkConfig:
    """Chooses the criteria as `adk eval` does: those of the configuration file, else of the test_config.json next to a
    single file, else ADK's defaults.
    """
    if config_file_path is not None:
        return read_config(load_test_config(config_file_path), config_file_path)
    beside = os.path.join(os.path.dirname(selection(files[0])[0]), "test_config.json") if len(files) == 1 else ""
    return read_config(load_test_config(beside), beside) if beside and os.path.isfile(beside) else default_config()


def load_cases(path: str) -> list[dict[str, Json]]:
    """Loads the cases that a path selects.

    Raises:
        ConfigError: The file is unreadable, not an eval set, has a malformed case, or lacks a selected case.
    """
    found = _read_cases(path)
    rejected = next((case for case in found if isinstance(case, CaseVerdict)), None)
    if rejected is not None:
        raise ConfigError(str(rejected.error))
    return [case for case in found if not isinstance(case, CaseVerdict)]


def _read_cases(path: str) -> list[dict[str, Json] | CaseVerdict]:
    """Reads the cases that a path selects; a malformed one is given by its verdict."""
    file, wanted = selection(path)
    try:
        read = read_each_case(storage.read_bytes(file), file)
    except (RowError, OSError) as error:
        raise ConfigError(str(error), where=file) from None
    good = [case for _, case in read if not isinstance(case, RowError)]
    known = [str(case["eval_id"]) for case in good if "eval_id" in case]
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3) or known[:10]
            raise ConfigError(f"no case {name!r}", where=file, allowed=", ".join(near))
    found: list[dict[str, Json] | CaseVerdict] = []
    for number, case in read:
        named = {} if isinstance(case, RowError) else case
        eval_id = str(named.get("eval_id", f"case {number}"))
        if wanted and eval_id not in wanted:
            continue
        try:
            if isinstance(case, RowError):
                raise case
            case_fields(case)
            found.append(case)
        except RowError as error:
            set_id = str((named or next(iter(good), {})).get("eval_set_id", ""))
            found.append(CaseVerdict(set_id, eval_id, 0, "", "FAILED", (), f"{file}: {error.message}"))
    return found


def _load_checked_cases(eval_sets: Sequence[str], config: AdkConfig) -> list[dict[str, Json] | CaseVerdict]:
    found = [case for path in eval_sets for case in _read_cases(path)]
    cases = [case for case in found if not isinstance(case, CaseVerdict)]
    if not cases:
        why = next((str(c.error) for c in found if isinstance(c, CaseVerdict)), "the eval sets have no cases")
        raise ConfigError(why, where="eval set")
    if all(c.function is None and c.name in EXPECTING for c in config.criteria):
        for case in cases:
            if "scenario" in case_fields(case):
                names = ", ".join(c.name for c in config.criteria)
                found_ = f"no criterion applies to the scenario {case['eval_id']!r}: {names} compare with expectations"
                raise ConfigError(found_, where="criteria", allowed="a criterion that needs no expectations")
    return found


def write_results(evaluation: AdkEvaluation, folder: str, app_name: str) -> list[str]:
    """Writes an `.evalset_result.json` for each eval set into a folder, as `adk eval` does.

    Args:
        evaluation: The result of the evaluation.
        folder: Target folder, `<agent>/.adk/eval_history` for `adk web`.
        app_name: Name of the agent.

    Returns:
        The paths of the files.
    """
    now, paths = time.time(), []
    for set_id in evaluation.verdicts:
        result_id = f"{app_name}_{set_id}_{now}"
        path = storage.join(folder, f"{result_id.replace('/', '_')}.evalset_result.json")
        rows = (r for r in rows_of(evaluation.run, "instances") if str(r.get("eval_set_id") or "") == set_id)
        named = ((r, evaluation.by_row[r["instance_id"], r["trial"]]) for r in rows)
        unread = (({}, c) for c in evaluation.cases if not c.instance_id and c.eval_set_id == set_id)
        with storage.create(path) as stream:
            for piece in result_file(set_id, result_id, (case_result(r, v) for r, v in chain(named, unread)), now):
                stream.write(piece)
        paths.append(path)
    return paths
