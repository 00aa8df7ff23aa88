"""The manifests in the eyes of kubeconform: built-in kinds by Kubernetes' own schemas, the operator's by its CRD."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.deploy

VERSION = "v1.34.0"


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where kubeconform finds schemas of built-in kinds: those of kubernetes-validate, each made whole in itself.

    As they come they name a file of definitions by an address on the network.
    """
    folder = tmp_path_factory.mktemp("schemas")
    known = files("kubernetes_validate") / "kubernetes-json-schema" / f"{VERSION}-local-strict"
    definitions = json.loads((known / "_definitions.json").read_text())["$defs"]
    for name in ("configmap-v1", "service-v1", "deployment-apps-v1", "job-batch-v1", "cronjob-batch-v1"):
        _write(known, folder, name, definitions)
    for name in ("networkpolicy-networking-v1", "serviceaccount-v1"):
        _write(known, folder, name, definitions)
    return f"{folder}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"


def _write(known: Any, folder: Path, name: str, definitions: dict[str, Any]) -> None:
    text = (known / f"{name}.json").read_text().replace("/api/_definitions.json#", "#")
    schema = {k: v for k, v in json.loads(text).items() if k not in ("$id", "$schema")}
    (folder / f"{name}.json").write_text(json.dumps({**schema, "$defs": definitions}))


@pytest.fixture
def check(schemas: str, conformance: Path) -> Callable[..., dict[str, Any]]:
    """Name of each manifest to what kubeconform holds against it, `None` where it is valid."""
    program = Path(os.environ.get("EVALBEAM_ENGINES", "~/.cache/evalbeam")).expanduser() / "kubeconform" / "kubeconform"
    if not program.exists():
        pytest.skip("kubeconform is not installed (make test-deploy installs it)")
    operator = f"{conformance}/k8s/{{{{ .ResourceKind }}}}_{{{{ .ResourceAPIVersion }}}}.json"

    def check(path: str, text: str | None = None) -> dict[str, Any]:
        command = [program, "-strict", "-verbose", "-output=json", "-schema-location", schemas]
        command += ["-schema-location", operator, path]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
        found = json.loads(done.stdout)["resources"]
        assert done.returncode == (any(r["status"] != "statusValid" for r in found)), done.stderr
        return {f"{r['kind']}/{r['name']}": r.get("msg") if r["status"] != "statusValid" else None for r in found}

    return check


def test_every_manifest_is_valid(check: Callable[..., dict[str, Any]], root: Path) -> None:
    found = check(str(root / "deploy" / "flink" / "kubernetes"))
    assert found == dict.fromkeys(found)
    assert {name.partition("/")[0] for name in found} == {
        "ConfigMap",
        "CronJob",
        "Deployment",
        "FlinkDeployment",
        "Job",
        "NetworkPolicy",
        "Service",
        "ServiceAccount",
    }


@pytest.mark.parametrize(
    ("file", "field", "misspelt"),
    [
        ("job.yaml", "backoffLimit", "backofLimit"),
        ("cronjob.yaml", "concurrencyPolicy", "concurencyPolicy"),
        ("network-policy.yaml", "podSelector", "podSelektor"),
        ("standalone.yaml", "readinessProbe", "readynessProbe"),
        ("flink-deployment.yaml", "flinkConfiguration", "flinkConfig"),
    ],
)
def test_a_misspelt_field_is_not(
    check: Callable[..., dict[str, Any]], root: Path, file: str, field: str, misspelt: str
) -> None:
    text = (root / "deploy" / "flink" / "kubernetes" / file).read_text()
    assert f"{field}:" in text
    found = check("-", text.replace(f"{field}:", f"{misspelt}:"))
    assert [word for word in found.values() if word is not None and misspelt in word]
