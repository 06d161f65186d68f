"""Global hooks, which every module calls: before and after forward and backward, and when a parameter, a
buffer or a child is registered. The hooks of a single module are in ``module.py``."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from oneflow.utils.hooks import RemovableHandle, register

_Hooks = OrderedDict[int, Callable[..., Any]]

_global_forward_pre_hooks: _Hooks = OrderedDict()
_global_forward_hooks: _Hooks = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_backward_pre_hooks: _Hooks = OrderedDict()
_global_backward_hooks: _Hooks = OrderedDict()
_global_buffer_registration_hooks: _Hooks = OrderedDict()
_global_module_registration_hooks: _Hooks = OrderedDict()
_global_parameter_registration_hooks: _Hooks = OrderedDict()


# Whether the registered backward hooks are full ones.
_full = True


def _current(name: str) -> Any:
    """The dictionary of that name in the module whose names programs set to drop all hooks at once."""
    from oneflow.nn.modules import module

    return getattr(module, name)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before every module's forward.

    Example::

        >>> from oneflow.nn.modules.module import register_module_forward_pre_hook
        >>> handle = register_module_forward_pre_hook(lambda m, args: print(len(args)))
        >>> y = nn.ReLU()(oneflow.ones(1))
        1
        >>> handle.remove()
    """
    return register(_current("_global_forward_pre_hooks"), hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after every module's forward; options as for one module's hook.

    Example::

        >>> from oneflow.nn.modules.module import register_module_forward_hook
        >>> handle = register_module_forward_hook(lambda m, args, y: print(type(m).__name__))
        >>> y = nn.ReLU()(oneflow.ones(1))
        ReLU
        >>> handle.remove()
    """
    flags = (
        (_current("_global_forward_hooks_with_kwargs"), with_kwargs),
        (_current("_global_forward_hooks_always_called"), always_call),
    )
    return register(_current("_global_forward_hooks"), hook, flags=flags)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` whenever the gradient of a module's inputs is computed.

    Raises:
        RuntimeError: there are hooks of ``register_module_backward_hook``.
    """
    return _register_backward_hook(hook, full=True)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The older name of :func:`register_module_full_backward_hook`.

    Raises:
        RuntimeError: there are hooks of :func:`register_module_full_backward_hook`.
    """
    return _register_backward_hook(hook, full=False)


def _register_backward_hook(hook: Callable[..., Any], full: bool) -> RemovableHandle:
    global _full
    hooks = _current("_global_backward_hooks")
    if hooks and _full is not full:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )
    _full = full
    return register(hooks, hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before a module's gradients are propagated."""
    return register(_current("_global_backward_pre_hooks"), hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` when a buffer is registered; a result that is not None replaces it."""
    return register(_current("_global_buffer_registration_hooks"), hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, child)`` when a child is registered; a result that is not None replaces it."""
    return register(_current("_global_module_registration_hooks"), hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` when a parameter is registered; a result that is not None replaces it."""
    return register(_current("_global_parameter_registration_hooks"), hook)


def _registered(hooks: _Hooks, module: Any, name: str, value: Any) -> Any:
    for hook in hooks.values():
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value
