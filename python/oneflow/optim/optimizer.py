"""Optimizer: parameter groups, state, state dictionaries and hooks. The arithmetic is in the subclasses."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

import numpy

import oneflow
from oneflow import Tensor
from oneflow._base import conventions
from oneflow._base.global_layouts import distribute_like, gather_full
from oneflow._oneflow import _profiler_on
from oneflow._trace.offload import made_state
from oneflow.autograd.grad_mode import enable_grad, no_grad
from oneflow.profiler import record_function
from oneflow.utils.hooks import RemovableHandle, register

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

Group = dict[str, Any]
# Types that programs name in annotations, as ParamsT below.
Args = tuple[Any, ...]
Kwargs = dict[str, Any]
StateDict = dict[str, Any]
DeviceDict = dict[oneflow.device | None, Tensor]
DeviceDtypeDict = dict[tuple[oneflow.device, oneflow.dtype] | None, Tensor]
# Hooks of all optimizers.
_all_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_all_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
# The type of an optimizer's first argument, for annotations.
ParamsT = Iterable[Tensor] | Iterable[Group] | Iterable[tuple[str, Tensor]]
GlobalOptimizerPreHook = Callable[["Optimizer", Args, Kwargs], tuple[Args, Kwargs] | None]
GlobalOptimizerPostHook = Callable[["Optimizer", Args, Kwargs], None]


class Optimizer:
    """Base class of optimizers.

    Args:
        params: tensors, (name, tensor) pairs, or dictionaries with "params" and further options.
        defaults: options of every group that does not set them.

    Subclasses define ``_update(group)``, or override ``step`` as a whole.

    Numbers that change from step to step (learning rate, step count) reach the ops as 0-dim tensors, so a traced step
    stays right when they change. So does a vector of the options that ``_rule`` names, such as momentum and betas.

    Example::

        >>> isinstance(oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=0.1), oneflow.optim.Optimizer)
        True
    """

    # Settings that reach a traced step as numbers of its rule alone.
    _live: frozenset[str] = frozenset()

    def __init__(self, params: Any, defaults: Group) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type(params).__name__}"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._reset_hooks()
        groups = list(params)
        if not groups and not conventions.are_oneflows():
            raise ValueError(f"optimizer got an empty parameter list {conventions.HINT}")
        if not groups or not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    # Whether a group's lr_scale counts: in the steps of a graph. Eager schedules multiply it in themselves.
    _scales_lr = False

    # Whether some group holds a parameter several times, and whether parameters and their states lie in files.
    _repeats = _has_files = False
    # Whether step counts are tensors.
    _counts_in_tensors = True

    def _reset_hooks(self) -> None:
        self._opt_called = False
        # The function behind `step` when the last schedule was created, so that a replacement can be detected.
        self._step_at_schedule: Any = None
        self._lr_tensors: dict[int, tuple[float, Tensor]] = {}
        self._live_tensors: dict[int, tuple[list[float], Tensor]] = {}
        # Per group what it held when its constants were last looked at, and those.
        self._seen: dict[int, tuple[Group, tuple[Any, ...]]] = {}
        self._pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._state_dict_hooks: dict[str, OrderedDict[int, Callable[..., Any]]] = {
            kind: OrderedDict() for kind in ("save_pre", "save_post", "load_pre", "load_post")
        }

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            # A step written by a user still runs the hooks and is seen by schedulers.
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_pre_hooks" not in self.__dict__:
            self._reset_hooks()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] * (i > 0) + [f"Parameter Group {i}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # ---- groups

    def add_param_group(self, param_group: Group) -> None:
        """Add a group: a dictionary with "params" and any options that differ from the defaults.

        Raises:
            TypeError: it is no dictionary, or holds something that is no tensor.
            ValueError: a parameter is no leaf, or already in a group, or an option is missing.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                "will change between runs. Please use a list instead."
            )
        members: list[Any] = [params] if isinstance(params, Tensor) else list(params)
        names = [member[0] for member in members if isinstance(member, tuple)]
        if names:
            if len(names) != len(members):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            param_group["param_names"] = names
            members = [param for _, param in members]
        param_group["params"] = members
        self._has_files |= any(getattr(param, "_offload_folder", None) is not None for param in members)
        for param in members:
            if not isinstance(param, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}")
            if not (param.is_leaf or param.retains_grad or self.defaults.get("differentiable")):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is REQUIRED and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len({id(param) for param in members}) != len(members):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; each is updated once for every time",
                stacklevel=3,
            )
            self._repeats = True
        for group in self.param_groups:
            if ("param_names" in group) != ("param_names" in param_group):
                how = "with names" if "param_names" in param_group else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {how} to the optimizer"
                )
        known = {id(param) for group in self.param_groups for param in group["params"]}
        if any(id(param) in known for param in members):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters: drop them, or fill them with zero."""
        if _profiler_on():
            with record_function(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"):
                return self._zero_grad(set_to_none)
        return self._zero_grad(set_to_none)

    def _zero_grad(self, set_to_none: bool) -> None:
        for group in self.param_groups:
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if set_to_none:
                    param.grad = None
                else:
                    with no_grad():
                        grad.detach_() if grad.grad_fn is not None else grad.requires_grad_(False)
                        grad.zero_()

    # ---- stepping

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient.

        Args:
            closure: computes the loss again, with gradients, and returns it.

        Returns:
            the closure's loss, or None.
        """
        if _profiler_on():
            with record_function(f"Optimizer.step#{type(self).__name__}.step"):
                return self._step(closure)
        return self._step(closure)

    def _step(self, closure: Callable[[], Any] | None) -> Any:
        args: tuple[Any, ...] = (self,) if closure is None else (self, closure)
        kwargs: dict[str, Any] = {}
        if self._pre_hooks or _all_pre_hooks:
            args, kwargs = _before(self, args, kwargs)
            closure = args[1] if len(args) > 1 else kwargs.get("closure")
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._opt_called = True
        before, during = oneflow.is_grad_enabled(), bool(self.defaults.get("differentiable"))
        if before is not during:
            oneflow._oneflow.set_grad_enabled(during)
        try:
            for i, group in enumerate(self.param_groups):
                lr = self._lr_tensor(i, group)
                if self._scales_lr and group.get("lr_scale") is not None:
                    lr = lr * float(group["lr_scale"])
                for part in _rounds(group) if self._repeats else (group,):
                    self._update(part, lr)
        finally:
            if before is not during:
                oneflow._oneflow.set_grad_enabled(before)
        if self._post_hooks or _all_post_hooks:
            _after(self, args, kwargs)
        return loss

    def _update(self, group: Group, lr: Tensor) -> None:
        raise NotImplementedError(f"{type(self).__name__} defines neither _update nor step")

    def _lr_tensor(self, index: int, group: Group) -> Tensor:
        """The group's learning rate as a 0-dim float64 tensor that keeps its identity while its value changes."""
        lr = group["lr"]
        if isinstance(lr, Tensor):
            return lr
        known = self._lr_tensors.get(index)
        if known is None:
            params = group["params"]
            tensor = oneflow.tensor(
                float(lr), dtype=oneflow.float64, device=local_device(params[0]) if params else None
            )
        elif known[0] == lr:
            return known[1]
        else:
            tensor = known[1].fill_(float(lr))
        self._lr_tensors[index] = (lr, tensor)
        return tensor

    def _rule(self, group: Group) -> tuple[str, list[float]] | None:
        """Name and options of the rule by which the group is updated, if it is one."""
        return None

    def _live_tensor(self, group: Group) -> Tensor | None:
        """The options of the group's rule as a tensor that keeps its identity while they change; in a trace only."""
        if not oneflow._oneflow._is_tracing():
            return None
        index = next((i for i, known in enumerate(self.param_groups) if known is group), None)
        known = None if index is None else self._live_tensors.get(index)
        return None if known is None else known[1]

    def _refresh_live(self, index: int, group: Group) -> None:
        rule, known = self._rule(group), self._live_tensors.get(index)
        if rule is None or (known is not None and known[0] == rule[1]):
            return
        values = oneflow.tensor([float(v) for v in rule[1]], dtype=oneflow.float64)
        if known is not None:
            values = known[1].copy_(values)
        elif group["params"]:
            values = values.to(local_device(group["params"][0]))
        self._live_tensors[index] = (rule[1], values)

    def _constants(self) -> list[tuple[str | None, Any]]:
        """Return what a traced step treats as constants, as (name, value); update the numbers that it reads."""
        result: list[tuple[str | None, Any]] = []
        for i, group in enumerate(self.param_groups):
            seen = self._seen.get(i)
            if seen is None or seen[0] != group:
                seen = (dict(group), self._look_at(i, group))
                if not any(isinstance(v, (list, dict)) for k, v in group.items() if k not in _NO_CONSTANTS):
                    self._seen[i] = seen
            result += seen[1]
        return result

    def _look_at(self, index: int, group: Group) -> tuple[Any, ...]:
        if index in self._lr_tensors:
            self._lr_tensor(index, group)
        if index in self._live_tensors:
            with no_grad():
                self._refresh_live(index, group)
        rule = self._rule(group)
        names = [name for name in group if name not in _NO_CONSTANTS and (rule is None or name not in self._live)]
        if type(self)._update is Optimizer._update:
            # A step that a subclass defines reads the learning rate as a number.
            names.append("lr")
        values = [group[name] for name in names]
        plain = [repr(value) if isinstance(value, (list, dict)) else value for value in values]
        return ((None, rule and rule[0]), *zip(names, plain, strict=True))

    def clip_grad(self, error_if_nonfinite: bool = False) -> None:
        """Clip the norm of each group's gradients to its ``clip_grad_max_norm``, by its ``clip_grad_norm_type`` (2).

        Groups without the former stay as they are. A graph does this by itself before the optimizer's step.

        Args:
            error_if_nonfinite: raise where a norm is not finite.

        Example::

            >>> p = oneflow.nn.Parameter(oneflow.ones(2))
            >>> optimizer = oneflow.optim.SGD([{"params": [p], "clip_grad_max_norm": 1.0}], lr=0.1)
            >>> (p * oneflow.tensor([3.0, 4.0])).sum().backward()
            >>> optimizer.clip_grad()
            >>> p.grad
            tensor([0.6000, 0.8000])
        """
        for group in self.param_groups:
            if group.get("clip_grad_max_norm") is not None:
                oneflow.nn.utils.clip_grad_norm_(
                    group["params"],
                    group["clip_grad_max_norm"],
                    group.get("clip_grad_norm_type", 2.0),
                    error_if_nonfinite,
                )

    def prepare(self) -> None:
        """Create all state and bring the tensors of settings up to date, without updating any parameter.

        A graph calls it before tracing ``step``, so that state is an input, not part of the program.
        """
        with no_grad():
            for i, group in enumerate(self.param_groups):
                self._lr_tensor(i, group)
                self._refresh_live(i, group)
                self._init_state(group)

    def _init_state(self, group: Group) -> None:
        """Create the state of every parameter of ``group`` that wants a gradient and has none yet."""

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before every step."""
        return register(self._pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after every step."""
        return register(self._post_hooks, hook)

    # ---- state dictionaries

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before ``state_dict``."""
        return register(self._state_dict_hooks["save_pre"], hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after it; a result that is not None replaces the dictionary."""
        return register(self._state_dict_hooks["save_post"], hook, prepend=prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading; a result that is not None replaces the dictionary."""
        return register(self._state_dict_hooks["load_pre"], hook, prepend=prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return register(self._state_dict_hooks["load_post"], hook, prepend=prepend)

    def state_dict(self) -> dict[str, Any]:
        """Return ``{"state": {index: ...}, "param_groups": [...]}`` with parameters numbered in order."""
        for hook in self._state_dict_hooks["save_pre"].values():
            hook(self)
        number: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for param in group["params"]:
                number.setdefault(id(param), len(number))
            packed = {key: value for key, value in group.items() if key != "params"}
            groups.append({**packed, "params": [number[id(param)] for param in group["params"]]})
        state = {number[id(k)] if isinstance(k, Tensor) else k: value for k, value in self.state.items()}
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._state_dict_hooks["save_post"].values():
            replaced = hook(self, result)
            result = result if replaced is None else replaced
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned, here or in PyTorch. Tensors are copied.

        Raises:
            ValueError: the groups have other numbers of parameters.
        """
        state_dict = dict(state_dict)
        for hook in self._state_dict_hooks["load_pre"].values():
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        saved = deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if [len(a["params"]) for a in saved] != [len(b["params"]) for b in self.param_groups]:
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        numbers = chain.from_iterable(group["params"] for group in saved)
        params = chain.from_iterable(group["params"] for group in self.param_groups)
        by_number = dict(zip(numbers, params, strict=True))
        state: defaultdict[Tensor, Any] = defaultdict(dict)
        # Within a group one step tensor serves all parameters of one count; groups advance theirs separately.
        group_of = {number: i for i, group in enumerate(saved) for number in group["params"]}
        steps: dict[Any, Tensor] = {}
        for key, value in state_dict["state"].items():
            param = by_number.get(key)
            if self._counts_in_tensors and param is not None and isinstance(value, dict):
                # Older files count in plain numbers.
                value = {
                    k: oneflow.tensor(float(v)) if k in SHARED and isinstance(v, (int, float)) else v
                    for k, v in value.items()
                }
            state[key if param is None else param] = (
                value if param is None else _adopt(param, value, group_of[key], steps)
            )
        for group, old in zip(saved, self.param_groups, strict=True):
            group["params"] = old["params"]
            if "param_names" in old:
                group.setdefault("param_names", old["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._state_dict_hooks["load_post"].values():
            hook(self)


REQUIRED = required = object()
# Entries of a group that a program reads from memory, or not at all.
_NO_CONSTANTS = frozenset(("params", "param_names", "lr", "initial_lr"))
# States that parameters which joined together have in common: 0-dim, always float32.
SHARED = frozenset(("step", "mu_product", "eta", "mu"))


def local_device(param: Tensor) -> oneflow.device:
    """Where this rank's part of a parameter is: of a global one on GPUs, the current one."""
    if param.is_global and param.device.type == "cuda":
        return oneflow.device("cuda", oneflow.cuda.current_device())
    return param.device


def like(param: Tensor, value: complex | None = 0.0) -> Tensor:
    """State of a parameter, filled with a number if one is given, in the layout of a global parameter.

    ``full_like`` makes no empty shards, which a parameter may have: it chooses another layout then.
    """
    made = oneflow.empty_like(param) if value is None else oneflow.full_like(param, value)
    if param.is_global and made.sbp != param.sbp:
        made = made.to_global(param.placement, param.sbp)
    if (told := made_state.get()) is not None:
        told(made)
    return _beside(param, made)


def _beside(param: Tensor, made: Tensor) -> Tensor:
    """A new state where its parameter lies: maybe in a file."""
    folder = getattr(param, "_offload_folder", None)
    if folder is not None and made.shape == param.shape:
        oneflow._oneflow._move_to_file(made, folder, 0)
    return made


def _adopt(param: Tensor, value: Any, group: int, steps: dict[Any, Tensor], key: Any = None) -> Any:
    """Copy one state value to the device, and where it is floating to the dtype, of its parameter."""
    if isinstance(value, dict):
        return {k: _adopt(param, v, group, steps, k) for k, v in value.items()}
    if isinstance(value, numpy.ndarray):
        value = oneflow.tensor(value)
    if isinstance(value, Tensor):
        if key in SHARED:
            # Equal numbers become one tensor, whether or not they were one in the file.
            value = gather_full(value)
            count = float(value.item())
            place = (group, key, count, str(local_device(param)))
            if place not in steps:
                steps[place] = oneflow.tensor(count, dtype=oneflow.float32, device=local_device(param))
            return steps[place]
        if param.is_floating_point():
            value = value.to(dtype=param.dtype, device=param.device)
        else:
            value = value.to(device=param.device)
        return _beside(param, distribute_like(param, value.clone())) if value.shape == param.shape else value.clone()
    if isinstance(value, (list, tuple)):
        return type(value)(_adopt(param, v, group, steps, key) for v in value)
    return value


def _before(self: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Run the hooks before a step: what they return takes the place of its arguments."""
    for hook in [*_all_pre_hooks.values(), *self._pre_hooks.values()]:
        replaced = hook(self, args, kwargs)
        if replaced is None:
            continue
        if not isinstance(replaced, tuple) or len(replaced) != 2:
            raise RuntimeError(f"{hook} must return None or a tuple of (new_args, new_kwargs), but got {replaced}.")
        args, kwargs = replaced
    return args, kwargs


def _after(self: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for hook in [*self._post_hooks.values(), *_all_post_hooks.values()]:
        hook(self, args, kwargs)


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before every step of every optimizer.

    Example::

        >>> handle = oneflow.optim.optimizer.register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: None)
        >>> handle.remove()
    """
    return register(_all_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after every step of every optimizer.

    Example::

        >>> handle = oneflow.optim.optimizer.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: None)
        >>> handle.remove()
    """
    return register(_all_post_hooks, hook)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def wrapper(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if "_pre_hooks" not in self.__dict__:
            # A wrapper of another optimizer whose __init__ never ran: the inner one has the hooks.
            return step(self, *args, **kwargs)
        # Hooks get the optimizer as the first argument too, as in PyTorch.
        args, kwargs = _before(self, (self, *args), kwargs)
        with record_function(f"Optimizer.step#{type(self).__name__}.step"):
            result = step(*args, **kwargs)
        self._opt_called = True
        _after(self, args, kwargs)
        return result

    return wrapper


def _rounds(group: Group) -> list[Group]:
    """The group for one update after the other, so that none holds a parameter twice."""
    rounds: list[dict[int, Tensor]] = []
    for param in group["params"]:
        free = next((known for known in rounds if id(param) not in known), None)
        if free is None:
            rounds.append(free := {})
        free[id(param)] = param
    return [group] if len(rounds) == 1 else [{**group, "params": list(known.values())} for known in rounds]
