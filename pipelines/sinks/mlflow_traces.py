"""Shows rows as traces of MLflow, with scores as assessments, so that MLflow's evaluation view opens them.

The id of a trace is made of the ids of MLflow's run and of the row: sending a run again replaces its traces, sending it
to another experiment makes others.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from ...schemas.json import Json
from ...schemas.tables import MOVED, OWN_NAMES, PERFORMANCE, json_text
from .base import FinishedRun, Row, SinkError

if TYPE_CHECKING:
    from mlflow.entities import Assessment, Span, TraceInfo

MOST_CHARACTERS = 20_000
"""Characters of one text of a trace; the rest is in the tables."""
_MOST_PREVIEW = 1000
_THREADS = 8
_BATCH = 100
"""Traces of one request, where a request may be of several."""
_EXPECTED = {"reference": "expected_response"}
"""Column of the dataset -> name that MLflow's own scorers give to what it holds."""
_AN_EXPECTATION = ("reference", "expected_")
"""How the names of columns begin that say what is expected."""


def send_traces(uri: str, experiment: str, run_id: str, run: FinishedRun, chosen: Sequence[int]) -> int:
    """Replaces the traces of a run of MLflow by those of the chosen rows; returns their number."""
    from mlflow.tracing.client import TracingClient

    traces = TracingClient(uri)
    _delete_traces(traces, uri, experiment, run_id)
    maker, rows = TraceMaker.of(run, experiment, run_id), iter(run.pick(chosen))
    with ThreadPoolExecutor(_THREADS) as pool:
        while part := list(islice(rows, _BATCH)):
            infos = list(pool.map(lambda row: traces.start_trace(maker.describe(row)), part))
            _log_spans(traces, experiment, infos, [list(maker.draw(row)) for row in part])
    return len(chosen)


def _delete_traces(traces: Any, uri: str, experiment: str, run_id: str) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    while old := client.search_traces(locations=[experiment], run_id=run_id, include_spans=False, max_results=_BATCH):
        if not traces.delete_traces(experiment, trace_ids=[one.info.trace_id for one in old]):
            raise SinkError("MLflow does not delete the traces of an earlier version of the run")


def _log_spans(traces: Any, experiment: str, infos: Sequence[TraceInfo], spans: Sequence[list[Span]]) -> None:
    """Logs the spans of several traces: to the tracking store or, where that takes none, as artifacts."""
    from mlflow.entities import TraceData
    from mlflow.exceptions import MlflowException
    from mlflow.utils.uri import is_databricks_uri

    if not is_databricks_uri(traces.tracking_uri):
        try:
            traces.log_spans(experiment, [span for those in spans for span in those])
            return
        except NotImplementedError:  # of older servers, and of stores of files
            pass
        except MlflowException as error:
            if error.error_code != "INVALID_PARAMETER_VALUE":
                raise
            for those in spans:  # older clients take those of one trace only
                traces.log_spans(experiment, those)
            return
    for info, those in zip(infos, spans, strict=True):
        traces._upload_trace_data(info, TraceData(those))


@dataclass(frozen=True)
class TraceMaker:
    """Makes the traces of a run.

    Attributes:
        run: The run.
        experiment, run_id: Ids in MLflow.
        inputs: Column of the dataset -> name of the input.
        expected: Column of the dataset -> name of the expectation.
        decoded: Columns that hold JSON.
        metrics: Names of the metrics with assessments.
    """

    run: FinishedRun
    experiment: str
    run_id: str
    inputs: Mapping[str, str]
    expected: Mapping[str, str]
    decoded: frozenset[str]
    metrics: tuple[str, ...]

    @classmethod
    def of(cls, run: FinishedRun, experiment: str, run_id: str) -> TraceMaker:
        """Returns the maker of a run's traces."""
        types = {name: column["type"] for name, column in run.columns.items()}
        names = list(types)
        given = [name for name in names[2 : names.index("status")] if name.removeprefix(MOVED) not in OWN_NAMES]
        columns = run.config["dataset"].get("columns") or {}
        named: dict[str, str] = {name: (columns.get(name) or {}).get("as") or name for name in given}
        expected = {name: _EXPECTED.get(own, own) for name, own in named.items() if own.startswith(_AN_EXPECTATION)}
        inputs = {name: own for name, own in named.items() if name not in expected}
        decoded = frozenset(name for name, kind in types.items() if kind == "json")
        metrics = tuple(m["name"] for m in run.manifest["metrics"] if m["name"] not in PERFORMANCE)
        return cls(run, experiment, run_id, inputs, expected, decoded, metrics)

    def describe(self, row: Row) -> TraceInfo:
        """Returns what is known of a row besides its spans, with its assessments."""
        from mlflow.entities import TraceInfo, TraceLocation, TraceState

        given, made = row.get("input_tokens"), row.get("output_tokens")
        metadata = {"mlflow.sourceRun": self.run_id, "mlflow.trace_schema.version": "3"}
        if given is not None and made is not None:
            usage = {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}
            metadata["mlflow.trace.tokenUsage"] = json_text(usage)
        own = {"evalbeam.instance_id": row["instance_id"], "evalbeam.trial": str(row["trial"])}
        response = row.get("response") or row.get("error_message") or ""
        return TraceInfo(
            trace_id=self._trace_id(row),
            trace_location=TraceLocation.from_experiment_id(self.experiment),
            request_time=int(self.run.started * 1000),
            state=TraceState.OK if row["status"] == "ok" else TraceState.ERROR,
            request_preview=_preview(self._inputs(row)),
            response_preview=str(response)[:_MOST_PREVIEW],
            client_request_id=str(row["instance_id"])[:250],
            execution_duration=int(1000 * (row.get("latency_in_seconds") or 0.0)),
            trace_metadata=metadata,
            tags={"mlflow.traceName": "row", **own},
            assessments=[*self._feedback(row), *self._expectations(row)],
        )

    def draw(self, row: Row) -> Iterator[Span]:
        """Yields the spans of a row: the agent's call and, in it, its retrieval and the calls of its tools."""
        end = int(1e9 * (row.get("latency_in_seconds") or 0.0))
        status = ("OK", "") if row["status"] == "ok" else ("ERROR", row.get("error_message") or row["status"])
        yield self._span(row, 0, "row", "AGENT", self._inputs(row), self._cut(row.get("response")), end, status)
        if chunks := self._value(row, "retrieved_context"):
            found = [{"page_content": c.get("content"), "metadata": {"doc_uri": c.get("doc_uri")}} for c in chunks]
            yield self._span(row, 1, "retrieved_context", "RETRIEVER", None, self._cut(found))
        for number, call in enumerate(self._value(row, "predicted_trajectory") or (), 2):
            yield self._span(row, number, str(call["tool_name"]), "TOOL", self._cut(call.get("tool_input")), None)

    def _span(
        self,
        row: Row,
        number: int,
        name: str,
        kind: str,
        inputs: Json,
        outputs: Json,
        duration: int = 0,
        status: tuple[str, str] = ("OK", ""),
    ) -> Span:
        from mlflow.entities import Span

        own = self._trace_id(row)
        started = int(self.run.started * 1e9) + number
        attributes = {"mlflow.traceRequestId": own, "mlflow.spanType": kind, "mlflow.experimentId": self.experiment}
        attributes |= {} if inputs is None else {"mlflow.spanInputs": inputs}
        attributes |= {} if outputs is None else {"mlflow.spanOutputs": outputs}
        described = {
            "trace_id": _encode(own.removeprefix("tr-")),
            "span_id": _encode(_hash(own, str(number))[:16]),
            "parent_span_id": _encode(_hash(own, "0")[:16]) if number else "",
            "name": name or "tool",
            "start_time_unix_nano": started,
            "end_time_unix_nano": started + duration,
            "events": [],
            "status": {"code": f"STATUS_CODE_{status[0]}", "message": status[1][:_MOST_PREVIEW]},
            "attributes": {key: json_text(value) for key, value in attributes.items()},
        }
        return Span.from_dict(described)

    def _feedback(self, row: Row) -> Iterator[Assessment]:
        """Yields the scores of a row, and the errors of metrics that could not score it."""
        from mlflow.entities import AssessmentError, AssessmentSource, Feedback

        ratings = self.run.ratings
        for metric in self.metrics:
            value = row.get(f"{metric}/pairwise_choice") or row.get(f"{metric}/score")
            value = row.get(f"{metric}/score") if value is None else value
            failed = row.get(f"{metric}/status") == "error"
            if value is None and not failed:
                continue
            code, _, message = str(row.get(f"{metric}/error") or "").partition(": ")
            kind = ("LLM_JUDGE", ratings[metric] or "judge") if metric in ratings else ("CODE", "evalbeam")
            yield Feedback(
                name=metric,
                value=value,
                error=AssessmentError(code or "error", message) if failed else None,
                rationale=self._cut(row.get(f"{metric}/explanation")),
                source=AssessmentSource(*kind),
                trace_id=self._trace_id(row),
                metadata={"mlflow.assessment.sourceRunId": self.run_id},
            )

    def _expectations(self, row: Row) -> Iterator[Assessment]:
        """Yields what the dataset says is expected."""
        from mlflow.entities import AssessmentSource, Expectation

        source = AssessmentSource("HUMAN", "dataset")
        for column, name in self.expected.items():
            if (value := self._cut(self._value(row, column))) is not None:
                yield Expectation(name=name, value=value, source=source, trace_id=self._trace_id(row))

    def _trace_id(self, row: Row) -> str:
        return f"tr-{_hash(self.run_id, row['instance_id'], str(row['trial']))[:32]}"

    def _inputs(self, row: Row) -> dict[str, Json]:
        values = ((own, self._cut(self._value(row, name))) for name, own in self.inputs.items())
        return {own: value for own, value in values if value is not None}

    def _value(self, row: Row, column: str) -> Any:
        value = row.get(column)
        return orjson.loads(value) if column in self.decoded and isinstance(value, str) else value

    def _cut(self, value: Json) -> Json:
        """Returns a value, as text that is cut if it is too long."""
        shown = value if value is None or isinstance(value, str) else json_text(value)
        if shown is None or len(shown) <= MOST_CHARACTERS:
            return value
        return f"{shown[:MOST_CHARACTERS]} … ({len(shown):,} characters)"


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _encode(digits: str) -> str:
    return base64.b64encode(bytes.fromhex(digits)).decode()


def _preview(inputs: Mapping[str, Json]) -> str:
    """Returns the prompt, or all inputs as JSON."""
    prompt = inputs.get("prompt")
    return (prompt if isinstance(prompt, str) else json_text(dict(inputs)))[:_MOST_PREVIEW]
