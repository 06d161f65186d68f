"""Lists of samples to batches."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.utils.data._shared import batch_tensor

# What joins samples, by class.
Joins = dict[Any, Callable[..., Any]]
# Arrays of texts and objects, which no tensor holds.
np_str_obj_array_pattern = re.compile(r"[SaUO]")


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


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: Joins | None = None) -> Tensor:
    """Stack tensors.

    Example::

        >>> from oneflow.utils.data.collate import collate_tensor_fn
        >>> collate_tensor_fn([oneflow.tensor(1), oneflow.tensor(2)])
        tensor([1, 2])
    """
    first, batch = batch[0], list(batch)
    # A worker collates into shared memory, so that the batch is not copied again.
    out = batch_tensor((len(batch), *first.shape), first.dtype) if first.device.type == "cpu" else None
    return oneflow.stack(batch, 0) if out is None or first.requires_grad else oneflow.stack(batch, 0, out=out)


def _collate_arrays(batch: Sequence[Any], joins: Joins) -> Any:
    """Stack arrays and numbers of NumPy."""
    first = batch[0]
    if np_str_obj_array_pattern.search(first.dtype.str) is not None:
        raise TypeError(
            f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {first.dtype}"
        )
    tensors = [oneflow.as_tensor(value) for value in batch]
    return oneflow.stack(tensors) if first.shape == () else collate(tensors, collate_fn_map=joins)


def _collate_floats(batch: Sequence[float], *, collate_fn_map: Joins | None = None) -> Tensor:
    return oneflow.tensor(list(batch), dtype=oneflow.float64)


def _collate_ints(batch: Sequence[int], *, collate_fn_map: Joins | None = None) -> Tensor:
    return oneflow.tensor(list(batch))


def _collate_texts(batch: Sequence[Any], *, collate_fn_map: Joins | None = None) -> Sequence[Any]:
    return batch


# How samples of a class are joined. A package adds its own classes.
default_collate_fn_map: Joins = {
    Tensor: collate_tensor_fn,
    float: _collate_floats,
    int: _collate_ints,
    str: _collate_texts,
    bytes: _collate_texts,
}


def collate(batch: Sequence[Any], *, collate_fn_map: Joins | None = None) -> Any:
    """Join samples of one structure with a function for each class of leaves; containers recurse.

    Args:
        collate_fn_map: by class, or tuple of classes, what joins samples of it: called with the list of samples and
            ``collate_fn_map`` itself.

    Example::

        >>> from oneflow.utils.data.collate import collate
        >>> collate([{"x": 1}, {"x": 2}], collate_fn_map={int: lambda batch, *, collate_fn_map: sum(batch)})
        {'x': 3}
    """
    first = batch[0]
    joins = collate_fn_map or {}
    join = joins.get(type(first)) or next((f for kinds, f in joins.items() if isinstance(first, kinds)), None)
    if join is not None:
        return join(batch, collate_fn_map=collate_fn_map)
    if type(first).__module__ == "numpy":
        return _collate_arrays(batch, joins)
    if isinstance(first, Mapping):
        return _like(
            first, {key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map) for key in first}
        )
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(collate(values, collate_fn_map=collate_fn_map) for values in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        joined = [collate(values, collate_fn_map=collate_fn_map) for values in zip(*batch, strict=True)]
        return joined if isinstance(first, tuple) else _like(first, joined)
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}"
    )


def default_collate(batch: Sequence[Any]) -> Any:
    """Join samples of one structure: tensors and arrays are stacked, numbers become a tensor, containers recurse.

    Raises:
        RuntimeError: sequences of different lengths.
        TypeError: samples of an unsupported type.

    Example::

        >>> default_collate([{"x": 1}, {"x": 2}])
        {'x': tensor([1, 2])}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
