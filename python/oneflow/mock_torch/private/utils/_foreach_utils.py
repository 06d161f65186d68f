"""``torch.utils._foreach_utils``: which devices have multi-tensor kernels, and lists of tensors by device and dtype."""

from __future__ import annotations

from typing import Any

__all__: list[str] = []

Key = tuple[Any, Any]


def _get_foreach_kernels_supported_devices() -> list[str]:
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    return ["cuda", "cpu"]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Any]], with_indices: bool = False
) -> dict[Key, tuple[list[list[Any]], list[int]]]:
    """The lists taken apart by device and dtype of the first one's tensors, with their places if asked for."""
    groups: dict[Key, tuple[list[list[Any]], list[int]]] = {}
    for i, first in enumerate(tensorlistlist[0]):
        lists, places = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for target, source in zip(lists, tensorlistlist, strict=True):
            if source:
                target.append(source[i])
        if with_indices:
            places.append(i)
    return groups


def _device_has_foreach_support(device: Any) -> bool:
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: list[Any], device: Any) -> bool:
    return _device_has_foreach_support(device) and all(t is None or t.device.type == device.type for t in tensors)
