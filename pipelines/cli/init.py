"""An example to start from: a configuration with comments, an agent, and a few rows."""

from __future__ import annotations

from pathlib import Path

from ...schemas.errors import ConfigError

CONFIG = """\
# An evaluation. Look at it with `evalbeam check eval.yaml`, run it with `evalbeam run eval.yaml`.

dataset:
  path: rows.jsonl              # a file, a folder, a glob or a list: JSONL (.gz, .zst), CSV or Parquet
  # dialect: auto               # auto, plain, vertex: under which names the rows keep their fields
  # columns:                    # your column names, where they are not ours; and types of CSV columns
  #   question: prompt
  #   price: float64
  # limit: 100                  # at most so many rows, the same ones in every run
  # max_invalid_fraction: 0.1           # share of unusable rows above which nothing is called

agent:
  target: my_agent:ask          # module:name; without a target the rows carry the answers
  timeout: 30                   # seconds of one attempt
  max_attempts: 3
  max_in_flight: 16             # calls at once, in each worker process

metrics:                        # `evalbeam metrics` lists them, `evalbeam metrics NAME` tells their parameters
  - exact_match
  - trajectory_exact_match
  - {metric: trajectory_recall, name: recall_of_tools, args: ignore}
  # - my_metrics:politeness     # any Python function of a row that returns a number

slices: [[category]]            # break the summary down by columns of the dataset

criteria:                       # the command ends with 1 where one of them is not met
  exact_match: 0.5              # the least mean; or {min: ..., max: ..., statistic: p95, slice: {category: billing}}
  failure: {max: 0.1}

# trials: 1                     # how often the agent runs on each row

output:
  path: out
  format: parquet               # parquet, jsonl or csv
"""

AGENT = '''\
"""A sample agent: a function of the prompt (or of the whole row, where its parameter is called `row`)."""

ANSWERS = {
    "order": ("Your order is on its way.", [{"tool_name": "find_order", "tool_input": {"id": "1042"}}]),
    "refund": ("The refund has been started.", [{"tool_name": "start_refund", "tool_input": {"id": "1042"}}]),
}


def ask(prompt: str) -> dict:
    """Returns text, or a dict with `response` and, where it has them, the tools it called in their order.

    It may be `async def`. What it raises becomes that row's error; the run goes on.
    """
    for word, (response, calls) in ANSWERS.items():
        if word in prompt:
            return {"response": response, "predicted_trajectory": calls}
    return {"response": "How can I help?", "predicted_trajectory": []}
'''

ROWS = """\
{"prompt": "Where is my order 1042?", "reference": "Your order is on its way.", "reference_trajectory": \
[{"tool_name": "find_order", "tool_input": {"id": "1042"}}], "category": "shipping"}
{"prompt": "Please refund 1042", "reference": "The refund has been started.", "reference_trajectory": \
[{"tool_name": "start_refund", "tool_input": {"id": "1042"}}], "category": "billing"}
{"prompt": "I want a refund for order 77", "reference": "The refund has been started.", "reference_trajectory": \
[{"tool_name": "start_refund", "tool_input": {"id": "77"}}], "category": "billing"}
{"prompt": "Hello", "reference": "How can I help?", "reference_trajectory": [], "category": "other"}
"""

FILES = {"eval.yaml": CONFIG, "my_agent.py": AGENT, "rows.jsonl": ROWS}


def write_example(folder: str, force: bool = False) -> str:
    """Writes the example's files.

    Args:
        folder: Where to; made where it is missing.
        force: Write over files that are there.

    Returns:
        What was written and how to go on, in words.

    Raises:
        ConfigError: A file is there already, or the folder cannot be written.
    """
    root = Path(folder)
    there = [str(root / name) for name in FILES if (root / name).exists()]
    if there and not force:
        raise ConfigError("is there already", where=", ".join(there), allowed="another folder, or --force")
    try:
        root.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            (root / name).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be written: {error}", where=folder) from None
    step = f"cd {folder} && " if folder not in (".", "./") else ""
    written = "\n".join(f"wrote {root / name}" for name in FILES)
    return f"{written}\n\nnow: {step}evalbeam check eval.yaml\n     {step}evalbeam run eval.yaml"
