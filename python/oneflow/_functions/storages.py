"""Functions about the memory of tensors: one on a file, views and parts as copies, the order of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base import wording


def from_file(
    filename: Any,
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = False,
    requires_grad: bool = False,
) -> Tensor:
    """A vector whose memory is a file.

    Args:
        filename: path.
        shared: write changes to the file, which is made, or made longer, where it must be; else changes stay in
            memory, and the file has to be there.
        size: number of elements.
        dtype: that of the elements; the default dtype if None.

    Raises:
        RuntimeError: the file is too short, or a device is asked for that is no CPU.

    Example::

        >>> t = oneflow.from_file(path, shared=True, size=4, dtype=oneflow.float32)  # doctest: +SKIP
    """
    dtype = oneflow.get_default_dtype() if dtype is None else dtype
    if layout not in (None, oneflow.strided):
        raise wording.error(RuntimeError, f"from_file(): layout {layout} has no memory that is a file")
    if pin_memory or (device is not None and oneflow.device(device).type != "cpu"):
        raise RuntimeError("from_file(): a file is mapped into the memory of the CPU, which is not pinned")
    n = 0 if size is None else size
    if n < 0:
        raise RuntimeError(f"from_file(): size must not be negative, but got {n}")
    storage = oneflow.UntypedStorage.from_file(  # type: ignore[attr-defined]
        filename, bool(shared), n * dtype.itemsize
    )
    made = oneflow.empty(0, dtype=dtype).set_(storage, 0, (n,), (1,))
    return made.requires_grad_(requires_grad) if requires_grad else made


def _copied(view: Tensor, out: Tensor | None) -> Tensor:
    return view.clone(memory_format=oneflow.contiguous_format) if out is None else oneflow.alias_copy(view, out=out)


def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy without history of what :meth:`Tensor.detach` gives a view of; written into ``out``, if given.

    Example::

        >>> oneflow.detach_copy(oneflow.ones(1, requires_grad=True))
        tensor([1.])
    """
    return _copied(input.detach(), out)


def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of what :func:`oneflow.view_as_real` gives a view of; written into ``out``, if given.

    Example::

        >>> oneflow.view_as_real_copy(oneflow.tensor([1 + 2j]))
        tensor([[1., 2.]])
    """
    return _copied(oneflow.view_as_real(input), out)


def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of what :func:`oneflow.view_as_complex` gives a view of; written into ``out``, if given.

    Example::

        >>> oneflow.view_as_complex_copy(oneflow.tensor([[1.0, 2.0]]))
        tensor([1.+2.j])
    """
    return _copied(oneflow.view_as_complex(input), out)


def split_copy(
    input: Tensor, split_size: int, dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...] | None:
    """Copies of the parts that :func:`oneflow.split` gives views of; written into the tensors of ``out``, if given.

    Example::

        >>> [part.tolist() for part in oneflow.split_copy(oneflow.arange(3), 2)]
        [[0, 1], [2]]
    """
    parts = input.split(split_size, dim)
    if out is None:
        return tuple(part.clone(memory_format=oneflow.contiguous_format) for part in parts)
    if len(out) != len(parts):
        raise RuntimeError(f"split_copy(): expected {len(parts)} tensors in out, but got {len(out)}")
    for to, part in zip(out, parts, strict=True):
        if to.shape != part.shape:
            to.resize_(part.shape)
        to.copy_(part)
    return None


def dim_order(self: Tensor, *, ambiguity_check: bool | Sequence[Any] = False) -> tuple[int, ...]:
    """The dimensions from the one with the largest stride to the one with the smallest.

    Args:
        ambiguity_check: raise if the strides permit several orders; or memory formats, of which exactly one must fit.

    Raises:
        RuntimeError: the order is not the only one.

    Example::

        >>> oneflow.zeros(2, 3, 4).transpose(0, 2).dim_order()
        (2, 1, 0)
    """
    formats = ambiguity_check if isinstance(ambiguity_check, (list, tuple)) else []
    if not isinstance(ambiguity_check, bool) and not (
        formats and all(isinstance(order, oneflow.memory_format) for order in formats)
    ):
        raise TypeError("dim_order(): ambiguity_check must be a bool or a list of memory formats")
    if self.is_sparse:
        raise AttributeError(f"Can't get dim order on sparse type: {self.type()} Use Tensor.to_dense() first.")
    if ambiguity_check and _is_ambiguous(self):
        fitting = [order for order in formats if _has(self, order)]
        if len(fitting) != 1:
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."
            )
        last = range(self.dim())
        return tuple(last if fitting[0] is oneflow.contiguous_format else (0, *last[2:], 1))
    return _by_strides(self)


def _has(x: Tensor, order: Any) -> bool:
    n_dims = {oneflow.channels_last: 4, oneflow.channels_last_3d: 5}.get(order, x.dim())
    return n_dims == x.dim() and x.is_contiguous(memory_format=order)


def _is_ambiguous(x: Tensor) -> bool:
    """Whether two dimensions could change places: neighbours of one stride, or one with a single element."""
    return 1 in x.shape or any(a == b for a, b in pairwise(x.stride()))


def _by_strides(x: Tensor) -> tuple[int, ...]:
    """Sorts by strides, from the inside; an expanded dimension stays where it is beside any other."""
    sizes, strides = x.shape, x.stride()

    def compare(a: int, b: int) -> int:
        if 0 in (strides[a], strides[b]):
            return 0
        if strides[a] != strides[b]:
            return 1 if strides[a] > strides[b] else -1
        return 1 if sizes[a] > sizes[b] else 0

    order = list(reversed(range(x.dim())))
    for end in range(1, len(order)):
        at = end
        for before in reversed(range(end)):
            found = compare(order[before], order[at])
            if found > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif found < 0:
                break
    return tuple(reversed(order))


METHODS: dict[str, Any] = {"dim_order": dim_order}
