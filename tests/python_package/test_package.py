"""The package itself: names, import time, errors of missing names."""

import re
import subprocess
import sys
from pathlib import Path

import oneflow
import pytest


def test_missing_names_say_so():
    with pytest.raises(AttributeError, match="does not provide"):
        oneflow.no_such_function
    assert not hasattr(oneflow, "no_such_function")


def test_subpackages_are_there():
    for name in ("nn", "optim", "autograd", "utils", "testing", "serialization"):
        assert getattr(oneflow, name).__name__ == f"oneflow.{name}"
        assert name in dir(oneflow)


# What an import need not wait for: each is imported by what uses it.
HEAVY = (
    "numpy torch asyncio concurrent email http json logging multiprocessing socket sqlite3 ssl subprocess unittest xml"
)


def test_import_is_light():
    code = "import sys; before = set(sys.modules); import oneflow; print(*set(sys.modules) - before)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    imported = {name.partition(".")[0] for name in printed.split()}
    assert "oneflow" in imported and imported.isdisjoint(HEAVY.split())
    assert sum(name.startswith("oneflow") for name in printed.split()) < 80


# Imports each of the modules that `import oneflow` imports, as the first one, into a package that has only the names of
# the compiled module.
ALONE = """
import importlib, sys, types
import oneflow
from oneflow import _oneflow

compiled = {name: value for name, value in vars(_oneflow).items() if not name.startswith("__")}
modules = [name for name in sys.modules if name.startswith("oneflow.") and "_oneflow" not in name]
for module in modules:
    for name in [name for name in sys.modules if name.partition(".")[0] == "oneflow" and "_oneflow" not in name]:
        del sys.modules[name]
    bare = sys.modules["oneflow"] = types.ModuleType("oneflow")
    vars(bare).update(compiled, _oneflow=_oneflow, __path__=oneflow.__path__, __file__=oneflow.__file__)
    try:
        importlib.import_module(module)
    except Exception as error:
        print(f"{module}: {error}")
print(len(modules))
"""


def test_modules_import_in_any_order():
    out = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True).stdout.split("\n")
    assert out[:-2] == []
    assert int(out[-2]) > 50


def test_one_table_attaches_every_method():
    from oneflow._tensor import table

    names = [name for part in table.PARTS for name in part]
    assert sorted(names) == sorted(set(names)) and len(names) > 120
    attaching = re.compile(r"setattr\((\w+\.)*Tensor,|^ *(\w+\.)*Tensor\.\w+ = ", re.M)
    root = Path(oneflow.__file__).parent
    assert [p for p in root.rglob("*.py") if attaching.search(p.read_text())] == [root / "_tensor" / "table.py"]


def test_small_questions():
    x = oneflow.ones(2, 3)
    assert oneflow.is_tensor(x) and not oneflow.is_tensor(1)
    assert oneflow.numel(x) == 6 and oneflow.is_floating_point(x)


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16"])
def test_finfo_equals_torchs(name):
    import torch

    ours, theirs = oneflow.finfo(getattr(oneflow, name)), torch.finfo(getattr(torch, name))
    for field in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
        assert getattr(ours, field) == getattr(theirs, field), field
    assert repr(ours) == repr(theirs)


def test_iinfo_equals_torchs():
    import torch

    ours, theirs = oneflow.iinfo(oneflow.int64), torch.iinfo(torch.int64)
    assert (ours.bits, ours.min, ours.max) == (theirs.bits, theirs.min, theirs.max)
    assert repr(ours) == repr(theirs)
    with pytest.raises(TypeError):
        oneflow.iinfo(oneflow.float32)
    with pytest.raises(TypeError):
        oneflow.finfo(oneflow.int64)


def test_seed():
    oneflow.manual_seed(7)
    a = oneflow.rand(3).tolist()
    assert oneflow.initial_seed() == 7
    oneflow.manual_seed(7)
    assert oneflow.rand(3).tolist() == a
    state = oneflow.get_rng_state()
    b = oneflow.rand(3).tolist()
    oneflow.set_rng_state(state)
    assert oneflow.rand(3).tolist() == b


def test_the_version_is_stated_once():
    """In the workspace's Cargo.toml; the guide's line for a crate of one's own follows it."""
    root = Path(__file__).parents[2]
    version = re.search(r'^version = "(.+)"$', (root / "Cargo.toml").read_text(), re.M)[1]
    assert oneflow.__version__ == oneflow.version.version == version
    assert re.findall(r'oneflow-runtime = .*version = "(.+)"', (root / "docs/guides/saving.md").read_text()) == [
        version
    ]
    assert 'dynamic = ["version"]' in (root / "pyproject.toml").read_text()
    for manifest in root.glob("crates/**/Cargo.toml"):
        assert "version.workspace = true" in manifest.read_text(), manifest
