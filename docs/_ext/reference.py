"""Sphinx extension: pages for every public name, made from the running package before the build reads files.

Functions of the op table go to pages by family, the rest to pages by module. In-place methods and methods that share a
function's text are listed and point to it, so that each text stands once and is found once.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

OUT = "reference"
# Modules that are no interface of their own: what they hold is public elsewhere.
LEFT_OUT = re.compile(r"\.(_\w+|__main__|mock_torch\..*|nn\.modules(\..*)?|models\.\w.*|nn\.graph|nn\.structure)(\.|$)")


def public_modules() -> dict[str, ModuleType]:
    """Every module a user may import, by name."""
    import oneflow

    found: dict[str, ModuleType] = {"oneflow": oneflow}
    for info in pkgutil.walk_packages(oneflow.__path__, "oneflow.", onerror=lambda name: None):
        if any(part.startswith("_") for part in info.name.split(".")) or LEFT_OUT.search(info.name + "."):
            continue
        try:
            found[info.name] = importlib.import_module(info.name)
        except ImportError:
            continue  # It asks for a package that is not installed.
    return found


def public_names(name: str, module: ModuleType) -> dict[str, Any]:
    """The functions and classes that a module offers as its own."""
    names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    found = {}
    for n in names:
        try:
            value = getattr(module, n)
        except (AttributeError, ImportError):
            continue
        if inspect.ismodule(value) or not callable(value) or n.startswith("_"):
            continue
        home = getattr(value, "__module__", None) or ""
        listed = hasattr(module, "__all__") and module.__all__
        # A private file beside the module holds a part of it.
        listed = listed or home.startswith(f"{name.rpartition('.')[0]}._{name.rpartition('.')[2]}")
        if home.startswith("oneflow") and (listed or name == "oneflow" or home.startswith(name)):
            found[n] = value
    return found


def families() -> dict[str, list[str]]:
    """The families of the op table and their public functions, from the pages that `cargo xtask codegen` writes."""
    pages = Path(__file__).resolve().parent.parent / "api"
    found = {}
    for page in sorted(pages.glob("*.md")):
        if page.name != "README.md":
            found[page.stem] = re.findall(r"^## (\w+)$", page.read_text(encoding="utf-8"), re.M)
    return found


def first_line(value: Any) -> str:
    """The first sentence of a docstring, fit for a table's cell."""
    lines = (inspect.getdoc(value) or "").strip().split("\n\n")[0].split("\n")
    return " ".join(line.strip() for line in lines).replace("|", "\\|")


def title(text: str, mark: str = "=") -> str:
    return f"{text}\n{mark * len(text)}\n\n"


def entry(full: str, value: Any, elsewhere: Sequence[str] = ()) -> str:
    """The directive of one name, without those members of a class that have their text elsewhere."""
    if inspect.isclass(value):
        options = "   :members:\n" + (f"   :exclude-members: {', '.join(elsewhere)}\n" if elsewhere else "")
        if issubclass(value, tuple) or issubclass(value, BaseException):
            options = ""
        return f".. autoclass:: {full}\n{options}\n"
    kind = "autofunction" if inspect.isroutine(value) else "autodata"
    return f".. {kind}:: {full}\n\n"


class Pages:
    """What has been written, and where each object has its text."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.out.mkdir(exist_ok=True)
        self.home: dict[int, str] = {}
        self.written: set[str] = set()

    def write(self, page: str, text: str) -> None:
        path = self.out / f"{page}.rst"
        self.written.add(path.name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")

    def entries(self, module: str, names: dict[str, Any]) -> str:
        """Directives for what has no text yet, and a line for what has."""
        parts, known = [], []
        for n, value in sorted(names.items(), key=lambda item: (not inspect.isclass(item[1]), item[0])):
            full = f"{module}.{n}"
            if id(value) in self.home:
                known.append(f"* ``{full}``: see :py:obj:`{self.home[id(value)]}`\n")
            elif n.endswith("_") and n[:-1] in names and not inspect.isclass(value):
                known.append(f"* ``{full}``: :py:obj:`{module}.{n[:-1]}` in place\n")
            else:
                self.home[id(value)] = full
                parts.append(entry(full, value, self._classes_written_elsewhere(full, value)))
        if known:
            parts.append(title("Other names", "-") + "".join(known) + "\n")
        return "".join(parts)

    def _classes_written_elsewhere(self, full: str, value: Any) -> list[str]:
        """The classes inside a class that have their text under another name; the others have it here."""
        found = []
        for name, member in vars(value).items() if inspect.isclass(value) else ():
            if inspect.isclass(member) and not name.startswith("_"):
                if id(member) in self.home:
                    found.append(name)
                else:
                    self.home[id(member)] = f"{full}.{name}"
        return found

    def prune(self) -> None:
        for path in self.out.glob("*.rst"):
            if path.name not in self.written:
                path.unlink()


def tensor_page(pages: Pages) -> None:
    import oneflow

    own, shared = [], []
    for n in sorted(dir(oneflow.Tensor)):
        if n.startswith("_"):
            continue
        value = getattr(oneflow.Tensor, n)
        base = n[:-1] if n.endswith("_") else n
        function = getattr(oneflow, base, None) if callable(value) else None
        if function is not None and id(function) in pages.home:
            how = " in place" if n.endswith("_") else ""
            shared.append(f"* ``Tensor.{n}``: :py:obj:`{pages.home[id(function)]}`{how}\n")
        elif callable(value):
            own.append(f".. automethod:: oneflow.Tensor.{n}\n\n")
        else:
            own.append(f".. autoattribute:: oneflow.Tensor.{n}\n\n")
    example = (inspect.getdoc(oneflow.Tensor) or "").partition("Example::")
    about = f"{first_line(oneflow.Tensor)}\n\n{example[1]}{example[2]}\n\n"
    text = title("Tensor") + ".. py:class:: oneflow.Tensor\n\n" + textwrap.indent(about, "   ")
    text += "Made by :py:obj:`oneflow.tensor`, the functions of :doc:`ops_creation` and the ops.\n\n"
    text += title("Methods and attributes", "-") + "".join(own)
    text += title("Methods that are functions too", "-")
    text += "What is said of the function holds for the method; the tensor is its first argument.\n\n" + "".join(shared)
    pages.write("tensor", text)


def generate(source: Path) -> None:
    import oneflow

    pages = Pages(source / OUT)
    index = []
    modules = public_modules()
    own = public_names("oneflow", oneflow)
    in_family: set[str] = set()
    for family, names in families().items():
        mine = {n: own[n] for n in names if n in own}
        in_family.update(mine)
        pages.write(f"ops_{family}", title(f"oneflow: {family}") + pages.entries("oneflow", mine))
        index.append(f"ops_{family}")
    rest = {n: v for n, v in own.items() if n not in in_family and n != "Tensor"}
    in_place = {n for n in rest if n.endswith("_") and n[:-1] in own}
    # The shorter of two names for one thing is the one to use.
    for name, module in sorted(modules.items(), key=lambda item: (item[0].count("."), item[0])):
        if name == "oneflow":
            continue
        names = public_names(name, module)
        if not names:
            continue
        text = title(name) + (f".. automodule:: {name}\n   :no-members:\n   :no-index:\n\n" if module.__doc__ else "")
        pages.write(name.removeprefix("oneflow.").replace(".", "_"), text + pages.entries(name, names))
        index.append(name.removeprefix("oneflow.").replace(".", "_"))
    # Last, so that what a sub-package documents is only pointed to.
    others = {n: v for n, v in rest.items() if n not in in_place}
    pages.write("oneflow", title("oneflow: everything else") + pages.entries("oneflow", others))
    tensor_page(pages)
    tables = [page for page in index if page.startswith("ops_")]
    index = ["tensor", *tables, "oneflow", *sorted(page for page in index if page not in tables)]
    tree = "".join(f"   {page}\n" for page in index)
    pages.write("index", title("Reference") + f".. toctree::\n   :maxdepth: 1\n\n{tree}\n")
    pages.prune()


def escape_stars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Let ``(N, C, *)`` in a docstring's prose mean what it says: no docstring here uses stars as markup."""
    code: int | None = None
    before = ""
    for i, line in enumerate(lines):
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if code is not None and text and (indent <= code if before != ">>>" else False):
            code = None
        if text.startswith(">>>"):
            code, before = indent, ">>>"
        elif not text and before == ">>>":
            code = None
        if code is None:
            parts = line.split("``")
            parts[::2] = [re.sub(r"(?<!\\)\*", r"\\*", part) for part in parts[::2]]
            lines[i] = "``".join(parts)
            if text.endswith("::"):
                code, before = indent, "::"


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", escape_stars)
    app.connect("builder-inited", lambda app: generate(Path(app.srcdir)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
