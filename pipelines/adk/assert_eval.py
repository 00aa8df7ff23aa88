"""`assert_eval`: the counterpart of ADK's `AgentEvaluator.evaluate` for pytest."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...schemas.errors import ConfigError
from ...schemas.formats.adk_config import AdkConfig
from ...schemas.values import mean
from ...transforms import registry
from ..config.files import load
from ..display.console import say
from ..run.tables import rows_of
from .evaluate import AdkEvaluation, adk_evaluate, choose_config, find_eval_files
from .report import render_details

_NAMES = ("app", "root_agent", "get_agent_async")
_PLACES = (":agent", *(f":{name}" for name in _NAMES), *(f".agent:{name}" for name in _NAMES))


def assert_eval(
    agent_module: Any,
    eval_dataset_file_path_or_dir: str,
    num_runs: int = 2,
    agent_name: str | None = None,
    initial_session_file: str | None = None,
    print_detailed_results: bool = True,
    judges: Mapping[str, Any] | None = None,
    **agent: Any,
) -> list[AdkEvaluation]:
    """Fails unless an ADK agent meets the criteria on a test file, or on all `*.test.json` below a folder.

    The criteria are those of the `test_config.json` next to each file, else ADK's defaults. As in ADK, the score of a
    case is the mean over all turns of all its runs. Unlike in ADK, all files are evaluated first, and the error names
    everything that failed.

    Args:
        agent_module: A module or package with `agent.app` or `agent.root_agent`; also "module:name", a folder or an
            object.
        eval_dataset_file_path_or_dir: The file or folder.
        num_runs: Number of runs of each case.
        agent_name: Name of the sub-agent to evaluate.
        initial_session_file: JSON file with the session of cases without one.
        print_detailed_results: Show the turns of failed cases.
        judges: Judge models by name, as in a configuration; default: the models that the criteria name.
        **agent: Further keys of the agent's configuration: `turn_timeout`, `max_in_flight`, `simulator` ...

    Raises:
        AssertionError: A metric is below its threshold, or could not be evaluated.
        ConfigError: A file, the agent or another named object does not exist; nothing was called.
    """
    options = {"session": _load_session(initial_session_file), "agent_name": agent_name, **agent}
    files = find_eval_files([eval_dataset_file_path_or_dir])
    evaluations = evaluate_folders(find_target(agent_module), files, num_runs, options, judges)
    check_evaluations(evaluations, print_detailed_results)
    return evaluations


def check_evaluations(evaluations: Sequence[AdkEvaluation], print_detailed_results: bool) -> None:
    """Fails unless all cases meet the criteria; see `assert_eval`."""
    failures = [line for evaluation in evaluations for line in _list_failures(evaluation)]
    if failures:
        for evaluation in evaluations if print_detailed_results else ():
            say("\n".join(render_details(evaluation, failed_only=True)))
        raise AssertionError("\n".join(failures))


def _load_session(path: str | None) -> dict[str, Any]:
    session = load(path) if path else {}
    return {key: session[key] for key in ("app_name", "user_id", "state") if key in session}


def evaluate_folders(
    target: Any,
    files: Sequence[str],
    num_runs: int,
    options: Mapping[str, Any],
    judges: Mapping[str, Any] | None,
    config: AdkConfig | None = None,
) -> list[AdkEvaluation]:
    """Evaluates the files of each folder with the criteria of that folder, or with those given."""
    groups: dict[str, tuple[AdkConfig, list[str]]] = {}
    for file in files:
        _, inside = groups.setdefault(os.path.dirname(file), (config or choose_config([file], None), []))
        inside.append(file)
    asked: dict[str, Any] = {"num_runs": num_runs, "agent_options": options, "judges": judges}
    return [adk_evaluate(target, some, chosen, **asked) for chosen, some in groups.values()]


def find_target(agent_module: Any) -> Any:
    """Finds the agent of a module as ADK's AgentEvaluator does; returns other targets unchanged.

    Raises:
        ConfigError: The module cannot be imported, or has no agent.
    """
    if not isinstance(agent_module, str) or ":" in agent_module or os.path.isdir(agent_module):
        return agent_module
    problems = []
    for target in (f"{agent_module}{place}" for place in _PLACES):
        try:
            registry.load_object(target, "agent_module")
            return target
        except ConfigError as error:
            problems.append(error)
    raise problems[0]


def _list_failures(evaluation: AdkEvaluation) -> Iterator[str]:
    """Yields a line for each unreadable case, and for each case and metric below its threshold, with the mean over all
    turns of all runs.
    """
    yield from (str(case.error) for case in evaluation.cases if not case.instance_id)
    rows: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows_of(evaluation.run, "instances"):
        rows.setdefault((str(row.get("eval_set_id")), str(row["eval_id"])), []).append(row)
    for (set_id, eval_id), runs in rows.items():
        broken = next((r for r in runs if r["status"] != "ok"), None)
        if broken is not None:
            yield f"{set_id}: {eval_id}: the agent failed: {broken['error_type']}: {broken['error_message']}"
            continue
        for criterion in evaluation.config.criteria:
            name = criterion.name
            scores = _list_scores(runs, name)
            open_runs = [r for r in runs if r[f"{name}/status"] not in ("scored", "not_applicable")]
            average = mean(scores) if scores else None
            if average is not None and average < criterion.threshold:
                yield f"{set_id}: {eval_id}: {name} is {average:.4g}, expected at least {criterion.threshold:g}"
            elif open_runs:  # the mean of the remaining runs is not that of the case
                yield f"{set_id}: {eval_id}: {name} {open_runs[0][f'{name}/error'] or 'it has no score'}"


def _list_scores(runs: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    import orjson

    found: list[float] = []
    for row in runs:
        turns = orjson.loads(row["turns"]) if row["turns"] else []
        scores = [turn.get("scores", {}).get(name) for turn in turns]
        whole = [row[f"{name}/score"]] if not any(s is not None for s in scores) else []
        found += [s for s in (*scores, *whole) if s is not None]
    return found
