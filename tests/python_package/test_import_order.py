"""Imports inside the package go one way: down the table of levels in docs/ARCHITECTURE.md, and in no circle."""

import ast
import re
from pathlib import Path

import oneflow
import pytest

ROOT = Path(oneflow.__file__).parent
# From the bottom to the top. A module that is not named has the level of its package; the rest are public
# sub-packages, which are above all of these.
LEVELS = (
    (
        "_oneflow",
        "__future__",
        "_base",
        "_names",
        "_schedules",
        "overrides",
        "return_types",
        "utils._pytree",
        "utils.hooks",
    ),
    ("sbp", "random", "storage"),
    ("autograd", "profiler"),
    ("_functions", "_linalg", "linalg", "signal"),
    ("_extra",),
    ("_tensor", "_tensor_str"),
    ("_settings",),
    ("nn.functional",),
    ("nn.parameter", "nn.init", "nn.attention", "nn.grad"),
    ("nn.modules", "nn.utils", "nn.parallel", "nn.image", "nn._ddp", "nn._ddp_agreement", "nn._reducer"),
    ("utils.checkpoint", "utils._aten_names", "utils._selective"),
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


def imported(node, modules):
    """The modules that an import names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    return [f"{base}.{a.name}" if f"{base}.{a.name}" in modules else base for a in node.names]


def circles(texts):
    """Modules that need each other while they are imported: imports at the top of files, by depth first."""
    modules = {f"oneflow.{name}" for name in texts if name}
    graph = {}
    for module, text in texts.items():
        tops = [n for n in ast.parse(text).body if isinstance(n, (ast.Import, ast.ImportFrom))]
        names = {name.removeprefix("oneflow.") for n in tops for name in imported(n, modules) if name in modules}
        graph[module] = sorted(names - {module})
    found, done, path = [], set(), []

    def visit(module):
        path.append(module)
        for name in graph[module]:
            if name in path:
                found.append(path[path.index(name) :])
            elif name not in done:
                visit(name)
        done.add(path.pop())

    for module in graph:
        if module and module not in done:
            visit(module)
    return found


def upwards(module, text, modules):
    """(imported module, line) of the imports from a level above, at the top of the file or in a function."""
    for node in nodes(ast.parse(text)):
        for name in imported(node, modules):
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


def test_no_circle():
    assert circles(sources()) == []
    planted = {
        "a": "from oneflow import b",
        "b": "import oneflow.c",
        "c": "import os\nfrom oneflow.a import f",
        "d": "import oneflow.a",
    }
    assert circles(planted) == [["a", "b", "c"]]
    assert circles(planted | {"c": "def f():\n    from oneflow.a import f"}) == []


def test_the_table_of_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| \d+ \| (.*?) \|", text, re.MULTILINE)
    assert [tuple(re.findall(r"`([^`]+)`", row)) for row in rows] == list(LEVELS)


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
