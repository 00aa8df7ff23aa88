"""Reads the labels that people gave to rows of a dataset, and reports those that belong to no row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apache_beam as beam
import orjson
from apache_beam.pvalue import AsIter

from ..schemas.batch import RowBlock, compress
from ..schemas.config.labels import LabelsConfig
from ..schemas.errors import ConfigError, Mistakes, name_error
from ..schemas.identity import hash_input
from ..schemas.json import Json
from ..schemas.result import ScoredBatch
from .readers._files import expand, readers_of
from .statistics.labelled import Label
from .statistics.slices import MetricFacts

MAX_LABELS = 100_000
"""Most labelled rows: each worker holds all of them."""

_INSTANCE_ID = re.compile(r"[0-9a-f]{32}(-\d+)?")
_WORDS = {**dict.fromkeys(("true", "yes", "pass"), 1.0), **dict.fromkeys(("false", "no", "fail"), 0.0)}
_VALUES = "a number, true or false, yes or no, pass or fail"

Key = tuple[str, int]
"""instance_id and trial."""


class Place(NamedTuple):
    """Where a label was read: the file, and its line from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class PeopleLabels:
    """The labels of people.

    Attributes:
        said: The labels by instance_id and trial, and by metric.
        places: Where each row of them was read.
    """

    said: dict[Key, dict[str, Label]] = field(default_factory=dict)
    places: dict[Key, Place] = field(default_factory=dict)


def read_labels(
    config: LabelsConfig, facts: Iterable[MetricFacts], dataset_id: str | None = None, id_type: str | None = None
) -> PeopleLabels:
    """Reads all labels, before anything is called.

    Args:
        config: Where they are.
        facts: The metrics of the run.
        dataset_id: The column that identifies rows of the dataset; its values may stand in the labels' id column.
        id_type: Declared type of that column.

    Raises:
        ConfigError: A metric or column does not exist, a line is no row, a label is no number of the metric's range,
            or two labels of one row differ.
    """
    known = {one.name: one for one in facts if not one.pairwise}
    mistakes = Mistakes()
    for name in config.columns:
        if name not in known:
            what, where = f"no metric named {name!r} that takes labels", f"labels.columns.{name}"
            mistakes.errors.append(name_error(what, name, known, where))
    mistakes.raise_all()
    found = PeopleLabels()
    seen: dict[str, set[str]] = {}
    for place, block, row in _rows(config, {config.id: id_type} if dataset_id and id_type else {}):
        seen.setdefault(place.file, set()).update(row, block.nulls)
        _add(found, place, row, config, known, dataset_id)
        if len(found.said) > MAX_LABELS:
            raise ConfigError(f"more than {MAX_LABELS:,} labelled rows", where="labels.path", allowed="fewer labels")
    wanted = (config.id, *config.columns.values(), *filter(None, [config.probability]))
    for file, columns in seen.items():
        for name in wanted:
            if name not in columns:
                raise name_error(f"no column {name!r}, which labels names", name, columns, file)
    return found


def _rows(config: LabelsConfig, types: Mapping[str, str]) -> Iterator[tuple[Place, RowBlock, dict[str, Json]]]:
    try:
        files = expand(config.paths, config.format)
    except ConfigError as error:
        raise ConfigError(error.what, where="labels.path", allowed=error.allowed) from None
    readers = readers_of(files, types)
    for file in files:
        reader, before = readers[file.format], 0
        for part in reader.split(file.path, file.size):
            lines = 0
            for block in reader.read(part):
                for line in block.rejected:
                    raise ConfigError(line.message, where=str(Place(file.path, before + line.line)))
                yield from ((Place(file.path, before + line), block, row) for line, row in block.rows)
                lines = block.lines
            before += lines


def _add(
    found: PeopleLabels,
    place: Place,
    row: Mapping[str, Json],
    config: LabelsConfig,
    known: Mapping[str, MetricFacts],
    dataset_id: str | None,
) -> None:
    values = {name: row.get(column) for name, column in config.columns.items()}
    if all(value is None or value == "" for value in values.values()):
        return
    weight = _weigh(row, config, place)
    said = {
        name: Label(_parse(value, known[name], config.columns[name], place), weight)
        for name, value in values.items()
        if value is not None and value != ""
    }
    key = _identify(row, config, place, dataset_id), _parse_trial(row.get("trial"), place)
    earlier = found.said.setdefault(key, {})
    for name, label in said.items():
        if earlier.get(name, label) != label:
            words = f"{label.value:g} for {row[config.id]!r}, which has {earlier[name].value:g} at {found.places[key]}"
            raise ConfigError(f"found {words}", where=f"{place}: {config.columns[name]}", allowed="one label for a row")
    earlier.update(said)
    found.places.setdefault(key, place)


def _identify(row: Mapping[str, Json], config: LabelsConfig, place: Place, dataset_id: str | None) -> str:
    value = row.get(config.id)
    if value is None or value == "":
        shown = ", ".join(sorted(row)) or "no columns"
        raise ConfigError(f"the row has no {config.id!r}; it has {shown}", where=str(place))
    if isinstance(value, str) and _INSTANCE_ID.fullmatch(value):
        return value
    if dataset_id is None:
        allowed = "an instance_id of the instances table, 32 hexadecimal digits, or dataset.id in the configuration"
        raise ConfigError(f"found {value!r}", where=f"{place}: {config.id}", allowed=allowed)
    return hash_input({"id": value})


def _parse(value: Json, facts: MetricFacts, column: str, place: Place) -> float:
    try:
        number = _WORDS.get(value.strip().lower()) if isinstance(value, str) else None
        number = float(value) if number is None else number  # type: ignore[arg-type]  (a TypeError is caught)
    except (TypeError, ValueError):
        raise ConfigError(f"found {value!r}", where=f"{place}: {column}", allowed=_VALUES) from None
    low, high = facts.range or (-1e300, 1e300)
    if not low <= number <= high:
        allowed = f"{low:g} to {high:g}, the range of {facts.name}" if facts.range else "a finite number"
        raise ConfigError(f"found {value!r}", where=f"{place}: {column}", allowed=allowed)
    return number + 0.0


def _weigh(row: Mapping[str, Json], config: LabelsConfig, place: Place) -> float:
    if config.probability is None:
        return 1.0
    value: Any = row.get(config.probability)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number <= 1:
        where = f"{place}: {config.probability}"
        raise ConfigError(f"found {value!r}", where=where, allowed="a probability, above 0 and at most 1")
    return 1 / number


def _parse_trial(value: Any, place: Place) -> int:
    try:
        number = 0.0 if value is None or value == "" else float(value)  # spreadsheets write 2 as 2.0
    except (TypeError, ValueError):
        number = -1.0
    if number < 0 or not number.is_integer():
        raise ConfigError(f"found {value!r}", where=f"{place}: trial", allowed="the number of a trial, from 0")
    return int(number)


@dataclass
class ReportUnknown(beam.PTransform):
    """PCollection[ScoredBatch] -> PCollection[bytes]: packed rows of the errors table.

    There is one for each label whose row the run does not have.
    """

    labels: PeopleLabels

    def expand(self, input_or_inputs: beam.PCollection[ScoredBatch]) -> beam.PCollection[bytes]:
        keys = frozenset(self.labels.places)
        met: Any = input_or_inputs | "Met" >> beam.FlatMap(_list_met, keys).with_output_types(tuple[str, int])
        one = input_or_inputs.pipeline | "OneReport" >> beam.Create([0], reshuffle=False)
        report = beam.FlatMap(_report, self.labels.places, AsIter(met))
        return one | "Report" >> report.with_output_types(bytes)  # type: ignore[return-value]  (`|` gives a PValue)


def _list_met(batch: ScoredBatch, keys: frozenset[Key]) -> Iterator[Key]:
    return (key for e in batch.examples if (key := (e.instance.instance_id, e.trial)) in keys)


def _report(_: int, places: Mapping[Key, Place], met: Iterable[Key]) -> Iterator[bytes]:
    rows = [_unknown(key, places[key]) for key in sorted(places.keys() - set(met))]
    if rows:
        yield compress(orjson.dumps(rows))


def _unknown(key: Key, place: Place) -> dict[str, Json]:
    message = "the label belongs to no row of the run (allowed: instance_id and trial of its instances table)"
    own = {"instance_id": key[0], "trial": key[1]}
    return {
        "source": "label",
        "file": place.file,
        "line": place.line,
        **own,
        "code": "unknown_label",
        "message": message,
    }
