"""Every public name has a docstring with an example, and the examples of compiled code run (others: tests/ops)."""

import doctest
import inspect
import sys
from pathlib import Path

import oneflow
import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def reference():
    """The module that generates the reference: the names it lists as public are public here."""
    sys.path.insert(0, str(DOCS / "_ext"))
    try:
        import reference
    finally:
        sys.path.pop(0)
    return reference


def documented(value):
    """Return whether the text has an example, or names the op of which this is a form, or an alternative."""
    text = inspect.getdoc(value) or ""
    return ">>>" in text or "In-place form of" in text or text.startswith("Raises NotImplementedError.")


def is_said_elsewhere(method):
    """Return whether a function of the method's name is documented: its text holds for the method."""
    name = method.rpartition(".")[2].removesuffix("_")
    return any(documented(getattr(place, name, None)) for place in (oneflow, oneflow.nn.functional))


@pytest.fixture(scope="module")
def names(reference):
    """Every public function and class, once: under its shortest name."""
    found, seen = {}, set()
    modules = sorted(reference.public_modules().items(), key=lambda item: (item[0].count("."), item[0]))
    for module_name, module in modules:
        for name, value in reference.public_names(module_name, module).items():
            if id(value) not in seen:
                seen.add(id(value))
                found[f"{module_name}.{name}"] = value
    for name in dir(oneflow.Tensor):
        value = inspect.getattr_static(oneflow.Tensor, name)
        if not name.startswith("_") and id(value) not in seen:
            found[f"oneflow.Tensor.{name}"] = getattr(oneflow.Tensor, name)
    return found


def test_every_public_name_has_an_example(names):
    missing = {name for name, value in names.items() if not documented(value)}
    missing -= {name for name in missing if name.startswith("oneflow.Tensor.") and is_said_elsewhere(name)}
    assert sorted(missing) == [], "these need an example in their docstring"
    assert len(names) > 1500


COMPILED = [
    (owner, name)
    for owner in ("oneflow._oneflow", "oneflow.Tensor")
    for name in sorted(dir(oneflow._oneflow if owner == "oneflow._oneflow" else oneflow.Tensor))
    if not name.startswith("_")
]


@pytest.mark.parametrize("owner", ["oneflow._oneflow", "oneflow.Tensor"])
def test_examples_of_compiled_functions(owner, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    holder = oneflow._oneflow if owner == "oneflow._oneflow" else oneflow.Tensor
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failures = []
    for of, name in COMPILED:
        text = inspect.getdoc(getattr(holder, name)) if of == owner else None
        if not text or ">>>" not in text:
            continue
        test = doctest.DocTestParser().get_doctest(text, {"oneflow": oneflow}, f"{owner}.{name}", None, 0)
        runner = doctest.DocTestRunner(optionflags=flags, verbose=False)
        runner.run(test, out=failures.append)
    assert failures == []
