"""Every example in the documentation of ops and of the package runs and prints the documented text."""

import doctest
import importlib
import pkgutil

import oneflow
import pytest
from ops.op_samples import TABLE

# Names that examples may use without an import.
GLOBALS = {"oneflow": oneflow, "nn": oneflow.nn, "F": oneflow.nn.functional, "model": oneflow.nn.Linear(2, 1)}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def _modules():
    for info in pkgutil.walk_packages(oneflow.__path__, "oneflow."):
        if not info.name.endswith(("_oneflow", "__main__")):
            yield info.name


def _run(test):
    report = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


OPS = [name for name, op in TABLE.items() if ">>>" in op["doc"]]


@pytest.mark.parametrize("name", OPS)
def test_op_example(name):
    globs = dict(GLOBALS)
    _run(doctest.DocTestParser().get_doctest(TABLE[name]["doc"], globs, name, None, 0))


@pytest.mark.filterwarnings("ignore:Error detected in")  # The error that an example of anomaly detection raises.
@pytest.mark.filterwarnings("ignore:.* is deprecated:FutureWarning")
@pytest.mark.parametrize("module", ["oneflow", *_modules()])
def test_package_examples(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # Examples may save files.
    if module == "oneflow.utils.tensorboard":
        pytest.importorskip("tensorboard")  # The package's error has the install command.
    finder = doctest.DocTestFinder(exclude_empty=True)
    for test in finder.find(importlib.import_module(module), extraglobs=GLOBALS):
        if test.examples:
            _run(test)


def test_every_public_op_has_an_example():
    without = {n for n, op in TABLE.items() if "private" not in op["faces"] and ">>>" not in op["doc"]}
    without -= {"global_to_global", "local_to_global"}  # The parts of `to_global`.
    # One overload may speak for all of a name.
    shown = {n.split(".")[0] for n, op in TABLE.items() if ">>>" in op["doc"]}
    assert {n for n in without if n.split(".")[0] not in shown} == set()
