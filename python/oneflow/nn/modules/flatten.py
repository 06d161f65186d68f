"""Flatten."""

from __future__ import annotations

from collections.abc import Sequence

from oneflow import Tensor
from oneflow.nn.modules.module import Module


class Flatten(Module):
    """Merge the dimensions ``start_dim`` to ``end_dim`` into one; the batch dimension stays by default.

    Example::

        >>> nn.Flatten()(oneflow.ones(2, 3, 4)).shape
        oneflow.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split one dimension into several; the reverse of :class:`Flatten`.

    Args:
        dim: the dimension.
        unflattened_size: its sizes afterwards; one may be -1.

    Example::

        >>> nn.Unflatten(1, (3, 4))(oneflow.ones(2, 12)).shape
        oneflow.Size([2, 3, 4])
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError("Unflatten: dim must be an integer; dimensions have no names")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for i, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {i}"
                )
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, tuple(self.unflattened_size))

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
