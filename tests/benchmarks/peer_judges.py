"""Three custom metrics of 50 ms by other tools, one row of output: `python peer_judges.py {evaltask,mlflow} ROWS`.

Run by `bench_judges.py --peers PYTHON` with an interpreter that has google-cloud-aiplatform[evaluation] and mlflow.
Prints the seconds, and how many of the rows have a score.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import Any

SECONDS = 0.05
NAMES = ("fluency", "coherence", "fulfillment")


def evaltask(rows: int) -> tuple[float, int]:
    """By Vertex AI's EvalTask, whose service is not called."""
    import pandas as pd
    import vertexai
    from google.auth.credentials import AnonymousCredentials
    from vertexai.preview.evaluation import CustomMetric, EvalTask

    def named(name: str) -> Any:
        def judge(row: dict[str, Any]) -> dict[str, Any]:
            time.sleep(SECONDS)
            return {name: 4.0}

        return CustomMetric(name=name, metric_function=judge)

    vertexai.init(project="p", location="us-central1", credentials=AnonymousCredentials())
    data = pd.DataFrame({"prompt": [f"question {i}" for i in range(rows)], "response": ["answer"] * rows})
    task = EvalTask(dataset=data, metrics=[named(name) for name in NAMES])
    began = time.perf_counter()
    table = task.evaluate().metrics_table
    return time.perf_counter() - began, int((table[f"{NAMES[0]}/score"] == 4.0).sum())


def mlflow(rows: int) -> tuple[float, int]:
    """By mlflow.genai.evaluate with its own settings."""
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
    import mlflow.genai
    from mlflow.genai.scorers import scorer

    def named(name: str) -> Any:
        def judge(outputs: Any) -> float:
            time.sleep(SECONDS)
            return 4.0

        return scorer(judge, name=name)

    data = [{"inputs": {"question": f"question {i}"}, "outputs": f"answer {i}"} for i in range(rows)]
    scorers = [named(name) for name in NAMES]
    mlflow.set_experiment("bench")
    began = time.perf_counter()
    table = mlflow.genai.evaluate(data=data, scorers=scorers).result_df
    return time.perf_counter() - began, int((table[f"{NAMES[0]}/value"] == 4.0).sum())


if __name__ == "__main__":
    seconds, scored = {"evaltask": evaltask, "mlflow": mlflow}[sys.argv[1]](int(sys.argv[2]))
    print(seconds, scored)
