"""What the engines of Kubernetes demand of a manifest, and what its pods then see.

:func:`problems` checks a document against a schema of the kind that custom resources have (OpenAPI v3): types, required
and unknown fields, values of enumerations, bounds. The schemas below say what the manifests in ``examples/kubernetes``
use, in the words of their documentation; with the definitions themselves, ``ONEFLOW_CRDS=FOLDER`` checks against those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Schema = dict[str, Any]
_KINDS: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "number": (int, float),
}


def problems(value: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """What is wrong with a value, each with its place."""
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str) or isinstance(value, bool):
            yield f"{path}: expected a number or a string, got {value!r}"
        return
    kind = schema.get("type")
    if kind and (not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean")):
        yield f"{path}: expected {kind}, got {value!r}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if isinstance(value, str):
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{path}: {value!r} does not match {schema['pattern']}"
        if len(value) > schema.get("maxLength", len(value)):
            yield f"{path}: {value!r} is too long"
    if isinstance(value, int) and not isinstance(value, bool) and value < schema.get("minimum", value):
        yield f"{path}: {value} is below {schema['minimum']}"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{path}: at least {schema['minItems']} items are needed"
        for i, item in enumerate(value):
            yield from problems(item, schema.get("items", {}), f"{path}[{i}]")
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{path}.{name}: missing"
        for name, item in value.items():
            if name in known:
                yield from problems(item, known[name], f"{path}.{name}")
            elif isinstance(others, dict):
                yield from problems(item, others, f"{path}.{name}")
            elif known and not others and not schema.get("x-kubernetes-preserve-unknown-fields"):
                yield f"{path}.{name}: unknown field"


def _object(required: str = "", **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required.split()}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items, "minItems": 1}


# Names of services, pods and hosts.
_NAME: Schema = {"type": "string", "pattern": r"^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_ONE: Schema = {"type": "integer", "minimum": 1}
_FLAG: Schema = {"type": "boolean"}
_QUANTITY: Schema = {"x-kubernetes-int-or-string": True}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT}
_QUANTITIES: Schema = {"type": "object", "additionalProperties": _QUANTITY}


def _choice(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


_ENV = _object("name", name=_TEXT, value=_TEXT, valueFrom=_object(secretKeyRef=_object("key", name=_NAME, key=_TEXT)))
_CONTAINER = _object(
    "name",
    name=_NAME,
    image=_TEXT,
    command=_list(_TEXT),
    args=_list(_TEXT),
    env=_list(_ENV),
    resources=_object(limits=_QUANTITIES, requests=_QUANTITIES),
)


def _pod(*restart_policies: str) -> Schema:
    spec = _object(
        "containers", containers=_list(_CONTAINER), subdomain=_NAME, restartPolicy=_choice(*restart_policies)
    )
    return _object("spec", metadata=_object(labels=_TEXTS), spec=spec)


_JOB = _object(
    "template",
    completionMode=_choice("Indexed", "NonIndexed"),
    completions=_ONE,
    parallelism=_ONE,
    backoffLimit=_COUNT,
    template={**_pod("Never", "OnFailure"), "required": ["spec"]},
)
_REPLICAS = _object(
    "template",
    replicas=_ONE,
    restartPolicy=_choice("Always", "OnFailure", "Never", "ExitCode"),
    template=_pod("Never", "OnFailure", "Always"),
)


def _resource(version: str, kind: str, spec: Schema) -> Schema:
    return _object(
        "apiVersion kind metadata spec",
        apiVersion=_choice(version),
        kind=_choice(kind),
        metadata=_object("name", name=_NAME, labels=_TEXTS),
        spec=spec,
    )


SCHEMAS: dict[str, Schema] = {
    "Service": _resource(
        "v1",
        "Service",
        _object(
            "ports selector",
            clusterIP=_TEXT,
            publishNotReadyAddresses=_FLAG,
            selector=_TEXTS,
            ports=_list(_object("port", name=_NAME, port={"type": "integer", "minimum": 1})),
        ),
    ),
    "Job": _resource("batch/v1", "Job", _JOB),
    "JobSet": _resource(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        _object(
            "replicatedJobs",
            network=_object(enableDNSHostnames=_FLAG, subdomain=_NAME, publishNotReadyAddresses=_FLAG),
            failurePolicy=_object(maxRestarts=_COUNT),
            replicatedJobs=_list(
                _object("name template", name=_NAME, replicas=_COUNT, template=_object("spec", spec=_JOB))
            ),
        ),
    ),
    "PyTorchJob": _resource(
        "kubeflow.org/v1",
        "PyTorchJob",
        _object(
            "pytorchReplicaSpecs",
            runPolicy=_object(cleanPodPolicy=_choice("", "All", "Running", "None"), backoffLimit=_COUNT),
            nprocPerNode=_TEXT,
            pytorchReplicaSpecs=_object("Master", Master=_REPLICAS, Worker=_REPLICAS),
        ),
    ),
}


def definitions(folder: Path) -> dict[str, Schema]:
    """The schemas of the custom resource definitions in a folder, by kind."""
    found = {}
    for path in folder.glob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text()):
            if document and document.get("kind") == "CustomResourceDefinition":
                versions = document["spec"]["versions"]
                served = next(v for v in versions if v["storage"])
                found[document["spec"]["names"]["kind"]] = served["schema"]["openAPIV3Schema"]
    return found


class Pod(dict[str, str]):
    """The environment of a pod, and the name under which others reach it."""

    def __init__(self, name: str, environment: dict[str, str]) -> None:
        super().__init__(environment)
        self.name = name


def pods(documents: list[dict[str, Any]]) -> list[Pod]:
    """The pods that an engine makes of a manifest, as its documentation says; secrets are left out."""
    job = next(d for d in documents if d["kind"] != "Service")
    name, spec = job["metadata"]["name"], job["spec"]
    if job["kind"] == "PyTorchJob":
        replicas = spec["pytorchReplicaSpecs"]
        size = sum(r["replicas"] for r in replicas.values())
        own = {"WORLD_SIZE": str(size), "MASTER_ADDR": f"{name}-master-0", "MASTER_PORT": "23456"}
        kinds = [("master", replicas["Master"])] + [("worker", replicas["Worker"])] * ("Worker" in replicas)
        made = []
        for kind, replica in kinds:
            for i in range(replica["replicas"]):
                rank = i if kind == "master" else i + 1
                given = _given(replica["template"]["spec"], "pytorch")
                made.append(Pod(f"{name}-{kind}-{i}", {**given, **own, "RANK": str(rank)}))
        return made
    made = []
    if job["kind"] == "Job":
        services = {d["metadata"]["name"]: d["spec"] for d in documents if d["kind"] == "Service"}
        subdomain = spec["template"]["spec"]["subdomain"]
        service = services[subdomain]
        # Only such a service gives pods names, and only to those it selects.
        assert service["clusterIP"] == "None" and service["selector"] == {"batch.kubernetes.io/job-name": name}
        jobs = [(f"{name}-{{}}.{subdomain}", spec)]
    else:
        network = spec["network"]
        assert network["enableDNSHostnames"]
        jobs = [
            (f"{name}-{replicated['name']}-{i}-{{}}.{network['subdomain']}", replicated["template"]["spec"])
            for replicated in spec["replicatedJobs"]
            for i in range(replicated["replicas"])
        ]
    for pattern, one in jobs:
        assert one["completionMode"] == "Indexed" and one["completions"] == one["parallelism"]
        for i in range(one["completions"]):
            given = _given(one["template"]["spec"], None)
            made.append(Pod(pattern.format(i), {**given, "JOB_COMPLETION_INDEX": str(i)}))
    return made


def _given(spec: dict[str, Any], name: str | None) -> dict[str, str]:
    (container,) = [c for c in spec["containers"] if name in (None, c["name"])]
    return {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
