"""Checks what a run would do, without any call: parts, files, first rows, missing columns, expected calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, tee

from apache_beam.options.pipeline_options import PipelineOptions

from ...schemas.batch import RowBlock
from ...schemas.config.evaluation import EvaluationConfig
from ...schemas.errors import DatasetError, RowError
from ...schemas.formats.databricks import JUDGES, MISSING, find_obstacle, runs_by_default
from ...schemas.instance import (
    FROM_INVOCATION,
    Example,
    Instance,
    Invocation,
)
from ...schemas.json import Json
from ...schemas.tables import PERFORMANCE
from ...transforms import registry
from ...transforms.agents.base import Recording
from ...transforms.facts import SHARED, SPENT
from ...transforms.io import storage
from ...transforms.join_baseline import JOINED
from ...transforms.readers._files import FileInfo, read_blocks, take_head
from ...transforms.readers.base import Reader, SchemeReader
from ..display.terminal import cut, plain, table
from ..run.build import make_plan
from ..run.checks import find_problems
from ..run.inventory import Inventory, open_readers, take_inventory
from ..run.judges import asks, joined_metrics, not_replayed
from ..run.plan import Plan
from ..run.take_over import state
from .estimate import UNKNOWN_ROWS, JudgeEstimate, estimate_judges, render_agent, render_estimates

HEAD_ROWS = 20
COUNTED_BYTES = 16 << 20
"""Rows of datasets up to this size in bytes are counted; those of larger ones are estimated."""
MOST_FILES, MOST_COLUMNS, MOST_REJECTED = 5, 40, 3
_COMPRESSED = (".gz", ".zst")
_INFLATION = 16
"""Assumed ratio of unpacked to packed size: high for logs, so that counting never reads much more than expected."""
_STATES = {
    "new": "new",
    "finished": "holds a finished run; use --overwrite to replace it",
    "unfinished": "holds an unfinished run, which resumes with the remaining calls",
    "changed": "holds an unfinished run of another agent",
}
_START_BYTES = 1 << 18


@dataclass
class Sample:
    """The first rows of a dataset, read as a run would read them.

    Attributes:
        examples: Usable rows, each with its recorded answer or an empty one.
        rejected: (place, code, message) of each unusable row.
        dialects: Number of rows by dialect.
    """

    examples: list[Example] = field(default_factory=list)
    rejected: list[tuple[str, str, str]] = field(default_factory=list)
    dialects: Counter[str] = field(default_factory=Counter)

    @property
    def size(self) -> int:
        """Number of rows read."""
        return len(self.examples) + len(self.rejected)


@dataclass(frozen=True)
class CheckReport:
    """The result of `check`.

    Attributes:
        plan: The plan of the run.
        sample: The first rows.
        rows: Number of rows of the dataset; `None` if only reading all of it would tell.
        counted: True if `rows` was counted, False if it is an estimate.
        inventory: What the run would find.
    """

    plan: Plan
    sample: Sample
    rows: int | None
    counted: bool
    inventory: Inventory

    @property
    def output(self) -> str:
        """State of the output folder, see `take_over.state`."""
        return state(self.plan, self.inventory)

    @property
    def problems(self) -> list[str]:
        """Reasons why a run would be refused or could not evaluate any row; empty if there are none."""
        found = find_problems(self.plan, self.inventory)
        if (unusable := self._find_unusable()) is None:
            return [str(problem) for problem in found]
        return [*(str(problem) for problem in found if not isinstance(problem, DatasetError)), unusable]

    def _find_unusable(self) -> str | None:
        """Returns why no row could be evaluated, whatever columns the rows have; `None` if some may be."""
        if self.plan.config.dataset.query:
            return None
        if not self.sample.size:
            return f"dataset.path: no row in {_pluralize(len(self.plan.files), 'file')}"
        if self.counted and (reason := self._over_budget()):
            return reason
        if self.sample.examples:
            return None
        place, code, message = self.sample.rejected[0]
        return f"dataset.path: none of the first {self.sample.size} rows is usable; {place}: {code}: {message}"

    def _over_budget(self) -> str | None:
        """Returns why the budget cannot suffice, whatever the rows after the sample contain; `None` if it may."""
        allowed, data, needs = self.plan.allowed, self.plan.config.dataset, self.plan.needs
        certain = [] if needs is None or data.limit or data.sample else [e.instance for e in self.sample.examples]
        questions = sum(needs.of(instance)[0] for instance in certain) if needs is not None else 0
        calls = (self.evaluated or 0) * allowed.calls_per_row + questions
        if allowed.exceeded(calls) is None:
            return None
        found = f"{self.evaluated} rows need at least {calls} calls"
        found += f" ({questions} of them to judges, of the first {len(certain)} rows, {SHARED})" if questions else ""
        more = f"; {SPENT}" if questions else ""
        return f"budget.max_calls: {found} (allowed: {allowed.max_calls}{more})"

    @property
    def evaluated(self) -> int | None:
        """Number of rows after sample and limit; `None` if it is unknown."""
        data = self.plan.config.dataset
        if self.rows is None:
            return data.limit
        rows = self.rows if data.sample is None else round(self.rows * data.sample)
        return rows if data.limit is None else min(rows, data.limit)

    def lacking(self) -> dict[str, dict[str, int]]:
        """Counts, for each metric and each of its inputs, the sampled rows without that input, if there are any."""
        lacking: dict[str, dict[str, int]] = {}
        given = JOINED if self.plan.config.baseline is not None else frozenset()
        given |= frozenset() if self.plan.recorded else FROM_INVOCATION.keys()
        for use in self.plan.metrics:
            inputs = [n for n in use.metric.inputs if n not in given]
            counts = {n: sum(e.get(n) is None for e in self.sample.examples) for n in inputs}
            lacking[use.name] = {n: c for n, c in counts.items() if c}
        return lacking

    def render(self, width: int) -> str:
        """Renders the report as text of `width` columns."""
        sections = {
            "dataset": self._dataset(),
            "rows": self._rows(),
            "agent": self._agent(),
            "metrics": self._metrics(width - 9),
            "judges": self._judges(width - 9),
            "asked": self._asked(width - 9),
            "output": self._output(),
        }
        lines = []
        for name, section in sections.items():
            for i, line in enumerate(section):
                lines.append(f"{name if i == 0 else '':<8} {line}".rstrip())
        return "\n".join(lines)

    def _dataset(self) -> Iterator[str]:
        files, sample = self.plan.files, self.sample
        yield f"{_pluralize(len(files), 'file')}, {format_size(sum(f.size for f in files))}"
        for file in files[:MOST_FILES]:
            yield f"  {plain(file.path)}  {file.format}, {format_size(file.size)}"
        if len(files) > MOST_FILES:
            yield f"  … and {len(files) - MOST_FILES:,} more"
        dialects = ", ".join(f"{name} ({_pluralize(n, 'row')})" for name, n in sample.dialects.most_common())
        yield f"dialect {dialects or 'unknown'}, of the first {_pluralize(sample.size, 'row')}"
        for place, code, message in sample.rejected[:MOST_REJECTED]:
            yield plain(f"unusable: {place}: {code}: {cut(message, 200)}")
        if len(sample.rejected) > MOST_REJECTED:
            yield f"unusable: … and {len(sample.rejected) - MOST_REJECTED} more"
        columns = _list_columns(sample.examples)
        shown = [f"{plain(name)} ({kinds})" for name, kinds in columns[:MOST_COLUMNS]]
        yield "columns " + ", ".join(shown) + (" …" if len(columns) > MOST_COLUMNS else "")
        known = {name for name, _ in columns}
        named = {"dataset.columns": set(self.plan.config.dataset.columns), "slices": set(chain(*self.plan.slices))}
        named["statistics.cluster"] = set(self.plan.config.statistics.cluster)
        for key, wanted in named.items() if sample.examples else ():
            for column in sorted(wanted - known):
                yield plain(f"warning: {key}: the first rows have no column {column!r}")

    def _rows(self) -> Iterator[str]:
        if self.rows is None:
            yield "unknown until they are read"
        else:
            yield f"{self.rows:,}" if self.counted else f"about {self.rows:,}, estimated from the first rows"
        data = self.plan.config.dataset
        if data.sample is not None or data.limit is not None:
            bounds = [f"{k}: {v:g}" for k, v in (("sample", data.sample), ("limit", data.limit)) if v is not None]
            evaluated = f"{self.evaluated:,}" if self.evaluated is not None else "unknown"
            yield f"evaluated: {'about ' if not self.counted else ''}{evaluated} ({', '.join(bounds)})"

    def _agent(self) -> Iterator[str]:
        config, plan = self.plan.config.agent, self.plan
        if plan.recorded:
            failed = sum(not e.invocation.answered for e in self.sample.examples)
            without = f"; {failed} of the first {len(self.sample.examples)} rows have no answer" if failed else ""
            yield f"recorded: the answers are in the rows; no agent is called{without}"
            return
        target = config.target if isinstance(config.target, str) else type(config.target).__name__
        yield plain(f"{config.type} {target}")
        if (replay := plan.config.replay) is not None:
            yield plain(f"replayed: the answers are those of {replay}; no agent is called")
            return
        given = "the whole row" if plan.agent.whole_row else ", ".join(plan.agent.inputs)
        attempts = _pluralize(config.max_attempts, "attempt")
        yield f"input: {given}; {config.max_in_flight} concurrent, {config.timeout:g} s each, {attempts}"
        trials, rows = plan.config.trials, self.evaluated
        calls = "unknown" if rows is None else f"{'' if self.counted else 'about '}{rows * trials:,}"
        most = "" if plan.config.statistics.sequential is None else "at most "
        yield f"expected calls: {most}{calls} ({_pluralize(trials, 'trial')} for each row); none was made by this check"
        yield from render_agent(plan, self.sample.examples, self.sample.size, rows)

    def _metrics(self, width: int) -> Iterator[str]:
        lacking, size = self.lacking(), len(self.sample.examples)
        unknown = not_replayed(self.plan.judges, self.plan.judged)
        rows = []
        for use in self.plan.metrics:
            if use.name in PERFORMANCE:
                continue
            lacks = [f"{n} missing in {c} of {size} rows" for n, c in lacking[use.name].items()]
            if size in lacking[use.name].values():
                lacks.append("scores nothing")
            lacks += [f"skipped: the replayed run did not ask {asked}" for asked in unknown.get(use.name, ())]
            rows.append([use.name, type(use.metric).__name__, ", ".join(use.metric.inputs), "; ".join(lacks) or "ok"])
        yield from table([(h, False) for h in ("Name", "Metric", "Inputs", "First rows")], rows, width, ("Inputs",))

    def _joint(self) -> Iterator[str]:
        """Yields which metrics share one question to a judge."""
        for name, judge in self.plan.judges.items():
            if judge.combine_metrics:
                joined = joined_metrics(name, judge, self.plan.judged)
                alone = [u.name for u in self.plan.judged if asks(u.metric, name) and u not in joined]
                rest = f"; separately: {', '.join(alone)}" if alone else ""
                yield plain(f"asked jointly of {name}: {', '.join(u.name for u in joined) or 'nothing'}{rest}")

    def _judges(self, width: int) -> Iterator[str]:
        """Yields the joint questions and, for rows of Agent Evaluation, which of its judges run by default."""
        yield from self._joint()
        rows = [e for e in self.sample.examples if e.instance.fields.get("instruction") is not None]
        if not rows or not {"databricks", "traces"} & self.sample.dialects.keys():
            return
        given = [e.get if self.plan.recorded else _assume_answer(e) for e in rows]
        lines = []
        for judge in JUDGES.values():
            odd = Counter(o.code for get in given if (o := find_obstacle(judge, get)) and o.code != MISSING)
            faults = [f"error {code} in {_pluralize(n, 'row')}" for code, n in sorted(odd.items())]
            needs = ", ".join(judge.needs).replace("expected", "expected_response or expected_facts")
            where = f"{sum(runs_by_default(judge, get) for get in given)} of {_pluralize(len(rows), 'row')}"
            lines.append([judge.name, needs, "; ".join([where, *faults])])
        headings = ("Judge of Agent Evaluation", "Needs", "Runs unless chosen")
        yield from table([(h, False) for h in headings], lines, width, ("Needs",))

    @property
    def judged(self) -> list[JudgeEstimate]:
        """The estimated questions to judges; for `UNKNOWN_ROWS` rows if the number of rows is unknown."""
        rows = UNKNOWN_ROWS if self.evaluated is None else self.evaluated
        return estimate_judges(self.plan, self.sample.examples, self.sample.size, rows)

    def _asked(self, width: int) -> Iterator[str]:
        yield from render_estimates(self.judged, self.plan, self.evaluated, width)

    def _output(self) -> Iterator[str]:
        output = self.plan.config.output
        yield plain(f"{output.path}  {output.format}, {_STATES[self.output]}")


def check(config: EvaluationConfig, options: PipelineOptions | None = None) -> CheckReport:
    """Checks everything that a run needs, without any call.

    Args:
        config: What the user asked for.
        options: Beam's options; default: in this process.

    Raises:
        ConfigError: The configuration names something that does not exist or does not fit, or contradicts itself.
    """
    plan = make_plan(config)
    readers = open_readers(plan, plan.files)
    start, first, whole = tee(read_blocks(plan.files, readers), 3)  # each block is read once for all that look at it
    sample = read_sample(plan, [] if config.dataset.query else take_head(start, HEAD_ROWS))  # a query costs money
    inventory = take_inventory(plan, options or PipelineOptions([]), first)
    del start, first  # which would keep what `count_rows` has passed
    rows, counted = count_rows(plan, readers, whole)
    return CheckReport(plan, sample, rows, counted, inventory)


def read_sample(plan: Plan, blocks: Sequence[RowBlock]) -> Sample:
    """Reads the first `HEAD_ROWS` rows of the blocks as examples, with the recorded answers if there are any."""
    sample = Sample()
    for block in blocks:
        sample.rejected += [(_place(block, r.line), r.code, r.message) for r in block.rejected]
        for line, row in block.rows[: max(0, HEAD_ROWS - sample.size)]:
            row = {k: v for k, v in row.items() if v is not None}
            try:
                dialect = next(d for d in plan.rules.dialects if d.recognises(row))
                instances = [(each, *plan.rules.read(each)) for each in plan.rules.rows(row)]
            except RowError as error:
                sample.rejected.append((_place(block, line), error.code, error.message))
                continue
            sample.dialects[_name_dialect(dialect, plan)] += len(instances)
            for each, instance_id, fields in instances:
                instance = Instance(instance_id, each, fields)
                answer = plan.agent.recall(instance) if isinstance(plan.agent, Recording) else Invocation("not_called")
                sample.examples.append(Example(instance, answer))
    return sample


def _place(block: RowBlock, line: int) -> str:
    words = [f"part {block.range}"] * (block.range > 0) + [f"line {line}"]
    return ", ".join([block.file, *words]) if line else block.file


def count_rows(plan: Plan, readers: Mapping[str, Reader], blocks: Iterable[RowBlock]) -> tuple[int | None, bool]:
    """Counts or estimates the rows of the dataset.

    Files with metadata tell their rows; text files are read up to `COUNTED_BYTES`, else estimated from their starts.

    Returns:
        (rows or `None` if unknown, True if they were counted).
    """
    counts = {f: readers[f.format].count(f.path, f.size) for f in plan.files}
    rows = sum(count or 0 for count in counts.values())
    texts = [f for f in plan.files if counts[f] is None]
    if any(isinstance(readers[f.format], SchemeReader) for f in texts):
        return None, False
    size = sum(f.size * (_INFLATION if _is_compressed(f) else 1) for f in texts)
    if size <= COUNTED_BYTES:
        read = blocks if len(texts) == len(plan.files) else read_blocks(texts, readers)
        return rows + sum(len(b.rows) + len(b.rejected) for b in read), True
    if any(map(_is_compressed, texts)):
        return None, False
    start = b"".join(_read_start(f) for f in texts[:MOST_FILES])
    lines = start.count(b"\n")
    return (rows + round(size * lines / len(start)), False) if lines > 1 else (None, False)


def _read_start(file: FileInfo) -> bytes:
    with storage.opened(file.path) as stream:
        return stream.read(_START_BYTES)


def format_size(size: int) -> str:
    """Formats a number of bytes with its unit."""
    if size < 1000:
        return _pluralize(size, "byte")
    for unit in ("kB", "MB", "GB", "TB"):
        size_in = size / 1000 ** (("kB", "MB", "GB", "TB").index(unit) + 1)
        if size_in < 999.5 or unit == "TB":
            break
    return f"{size_in:,.3g} {unit}" if size_in < 999.5 else f"{size_in:,.0f} {unit}"


def _is_compressed(file: FileInfo) -> bool:
    return file.path.lower().endswith(_COMPRESSED)


def _name_dialect(dialect: object, plan: Plan) -> str:
    asked = plan.config.dataset.dialect
    names = registry.names("dialect") if asked == "auto" else []
    return next((n for n in names if registry.find("dialect", n).factory is type(dialect)), asked)


def _assume_answer(example: Example) -> Callable[[str], Json]:
    """Returns the getter of a row's fields as if a live agent had answered and retrieved something."""
    return lambda name: "from the agent" if name in FROM_INVOCATION else example.get(name)


def _list_columns(examples: Sequence[Example]) -> list[tuple[str, str]]:
    """Lists (column, kinds of its values) in the order of first appearance."""
    kinds: dict[str, dict[str, None]] = {}
    for example in examples:
        for name, value in example.instance.row.items():
            kinds.setdefault(name, {})[_name_kind(value)] = None
    return [(name, " or ".join(types)) for name, types in kinds.items()]


def _name_kind(value: Json) -> str:
    names = {bool: "bool", int: "int64", float: "float64", str: "string", list: "list", dict: "object"}
    return names.get(type(value), type(value).__name__)


def _pluralize(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
