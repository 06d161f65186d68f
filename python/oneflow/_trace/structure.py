"""The key of a traced function: its nested inputs and outputs, its modules, the thread's modes."""

from __future__ import annotations

import enum
import functools
import inspect
import weakref
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import is_
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.amp import AUTOCAST_DEVICES
from oneflow._base.nests import Nest, names, nest_of
from oneflow._base.refusals import refuse_composed
from oneflow.nn.modules.module import Module
from oneflow.utils import hooks

_PACKAGE = str(Path(oneflow.__file__).parent)
TENSOR = "<tensor>"
# Values that are part of the structure itself.
_NUMBERS = (bool, int, float, str)
# Types of the defaults that a class gives to attributes.
_PLAIN = (*_NUMBERS, type(None))
_CONSTANTS = (*_NUMBERS, complex, bytes, range, type, type(...), enum.Enum, oneflow.device, oneflow.dtype)


class _Context:
    """What a registered class needs besides its children and that cannot be hashed."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Context) and self.value == other.value

    def __hash__(self) -> int:
        return 0


def flatten(value: Any, tensors: list[Tensor], what: str | None) -> Any:
    """Collect the tensors of a nested value; return its structure, which can be hashed.

    A structure is ``TENSOR``, ``("constant", class, value)``, or a nest: its class, its context and the structures of
    its children (see :mod:`oneflow._base.nests`).

    Args:
        what: what errors call the value. Numbers and strings are part of the structure, except in an "output"; with
            None all values are, and a structure that holds others than these cannot be hashed.
    """
    if isinstance(value, Tensor):
        if type(value) is not Tensor:
            refuse_composed("tracing a program", value)
        tensors.append(value)
        return TENSOR
    cls = type(value)
    nest = nest_of(cls)
    if nest is None:
        if value is None or what is None or (what != "output" and isinstance(value, _CONSTANTS)):
            return ("constant", cls, value)
    elif nest.kind != "slice" or what != "output":
        children, context = nest.flatten(value)
        if context is not None:
            context = _hashable(nest, context)
        return (cls, context, tuple([flatten(child, tensors, what) for child in children]))
    raise TypeError(
        f"nn.Graph: {'a' if what == 'result' else 'an'} {what} of type {cls.__name__} is not supported: "
        "expected Tensor, None, list, tuple, dict, dataclass or a class registered as a nest"
    )


def _hashable(nest: Nest, context: Any) -> Any:
    if nest.kind != "registered":
        return tuple(context) if type(context) is list else context
    try:
        hash(context)
    except TypeError:
        return _Context(context)
    return context


def flatten_call(args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Tensor]) -> Any:
    """:func:`flatten` of a call's arguments."""
    if not kwargs and {*map(type, args)} <= {Tensor}:
        tensors += args
        return _tensors_alone(len(args))
    return flatten((args, kwargs), tensors, "input")


@functools.cache
def _tensors_alone(count: int) -> Any:
    return flatten(((oneflow.empty(0, device="meta"),) * count, {}), [], "input")


def unflatten(structure: Any, tensors: Iterator[Any]) -> Any:
    """Put tensors into a structure that :func:`flatten` returned."""
    if structure == TENSOR:
        return next(tensors)
    if structure[0] == "constant":
        return structure[2]
    cls, context, parts = structure
    children = [next(tensors) if part == TENSOR else unflatten(part, tensors) for part in parts]
    if cls is tuple or cls is list or cls is dict:
        # What almost all nests are.
        return (
            tuple(children) if cls is tuple else children if cls is list else dict(zip(context, children, strict=True))
        )
    if type(context) is _Context:
        context = context.value
    return nest_of(cls).build(cls, children, context)  # type: ignore[union-attr]


def is_keyed(structure: Any) -> bool:
    """Return whether a structure is that of a dictionary or a dataclass."""
    if structure == TENSOR or structure[0] == "constant":
        return False
    nest = nest_of(structure[0])
    return nest is not None and nest.kind in ("dict", "dataclass")


def paths(structure: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each tensor of a structure: keys, names of fields, positions."""
    if structure == TENSOR:
        yield path
    elif structure[0] != "constant":
        cls, context, parts = structure
        for name, part in zip(names(cls, context, len(parts)), parts, strict=True):
            yield from paths(part, (*path, name))


def placeholders(trace: Any, tensors: list[Tensor]) -> list[Tensor]:
    """Return the tensors that represent inputs in a trace.

    Raises:
        NotImplementedError: one is sparse.
    """
    if any(t.layout is not oneflow.strided for t in tensors):
        raise NotImplementedError("nn.Graph: an input is sparse: pass to_dense(), or its indices and values")
    return [trace.input(t) for t in tensors]


def wanting(placeholder: Tensor, tensor: Tensor) -> Tensor:
    """Let the placeholder of an input require a gradient where the input does; of a leaf it is one too."""
    if not tensor.requires_grad:
        return placeholder
    placeholder.requires_grad_()
    return placeholder if tensor.is_leaf else placeholder.view_as(placeholder)


class _Key(tuple[Any, ...]):
    """A long key that is looked up in every call: it is hashed once."""

    hash: int | None = None

    def __hash__(self) -> int:
        if self.hash is None:
            self.hash = super().__hash__()
        return self.hash


class Modules:
    """The modules below (and with) some, each once, and what of them decides a trace.

    Whoever keeps a key keeps this object and its :meth:`tensors` too: a key compares children and tensors by identity.

    Args:
        roots: the modules.
        moved: (id of a module, attribute) that a trace itself has written: they do not count.
        names: attributes that something besides the modules' methods names.

    Numbers, strings and tensors count that ``forward`` names, or another method of the module that it names.
    """

    def __init__(
        self,
        roots: Iterable[Module],
        moved: frozenset[tuple[int, str]] = frozenset(),
        names: frozenset[str] = frozenset(),
    ) -> None:
        self.all = list({id(m): m for root in roots for m in root.modules()}.values())
        # Read in each call, so that what a module gains, loses or replaces is seen without asking every module again.
        held = [part for m in self.all for part in (m._modules, m._parameters, m._buffers)]
        self._filled = [part.values() for part in held if part]
        self._empty = [part for part in held if not part]
        # By their keys, which are unique.
        self._hooks = [part for m in self.all for part in (m._forward_pre_hooks, m._forward_hooks)]
        self._names = [
            (m.__dict__, name)
            for m in self.all
            for name in sorted(_attributes_of(type(m)) | names)
            if (name in m.__dict__ or isinstance(getattr(type(m), name, ...), _PLAIN)) and (id(m), name) not in moved
        ]
        # The last count of changes, and children, parameters and buffers; and the key of all.
        self._last: tuple[int, list[Any], _Key] = -1, [], _Key()

    def key(self) -> _Key:
        """Modes, and which children, parameters, buffers, hooks and attributes the modules hold. Part of every call."""
        count, held, key = self._last
        # Read first: what changes from here on counts in the next call.
        now, holds = hooks.changes.count, list(chain.from_iterable(self._filled))
        # Tensors by identity, since they compare elements.
        if now == count and len(holds) == len(held) and all(map(is_, holds, held)) and not any(self._empty):
            return key
        if now == count:
            rest = key[-1]
        else:
            # Looked at again only after some module got an attribute, its mode is one, or something a hook.
            modes = [m.training for m in self.all]
            found = [(name, _identity(d.get(name))) for d, name in self._names]
            rest = (*modes, *chain.from_iterable(self._hooks), *[part for part in found if part[1] is not None])
        late = chain.from_iterable([part.values() for part in self._empty])
        key = _Key((*map(id, holds), *map(id, late), rest))
        self._last = now, holds, key
        return key

    def tensors(self) -> list[Tensor]:
        """Tensors of which the key speaks and that are neither parameters nor buffers."""
        return [v for v in [d.get(name) for d, name in self._names] if isinstance(v, Tensor)]


def _identity(value: Any) -> Any:
    """Return a key that distinguishes a number, string, list of them or tensor from others; None for other kinds."""
    if isinstance(value, Tensor):
        return id(value)
    if type(value) in (list, tuple) and all(type(v) in _NUMBERS for v in value):
        return (type(value), *value)
    return (type(value), value) if type(value) in _NUMBERS else None


def _attributes_of(kind: type[Module]) -> frozenset[str]:
    """Return the attributes that ``forward`` and the methods it names mention, except those of ``Module`` itself."""
    found = _attributes.get(kind)
    if found is None:
        names: set[str] = set()
        methods = {"forward"}
        while methods:
            codes = [_code_of(getattr(kind, name)) for name in methods]
            new = frozenset().union(*[_names_in(code) for code in codes if code is not None]) - names
            names |= new
            methods = {name for name in new if not hasattr(Module, name) and _code_of(getattr(kind, name, None))}
        found = _attributes[kind] = frozenset(names)
    return found


_attributes: weakref.WeakKeyDictionary[type[Module], frozenset[str]] = weakref.WeakKeyDictionary()


def _code_of(function: Any) -> CodeType | None:
    return getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None


def names_in(function: Any) -> frozenset[str]:
    """The attributes and globals that a function names."""
    code = _code_of(getattr(function, "__func__", function))
    return frozenset() if code is None else _names_in(code)


@functools.cache
def _names_in(code: CodeType) -> frozenset[str]:
    """Globals and attributes that a function's code names, those of functions inside included."""
    inside = [_names_in(c) for c in code.co_consts if isinstance(c, CodeType)]
    return frozenset(code.co_names).union(*inside)


class Names:
    """The values in a function's closure and globals that decide a trace: numbers, strings, tensors, modules.

    User functions that it names are searched too. Values inside other objects are not seen.
    """

    def __init__(self, function: Any) -> None:
        self._cells: list[CellType] = []
        self._globals: list[tuple[dict[str, Any], str]] = []
        # Tensors and modules found: kept alive, as a key compares them by identity.
        self.found: list[Any] = []
        self._look(function, set())

    def _look(self, function: Any, seen: set[int]) -> None:
        while isinstance(function, functools.partial):
            function = function.func
        function = getattr(function, "__func__", function)
        if not isinstance(function, FunctionType) or id(function) in seen:
            return
        seen.add(id(function))
        if function.__code__.co_filename.startswith(_PACKAGE):
            return
        held: list[Any] = []
        for cell in function.__closure__ or ():
            value = _content(cell)
            held.append(value)
            if isinstance(value, (*_NUMBERS, Tensor, Module)):
                self._cells.append(cell)
        names = function.__globals__
        for name in _names_in(function.__code__):
            value = names.get(name)
            held.append(value)
            if isinstance(value, (*_NUMBERS, Tensor, Module)):
                self._globals.append((names, name))
        self.found += [v for v in held if isinstance(v, (Tensor, Module))]
        for value in held:
            self._look(value, seen)

    def modules(self) -> list[Module]:
        return [v for v in self.found if isinstance(v, Module)]

    def key(self) -> tuple[Any, ...]:
        """Numbers by value, the rest by identity."""
        if not self._cells and not self._globals:
            return ()
        values = [*map(_content, self._cells), *[names.get(name) for names, name in self._globals]]
        return tuple([(type(v), v) if isinstance(v, _NUMBERS) else id(v) for v in values])


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def modes_key() -> tuple[Any, ...]:
    """The switches of this thread that decide what ops do: gradients, default dtype, autocast."""
    kinds = [kind for kind in AUTOCAST_DEVICES if oneflow.is_autocast_enabled(kind)]
    casts = [(kind, oneflow.get_autocast_dtype(kind)) for kind in kinds]
    return (oneflow.is_grad_enabled(), oneflow.get_default_dtype(), *casts)
