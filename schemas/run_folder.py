"""The files and folders of a run."""

from __future__ import annotations

MANIFEST = "manifest.json"
JOURNAL = "journal"
"""Subfolder of the journal: the completed calls of the run."""
STOP = "stop"
"""Object in the run's folder whose presence stops its calls; its text is the reason."""
FINISHED, FAILED, STOPPED = "finished", "failed", "stopped"
TABLE_ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".csv", ".csv.gz")
"""File name endings of the summary and errors tables."""

FOLDER = "batch"
"""Subfolder of all batches."""
