"""Which dimensions of the inputs stay open: :class:`Dim`, hints, and the forms of ``dynamic_shapes``."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from oneflow import Tensor
from oneflow._trace.named_sizes import Named, Size
from oneflow.utils import _pytree

__all__ = ["AUTO", "DYNAMIC", "STATIC", "Dim", "dims"]


class _Hint:
    """A hint for a dimension without a name."""

    def __init__(self, name: str, min: int | None = None, max: int | None = None) -> None:
        self.name, self.min, self.max = name, min, max

    def __call__(self, *, min: int | None = None, max: int | None = None) -> _Hint:
        if self.name == "STATIC":
            raise TypeError("export: Dim.STATIC has no range")
        return _Hint(self.name, min, max)

    def __repr__(self) -> str:
        return f"Dim.{self.name}"


AUTO, DYNAMIC, STATIC = _Hint("AUTO"), _Hint("DYNAMIC"), _Hint("STATIC")


class Dim:
    """A dimension that stays open when a model is exported, by name.

    Two axes with one ``Dim`` have one size. ``2 * batch + 1`` is the size of an axis that follows from ``batch``.

    Args:
        name: a Python identifier.
        min: the smallest size, 0 if it is not given.
        max: the largest size.

    Example::

        >>> batch = oneflow.export.Dim("batch", max=64)
        >>> model = oneflow.nn.Linear(3, 2)
        >>> program = oneflow.export.export(model, (oneflow.ones(4, 3),), dynamic_shapes=({0: batch},))
        >>> program.module()(oneflow.ones(7, 3)).shape
        oneflow.Size([7, 2])
    """

    AUTO, DYNAMIC, STATIC = AUTO, DYNAMIC, STATIC

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"export: the name of a Dim must be an identifier, got {name!r}")
        self.min = 0 if min is None else min
        self.max = max
        if max is not None and max <= self.min:
            raise ValueError(f"export: Dim({name!r}) has min={self.min} and max={max}; max must be larger")
        self.__name__ = name
        self._size: Named = name

    def _derived(self, size: Size) -> Dim:
        made = object.__new__(Dim)
        made.__name__, made._size, made.min, made.max = str(size), size, self.min, self.max
        made._root = self._root if hasattr(self, "_root") else self  # type: ignore[attr-defined]
        return made

    def _terms(self) -> dict[tuple[str, ...], Fraction]:
        return {(self._size,): Fraction(1)} if isinstance(self._size, str) else dict(self._size.terms)

    def __add__(self, other: int) -> Dim:
        terms = self._terms()
        terms[()] = terms.get((), Fraction(0)) + _whole(other)
        return self._derived(Size(terms))

    __radd__ = __add__

    def __sub__(self, other: int) -> Dim:
        return self + -_whole(other)

    def __mul__(self, other: int) -> Dim:
        factor = _whole(other)
        if factor <= 0:
            raise ValueError(f"export: a Dim can be multiplied by a positive integer, not by {factor}")
        return self._derived(Size({term: c * factor for term, c in self._terms().items()}))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        if not isinstance(self._size, str):
            return str(self._size)
        given = f", max={self.max}" if self.max is not None else ""
        return f"Dim({self.__name__!r}, min={self.min}{given})"


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"export: a Dim can be combined with an integer, not with {value!r}")
    return value


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several :class:`Dim` at once.

    Example::

        >>> batch, length = oneflow.export.dims("batch", "length")
        >>> length
        Dim('length', min=0)
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


class OpenDims:
    """The open dimensions of a call: ``named`` by (number of the tensor, axis), ``ranges`` by name, and ``auto``,
    the groups of axes that are open if the program lets them be.
    """

    def __init__(self) -> None:
        self.named: dict[tuple[int, int], Named] = {}
        self.ranges: dict[str, tuple[int, int | None]] = {}
        self.auto: dict[str, list[tuple[int, int]]] = {}
        self._taken: set[str] = set()
        self._count = itertools.count()

    def add(self, at: tuple[int, int], given: Any, size: int, where: str) -> None:
        """Record what ``dynamic_shapes`` gives for one axis."""
        if given is None or given is STATIC:
            return
        if isinstance(given, int) and not isinstance(given, bool):
            if given != size:
                raise ValueError(f"export: dynamic_shapes gives {given} for {where}, which is {size} in the example")
            return
        if isinstance(given, Dim):
            self.named[at] = given._size
            root = getattr(given, "_root", given)
            self._range(root.__name__, root.min, root.max)
            low, high = root.min, root.max
            value = given._size.solved(size) if isinstance(given._size, Size) else size
            if value < low or (high is not None and value > high):
                raise ValueError(
                    f"export: {where} is {size} in the example, which the range of {root!r} does not allow"
                )
            return
        if isinstance(given, str):
            return self.add(at, Dim(given), size, where)
        if isinstance(given, _Hint) and given.name == "DYNAMIC":
            name = self._fresh()
            self.named[at] = name
            self._range(name, given.min or 0, given.max)
        elif isinstance(given, _Hint) and given.name == "AUTO":
            # Axes of one size are one dimension, if that can be.
            self.auto.setdefault(f"{size}", []).append(at)
        else:
            raise TypeError(
                f"export: dynamic_shapes gives {given!r} for {where}; a Dim, a name, Dim.AUTO, Dim.DYNAMIC, "
                "Dim.STATIC, an integer or None is expected"
            )

    def _fresh(self) -> str:
        return next(n for n in (f"s{i}" for i in self._count) if n not in self.ranges)

    def fresh(self, low: int = 0, high: int | None = None) -> str:
        """A name for a dimension that has none."""
        name = self._fresh()
        self._range(name, low, high)
        return name

    def _range(self, name: str, low: int, high: int | None) -> None:
        if self.ranges.setdefault(name, (low, high)) != (low, high):
            raise ValueError(f"export: two dimensions are named {name!r} and have different ranges")


def open_dims(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], given: Any) -> OpenDims:
    """Read ``dynamic_shapes``: by the names of the arguments, or in their order; as the arguments are nested."""
    found = OpenDims()
    if not given:
        return found
    names = argument_names(function, args, kwargs)
    values = [*args, *kwargs.values()]
    if isinstance(given, Mapping):
        # A function that takes **kwargs may find the shapes of its arguments under "kwargs".
        unknown = [key for key in given if key not in names]
        if unknown:
            raise ValueError(
                f"export: dynamic_shapes names {', '.join(map(repr, unknown))}, but the arguments are {names}"
            )
        ordered = [given.get(name) for name in names]
    elif isinstance(given, (tuple, list)):
        if len(given) != len(values):
            raise ValueError(f"export: dynamic_shapes has {len(given)} items for {len(values)} arguments {names}")
        ordered = list(given)
    else:
        raise TypeError(f"export: dynamic_shapes is {type(given).__name__}; a dict, a tuple or a list is expected")
    numbers = itertools.count()
    for name, value, spec in zip(names, values, ordered, strict=True):
        _read(found, value, spec, name, numbers)
    return found


def argument_names(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """A name for each argument: that of the parameter, numbered for ``*args``."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "arg")
    names = [plain[i] if i < len(plain) else f"{rest}_{i - len(plain)}" for i in range(len(args))]
    return names + list(kwargs)


def _read(found: OpenDims, value: Any, spec: Any, where: str, numbers: Iterable[int]) -> None:
    if isinstance(value, Tensor):
        at = next(iter(numbers))
        if spec is None:
            return
        if isinstance(spec, Mapping):
            items = list(spec.items())
        elif isinstance(spec, (tuple, list)):
            if len(spec) != value.dim():
                raise ValueError(
                    f"export: dynamic_shapes has {len(spec)} items for {where}, which has {value.dim()} dimensions"
                )
            items = list(enumerate(spec))
        else:
            raise TypeError(f"export: dynamic_shapes of {where} is {spec!r}; a dict, a tuple or a list is expected")
        for axis, dim in items:
            if not isinstance(axis, int) or not -value.dim() <= axis < value.dim():
                raise ValueError(
                    f"export: dynamic_shapes names dimension {axis} of {where}, which has {value.dim()} dimensions"
                )
            axis %= value.dim()
            found.add((at, axis), dim, value.shape[axis], f"{where}.shape[{axis}]")
        return
    children, tree = _pytree.tree_flatten(value, is_leaf=lambda v: v is not value)
    if tree.is_leaf():
        if spec is not None:
            raise ValueError(f"export: dynamic_shapes gives {spec!r} for {where}, which is not a tensor")
        return
    if isinstance(spec, Mapping):
        keys = list(value) if isinstance(value, Mapping) else list(range(len(children)))
        specs = [spec.get(key) for key in keys]
    elif spec is None:
        specs = [None] * len(children)
    else:
        specs = list(spec)
        if len(specs) != len(children):
            raise ValueError(f"export: dynamic_shapes has {len(specs)} items for {where}, which has {len(children)}")
    for i, (child, inner) in enumerate(zip(children, specs, strict=True)):
        _read(found, child, inner, f"{where}[{i}]", numbers)
