"""What one would write instead of a run of evalbeam: scripts for `bench_end_to_end.py`, each a process of its own.

    python tests/benchmarks/end_to_end_peers.py NAME DATA OUTPUT [ARGUMENTS]

All of them score with the functions below and write one table. Only the standard library is imported at the top, since
a tool may be installed in an environment of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

_WORD = re.compile("[a-z0-9]+")


def exact_match(made: list[dict], wanted: list[dict]) -> float:
    """1 if the same calls were made in the same order."""
    return float(made == wanted)


def in_order_match(made: list[dict], wanted: list[dict]) -> float:
    """1 if the calls that were wanted were made in their order, whatever else was made."""
    rest = iter(made)
    return float(all(any(call == other for other in rest) for call in wanted))


def any_order_match(made: list[dict], wanted: list[dict]) -> float:
    """1 if the calls that were wanted were made, as often as wanted."""
    left = list(made)
    for call in wanted:
        if call in left:
            left.remove(call)
    return float(len(made) - len(left) == len(wanted))


def precision(made: list[dict], wanted: list[dict]) -> float:
    """Share of the calls made that were wanted."""
    return sum(call in wanted for call in made) / len(made) if made else 0.0


def recall(made: list[dict], wanted: list[dict]) -> float:
    """Share of the calls wanted that were made."""
    return sum(call in made for call in wanted) / len(wanted) if wanted else 0.0


TRAJECTORY: dict[str, Callable[[list[dict], list[dict]], float]] = {
    f"trajectory_{score.__name__}": score for score in (exact_match, in_order_match, any_order_match, precision, recall)
}
TRAJECTORIES = ("predicted_trajectory", "reference_trajectory")


def rouge_1(given: str, wanted: str) -> float:
    """F1 of words."""
    one, other = Counter(_WORD.findall(given.lower())), Counter(_WORD.findall(wanted.lower()))
    both = 2 * (one & other).total()
    return both / (one.total() + other.total()) if both else 0.0


TEXT: dict[str, Callable[[str, str], float]] = {
    "exact_match": lambda given, wanted: float(given == wanted),
    "rouge_1": rouge_1,
}


def plain_rows(data: str, output: str) -> None:
    """Recorded rows: rows, scores and the table in memory."""
    import orjson
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list] = {}
    with open(data, "rb") as lines:
        for line in lines:
            row = orjson.loads(line)
            made, wanted = row["predicted_trajectory"], row["reference_trajectory"]
            row |= {name: score(made, wanted) for name, score in TRAJECTORY.items()}
            row["predicted_trajectory"], row["reference_trajectory"] = orjson.dumps(made), orjson.dumps(wanted)
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
    pq.write_table(pa.table(columns), output, compression="zstd")


def plain_calls(data: str, output: str, in_flight: str) -> None:
    """Calls: coroutines that take a row each, and write it with its scores."""
    import orjson
    from naps import ask  # type: ignore[import-not-found]  (the benchmark writes it)

    with open(data, "rb") as lines, open(output, "wb") as out:
        rows = iter([orjson.loads(line) for line in lines])

        async def one_place() -> None:
            for row in rows:
                row["response"] = await ask(row["prompt"])
                row |= {name: score(row["response"], row["reference"]) for name, score in TEXT.items()}
                out.write(orjson.dumps(row) + b"\n")

        async def all_of_them() -> None:
            await asyncio.gather(*(one_place() for _ in range(int(in_flight))))

        asyncio.run(all_of_them())


def pandas_rows(data: str, output: str) -> None:
    """Recorded rows: a DataFrame, and a function that is applied to its rows."""
    import pandas as pd

    frame = pd.read_json(data, lines=True)

    def scores(row: pd.Series) -> list[float]:
        return [score(row["predicted_trajectory"], row["reference_trajectory"]) for score in TRAJECTORY.values()]

    frame[list(TRAJECTORY)] = frame.apply(scores, axis=1, result_type="expand")
    _write_frame(frame, output)


def _write_frame(frame, output: str) -> None:
    """A table of Parquet with trajectories as JSON text."""
    for column in TRAJECTORIES:
        if column in frame:
            frame[column] = frame[column].map(json.dumps)
    frame.to_parquet(output, compression="zstd")


def _evaltask(data: str, functions: dict[str, Callable], given: str, wanted: str):
    """An EvalTask over a DataFrame. The SDK makes clients of services that it then does not call; they want a login."""
    import pandas as pd
    import vertexai
    from google.auth.credentials import AnonymousCredentials
    from vertexai.preview.evaluation import CustomMetric, EvalTask

    def metric(name: str, score: Callable) -> CustomMetric:
        return CustomMetric(name=name, metric_function=lambda row: {name: score(row[given], row[wanted])})

    vertexai.init(project="benchmark", location="us-central1", credentials=AnonymousCredentials())
    metrics = [metric(name, score) for name, score in functions.items()]
    return EvalTask(dataset=pd.read_json(data, lines=True), metrics=metrics)


def evaltask_rows(data: str, output: str) -> None:
    """Recorded rows: EvalTask with custom metrics, since a service that costs money computes its own."""
    found = _evaltask(data, TRAJECTORY, *TRAJECTORIES).evaluate()
    _write_frame(found.metrics_table, output)


def evaltask_calls(data: str, output: str) -> None:
    """Calls: EvalTask with a function as its runnable, which it calls from 100 threads."""
    from naps import answer  # type: ignore[import-not-found]

    found = _evaltask(data, TEXT, "response", "reference").evaluate(runnable=answer)
    _write_frame(found.metrics_table, output)


def mlflow_rows(data: str, output: str) -> None:
    """Recorded rows: MLflow with a scorer for each metric."""
    rows = [
        {
            "inputs": {key: value for key, value in row.items() if key not in TRAJECTORIES},
            "outputs": row["predicted_trajectory"],
            "expectations": {"reference_trajectory": row["reference_trajectory"]},
        }
        for row in map(json.loads, Path(data).read_text().splitlines())
    ]
    _mlflow(rows, TRAJECTORY, "reference_trajectory", output)


def mlflow_calls(data: str, output: str) -> None:
    """Calls: MLflow with a function that it calls from 10 threads."""
    from naps import answer  # type: ignore[import-not-found]

    def predict(prompt: str) -> str:
        return answer(prompt)["response"]

    rows = [
        {"inputs": {"prompt": row["prompt"]}, "expectations": {"reference": row["reference"]}}
        for row in map(json.loads, Path(data).read_text().splitlines())
    ]
    _mlflow(rows, TEXT, "reference", output, predict_fn=predict)


def _mlflow(rows: list[dict], functions: dict[str, Callable], wanted: str, output: str, **more: Callable) -> None:
    """Evaluates on a new SQLite store and writes the table of results.

    Its rate limits are off: they would hold it to 20 calls a second. It then works in 10 threads.
    """
    os.environ |= {"MLFLOW_GENAI_EVAL_PREDICT_RATE_LIMIT": "0", "MLFLOW_GENAI_EVAL_SCORER_RATE_LIMIT": "0"}
    import mlflow
    from mlflow.genai import evaluate, scorer

    def make(name: str, score: Callable):
        return scorer(lambda outputs, expectations: score(outputs, expectations[wanted]), name=name)

    store = Path(output).with_suffix(".db")
    store.unlink(missing_ok=True)
    mlflow.set_tracking_uri(f"sqlite:///{store}")
    mlflow.set_experiment(experiment_id=mlflow.create_experiment("benchmark", str(store.with_suffix(".files"))))
    found = evaluate(data=rows, scorers=[make(name, score) for name, score in functions.items()], **more)
    table = found.result_df
    assert table is not None
    table[[f"{name}/value" for name in functions]].to_parquet(output)


SCRIPTS = (plain_rows, plain_calls, pandas_rows, evaltask_rows, evaltask_calls, mlflow_rows, mlflow_calls)


if __name__ == "__main__":
    {script.__name__: script for script in SCRIPTS}[sys.argv[1]](*sys.argv[2:])
