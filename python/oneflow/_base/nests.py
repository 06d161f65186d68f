"""How nested values are taken apart and built again: tuples, lists, dictionaries, dataclasses and registered classes.

This is the one table of such classes. It walks no value: how deep to go, what is a leaf and what is kept of the rest
belongs to the walks (:mod:`oneflow.utils._pytree`, ``_trace/structure.py``).
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

Flatten = Callable[[Any], tuple[Sequence[Any], Any]]
# Makes a value from its class, its children and what `Flatten` returned besides them.
Build = Callable[[type, list[Any], Any], Any]


class Nest(NamedTuple):
    """How values of a class are taken apart and built again.

    Attributes:
        kind: "tuple", "list", "namedtuple", "results", "dict", "slice", "dataclass" or "registered".
        flatten: returns the children, and the rest of the value's content: keys, names of fields.
        build: makes a value again.
        with_keys: returns pairs of a key and a child, for a registered class whose children have such.
    """

    kind: str
    flatten: Flatten
    build: Build
    with_keys: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None

    @property
    def flatten_fn(self) -> Flatten:
        """What a registered class was given, under PyTorch's name."""
        return self.flatten

    @property
    def unflatten_fn(self) -> Callable[[Iterable[Any], Any], Any]:
        """Likewise: makes a value from its children and the rest."""
        kinds: dict[str, type] = {"tuple": tuple, "list": list, "dict": dict, "slice": slice}
        return lambda children, rest: self.build(kinds.get(self.kind, object), list(children), rest)


def _flatten_sequence(value: Any) -> tuple[list[Any], Any]:
    return list(value), None


def _flatten_dict(value: dict[Any, Any]) -> tuple[list[Any], Any]:
    return list(value.values()), list(value)


def _build_dict(cls: Any, children: list[Any], keys: Any) -> Any:
    # Constructors of other subclasses may take something else than pairs.
    pairs = zip(keys, children, strict=True)
    return cls(pairs) if issubclass(cls, OrderedDict) else dict(pairs)


def _flatten_dataclass(value: Any) -> tuple[list[Any], Any]:
    names = [f.name for f in dataclasses.fields(value)]
    return [getattr(value, name) for name in names], names


def _build_dataclass(cls: type, children: list[Any], names: Any) -> Any:
    made: Any = object.__new__(cls)
    for name, child in zip(names, children, strict=True):
        object.__setattr__(made, name, child)
    return made


def _build_slice(cls: type, children: list[Any], _: Any) -> slice:
    return slice(*children)


_TUPLE = Nest("tuple", _flatten_sequence, lambda cls, children, _: cls(children))
_LIST = Nest("list", _flatten_sequence, lambda cls, children, _: children if cls is list else cls(children))
_DICT = Nest("dict", _flatten_dict, _build_dict)
_NAMED_TUPLE = Nest("namedtuple", lambda t: (list(t), type(t)), lambda cls, children, _: cls(*children))
# The type of ops' multiple results: a tuple class of C, constructed from one sequence.
_RESULTS = Nest("results", lambda t: (list(t), type(t)), lambda cls, children, _: cls(tuple(children)))
_SLICE = Nest("slice", lambda s: ([s.start, s.stop, s.step], None), _build_slice)
_DATACLASS = Nest("dataclass", _flatten_dataclass, _build_dataclass)

REGISTERED: dict[type, Nest] = {
    tuple: _TUPLE,
    list: _LIST,
    dict: _DICT,
    OrderedDict: _DICT,
    defaultdict: Nest(
        "dict",
        lambda d: (list(d.values()), (d.default_factory, tuple(d))),
        lambda cls, children, rest: cls(rest[0], zip(rest[1], children, strict=True)),
    ),
    deque: Nest("registered", lambda d: (list(d), d.maxlen), lambda cls, children, maxlen: cls(children, maxlen)),
}


def register(
    cls: type,
    flatten: Flatten,
    unflatten: Callable[[Iterable[Any], Any], Any],
    with_keys: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Let values of exactly this class be nests for every walk."""
    build: Build = lambda _, children, context: unflatten(children, context)  # noqa: E731
    REGISTERED[cls] = Nest("registered", flatten, build, with_keys)
    for cache in _caches:
        cache.cache_clear()


def _registered_nest_of(cls: type) -> Nest | None:
    """The nest that values of exactly this class are for PyTorch's functions of trees, or None."""
    if issubclass(cls, tuple):
        if hasattr(cls, "_fields"):
            return _NAMED_TUPLE
        if hasattr(cls, "n_fields"):
            return _RESULTS
    return REGISTERED.get(cls)


def _nest_of(cls: type) -> Nest | None:
    """The nest that values of a class are: as `_registered_nest_of`, subclasses, slices and dataclasses too."""
    known = _registered_nest_of(cls)
    if known is not None:
        return known
    for parent, nest in ((tuple, _TUPLE), (list, _LIST), (dict, _DICT), (slice, _SLICE)):
        if issubclass(cls, parent):
            return nest
    is_plain = not issubclass(cls, (enum.Enum, type))
    return _DATACLASS if is_plain and dataclasses.is_dataclass(cls) else None


_caches = [functools.lru_cache(1024)(function) for function in (_registered_nest_of, _nest_of)]
registered_nest_of: Callable[[type], Nest | None] = _caches[0]
nest_of: Callable[[type], Nest | None] = _caches[1]


def is_named_tuple(cls: type) -> bool:
    return registered_nest_of(cls) is _NAMED_TUPLE


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """A nest of the same class with ``function`` of each child; what is no nest comes back as it is."""
    nest = nest_of(type(value))
    if nest is None:
        return value
    children, context = nest.flatten(value)
    return nest.build(type(value), [function(child) for child in children], context)


def names(cls: type, context: Any, count: int) -> Sequence[Any]:
    """What the children of a nest are called: keys, fields, or their positions."""
    kind = getattr(nest_of(cls), "kind", None)
    if kind == "dict":
        return context[1] if issubclass(cls, defaultdict) else context
    return context if kind == "dataclass" else getattr(cls, "_fields", range(count))
