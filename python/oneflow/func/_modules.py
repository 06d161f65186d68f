"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn.modules.module import Module

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


_ABSENT = object()


@contextlib.contextmanager
def replaced(module: Module, tensors: Mapping[str, Tensor], tie_weights: bool, strict: bool) -> Iterator[None]:
    """Within the context the module holds ``tensors`` in the place of what has those names.

    Names are paths to parameters, buffers or tensors that are plain attributes, also ones that are not there yet. What
    the module holds there at the end is written back into ``tensors``.
    """
    wanted = _with_ties(module, tensors) if tie_weights else dict(tensors)
    if strict:
        _check_names(module, wanted)
    places = {name: _place(module, name) for name in wanted}
    before: dict[str, Any] = {}
    try:
        for name, value in wanted.items():
            before[name] = _swap(*places[name], value)
        yield
    finally:
        # Backwards: two paths may lead to one place.
        held = {name: _swap(*places[name], value) for name, value in reversed(before.items())}
        if isinstance(tensors, MutableMapping):
            for name in [name for name in tensors if held.get(name, _ABSENT) is not _ABSENT]:
                tensors[name] = held[name]


def _named(module: Module) -> dict[str, Tensor]:
    named = dict(module.named_parameters(remove_duplicate=False))
    return {**named, **dict(module.named_buffers(remove_duplicate=False))}


def _with_ties(module: Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, each under all names of the one that it replaces."""
    owners: dict[int, list[str]] = {}
    for name, value in _named(module).items():
        owners.setdefault(id(value), []).append(name)
    wanted = dict(tensors)
    for names in owners.values():
        given = {id(tensors[name]): tensors[name] for name in names if name in tensors}
        if len(given) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. "
                "Consider using tie_weights=False"
            )
        wanted |= {name: value for value in given.values() for name in names}
    return wanted


def _check_names(module: Module, wanted: Mapping[str, Tensor]) -> None:
    known = _named(module)
    parts = []
    for what, names in (
        ("Unexpected", [name for name in wanted if name not in known]),
        ("Missing", [name for name in known if name not in wanted]),
    ):
        if names:
            parts.append(f"{what} key(s): " + ", ".join(map(repr, sorted(names))) + ".")
    if parts:
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(parts))


def _place(module: Module, name: str) -> tuple[Module, str]:
    path, _, key = name.rpartition(".")
    return module.get_submodule(path), key


def _swap(owner: Module, key: str, value: Any) -> Any:
    """Put ``value`` where ``owner`` has ``key``, and return what was there; ``_ABSENT`` for nothing."""
    if value is not None and value is not _ABSENT and not isinstance(value, Tensor):
        raise TypeError(f"functional_call: {value} for the name {key!r} is not an instance of oneflow.Tensor")
    for held in (owner._parameters, owner._buffers):
        if key in held:
            old = held[key]
            if value is _ABSENT:
                del held[key]
            else:
                held[key] = value
            return old
    old = getattr(owner, key, _ABSENT)
    if old is not _ABSENT and not isinstance(old, Tensor):
        raise TypeError(f"attribute `{key}`: {old} is not an instance of Tensor")
    if value is _ABSENT:
        if old is not _ABSENT:
            delattr(owner, key)
    else:
        setattr(owner, key, value)
    return old


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
        parameter_and_buffer_dicts: tensors by name, or several such dictionaries. Tensors that are not named stay. A
            name may be that of a plain attribute, or of one that is there for this call alone. What the module assigns
            to a name during the call is afterwards in the dictionary, if it is one.
        args: the arguments; a tuple, or the only one.
        kwargs: the arguments by name.
        tie_weights: a tensor that the module holds under several names is replaced under all of them.
        strict: all names must be given.

    Raises:
        RuntimeError: with ``strict``, names are missing or unexpected.
        ValueError: a name is in two dictionaries, or tied names get different tensors.
        TypeError: a name is that of an attribute that is no tensor.
        AttributeError: a name leads through a module that is not there.

    Example::

        >>> layer = oneflow.nn.Linear(1, 1)
        >>> oneflow.func.functional_call(
        ...     layer, {"weight": oneflow.ones(1, 1), "bias": oneflow.zeros(1)}, (oneflow.tensor([[2.0]]),)
        ... )
        tensor([[2.]])
    """
    tensors: Any
    if isinstance(parameter_and_buffer_dicts, Mapping):
        tensors = parameter_and_buffer_dicts
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
