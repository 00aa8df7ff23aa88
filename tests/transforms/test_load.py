"""Loading a run into BigQuery, against a service that answers as Google documents: ids are used once, for ever."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud.bigquery import SchemaField
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.errors import ConfigError, RunError
from evalbeam.schemas.warehouse import Stamp
from evalbeam.transforms.io.bigquery import Clients
from evalbeam.transforms.load import LoadTables
from evalbeam.transforms.write import WrittenFile

COLUMNS = (("instance_id", "string", False, ""), ("m/score", "float64", False, ""))


class Crash(Exception):
    """The client dies here."""


@dataclass
class Service:
    """BigQuery: tables are Counters of run ids, a job takes effect when its end is waited for.

    Attributes:
        crash_at: The request before or after which the client dies, counted from 0; `None`: none.
        lost: Whether that request reaches the service first.
        fails: Load jobs that fail.
    """

    tables: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    jobs: dict[str, Any] = field(default_factory=dict)
    crash_at: int | None = None
    lost: bool = False
    fails: int = 0
    project: str = "payer"

    def request(self, effect: Any) -> Any:
        if self.crash_at is not None:
            self.crash_at -= 1
            if self.crash_at < 0:
                if self.lost:
                    effect()
                self.crash_at = None
                raise Crash
        return effect()

    def get_dataset(self, name: str, retry: Any = None) -> Any:
        if name != "p.d":
            raise exceptions.NotFound(f"Not found: Dataset {name}")
        return SimpleNamespace(location="EU")

    def create_table(self, table: Any, exists_ok: bool) -> None:
        assert exists_ok
        self.request(lambda: self.tables.setdefault(self._name(table), table))

    def get_table(self, name: str) -> Any:
        return self.tables[name]

    def update_table(self, table: Any, names: list[str]) -> None:
        assert names == ["schema"]
        self.tables[self._name(table)] = table

    def get_job(self, job_id: str, location: str) -> Any:
        assert location == "EU"
        if job_id not in self.jobs:
            raise exceptions.NotFound(f"Not found: Job {job_id}")
        return self.jobs[job_id]

    def load_table_from_uri(self, uris: list[str], name: str, job_id: str, location: str, job_config: Any) -> Any:
        assert job_config.create_disposition == "CREATE_NEVER"
        assert job_config.write_disposition == "WRITE_APPEND"
        run = uris[0].split("/")[3]
        failing = self.fails > 0
        self.fails -= failing

        def effect() -> None:
            self.rows.setdefault(name, Counter())[run] += 1

        return self._begin(job_id, job_config.labels, effect, failing)

    def query(self, sql: str, job_id: str, location: str, job_config: Any, job_retry: Any) -> Any:
        name = sql.split("`")[1]
        assert sql == f"DELETE FROM `{name}` WHERE run_id = @run_id"
        (run,) = job_config.query_parameters
        return self._begin(job_id, {}, lambda: self.rows.setdefault(name, Counter()).pop(run.value, None), False)

    def _begin(self, job_id: str, labels: Any, effect: Any, failing: bool) -> Any:
        if job_id in self.jobs:
            raise exceptions.Conflict(f"Already Exists: Job {job_id}")

        def begun() -> Any:
            self.jobs[job_id] = job = Job(labels, effect, failing)
            return job

        return self.request(begun)

    def close(self) -> None:
        pass

    @staticmethod
    def _name(table: Any) -> str:
        return f"{table.project}.{table.dataset_id}.{table.table_id}"


@dataclass
class Job:
    labels: dict[str, str]
    effect: Any
    failing: bool
    state: str = "RUNNING"
    error_result: Any = None

    def result(self) -> None:
        if self.state == "RUNNING":
            self.state = "DONE"
            if self.failing:
                self.error_result = {"reason": "invalid"}
            else:
                self.effect()
        if self.error_result:
            raise exceptions.BadRequest("the file is corrupt")


@dataclass(frozen=True)
class Ours(Clients):
    service: Any = None

    def tables(self, project: str) -> Any:
        assert project == "p"
        return self.service


def loading(service: Service, start: str, run: str = "run", **options: Any) -> LoadTables:
    return LoadTables("p.d", Stamp(run), start, clients=Ours(service), **options)


def files(columns: Any = COLUMNS) -> list[WrittenFile]:
    names = {"instances": "instances/part-0.parquet", "summary": "summary.parquet", "errors": "errors.parquet"}
    return [WrittenFile(table, "", name, 1, {}, columns) for table, name in names.items()]


def load(service: Service, start: str, run: str = "run", **options: Any) -> None:
    loading(service, start, run, **options).load(f"gs://b/{run}", files())


@given(st.sampled_from(["replace", "append"]), st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.booleans())))
def test_a_run_is_there_once_wherever_its_starts_die(write: str, deaths: list[tuple[int, bool, bool]]) -> None:
    """Each death is in a start of its own, or in a repetition of the step within the same one."""
    service, start = Service(), 0
    load(service, "other", "other")
    for at, lost, anew in deaths:
        start += anew
        service.crash_at, service.lost = at, lost
        with contextlib.suppress(Crash):
            load(service, str(start), write=write)
    service.crash_at = None
    load(service, str(start), write=write)
    load(service, str(start), write=write)
    assert service.rows == {f"p.d.{table}": {"run": 1, "other": 1} for table in ("instances", "summary", "errors")}


def test_another_start_replaces_and_does_not_append() -> None:
    for write, jobs in (("replace", 12), ("append", 3)):
        service = Service()
        for start in "ab":
            load(service, start, write=write)
        assert len(service.jobs) == jobs
        assert service.rows["p.d.instances"] == {"run": 1}


def test_a_failed_load_says_why_and_the_same_command_tries_again() -> None:
    service = Service(fails=1)
    with pytest.raises(RunError, match=r"loading into p\.d\.errors: the file is corrupt"):
        load(service, "a")
    load(service, "a")
    assert service.rows["p.d.errors"] == {"run": 1}


def test_tables_are_made_and_grow() -> None:
    service = Service()
    load(service, "a", prefix="x_")
    (instances,) = (t for name, t in service.tables.items() if name == "p.d.x_instances")
    assert [(f.name, f.field_type, f.mode) for f in instances.schema] == [
        ("run_id", "STRING", "NULLABLE"),
        ("instance_id", "STRING", "NULLABLE"),
        ("m_score", "FLOAT64", "NULLABLE"),
    ]
    assert instances.clustering_fields == ["run_id"]
    more = files((*COLUMNS, ("n/score", "float64", False, ""), ("zip", "string", False, "")))
    instances.schema = [*instances.schema, SchemaField("ZIP", "STRING")]
    loading(service, "b", prefix="x_").load("gs://b/run", more)
    assert [f.name for f in service.tables["p.d.x_instances"].schema][2:] == ["m_score", "ZIP", "n_score"]
    changed = files((COLUMNS[0], ("m/score", "string", False, "")))
    with pytest.raises(RunError, match="has the column m_score of type FLOAT64, the run has STRING: declare it"):
        loading(service, "c", prefix="x_").load("gs://b/run", changed)


def test_a_dataset_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"output\.bigquery\.dataset: p\.nope: .*Not found: Dataset p\.nope"):
        LoadTables("p.nope", Stamp("r"), "a", clients=Ours(Service())).check()
    with pytest.raises(ConfigError, match=r"found 'nope' \(allowed: project\.dataset\)"):
        LoadTables("nope", Stamp("r"), "a", clients=Ours(Service())).check()
    loading(Service(), "a").check()
