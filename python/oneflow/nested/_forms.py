"""How the parts of a nested tensor lie in its memory: packed along one dimension, or one after the other."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence

import oneflow
from oneflow import Tensor
from oneflow._base.symbols import SymInt

_numbers = itertools.count(1)


class RaggedSize(int, SymInt):
    """The size of a ragged dimension: equal to itself alone, and read as -1 where a shape is asked for.

    Example::

        >>> nested = oneflow.nested.nested_tensor([oneflow.ones(2, 3), oneflow.ones(1, 3)], layout=oneflow.jagged)
        >>> nested.size(1) == (nested * 2).size(1), nested.size(1) == 2
        (True, False)
    """

    _number: int

    def __new__(cls, number: int) -> RaggedSize:
        made = int.__new__(cls, -1)
        made._number = number
        return made

    def __repr__(self) -> str:
        return f"j{self._number}"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedSize) and self._number == other._number

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((RaggedSize, self._number))

    def __ge__(self, other: int) -> bool:
        """At least 0 and 1, as PyTorch's; no other comparison with a number has an answer."""
        return self == other or (not isinstance(other, RaggedSize) and other <= 1) or self._refuse()

    def __gt__(self, other: int) -> bool:
        return (not isinstance(other, RaggedSize) and other <= 0) or self._refuse()

    def _refuse(self, *_: object) -> bool:
        raise ValueError(f"{self!r} is the size of a ragged dimension, which is no single number")

    __lt__ = __le__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __neg__ = _refuse


# The size that stands for a tensor of offsets or lengths, while that lives.
_sizes: dict[int, tuple[weakref.ref[Tensor], RaggedSize]] = {}


def _size_of(lengths: Tensor) -> RaggedSize:
    """Return the size of the ragged dimension: one for all nested tensors that share offsets, or lengths."""
    key = id(lengths)
    found = _sizes.get(key)
    if found is None or found[0]() is not lengths:
        found = weakref.ref(lengths, lambda _: _sizes.pop(key, None)), RaggedSize(next(_numbers))
        _sizes[key] = found
    return found[1]


class Packed:
    """The parts lie one after the other along one dimension of the values, whose other sizes they share.

    ``offsets`` has where each part begins, and behind the last one where that ends; ``lengths``, where parts do not
    reach to the next, how long they are. ``ragged`` is the dimension of the nested tensor that differs, from 1.
    """

    __slots__ = ("_bounds", "_rows", "lengths", "longest", "offsets", "ragged", "shortest", "size")

    def __init__(
        self,
        offsets: Tensor,
        lengths: Tensor | None = None,
        ragged: int = 1,
        size: RaggedSize | None = None,
        shortest: int | None = None,
        longest: int | None = None,
    ) -> None:
        self.offsets, self.lengths, self.ragged = offsets, lengths, ragged
        self.size = _size_of(offsets if lengths is None else lengths) if size is None else size
        self.shortest, self.longest = shortest, longest
        self._bounds: list[tuple[int, int]] | None = None
        self._rows: tuple[Tensor, Tensor, Tensor] | None = None

    def at(self, ragged: int) -> Packed:
        """The same parts with the ragged dimension elsewhere."""
        if ragged == self.ragged:
            return self
        moved = Packed(self.offsets, self.lengths, ragged, self.size, self.shortest, self.longest)
        moved._bounds, moved._rows = self._bounds, self._rows
        return moved

    def closed(self) -> Packed:
        """The same parts without gaps between them."""
        if self.lengths is None:
            return self
        ends = oneflow.cat([self.lengths.new_zeros(1), self.lengths.cumsum(0)])
        return Packed(ends, None, self.ragged, self.size, self.shortest, self.longest)

    def to(self, device: object) -> Packed:
        if self.offsets.device == device:
            return self
        lengths = None if self.lengths is None else self.lengths.to(device)
        offsets = self.offsets.to(device)
        return Packed(offsets, lengths, self.ragged, self.size, self.shortest, self.longest)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def bounds(self) -> list[tuple[int, int]]:
        """Where each part begins and how long it is."""
        if self._bounds is None:
            starts = self.offsets.tolist()
            ends = starts[1:]
            lengths = (
                [b - a for a, b in zip(starts, ends, strict=False)] if self.lengths is None else self.lengths.tolist()
            )
            self._bounds = list(zip(starts, lengths, strict=False))
        return self._bounds

    def rows(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of every row that a part has: the row of the values, its part, and where in the part it stands."""
        if self._rows is None:
            starts = self.offsets[:-1]
            lengths = self.offsets.diff() if self.lengths is None else self.lengths
            parts = oneflow.arange(len(self), device=starts.device).repeat_interleave(lengths)
            before = oneflow.cumsum(lengths, 0) - lengths
            places = oneflow.arange(len(parts), device=starts.device) - before[parts]
            self._rows = starts[parts] + places, parts, places
        return self._rows

    def agrees(self, other: Packed | Shapes) -> bool:
        """Whether the parts of both have the same lengths in the same dimension and lie alike."""
        if not isinstance(other, Packed) or self.ragged != other.ragged:
            return False
        return self.size == other.size or self.bounds() == other.bounds()

    def extremes(self) -> tuple[int, int]:
        """The least and the greatest length."""
        if self.shortest is None or self.longest is None:
            lengths = [n for _, n in self.bounds()] or [0]
            self.shortest, self.longest = min(lengths), max(lengths)
        return self.shortest, self.longest


class Shapes:
    """The elements of each part lie behind those of the part before; their shapes may differ in all dimensions."""

    __slots__ = ("shapes",)

    def __init__(self, shapes: Sequence[Sequence[int]]) -> None:
        self.shapes = tuple(tuple(s) for s in shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def to(self, device: object) -> Shapes:
        return self

    def agrees(self, other: Packed | Shapes) -> bool:
        return isinstance(other, Shapes) and self.shapes == other.shapes

    def common(self, dim: int) -> int | None:
        """The size of a dimension of the parts; None where it differs, or there is no part."""
        sizes = {s[dim] for s in self.shapes}
        return sizes.pop() if len(sizes) == 1 else None
