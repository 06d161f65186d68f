"""Imports inside the package go one way: down the list of levels in docs/ARCHITECTURE.md."""

import ast
from pathlib import Path

import oneflow
import pytest

ROOT = Path(oneflow.__file__).parent
# From the bottom to the top. A module that is not named has the level of its package; the rest are public
# sub-packages, which are above all of these.
LEVELS = (
    ("_oneflow", "_base", "_names", "_schedules", "overrides", "utils._pytree", "utils.hooks"),
    ("sbp", "random", "storage"),
    ("autograd", "profiler"),
    ("_functions", "_linalg", "linalg", "signal"),
    ("_extra",),
    ("_tensor", "_tensor_str"),
    ("_settings",),
    ("nn.functional",),
    ("nn.parameter", "nn.init", "nn.attention", "nn.grad"),
    ("nn.modules", "nn.utils", "nn.parallel", "nn.image", "nn._ddp"),
    ("utils.checkpoint",),
    ("_trace",),
    ("_files", "serialization"),
    ("func",),
    ("nn.utils.stateless",),
)
RANKS = {name: rank for rank, names in enumerate(LEVELS) for name in names}


def rank(module):
    """Return the level of a module, by the longest name of the list that it begins with."""
    while module:
        if module in RANKS:
            return RANKS[module]
        module = module.rpartition(".")[0]
    return len(LEVELS)


def nodes(tree):
    """The imports of a file, those in functions too; those for type checkers alone do not count."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield from nodes(node)


def upwards(module, text, modules):
    """(imported module, line) of the imports from a level above, at the top of the file or in a function."""
    for node in nodes(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            base = node.module or ""
            names = [f"{base}.{a.name}" if f"{base}.{a.name}" in modules else base for a in node.names]
        for name in names:
            found = name.removeprefix("oneflow.")
            if name.startswith("oneflow.") and rank(found) > rank(module):
                yield found, node.lineno


def sources():
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return found


def test_no_import_from_a_level_above():
    texts = sources()
    modules = {f"oneflow.{name}" for name in texts}
    faults = [
        f"{module}, line {line}: imports {found}, which stands above it"
        for module, text in texts.items()
        if module
        for found, line in upwards(module, text, modules)
    ]
    assert faults == []


def test_no_private_file_lies_in_the_package_itself():
    # Names that PyTorch has, the tables of __init__.py, and names that the compiled module uses.
    known = {"_C", "_dynamo", "_names", "_oneflow_internal", "_ops", "_settings", "_tensor_str", "_utils"}
    private = {p.stem for p in ROOT.glob("_*.py") if not p.stem.startswith("__")}
    assert private - known == set(), "a private file belongs in a folder"


@pytest.mark.parametrize(
    ("module", "text", "faults"),
    [
        ("_base.dtypes", "from oneflow._functions import sets", [("_functions.sets", 1)]),
        ("_functions.sets", "from oneflow._base.global_layouts import replicate_like\nfrom oneflow import Tensor", []),
        ("_functions.sets", "def f():\n    import oneflow.nn.graph", [("nn.graph", 2)]),
        ("_trace.saved", "from oneflow import nn", [("nn", 1)]),
        ("nn.modules.module", "if TYPE_CHECKING:\n    from oneflow.nn.graph import Graph", []),
        ("nn.modules.module", "class A:\n    from oneflow._trace.saved import write", [("_trace.saved", 2)]),
    ],
)
def test_a_planted_import_is_found(module, text, faults):
    modules = {"oneflow.nn", "oneflow.nn.graph", "oneflow._functions.sets", "oneflow._trace.saved"}
    assert list(upwards(module, text, modules)) == faults
