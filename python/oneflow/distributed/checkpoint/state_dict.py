"""State dictionaries of models and optimizers by the names of parameters, whatever wraps or shards the model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor, distributed
from oneflow.distributed.checkpoint._agreement import ranks_of, settled
from oneflow.distributed.checkpoint._manifest import dtype_name, dtype_of
from oneflow.distributed.tensor import _layouts
from oneflow.nn import Module
from oneflow.optim import Optimizer

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

# What wrappers add to names.
_ADDED = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod.")


@dataclass
class StateDictOptions:
    """Options of the functions of this module.

    Args:
        full_state_dict: whole tensors in place of DTensors.
        cpu_offload: with ``full_state_dict``, the first rank alone has them; the others get empty dictionaries.
        ignore_frozen_params: leave out parameters that require no gradient.
        keep_submodule_prefixes: whether entries of chosen submodules keep the submodule's name before their own.
        strict: loading raises for missing and unexpected names, and for parameters whose optimizer's state is missing.
        broadcast_from_rank0: loading takes whole tensors of the first rank.
        flatten_optimizer_state_dict: optimizers' entries under names such as ``state.weight.exp_avg``.
        dsd_fqn_modifiers: accepted; the name of a hook of PyTorch's own.

    Example::

        >>> oneflow.distributed.checkpoint.state_dict.StateDictOptions(full_state_dict=True).strict
        True
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"

    def __post_init__(self) -> None:
        if self.broadcast_from_rank0 and not self.full_state_dict:
            raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")


class _Loaded(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]


def _clean(name: str) -> str:
    for added in _ADDED:
        name = name.replace(added, "")
    return name


def _inner(model: Module) -> Module:
    while isinstance(model, oneflow.nn.parallel.DistributedDataParallel):
        model = model.module
    return model


@contextlib.contextmanager
def _as_dtensors(model: Module) -> Iterator[None]:
    from oneflow.distributed.fsdp import FullyShardedDataParallel, StateDictType

    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        yield


def _given(value: Any, options: StateDictOptions) -> Any:
    if not isinstance(value, Tensor):
        return value
    if options.full_state_dict and value.is_global:
        return _layouts.full_tensor(value.detach())
    return value


def _left_out(options: StateDictOptions) -> bool:
    return options.full_state_dict and options.cpu_offload and distributed.get_rank() != 0


def _names(model: Module) -> dict[int, str]:
    from oneflow.distributed.fsdp._state import state_of

    for module in model.modules():
        if (state := state_of(module)) is not None:
            state.reshard()
    return {id(p): _clean(name) for name, p in _inner(model).named_parameters()}


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """Return a model's state by the names that parameters have without wrappers. All ranks call it.

    Args:
        submodules: modules of it, whose entries alone are returned.
        options: see :class:`StateDictOptions`.

    Raises:
        ValueError: one of ``submodules`` is no part of the model.

    Example::

        >>> from oneflow.distributed.checkpoint.state_dict import get_model_state_dict
        >>> list(get_model_state_dict(nn.Linear(1, 1)))
        ['weight', 'bias']
    """
    options = options or StateDictOptions()
    model = _inner(model)
    chosen = [_prefix(model, module) for module in submodules or ()]
    with _as_dtensors(model):
        state = model.state_dict()
    frozen = {_clean(name) for name, p in model.named_parameters() if not p.requires_grad}
    found = {}
    for name, value in state.items():
        name = _clean(name)
        prefix = next((prefix for prefix in chosen if name.startswith(prefix)), None)
        if (chosen and prefix is None) or (options.ignore_frozen_params and name in frozen):
            continue
        if prefix is not None and not options.keep_submodule_prefixes:
            name = name.removeprefix(prefix)
        found[name] = _given(value, options)
    return {} if _left_out(options) else found


def _prefix(model: Module, module: Module) -> str:
    """What the names of the entries of one of a model's modules begin with."""
    for name, found in model.named_modules():
        if found is module:
            return _clean(f"{name}.") if name else ""
    raise ValueError(f"a {type(module).__name__} is given that is no module of the {type(model).__name__}")


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Load what :func:`get_model_state_dict` returned, on any number of ranks; return missing and unexpected names.

    A module of the model may stand in place of a name, with a dictionary of its own entries.

    Example::

        >>> from oneflow.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
        >>> model = nn.Linear(1, 1)
        >>> set_model_state_dict(model, get_model_state_dict(model)).missing_keys
        []
    """
    options = options or StateDictOptions()
    model = _inner(model)
    state = _by_names(model, model_state_dict)
    if options.broadcast_from_rank0:
        state = _from_first(state)
    missing, unexpected = [], []
    with _as_dtensors(model), oneflow.no_grad():
        own = {_clean(name): value for name, value in model.state_dict().items()}
        extra = [name for name in state if name not in own]
        missing = [name for name in own if name not in state]
        unexpected = extra
        if options.strict and (missing or unexpected):
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(model).__name__}: missing keys {missing}, unexpected keys "
                f"{unexpected}"
            )
        renamed = {}
        for name in model.state_dict():
            if _clean(name) in state:
                renamed[name] = state[_clean(name)]
        model.load_state_dict(renamed, strict=False)
    return _Loaded(missing, unexpected)


def _by_names(model: Module, state: dict[Any, Any]) -> dict[str, Any]:
    """A state whose entries stand under names alone."""
    flat: dict[str, Any] = {}
    for key, value in state.items():
        if isinstance(key, Module):
            flat.update({_prefix(model, key) + name: entry for name, entry in value.items()})
        else:
            flat[key] = value
    return flat


def _from_first(state: Any) -> Any:
    """Whole tensors of the first rank, on all of them."""
    first = distributed.get_rank() == 0
    shapes = settled(
        "broadcast_from_rank0", lambda: oneflow.utils._pytree.tree_map(_shape_of, state), ranks_of(None, False)
    )
    leaves = iter([t for t in oneflow.utils._pytree.tree_leaves(state) if isinstance(t, Tensor)] if first else ())

    def receive(value: Any) -> Any:
        if not isinstance(value, str) or not value.startswith(_TENSOR):
            return value
        dtype, *sizes = value.removeprefix(_TENSOR).split()
        shape = [int(n) for n in sizes]
        whole = next(leaves) if first else oneflow.empty(shape, dtype=dtype_of(dtype))
        whole = _layouts.full_tensor(whole.detach()) if whole.is_global else whole.detach().contiguous()
        distributed.broadcast(whole, 0)
        return whole

    return oneflow.utils._pytree.tree_map(receive, shapes)


# In place of a tensor that follows: plain text, which every rank reads without trusting the first one.
_TENSOR = "\0tensor "


def _shape_of(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    if value.is_global and value.placement.ranks.size > 1:
        raise ValueError(
            f"broadcast_from_rank0 takes whole tensors, got one of shape {tuple(value.shape)} on {value.placement}"
        )
    return f"{_TENSOR}{dtype_name(value.dtype)} {' '.join(map(str, value.shape))}"


# ---- optimizers


def _as_list(optimizers: Any) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def _make_states(optim: Optimizer) -> None:
    """Make the states of an optimizer that has made no step, by a step that changes nothing."""
    if optim.state:
        return
    params = [p for group in optim.param_groups for p in group["params"] if p.requires_grad]
    if any(p.grad is not None for p in params):
        # Gradients wait for a step: this one must not take them.
        kept = [p.grad for p in params]
    else:
        kept = [None] * len(params)
    rates = []
    for group in optim.param_groups:
        rates.append(group.get("lr"))
        if "lr" in group:
            group["lr"] = oneflow.zeros_like(group["lr"]) if isinstance(group["lr"], Tensor) else 0.0
    for p in params:
        p.grad = oneflow.zeros_like(p)
    optim.step(closure=None)
    for p, grad in zip(params, kept, strict=True):
        p.grad = grad
    for group, rate in zip(optim.param_groups, rates, strict=True):
        if "lr" in group:
            group["lr"] = rate


# PyTorch's name for it, which its own examples import.
_init_optim_state = _make_states


def get_optimizer_state_dict(
    model: Module,
    optimizers: Any,
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """Return the state of one or several optimizers by the names of the model's parameters. All ranks call it.

    An optimizer that has made no step gets its states, so that a checkpoint can be loaded into them.

    Args:
        submodules: refused; it chooses entries of models.

    Example::

        >>> from oneflow.distributed.checkpoint.state_dict import get_optimizer_state_dict
        >>> model = nn.Linear(1, 1)
        >>> sorted(get_optimizer_state_dict(model, oneflow.optim.AdamW(model.parameters()))["state"])
        ['bias', 'weight']
    """
    if submodules and _as_list(optimizers):
        raise NotImplementedError(
            "get_optimizer_state_dict: submodules chooses entries of a model; take those of optimizers by their names"
        )
    options = options or StateDictOptions()
    names = _names(model)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optim in _as_list(optimizers):
        _make_states(optim)
        for param, values in optim.state.items():
            if isinstance(param, Tensor):
                state[_name(names, param)] = {key: _given(value, options) for key, value in values.items()}
        for group in optim.param_groups:
            own = {key: value for key, value in group.items() if key != "params"}
            groups.append({**own, "params": [_name(names, p) for p in group["params"]]})
    if _left_out(options):
        return {}
    if not options.flatten_optimizer_state_dict:
        return {"state": state, "param_groups": groups}
    flat = {f"state.{name}.{key}": value for name, values in state.items() for key, value in values.items()}
    for group in groups:
        for name in group["params"]:
            flat.update({f"param_groups.{name}.{key}": value for key, value in group.items() if key != "params"})
    return flat


def _name(names: dict[int, str], param: Tensor) -> str:
    if id(param) not in names:
        raise ValueError(
            f"an optimizer holds a parameter of shape {tuple(param.shape)} that is not the model's; make it after the "
            "model was sharded"
        )
    return names[id(param)]


def _numbered(model: Module, optim: Optimizer, given: dict[str, Any], strict: bool) -> dict[str, Any]:
    """The state of one optimizer with numbers in place of names."""
    names = _names(model)
    # As in PyTorch, groups without any state are those of an optimizer that keeps none.
    strict = strict and (not given or "state" not in given or bool(given["state"]))
    if "param_groups" not in given or not isinstance(given["param_groups"], list):
        given = _nested(names, optim, given)
    by_name = given["state"]
    group_of = {name: group for group in given["param_groups"] for name in group["params"]}
    state, groups, number = {}, [], 0
    for group in optim.param_groups:
        numbers: list[int] = []
        saved: dict[str, Any] = {}
        for param in group["params"]:
            name = _name(names, param)
            if name in by_name:
                state[number] = by_name[name]
            elif strict and param.requires_grad and _has_state(optim, param):
                raise RuntimeError(
                    f"set_optimizer_state_dict: the state of the {type(optim).__name__} for parameter {name!r} is "
                    "missing; StateDictOptions(strict=False) loads the others"
                )
            saved = group_of.get(name, saved)
            numbers.append(number)
            number += 1
        own = {key: value for key, value in group.items() if key not in ("params", "param_names")}
        # PyTorch's options that this optimizer does not have stay out.
        own.update({key: saved[key] for key in own if key in saved})
        groups.append({**own, "params": numbers})
    return {"state": state, "param_groups": groups}


def _has_state(optim: Optimizer, param: Tensor) -> bool:
    """Whether an optimizer keeps something for a parameter."""
    _make_states(optim)
    return any(value is not None for value in optim.state.get(param, {}).values())


def _nested(names: dict[int, str], optim: Optimizer, flat: dict[str, Any]) -> dict[str, Any]:
    """A flat state of an optimizer as dictionaries of dictionaries."""
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for group in optim.param_groups:
        made: dict[str, Any] = {"params": []}
        for param in group["params"]:
            name = _name(names, param)
            made["params"].append(name)
            for key, value in flat.items():
                if key.startswith(f"state.{name}."):
                    state.setdefault(name, {})[key.removeprefix(f"state.{name}.")] = value
                elif key.startswith(f"param_groups.{name}."):
                    made[key.removeprefix(f"param_groups.{name}.")] = value
        groups.append(made)
    return {"state": state, "param_groups": groups}


def set_optimizer_state_dict(
    model: Module, optimizers: Any, optim_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> None:
    """Load what :func:`get_optimizer_state_dict` returned, on any number of ranks.

    Raises:
        RuntimeError: the state of a parameter that is trained is missing, unless ``options.strict`` is false.

    Example::

        >>> from oneflow.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
        >>> model = nn.Linear(1, 1)
        >>> optimizer = oneflow.optim.AdamW(model.parameters())
        >>> set_optimizer_state_dict(model, optimizer, get_optimizer_state_dict(model, optimizer))
    """
    options = options or StateDictOptions()
    if options.broadcast_from_rank0:
        optim_state_dict = _from_first(optim_state_dict)
    for optim in _as_list(optimizers):
        optim.load_state_dict(_numbered(model, optim, optim_state_dict, options.strict))


def get_state_dict(
    model: Module,
    optimizers: Any,
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return :func:`get_model_state_dict` and :func:`get_optimizer_state_dict`.

    Example::

        >>> from oneflow.distributed.checkpoint.state_dict import get_state_dict
        >>> model = nn.Linear(1, 1)
        >>> of_model, of_optimizer = get_state_dict(model, oneflow.optim.SGD(model.parameters(), lr=0.1))
    """
    of_model = get_model_state_dict(model, submodules=submodules, options=options)
    return of_model, get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options)


def set_state_dict(
    model: Module,
    optimizers: Any,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Load both, as :func:`set_model_state_dict` and :func:`set_optimizer_state_dict` do.

    Example::

        >>> from oneflow.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
        >>> model = nn.Linear(1, 1)
        >>> optimizer = oneflow.optim.SGD(model.parameters(), lr=0.1)
        >>> ours, its = get_state_dict(model, optimizer)
        >>> set_state_dict(model, optimizer, model_state_dict=ours, optim_state_dict=its).missing_keys
        []
    """
    found = _Loaded([], [])
    if model_state_dict:
        found = set_model_state_dict(model, model_state_dict, options=options)
    if optim_state_dict:
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found
