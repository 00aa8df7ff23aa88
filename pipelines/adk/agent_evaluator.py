"""`AgentEvaluator`, with the methods and arguments of the class of that name in google-adk."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import orjson

from ...schemas.errors import ConfigError
from ...schemas.formats.adk_config import AdkConfig, read_config
from ...schemas.json import Json
from .assert_eval import assert_eval, check_evaluations, evaluate_folders, find_target
from .eval_sets import adk_migrate
from .evaluate import choose_config

_ELSEWHERE = {
    "output_file": "nothing: adk_evaluate(...).run.metrics_table is the table",
    "app_name": "nothing: evalbeam adk-eval writes result files",
    "eval_set_results_manager": "nothing: evalbeam adk-eval writes result files",
}
"""Arguments of google-adk, and where their purpose is found."""


class AgentEvaluator:
    """Evaluates ADK agents in pytest; `from evalbeam import AgentEvaluator` replaces google-adk's import."""

    @staticmethod
    async def evaluate(
        agent_module: Any,
        eval_dataset_file_path_or_dir: str,
        num_runs: int = 2,
        agent_name: str | None = None,
        initial_session_file: str | None = None,
        print_detailed_results: bool = True,
        artifact_service: Any = None,
        **more: Any,
    ) -> None:
        """Does what `assert_eval` does, on a thread.

        Args:
            agent_module, eval_dataset_file_path_or_dir, num_runs, agent_name: As for `assert_eval`.
            initial_session_file, print_detailed_results: As for `assert_eval`.
            artifact_service: Not supported: each conversation has artifacts of its own.
            **more: As for `assert_eval`.

        Raises:
            AssertionError, ConfigError: As for `assert_eval`.
        """
        options = _drop_services(artifact_service, more)
        given = (agent_module, eval_dataset_file_path_or_dir, num_runs, agent_name, initial_session_file)
        await asyncio.to_thread(assert_eval, *given, print_detailed_results, **options)

    @staticmethod
    async def evaluate_eval_set(
        agent_module: Any,
        eval_set: Any,
        criteria: Mapping[str, float] | None = None,
        eval_config: Any = None,
        num_runs: int = 2,
        agent_name: str | None = None,
        print_detailed_results: bool = True,
        artifact_service: Any = None,
        **more: Any,
    ) -> None:
        """Evaluates an EvalSet that is not in a file.

        Args:
            agent_module, num_runs, agent_name, print_detailed_results: As for `assert_eval`.
            eval_set: The EvalSet, as google-adk's object or as JSON.
            criteria: Threshold of each metric.
            eval_config: The EvalConfig, as google-adk's object or as JSON, in place of `criteria`.
            artifact_service: Not supported.
            **more: As for `assert_eval`.

        Raises:
            AssertionError, ConfigError: As for `assert_eval`.
        """
        options = _drop_services(artifact_service, more)
        config = _read(eval_config) if eval_config is not None else {"criteria": dict(criteria or {})}
        parsed = read_config(config, "criteria" if eval_config is None else "eval_config")

        def check() -> None:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "eval_set.evalset.json")
                with open(path, "wb") as file:
                    file.write(orjson.dumps(_read(eval_set)))
                judges = options.pop("judges", None)
                asked = {"agent_name": agent_name, **options}
                found = evaluate_folders(find_target(agent_module), [path], num_runs, asked, judges, parsed)
            check_evaluations(found, print_detailed_results)

        await asyncio.to_thread(check)

    @staticmethod
    def find_config_for_test_file(test_file: str) -> AdkConfig:
        """Returns the criteria of a test file: those of the test_config.json beside it, else ADK's defaults."""
        return choose_config([test_file], None)

    @staticmethod
    def migrate_eval_data_to_new_schema(
        old_eval_data_file: str, new_eval_data_file: str, initial_session_file: str | None = None
    ) -> None:
        """Converts an eval set of any format to the current one, see `evalbeam adk-migrate`.

        Raises:
            ConfigError: A file is unreadable, not an eval set or not writable.
        """
        adk_migrate(old_eval_data_file, new_eval_data_file, initial_session_file)


def _drop_services(artifact_service: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that are not objects and files of google-adk's services, which must be `None`.

    Raises:
        ConfigError: One of those is given.
    """
    named = {"artifact_service": artifact_service, **{name: more.get(name) for name in _ELSEWHERE}}
    for name, value in named.items():
        if value is not None:
            allowed = _ELSEWHERE.get(name, "nothing: each conversation has services of its own")
            raise ConfigError(f"found {type(value).__name__}", where=name, allowed=allowed)
    return {key: value for key, value in more.items() if key not in _ELSEWHERE}


def _read(value: Any) -> Json:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_none=True)
    return value
