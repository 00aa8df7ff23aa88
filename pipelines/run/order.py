"""The order in which a dataset's rows stand in its files, which the tables, sorted by id, do not keep."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ...schemas.config.evaluation import AgentConfig, EvaluationConfig
from ...schemas.errors import RowError
from ...schemas.instance import Instance
from ...transforms.batch_rows import sort_instances
from ...transforms.readers._files import expand, read_blocks, readers_of
from .parts import build_agent, build_rules

if TYPE_CHECKING:
    import pandas as pd


def in_dataset_order(table: pd.DataFrame, config: EvaluationConfig) -> pd.DataFrame:
    """Rows of an instances table in the order of the dataset, trials of a row together.

    Args:
        table: Has instance_id and trial.
        config: The configuration of the run; its files are read again.
    """
    place = {key: i for i, key in enumerate(dataset_keys(config))}
    keys = zip(table["instance_id"], table["trial"], range(len(table)), strict=True)
    order = [k for _, _, k in sorted((place.get((i, trial), place.get((i, 0))), trial, k) for i, trial, k in keys)]
    return table.iloc[order].reset_index(drop=True)


def dataset_keys(config: EvaluationConfig) -> list[tuple[str, int]]:
    """Id and recorded trial (0 without one) of all rows that have an id, in the order of files and lines.

    Those that were not sampled are among them.
    """
    data = config.dataset
    files = expand(data.paths, data.format)
    readers = readers_of(files, {name: c.type for name, c in data.columns.items() if c.type is not None})
    rules = build_rules(config, build_agent(AgentConfig()))
    found: list[Instance] = []
    for _, row in (line for block in read_blocks(files, readers) for line in block.rows):
        with suppress(RowError):
            read = [(each, rules.read(each)) for each in rules.rows(row)]
            found += [Instance(instance_id, each, fields) for each, (instance_id, fields) in read]
    named = None if data.id is None or data.trial is None else (data.id, data.trial)
    keys = {id(one.row): (one.instance_id, one.trial or 0) for one in sort_instances(found, named)}
    return [keys[id(one.row)] for one in found]
