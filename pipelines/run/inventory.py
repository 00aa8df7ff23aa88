"""What a start knows of the outside world, each source read once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from apache_beam.options.pipeline_options import PipelineOptions

from ...schemas.batch import RowBlock
from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ...transforms.agents._source import source_of
from ...transforms.agents.base import Recording
from ...transforms.calls.context import RunContext
from ...transforms.first_rows import FirstRows, look_at_rows
from ...transforms.journal.run_state import RunState, read_agents, read_run
from ...transforms.readers._files import FileInfo, read_blocks, readers_of
from ...transforms.readers.base import Reader, SchemeReader
from ..runners import lease
from ..runners.lease import Lease
from .plan import Plan
from .preflight import EngineReport, look_at


@dataclass(frozen=True)
class Inventory:
    """What a start knows of the outside world.

    Attributes:
        engine: What was found of the engine and of the secrets.
        rows: The first rows of the dataset, see `read_first_rows`; none of a dataset in memory.
        lease: The latest lease of the run's folder. Whoever takes the next one finds `run` as it is here.
        obstacle: Why the next one cannot be taken; `None` if it can.
        run: What stands in the run's folder.
        source: Hash of the agent's source; `None` if it has none, or is not called.
        replayed: The fingerprints of the calls of the run that is replayed, and the parts of each.
    """

    engine: EngineReport
    rows: FirstRows
    lease: Lease | None
    obstacle: ConfigError | None
    run: RunState
    source: str | None
    replayed: Mapping[str, Mapping[str, Json]]


def take_inventory(plan: Plan, options: PipelineOptions, blocks: Iterable[RowBlock] | None = None) -> Inventory:
    """Reads what a start must know.

    Args:
        plan: What is to be run.
        options: Beam's options.
        blocks: The dataset, if it was read already.

    Raises:
        ConfigError: Something that is there cannot be read.
    """
    output = plan.config.output.path
    last = lease.latest(output)  # before what it guards
    obstacle = lease.find_obstacle(output, last)
    engine = look_at(options, plan)
    rows = read_first_rows(plan, plan.files, blocks)
    run, replay = read_run(output), plan.config.replay
    agent = plan.config.agent
    source = None if plan.recorded or agent.type == "gemini" else source_of(agent.target)  # a model's name has none
    return Inventory(engine, rows, last, obstacle, run, source, {} if replay is None else read_agents(replay))


def open_readers(plan: Plan, files: Sequence[FileInfo]) -> dict[str, Reader]:
    """The readers of a plan's files, by format."""
    return readers_of(files, dict(plan.declared), plan.reading(RunContext()))


def read_first_rows(plan: Plan, files: Sequence[FileInfo], blocks: Iterable[RowBlock] | None = None) -> FirstRows:
    """Reads the first rows of a dataset; none if a service has to be asked for them (a table, a query)."""
    readers = open_readers(plan, files)
    if any(isinstance(readers[f.format], SchemeReader) for f in files):
        return FirstRows()
    recording = plan.agent if isinstance(plan.agent, Recording) else None
    return look_at_rows(blocks or read_blocks(files, readers), plan.rules, recording, plan.wanted_columns)
