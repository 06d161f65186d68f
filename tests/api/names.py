"""Which names of PyTorch and OneFlow the package has: looked up, counted by use, written to docs/coverage.md.

python -m api.names --write        (from the folder `tests`, with the package on the path)
"""

from __future__ import annotations

import csv
import functools
import importlib
import importlib.util
import sys
import warnings
from collections import defaultdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import oneflow
from oneflow.mock_torch import private
from oneflow.mock_torch.private import absent

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "coverage.md"
# Used by so many projects a name is expected.
ENOUGH = 5
# Names that are no names of the library: attributes of instances that only look like it.
CLASSES = {"Tensor": "Tensor", "Module": "nn.Module", "Optimizer": "optim.Optimizer"}


class Name(NamedTuple):
    """A name of a list, as its list writes it, and how many projects use it how often."""

    text: str
    projects: int
    uses: int


@functools.cache
def rules() -> dict[str, dict[str, str]]:
    """The sections of excluded.toml."""
    return tomllib.loads((HERE / "excluded.toml").read_text())


def rule(section: str, text: str) -> str | None:
    """A section's entry for a name, by the name itself or by a pattern."""
    held = rules()[section]
    return held.get(text) or next((reason for key, reason in held.items() if fnmatchcase(text, key)), None)


def lists() -> dict[str, list[Name]]:
    """The lists of names that are checked."""
    with (HERE / "torch_usage.csv").open() as file:
        used = [Name(r["name"], int(r["projects"]), int(r["uses"])) for r in csv.DictReader(file)]
    own = [Name(line, 0, 1) for line in (HERE / "oneflow_names.txt").read_text().split()]
    flat = [Name(f"oneflow._C.{line}", 0, 1) for line in (HERE / "oneflow_functions.txt").read_text().split()]
    return {"PyTorch": used, "OneFlow": own, "OneFlow's functions": flat}


@functools.cache
def instances() -> dict[str, object]:
    layer = oneflow.nn.Linear(2, 2)
    return {"Tensor": oneflow.zeros(2, 2), "Module": layer, "Optimizer": oneflow.optim.SGD(layer.parameters(), 0.1)}


MISSING = object()


def find(text: str) -> object:
    """The object of a name, or MISSING."""
    for old, new in rules()["renamed"].items():
        text = text.replace(old, new)
    root, _, rest = text.partition(".")
    if root in CLASSES:
        cls = functools.reduce(getattr, CLASSES[root].split("."), oneflow)
        if hasattr(cls, rest):
            return getattr(cls, rest)
        return getattr(instances()[root], rest, MISSING)
    found: object = oneflow
    path = "oneflow"
    for part in rest.split(".") if rest else ():
        path += f".{part}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            below = getattr(found, part, MISSING)
        if below is MISSING and isinstance(found, type) and found is oneflow.Tensor:
            below = getattr(instances()["Tensor"], part, MISSING)
        if below is MISSING:
            below = module(path)
        if below is MISSING:
            return MISSING
        found = below
    return found


def module(path: str) -> object:
    """A module that is there but not imported; one that needs a package that is not installed counts as there."""
    try:
        spec = importlib.util.find_spec(path)
    except (ImportError, AttributeError, ValueError):
        return MISSING
    if spec is None:
        return MISSING
    try:
        return importlib.import_module(path)
    except ImportError:
        return spec


def in_mock(text: str) -> bool:
    """Return whether packages find a name while `mock_torch` is on: in its private folder or among its refusals."""
    parts = text.split(".")
    for n in range(len(parts), 1, -1):
        name = private.find(".".join(parts[:n]))
        found = absent.module(".".join(parts[:n])) if name is None else importlib.import_module(name)
        if found is not None:
            for part in parts[n:]:
                found = getattr(found, part, None)
            return found is not None
    return False


class Verdict(NamedTuple):
    """present, partial, excluded or missing; and why."""

    kind: str
    why: str = ""


def verdict(text: str) -> Verdict:
    """Return the description of a name."""
    found = find(text)
    reason = rule("excluded", text)
    if found is MISSING:
        if reason:
            return Verdict("excluded", reason)
        return Verdict("partial", "for packages, while mock_torch is on") if in_mock(text) else Verdict("missing")
    instead = getattr(found, "_instead", None)
    if isinstance(instead, str):
        return Verdict("partial", f"raises NotImplementedError: {instead}")
    less = rule("partial", text)
    return Verdict("partial", less) if less else Verdict("present")


def page() -> str:
    """The text of docs/coverage.md."""
    lines = [
        "# Names of PyTorch and OneFlow",
        "",
        "Written by `tests/api/names.py`, and checked by a test. PyTorch's names are those that thirty-three",
        "open-source projects use, with the number of projects that use each and of the places where they do;",
        "OneFlow's are those of its documentation and of its flat list `_C`. *Partial* names are there and do less,",
        "*excluded* ones are not, for a reason: both stand in `tests/api/excluded.toml`. A name that is not there",
        "raises AttributeError, a partial one that cannot do its work NotImplementedError; both say so.",
        "",
        "| list | names | present | partial | excluded | missing | uses covered |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    verdicts = {title: [(name, verdict(name.text)) for name in names] for title, names in lists().items()}
    groups = {}
    for title, found in verdicts.items():
        if title == "PyTorch":
            groups[f"PyTorch, {ENOUGH} projects or more"] = [f for f in found if f[0].projects >= ENOUGH]
            groups[f"PyTorch, 2 to {ENOUGH - 1} projects"] = [f for f in found if f[0].projects < ENOUGH]
        else:
            groups[title] = found
    for title, found in groups.items():
        kinds = [v.kind for _, v in found]
        uses = sum(name.uses for name, _ in found)
        covered = sum(name.uses for name, v in found if v.kind in ("present", "partial"))
        counts = " | ".join(str(kinds.count(k)) for k in ("present", "partial", "excluded", "missing"))
        lines.append(f"| {title} | {len(found)} | {counts} | {100 * covered / uses:.1f} % |")
    for kind, title in (("partial", "Partial"), ("excluded", "Excluded")):
        lines += ["", f"## {title}", "", "| name | projects | uses | why |", "|---|---:|---:|---|"]
        held = [(name, v) for found in verdicts.values() for name, v in found if v.kind == kind]
        for name, v in sorted(held, key=lambda pair: (-pair[0].projects, -pair[0].uses, pair[0].text)):
            counts = f"{name.projects} | {name.uses}" if name.projects else " | "
            lines.append(f"| `{name.text}` | {counts} | {v.why} |")
    lines += ["", "## Missing", "", f"Used by 2 to {ENOUGH - 1} projects; by number of projects.", ""]
    for n in range(ENOUGH - 1, 1, -1):
        names = [name.text for name, v in verdicts["PyTorch"] if v.kind == "missing" and name.projects == n]
        lines += [f"- {n}: " + (", ".join(f"`{name}`" for name in names) or "none")]
    lines += ["", "## Present", "", "By module; PyTorch's names in the order of use.", ""]
    modules: dict[str, list[str]] = defaultdict(list)
    for found in verdicts.values():
        for name, v in found:
            if v.kind == "present":
                parent, _, own = name.text.rpartition(".")
                modules[parent or name.text].append(own)
    for parent in sorted(modules):
        lines.append(f"- `{parent}`: " + ", ".join(dict.fromkeys(modules[parent])))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    text = page()
    if "--write" in sys.argv:
        PAGE.write_text(text)
    else:
        sys.stdout.write(text)
