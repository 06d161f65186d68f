"""Helpers of wrappers of modules: PyTorch's private names in ``torch.distributed.utils``, which packages import."""

from __future__ import annotations

import dataclasses
import traceback
from collections import OrderedDict
from collections.abc import Callable, Container
from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.nn import Module
from oneflow.nn.utils.rnn import PackedSequence

__all__: list[str] = []


def _pack_kwargs(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """Return all values, positional ones first, and the names of the others."""
    return (*args, *kwargs.values()), tuple(kwargs)


def _unpack_kwargs(flat_args: tuple[Any, ...], kwarg_keys: tuple[str, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the named values of :func:`_pack_kwargs`."""
    n = len(flat_args) - len(kwarg_keys)
    if n < 0:
        raise AssertionError(f"too many keys {len(kwarg_keys)} vs. {len(flat_args)}")
    return flat_args[:n], dict(zip(kwarg_keys, flat_args[n:], strict=True))


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _apply_to_tensors(fn: Callable[[Tensor], Any], container: Any) -> Any:
    """Return a container with ``fn`` of its tensors, in nested containers and data classes too."""
    if isinstance(container, Tensor):
        return fn(container)
    if isinstance(container, PackedSequence):
        # PyTorch calls the function and keeps the sequence.
        fn(container.data)
        return container
    if dataclasses.is_dataclass(container) and not isinstance(container, type):
        names = [field.name for field in dataclasses.fields(container)]
        changed = {name: _apply_to_tensors(fn, getattr(container, name)) for name in names}
        return dataclasses.replace(container, **changed)
    if isinstance(container, dict):
        kind = type(container) if isinstance(container, OrderedDict) else dict
        return kind((key, _apply_to_tensors(fn, value)) for key, value in container.items())
    if _is_named_tuple(container):
        return type(container)(*(_apply_to_tensors(fn, value) for value in container))
    if isinstance(container, (list, tuple, set)):
        return type(container)(_apply_to_tensors(fn, value) for value in container)
    return container


def _cast_forward_inputs(dtype: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Return arguments with floating point tensors in ``dtype``; with None as they are."""
    if dtype is None:
        return args, kwargs

    def cast(x: Tensor) -> Tensor:
        return x.to(dtype) if x.is_floating_point() else x

    return _apply_to_tensors(cast, args), _apply_to_tensors(cast, kwargs)


def _recursive_to(inputs: Any, target_device: Any, use_side_stream_for_tensor_copies: bool) -> list[Any]:
    """Return one list element: the inputs with tensors on a device. Containers without a tensor to move are kept.

    Copies are in the order of the current stream, whatever ``use_side_stream_for_tensor_copies`` says.
    """
    return [_moved(inputs, oneflow.device(target_device))]


def _moved(value: Any, device: Any) -> Any:
    if isinstance(value, (Tensor, PackedSequence)):
        here = value.data.device if isinstance(value, PackedSequence) else value.device
        return value if here == device else value.to(device)
    if not isinstance(value, (tuple, list, dict)) or not value:
        return value
    old = list(value.values()) if isinstance(value, dict) else list(value)
    new = [_moved(item, device) for item in old]
    if all(a is b for a, b in zip(old, new, strict=True)):
        return value
    if isinstance(value, dict):
        return type(value)(zip(value, new, strict=True))
    if _is_named_tuple(value):
        return type(value)(*new)
    return tuple(new) if isinstance(value, tuple) else new


def _to_kwargs(
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    target_device: Any,
    use_side_stream_for_tensor_copies: bool,
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Return positional and named arguments on a device, each in a tuple of one; empty tuples if there are none."""
    if not inputs and not kwargs:
        return (), ()
    (moved,) = _recursive_to(inputs, target_device, use_side_stream_for_tensor_copies)
    (named,) = _recursive_to(kwargs or {}, target_device, use_side_stream_for_tensor_copies)
    return (moved,), (named,)


def _p_assert(cond: Any, s: str, raise_assertion_error: bool = True) -> None:
    """Print ``s`` and the stack if ``cond`` is false, and raise: in a backward the error alone may be lost."""
    if not cond:
        print(s)  # noqa: T201
        traceback.print_stack()
        if raise_assertion_error:
            raise AssertionError(s)


def _alloc_storage(tensor: Tensor, size: Any) -> None:
    """Give a tensor whose storage was freed room for ``size``; its elements are not set."""
    storage, n_bytes = tensor.untyped_storage(), size.numel() * tensor.element_size()
    if storage.nbytes() == n_bytes:
        return
    _p_assert(storage.nbytes() == 0, f"_alloc_storage: the storage has {storage.nbytes()} bytes and must have none")
    storage.resize_(n_bytes)


def _free_storage(tensor: Tensor) -> None:
    """Free the memory behind a tensor that begins where its storage does."""
    storage = tensor.untyped_storage()
    if storage.nbytes() == 0:
        return
    _p_assert(
        tensor.storage_offset() == 0,
        "Freeing a tensor's storage is unsafe when it is not the sole occupant\n"
        f"storage offset: {tensor.storage_offset()}\nstorage size: {storage.nbytes()} bytes\n"
        f"tensor shape: {tuple(tensor.shape)}",
    )
    storage.resize_(0)


def _data_ptr_allocated(tensor: Tensor) -> bool:
    """Whether a tensor has memory."""
    storage = tensor.untyped_storage()
    return storage.nbytes() > 0 and storage.data_ptr() > 0


def _verify_param_shape_across_processes(process_group: Any, tensors: list[Tensor], logger: Any = None) -> None:
    """Raise on all ranks unless each has as many tensors, of the same shapes and dtypes.

    Raises:
        RuntimeError: it names the ranks that differ from the first.
    """
    own = [(list(x.shape), str(x.dtype)) for x in tensors]
    every: list[Any] = [None] * distributed.get_world_size(process_group)
    distributed.all_gather_object(every, own, process_group)
    others = [rank for rank, found in enumerate(every) if found != every[0]]
    if not others:
        return
    found = every[others[0]]
    if len(found) != len(every[0]):
        said = f"{len(found)} parameters on rank {others[0]} and {len(every[0])} on rank 0"
    else:
        i = next(i for i, (a, b) in enumerate(zip(found, every[0], strict=True)) if a != b)
        said = f"parameter {i} is {found[i]} on rank {others[0]} and {every[0][i]} on rank 0"
    raise RuntimeError(f"DDP expects same model across all ranks, but ranks {others} differ from rank 0: {said}")


def _sync_module_states(
    module: Module,
    process_group: Any,
    broadcast_bucket_size: int,
    src: int,
    params_and_buffers_to_ignore: Container[str],
    broadcast_buffers: bool = True,
) -> None:
    """Overwrite parameters and buffers with those of rank ``src`` of the group; names to ignore are left."""
    named = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    states = [value.detach() for name, value in named if name not in params_and_buffers_to_ignore]
    _sync_params_and_buffers(process_group, states, broadcast_bucket_size, src)


def _sync_params_and_buffers(
    process_group: Any, module_states: list[Tensor], broadcast_bucket_size: int, src: int
) -> None:
    """Overwrite tensors with those of rank ``src`` of the group, some ``broadcast_bucket_size`` bytes at a time."""
    if module_states:
        distributed._broadcast_coalesced(process_group, module_states, broadcast_bucket_size, src)


def _replace_by_prefix(state_dict: dict[str, Any], old_prefix: str, new_prefix: str) -> None:
    """Rename the keys that begin with ``old_prefix``, in place.

    Raises:
        ValueError: the prefixes are equal.
    """
    if old_prefix == new_prefix:
        raise ValueError("old_prefix and new_prefix must be distinct")
    for key in [key for key in state_dict if key.startswith(old_prefix)]:
        state_dict[new_prefix + key[len(old_prefix) :]] = state_dict.pop(key)


def _get_root_modules(modules: list[Module]) -> list[Module]:
    """Return the modules that are inside no other of them."""
    inside = {id(sub) for module in modules for sub in module.modules() if sub is not module}
    return [module for module in modules if id(module) not in inside]
