"""Arguments cut along the batch for several devices, and results put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.nests import nest_of

__all__ = ["gather", "scatter", "scatter_kwargs"]


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Split every tensor of a nest along ``dim``, one chunk for each device; other values go to all.

    Args:
        inputs: tensors in tuples, lists and dictionaries.
        target_gpus: devices; there may be fewer pieces than devices.
        dim: the dimension of the batch.

    Example::

        >>> nn.parallel.scatter((oneflow.arange(3), "a"), ["cpu", "cpu"])
        [(tensor([0, 1]), 'a'), (tensor([2]), 'a')]
    """
    n = len(target_gpus)
    if isinstance(inputs, Tensor):
        pieces = inputs.chunk(n, dim)
        return tuple(piece.to(_device(to)) for piece, to in zip(pieces, target_gpus, strict=False))
    nest = nest_of(type(inputs)) if isinstance(inputs, (tuple, list, dict)) and inputs else None
    if nest is not None:
        children, context = nest.flatten(inputs)
        columns = zip(*(scatter(child, target_gpus, dim) for child in children), strict=False)
        return [nest.build(type(inputs), list(items), context) for items in columns]
    return [inputs for _ in range(n)]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """:func:`scatter` of arguments and of named ones, as many of each.

    Example::

        >>> nn.parallel.scatter_gather.scatter_kwargs((oneflow.arange(2),), {}, ["cpu", "cpu"])
        (((tensor([0]),), (tensor([1]),)), ({}, {}))
    """
    cut = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    n = max(len(cut), len(named))
    cut += [() for _ in range(n - len(cut))]
    named += [{} for _ in range(n - len(named))]
    return tuple(cut), tuple(named)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Put nests of tensors together along ``dim``, on one device.

    Example::

        >>> nn.parallel.gather([oneflow.arange(2), oneflow.arange(3)], "cpu")
        tensor([0, 1, 0, 1, 2])
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        moved = [out.to(_device(target_device)) for out in outputs]
        return oneflow.stack(moved) if first.dim() == 0 and dim == 0 else oneflow.cat(moved, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(out) != len(first) for out in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([out[key] for out in outputs], target_device, dim)) for key in first)
    made = [gather(items, target_device, dim) for items in zip(*outputs, strict=True)]
    return type(first)(*made) if hasattr(first, "_fields") else type(first)(made)


def _device(place: Any) -> Any:
    return (f"cuda:{place}" if place >= 0 else "cpu") if isinstance(place, int) else place
