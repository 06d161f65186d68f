"""Process-wide switches. Docstrings name those without effect: results never depend on threads or kernel choices."""

from __future__ import annotations

import functools
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._tensor.typed_tensors import of as _tensor_type

_state: dict[str, Any] = {"deterministic": False, "warn_only": False, "precision": "highest", "warn_always": False}
_state["fill"] = True

# How graphs run collectives, by the names of the compiler's options; `oneflow.boxing.nccl` sets it.
collectives: dict[str, int] = {"streams": 4, "bucket_bytes": 16 << 20, "bucket_ops": 64}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for deterministic algorithms. All ops are, with any number of threads, but networks that cuDNN runs.

    Recurrent networks run this package's own kernels while it is on, and the backward of cuDNN's attention takes memory
    for all scores.

    While it is on, ``empty`` and its kind and ``resize_`` fill their new memory, with NaN or the largest integer,
    unless ``oneflow.utils.deterministic.fill_uninitialized_memory`` is False.

    Example::

        >>> oneflow.use_deterministic_algorithms(True)
        >>> oneflow.are_deterministic_algorithms_enabled()
        True
        >>> oneflow.use_deterministic_algorithms(False)
    """
    for name, value, place in (("mode", mode, " (position 1)"), ("warn_only", warn_only, "")):
        if not isinstance(value, bool):
            raise TypeError(
                f"_set_deterministic_algorithms(): argument '{name}'{place} must be bool, not {type(value).__name__}"
            )
    _state.update(deterministic=mode, warn_only=warn_only)
    _oneflow._fill_uninitialised(_state["deterministic"] and _state["fill"])
    _oneflow._cuda_attention_deterministic(_state["deterministic"])


def _set_fill_uninitialized_memory(mode: bool) -> None:
    _state["fill"] = bool(mode)
    _oneflow._fill_uninitialised(_state["deterministic"] and _state["fill"])


def are_deterministic_algorithms_enabled() -> bool:
    """Return whether :func:`use_deterministic_algorithms` was asked for.

    Example::

        >>> oneflow.are_deterministic_algorithms_enabled()
        False
    """
    return _state["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return whether it was asked for with ``warn_only``.

    Example::

        >>> oneflow.is_deterministic_algorithms_warn_only_enabled()
        False
    """
    return _state["warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same switch by another name: "default" or 0, "warn" or 1, "error" or 2.

    Example::

        >>> oneflow.set_deterministic_debug_mode("default")
    """
    modes = {"default": 0, "warn": 1, "error": 2}
    mode = modes.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, 2 or one of {list(modes)}, but got {debug_mode}"
        )
    use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 (warn) or 2 (error).

    Example::

        >>> oneflow.get_deterministic_debug_mode()
        0
    """
    return 0 if not _state["deterministic"] else 1 if _state["warn_only"] else 2


def set_float32_matmul_precision(precision: str) -> None:
    """Allow products of float32 matrices to round their operands: "highest", "high" or "medium".

    On the CPU "medium" rounds the operands of products to bfloat16 (8 bits of mantissa) where the processor multiplies
    those (AVX-512 BF16, AMX); sums, biases and what follows them stay float32. Products of a vector and small ones stay
    float32, as do convolutions, attention and the steps of recurrent layers. Complex products are made of real ones and
    round with them. "high" is float32 there, as in PyTorch without TF32 units, and so is everything on a GPU.

    The setting belongs to the process and is read when a product runs, in eager calls, backward passes and compiled
    programs alike: a program that was compiled under another setting follows the present one.

    Raises:
        RuntimeError: another word.

    Example::

        >>> oneflow.set_float32_matmul_precision("highest")
    """
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"Unknown precision: {precision}; use 'highest', 'high' or 'medium'")
    _state["precision"] = precision
    reduced = {"highest": ("ieee", "ieee"), "high": ("tf32", "tf32"), "medium": ("tf32", "bf16")}[precision]
    from oneflow._base import float32_precision

    for backend, value in zip(("cuda", "mkldnn"), reduced, strict=True):
        float32_precision.set_precision(backend, "matmul", value)


def get_float32_matmul_precision() -> str:
    """Return the setting of :func:`set_float32_matmul_precision`; "highest" at first.

    Example::

        >>> oneflow.get_float32_matmul_precision()
        'highest'
    """
    return _state["precision"]


def set_warn_always(b: bool) -> None:
    """Repeat warnings that are usually shown once a process. Python's own filter decides which are shown.

    Example::

        >>> oneflow.set_warn_always(False)
    """
    _state["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """Return the setting of :func:`set_warn_always`.

    Example::

        >>> oneflow.is_warn_always_enabled()
        False
    """
    return _state["warn_always"]


def set_flush_denormal(mode: bool) -> bool:
    """False: numbers below the smallest normal one are always kept.

    Example::

        >>> oneflow.set_flush_denormal(False)
        False
    """
    return False


def get_num_interop_threads() -> int:
    """1: independent ops do not run side by side in eager execution.

    Example::

        >>> oneflow.get_num_interop_threads() >= 1
        True
    """
    return 1


def set_num_interop_threads(n: int) -> None:
    """Accepted; independent ops do not run side by side in eager execution.

    Example::

        >>> oneflow.set_num_interop_threads(2)
        >>> oneflow.get_num_interop_threads()
        1
    """
    if n <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")


def set_default_tensor_type(t: Any) -> None:
    """Make tensors of this type by default, such as ``oneflow.DoubleTensor`` or "oneflow.cuda.FloatTensor".

    Raises:
        TypeError: ``t`` is no type of floating-point tensors.

    Example::

        >>> oneflow.set_default_tensor_type(oneflow.FloatTensor)
    """
    dtype, place = _tensor_type(t)
    if not dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    oneflow.set_default_dtype(dtype)
    _oneflow.set_default_device(None if place == "cpu" else place)


def typename(obj: Any) -> str:
    """The name of an object's type: of a tensor its type with dtype, such as "oneflow.FloatTensor".

    Example::

        >>> oneflow.typename(oneflow.ones(1))
        'oneflow.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", "") or ""
    return kind.__qualname__ if module in ("", "builtins") else f"{module}.{kind.__qualname__}"


def is_signed(input: Tensor) -> bool:
    """Return whether the dtype of ``input`` has negative numbers.

    Example::

        >>> oneflow.is_signed(oneflow.tensor([1]))
        True
    """
    return input.is_signed()


def is_inference(input: Tensor) -> bool:
    """Return whether ``input`` was made in inference mode.

    Example::

        >>> oneflow.is_inference(oneflow.ones(1))
        False
    """
    return input.is_inference()


def is_distributed(input: Tensor) -> bool:
    """Return False: the attribute ``is_global`` marks tensors of several ranks.

    Example::

        >>> oneflow.is_distributed(oneflow.ones(1))
        False
    """
    return False


def get_device(input: Tensor) -> int:
    """The number of the GPU that ``input`` is on, -1 on the CPU.

    Example::

        >>> oneflow.get_device(oneflow.ones(1))
        -1
    """
    return input.get_device()


def get_device_module(device: Any = None) -> Any:
    """The module of a device's kind: ``oneflow.cpu`` or ``oneflow.cuda``.

    Raises:
        RuntimeError: there is none.

    Example::

        >>> oneflow.get_device_module("cpu").__name__
        'oneflow.cpu'
    """
    import importlib

    if device is None:
        kind = "cpu" if _oneflow._cuda_unavailable_reason() else "cuda"
    else:
        kind = oneflow.device(device).type
    try:
        return importlib.import_module(f"oneflow.{kind}")
    except ImportError as e:
        raise RuntimeError(f"Invalid device '{kind}': oneflow has no module of that name") from e


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Look for faults of backward from now on, as :class:`oneflow.autograd.set_detect_anomaly` does.

    Example::

        >>> oneflow.set_anomaly_enabled(False)
        >>> oneflow.is_anomaly_enabled()
        False
    """
    from oneflow.autograd.anomaly_mode import set_detect_anomaly

    set_detect_anomaly(mode, check_nan)


def compiled_with_cxx11_abi() -> bool:
    """True: the package holds no C++ whose ABI could matter.

    Example::

        >>> oneflow.compiled_with_cxx11_abi()
        True
    """
    return True


def _check_with(error_type: type[Exception], cond: Any, message: Any = None) -> None:
    """Raise ``error_type`` unless ``cond`` holds; ``message`` is a function that returns the text."""
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        raise error_type("Expected cond to be True" if message is None else str(message()))


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Any = None) -> None:
    """Raise ``error_type`` unless all elements are true. A trace has no elements to look at: it passes."""
    if not isinstance(cond, oneflow.Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype != oneflow.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    if not _oneflow._is_tracing():
        _check_with(error_type, cond.all().item(), message)


def _check_is_size(i: int, message: Any = None, *, max: int | None = None) -> None:
    """Raise RuntimeError unless ``0 <= i``, and ``i <= max`` if that is given."""
    _check_with(RuntimeError, i >= 0 and (max is None or i <= max), message)


_check = functools.partial(_check_with, RuntimeError)
_check_index = functools.partial(_check_with, IndexError)
_check_value = functools.partial(_check_with, ValueError)
_check_type = functools.partial(_check_with, TypeError)
_check_not_implemented = functools.partial(_check_with, NotImplementedError)
_check_tensor_all = functools.partial(_check_tensor_all_with, RuntimeError)


def _assert(condition: Any, message: str) -> None:
    """An assertion that a trace may hold."""
    if not condition:
        raise AssertionError(message)
