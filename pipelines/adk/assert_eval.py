"""`assert_eval`: ADK's `AgentEvaluator.evaluate` for pytest, on this pipeline."""

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
from .evaluate import AdkEvaluation, adk_evaluate, config_of, eval_files
from .report import detailed

_PLACES = (":agent", ":app", ":root_agent", ".agent:app", ".agent:root_agent")


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

    The criteria stand in the `test_config.json` beside each file, else they are ADK's own. As in ADK, a metric of a
    case is the mean of what all turns of all its runs score; unlike there, all files are evaluated before it fails,
    and the error names all that failed.

    Args:
        agent_module: A module or package with `agent.app` or `agent.root_agent`; also "module:name", a folder or an
            object.
        eval_dataset_file_path_or_dir: The file or folder.
        num_runs: How often each case is run.
        agent_name: Sub-agent to be evaluated.
        initial_session_file: JSON of the session of cases that do not say theirs.
        print_detailed_results: Show the turns of what failed.
        judges: Judge models by name, as in a configuration; default: the models that the criteria name.
        **agent: Further keys of the agent's configuration: `turn_timeout`, `max_in_flight`, `simulator` ...

    Raises:
        AssertionError: A metric is below its threshold, or could not be evaluated.
        ConfigError: Something named does not exist; nothing was called.
    """
    options = {"session": _session(initial_session_file), "agent_name": agent_name, **agent}
    files = eval_files([eval_dataset_file_path_or_dir])
    evaluations = _evaluations(_target(agent_module), files, num_runs, options, judges)
    failures = [line for evaluation in evaluations for line in _failures(evaluation)]
    if failures:
        for evaluation in evaluations if print_detailed_results else ():
            say("\n".join(detailed(evaluation, failed_only=True)))
        raise AssertionError("\n".join(failures))
    return evaluations


def _session(path: str | None) -> dict[str, Any]:
    session = load(path) if path else {}
    return {key: session[key] for key in ("app_name", "user_id", "state") if key in session}


def _evaluations(
    target: Any, files: Sequence[str], num_runs: int, options: Mapping[str, Any], judges: Mapping[str, Any] | None
) -> list[AdkEvaluation]:
    """An evaluation for each folder of files, with the criteria that stand in it."""
    groups: dict[str, tuple[AdkConfig, list[str]]] = {}
    for file in files:
        _, inside = groups.setdefault(os.path.dirname(file), (config_of([file], None), []))
        inside.append(file)
    asked: dict[str, Any] = {"num_runs": num_runs, "agent_options": options, "judges": judges}
    return [adk_evaluate(target, some, config, **asked) for config, some in groups.values()]


def _target(agent_module: Any) -> Any:
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


def _failures(evaluation: AdkEvaluation) -> Iterator[str]:
    """One line for each case and metric that is not met, with the mean over all turns of all its runs."""
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
            scores = _scores(runs, name)
            open_runs = [r for r in runs if r[f"{name}/status"] not in ("scored", "not_applicable")]
            found = mean(scores) if scores else None
            if found is not None and found < criterion.threshold:
                yield f"{set_id}: {eval_id}: {name} is {found:.4g}, expected at least {criterion.threshold:g}"
            elif open_runs:  # the mean of the other runs is not that of the case
                yield f"{set_id}: {eval_id}: {name} {open_runs[0][f'{name}/error'] or 'it has no score'}"


def _scores(runs: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    import orjson

    found: list[float] = []
    for row in runs:
        turns = orjson.loads(row["turns"]) if row["turns"] else []
        scores = [turn.get("scores", {}).get(name) for turn in turns]
        whole = [row[f"{name}/score"]] if not any(s is not None for s in scores) else []
        found += [s for s in (*scores, *whole) if s is not None]
    return found
