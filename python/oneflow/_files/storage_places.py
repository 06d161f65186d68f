"""Where the storages of a checkpoint lie: tags written by ``save``, devices chosen by ``load``."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.storage import TypedStorage, UntypedStorage

__all__ = ["default_restore_location", "location_tag", "register_package", "relocate"]

_Tagger = Callable[[Any], "str | None"]
_Restorer = Callable[[Any, str], Any]
_packages: list[tuple[int, _Tagger, _Restorer]] = []


def register_package(priority: int, tagger: _Tagger, deserializer: _Restorer) -> None:
    """Register how storages of a kind are tagged by ``save`` and put in place by ``load``.

    Args:
        priority: of several registrations those with lower numbers are asked first; the built-in ones, for "cpu",
            "cuda" and "meta", have 10, 20 and 22.
        tagger: called with a storage; returns its tag, or None to leave it to the next one.
        deserializer: called with a storage in memory and its tag; returns the storage in its place, or None.

    Example::

        >>> def tag(storage):
        ...     return None
        >>> def restore(storage, location):
        ...     return storage if location == "archive" else None
        >>> oneflow.serialization.register_package(5, tag, restore)
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=operator.itemgetter(0))


def location_tag(storage: Any) -> str:
    """Return the tag that ``save`` writes for a storage: what a registered package says, or its device.

    Example::

        >>> oneflow.serialization.location_tag(oneflow.ones(2).untyped_storage())
        'cpu'
    """
    for _, tagger, _ in _packages:
        tag = tagger(storage)
        if tag:
            return tag
    return str(storage.device)


def default_restore_location(storage: Any, location: str) -> Any:
    """Return a storage that was read into memory in the place that its tag names.

    Args:
        storage: the storage, in memory.
        location: its tag in the file.

    Raises:
        RuntimeError: the device is not available, or no registered package knows the tag.

    Example::

        >>> storage = oneflow.ones(2).untyped_storage()
        >>> oneflow.serialization.default_restore_location(storage, "cpu").nbytes()
        8
    """
    for _, _, restore in _packages:
        placed = restore(storage, location)
        if placed is not None:
            return placed
    try:
        # A device without a package of its own.
        return storage._tensor().to(location).untyped_storage()
    except Exception as error:
        raise RuntimeError(
            f"don't know how to restore data location of {type(storage).__name__} (tagged with {location}): "
            f"{error}. Use load with map_location='cpu'"
        ) from error


def relocate(flat: Tensor, location: str, map_location: Any) -> Tensor:
    """Return a whole storage, as a 1-D tensor on the CPU, where ``map_location`` of ``load`` puts it."""
    if callable(map_location):
        placed = map_location(flat.untyped_storage(), location)
        if placed is None:
            placed = default_restore_location(flat.untyped_storage(), location)
        return _over(placed, flat)
    if isinstance(map_location, dict):
        location = str(map_location.get(location, location))
    elif map_location is not None:
        location = str(map_location)
    if location == "cpu" and len(_packages) == _N_BUILT_IN:
        return flat
    return _over(default_restore_location(flat.untyped_storage(), location), flat)


def _over(placed: Any, flat: Tensor) -> Tensor:
    if isinstance(placed, TypedStorage):
        placed = placed.untyped()
    if isinstance(placed, Tensor):
        return placed
    if not isinstance(placed, UntypedStorage):
        raise TypeError(f"load: a storage was to be placed, and {type(placed).__name__} came back")
    if placed.device.type == "meta":
        return oneflow.empty((flat.numel(),), dtype=flat.dtype, device="meta")
    if placed._cdata == flat.untyped_storage()._cdata:
        return flat
    return oneflow.empty((0,), dtype=flat.dtype, device=placed.device).set_(placed)


def _kind(location: str) -> str:
    return location.partition(":")[0]


def _tag_of(kind: str) -> _Tagger:
    return lambda storage: str(storage.device) if storage.device.type == kind else None


def _restore_cpu(storage: Any, location: str) -> Any:
    return storage if _kind(location) == "cpu" else None


def _restore_cuda(storage: Any, location: str) -> Any:
    if _kind(location) != "cuda":
        return None
    if not oneflow.cuda.is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but oneflow.cuda.is_available() is False. "
            "If this machine has only a CPU, use load with map_location=oneflow.device('cpu')."
        )
    index, n = int(location.partition(":")[2] or oneflow.cuda.current_device()), oneflow.cuda.device_count()
    if index >= n:
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but oneflow.cuda.device_count() is {n}. "
            "Use load with map_location to put the storages on an existing device."
        )
    return storage._tensor().to(oneflow.device("cuda", index)).untyped_storage()


def _restore_meta(storage: Any, location: str) -> Any:
    return UntypedStorage(storage.nbytes(), device="meta") if _kind(location) == "meta" else None


register_package(10, _tag_of("cpu"), _restore_cpu)
register_package(20, _tag_of("cuda"), _restore_cuda)
register_package(22, _tag_of("meta"), _restore_meta)
_N_BUILT_IN = len(_packages)
