"""``torch._C``: dispatch keys and states that packages query, and oneflow's own compiled functions."""

from __future__ import annotations

import contextlib
import enum
import faulthandler
from typing import Any

import oneflow
from oneflow import (
    Generator,
    Size,
    Tensor,
    device,
    dtype,
    is_grad_enabled,
    layout,
    memory_format,
)
from oneflow._base.refusals import refuse_class
from oneflow.autograd import _batching
from oneflow.library import Tag
from oneflow.mock_torch.private._C import _cpu
from oneflow.nn.modules.module import _parse_to
from oneflow.overrides import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
    _disabled_torch_dispatch_impl,
    _modes,
)
from oneflow.overrides import _n_modes as _len_torch_function_stack
from oneflow.utils._python_dispatch import _DisableTorchDispatch

# Which libraries PyTorch was built with: decompositions are always there, the layout of oneDNN never is.
has_lapack = True
has_spectral = True
has_mkldnn = False
_has_xpu = False

# The class of the class Tensor.
_TensorMeta = type(Tensor)

_INSTEAD = "oneflow traces with oneflow.nn.Graph and has no TorchScript"
Graph: Any = refuse_class("torch._C.Graph", _INSTEAD)
Value: Any = refuse_class("torch._C.Value", _INSTEAD)
Node: Any = refuse_class("torch._C.Node", _INSTEAD)
_FILES = "read checkpoints with oneflow.load"
PyTorchFileReader: Any = refuse_class("torch._C.PyTorchFileReader", _FILES)
PyTorchFileWriter: Any = refuse_class("torch._C.PyTorchFileWriter", "write checkpoints with oneflow.save")
ScriptModule: Any = refuse_class("torch._C.ScriptModule", _INSTEAD)
ScriptMethod: Any = refuse_class("torch._C.ScriptMethod", _INSTEAD)
ScriptObject: Any = refuse_class("torch._C.ScriptObject", _INSTEAD)
# Types of values in programs of TorchScript, which annotations name.
DeviceObjType: Any = refuse_class("torch._C.DeviceObjType", _INSTEAD)
FloatType: Any = refuse_class("torch._C.FloatType", _INSTEAD)
TensorType: Any = refuse_class("torch._C.TensorType", _INSTEAD)


def _jit_set_emit_hooks(module_hook: Any, function_hook: Any) -> None:
    """Nothing is compiled to TorchScript that such hooks could see."""


def _jit_get_emit_hooks() -> tuple[None, None]:
    return None, None


def _jit_clear_class_registry() -> None:
    """There are no classes of TorchScript."""


class _Keys(type):
    """Any key may be named: layers of oneflow are chosen by what a call holds, not by keys."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class DispatchKey(metaclass=_Keys):
    """The names of PyTorch's dispatch keys, as words."""


class DispatchKeySet(frozenset):
    """A set of such words."""

    def __new__(cls, key: Any = ()) -> DispatchKeySet:
        return super().__new__(cls, (key,) if isinstance(key, str) else key)

    def __or__(self, other: Any) -> DispatchKeySet:
        return DispatchKeySet(frozenset(self) | frozenset(other))


class _ExcludeDispatchKeyGuard(contextlib.AbstractContextManager):
    """Switches autocast off where the set names it."""

    def __init__(self, keys: DispatchKeySet) -> None:
        places = {"AutocastCPU": "cpu", "AutocastCUDA": "cuda"}
        self._off = [oneflow.autocast(places[key], enabled=False) for key in sorted(keys) if key in places]

    def __enter__(self) -> None:
        for context in self._off:
            context.__enter__()

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self._off):
            context.__exit__(*error)


class _FunctionsOfLayers(type):
    def __getattr__(cls, name: str) -> Any:
        try:
            return getattr(oneflow.nn.functional, name)
        except AttributeError:
            raise AttributeError(f"type object '_nn' has no attribute '{name}'") from None


class _nn(metaclass=_FunctionsOfLayers):
    """Functions below ``torch._C._nn``: those of ``nn.functional``."""

    _parse_to = staticmethod(_parse_to)


def _get_tracing_state() -> None:
    """None: nothing is traced by TorchScript."""


def _is_tracing() -> bool:
    """False, likewise."""
    return False


def _jit_set_profiling_mode(is_on: bool) -> bool:
    """Nothing is compiled to TorchScript."""
    return False


_jit_set_profiling_executor = _jit_set_profiling_mode


def _are_functorch_transforms_active() -> bool:
    """Return whether this thread is inside ``vmap``."""
    return _batching.is_batching()


def _is_torch_function_mode_enabled() -> bool:
    """Return whether a mode sees the calls of this thread."""
    return _len_torch_function_stack() > 0


class _TorchFunctionState(enum.IntEnum):
    """Who hears the calls of a thread by ``__torch_function__``."""

    ENABLED = 0
    SUBCLASSES_DISABLED = 1
    ALL_DISABLED = 2


def _get_torch_function_state() -> _TorchFunctionState:
    """Return who hears the calls of this thread."""
    return _TorchFunctionState(oneflow._oneflow._C._get_torch_function_state())


def _set_torch_function_state(state: _TorchFunctionState) -> None:
    """Say who hears the calls of this thread."""
    oneflow._oneflow._C._set_torch_function_state(int(state))


def _push_on_torch_function_stack(mode: TorchFunctionMode) -> None:
    """Let a mode hear the calls of this thread."""
    TorchFunctionMode.__enter__(mode)


def _pop_torch_function_stack() -> TorchFunctionMode:
    """Take the innermost mode off and return it."""
    mode = _modes()[-1]
    TorchFunctionMode.__exit__(mode, None, None, None)
    return mode


def _get_function_stack_at(level: int) -> TorchFunctionMode:
    """Return a mode by its place, the outermost first."""
    return _modes()[level]


def _is_alias_of(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors have one storage."""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _get_default_device() -> str:
    """Return the kind of device of new tensors."""
    return oneflow.get_default_device().type


def _get_cudnn_enabled() -> bool:
    """Return whether cuDNN may be used."""
    return bool(getattr(oneflow.backends.cudnn, "enabled", True))


def _log_api_usage_once(name: str) -> None:
    """Log nothing."""


def _get_privateuse1_backend_name() -> str:
    """Return the name of PyTorch's spare device type, which has no module here."""
    return "privateuseone"


def _get_accelerator(check: bool = False) -> device:
    """Return the preferred device: a GPU if there is one."""
    return device("cuda" if oneflow.cuda.is_available() else "cpu")


def _set_print_stack_traces_on_fatal_signal(is_on: bool) -> None:
    """Print where Python is when a signal ends the process."""
    faulthandler.enable() if is_on else faulthandler.disable()


def __getattr__(name: str) -> Any:
    return getattr(oneflow._oneflow._C, name)
