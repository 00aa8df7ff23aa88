import asyncio
import collections
import io
import os
import queue
import re
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem, MatchResult
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from evalbeam.schemas.batch import Batch
from evalbeam.schemas.calls import Call, Outcome
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.errors import RunError
from evalbeam.schemas.instance import Instance
from evalbeam.schemas.run_folder import RunFolder
from evalbeam.transforms.agents.function import FunctionAgent
from evalbeam.transforms.calls.context import RunContext
from evalbeam.transforms.invoke import InvokeAgent
from evalbeam.transforms.journal import journal as journals
from evalbeam.transforms.journal.journal import Journal, read_journal
from evalbeam.transforms.runtime import coders  # noqa: F401  registers the coder of Batch


class MemoryFileSystem(FileSystem):
    """Object storage: put, list and get of whole objects."""

    objects: dict[str, bytes] = {}
    puts = refused = records = 0
    lock = threading.Lock()
    refuse_every = 0

    @classmethod
    def scheme(cls):
        return "mem"

    def join(self, basepath, *paths):
        return "/".join([basepath, *paths])

    def split(self, path):
        return path.rpartition("/")[::2]

    def has_dirs(self):
        return False

    def create(self, path, mime_type="", compression_type=""):
        outer = MemoryFileSystem

        class Upload(io.BytesIO):
            def __exit__(self, kind, *rest):
                outer.puts += 1
                if outer.refuse_every and outer.puts % outer.refuse_every == 0:
                    outer.refused += 1
                    raise BeamIOError("503")
                outer.objects[path] = self.getvalue()
                with outer.lock:
                    outer.records += self.getvalue().count(b"\n")

        return Upload()

    def open(self, path, mime_type="", compression_type=""):
        return io.BytesIO(self.objects[path])

    def match(self, patterns, limits=None):
        found = []
        for pattern in patterns:
            regex = re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
            names = sorted(n for n in self.objects if re.fullmatch(regex, n))
            found.append(MatchResult(pattern, [FileMetadata(n, len(self.objects[n])) for n in names]))
        return found

    def mkdirs(self, path):
        raise NotImplementedError

    def _list(self, path):
        raise NotImplementedError

    def copy(self, *names):
        raise NotImplementedError

    def rename(self, *names):
        raise NotImplementedError

    def exists(self, path):
        return path in self.objects

    def size(self, path):
        return len(self.objects[path])

    def last_updated(self, path):
        raise NotImplementedError

    def checksum(self, path):
        raise NotImplementedError

    def metadata(self, path):
        raise NotImplementedError

    def delete(self, paths):
        raise NotImplementedError


@pytest.fixture
def storage(monkeypatch):
    monkeypatch.setattr(MemoryFileSystem, "objects", {})
    monkeypatch.setattr(MemoryFileSystem, "puts", 0)
    monkeypatch.setattr(MemoryFileSystem, "records", 0)
    monkeypatch.setattr(MemoryFileSystem, "refused", 0)
    monkeypatch.setattr(MemoryFileSystem, "refuse_every", 0)
    return MemoryFileSystem


@pytest.fixture(params=["disk", "storage"])
def folder(request, tmp_path, storage):
    return str(tmp_path / "journal") if request.param == "disk" else "mem://bucket/journal"


CALLS = collections.Counter()
AT_RISK: list[int] = []


async def agent(prompt):
    """Counts its calls; one prompt in ten is refused for good, one in ten at every first call."""
    CALLS[prompt] += 1
    AT_RISK.append(CALLS.total() - MemoryFileSystem.records)
    count, number = CALLS[prompt], int(prompt)
    await asyncio.sleep(0)
    if number % 10 == 3:
        raise ValueError(f"never {number}")
    if number % 10 == 7 and sum(CALLS.values()) < 10_000:
        raise ConnectionError("down")
    return {"response": f"answer {count} to {prompt}", "latency_in_seconds": 0.25}


@pytest.fixture(autouse=True)
def _count_afresh():
    CALLS.clear()
    AT_RISK.clear()


def instances(numbers):
    return [Instance(f"{n % 256:02x}{'0' * 30}", {"prompt": str(n)}) for n in numbers]


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setitem(sys.modules, "test_journal_agent", sys.modules[__name__])


SEEN: list = []


def keep(batches):
    SEEN.extend(batches)


class OnlyJournal(RunFolder):
    """A folder in which nothing but one journal stands."""

    def agent_journal(self, fingerprint):
        return self.path


def answers(folder, rows, **options):
    """(prompt, trial, invocation) of all examples of a run, sorted."""
    SEEN.clear()
    module = sys.modules["test_journal_agent"]
    policy = options.pop("policy", CallPolicy(max_attempts=1, max_in_flight=8))
    flags = PipelineOptions(list(options.pop("flags", ())))
    context = RunContext(None if folder is None else OnlyJournal(folder), options.pop("fingerprint", ""))
    invoke = InvokeAgent(FunctionAgent("test_journal_agent:agent"), policy, context=context, **options)
    batches = [Batch(tuple(rows[i : i + 10]), i) for i in range(0, len(rows), 10)]
    with beam.Pipeline(runner=FnApiRunner(), options=flags) as p:
        made = p | beam.Create([0], reshuffle=False) | beam.FlatMap(lambda _: batches).with_output_types(Batch)
        _ = made | invoke | beam.Map(lambda b: __import__("test_journal_agent").keep([b]))
    found = [(e.instance.row["prompt"], e.trial, e.invocation) for b in module.SEEN for e in b.rows]
    return sorted(found, key=lambda f: (f[0], f[1], repr(f[2])))


def test_another_run_finds_what_is_settled_and_asks_again_for_the_rest(folder):
    rows = instances(range(100))
    first = answers(folder, rows, fingerprint="f1")
    assert dict.fromkeys(map(str, range(100)), 1) == CALLS
    CALLS["a later moment"] = 10_000
    second = answers(folder, rows, fingerprint="f1")
    asked = {prompt for prompt, count in CALLS.items() if count == 2}
    assert asked == {str(n) for n in range(100) if n % 10 == 7}
    for before, after in zip(first, second, strict=True):
        if before[0] in asked:
            assert (before[2].status, after[2].status) == ("failed", "ok")
        else:
            assert before == after


def test_a_replay_takes_all_over_and_calls_nobody(folder):
    rows = instances(range(100))
    first = answers(folder, rows)
    again = answers(None, instances(range(101)), replayed=folder)
    assert [found for found in again if found[0] != "100"] == first
    assert {found[2].status for found in again if found[0] == "100"} == {"not_called"}
    assert dict.fromkeys(map(str, range(100)), 1) == CALLS


def test_what_a_later_start_made_good_is_what_a_replay_finds(folder):
    for kind in ("timeout", "ok", "timeout"):
        journal = Journal(folder, "run")
        journal.add(Call("a", "x", "07"), Outcome("fine" if kind == "ok" else None, kind, attempts=1))
        journal.close()
    assert Journal(folder, None).find(Call("a", "x", "07")).kind == "ok"
    assert Journal(folder, "another").find(Call("a", "x", "07")).kind == "ok"


def test_another_fingerprint_finds_nothing(folder):
    answers(folder, instances(range(20)), fingerprint="f1")
    answers(folder, instances(range(20)), fingerprint="f2")
    assert set(CALLS.values()) == {2}


def test_a_replayed_bundle_makes_no_call(folder):
    answers(folder, instances(range(100)), flags=["--direct_runner_bundle_repeat=2"])
    assert dict.fromkeys(map(str, range(100)), 1) == CALLS


def test_trials_and_equal_rows_keep_their_own_answers(folder):
    equal = [Instance("00" * 16 + suffix, {"prompt": "1"}) for suffix in ("", "-1", "-2")]
    first = answers(folder, equal, trials=2)
    assert sorted(i.response for _, _, i in first) == [f"answer {n} to 1" for n in range(1, 7)]
    assert answers(folder, equal, trials=2) == first
    assert CALLS["1"] == 6
    assert len({(p, t, i.response) for p, t, i in answers(folder, equal, trials=3)}) == 9
    assert CALLS["1"] == 9


def test_a_corrected_reference_finds_its_answer_again(folder):
    answers(folder, instances(range(3)))
    corrected = [Instance(i.instance_id, {**i.row, "reference": "now right"}) for i in instances(range(3))]
    answers(folder, corrected)
    assert set(CALLS.values()) == {1}


def test_the_whole_journal_can_be_read(folder):
    answers(folder, instances(range(100)), fingerprint="f1")
    records = list(read_journal(folder))
    assert len({key for key, _, _ in records}) == len(records) == 100
    kinds = collections.Counter(outcome.kind for _, _, outcome in records)
    assert kinds == {"ok": 80, "permanent": 10, "transient": 10}


def test_object_storage_is_written_in_few_segments(storage):
    answers("mem://bucket/journal", instances([5] * 400 + [6] * 400))
    assert 2 <= len(storage.objects) <= 6


def test_results_do_not_wait_for_the_end_of_the_bundle(storage):
    now = [0.0]
    journal = Journal("mem://bucket/journal", "run", clock=lambda: now[0])
    journal.add(Call("a", "x", "07"), Outcome("1"))
    journal.flush_if_due()
    assert not storage.objects
    now[0] += journals.MAX_SECONDS
    journal.flush_if_due()
    assert [name.rpartition("/")[0] for name in storage.objects] == ["mem://bucket/journal/07"]
    for i in range(journals.MAX_BUFFERED):
        journal.add(Call(str(i), "x", "08"), Outcome("1"))
    journal.flush_if_due()
    assert len(storage.objects) == 2


def test_a_killed_process_loses_what_is_in_flight_and_one_flush_at_most(storage):
    answers("mem://bucket/journal", instances(range(4000)))
    assert len(AT_RISK) == 4000
    assert max(AT_RISK) <= 8 + journals.MAX_BUFFERED
    assert storage.records == 4000


def test_large_results_do_not_pile_up(storage):
    journal = Journal("mem://bucket/journal", "run", clock=lambda: 0.0)
    size = journals.MAX_BUFFERED_BYTES // 8
    for i in range(8):
        journal.flush_if_due()
        assert not storage.objects
        journal.add(Call(str(i), "x", "07"), Outcome("x" * size))
    journal.flush_if_due()
    assert len(storage.objects) == 1
    journal.add(Call("small", "x", "07"), Outcome("x"))
    journal.flush_if_due()
    assert len(storage.objects) == 1  # what was put no longer counts
    journal.close()
    assert len(list(read_journal("mem://bucket/journal"))) == 9


def test_storage_that_refuses_one_write_in_five(storage, monkeypatch):
    monkeypatch.setattr(journals, "MAX_BUFFERED", 4)
    storage.refuse_every = 5
    answers("mem://bucket/journal", instances(range(12)))
    assert storage.refused > 0
    assert len(list(read_journal("mem://bucket/journal"))) == 12


def test_storage_that_refuses_all_ends_the_run(storage):
    storage.refuse_every = 1
    waits = []
    journal = Journal("mem://bucket/journal", "run", sleep=waits.append)
    journal.add(Call("a", "x"), Outcome("1"))
    with pytest.raises(RunError, match="cannot write to the journal mem://bucket/journal: BeamIOError"):
        journal.flush()
    assert waits == [0.2, 0.4, 0.8, 1.6]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_full_disk_ends_the_run(tmp_path, monkeypatch):
    def full(journal, prefix):
        return journal._files.setdefault(prefix, open("/dev/full", "ab", buffering=0))

    monkeypatch.setattr(Journal, "_file", full)
    with pytest.raises(RunError, match=r"cannot write to the journal .*No space left on device"):
        answers(str(tmp_path), instances(range(20)))


def test_segments_of_many_prefixes_do_not_use_up_the_files(tmp_path):
    journal = Journal(str(tmp_path / "j"), "run")
    for i in range(512):
        journal.add(Call(str(i), "x", f"{i % 256:02x}"), Outcome(i))
    assert len(journal._files) <= 16
    journal.close()
    journal.add(Call("late", "x"), Outcome("late"))
    assert sorted(int(key) for key, _, _ in read_journal(str(tmp_path / "j"))) == list(range(512))


def test_a_segment_gets_its_final_name_once_nothing_more_comes(tmp_path):
    journal = Journal(str(tmp_path), "run")
    for i in range(40):
        journal.add(Call(str(i), "x", f"{i % 20:02x}"), Outcome(i))
    assert {path.suffix for path in tmp_path.glob("??/*")} == {".open"}
    journal.close()
    assert [len(paths) for paths in journals.list_segments(str(tmp_path)).values()] == [1] * 20
    assert {path.suffix for path in tmp_path.glob("??/*")} == {""}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_segment_whose_last_record_may_be_torn_stays_open(tmp_path):
    journal = Journal(str(tmp_path), "run")
    for prefix in ("00", "01"):
        journal.add(Call("a", "x", prefix), Outcome("1"))
    journal._files["01"].close()
    journal._files["01"] = open("/dev/full", "ab", buffering=0)  # noqa: SIM115
    with pytest.raises(RunError, match="No space left"):
        journal.add(Call("b", "x", "01"), Outcome("2"))
    journal.close()
    assert {path.parent.name: path.suffix for path in tmp_path.glob("??/*")} == {"00": "", "01": ".open"}


GROW = """
import sys
from evalbeam.schemas.calls import Call, Outcome
from evalbeam.transforms.journal.journal import Journal
journal = Journal(sys.argv[1], "live")
for line in sys.stdin:
    for i in range(int(line), int(line) + 20):
        journal.add(Call(f"{i}", None), Outcome(f"{i}" * (1 << 18)))
    print("added", flush=True)
journal.close()
print("closed", flush=True)
"""


def test_who_reads_what_another_run_appends_finds_whole_answers_and_no_damage(tmp_path):
    """A read while 20 records of up to 768 KiB are written may see a part of one; what is written is found."""
    folder, torn, written = str(tmp_path), [], 0
    command = [sys.executable, "-c", GROW, folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        words = queue.SimpleQueue()
        threading.Thread(target=lambda: [words.put(word.strip()) for word in writer.stdout], daemon=True).start()
        for written in range(20, 101, 20):
            print(written - 20, file=writer.stdin, flush=True)
            while words.empty():
                for key, _, outcome in read_journal(folder, torn.append):
                    assert outcome.value == key * (1 << 18)
            assert words.get(timeout=60) == "added"
            assert len(list(read_journal(folder, torn.append))) == written
        listed = journals.list_segments(folder)["00"]
        writer.stdin.close()
        assert words.get(timeout=60) == "closed"
    assert [path.endswith(".open") for path in listed] == [True]
    assert len(list(journals.read_records(*listed))) == written  # renamed since it was listed
    assert not any(t.damaged for t in torn)
    assert read_all(folder) == ([str(i) for i in range(written)], [])


def read_all(folder):
    torn = []
    return [key for key, _, _ in read_journal(folder, torn.append)], torn


CRASH = """
    import asyncio, os, signal, sys
    from pathlib import Path
    import apache_beam as beam
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from evalbeam.schemas.run_folder import RunFolder
    from evalbeam.transforms.calls.context import RunContext
    from evalbeam.schemas.batch import Batch
    from evalbeam.schemas.config.calls import CallPolicy
    from evalbeam.schemas.instance import Instance
    from evalbeam.transforms.runtime import coders
    from evalbeam.transforms.agents.function import FunctionAgent
    from evalbeam.transforms.invoke import InvokeAgent

    home, kill_at = Path(sys.argv[1]), int(sys.argv[2])
    log = os.open(home / "calls", os.O_APPEND | os.O_CREAT | os.O_WRONLY)

    async def agent(prompt):
        os.write(log, f"{prompt}\\n".encode())
        await asyncio.sleep(0.001 * (int(prompt) % 7))
        if kill_at and sum(1 for _ in open(home / "calls")) >= kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"response": f"to {prompt}", "latency_in_seconds": 0.5}

    def write(batch):
        with open(home / "table", "a") as out:
            for e in batch.rows:
                out.write(f"{e.instance.row['prompt']} {e.invocation}\\n")

    rows = [Instance(f"{n % 256:02x}" + "0" * 30, {"prompt": str(n)}) for n in range(600)]
    batches = [Batch(tuple(rows[i:i + 20])) for i in range(0, 600, 20)]
    p = beam.Pipeline(runner=FnApiRunner())
    made = p | beam.Create([0], reshuffle=False) | beam.FlatMap(lambda _: batches).with_output_types(Batch)
    invoke = InvokeAgent(FunctionAgent(agent), CallPolicy(max_in_flight=16), context=RunContext(RunFolder(str(home))))
    made | invoke | beam.Map(write)
    p.run()
"""


def test_after_a_kill_only_what_was_in_flight_is_asked_again(tmp_path):
    program = tmp_path / "crash.py"
    program.write_text(textwrap.dedent(CRASH))

    def start(home, kill_at):
        Path(home).mkdir(exist_ok=True)
        return subprocess.run([sys.executable, str(program), str(home), str(kill_at)], timeout=120).returncode

    assert start(tmp_path / "calm", 0) == 0
    assert start(tmp_path / "crashed", 300) == -signal.SIGKILL
    assert start(tmp_path / "crashed", 0) == 0
    calls = (tmp_path / "crashed" / "calls").read_text().split()
    assert set(calls) == set(map(str, range(600)))
    assert len(calls) - 600 <= 16
    calm, crashed = ((tmp_path / name / "table").read_text().splitlines() for name in ("calm", "crashed"))
    assert len(calm) == 600
    assert sorted(set(crashed)) == sorted(calm)
