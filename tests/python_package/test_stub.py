"""The stub of the compiled module lists exactly the names of the module."""

from __future__ import annotations

import ast
from pathlib import Path

import oneflow
import pytest
from oneflow import _oneflow

STUB = ast.parse((Path(oneflow.__file__).parent / "_oneflow.pyi").read_text())
# Names that exist for the type checker only.
TYPING_ONLY = {
    "Number",
    "UntypedStorage",
    "_T",
    "_bool",
    "_complex",
    "_Private",
    "_device",
    "_dtype",
    "_float",
    "_int",
    "_placement",
    "_sbp",
}


def names_of(body: list[ast.stmt]) -> set[str]:
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def class_body(name: str) -> list[ast.stmt]:
    return next(node.body for node in STUB.body if isinstance(node, ast.ClassDef) and node.name == name)


def named_tuples() -> set[str]:
    return {
        node.name
        for node in STUB.body
        if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "NamedTuple" for base in node.bases)
    }


CASES = {
    "_C": (names_of(class_body("_C")), _oneflow._C),
    "module": (names_of(STUB.body) - named_tuples(), _oneflow),
    "Tensor": (names_of(class_body("Tensor")), oneflow.Tensor),
}


@pytest.mark.parametrize("owner", CASES)
def test_every_name_of_the_stub_exists(owner: str) -> None:
    stub, real = CASES[owner]
    assert sorted(name for name in stub - TYPING_ONLY if not hasattr(real, name)) == []


@pytest.mark.parametrize("owner", CASES)
def test_every_public_name_is_in_the_stub(owner: str) -> None:
    stub, real = CASES[owner]
    assert sorted(name for name in dir(real) if not name.startswith("_") and name not in stub) == []
