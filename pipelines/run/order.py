"""The order in which a dataset's rows stand in its files, which the tables, sorted by id, do not keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...schemas.config.evaluation import AgentConfig, EvaluationConfig
from ...schemas.errors import RowError
from ...schemas.instance import Instance
from ...transforms.batch_rows import sort_instances
from ...transforms.readers._files import expand, readers_of
from .parts import build_agent, build_rules

if TYPE_CHECKING:
    import pandas as pd


def in_dataset_order(table: pd.DataFrame, config: EvaluationConfig) -> pd.DataFrame:
    """Rows of an instances table in the order of the dataset, trials of a row together.

    Args:
        table: Has instance_id and trial.
        config: The configuration of the run; its files are read again.
    """
    place = {instance_id: i for i, instance_id in enumerate(dataset_ids(config))}
    keys = zip(table["instance_id"], table["trial"], range(len(table)), strict=True)
    order = [k for _, _, k in sorted((place[i], trial, k) for i, trial, k in keys)]
    return table.iloc[order].reset_index(drop=True)


def dataset_ids(config: EvaluationConfig) -> list[str]:
    """Ids of all rows that have one, in the order of files and lines; those that were not sampled are among them."""
    data = config.dataset
    files = expand(data.paths, data.format)
    readers = readers_of(files, {name: c.type for name, c in data.columns.items() if c.type is not None})
    rules = build_rules(config, build_agent(AgentConfig()))
    found: list[Instance] = []
    for file in files:
        reader = readers[file.format]
        blocks = (block for part in reader.split(file.path, file.size) for block in reader.read(part))
        for _, row in (line for block in blocks for line in block.rows):
            try:
                found += [Instance(rules.read(each)[0], each) for each in rules.rows(row)]
            except RowError:
                continue
    ids = {id(instance.row): instance.instance_id for instance in sort_instances(found)}
    return [ids[id(instance.row)] for instance in found]
