"""The command: settings reach the configuration, every end has its code and one line, and starting costs little."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalbeam import EvaluationConfig, EvaluationResult
from evalbeam.pipelines.cli import main as cli
from evalbeam.pipelines.cli.commands.run import settings_of
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.config.files import load
from evalbeam.pipelines.config.settings import (
    assemble,
    make_reader,
    put,
    split,
)
from evalbeam.schemas.config.yaml_text import load_yaml
from evalbeam.schemas.errors import ConfigError

AGENT = """
import logging, os, signal

def ask(prompt):
    if prompt == "raise":
        raise ValueError("no such thing")
    logging.getLogger("my.agent").warning("asked\\nTraceback (most recent call last):")
    return "yes"

def interrupt(prompt):
    os.killpg(os.getpgid(0), getattr(signal, os.environ["SIGNAL_TO_SEND"]))  # as a terminal does
    return "yes"

def die(prompt):
    os._exit(5)

def breaks(row):
    raise KeyError("gone")
"""
CONFIG: dict[str, Any] = {
    "dataset": {"path": "rows.jsonl"},
    "agent": {"target": "cli_agent:ask"},
    "metrics": ["exact_match"],
    "output": {"path": "out"},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    rows = [{"prompt": p, "reference": "yes", "group": p[0]} for p in ("a", "b", "raise", "d")]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    Path("cli_agent.py").write_text(AGENT)
    Path("eval.yaml").write_text(yaml.safe_dump(CONFIG))
    return tmp_path


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process, and a process group, of its own; Ctrl-C reaches it wherever the tests run."""
    code = "import sys; from evalbeam.pipelines.cli.main import main; sys.exit(main())"
    given, env = [sys.executable, "-c", code, *arguments], {**os.environ, **environment}
    heeds = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # background jobs are born deaf to it
    return subprocess.run(
        given, capture_output=True, text=True, env=env, check=False, start_new_session=True, preexec_fn=heeds
    )


# ------------------------------------------------------------------------------------------------------ settings


def test_flags_are_settings(folder: Path) -> None:
    parser = cli.make_parser()
    given = [
        "run",
        "--dataset",
        "a.jsonl",
        "b.csv",
        "--agent",
        "m:f",
        "--metrics",
        "x, y,m:z",
        "--output",
        "o",
        "--overwrite",
    ]
    given += [
        "--trials",
        "3",
        "--slices",
        "a,b+c",
        "--limit",
        "5",
        "--sample",
        "0.5",
        "--format",
        "csv",
        "--set",
        "shards=4",
    ]
    args, rest = parser.parse_known_args(given)
    config = assemble(None, settings_of(args))
    assert rest == []
    assert config == EvaluationConfig.parse(
        {
            "dataset": {"path": ["a.jsonl", "b.csv"], "limit": 5, "sample": 0.5},
            "agent": {"target": "m:f"},
            "metrics": ["x", "y", "m:z"],
            "output": {"path": "o", "overwrite": True, "format": "csv"},
            "trials": 3,
            "slices": [["a"], ["b", "c"]],
            "shards": 4,
        }
    )


def test_settings_win_over_the_file_and_later_ones_over_earlier() -> None:
    read = make_reader("--set", "trials")
    config = assemble("eval.yaml", [read("7"), read("9"), make_reader("--set", "agent.timeout")("2.5")])
    assert (config.trials, config.agent.timeout, config.agent.target) == (9, 2.5, "cli_agent:ask")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("0.5", 0.5),
        ("true", True),
        ("null", None),
        ("'5'", "5"),
        ("[a, b]", ["a", "b"]),
        ("{a: 1}", {"a": 1}),
    ],
)
def test_values_are_yaml(text: str, value: Any) -> None:
    assert make_reader("--set", "k")(text) == ("--set", "k", value)


def test_keys_are_dotted() -> None:
    data: dict[str, Any] = {"metrics": ["a", {"metric": "b"}], "agent": None}
    put(data, "metrics.1.name", "x", "--set")
    put(data, "metrics.0", "c", "--set")
    put(data, "agent.timeout", 3, "--set")
    put(data, "output.path", "o", "--set")
    assert data == {"metrics": ["c", {"metric": "b", "name": "x"}], "agent": {"timeout": 3}, "output": {"path": "o"}}


def test_a_setting_leaves_what_only_stands_for_the_same_by_an_alias() -> None:
    data = load_yaml(
        "judges: {a: &j {model: m, request: {seed: 1}}, b: *j}\nmetrics: [&f {metric: x}, *f]", "eval.yaml"
    )
    put(data, "judges.a.request.seed", 2, "--set")
    put(data, "metrics.0.name", "n", "--set")
    assert data["judges"] == {"a": {"model": "m", "request": {"seed": 2}}, "b": {"model": "m", "request": {"seed": 1}}}
    assert data["metrics"] == [{"metric": "x", "name": "n"}, {"metric": "x"}]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("metrics.2", "--set: metrics is a list without index '2' (allowed: 0 to 1)"),
        ("metrics.x.name", "--set: metrics is a list without index 'x' (allowed: 0 to 1)"),
        ("trials.x", "--set: trials is 3, which has no keys"),
        ("a..b", "--set: found the key 'a..b' (allowed: names separated by dots)"),
    ],
)
def test_keys_that_lead_nowhere(key: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        put({"metrics": ["a", "b"], "trials": 3}, key, 1, "--set")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("rest", "source", "flags"),
    [
        ([], None, []),
        (["e.yaml"], "e.yaml", []),
        (["e.yaml", "--runner=X", "--job_name", "y"], "e.yaml", ["--runner=X", "--job_name", "y"]),
        (["--runner", "X", "e.yaml"], "e.yaml", ["--runner", "X"]),
        (["--runner=X", "e.yaml"], "e.yaml", ["--runner=X"]),
    ],
)
def test_the_file_is_told_from_options_of_beam(rest: list[str], source: str | None, flags: list[str]) -> None:
    assert split(rest) == (source, flags)


def test_our_flags_are_none_of_beams() -> None:
    from apache_beam.options.pipeline_options import PipelineOptions

    beams = {f"--{name}" for name in PipelineOptions([]).get_all_options()}
    actions = [a for sub in cli.make_parser()._subparsers._group_actions[0].choices.values() for a in sub._actions]  # type: ignore[union-attr,attr-defined]
    ours = {flag for action in actions for flag in action.option_strings}
    assert "--dataset" in ours
    assert not ours & beams


def test_json_with_tabs_and_a_byte_order_mark_are_read() -> None:
    Path("eval.json").write_text("\ufeff" + json.dumps(CONFIG, indent="\t"), encoding="utf-8")
    assert load("eval.json") == CONFIG


# ---------------------------------------------------------------------------------------------- ends and their codes


def test_a_run_and_its_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "eval.yaml", "--direct_num_workers=1", "--slices", "group"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("RUN FINISHED · 4 rows · 1 call failed · ")
    assert "exact_match" in out
    assert str(Path("out", "report.html")) in out
    assert Path("out/report.html").exists()
    assert "evalbeam: error" not in err
    assert main(["show", "out"]) == 0
    assert capsys.readouterr().out == out


def test_a_warning_of_the_agent_is_one_line_however_often_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "eval.yaml"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines.count("warning: my.agent: asked") == 1
    assert not [line for line in lines if "Traceback" in line]


@pytest.mark.parametrize(
    ("criteria", "code"),
    [
        ("{exact_match: 1}", 0),
        ("[{metric: failure, max: 0.1}]", 1),
        ("[{metric: exact_match, min: 0, slice: {group: z}}]", 1),
    ],
)
def test_the_verdict_is_the_exit_code(criteria: str, code: int) -> None:
    assert main(["run", "eval.yaml", "--set", f"criteria={criteria}", "--slices", "group"]) == code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "nothing to evaluate (allowed: evalbeam run eval.yaml, or --dataset and --metrics; `evalbeam init`"),
        (
            ["run", "--config", "eval.yaml"],
            "unknown option '--config' (allowed: the file without it, such as evalbeam run",
        ),
        (["run", "--datset", "rows.jsonl"], "unknown option '--datset' (allowed: options of evalbeam run, and Beam's"),
        (["run", "none.yaml"], "none.yaml: no such file"),
        (["run", "."], ".: is a folder (allowed: a YAML or JSON file)"),
        (["run", "eval.yaml", "other.yaml"], "unexpected argument 'other.yaml' (allowed: one configuration file, then"),
        (
            ["run", "eval.yaml", "--trails=3"],
            "unknown option '--trails=3' (allowed: options of evalbeam run, and Beam's",
        ),
        (["run", "eval.yaml", "--runner=Spark"], "--runner: found 'Spark' (allowed: DirectRunner, "),
        (
            ["run", "eval.yaml", "--set", "trials"],
            "--set: found 'trials' (allowed: KEY=VALUE, such as dataset.limit=100)",
        ),
        (["run", "eval.yaml", "--set", "trials=[1"], "--set trials, line 1, column 3: not valid YAML: "),
        (["run", "eval.yaml", "--trials", "0"], "eval.yaml: trials: found 0 (allowed: greater than or equal to 1)"),
        (
            ["run", "eval.yaml", "--limit", "x"],
            "eval.yaml: dataset.limit: found 'x' (allowed: a whole",
        ),
        (["run", "eval.yaml", "--trials"], "argument --trials: expected one argument (see evalbeam run --help)"),
        (
            ["run", "eval.yaml", "--set", "agent.timout=3"],
            "agent.timout: unknown key 'timout'; did you mean 'timeout'?",
        ),
        (
            ["run", "eval.yaml", "--agent", "cli_agent:asks"],
            "agent.target: 'cli_agent' has no 'asks'; did you mean 'ask'",
        ),
        (["metrics", "exact_mach"], "no metric named 'exact_mach'; did you mean 'exact_match', "),
        (["metrics", "exact_match", "more"], "unknown argument 'more' (allowed: see --help)"),
        (["show", "nowhere"], "output: no finished run at 'nowhere' (no manifest.json)"),
        (["run", "eval.yaml", "--output", "rows.jsonl"], "output.path: nothing can be written to 'rows.jsonl': "),
        (["run", "eval.yaml", "--output", "/proc/out"], "output.path: nothing can be written to '/proc/out': "),
        (["check", "eval.yaml", "--output", "x" * 300], f"output.path: nothing can be written to '{'x' * 300}': "),
        *(
            (["run", "eval.yaml", "--output", path], f"eval.yaml: output.path: found {path!r} (allowed: {allowed}")
            for path, allowed in (
                ("none://a/b", "a local folder, or gs://bucket/folder)"),
                ("gs:///a", "a local folder, or gs://bucket/folder)"),
                ("gs://a/b*", "a folder of object storage without "),
                ("", "the path of a folder)"),
                ("~/out", "the home folder written out, as in ${HOME}"),
            )
        ),
        (["show", "app"], "app/manifest.json: is not the manifest of a run (allowed: another folder)"),
        (["run", "twice.yaml"], "twice.yaml, line 2, column 1: not valid YAML: duplicate key 'metrics'"),
        (["run", "twice.json"], "twice.json: not valid JSON: duplicate key 'metrics'"),
        (
            ["run", "--set", "datset.path=a", "--metrics", "bleu"],
            "command line: datset: unknown key 'datset'; did you mean 'dataset'",
        ),
        (["run", "eval.yaml", "--trials", "on"], "eval.yaml: trials: found True (allowed: a number)"),
        (
            ["run", "eval.yaml", "--set", "agent.max_in_flight=yes"],
            "eval.yaml: agent.max_in_flight: found True (allowed: a number)",
        ),
        (
            ["run", "eval.yaml", "--set", "criteria.exact_match=yes"],
            "eval.yaml: criteria.0.min: found True (allo",
        ),
        (
            ["run", "eval.yaml", "--set", "judges={unasked: {type: openai, model: x, api_key: s3cret}}"],
            "judges.unasked.api_key: a secret is written out (allowed: ${env:NAME}, ",
        ),
        (
            ["run", "eval.yaml", "--set", "judges.default.api_key=123"],
            "judges.default.api_key: a secret is written",
        ),
        (["fly"], "argument COMMAND: invalid choice: 'fly' (choose from "),
    ],
)
def test_what_cannot_be_used_is_said(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("twice.yaml").write_text("metrics: [bleu]\nmetrics: [exact_match]")
    Path("twice.json").write_text('{"metrics": ["bleu"], "metrics": ["exact_match"]}')
    Path("app").mkdir()
    Path("app/manifest.json").write_text('{"name": "an app of somebody"}')
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("evalbeam: error: " + message)
    assert err.count("\n") == 1


def test_all_mistakes_of_a_configuration_are_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    Path("wrong.yaml").write_text("datset: {path: x}\ntrials: none\nbudget: {max_cals: 3}\nmetrics: []\n")
    assert main(["check", "wrong.yaml"]) == 2
    prefix, *lines = capsys.readouterr().err.replace("evalbeam: error: wrong.yaml: ", "\0").split("\0")
    assert prefix == ""
    assert sorted(line.strip() for line in lines) == [
        "budget.max_cals: unknown key 'max_cals'; did you mean 'max_calls'?",
        "datset: unknown key 'datset'; did you mean 'dataset' or 'gate'?",
        "metrics: found [] (allowed: at least one)",
        "trials: found 'none' (allowed: a whole number)",
    ]
    assert main(["check", "eval.yaml", "--metrics", "exact_mach,rouge_l,blue,qqqqq"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("; ")[0].split(" (")[0] for line in lines] == [
        f"evalbeam: error: metrics.{i}: no metric named {name!r}"
        for i, name in ((0, "exact_mach"), (2, "blue"), (3, "qqqqq"))
    ]


def test_a_finished_run_is_not_overwritten_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "eval.yaml"]) == 0
    before = Path("out/manifest.json").read_bytes()
    assert main(["run", "eval.yaml"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert Path("out/manifest.json").read_bytes() == before
    assert main(["run", "eval.yaml", "--overwrite"]) == 0
    assert Path("out/manifest.json").read_bytes() != before


def test_files_of_others_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("manifest.json").write_text('{"name": "an app of somebody"}')
    assert main(["run", "eval.yaml", "--output", ".", "--overwrite"]) == 2
    assert "./manifest.json: is not the manifest of a run (allowed: another folder)" in capsys.readouterr().err
    Path("manifest.json").write_text("{")
    assert main(["run", "eval.yaml", "--output", "."]) == 2
    assert "./manifest.json: not valid JSON: " in capsys.readouterr().err
    assert Path("manifest.json").read_text() == "{"


def test_a_run_that_refuses_to_start_calling(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rows.jsonl").write_text('{"prompt": "a"}\nnonsense\n')
    assert main(["run", "eval.yaml"]) == 3
    out, err = capsys.readouterr()
    assert out.startswith("RUN FAILED · 1 row · 1 unusable")
    assert "errors.parquet" in out
    assert err.splitlines()[-1].startswith("evalbeam: error: the run failed: ")
    assert EvaluationResult.load("out").errors_table["line"].tolist() == [2]


def test_a_metric_that_raises_is_data_and_the_run_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "eval.yaml", "--metrics", "exact_match,cli_agent:breaks"]) == 3
    out, err = capsys.readouterr()
    assert "KeyError 3, agent_failed 1: cli_agent:breaks" in out
    said = "evalbeam: error: the run finished, but no row was scored by cli_agent:breaks (3 errors, 1 skipped)"
    assert err.splitlines()[-1].startswith(said)
    assert main(["show", "out"]) == 0
    assert main(["wait", "out"]) == 3


def test_an_unforeseen_exception_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("first\nsecond \x1b[31m")

    monkeypatch.setattr("evalbeam.pipelines.run.build.make_plan", broken)
    assert main(["run", "eval.yaml"]) == 3
    err = capsys.readouterr().err
    assert err == "evalbeam: error: internal error: RuntimeError: first second �[31m (use --debug for the traceback)\n"
    assert main(["run", "--debug", "eval.yaml"]) == 3
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("EVALBEAM_DEBUG", "1")
    assert main(["run", "eval.yaml"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_code_that_ends_the_program(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("cli_exits.py").write_text("import sys\nsys.exit(0)\n")
    assert main(["run", "eval.yaml", "--agent", "cli_exits:ask"]) == 2
    assert "agent.target: importing 'cli_exits' failed: SystemExit: 0" in capsys.readouterr().err
    monkeypatch.setattr("evalbeam.pipelines.run.build.make_plan", lambda *_, **__: sys.exit(0))
    assert main(["run", "eval.yaml"]) == 3
    assert "called sys.exit (exit code 0)" in capsys.readouterr().err


_PROCESSES = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")


@pytest.mark.parametrize(
    ("name", "words", "options"),
    [("SIGINT", "Ctrl-C", ()), ("SIGTERM", "SIGTERM", ()), ("SIGINT", "Ctrl-C", _PROCESSES)],
)
def test_a_run_that_is_stopped(name: str, words: str, options: tuple[str, ...]) -> None:
    ended = command("run", "eval.yaml", "--agent", "cli_agent:interrupt", *options, SIGNAL_TO_SEND=name)
    assert ended.returncode == 3
    assert ended.stderr.splitlines()[-1].startswith(f"evalbeam: error: stopped by {words}")
    assert "Traceback" not in ended.stderr
    assert not Path("out/manifest.json").exists()


def test_a_worker_process_that_dies() -> None:
    ended = command("run", "eval.yaml", "--agent", "cli_agent:die", *_PROCESSES)
    assert ended.returncode == 3
    assert ended.stderr.splitlines()[-1].startswith("evalbeam: error: ")
    assert "Traceback" not in ended.stderr
    assert not Path("out/manifest.json").exists()


def test_a_reader_that_has_gone_away_is_no_error() -> None:
    code = "import sys; from evalbeam.pipelines.cli.main import main; sys.exit(main(['metrics']))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0
    process.stderr.close()


# ------------------------------------------------------------------------------------------------ small commands


def test_metrics_are_listed_with_what_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    from evalbeam.transforms import registry

    assert main(["metrics"]) == 0
    out = capsys.readouterr().out
    listed = {name.strip(",") for line in out.splitlines() for name in line.split("  ")[0].split()}
    assert set(registry.names("metric")) <= listed
    assert "predicted_trajectory, reference_trajectory 0 or 1" in " ".join(out.split())
    assert main(["metrics", "trajectory_precision"]) == 0
    out = capsys.readouterr().out
    assert "args: " in out
    assert "one_to_one" in out
    assert "default 'membership'" in out


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["check", "-h"], ["init", "-h"], ["--version"]])
def test_help_is_no_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert "evalbeam" in capsys.readouterr().out


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "first steps" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["run", "--help"], {"apache_beam", "pandas", "pyarrow", "pydantic", "numpy", "yaml", "orjson", "asyncio"}),
        (["metrics"], {"apache_beam", "pandas"}),
    ],
)
def test_help_imports_nothing_heavy(arguments: list[str], heavy: set[str]) -> None:
    code = "import sys; from evalbeam.pipelines.cli.main import main; main(sys.argv[1:]); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True).stdout
    modules = out.splitlines()[-1].split()
    assert "argparse" in modules
    assert not heavy & set(modules)


def test_the_program_ends_with_its_code_whatever_is_left_behind(folder: Path) -> None:
    """Handlers of the process's end run, nothing after them does, and what was written is there."""
    code = textwrap.dedent(
        """
        import atexit, sys, threading
        from evalbeam.pipelines.cli import main as cli

        class Spoiler:
            def __del__(self):
                print("taken apart", flush=True)

        def main():
            atexit.register(print, "a handler")
            cli.spoiler = Spoiler()
            sys.stdout.write("no newline; ")
            return 7

        cli.main = main
        cli.command()
        """
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (7, "no newline; a handler\n")


@pytest.mark.parametrize(("arguments", "code"), [(["metrics"], 0), (["check", "no.yaml"], 2)])
def test_the_package_is_a_program_too(arguments: list[str], code: int) -> None:
    ended = subprocess.run([sys.executable, "-m", "evalbeam", *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == code
    assert ("exact_match" in ended.stdout, ended.stderr) == (
        code == 0,
        "evalbeam: error: no.yaml: no such file\n" * bool(code),
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["compare", "a", "b", "--confidence", "x"], "--confidence: found 'x' (allowed: a number between 0 and 1)"),
        (["wait", "a", "--timeout", "x"], "--timeout: found 'x' (allowed: seconds, 0 or more)"),
        (["run", "--set", "x"], "--set: found 'x' (allowed: KEY=VALUE, such as dataset.limit=100)"),
        (["run", "--limit", "{a: {"], "--limit, line 1, column"),
    ],
)
def test_argparse_leaves_the_message_of_an_option_as_it_is(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """argparse replaces the text of a ValueError, and a ConfigError is one."""
    assert main(given) == 2
    assert said in capsys.readouterr().err
