"""The manifests fit the schemas of Kubernetes and of the Flink operator, each other, and the cluster we test with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

VERSIONS = ("1.31.0", "1.34.0")
KINDS = [
    "ConfigMap",
    "CronJob",
    "Deployment",
    "Deployment",
    "Job",
    "NetworkPolicy",
    "NetworkPolicy",
    "Service",
    "Service",
    "ServiceAccount",
]


@pytest.fixture
def folder(root: Path) -> Path:
    return root / "deploy" / "flink"


def manifests(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((folder / "kubernetes").glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


@pytest.mark.parametrize("version", VERSIONS)
def test_built_in_kinds_fit_their_schemas(folder: Path, version: str) -> None:
    kinds = []
    for manifest in manifests(folder):
        if manifest["kind"] != "FlinkDeployment":
            kubernetes_validate.validate(manifest, version, strict=True)
            kinds.append(manifest["kind"])
    assert sorted(kinds) == KINDS


def test_a_misspelt_field_does_not_fit(folder: Path) -> None:
    job = next(m for m in manifests(folder) if m["kind"] == "Job")
    job["spec"]["backofLimit"] = job["spec"].pop("backoffLimit")
    with pytest.raises(kubernetes_validate.ValidationError, match="backofLimit"):
        kubernetes_validate.validate(job, VERSIONS[-1], strict=True)


@pytest.fixture
def operator(conformance: Path) -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(json.loads((conformance / "k8s" / "flinkdeployment_v1beta1.json").read_text()))


def test_the_operator_takes_the_deployment(folder: Path, operator: jsonschema.Draft7Validator) -> None:
    deployment = next(m for m in manifests(folder) if m["kind"] == "FlinkDeployment")
    operator.validate(deployment)
    deployment["spec"]["taskManager"]["replicaz"] = 2
    assert ["replicaz" in e.message for e in operator.iter_errors(deployment)] == [True]
    deployment["spec"]["taskManager"].pop("replicaz")
    deployment["spec"]["flinkVersion"] = "v1_2"
    assert len(list(operator.iter_errors(deployment))) == 1


def test_both_clusters_are_set_up_like_ours(folder: Path) -> None:
    ours = {k: str(v).lower() for k, v in yaml.safe_load((folder / "config.yaml").read_text()).items()}
    found = {m["kind"]: m for m in manifests(folder)}
    plain = {k: str(v).lower() for k, v in yaml.safe_load(found["ConfigMap"]["data"]["config.yaml"]).items()}
    by_operator = found["FlinkDeployment"]["spec"]["flinkConfiguration"]
    assert ours.items() <= plain.items()
    sizes = {k for k in ours if k.endswith("memory.process.size")}  # the operator takes them from the resources
    assert {k: v for k, v in ours.items() if k not in sizes}.items() <= by_operator.items()


def test_names_meet(folder: Path) -> None:
    """What submits finds the service, the policies find the pods, and all run the same image."""
    found = list(manifests(folder))
    services = {m["metadata"]["name"] for m in found if m["kind"] == "Service"}
    assert {f"{m['metadata']['name']}-rest" for m in found if m["kind"] == "FlinkDeployment"} <= services
    pods = [m["spec"]["template"] for m in found if m["kind"] in ("Deployment", "Job")]
    pods += [m["spec"]["jobTemplate"]["spec"]["template"] for m in found if m["kind"] == "CronJob"]
    labels = [p["metadata"]["labels"] for p in pods]
    for policy in (m for m in found if m["kind"] == "NetworkPolicy"):
        wanted = policy["spec"]["podSelector"]["matchLabels"].items()
        assert any(wanted <= have.items() for have in labels)
    containers = [c for p in pods for c in p["spec"]["containers"]]
    assert {c["image"] for c in containers} == {"REGISTRY/evalbeam-flink:1"}
    assert all("limits" in c["resources"] for c in containers)
    submitting = [" ".join(c["args"]) for c in containers if c["name"] == "submit"]
    assert len(submitting) == 2
    jar = " /opt/evalbeam/job-server.jar\n"
    assert f"/jar/target/job-server.jar{jar}" in (folder / "Dockerfile").read_text()
    for words in submitting:
        assert f"--flink_job_server_jar={jar.strip()}" in words
        assert words.partition("--flink_master=http://")[2].partition(":")[0] in services


def test_every_pod_has_an_account_that_is_there(folder: Path) -> None:
    found = list(manifests(folder))
    accounts = {m["metadata"]["name"] for m in found if m["kind"] == "ServiceAccount"}
    pods = [m["spec"]["template"] for m in found if m["kind"] in ("Deployment", "Job")]
    pods += [m["spec"]["jobTemplate"]["spec"]["template"] for m in found if m["kind"] == "CronJob"]
    used = [p["spec"]["serviceAccountName"] for p in pods]
    used += [m["spec"]["serviceAccount"] for m in found if m["kind"] == "FlinkDeployment"]
    assert len(used) == 5
    assert set(used) == accounts


def test_a_pod_has_memory_for_the_worker_beside_flink(folder: Path) -> None:
    found = {m["metadata"]["name"]: m for m in manifests(folder) if m["kind"] in ("FlinkDeployment", "Deployment")}
    by_operator = found["evalbeam"]["spec"]
    factor = float(by_operator["flinkConfiguration"]["kubernetes.taskmanager.memory.limit-factor"])
    assert float(by_operator["taskManager"]["resource"]["memory"].removesuffix("g")) * (factor - 1) >= 1
    (container,) = found["evalbeam-taskmanager"]["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["memory"] == "3Gi"
