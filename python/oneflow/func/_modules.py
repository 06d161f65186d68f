"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn.modules.module import Module

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


@contextlib.contextmanager
def replaced(module: Module, tensors: Mapping[str, Tensor], tie_weights: bool, strict: bool) -> Iterator[None]:
    """Within the context the module holds ``tensors`` in the place of its parameters and buffers of those names."""
    places: dict[str, tuple[dict[str, Any], str]] = {}
    owners: dict[int, list[str]] = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for held in (part._parameters, part._buffers):
            for key, value in held.items():
                name = f"{prefix}.{key}" if prefix else key
                places[name] = (held, key)
                if value is not None:
                    owners.setdefault(id(value), []).append(name)
    unexpected = [name for name in tensors if name not in places]
    missing = [name for name in places if name not in tensors and places[name][0][places[name][1]] is not None]
    wanted = dict(tensors)
    if tie_weights:
        for names in owners.values():
            given = {id(tensors[name]): tensors[name] for name in names if name in tensors}
            if len(given) > 1:
                raise ValueError(f"functional_call got multiple values for keys {names}, which are tied.")
            wanted |= {name: value for value in given.values() for name in names}
        missing = [name for name in missing if name not in wanted]
    if strict and (unexpected or missing):
        parts = []
        if unexpected:
            parts.append("Unexpected key(s): " + ", ".join(unexpected) + ".")
        if missing:
            parts.append("Missing key(s): " + ", ".join(missing) + ".")
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(parts))
    wanted = {name: value for name, value in wanted.items() if name in places}
    before = {name: places[name][0][places[name][1]] for name in wanted}
    try:
        for name, value in wanted.items():
            held, key = places[name]
            held[key] = value
        yield
    finally:
        for name, value in before.items():
            held, key = places[name]
            held[key] = value


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers; the module keeps its own.

    Args:
        parameter_and_buffer_dicts: tensors by name, or several such dictionaries. Tensors that are not named stay.
        args: the arguments; a tuple, or the only one.
        kwargs: the arguments by name.
        tie_weights: a tensor that the module holds under several names is replaced under all of them.
        strict: all names must be given.

    Raises:
        RuntimeError: with ``strict``, names are missing or unexpected.
        ValueError: a name is in two dictionaries, or tied names get different tensors.

    Example::

        >>> layer = oneflow.nn.Linear(1, 1)
        >>> oneflow.func.functional_call(
        ...     layer, {"weight": oneflow.ones(1, 1), "bias": oneflow.zeros(1)}, (oneflow.tensor([[2.0]]),)
        ... )
        tensor([[2.]])
    """
    if isinstance(parameter_and_buffer_dicts, Mapping):
        tensors = dict(parameter_and_buffer_dicts)
    elif not isinstance(parameter_and_buffer_dicts, (list, tuple)):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts)}"
        )
    else:
        tensors = {}
        for part in parameter_and_buffer_dicts:
            twice = [name for name in part if name in tensors]
            if twice:
                raise ValueError(f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous")
            tensors |= part
    given = () if args is None else args if isinstance(args, tuple) else (args,)
    with replaced(module, tensors, tie_weights, strict):
        return module(*given, **(kwargs or {}))


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Parameters and buffers of modules of one kind, stacked along a new first dimension.

    Returns:
        two dictionaries by name, for :func:`functional_call` under :func:`vmap`. Parameters are leaves that want a
        gradient where all modules' do.

    Raises:
        RuntimeError: no module, modules in different modes or of different kinds, or some that want gradients.

    Example::

        >>> params, buffers = oneflow.func.stack_module_state([nn.Linear(2, 1), nn.Linear(2, 1)])
        >>> params["weight"].shape
        oneflow.Size([2, 1, 2])
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = _stacked([dict(m.named_parameters()) for m in models], leaves=True)
    return parameters, _stacked([dict(m.named_buffers()) for m in models], leaves=False)


def _stacked(states: list[dict[str, Any]], leaves: bool) -> dict[str, Tensor]:
    result = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        wanting = {t.requires_grad for t in tensors}
        if len(wanting) > 1:
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
        if leaves:
            with oneflow.no_grad():
                stacked = oneflow.stack(tensors)
            result[name] = stacked.requires_grad_(wanting.pop())
        else:
            result[name] = oneflow.stack(tensors)
    return result


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let every batch norm below ``root`` compute from its batch alone, without running statistics.

    Example::

        >>> m = oneflow.func.replace_all_batch_norm_modules_(nn.Sequential(nn.BatchNorm1d(2)))
        >>> m[0].track_running_stats
        False
    """
    for module in root.modules():
        if isinstance(module, oneflow.nn.modules.batchnorm._BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
