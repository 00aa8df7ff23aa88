"""FinishRun: the last step of the graph, which publishes all tables of a run at once.

All steps before it write under temporary names. It renames their files, removes the files of an overwritten run, and
writes the manifest last: a folder with a manifest contains a complete run. It may be repeated: if only the destination
of a rename exists, the rename was done before.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import apache_beam as beam
import orjson
from apache_beam.pvalue import AsList, AsSingleton, PBegin

from ..schemas import summary_tables, tables
from ..schemas.config.evaluation import CriterionConfig, PriceConfig, StatisticsConfig
from ..schemas.json import Json
from ..schemas.result import Summary, Tally
from ..schemas.run_folder import (
    FAILED,
    FINISHED,
    INSTANCES,
    OF_ONE_FILE,
    PENDING,
    STOPPED,
    SUMMARY,
    TABLE_ENDINGS,
    VALIDITY,
    RunFolder,
)
from ..schemas.usage import add_known
from .aggregate import sort_summaries
from .dialects._rules import TRIAL
from .facts import DatasetStats, RunLimits
from .io import storage
from .judge_costs import LIVE, Spent, add_costs, agent_spending, spending
from .load import LoadTables
from .statistics import criteria
from .statistics.following import Followed, mark_intervals
from .statistics.slices import MetricFacts
from .statistics.unscored import why_unscored
from .write import WrittenFile, write_table
from .writers.base import Writer

LEFT = "no more calls were made"
HANDED = "requests in batch mode are in the folder batch"
"""Reasons why calls are left."""
_PART = re.compile(r"[/\\]part-\d{5,}-of-\d{5,}\.[a-z._]+$")
"""The path of a file of an instances table."""
_OF_A_METRIC = ("name", "worst", "best", "better")
"""Fields of each metric in the manifest."""


@dataclass(frozen=True)
class RunRecord:
    """The part of the manifest that is known before the run.

    Attributes:
        output: Folder of the run.
        config: The configuration as JSON.
        versions: Versions of the software.
        allowed: Limits on the dataset; beyond them no call is made.
        facts: The metrics in the order of the config.
        slices, statistics: Settings of the summary.
        criteria: The criteria.
        fingerprint: Hash of everything except the rows that the agent's answers depend on.
        replay: True if the answers come from another run. Rows without one then do not leave the run unfinished.
        loading: Loads the tables of a finished run into BigQuery.
        prompts: Name, version and hash of the prompts of each judge metric.
        models: Name of each judge's model.
        prices: Prices of models by their names.
        agent_model: Model of the agent's answers that name none; `None` if it is unknown.
        agent_way: How the agent's answers came: `LIVE` or `BATCH`.
        free: Judges whose answers come from another run: they cost nothing, and missing ones do not leave the run open.
        left_because: Reason why calls are left, unless the run was stopped.
        retry: Number of the retry that the tables are of, 0 before the first.
    """

    output: str
    config: Mapping[str, Json]
    versions: Mapping[str, str]
    allowed: RunLimits
    facts: tuple[MetricFacts, ...]
    slices: tuple[tuple[str, ...], ...] = ()
    statistics: StatisticsConfig = StatisticsConfig()
    criteria: tuple[CriterionConfig, ...] = ()
    fingerprint: str | None = None
    loading: LoadTables | None = None
    prompts: Mapping[str, Json] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    replay: bool = False
    prices: Mapping[str, PriceConfig] = field(default_factory=dict)
    agent_model: str | None = None
    agent_way: str = LIVE
    free: tuple[str, ...] = ()
    left_because: str = LEFT
    retry: int = 0
    started: float = field(default_factory=time.time)


@dataclass
class FinishRun(beam.PTransform):
    """PBegin -> PCollection[bytes], the manifest; all inputs are side inputs of one element.

    Attributes:
        files: PCollection[WrittenFile] of all tables.
        summaries: PCollection[Summary].
        facts: PCollection[DatasetStats].
        record: The part of the manifest that is known before the run.
        writer: Writer of the summary table.
        spent: PCollection[Spent].
        followed: Singleton side input: what is known of the metric that the run followed; `None` if it followed none.
    """

    files: beam.PCollection[WrittenFile]
    summaries: beam.PCollection[Summary]
    facts: beam.PCollection[DatasetStats]
    record: RunRecord
    writer: Writer
    spent: beam.PCollection[Spent]
    followed: AsSingleton | None = None

    def expand(self, input_or_inputs: PBegin) -> beam.PCollection[bytes]:
        sides = (AsList(self.files), AsList(self.summaries), AsSingleton(self.facts), AsList(self.spent))
        named = {} if self.followed is None else {"followed": self.followed}
        step = beam.Map(_finish, self.record, self.writer, *sides, **named)
        one = input_or_inputs | "OneRun" >> beam.Create([0], reshuffle=False)
        return one | "Finish" >> step.with_output_types(bytes)  # type: ignore[return-value]  (`|` gives a PValue)


def _finish(
    _: int,
    record: RunRecord,
    writer: Writer,
    files: Sequence[WrittenFile],
    summaries: Sequence[Summary],
    facts: DatasetStats,
    spent: Sequence[Spent],
    followed: Followed | None = None,
) -> bytes:
    refused = facts.refusal(record.allowed)
    ordered = mark_intervals(sort_summaries(summaries, record.facts, record.slices, record.statistics), followed)
    decided = followed is not None and followed.side is not None
    state, reason = (FAILED, refused) if refused else _end(record, files, spent, decided)
    judged, verdict = criteria.judge(
        ordered, record.criteria, state in (STOPPED, PENDING), record.statistics.confidence
    )
    if state == FINISHED:
        reason = why_unscored(ordered, record.facts, _statuses(files), judged)
    asked = spending(spent, record.models, record.prices, record.free)
    ordered = add_costs(criteria.add_verdicts(ordered, judged), record.facts, asked)
    kept = (
        [f for f in files if f.table == "errors"] if refused else [*files, *_write_summaries(record, writer, ordered)]
    )
    outcome = {
        "state": state,
        "reason": reason,
        "verdict": verdict if record.criteria and not refused else None,
        "criteria": [] if refused else [asdict(j) for j in judged],
        **({"sequential": followed.json} if followed is not None and not refused else {}),
    }
    answers = agent_spending(spent, record.agent_model, record.prices, record.agent_way)
    manifest = _manifest(record, outcome, kept, facts, answers, asked)
    publish(record.output, kept, manifest, record.loading if state == FINISHED else None)
    return manifest


def _write_summaries(record: RunRecord, writer: Writer, ordered: Sequence[Summary]) -> Iterator[WrittenFile]:
    """Writes the summary table and, if there are people's labels, the validity table."""
    labelled = any(f.labelled for f in record.facts)
    columns = summary_tables.WITH_LABELS if labelled else summary_tables.SUMMARY
    found = [(SUMMARY, [summary_tables.summary_row(s) for s in ordered], columns)]
    if labelled:
        judged = [summary_tables.validity_row(s) for s in ordered if s.validity is not None]
        found.append((VALIDITY, judged, summary_tables.VALIDITY))
    for name, rows, of in found:
        records = [tables.table(rows, of)] if rows else []
        yield write_table(name, f"{name}{writer.ending}", records, of, record.output, writer)


def _statuses(files: Iterable[WrittenFile]) -> dict[str, int]:
    """Counts the rows of the instances table by status."""
    counts: dict[str, int] = {}
    for file in files:
        for status, count in file.counts.items():
            counts[status] = counts.get(status, 0) + count
    return counts


def _end(
    record: RunRecord, files: Sequence[WrittenFile], spent: Sequence[Spent], decided: bool = False
) -> tuple[str, str | None]:
    """Returns the state of a run that made calls, and the reason why calls are left, if any are.

    The run is pending if batches are the reason: a later start takes their answers in. If a followed metric is decided,
    rows that were not called are left for good.
    """
    counts = {} if record.replay or decided else _statuses(files)
    rows = counts.get("not_called", 0) + counts.get("over_budget", 0)
    asks = sum(Tally(*numbers).open for (_, judge, _), numbers in spent if judge not in record.free)
    if not rows and not asks:
        return FINISHED, None
    sign = RunFolder(record.output).stop
    left = f"{rows} rows were not called" if rows else f"{asks} questions to judges were not asked"
    if storage.exists(sign):
        reason = storage.read_bytes(sign).decode("utf-8", "replace")
    elif record.left_because == HANDED:
        return PENDING, f"{HANDED}; {left} so far; the same command takes their answers in when they are there"
    else:
        reason = record.left_because
    return STOPPED, f"{reason}; {left}; run the same command again to make these calls"


def publish(output: str, files: Sequence[WrittenFile], manifest: bytes, loading: LoadTables | None = None) -> None:
    """Renames the files, removes stale ones, loads the files into BigQuery, writes the manifest."""
    names = {f.name: f.temporary for f in files}
    folder = RunFolder(output)
    storage.delete([folder.manifest])
    for name in sorted(names):
        storage.move(names[name], storage.join(output, name))
    wanted = {storage.join(output, name) for name in names}
    stale = [p for p in storage.below(folder.at(INSTANCES)) if _PART.search(p) and p not in wanted]
    for table in OF_ONE_FILE:
        stale += [p for ending in TABLE_ENDINGS if (p := folder.at(table + ending)) not in wanted]
    storage.delete(stale)
    if loading is not None:
        loading.load(output, files)
    temporary = folder.temporary("manifest.json")
    storage.write_bytes(temporary, manifest)
    storage.move(temporary, folder.manifest)
    storage.delete_folder(folder.temporary())


def _manifest(
    record: RunRecord,
    outcome: Mapping[str, Json],
    files: Sequence[WrittenFile],
    facts: DatasetStats,
    answers: Sequence[Json],
    asked: Sequence[Json],
) -> bytes:
    described: dict[str, Any] = {}
    counts = {"rows": facts.kept(record.allowed.limit), "rejected": facts.rejected}
    for file in sorted(files, key=lambda f: f.name):
        table = described.setdefault(file.table, {"files": [], "rows": 0, "columns": _columns(file)})
        table["files"].append(file.name)
        table["rows"] += file.rows
    counts |= _statuses(files)
    now = time.time()
    value = {
        **outcome,
        "counts": counts,
        **_describe_trials(record, facts),
        "tables": described,
        "metrics": [_describe_metric(one) for one in record.facts],
        "fingerprint": record.fingerprint,
        **({"retry": record.retry} if record.retry else {}),
        **({"answering": {"cost": add_known(one["cost"] for one in answers), "spent": answers}} if answers else {}),
        **({"judging": _judging(record, asked)} if record.models else {}),
        "config": record.config,
        "versions": record.versions,
        "measured": {"started": record.started, "finished": now, "seconds": round(now - record.started, 3)},
    }
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _describe_metric(facts: MetricFacts) -> dict[str, Json]:
    found = {name: getattr(facts, name) for name in _OF_A_METRIC}
    return found if facts.passes is None else {**found, "passes": asdict(facts.passes)}


def _describe_trials(record: RunRecord, facts: DatasetStats) -> dict[str, Json]:
    """Says which column numbers recorded trials, from which to which number, and whether nobody named it."""
    named = (record.config.get("dataset") or {}).get("trial")
    if not facts.trials or (named is None and facts.trials[0] == facts.trials[1]):
        return {}
    first, last = facts.trials
    return {"trials": {"column": named or TRIAL, "first": first, "last": last, "taken": named is None}}


def _judging(record: RunRecord, asked: Sequence[Json]) -> dict[str, Json]:
    """Describes the prompts and costs of judges; the total is `None` if any cost is unknown."""
    return {"cost": add_known(one["cost"] for one in asked), "spent": asked, "prompts": record.prompts}


def _columns(file: WrittenFile) -> list[dict[str, Any]]:
    return [
        {"name": name, "type": type_, **({"volatile": True} if volatile else {}), **({"is": own} if own else {})}
        for name, type_, volatile, own in file.columns
    ]
