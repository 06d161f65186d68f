"""The manifests in ``examples/kubernetes``: whether an engine takes them, and whether the ranks of their pods meet."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from distributed.kubernetes import SCHEMAS, Pod, definitions, pods, problems
from distributed.processes import free_port, run

FOLDER = Path(__file__).parents[2] / "examples/kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_engine_takes_it(path: Path) -> None:
    for document in documents(path):
        assert list(problems(document, SCHEMAS[document["kind"]])) == []


@pytest.mark.skipif("ONEFLOW_CRDS" not in os.environ, reason="needs ONEFLOW_CRDS, a folder of resource definitions")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_definitions_of_an_engine_take_it(path: Path) -> None:
    known = definitions(Path(os.environ["ONEFLOW_CRDS"]))
    of_job = known["JobSet"]["properties"]["spec"]["properties"]["replicatedJobs"]["items"]["properties"]["template"]
    known.setdefault("Job", {"type": "object", "properties": {**of_job["properties"], "apiVersion": {}, "kind": {}}})
    for document in documents(path):
        if document["kind"] in known:
            assert list(problems(document, known[document["kind"]])) == []
        else:
            # The pods' template is the same in all of them.
            pod = of_job["properties"]["spec"]["properties"]["template"]
            for replica in document["spec"].get("pytorchReplicaSpecs", {}).values():
                assert list(problems(replica["template"], pod)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_ranks_of_its_pods_meet(path: Path) -> None:
    made = pods(documents(path))
    assert len(made) == 4
    port = free_port()

    def on_this_host(pod: Pod) -> dict[str, object]:
        # Who is rank 0 is found by the name of its pod: it must be the name that the manifest says.
        assert pod["MASTER_ADDR"] == made[0].name
        # Pods have an address each, and the same port.
        return {**pod, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}

    body = (
        "x = flow.full((2,), dist.get_rank() + 1.0)\n"
        "dist.all_reduce(x)\n"
        "print(dist.get_rank(), dist.get_world_size(), x.tolist())\n"
    )
    results = run(body, [on_this_host(pod) for pod in made])
    assert [said.split() for said, _ in results] == [[str(rank), "4", "[10.0,", "10.0]"] for rank in range(4)], results


@pytest.mark.parametrize(
    ("file", "place", "value", "words"),
    [
        ("jobset", ("spec", "replicatedJobs", 0, "replicas"), "1", "replicas: expected integer, got '1'"),
        ("jobset", ("spec", "network", "subDomain"), "train", "subDomain: unknown field"),
        ("jobset", ("apiVersion",), "jobset.x-k8s.io/v1", "apiVersion"),
        ("pytorchjob", ("spec", "pytorchReplicaSpecs", "Master", "template"), {}, "template.spec: missing"),
        ("pytorchjob", ("spec", "pytorchReplicaSpecs", "Worker", "replicas"), 0, "0 is below 1"),
        ("pytorchjob", ("metadata", "name"), "Train", "'Train' does not match"),
        ("indexed_job", ("spec", "template", "spec", "containers"), [], "at least 1 items"),
        ("indexed_job", ("spec", "completionMode"), "indexed", "is none of"),
    ],
)
def test_mistakes_are_found(file: str, place: tuple[Any, ...], value: Any, words: str) -> None:
    document = copy.deepcopy(documents(FOLDER / f"{file}.yaml")[-1])
    at: Any = document
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    found = list(problems(document, SCHEMAS[document["kind"]]))
    assert any(words in text for text in found), found
