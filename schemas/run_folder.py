"""The files and folders of a run."""

from __future__ import annotations

MANIFEST = "manifest.json"
JOURNAL = "journal"
"""Folder of the calls that a run has paid for, below its own."""
STOP = "stop"
"""Object below a run's folder whose presence stops its calls; its text says why."""
FINISHED, FAILED, STOPPED = "finished", "failed", "stopped"
TABLE_ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".csv", ".csv.gz")
"""Of the summary and errors tables."""

FOLDER = "batch"
"""Folder of all batches below that of a run."""
