"""The folder of a run: what stands in it, and under which names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .json import Json

FINISHED, FAILED, STOPPED, PENDING = "finished", "failed", "stopped", "pending"
"""States that a manifest may say."""
TABLE_ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".csv", ".csv.gz")
"""Of tables of one file."""
INSTANCES, ERRORS, SUMMARY, VALIDITY = "instances", "errors", "summary", "validity"
FAILURES, SLICES = "failure_groups", "worst_slices"
OF_ONE_FILE = (SUMMARY, ERRORS, FAILURES, SLICES, VALIDITY)
"""Tables of one file; validity only if there are labels of people."""
AGENT, JUDGES = "agent", "judges"
"""Names of the agent's endpoint, and of the folders that belong to it and to the judges."""
FINGERPRINT_RECORD, JUDGES_RECORD = "fingerprint.json", "judges.json"
_RETRIES, _SINKS = "retries.json", "sinks.json"

_JOURNAL, _BATCH, _TEMPORARY, _LEASE = "journal", "batch", ".tmp", "lease"
_MANIFEST, _STOP, _REPORT = "manifest.json", "stop", "report.html"


def describe_columns(manifest: Mapping[str, Json], table: str = INSTANCES) -> dict[str, Mapping[str, Json]]:
    """Maps our own name of each column of a table to what the manifest says of it; empty without the table.

    Raises:
        KeyError: The manifest is of a version that does not describe columns.
    """
    if table not in manifest["tables"]:
        return {}
    return {column.get("is", column["name"]): column for column in manifest["tables"][table]["columns"]}


@dataclass(frozen=True)
class RunFolder:
    """The paths within the folder of a run.

    ```
    manifest.json          written last: a folder that has one holds a whole run
    stop                   its presence stops the run's calls; its text says why
    summary.*, errors.*, failure_groups.*, worst_slices.*
                           tables of one file, and validity.* if there are labels of people
    instances/             table of many files
    report.html            the page
    input/rows.jsonl       a dataset that was given in memory
    journal/<fingerprint>/ the agent's finished calls; fingerprint.json says what the fingerprint stands for
    journal/judges/        the judges' votes; judges.json says which judges they are
    journal/retries.json   how often failed calls were made again
    journal/sinks.json     the name under which sinks know the run
    batch/agent/           calls of an agent in batch mode
    batch/judges/<name>/   calls of a judge in batch mode
    lease/                 who runs here
    .tmp/                  what is being written, gone at the end of a run
    ```

    Attributes:
        path: The folder, on a disk or on object storage.
    """

    path: str

    def at(self, *parts: str) -> str:
        """Path of something in the folder."""
        return "/".join([self.path.rstrip("/"), *parts])

    @property
    def manifest(self) -> str:
        """The manifest, the last file that a run writes."""
        return self.at(_MANIFEST)

    @property
    def stop(self) -> str:
        """The object whose presence stops the run's calls."""
        return self.at(_STOP)

    @property
    def report(self) -> str:
        """The page that shows the run."""
        return self.at(_REPORT)

    @property
    def journals(self) -> str:
        """Folder of all journals: the calls that the run has paid for."""
        return self.at(_JOURNAL)

    @property
    def judge_journal(self) -> str:
        """Folder of the votes of judges."""
        return self.at(_JOURNAL, JUDGES)

    @property
    def retries(self) -> str:
        """The number of retries that were begun."""
        return self.at(_JOURNAL, _RETRIES)

    @property
    def sinks(self) -> str:
        """The name under which sinks know the run."""
        return self.at(_JOURNAL, _SINKS)

    @property
    def batches(self) -> str:
        """Folder of all calls that were handed over in batches."""
        return self.at(_BATCH)

    @property
    def agent_batches(self) -> str:
        """Folder of the agent's calls in batch mode."""
        return self.at(_BATCH, AGENT)

    @property
    def leases(self) -> str:
        """Folder of the leases: who runs here."""
        return self.at(_LEASE)

    @property
    def rows(self) -> str:
        """File of the rows of a dataset that was given in memory."""
        return self.at("input", "rows.jsonl")

    @property
    def owned_folders(self) -> tuple[str, ...]:
        """Folders whose files a run writes, replaces and removes."""
        return tuple(map(self.at, (INSTANCES, _JOURNAL, _BATCH, _TEMPORARY)))

    @property
    def owned_files(self) -> tuple[str, ...]:
        """Files that a run writes, replaces and removes, beside the tables of one file."""
        return tuple(map(self.at, (_REPORT, _STOP)))

    def agent_journal(self, fingerprint: str) -> str:
        """Folder of the agent's calls under a fingerprint."""
        return self.at(_JOURNAL, fingerprint) if fingerprint else self.journals

    def judge_batches(self, name: str) -> str:
        """Folder of the calls of a judge in batch mode."""
        return self.at(_BATCH, JUDGES, name)

    def temporary(self, *parts: str) -> str:
        """Path of something that is gone at the end of the run."""
        return self.at(_TEMPORARY, *parts)
