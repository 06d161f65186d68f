"""How exactly float32 is multiplied, by backend and op, under PyTorch's names: one table behind every switch.

Three entries reach kernels: with "bf16" for ``matmul`` of ``mkldnn`` products on the host may round their operands to
bfloat16, with "tf32" for ``conv`` and ``rnn`` of ``cuda`` convolutions and recurrent networks of cuDNN theirs to TF32.
The others are kept and read back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from oneflow import _oneflow

_ALLOWED = {
    "generic": ("none", "ieee", "tf32", "bf16"),
    "cuda": ("none", "ieee", "tf32"),
    "mkldnn": ("none", "ieee", "tf32", "bf16"),
}

_given: dict[tuple[str, str], str] = {
    (backend, op): "none" for backend in ("cuda", "mkldnn") for op in ("all", "conv", "rnn", "matmul")
}
_given["generic", "all"] = "none"
# What counts where nobody has set an op, its backend or all backends: not even "none".
_defaults = {("cuda", "conv"): "tf32", ("cuda", "rnn"): "tf32"}
_cudnn_enabled = True
# Whether cuDNN may be used only where its results are the same in every run.
cudnn_deterministic = False


def precision(backend: str, op: str) -> str:
    """The precision of an op of a backend: its own, else the backend's, else that of all backends.

    Example::

        >>> from oneflow._base.float32_precision import precision
        >>> precision("cuda", "conv")
        'tf32'
    """
    levels = (_given[backend, op], _given[backend, "all"], _given["generic", "all"])
    found = next((p for p in levels if p != "none"), _defaults.get((backend, op), "none"))
    return found if found in _ALLOWED[backend] else "none"


def set_precision(backend: str, op: str, value: str) -> None:
    """Set the precision of an op of a backend.

    Raises:
        RuntimeError: the backend has no such precision.
    """
    if value not in _ALLOWED[backend]:
        raise RuntimeError(f"fp32_precision of {backend} is one of {list(_ALLOWED[backend])}, not {value!r}")
    _given[backend, op] = value
    _defaults.pop((backend, op), None)
    _tell_kernels()


def enable_cudnn(enabled: bool) -> None:
    """Choose whether convolutions and recurrent networks on a GPU may use cuDNN."""
    global _cudnn_enabled
    _cudnn_enabled = bool(enabled)
    _tell_kernels()


def _tell_kernels() -> None:
    _oneflow._cuda_cudnn_settings(_cudnn_enabled, precision("cuda", "conv") == "tf32")
    _oneflow._round_float32_products(precision("mkldnn", "matmul") == "bf16")


@contextlib.contextmanager
def within(backend: str, op: str, value: str | None) -> Iterator[None]:
    """Set a precision, unless it is None; put back at the end what was set before, not what followed from others."""
    before, default = _given[backend, op], _defaults.get((backend, op))
    if value is not None:
        set_precision(backend, op, value)
    try:
        yield
    finally:
        set_precision(backend, op, before)
        if default is not None:
            _defaults[backend, op] = default
            _tell_kernels()


class Switch:
    """``fp32_precision`` of one op of a backend, as ``torch.backends.mkldnn.matmul`` has it."""

    def __init__(self, backend: str, op: str) -> None:
        self._op = backend, op

    @property
    def fp32_precision(self) -> str:
        return precision(*self._op)

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        set_precision(*self._op, value)
