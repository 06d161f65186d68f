"""The import hook: which module replaces a name, and which modules are unloaded and restored when that changes.

While the mock is on, a finder is first in ``sys.meta_path``. The parts of ``torch`` are the very modules of
oneflow, so settings made on them are shared; only ``torch`` itself and ``torch.version`` are separate modules,
since they report another version. If the mock is lazy every module is a wrapper that returns placeholders for missing
names.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from oneflow import _oneflow
from oneflow.mock_torch import _metadata, private
from oneflow.mock_torch._missing import LazyModule, Missing, report
from oneflow.mock_torch.private import absent
from oneflow.mock_torch.private.torch_version import TorchVersion

# Modules that report another version than oneflow's.
_CHANGED = ("torch", "torch.version")
# Import machinery, and compiled modules that cannot be loaded twice.
_UNTOUCHED = ("_distutils_hack", "importlib", "regex", "tokenizers", "safetensors._safetensors_rust")


@dataclass(frozen=True)
class State:
    """The result of imports: which names are replaced by what, and how missing ones behave."""

    replaced: tuple[tuple[str, str | ModuleType], ...] = ()
    lazy: bool = False
    verbose: bool = False
    version: str = ""
    # Packages that each state has its own copy of.
    fresh: tuple[str, ...] = ()

    def owns(self, module: str) -> bool:
        """Return whether ``sys.modules[module]`` belongs to this state alone."""
        roots = (*(name for name, _ in self.replaced), *self.fresh)
        return any(_below(module, root) for root in roots) and not any(_below(module, kept) for kept in _UNTOUCHED)

    def stands_for(self, name: str) -> str | ModuleType | None:
        """The module, or its name, that is imported in place of ``name``; None where it is not replaced."""
        for root, target in sorted(self.replaced, key=lambda pair: -len(pair[0])):
            if name == root:
                return target
            if _below(name, root):
                return (target if isinstance(target, str) else target.__name__) + name[len(root) :]
        return None


OFF = State()
_state = OFF
# Entries of `sys.modules`, and of globals of callers, when a state was left.
_modules: dict[State, dict[str, ModuleType]] = {}
_globals: list[tuple[dict[str, Any], str, Any, ModuleType]] = []
_NOTHING = object()


def flag(name: str) -> bool:
    """Return whether an environment variable is set to true."""
    return os.environ.get(name, "").lower() in ("1", "true", "yes", "on", "y")


def current() -> State:
    """The state in force."""
    return _state


def switch(state: State, caller: dict[str, Any]) -> State:
    """Bring ``state`` into force and return the one before. ``caller`` are the globals that follow the change."""
    global _state
    before = _state
    if state == before:
        return before
    leaving = {name: m for name, m in sys.modules.items() if before.owns(name) or state.owns(name)}
    for name in leaving:
        del sys.modules[name]
    _modules[before] = leaving
    sys.modules.update({name: m for name, m in _modules.pop(state, {}).items() if name not in sys.modules})
    _state = state
    # Programs compare the texts of dtypes and the like with literals that name the package as they import it.
    _oneflow._C._show_torch(state is not OFF)
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    if state is not OFF:
        sys.meta_path.insert(0, _finder)
    _exchange_globals(leaving, caller)
    return before


def _exchange_globals(leaving: dict[str, ModuleType], caller: dict[str, Any]) -> None:
    """Variables that hold an unloaded module receive the one that has its name now, and the former one later."""
    if _state is OFF:
        for variables, variable, put, original in _globals:
            if variables.get(variable, _NOTHING) is put:
                variables[variable] = original
        _globals.clear()
    names = {id(m): name for name, m in leaving.items() if sys.modules.get(m.__name__) is not m}
    for variable, value in list(caller.items()):
        name = names.get(id(value))
        if name is None or not isinstance(value, ModuleType):
            continue
        if _state is OFF:
            caller[variable] = sys.modules.get(name, value)
            continue
        try:
            caller[variable] = importlib.import_module(name)
        except ImportError:
            del caller[variable]
        if not isinstance(value, LazyModule):
            _globals.append((caller, variable, caller.get(variable, _NOTHING), value))


def _below(name: str, root: str) -> bool:
    return name == root or name.startswith(root + ".")


class _Finder(MetaPathFinder):
    """Finds modules of oneflow under the names they replace, and their distribution."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        stand_in = private.find(name) or _state.stands_for(name)
        if stand_in is None:
            return None
        try:
            module = _resolve(stand_in)
        except ModuleNotFoundError as error:
            if not _is_about(error, stand_in):
                raise
            if (refusing := absent.module(name)) is not None:
                return ModuleSpec(name, _Loader(refusing), is_package=hasattr(refusing, "__path__"))
            if _state.verbose:
                report(f"no module {name}, oneflow has no {stand_in}")
            if not _state.lazy:
                return None
            module = Missing(name)
        is_package = hasattr(module, "__path__") or isinstance(module, Missing)
        spec = ModuleSpec(name, _Loader(_face(name, module), name), is_package=is_package)
        spec.origin = getattr(module, "__file__", None)
        spec.has_location = spec.origin is not None
        return spec

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        """Called by ``importlib.metadata``."""
        if context is None or context.name in (None, "torch"):
            yield _metadata.Torch(_state.version)


_finder = _Finder()


class _Loader(Loader):
    """Gives a module that is there already, and leaves it as it was."""

    def __init__(self, module: ModuleType, name: str | None = None) -> None:
        self._module = module
        self._name = name
        self._spec = getattr(module, "__spec__", None)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just put the spec of the other name here.
        if self._spec is not None:
            module.__spec__ = self._spec
        if self._name is not None:
            _keep_shadowing(self._name, module)

    def get_code(self, name: str) -> Any:
        """The code of the module, which ``python -m`` runs under the other name."""
        if self._spec is None or not hasattr(self._spec.loader, "get_code"):
            return None
        return self._spec.loader.get_code(self._spec.name)


def _keep_shadowing(name: str, package: ModuleType) -> None:
    """Enter the modules of a package whose names in it are something else, as the function ``gradcheck`` is.

    An import of such a module would bind its name in the package again; one that is found in ``sys.modules`` does not.
    """
    while "_target" in vars(package):
        package = vars(package)["_target"]
    own = f"{package.__name__}."
    for found, module in list(sys.modules.items()):
        leaf = found.removeprefix(own)
        if found == leaf or "." in leaf or f"{name}.{leaf}" in sys.modules:
            continue
        if vars(package).get(leaf, module) is not module:
            sys.modules[f"{name}.{leaf}"] = _face(f"{name}.{leaf}", module)


def _resolve(target: str | ModuleType) -> ModuleType:
    """Import a module; one that is no file but an attribute of its parent counts too."""
    if isinstance(target, ModuleType):
        return target
    try:
        return importlib.import_module(target)
    except ModuleNotFoundError as error:
        parent, _, leaf = target.rpartition(".")
        if not parent or not _is_about(error, target):
            raise
        module = getattr(_resolve(parent), leaf, None)
        if not isinstance(module, ModuleType):
            raise
        return module


def _is_about(error: ModuleNotFoundError, name: str | ModuleType) -> bool:
    """Return whether ``name`` itself, or a package it is in, is what was not found, and not something it needs."""
    return isinstance(name, str) and error.name is not None and _below(name, error.name)


def _face(name: str, module: ModuleType) -> ModuleType:
    """Return the module for ``sys.modules[name]``."""
    if isinstance(module, Missing):
        return module
    if private.find(name):
        # `from torch.onnx import part` looks for a part under the name that the module reports.
        module.__name__ = name
    changed: dict[str, Any] = {"__version__": TorchVersion(_state.version)} if name in _CHANGED else {}
    if name == "torch":
        # Late: these need oneflow itself.
        from oneflow.mock_torch.private import top

        changed |= {item: getattr(top, item) for item in top.__all__}
    if _state.lazy:
        return LazyModule(name, module, changed, _state.verbose)
    renamed = _Renamed(name, module, changed).module if changed else module
    if name == "torch":
        # PyTorch imports itself: `torch.torch` is a name that annotations contain.
        vars(renamed)["torch"] = renamed
    return renamed


class _Renamed:
    """A module with another one's attributes, except for those in ``changed``."""

    def __init__(self, name: str, target: ModuleType, changed: dict[str, Any]) -> None:
        self.module = ModuleType(name, target.__doc__)
        self._target = target
        held = {"__package__": target.__package__, "__file__": target.__file__, **changed}
        if hasattr(target, "__path__"):
            # A package, in whose folder nobody shall look for modules under the other name.
            held["__path__"] = []
        vars(self.module).update(held, __getattr__=self._get, __dir__=self._names)

    def _get(self, name: str) -> Any:
        try:
            own = f"{self.module.__name__}.{name}"
            if own in _CHANGED or private.find(own):
                value: Any = importlib.import_module(own)
            else:
                value = getattr(self._target, name)
        except AttributeError:
            if _state.verbose and not name.startswith("__"):
                report(f"{self._target.__name__} has no {name}")
            raise
        # Found without this function from now on: `torch.add` costs what `oneflow.add` costs.
        vars(self.module)[name] = value
        return value

    def _names(self) -> list[str]:
        return sorted({*dir(self._target), *vars(self.module)})
