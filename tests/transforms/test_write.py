"""Tables are written the same whatever the batches, row by row bounded, and read back as they were."""

from __future__ import annotations

import csv
import io
import itertools

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalbeam.schemas import tables
from evalbeam.schemas.batch import Batch
from evalbeam.schemas.instance import Chunk, Example, Instance, Invocation, ToolCall, Usage
from evalbeam.schemas.result import Score, ScoreColumn, ScoredBatch
from evalbeam.transforms import write
from evalbeam.transforms.io import storage
from evalbeam.transforms.runtime.coders import coders
from evalbeam.transforms.runtime.spill import Spill, SpillWriter
from evalbeam.transforms.writers.csv import CsvFiles
from evalbeam.transforms.writers.jsonl import JsonlFiles
from evalbeam.transforms.writers.parquet import ParquetFiles

WRITERS = [ParquetFiles(), ParquetFiles("snappy"), JsonlFiles(), JsonlFiles("gzip"), CsvFiles(), CsvFiles("gzip")]
INLINE = SpillWriter(Spill())
METRICS = (tables.MetricColumns("failure"), tables.MetricColumns("m", ("explanation", "confidence", "details")))


def example(i: int, **call) -> Example:
    row = {"prompt": f"p{i}", "status": "mine", "zip": "02134", "n": i, "tags": ["a", i]}
    return Example(Instance(f"{i:032x}", row), Invocation(**call))


def scored() -> ScoredBatch:
    chunks = (Chunk("text", "doc"), Chunk("no doc"))
    examples = [
        example(1, response="yes", predicted_trajectory=(ToolCall("t", {"a": 1}),), usage=Usage(3, None)),
        example(2, response={"a": [1]}, retrieved_context=chunks, latency_in_seconds=0.5, attempts=2),
        example(3, status="failed", error_type="TimeoutError", error_message="no answer", attempts=3),
    ]
    given = [
        Score(0.5, explanation="so", confidence=1.0, details={"p": 1}),
        Score(1.0),
        Score.skipped("agent_failed", "x"),
    ]
    scores = {"failure": ScoreColumn([0.0, 0.0, 1.0]), "m": ScoreColumn.of(given)}
    columns = (("prompt", "string"), ("status", "string"), ("zip", "string"), ("n", "float64"), ("tags", "json"))
    return ScoredBatch(examples, scores, 0, columns)


def test_the_instances_table_holds_every_column_that_is_promised():
    (records,) = tables.instance_records(scored(), METRICS)
    assert records.schema.names == (
        ["instance_id", "trial", "prompt", "dataset.status", "zip", "n", "tags"]
        + ["status", "response", "predicted_trajectory", "retrieved_context", "turns"]
        + ["latency_in_seconds", "failure", "error_type", "error_message", "attempts", "input_tokens", "output_tokens"]
        + ["m/score", "m/explanation", "m/confidence", "m/details", "m/status", "m/error"]
    )
    first, second, third = records.to_pylist()
    assert first["n"] == 1.0
    assert first["zip"] == "02134"
    assert first["tags"] == '["a",1]'
    assert first["predicted_trajectory"] == '[{"tool_name":"t","tool_input":{"a":1}}]'
    assert (first["failure"], first["input_tokens"], first["output_tokens"]) == (0, 3, None)
    assert second["response"] == '{"a":[1]}'
    assert second["retrieved_context"] == '[{"content":"text","doc_uri":"doc"},{"content":"no doc","doc_uri":null}]'
    assert (third["status"], third["failure"], third["response"]) == ("failed", 1, None)
    assert (third["m/status"], third["m/error"], third["m/score"]) == ("skipped", "agent_failed: x", None)
    assert [f.name for f in records.schema if (f.metadata or {}).get(b"evalbeam.volatile")] == [
        "latency_in_seconds",
        "error_message",
        "attempts",
    ]


def test_batches_and_scored_batches_survive_their_coders():
    batch = scored()
    plain = coders.registry.get_coder(Batch)
    for value in (
        Batch(tuple(batch.examples), 3, batch.columns),
        Batch((), 1, ()),
        Batch((batch.examples[0].instance,)),
    ):
        assert plain.decode(plain.encode(value)) == value
    coder = coders.registry.get_coder(ScoredBatch)
    assert coder.decode(coder.encode(batch)) == batch


@given(st.lists(st.integers(0, 60), max_size=60), st.data())
@settings(deadline=None)
def test_row_groups_depend_on_the_rows_alone(widths, data):
    schema = pa.schema([("text", pa.string()), ("n", pa.int64())])
    whole = pa.table({"text": ["x" * w for w in widths], "n": list(range(len(widths)))}, schema=schema)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "GROUP_ROWS", 7)
        patch.setattr(write, "GROUP_BYTES", 200)
        ends = sorted(data.draw(st.sets(st.integers(0, len(widths)))) | {0, len(widths)})
        pieces = [whole.slice(a, b - a).combine_chunks() for a, b in itertools.pairwise(ends)]
        batches = [b for p in pieces for b in p.to_batches()]
        groups = list(write.row_groups(iter(batches), schema))
        assert [g.to_pydict() for g in groups] == [
            g.to_pydict() for g in write.row_groups(iter(whole.to_batches()), schema)
        ]
    assert [r for g in groups for r in g.to_pylist()] == whole.to_pylist()
    for group in groups:
        assert group.num_rows <= 7
        assert group.num_rows == 1 or sum(16 + len(t) for t in group.column("text").to_pylist()) <= 200


@pytest.mark.parametrize("writer", WRITERS, ids=lambda w: w.ending + "-" + w.codec)
def test_every_format_writes_the_same_bytes_twice_and_keeps_the_rows(writer, tmp_path):
    records = list(tables.instance_records(scored(), METRICS))
    columns = tables.instance_columns(scored().columns, METRICS)
    files = [write.write_table("instances", "t" + writer.ending, records, columns, str(tmp_path), writer) for _ in "ab"]
    first, second = (storage.read_bytes(f.temporary) for f in files)
    assert first == second
    assert files[0].temporary != files[1].temporary
    assert files[0].rows == 3
    assert files[0].counts == {"ok": 2, "failed": 1, "not_called": 0, "over_budget": 0}
    assert _read(first, writer)["instance_id"] == [f"{i:032x}" for i in (1, 2, 3)]
    assert _read(first, writer)["m/status"] == ["scored", "scored", "skipped"]


def _read(data: bytes, writer) -> dict:
    if isinstance(writer, ParquetFiles):
        return pq.read_table(io.BytesIO(data)).to_pydict()
    stream = pa.input_stream(io.BytesIO(data), compression="gzip" if writer.codec == "gzip" else None)
    if isinstance(writer, CsvFiles):
        types = {"instance_id": pa.string()}
        return pyarrow.csv.read_csv(stream, convert_options=pyarrow.csv.ConvertOptions(column_types=types)).to_pydict()
    import orjson

    rows = [orjson.loads(line) for line in stream.read().splitlines()]
    return {name: [r[name] for r in rows] for name in rows[0]}


def test_formulas_are_neutralised_on_request_only():
    schema = tables.schema([tables.Column("=1+1", "string"), tables.Column("n", "int64"), tables.Column("j", "json")])
    cells = [pa.array(["=1+1", "-2", "\n@x", "fine", None]), pa.array([1, -2, 3, 4, 5])]
    batch = pa.record_batch([*cells, pa.array(["{}", "-2", None, "[]", "1"])], schema=schema)
    for escape, expected in ((False, ["=1+1", "-2", "\n@x", "fine"]), (True, ["'=1+1", "'-2", "'\n@x", "fine"])):
        stream = io.BytesIO()
        with CsvFiles(escape_formulas=escape).open(stream, schema) as sink:
            sink.write(batch)
        head, *lines = csv.reader(io.StringIO(stream.getvalue().decode(), newline=""))
        assert head == [expected[0], "n", "j"]
        assert [line[0] for line in lines][:4] == expected
        assert lines[1][1:] == ["-2", "-2"]


def test_an_empty_batch_is_a_marker_and_an_empty_part_a_file_with_columns(tmp_path):
    assert [write._compress(*e, INLINE) for e in write.encode(ScoredBatch([], {}, 5, ()), METRICS)] == [(5, b"")]
    columns = tables.instance_columns((("prompt", "string"),), METRICS)
    none = write.decode_records([b"", b""], columns, Spill())
    written = write.write_table("instances", "x.parquet", none, columns, str(tmp_path), ParquetFiles())
    table = pq.read_table(written.temporary)
    assert (table.num_rows, table.column_names[:3]) == (0, ["instance_id", "trial", "prompt"])


def test_columns_of_the_same_values_travel_once():
    rows = [example(i, response=f"p{i}", predicted_trajectory=(), error_message="") for i in range(3)]
    scores = {name: ScoreColumn([0.5, None, 1.0]) for name in ("failure", "m")}
    batch = ScoredBatch(rows, scores, 0, (("prompt", "string"), ("n", "int64")))
    (records,) = tables.instance_records(batch, METRICS)
    ((part, head, stream),) = write.encode(batch, METRICS)
    sent = pa.ipc.open_stream(stream).schema.names
    assert {"prompt", "m/score", "m/status"} < set(sent)
    assert not {"response", "m/explanation", "m/details", "m/error"} & set(sent)
    columns = tables.instance_columns(batch.columns, METRICS)
    (found,) = write.decode_records([write._compress(part, head, stream, INLINE)[1]], columns, Spill())
    assert found.equals(records, check_metadata=True)


def test_giant_answers_are_encoded_in_several_messages():
    big = "x" * (20 << 20)
    rows = [Example(Instance(f"{i:032x}", {}), Invocation(response=big)) for i in range(3)]
    batch = ScoredBatch(rows, {"failure": ScoreColumn([0.0] * 3)}, 0, ())
    metrics = (tables.MetricColumns("failure"),)
    encoded = [write._compress(*e, INLINE) for e in write.encode(batch, metrics)]
    assert len(encoded) == 3
    columns = tables.instance_columns((), metrics)
    assert [r.num_rows for r in write.decode_records(reversed([v for _, v in encoded]), columns, Spill())] == [1, 1, 1]
