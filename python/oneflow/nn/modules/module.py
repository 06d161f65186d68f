"""Module: the base class of everything that has parameters. Its state dictionaries live in ``_state_dict.py``."""

from __future__ import annotations

import itertools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, overload

import oneflow
from oneflow import Tensor
from oneflow.__future__ import (
    get_overwrite_module_params_on_conversion,
    get_swap_module_params_on_conversion,
)
from oneflow.nn.modules._global_hooks import (  # noqa: F401 (the names that programs import from here)
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_buffer_registration_hooks,
    _global_forward_hooks,
    _global_forward_hooks_always_called,
    _global_forward_hooks_with_kwargs,
    _global_forward_pre_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    _Hooks,
    _registered,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from oneflow.nn.modules._state_dict import EXTRA_STATE_KEY, StateDictMixin, _IncompatibleKeys  # noqa: F401
from oneflow.nn.parameter import Buffer, Parameter, UninitializedBuffer, is_lazy
from oneflow.utils.hooks import RemovableHandle, changes, register

# The name that packages use which read state dictionaries.
_EXTRA_STATE_KEY_SUFFIX = EXTRA_STATE_KEY

T = TypeVar("T", bound="Module")


class Module(StateDictMixin):
    """Base class of models and layers: assign parameters, buffers and child modules as attributes, define ``forward``.

    Example::

        >>> class Scale(oneflow.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = oneflow.nn.Parameter(oneflow.ones(()))
        ...     def forward(self, x):
        ...         return x * self.factor
        >>> [name for name, _ in Scale().named_parameters()]
        ['factor']
    """

    training: bool
    call_super_init: bool = False
    _is_full_backward_hook: bool | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                if kwargs
                else f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )
        put = super().__setattr__
        put("training", True)
        for name in ("_parameters", "_buffers", "_modules"):
            put(name, {})
        put("_non_persistent_buffers_set", set())
        for name in _HOOK_DICTS:
            put(name, OrderedDict())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # ---- forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output. Every subclass overrides this."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (
            self._forward_pre_hooks
            or self._forward_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or _global_forward_pre_hooks
            or _global_forward_hooks
            or _global_backward_pre_hooks
            or _global_backward_hooks
        ):
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return Module.__call__(self, *args, **kwargs)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        called: set[int] = set()
        try:
            return self._call_all_hooks(args, kwargs, called)
        except Exception:
            self._call_always_hooks(args, kwargs, called)
            raise

    def _call_all_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> Any:
        for i, hook in [*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()]:
            if i in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise RuntimeError(
                            "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                            f"but got {changed}."
                        )
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        watch = None
        hooks = [*_global_backward_hooks.values(), *self._backward_hooks.values()]
        pre_hooks = [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]
        if hooks or pre_hooks:
            from oneflow.nn.modules._backward_hooks import BackwardHooks

            watch = BackwardHooks(self, hooks, pre_hooks)
            args = watch.setup_input(args)
        result = self.forward(*args, **kwargs)
        for i, hook in [*_global_forward_hooks.items(), *self._forward_hooks.items()]:
            called.add(i)
            with_kwargs = i in self._forward_hooks_with_kwargs or i in _global_forward_hooks_with_kwargs
            changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
            if changed is not None:
                result = changed
        return result if watch is None else watch.setup_output(result)

    def _call_always_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> None:
        """Run the hooks registered with ``always_call`` that an exception would have skipped."""
        for i, hook in [*_global_forward_hooks.items(), *self._forward_hooks.items()]:
            always = i in self._forward_hooks_always_called or i in _global_forward_hooks_always_called
            if always and i not in called:
                with_kwargs = i in self._forward_hooks_with_kwargs or i in _global_forward_hooks_with_kwargs
                try:
                    hook(self, args, kwargs, None) if with_kwargs else hook(self, args, None)
                except Exception as error:
                    import warnings

                    warnings.warn(
                        "module forward hook with ``always_call=True`` raised an exception that was silenced as "
                        f"another error was raised in forward: {error}",
                        stacklevel=2,
                    )

    # ---- hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before ``forward``; what it returns replaces the arguments.

        Args:
            hook: with ``with_kwargs`` it is called as ``hook(module, args, kwargs)`` and returns both or None.
            prepend: run before the hooks already there.
            with_kwargs: hand keyword arguments to the hook.
        """
        flags = ((self._forward_pre_hooks_with_kwargs, with_kwargs),)
        return register(self._forward_pre_hooks, hook, prepend=prepend, flags=flags)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after ``forward``; a result that is not None replaces the output.

        Args:
            hook: with ``with_kwargs`` it is called as ``hook(module, args, kwargs, output)``.
            prepend: run before the hooks already there.
            with_kwargs: hand keyword arguments to the hook.
            always_call: call it even when ``forward`` raises.
        """
        flags = ((self._forward_hooks_with_kwargs, with_kwargs), (self._forward_hooks_always_called, always_call))
        return register(self._forward_hooks, hook, prepend=prepend, flags=flags)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` whenever the gradient of the inputs is computed.

        A result that is not None replaces ``grad_input``. The entries are None for what is no tensor.

        Raises:
            RuntimeError: the module has hooks of :meth:`register_backward_hook`.
        """
        self._allow_backward_hooks(full=True)
        return register(self._backward_hooks, hook, prepend=prepend)

    def _allow_backward_hooks(self, full: bool) -> None:
        if self._is_full_backward_hook not in (None, full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        self._is_full_backward_hook = full

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before it is propagated; a result that is not None replaces it."""
        return register(self._backward_pre_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older name; the hook sees what those of :meth:`register_full_backward_hook` see.

        Raises:
            RuntimeError: the module has hooks of :meth:`register_full_backward_hook`.
        """
        self._allow_backward_hooks(full=False)
        return register(self._backward_hooks, hook)

    # ---- registration

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under ``name``; None reserves the name."""
        self._check_new_name(name, "parameter", self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{_type_name(param)}' object to parameter '{name}' "
                    "(torch.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in the "
                    "forward() method."
                )
        self._parameters[name] = _registered(_global_parameter_registration_hooks, self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not trained, such as a running mean.

        Args:
            name: attribute name, without dots.
            tensor: any shape and dtype; None reserves the name.
            persistent: whether ``state_dict`` holds it.
        """
        self._check_new_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_type_name(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = _registered(_global_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module under ``name``."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{_type_name(module)} is not a Module subclass")
        self._check_new_name(name, "module", self._modules)
        self._modules[name] = _registered(_global_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as :meth:`add_module`."""
        self.add_module(name, module)

    def _check_new_name(self, name: str, kind: str, own: Mapping[str, Any]) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_type_name(name)}")
        if "." in name:
            raise KeyError(
                f'{kind} name can\'t contain ".", got: {name}'
                if kind == "module"
                else f'{kind} name can\'t contain "."'
            )
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in own:
            raise KeyError(f"attribute '{name}' already exists")

    def __getattr__(self, name: str) -> Any:
        # Unrolled: every access to a parameter or child in a forward comes through here.
        state = self.__dict__
        if "_modules" in state:
            if name in (members := state["_parameters"]):
                return members[name]
            if name in (members := state["_modules"]):
                return members[name]
            if name in (members := state["_buffers"]):
                return members[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.__dict__
        parameters = state.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
            return
        if parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
            return
        modules = state.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, keep="_modules")
            modules[name] = _registered(_global_module_registration_hooks, self, name, value)
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            modules[name] = value
            return
        buffers = state.get("_buffers")
        if isinstance(value, (Buffer, UninitializedBuffer)) or (buffers is not None and name in buffers):
            if buffers is None:
                raise AttributeError("cannot assign buffers before Module.__init__() call")
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{_type_name(value)}' as buffer '{name}' "
                    "(torch.nn.Buffer, torch.Tensor or None expected)"
                )
            if name in buffers:
                if isinstance(value, (Buffer, UninitializedBuffer)):
                    change = "discard" if value.persistent else "add"
                    getattr(self._non_persistent_buffers_set, change)(name)
                buffers[name] = _registered(_global_buffer_registration_hooks, self, name, value)
                return
            self._forget(name, keep="_buffers")
            self.register_buffer(name, value, persistent=getattr(value, "persistent", True))
            return
        changes.count += 1
        super().__setattr__(name, value)

    def _forget(self, name: str, keep: str) -> None:
        """Drop ``name`` wherever it is held except in the group it is about to be put into."""
        self.__dict__.pop(name, None)
        for group in ("_parameters", "_buffers", "_modules"):
            if group != keep:
                self.__dict__[group].pop(name, None)
        if keep != "_buffers":
            self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for group in (self._parameters, self._buffers, self._modules):
            if name in group:
                del group[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[:1].isdigit())

    # ---- iteration

    def _named_members(
        self, members_of: Callable[[Module], Any], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[Any] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for module_prefix, module in modules:
            for name, value in members_of(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield module_prefix + ("." if module_prefix else "") + name, value

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Iterate over the parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Iterate over (dotted name, parameter)."""
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Iterate over the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Iterate over (dotted name, buffer)."""
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """Iterate over the direct child modules."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Iterate over (name, direct child module)."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def modules(self) -> Iterator[Module]:
        """Iterate over this module and all below it."""
        for _, module in self.named_modules():
            yield module

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Iterate over (dotted name, module), this module first under ``prefix``."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                child_prefix = prefix + ("." if prefix else "") + name
                yield from module.named_modules(memo, child_prefix, remove_duplicate)

    # ---- access by path

    def get_submodule(self, target: str) -> Module:
        """Return the module at the dotted path ``target``; AttributeError where a part is missing or no module."""
        module: Module = self
        for part in target.split(".") if target else []:
            if not hasattr(module, part):
                raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
            child = getattr(module, part)
            if not isinstance(child, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
            module = child
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put ``module`` at the dotted path ``target``; with ``strict`` something must be there already."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        if strict and not hasattr(self.get_submodule(path), name):
            raise AttributeError(f"{type(self.get_submodule(path)).__name__} has no attribute `{name}`")
        setattr(self.get_submodule(path), name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at the dotted path ``target``."""
        value = self._get_leaf(target)
        if not isinstance(value, Parameter):
            raise AttributeError(f"`{target.rpartition('.')[2]}` is not an nn.Parameter")
        return value

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at the dotted path ``target``."""
        path, _, name = target.rpartition(".")
        value = self._get_leaf(target)
        if name not in self.get_submodule(path)._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return value

    def _get_leaf(self, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        return getattr(module, name)

    # ---- changing everything below

    def apply(self: T, fn: Callable[[Module], None]) -> T:
        """Call ``fn`` on every module below and then on this one; typical for initialisation."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self: T, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> T:
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in list(self._parameters.items()):
            if parameter is None:
                continue
            self._convert(name, parameter, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _convert(self, name: str, parameter: Tensor, fn: Callable[[Tensor], Tensor]) -> None:
        with oneflow.no_grad():
            new, grad = fn(parameter.data), parameter.grad
            if grad is not None:
                grad = fn(grad).requires_grad_(grad.requires_grad)
            swaps = get_swap_module_params_on_conversion()
            if not is_lazy(parameter) and (swaps or get_overwrite_module_params_on_conversion()):
                made = Tensor._make_subclass(type(parameter), new.detach(), parameter.requires_grad)
                made.__dict__.update(parameter.__dict__)
                made.grad = grad
                if swaps:
                    oneflow.utils.swap_tensors(parameter, made)
                else:
                    self._parameters[name] = made
                return
            parameter.data = new
            if grad is not None:
                parameter.grad = grad

    def _cast_floating(self: T, dtype: Any) -> T:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self: T) -> T:
        """Cast floating-point parameters and buffers to float32."""
        return self._cast_floating(oneflow.float32)

    def double(self: T) -> T:
        """Cast floating-point parameters and buffers to float64."""
        return self._cast_floating(oneflow.float64)

    def half(self: T) -> T:
        """Cast floating-point parameters and buffers to float16."""
        return self._cast_floating(oneflow.float16)

    def bfloat16(self: T) -> T:
        """Cast floating-point parameters and buffers to bfloat16."""
        return self._cast_floating(oneflow.bfloat16)

    def type(self: T, dst_type: Any) -> T:
        """Cast all parameters and buffers to ``dst_type``."""
        return self._apply(lambda t: t.to(dst_type))

    def cpu(self: T) -> T:
        """Move parameters and buffers to the CPU."""
        return self._apply(lambda t: t.to("cpu"))

    def cuda(self: T, device: Any = None) -> T:
        """Move parameters and buffers to a GPU: ``device``, or the first."""
        if device is None:
            device = "cuda"
        elif isinstance(device, int):
            device = f"cuda:{device}"
        return self._apply(lambda t: t.to(device))

    def to_empty(self: T, *, device: Any, recurse: bool = True) -> T:
        """Move parameters and buffers to ``device`` without their content."""
        return self._apply(lambda t: oneflow.empty_like(t, device=device), recurse=recurse)

    def share_memory(self: T) -> T:
        """Move parameters and buffers into memory that forked processes share.

        Raises:
            RuntimeError: a lazy module has no shapes yet.
        """
        for tensor in itertools.chain(self.parameters(), self.buffers()):
            if is_lazy(tensor):
                tensor.share_memory_()
        return self._apply(lambda t: t.share_memory_())

    @overload
    def to(self: T, device: Any = ..., dtype: Any = ..., non_blocking: bool = ...) -> T: ...
    @overload
    def to(self: T, tensor: Tensor, non_blocking: bool = ...) -> T: ...
    def to(self: T, *args: Any, **kwargs: Any) -> T:
        """Move and cast in place: ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)``.

        Integral tensors move but keep their dtype. ``memory_format`` is applied to the tensors of 4 or 5 dimensions.

        Raises:
            TypeError: the dtype is not floating-point.
        """
        if args and isinstance(args[0], type):
            return self._seen_as(args[0])
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def convert(t: Tensor) -> Tensor:
            if t.is_meta and device is not None and oneflow.device(device).type != "meta":
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use nn.Module.to_empty() instead of "
                    "nn.Module.to() when moving module from meta to a different device."
                )
            options: dict[str, Any] = {"non_blocking": non_blocking} if non_blocking else {}
            if device is not None:
                options["device"] = device
            if dtype is not None and (t.is_floating_point() or t.is_complex()):
                options["dtype"] = dtype
            if memory_format is not None and t.dim() in (4, 5):
                options["memory_format"] = memory_format
            return t.to(**options) if options else t

        return self._apply(convert)

    def _seen_as(self, kind: Any) -> Any:
        """OneFlow's ``to(nn.graph.GraphModule)``: what graphs do with a module; ``to(nn.Module)``: that module."""
        if kind is Module:
            return self
        if hasattr(kind, "_of_module"):
            return kind._of_module(self)
        raise TypeError(f"to() received an invalid argument: the class {kind.__name__}")

    def to_global(self: T, placement: Any = None, sbp: Any = None) -> T:
        """Make every parameter and buffer a global tensor.

        Args:
            placement: the ranks; None keeps the placement of what is global already.
            sbp: one or several, how each tensor is laid out over the ranks.

        A local parameter is the whole weight under broadcast, and this rank's shard under a split, as for
        ``Tensor.to_global``: weights that every rank has created in full become larger then, and a warning says so. To
        split what they hold, make the module global with broadcast and call this once more with the split.

        Parameters are replaced by new ones: make the optimizer afterwards.
        """
        made: dict[int, Tensor] = {}
        for module in self.modules():
            for group in (module._parameters, module._buffers):
                for name, value in group.items():
                    if value is None:
                        continue
                    if id(value) not in made:
                        spread = value.detach().to_global(placement=placement, sbp=sbp)
                        if spread.shape != value.shape:
                            _warn_of_growth(module, name, value, spread)
                        is_parameter = isinstance(value, Parameter)
                        made[id(value)] = Parameter(spread, value.requires_grad) if is_parameter else spread
                    group[name] = made[id(value)]
        return self

    def train(self: T, mode: bool = True) -> T:
        """Set training mode (dropout on) on this module and all below it."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: T) -> T:
        """Set evaluation mode: the same as ``train(False)``."""
        return self.train(False)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Switch gradients of all parameters on or off."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters: drop them, or fill them with zero."""
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                grad = parameter.grad
                parameter.grad = grad.detach() if grad.grad_fn is not None else grad.requires_grad_(False)
                parameter.grad.zero_()

    # ---- text, copies

    def extra_repr(self) -> str:
        """Override to show a layer's own settings inside its repr."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr().split("\n") if self.extra_repr() else []
        children = [f"({name}): " + _addindent(repr(module), 2) for name, module in self._modules.items()]
        if not children and len(extra) <= 1:
            return f"{self._get_name()}({''.join(extra)})"
        return self._get_name() + "(\n  " + "\n  ".join(extra + children) + "\n)"

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the forward in place: later calls run its programs. Arguments as for :func:`oneflow.compile`.

        Copies and pickles of the module are not compiled.
        """
        self.__dict__.pop("forward", None)
        self.__dict__["forward"] = self.__dict__["_compiled_call_impl"] = oneflow.compile(self.forward, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_methods", None)
        if state.pop("_compiled_call_impl", None) is not None:
            del state["forward"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in _HOOK_DICTS:
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())


_HOOK_DICTS = (
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def _parse_to(
    *args: Any,
    device: Any = None,
    dtype: Any = None,
    non_blocking: bool = False,
    tensor: Any = None,
    memory_format: Any = None,
    **other: Any,
) -> tuple[Any, Any, bool, Any]:
    if other:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(other))}'")
    for arg in args:
        if isinstance(arg, bool):
            non_blocking = arg
        elif isinstance(arg, Tensor):
            tensor = arg
        elif isinstance(arg, oneflow.dtype):
            dtype = arg
        elif isinstance(arg, (str, int, oneflow.device)):
            device = arg
        elif arg is not None:
            raise TypeError(f"to() received an invalid argument of type {_type_name(arg)}")
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    if isinstance(device, int):
        device = f"cuda:{device}"
    return (None if device is None else oneflow.device(device)), dtype, non_blocking, memory_format


def _type_name(value: Any) -> str:
    if isinstance(value, Tensor):
        return value.type()
    cls = type(value)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _addindent(s_: str, numSpaces: int) -> str:
    """Indent all lines but the first. (The name that people's own ``__repr__`` import.)"""
    first, *rest = s_.split("\n")
    return "\n".join([first, *(numSpaces * " " + line for line in rest)])


def _warn_of_growth(module: Module, name: str, local: Tensor, spread: Tensor) -> None:
    warnings.warn(
        f"{type(module).__name__}.to_global(): {name} of shape {tuple(local.shape)} became the shard of a tensor of "
        f"shape {tuple(spread.shape)} under {spread.sbp}. If each rank held the whole, make the module global with "
        "sbp=oneflow.sbp.broadcast first, then call to_global(sbp=...) with the split",
        stacklevel=3,
    )
