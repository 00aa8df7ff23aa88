"""A whole evaluation: the Beam graph, a run of it, and the Python front door."""

from __future__ import annotations

import gc
import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Unpack

import apache_beam as beam
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.pvalue import AsSingleton, PBegin

from ...schemas.config.evaluation import EvaluationConfig
from ...schemas.errors import ConfigError, EvalbeamError, Mistakes, RunError
from ...schemas.run_folder import FINISHED
from ...transforms.aggregate import SummarizeScores
from ...transforms.batch_rows import BatchRows
from ...transforms.calls.batch_exchange import hand_over, take_in
from ...transforms.calls.budget import Budget
from ...transforms.calls.context import RunContext
from ...transforms.calls.paid import PaidCalls
from ...transforms.facts import CombineStats
from ...transforms.find_slices import FindWorstSlices
from ...transforms.finish import FinishRun
from ...transforms.group_failures import GroupFailures
from ...transforms.io import storage
from ...transforms.join_baseline import JoinBaseline
from ...transforms.journal.ranks import name_start
from ...transforms.journal.run_state import read_run
from ...transforms.judge_costs import SumSpending
from ...transforms.labels import ReportUnknown
from ...transforms.normalize import Normalize
from ...transforms.read import ReadRows
from ...transforms.runtime.collector import relaxed_collector
from ...transforms.runtime.local_objects import holding
from ...transforms.score import ScoreExamples
from ...transforms.statistics.criteria import levels_of
from ...transforms.write import WriteErrors, WriteInstances
from ..config.arguments import build_sections, convert_to_list
from ..config.sections import Sections
from ..notebook import keep_own_pipelines_plain, plain_pipelines
from ..runners import lease
from ..runners import options as engines
from ..runners.drive import drive, prepare_job, submit_job
from ..runners.lease import Holder
from ..runners.shuffle import shuffling
from ..runners.signatures import known_signatures
from .baseline import baseline_files
from .batches import routes_of
from .build import make_plan
from .checks import check_rows, find_problems
from .inventory import Inventory, read_first_rows, take_inventory
from .plan import Plan
from .publish import publish
from .result import EvaluationResult
from .take_over import TakeOver, decide


@dataclass
class Evaluate(beam.PTransform):
    """PBegin -> PCollection[bytes]: the manifest of the run, once all its tables are in place."""

    plan: Plan
    context: RunContext = field(default_factory=RunContext)

    def __post_init__(self) -> None:
        super().__init__()
        keep_own_pipelines_plain()

    def expand(self, input_or_inputs: PBegin) -> beam.PCollection[bytes]:
        plan, config, context = self.plan, self.plan.config, self.context
        data, output = config.dataset, config.output
        blocks = input_or_inputs | "Read" >> ReadRows(plan.files, dict(plan.declared), plan.reading(context))
        normalize = Normalize(plan.rules, plan.shards, data.limit, plan.recorded, plan.needs, context.spill)
        rows: Any = blocks | "Normalize" >> normalize  # its outputs are attributes that Beam's types do not know
        facts = rows.facts | "Facts" >> CombineStats(data.limit)
        side = AsSingleton(facts)
        invoke = plan.invoke(context)
        cut = BatchRows(
            facts=side,
            shards=plan.shards,
            parts=output.shards,
            limit=data.limit,
            allowed=plan.allowed,
            declared=plan.declared,
            bulk=plan.recorded,
            rows=invoke.rows,
            spill=context.spill,
            trials=plan.trial_columns,
        )
        instances = rows.rows | "Cut" >> cut
        followed, closed = self._follow(instances, side)
        answered = instances | "Invoke" >> replace(invoke, closed=closed)
        if config.baseline is not None:
            answered = answered | "JoinBaseline" >> JoinBaseline(baseline_files(config.baseline))
        scored = answered | "ScoreExamples" >> ScoreExamples(plan.computed, config.compat.float32)
        if plan.judges:
            scored = scored | "JudgeExamples" >> plan.judge(context)
        named = {"labels": plan.labels and plan.labels.said, "levels": levels_of(config.criteria)}
        summarize = SummarizeScores(plan.metric_facts, plan.slices, config.statistics, config.compat, **named)
        summaries = scored | "Summarize" >> summarize
        files = self._write_tables(rows.rejected, scored, side)
        spent = scored | "Spending" >> SumSpending()
        last = FinishRun(files, summaries, facts, plan.record(context), plan.writer.beside, spent, followed)
        return input_or_inputs | "FinishRun" >> last  # type: ignore[return-value]  (`|` gives a PValue)

    def _write_tables(self, rejected: Any, scored: Any, facts: AsSingleton) -> Any:
        """Wires the steps that write tables, each of which gives its files; returns the files of all."""
        plan, beside, output = self.plan, self.plan.writer.beside, self.plan.config.output
        limit = plan.config.dataset.limit
        write = WriteInstances(
            facts=facts,
            metrics=plan.columns,
            declared=plan.declared,
            shards=output.shards,
            limit=limit,
            output=output.path,
            writer=plan.writer,
            spill=self.context.spill,
        )
        instances = scored | "Instances" >> write
        unknown = scored | "UnknownLabels" >> ReportUnknown(plan.labels) if plan.labels else None
        errors = (rejected, scored) | "Errors" >> WriteErrors(facts, output.path, beside, unknown)
        groups = (rejected, scored) | "Failures" >> GroupFailures(plan.failure_tests, facts, output.path, beside)
        find = FindWorstSlices(facts, plan.sliced_facts, limit, output.path, beside)
        return (instances, errors, groups, scored | "WorstSlices" >> find) | "Files" >> beam.Flatten()

    def _follow(self, instances: Any, facts: AsSingleton) -> tuple[AsSingleton | None, AsSingleton | None]:
        """What is known of the followed metric, and why calls end; `None` if no metric is followed."""
        step = self.plan.follow(self.context, facts)
        if step is None:
            return None, None
        found = instances | "Follow" >> step
        closed = found | "Closed" >> beam.Map(attrgetter("closed")).with_output_types(str)
        return AsSingleton(found, step.unknown), AsSingleton(closed, "")


def run(
    plan: Plan, options: PipelineOptions | None = None, tell: Callable[[str], None] | None = None
) -> EvaluationResult:
    """Runs a plan and waits for it.

    Args:
        plan: What to run.
        options: Beam's options; default: in this process.
        tell: Is told in words how many calls of earlier starts are reused, if any are.

    Returns:
        The result, whatever its verdict; a run that refused to start calling has state "failed".

    Raises:
        ConfigError: The engine lacks something, or there is a finished run at the output already, an unfinished one
            of another agent, or one that is still active.
        RunError: The engine failed; nothing was published.
    """
    _start(plan, options or PipelineOptions([]), drive, tell)
    return EvaluationResult.load(plan.config.output.path)


def submit(plan: Plan, options: PipelineOptions, tell: Callable[[str], None] | None = None) -> None:
    """Hands a plan to an engine that continues without this process; `wait` follows the run.

    Args:
        plan: What to run.
        options: Beam's options, for Dataflow.
        tell: As for `run`.

    Raises:
        ConfigError: As for `run`, or the engine ends with this process.
        RunError: The job could not be submitted.
    """
    if not engines.is_detached(options):
        found = f"a run on {engines.engine(options)} ends with this process"
        raise ConfigError(found, where="--no-wait", allowed="--runner=DataflowRunner")
    _start(plan, options, submit_job, tell, leave=True)


def _start(
    plan: Plan,
    options: PipelineOptions,
    go: Callable[..., None],
    tell: Callable[[str], None] | None = None,
    leave: bool = False,
) -> None:
    found = take_inventory(plan, options)
    for problem in find_problems(plan, found):
        raise problem
    named = options.view_as(GoogleCloudOptions).job_name if engines.is_detached(options) else None
    holder = Holder.here(engines.engine(options), engines.master(options), named)
    with lease.held(plan.config.output.path, holder, found.lease, leave=leave):
        plan, taken = _make_ready(plan, found)
        start = name_start(taken.run.retry)
        context = RunContext(plan.folder, taken.fingerprint or "", engines.processes(options), start=start)
        budget = _take_in(plan, context, PaidCalls(taken.run), tell)
        context = replace(context, budget=budget, prices=plan.call_prices)
        prepare_job(options, holder, plan.packages)
        with (
            _process_for_bulk(),
            plain_pipelines(),
            known_signatures(),
            holding() as held,
            shuffling(options, plan.folder) as spill,
        ):
            try:
                shipped = plan.with_parts(held) if engines.in_this_process(options) else plan
                pipeline = _graph(shipped, replace(context, spill=spill), options)
                go(pipeline, options, holder)
            except EvalbeamError:
                raise
            except Exception as error:
                raise RunError(_cause(error)) from error
        if not leave and plan.in_batches:
            paid = PaidCalls(read_run(plan.folder.path))
            hand_over(tuple(routes_of(plan, context.fingerprint)), plan.bounds, paid, plan.folder.stop)


def _take_in(
    plan: Plan, context: RunContext, paid: PaidCalls, tell: Callable[[str], None] | None = None
) -> Budget | None:
    """Takes in the answers of batches, and hands over what is left; returns the budget that this start has."""
    if tell is not None and plan.calls and (reused := paid.reused):
        found = "an unfinished run" if plan.purpose == "run" else "a run"
        tell(f"{plan.folder.path} holds {found}: {reused:,} completed calls are reused")
    routes = tuple(routes_of(plan, context.fingerprint, live=True))
    take_in(routes, context.start, paid)
    going = tuple(route for route in routes if route.mode != "live")
    hand_over(going, plan.bounds, paid, plan.folder.stop)  # what a start that nobody waited for has left
    return paid.budget(plan.bounds)


def _make_ready(plan: Plan, found: Inventory) -> tuple[Plan, TakeOver]:
    """Makes the output ready; returns the plan with its dataset on storage, and what the start takes over.

    Rows in memory are written aside first: unusable ones end a start before it touches what an earlier one has left.
    """
    taken = decide(plan, found)
    if plan.rows is None:
        taken.apply()
        return plan, taken
    from ...transforms.readers.memory import spill

    path, aside = plan.config.dataset.paths[0], plan.folder.temporary(uuid.uuid4().hex)
    try:
        written = spill(plan.rows, aside)
        check_rows(plan, read_first_rows(plan, [written]))
        taken.apply()
        storage.move(written.path, path)
    finally:
        storage.delete_folder(aside)
    return replace(plan, files=(written._replace(path=path),), rows=None), taken


def _graph(plan: Plan, context: RunContext, options: PipelineOptions) -> beam.Pipeline:
    """The graph of a plan. It is some 100,000 objects that stay, so looking through them for garbage is in vain."""
    with relaxed_collector():
        pipeline = beam.Pipeline(runner=engines.runner(options), options=options.view_as(engines.Views))
        _ = pipeline | "Evaluate" >> Evaluate(plan, context)
        return pipeline


def evaluate(
    dataset: Any,
    metrics: Sequence[Any],
    runnable: Any = None,
    *,
    output: str | os.PathLike[str] | None = None,
    options: Sequence[str] = (),
    **config: Unpack[Sections],
) -> EvaluationResult:
    """Evaluates an agent, or recorded answers, on a dataset, and sends the finished run to its sinks.

    Args:
        dataset: Path or glob (or list of them) of JSONL, CSV or Parquet; a pandas DataFrame, a list of dicts or a dict
            of columns; or the `dataset` section of a config as a dict with "path" or "query". Paths may be `pathlib`'s.
        metrics: Names, metric objects, or dicts with "metric", "name" and parameters.
        runnable: The agent: a function, an object with `.query(input=...)`, or "module:name"; default: the dataset
            carries the answers.
        output: Folder of the tables; default: a new temporary folder.
        options: Beam's options, as on the command line.
        **config: Other sections of a config: `agent`, `criteria`, `slices`, `trials` ...; further keys of the dataset
            and output sections as `dataset_options` and `output_options`.

    Returns:
        The result; its tables are read from storage when asked for. Where it shows nothing (no row has an answer or a
        score, or a metric failed on every row), its `reason` says so, and a warning.

    Raises:
        ConfigError: Something named does not exist or does not fit; a DatasetError, which is a ValueError, where there
            is no agent and no row carries an answer.
        RunError: The run itself failed.
    """
    flags = convert_to_list(options, "options")
    sections, rows = build_sections(dataset, metrics, runnable, output, config)
    found = Mistakes()
    plan = make_plan(EvaluationConfig.parse(sections, found=found), rows=rows, found=found)
    result = publish(run(plan, engines.pipeline_options(flags))).with_order(rows is not None)
    if result.state == FINISHED and result.reason:
        warnings.warn(f"the run finished, but {result.reason}", stacklevel=2)
    return result


@contextmanager
def _process_for_bulk() -> Iterator[None]:
    """Restores what a local run changes in this process: the collector's thresholds and Arrow's allocator.

    Arrow's own allocator keeps about 100 MB more than the system's for the many short-lived buffers of a run.
    """
    import pyarrow as pa

    thresholds, pool = gc.get_threshold(), pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        pa.set_memory_pool(pool)


def _cause(error: BaseException) -> str:
    """The innermost reason of an engine's error, in one line."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    last = lines[-1].strip() if lines else ""
    return f"the run failed: {type(error).__name__}: {last}"[:2000]
