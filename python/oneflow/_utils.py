"""Helpers that packages import from PyTorch's private module of this name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._tensor.methods import set_state as _set_obj_state

__all__ = [
    "_element_size",
    "_flatten_dense_tensors",
    "_is_privateuse1_backend_available",
    "_set_obj_state",
    "_take_tensors",
    "_unflatten_dense_tensors",
]


def _element_size(dtype: Any) -> int:
    """Bytes of an element."""
    return int(dtype.itemsize)


def _is_privateuse1_backend_available() -> bool:
    """False: PyTorch's spare device type has no module here."""
    return False


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """One vector of all elements of tensors of one dtype, in their order."""
    return oneflow.cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Views of parts of ``flat`` with the shapes of ``tensors``."""
    like = list(tensors)
    parts = flat.split([tensor.numel() for tensor in like])
    return tuple(part.view(tensor.shape) for part, tensor in zip(parts, like, strict=True))


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Groups of tensors of one dtype, of at most ``size_limit`` bytes where they are several, in their order."""
    groups: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        group = groups.setdefault(tensor.type(), [])
        if group and sum(t.nbytes for t in group) + tensor.nbytes > size_limit:
            yield group
            group = groups[tensor.type()] = []
        group.append(tensor)
    yield from groups.values()


def _get_available_device_type() -> str | None:
    """The kind of accelerator that there is."""
    return "cuda" if oneflow.cuda.is_available() else None


def _get_device_module(device_type: str) -> Any:
    """The package of a kind of device, such as :mod:`oneflow.cuda`."""
    return oneflow.get_device_module(device_type)
