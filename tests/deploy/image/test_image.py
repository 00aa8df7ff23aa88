"""The image for Dataflow, built as its Dockerfile says, then started as a real worker that Prism sends its work to.

Nothing is pulled: a Debian root with Beam's boot program stands for Beam's image. The launcher of flex templates is
published in an image only, so a file that does nothing lies in its place: where it goes is tested, not what it does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.deploy

BASE = """\
FROM scratch
ADD root.tar /
COPY boot /opt/apache/beam/boot
RUN rm /usr/lib/python3.11/EXTERNALLY-MANAGED
"""
LAUNCHER = """\
FROM scratch
COPY stand_in /opt/google/dataflow/python_template_launcher
"""
AGENT_IMAGE = """\
FROM localhost/evalbeam
COPY . /agent
RUN python3 -m pip install --no-index --find-links /wheels /agent && rm -r /agent
"""
PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "house-agent"
version = "1.0"

[tool.setuptools]
packages = ["house_agent"]
"""
AGENT = """\
import asyncio, hashlib, os


async def ask(prompt):
    with open("/evals/calls", "a") as log:
        log.write(f"{os.environ.get('WORKER_ID', '-')} {prompt}\\n")
    number = int(hashlib.sha256(prompt.encode()).hexdigest()[:4], 16)
    await asyncio.sleep(0.001)
    if number % 17 == 0:
        raise ValueError("no such thing")
    call = {"tool_name": f"t{number % 3}", "tool_input": {"x": number % 2}}
    return {"response": prompt.upper(), "predicted_trajectory": [call], "latency_in_seconds": number / 1024}
"""
POOL = """\
/opt/apache/beam/boot --worker_pool >/evals/pool.log 2>&1 &
for _ in $(seq 600); do (: </dev/tcp/127.0.0.1/50000) 2>/dev/null && break; sleep 0.1; done
exec evalbeam run /evals/eval.yaml --output /evals/prism --runner=PrismRunner --prism_location=/evals/prism_engine \\
    --environment_type=EXTERNAL --environment_config=localhost:50000 --time_limit=200
"""
ROWS = 200


@dataclass
class Images:
    """Images in a store of their own, built and run without a network but for a loopback of theirs alone.

    Attributes:
        made: Folder of what the install script made.
        store: Folder of the store.
    """

    made: Path
    store: Path

    def build(self, name: str, context: Path, *options: str, file: Path | None = None) -> None:
        """Builds an image; the folder of wheels is at /wheels meanwhile."""
        own = [
            "--isolation",
            "chroot",
            "--layers=false",
            "--pull-never",
            "--volume",
            f"{self.made / 'wheels'}:/wheels:ro",
        ]
        self._buildah(
            "bud", *own, *options, "-f", str(file or context / "Dockerfile"), "-t", f"localhost/{name}", str(context)
        )

    def start(self, image: str) -> str:
        """Makes a container; returns its name."""
        return self._buildah("from", "--pull-never", f"localhost/{image}").strip()

    def run(self, container: str, script: str, *volumes: str) -> str:
        """What a shell script prints; all that it started has ended with it."""
        mounts = [word for volume in volumes for word in ("--volume", volume)]
        return self._buildah("run", "--isolation", "chroot", *mounts, container, "--", "bash", "-ec", script)

    def config(self, image: str) -> dict[str, Any]:
        """How an image is started."""
        return json.loads(self._buildah("inspect", "--type", "image", f"localhost/{image}"))["OCIv1"]["config"]

    def _buildah(self, *arguments: str) -> str:
        apart = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        buildah = ["buildah", "--root", f"{self.store}/root", "--runroot", f"{self.store}/run"]
        command = [*apart, "bash", "-c", 'ip link set lo up && exec "$@"', "-", *buildah, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def installed() -> Path:
    folder = Path(os.environ.get("EVALBEAM_ENGINES", "~/.cache/evalbeam")).expanduser()
    if not (folder / "image" / "wheels" / "made").exists() or not (folder / "prism" / "version").exists():
        pytest.skip("what images are built from, or Prism, is not installed (make test-deploy installs it, as root)")
    return folder


@pytest.fixture(scope="module")
def images(installed: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    """The image, and one with an agent that starts from it."""
    images = Images(installed / "image", tmp_path_factory.mktemp("store"))
    context = tmp_path_factory.mktemp("context")
    (context / "stand_in").touch(0o755)
    for name, text, folder in (("base", BASE, images.made), ("launcher", LAUNCHER, context)):
        (context / name).write_text(text)
        images.build(name, folder, file=context / name)
    arguments = ["BASE=localhost/base", "LAUNCHER=localhost/launcher", "PIP_OPTIONS=--no-index --find-links /wheels"]
    options = [word for argument in arguments for word in ("--build-arg", argument)]
    images.build("evalbeam", root, *options, file=root / "deploy" / "dataflow" / "Dockerfile")
    agent = tmp_path_factory.mktemp("agent")
    (agent / "house_agent").mkdir()
    (agent / "house_agent" / "__init__.py").write_text(AGENT)
    (agent / "pyproject.toml").write_text(PROJECT)
    (agent / "Dockerfile").write_text(AGENT_IMAGE)
    images.build("agent", agent)
    yield images
    shutil.rmtree(images.store)


@pytest.fixture(scope="module")
def container(images: Images) -> str:
    """One with the agent."""
    return images.start("agent")


def test_it_starts_as_a_worker_and_holds_the_launcher(images: Images, container: str) -> None:
    config = images.config("agent")
    environment = dict(word.split("=", 1) for word in config["Env"])
    assert config["Entrypoint"] == ["/opt/apache/beam/boot"]
    main = environment["FLEX_TEMPLATE_PYTHON_PY_FILE"]
    script = (
        f"test -x /opt/google/dataflow/python_template_launcher; python3 {main} --run_date=2026-11-21 2>&1 || echo $?"
    )
    assert images.run(container, script).split("\n")[-3:-1] == [
        "evalbeam: error: --config: missing (allowed: a YAML or JSON file on gs://)",
        "2",
    ]


def test_it_holds_the_package_and_nothing_else_of_the_checkout(images: Images, container: str) -> None:
    found = images.run(container, "cd /opt/evalbeam && ls -A").split()
    assert {"pyproject.toml", "README.md", "LICENSE", "deploy"} <= set(found)
    assert not {".git", ".venv", ".cache", "tests", "evalbeam-out"} & set(found)
    location = images.run(container, "python3 -c 'import evalbeam; print(evalbeam.__file__)' && pip check")
    assert "-packages/evalbeam/__init__.py" in location


def test_its_workers_make_the_tables_that_the_local_engine_makes(
    images: Images, container: str, installed: Path, tmp_path: Path
) -> None:
    config = {
        "dataset": {"path": "/evals/rows.jsonl"},
        "agent": {"target": "house_agent:ask", "max_in_flight": 16, "backoff": 0.01},
        "metrics": ["trajectory_exact_match", "trajectory_precision", "exact_match", "rouge_l_sum"],
        "slices": [["locale"]],
    }
    (tmp_path / "eval.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(_row(i)) + "\n" for i in range(ROWS)) + "no json\n")
    shutil.copy(installed / "prism" / "prism", tmp_path / "prism_engine")
    images.run(container, "evalbeam run /evals/eval.yaml --output /evals/local", f"{tmp_path}:/evals")
    local = _calls(tmp_path)
    images.run(container, POOL, f"{tmp_path}:/evals")
    assert _tables(tmp_path / "prism") == _tables(tmp_path / "local")
    calls = _calls(tmp_path)
    assert sorted(prompt for _, prompt in calls) == sorted(prompt for _, prompt in local)
    (worker,) = {worker for worker, _ in calls}
    assert worker.startswith("job-")  # Beam's boot program started it


def _row(i: int) -> dict[str, Any]:
    call = {"tool_name": "t1", "tool_input": {"x": i % 2}}
    return {"prompt": f"p{i}", "reference": f"P{i}", "locale": ["en", "de"][i % 2], "reference_trajectory": [call]}


def _calls(folder: Path) -> list[list[str]]:
    """[worker, prompt] of each call; forgets them."""
    log = folder / "calls"
    calls = [line.split() for line in log.read_text().splitlines()]
    log.unlink()
    return calls


def _tables(folder: Path) -> dict[str, bytes]:
    names = [*sorted((folder / "instances").iterdir()), folder / "summary.parquet", folder / "errors.parquet"]
    return {str(name.relative_to(folder)): name.read_bytes() for name in names}
