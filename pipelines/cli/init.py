"""The example that `evalbeam init` writes: a commented configuration, an agent, and a few rows."""

from __future__ import annotations

from pathlib import Path

from ...schemas.errors import ConfigError

CONFIG = """\
# An evaluation. Check it with `evalbeam check eval.yaml`, run it with `evalbeam run eval.yaml`.

dataset:
  path: rows.jsonl              # a file, a folder, a glob or a list: JSONL (.gz, .zst), CSV or Parquet
  # dialect: auto               # auto, plain, vertex: the naming scheme of the rows' fields
  # columns:                    # maps your column names to evalbeam's; also types of CSV columns
  #   question: prompt
  #   price: float64
  # limit: 100                  # maximum number of rows, the same ones in every run
  # max_invalid_fraction: 0.1   # a larger share of unusable rows stops the run before its first call

agent:
  target: my_agent:ask          # module:name; without a target the answers are in the rows
  timeout: 30                   # seconds for each attempt
  max_attempts: 3
  max_in_flight: 16             # concurrent calls in each worker process

metrics:                        # `evalbeam metrics` lists them, `evalbeam metrics NAME` shows their parameters
  - exact_match
  - trajectory_exact_match
  - {metric: trajectory_recall, name: recall_of_tools, args: ignore}
  # - my_metrics:politeness     # any Python function of a row that returns a number

slices: [[category]]            # break the summary down by columns of the dataset

criteria:                       # the exit code is 1 if one of them is not met
  exact_match: 0.5              # minimum mean; or {min: ..., max: ..., statistic: p95, slice: {category: billing}}
  failure: {max: 0.1}

# trials: 1                     # number of agent runs for each row

output:
  path: out
  format: parquet               # parquet, jsonl or csv
"""

AGENT = '''\
"""A sample agent: a function of the prompt (or of the whole row, if its parameter is called `row`)."""

ANSWERS = {
    "order": ("Your order is on its way.", [{"tool_name": "find_order", "tool_input": {"id": "1042"}}]),
    "refund": ("The refund has been started.", [{"tool_name": "start_refund", "tool_input": {"id": "1042"}}]),
}


def ask(prompt: str) -> dict:
    """Returns text, or a dict with `response` and optionally the tool calls in order.

    It may be `async def`. An exception becomes the error of that row; the run continues.
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
        folder: Target folder; created if it does not exist.
        force: Overwrite existing files.

    Returns:
        A message with the files written and the next commands.

    Raises:
        ConfigError: A file already exists, or the folder is not writable.
    """
    root = Path(folder)
    existing = [str(root / name) for name in FILES if (root / name).exists()]
    if existing and not force:
        raise ConfigError("already exists", where=", ".join(existing), allowed="another folder, or --force")
    try:
        root.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            (root / name).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be written: {error}", where=folder) from None
    step = f"cd {folder} && " if folder not in (".", "./") else ""
    written = "\n".join(f"wrote {root / name}" for name in FILES)
    return f"{written}\n\nnext: {step}evalbeam check eval.yaml\n      {step}evalbeam run eval.yaml"
