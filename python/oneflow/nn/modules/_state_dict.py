"""The half of Module that writes and reads state dictionaries."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import numpy

import oneflow
from oneflow import Tensor
from oneflow.__future__ import get_swap_module_params_on_conversion
from oneflow._base.global_layouts import distribute_like
from oneflow.nn.parameter import Parameter, is_lazy
from oneflow.utils.hooks import RemovableHandle, register

EXTRA_STATE_KEY = "_extra_state"


class _IncompatibleKeys(namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """Result of ``load_state_dict``: the keys that only one side had."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class StateDictMixin:
    """``state_dict``, ``load_state_dict``, their hooks and the per-module steps that subclasses may override."""

    _version: int = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    def get_extra_state(self) -> Any:
        """Override to add an object to ``state_dict`` next to parameters and buffers; see :meth:`set_extra_state`."""
        raise RuntimeError("get_extra_state is not defined by this module; override it together with set_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Override to take back what :meth:`get_extra_state` returned."""
        raise RuntimeError("set_extra_state is not defined by this module; override it together with get_extra_state")

    # ---- writing

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before ``state_dict`` collects this module."""
        return register(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` afterwards; it changes the dictionary in place."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return register(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return register(self._state_dict_hooks, hook)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, value in self._parameters.items():
            if value is not None:
                destination[prefix + name] = value if keep_vars else value.detach()
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not StateDictMixin.get_extra_state:
            destination[prefix + EXTRA_STATE_KEY] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Return an ordered dictionary of all parameters and persistent buffers, by dotted name.

        The tensors are detached but share memory with the module. ``keep_vars=True`` returns the very objects.

        Example::

            >>> sorted(oneflow.nn.Linear(2, 3).state_dict())
            ['bias', 'weight']
        """
        if args:
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, local_metadata)
            if result is not None:
                if getattr(hook, "_from_public_api", False):
                    raise RuntimeError("state_dict post-hook must return None")
                destination = result
        return destination

    # ---- reading

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, ...)`` before loading, with the arguments of ``_load_from_state_dict``."""
        return register(self._load_state_dict_pre_hooks, _WithModule(self, hook))

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., None], with_module: bool = False
    ) -> RemovableHandle:
        return register(self._load_state_dict_pre_hooks, _WithModule(self, hook) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after loading; it may change the two lists in place."""
        return register(self._load_state_dict_post_hooks, hook)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        buffers = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, param in itertools.chain(self._parameters.items(), buffers.items()):
            if param is None:
                continue
            key = prefix + name
            if key in state_dict:
                self._load_one(name, key, param, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        self._load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            self._find_unexpected(state_dict, prefix, unexpected_keys)

    def _load_one(self, name: str, key: str, param: Tensor, value: Any, assign: bool, error_msgs: list[str]) -> None:
        if isinstance(value, numpy.ndarray):
            value = oneflow.tensor(value)
        if is_lazy(param) and is_lazy(value):
            return
        if not isinstance(value, Tensor):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(value)}"
            )
            return
        if param.dim() == 0 and value.dim() == 1 and value.shape[0] == 1:
            value = value[0]  # Old checkpoints hold 0-dim tensors as one element.
        if value.shape != param.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {param.shape}."
            )
            return
        if param.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
                "model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary "
                "to their corresponding key in the module instead of copying them in place?)",
                stacklevel=2,
            )
        try:
            with oneflow.no_grad():
                # A local tensor is the whole weight, as a file of one rank has it.
                value = distribute_like(param, value)
                if get_swap_module_params_on_conversion():
                    loaded = param.module_load(value, assign=assign)
                    if loaded is param or loaded is value:
                        raise RuntimeError(
                            f"module_load returned one of self or other, please .detach() the result if returning one "
                            f"of the inputs in module_load: {type(param).__name__}"
                        )
                    if isinstance(param, Parameter) and not isinstance(loaded, Parameter):
                        loaded = Parameter(loaded, requires_grad=param.requires_grad)
                    oneflow.utils.swap_tensors(param, loaded)
                    return
                if not assign:
                    param.copy_(value)
                    return
                if isinstance(param, Parameter) and not isinstance(value, Parameter):
                    value = Parameter(value, requires_grad=param.requires_grad)
                setattr(self, name, value)
        except Exception as error:
            error_msgs.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{param.size()} and whose dimensions in the checkpoint are {value.size()}, "
                f"an exception occurred : {error.args}."
            )

    def _load_extra_state(
        self, state_dict: dict[str, Any], prefix: str, strict: bool, missing: list[str], unexpected: list[str]
    ) -> None:
        key = prefix + EXTRA_STATE_KEY
        if type(self).set_extra_state is not StateDictMixin.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing.append(key)
        elif strict and key in state_dict:
            unexpected.append(key)

    def _find_unexpected(self, state_dict: dict[str, Any], prefix: str, unexpected: list[str]) -> None:
        extra = prefix + EXTRA_STATE_KEY
        own = {name for name, value in self._parameters.items() if value is not None}
        own.update(name for name, value in self._buffers.items() if value is not None)
        own -= self._non_persistent_buffers_set
        for key in state_dict:
            if not key.startswith(prefix) or key == extra:
                continue
            first, _, rest = key[len(prefix) :].partition(".")
            if first not in (self._modules if rest else own):
                unexpected.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy parameters and buffers from ``state_dict`` into this module and its children.

        Args:
            state_dict: dotted name to tensor or NumPy array; shapes must match. For a global parameter a local tensor
                is the whole weight, and the data of the placement's first rank are taken.
            strict: raise when the keys are not exactly this module's.
            assign: use the given tensors themselves instead of copying from them.

        Returns:
            a named tuple ``(missing_keys, unexpected_keys)``.

        Raises:
            TypeError: ``state_dict`` is no mapping.
            RuntimeError: keys or shapes do not fit; all problems are listed.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        copied: dict[str, Any] = OrderedDict(state_dict)
        if metadata is not None:
            copied._metadata = metadata  # type: ignore[attr-defined]

        _load(self, copied, "", metadata, assign, (missing, unexpected, errors))
        if strict:
            if unexpected:
                errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if errors:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__, "\n\t".join(errors))
            )
        return _IncompatibleKeys(missing, unexpected)


class _WithModule:
    """A load hook that is handed its module, which holds it, as the first argument."""

    def __init__(self, module: Any, hook: Callable[..., None]) -> None:
        self.module = weakref.ref(module)
        self.hook = hook

    def __call__(self, *args: Any) -> None:
        self.hook(self.module(), *args)

    def __getstate__(self) -> tuple[Any, Callable[..., None]]:
        return self.module(), self.hook

    def __setstate__(self, state: tuple[Any, Callable[..., None]]) -> None:
        self.__init__(*state)  # type: ignore[misc]


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)


def _load(
    module: Any, local: dict[str, Any], prefix: str, metadata: Any, assign: bool, found: tuple[list[str], ...]
) -> None:
    """Load what ``local`` has for a module and its children; ``found``: missing and unexpected keys, errors."""
    missing, unexpected, errors = found
    local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local_metadata["assign_to_params_buffers"] = True
    module._load_from_state_dict(local, prefix, local_metadata, True, missing, unexpected, errors)
    for name, child in module._modules.items():
        if child is not None:
            child_prefix = prefix + name + "."
            part = {k: v for k, v in local.items() if k.startswith(child_prefix)}
            _load(child, part, child_prefix, metadata, assign, found)
    incompatible = _IncompatibleKeys(missing, unexpected)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, incompatible) is not None:
            raise RuntimeError("load_state_dict post-hooks must return None; change the two lists in place")
