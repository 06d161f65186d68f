"""Lists of samples to batches."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.utils.data._shared import batch_tensor


def default_convert(data: Any) -> Any:
    """Turn arrays inside ``data`` into tensors and leave the rest as it is.

    Example::

        >>> oneflow.utils.data.default_convert([1.0, "a"])
        [1.0, 'a']
    """
    if isinstance(data, Tensor) or isinstance(data, (str, bytes)):
        return data
    if type(data).__module__ == "numpy":
        return oneflow.as_tensor(data) if data.dtype.kind not in "SUO" else data
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence):
        return _like(data, [default_convert(value) for value in data])
    return data


def _like(first: Any, made: Any) -> Any:
    """Return the samples in their own kind of container, if it can be constructed from them."""
    if type(first) in (dict, list, tuple):
        return made
    try:
        if isinstance(first, MutableMapping):
            # A copy keeps what the class holds besides, such as a default factory.
            kept = copy.copy(first)
            kept.update(made)
            return kept
        return type(first)(made)
    except TypeError:
        return made


def default_collate(batch: Sequence[Any]) -> Any:
    """Join samples of one structure: tensors and arrays are stacked, numbers become a tensor, containers recurse.

    Raises:
        RuntimeError: sequences of different lengths.
        TypeError: samples of an unsupported type.

    Example::

        >>> default_collate([{"x": 1}, {"x": 2}])
        {'x': tensor([1, 2])}
    """
    first = batch[0]
    if isinstance(first, Tensor):
        batch = list(batch)
        # A worker collates into shared memory, so that the batch is not copied again.
        out = batch_tensor((len(batch), *first.shape), first.dtype) if first.device.type == "cpu" else None
        return oneflow.stack(batch, 0) if out is None or first.requires_grad else oneflow.stack(batch, 0, out=out)
    if type(first).__module__ == "numpy":
        if first.dtype.kind in "SUO":
            raise TypeError(
                "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
                f"found {first.dtype}"
            )
        if getattr(first, "shape", None) == ():
            return oneflow.stack([oneflow.as_tensor(value) for value in batch])
        return default_collate([oneflow.as_tensor(value) for value in batch])
    if isinstance(first, float):
        return oneflow.tensor(list(batch), dtype=oneflow.float64)
    if isinstance(first, int):
        return oneflow.tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _like(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(values) for values in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        joined = [default_collate(values) for values in zip(*batch, strict=True)]
        return joined if isinstance(first, tuple) else _like(first, joined)
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}"
    )
