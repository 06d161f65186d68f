"""autocast: a context manager and decorator that casts the inputs of ops to the dtype that suits each."""

from __future__ import annotations

import collections
import functools
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.amp import AUTOCAST_DEVICES

# The default dtypes of devices that have no provider here: a region for one changes nothing.
_ELSEWHERE = {
    **dict.fromkeys(("ipu", "mps", "mtia", "xpu"), oneflow.float16),
    **dict.fromkeys(("hpu", "maia", "xla"), oneflow.bfloat16),
}


def is_autocast_available(device_type: str) -> bool:
    """Return whether autocast knows the device type.

    Example::

        >>> oneflow.amp.is_autocast_available("cpu")
        True
    """
    return device_type in _ELSEWHERE or oneflow.device(device_type).type in AUTOCAST_DEVICES


class autocast:
    """Run ops in lower precision where that is safe: matrix products and convolutions in ``dtype``, losses in float32.

    Tensors keep the dtype they were created with; parameters are cast once until the outermost context ends. Wrap the
    forward pass and the loss, not the backward pass, which runs in the dtypes of the forward.

    Args:
        device_type: "cpu" or "cuda". For a device without a provider, such as "mps", nothing changes.
        dtype: bfloat16 or float16; by default bfloat16 on the CPU, float16 on CUDA.
        enabled: False switches autocast off inside.
        cache_enabled: whether copies of parameters are kept.

    Raises:
        RuntimeError: an unknown device type.

    Example::

        >>> x, w = oneflow.ones(2, 2), oneflow.ones(2, 2)
        >>> with oneflow.autocast("cpu"):
        ...     y = x @ w
        >>> y.dtype
        oneflow.bfloat16
    """

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        device_type = device_type.split(":")[0]
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = device_type
        self._is_elsewhere = device_type in _ELSEWHERE
        if dtype is None:
            dtype = _ELSEWHERE[device_type] if self._is_elsewhere else oneflow.get_autocast_dtype(device_type)
        self.fast_dtype = dtype
        if self.fast_dtype not in (oneflow.bfloat16, oneflow.float16, oneflow.float32):
            warnings.warn(
                f"In {device_type.upper()} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{device_type.upper()} Autocast only supports dtypes of torch.bfloat16, torch.float16 currently."
            )
            enabled = False
        if device_type == "cuda" and enabled and not oneflow.cuda.is_available():
            warnings.warn("User provided device_type of 'cuda', but CUDA is not available. Disabling")
            enabled = False
        self._enabled = enabled
        self._cache_enabled = oneflow.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._before: list[tuple[bool, Any, bool]] = []

    def __enter__(self) -> autocast:
        if self._is_elsewhere:
            return self
        self._before.append(
            (
                oneflow.is_autocast_enabled(self.device),
                oneflow.get_autocast_dtype(self.device),
                oneflow.is_autocast_cache_enabled(),
            )
        )
        oneflow.set_autocast_enabled(self.device, self._enabled)
        oneflow.set_autocast_dtype(self.device, self.fast_dtype)
        oneflow.set_autocast_cache_enabled(self._cache_enabled)
        _oneflow.autocast_increment_nesting()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_elsewhere:
            return
        if _oneflow.autocast_decrement_nesting() == 0:
            oneflow.clear_autocast_cache()
        enabled, dtype, cache_enabled = self._before.pop()
        oneflow.set_autocast_enabled(self.device, enabled)
        oneflow.set_autocast_dtype(self.device, dtype)
        oneflow.set_autocast_cache_enabled(cache_enabled)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return wrapper


def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    """Cast the floating tensors of a nested value, all but float64."""
    if isinstance(value, Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type and value.dtype is not oneflow.float64
        return value.to(dtype) if eligible else value
    if isinstance(value, (str, bytes)):
        return value
    if type(value).__module__ == "numpy":
        return value
    if isinstance(value, Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, collections.abc.Iterable):
        items = [_cast(v, device_type, dtype) for v in value]
        return type(value)(items) if isinstance(value, (list, tuple)) else items
    return value


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str = "cuda", cast_inputs: Any = None) -> Any:
    """Decorate ``forward`` of an ``autograd.Function`` for use under autocast.

    Args:
        fwd: the method.
        device_type: device type of its inputs.
        cast_inputs: None runs it under the autocast state it is called in; a dtype casts floating inputs to it and
            switches autocast off inside.

    Example::

        >>> class Double(oneflow.autograd.Function):
        ...     @staticmethod
        ...     @oneflow.amp.custom_fwd(device_type="cpu")
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     @oneflow.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, g):
        ...         return g * 2
        >>> x = oneflow.ones(1, requires_grad=True)
        >>> Double.apply(x).backward()
        >>> x.grad
        tensor([2.])
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        context._dtype = oneflow.get_autocast_dtype(device_type)
        if cast_inputs is None:
            context._fwd_used_autocast = oneflow.is_autocast_enabled(device_type)
            return fwd(*args, **kwargs)
        was_on = oneflow.is_autocast_enabled(device_type)
        context._fwd_used_autocast = False
        if not was_on:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            args = (context, *[_cast(v, device_type, cast_inputs) for v in args[1:]])
            return fwd(*args, **{k: _cast(v, device_type, cast_inputs) for k, v in kwargs.items()})

    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str = "cuda") -> Any:
    """Decorate ``backward`` of an ``autograd.Function``: it runs in the autocast state of its forward.

    Example::

        >>> class Double(oneflow.autograd.Function):
        ...     @staticmethod
        ...     @oneflow.amp.custom_fwd(device_type="cpu")
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     @oneflow.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, g):
        ...         return g * 2
        >>> x = oneflow.ones(1, requires_grad=True)
        >>> Double.apply(x).backward()
        >>> x.grad
        tensor([2.])
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorated
