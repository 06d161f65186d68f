"""Functions of the package keep no tensor longer than they run, also where the collector of cycles does not run."""

from __future__ import annotations

import ast
import gc
import symtable
import weakref
from collections.abc import Iterator
from pathlib import Path

import oneflow as torch

ROOT = Path(torch.__file__).parent


def _names_of_themselves(scope: symtable.SymbolTable, inside: bool = False) -> Iterator[tuple[str, int]]:
    """The functions inside functions that read their own name: cycles with all that they and their neighbours hold."""
    is_function = scope.get_type() == "function"
    if is_function and inside and scope.get_name() in scope.get_identifiers():
        if scope.lookup(scope.get_name()).is_free():
            yield scope.get_name(), scope.get_lineno()
    for child in scope.get_children():
        yield from _names_of_themselves(child, is_function)


def _returned(text: str) -> set[str]:
    """The names that functions return: such a function lives as long as its caller wants."""
    returns = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Return))
    return {value.id for value in returns if isinstance(value, ast.Name)}


def test_no_function_inside_another_calls_itself() -> None:
    sample = "def f(x):\n    def g(y):\n        return g(y) if y else x\n    return g(1)\n"
    assert list(_names_of_themselves(symtable.symtable(sample, "", "exec"))) == [("g", 2)]
    found = []
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        names = list(_names_of_themselves(symtable.symtable(text, str(path), "exec")))
        returned = _returned(text) if names else set()
        found += [f"{path.relative_to(ROOT)}:{line} {name}" for name, line in names if name not in returned]
    assert not found, "make it a function of the module, or a loop"


def test_multi_dot_lets_its_operands_go() -> None:
    gc.collect()
    gc.disable()
    try:
        tensors = [torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 5)]
        kept = [weakref.ref(t) for t in tensors]
        torch.linalg.multi_dot(tensors)
        del tensors
        assert [ref() for ref in kept] == [None] * 3
    finally:
        gc.enable()
