"""Modules whose forward is computed again in the backward, by wrapping them: :mod:`oneflow.utils.checkpoint`.

Names of parameters and keys of state dictionaries are those of the module without its wrapper.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator
from typing import Any

from oneflow import Tensor
from oneflow.autograd.graph import save_on_cpu
from oneflow.nn import Module
from oneflow.utils.checkpoint import checkpoint

__all__ = [
    "CheckpointImpl",
    "CheckpointWrapper",
    "OffloadWrapper",
    "apply_activation_checkpointing",
    "checkpoint_wrapper",
    "offload_wrapper",
]

_PREFIX = "_checkpoint_wrapped_module."


class CheckpointImpl(enum.Enum):
    """Which form of :func:`oneflow.utils.checkpoint.checkpoint` runs."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class _Wrapper(Module):
    """A module in another one, whose names and keys are those of the inner one."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self.register_state_dict_post_hook(_without_prefix)
        self.register_load_state_dict_pre_hook(_with_prefix)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_checkpoint_wrapped_module"), name)

    def __getitem__(self, key: Any) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Tensor]]:  # type: ignore[override]
        """Parameters under the module's own names."""
        for name, param in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), param


class OffloadWrapper(_Wrapper):
    """A module that keeps in host memory what its backward needs.

    Args:
        mod: what is wrapped.
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module."""
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(_Wrapper):
    """A module that keeps its inputs and computes its insides again.

    Args:
        mod: what is wrapped.
        checkpoint_impl: see :class:`CheckpointImpl`.
        checkpoint_fn: called as ``checkpoint_fn(module, *args, **kwargs)`` in place of the package's own.
        checkpoint_fn_kwargs: options for either.
    """

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            checkpoint_fn = functools.partial(checkpoint, use_reentrant=checkpoint_impl == CheckpointImpl.REENTRANT)
        self.checkpoint_fn = functools.partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module."""
        module = self._checkpoint_wrapped_module
        if self.checkpoint_impl != CheckpointImpl.REENTRANT or not kwargs:
            return self.checkpoint_fn(module, *args, **kwargs)
        # The reentrant form keeps what comes by position alone.
        n_args, names = len(args), list(kwargs)

        def call(*flat: Any) -> Any:
            return module(*flat[:n_args], **dict(zip(names, flat[n_args:], strict=True)))

        return self.checkpoint_fn(call, *args, *kwargs.values())


def _without_prefix(module: Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    for key in [k for k in state_dict if k.startswith(prefix + _PREFIX)]:
        state_dict[prefix + key.removeprefix(prefix + _PREFIX)] = state_dict.pop(key)


def _with_prefix(module: Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    for key in [k for k in state_dict if k.startswith(prefix) and not k.startswith(prefix + _PREFIX)]:
        state_dict[prefix + _PREFIX + key.removeprefix(prefix)] = state_dict.pop(key)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """Wrap a module: its insides are computed again in the backward instead of being kept.

    Example::

        >>> from oneflow.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
        >>> layer = checkpoint_wrapper(nn.Linear(2, 3))
        >>> layer(oneflow.ones(1, 2)).sum().backward()
        >>> layer.weight.grad.shape, list(layer.state_dict())
        (oneflow.Size([3, 2]), ['weight', 'bias'])
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def offload_wrapper(module: Module) -> Module:
    """Wrap a module: what its backward needs is kept in host memory.

    Example::

        >>> from oneflow.distributed.algorithms._checkpoint.checkpoint_wrapper import offload_wrapper
        >>> layer = offload_wrapper(nn.Linear(2, 3))
        >>> layer(oneflow.ones(1, 2)).sum().backward()
        >>> layer.weight.grad.shape
        oneflow.Size([3, 2])
    """
    return OffloadWrapper(module)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Any = None,
) -> None:
    """Wrap the modules inside ``model`` for which ``check_fn`` is true, in place.

    Args:
        model: is not wrapped itself.
        checkpoint_wrapper_fn: wraps one module.
        check_fn: selects the modules.
        auto_wrap_policy: selects them in its place, as for
            :class:`oneflow.distributed.fsdp.FullyShardedDataParallel`.

    Example::

        >>> from oneflow.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, nn.Linear))
        >>> type(model[0]).__name__, type(model[1]).__name__
        ('CheckpointWrapper', 'ReLU')
    """
    if auto_wrap_policy is not None:
        _wrap_by_policy(model, auto_wrap_policy, checkpoint_wrapper_fn)
        return
    for name, child in list(model.named_children()):
        # The inner ones first, so that a wrapper is never looked into.
        apply_activation_checkpointing(child, checkpoint_wrapper_fn, check_fn)
        if check_fn(child):
            setattr(model, name, checkpoint_wrapper_fn(child))


def _wrap_by_policy(model: Module, policy: Callable[..., Any], wrap: Callable[[Module], Module]) -> int:
    """Wrap what a policy of FSDP chooses below ``model``; returns how many elements of parameters were wrapped."""
    numel, wrapped = sum(p.numel() for p in model.parameters()), 0
    if not policy(module=model, recurse=True, nonwrapped_numel=numel):
        return 0
    for name, child in list(model.named_children()):
        whole = sum(p.numel() for p in child.parameters())
        inside = _wrap_by_policy(child, policy, wrap)
        if policy(module=child, recurse=False, nonwrapped_numel=whole - inside):
            setattr(model, name, wrap(child))
            inside = whole
        wrapped += inside
    return wrapped
