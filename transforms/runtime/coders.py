"""Beam coders of everything that crosses a shuffle or a process boundary; none of them uses pickle."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import orjson
from apache_beam import coders

from ...schemas.batch import Batch, RowBlock, compress, decompress, example_in, example_out
from ...schemas.result import Rejected, ScoreColumn, ScoredBatch, ScoreError, Tally

_SAMPLED_SIZE = 1 << 20
# Beam calls `estimate_size` of sampled elements, and samples nearly all of a few large ones. Its default encodes the
# element for that; a constant saves the time, and only the byte counters of Beam's metrics are wrong.


class MethodsCoder(coders.Coder):
    """Deterministic coder of a class that has `to_bytes` and `from_bytes`."""

    def __init__(self, kind: type) -> None:
        self.kind: Any = kind

    @classmethod
    def from_type_hint(cls, typehint: Any, registry: Any) -> MethodsCoder:
        return cls(typehint)

    def encode(self, value: Any) -> bytes:
        return value.to_bytes()

    def decode(self, encoded: bytes) -> Any:
        return self.kind.from_bytes(encoded)

    def estimate_size(self, value: Any) -> int:
        return _SAMPLED_SIZE

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return self.kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MethodsCoder) and self.kind is other.kind

    def __hash__(self) -> int:
        return hash(self.kind)


def coder_of(kind: type) -> None:
    """Registers the `MethodsCoder` of a class."""
    coders.registry.register_coder(kind, MethodsCoder)


class _RejectedCoder(coders.Coder):
    def encode(self, value: Rejected) -> bytes:
        return orjson.dumps([value.file, value.range, value.line, value.code, value.message, value.raw])

    def decode(self, encoded: bytes) -> Rejected:
        return Rejected(*orjson.loads(encoded))

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type[Rejected]:
        return Rejected


class _ScoredBatchCoder(coders.Coder):
    def encode(self, value: ScoredBatch) -> bytes:
        scores = [[name, *_column_out(column)] for name, column in value.scores.items()]
        examples = [example_out(e) for e in value.examples]
        spent = [[*names, astuple(tally)] for names, tally in value.spent.items()]
        raw = orjson.dumps([examples, scores, value.part, value.columns, spent], option=orjson.OPT_NON_STR_KEYS)
        return compress(raw)

    def decode(self, encoded: bytes) -> ScoredBatch:
        examples, scores, part, columns, spent = orjson.loads(decompress(encoded))
        return ScoredBatch(
            [example_in(e) for e in examples],
            {name: _column_in(rest) for name, *rest in scores},
            part,
            tuple((name, type_) for name, type_ in columns),
            {tuple(names): Tally(*tally) for *names, tally in spent},
        )

    def estimate_size(self, value: ScoredBatch) -> int:
        return _SAMPLED_SIZE

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type[ScoredBatch]:
        return ScoredBatch


def _column_out(column: ScoreColumn) -> list[Any]:
    errors = {i: [e.code, e.message] for i, e in column.errors.items()}
    return [column.values, column.status, errors] + [
        column.labels,
        column.explanations,
        column.confidences,
        column.details,
        column.sums,
    ]


def _column_in(value: list[Any]) -> ScoreColumn:
    values, *sparse = value
    status, errors, *rest = ({int(i): v for i, v in part.items()} for part in sparse)
    return ScoreColumn(values, status, {i: ScoreError(*e) for i, e in errors.items()}, *rest)


coder_of(Batch)
coder_of(RowBlock)
coders.registry.register_coder(Rejected, _RejectedCoder)
coders.registry.register_coder(ScoredBatch, _ScoredBatchCoder)
