"""Objects between ranks as bytes, read without trust: numbers, texts, containers and tensors, and no foreign code.

A rank that reads another one's object builds only what is on a list, as :func:`oneflow.load` does. Both sides may
opt in to
everything that pickle can carry, with ``weights_only=False`` or for a whole program with ``ONEFLOW_TRUST_RANKS=1``.
"""

from __future__ import annotations

import builtins
import datetime
import decimal
import io
import os
import pathlib
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import oneflow
from oneflow import Tensor
from oneflow._files.unpickler import RestrictedUnpickler, check_key
from oneflow.nn.parameter import Parameter

__all__ = ["pack", "unpack"]

_TRUST = "ONEFLOW_TRUST_RANKS"
_PLAIN, _TRUSTING = 0, 1


def _trusts(weights_only: bool | None) -> bool:
    """Whether this rank has opted in to pickles that may run code."""
    if weights_only is not None:
        return not weights_only
    said = os.environ.get(_TRUST, "")
    if said not in ("", "0", "1"):
        raise ValueError(f"{_TRUST} is {said!r}, expected 0 or 1")
    return said == "1"


def pack(value: Any, weights_only: bool | None = None) -> bytearray:
    """Return an object as bytes; the first says whether this rank trusts the others."""
    file = io.BytesIO()
    file.write(bytes([_TRUSTING if _trusts(weights_only) else _PLAIN]))
    _Pickler(file, protocol=4).dump(value)
    return bytearray(file.getbuffer())


def unpack(data: bytes, name: str, rank: int, weights_only: bool | None = None) -> Any:
    """Build the object that ``rank`` sent; ``name`` is the function that was called, for errors.

    Raises:
        pickle.UnpicklingError: the bytes are broken, or want something that is not on the list and not both ranks
        opted in.
    """
    trusts, trusted = _trusts(weights_only), data[:1] == bytes([_TRUSTING])
    if trusts and trusted:
        return pickle.loads(data[1:])
    try:
        return _Unpickler(io.BytesIO(data[1:]), _names(), _no_storage).load()
    except pickle.UnpicklingError as error:
        sides = {
            (False, False): "neither rank has",
            (True, False): f"rank {rank} has not",
            (False, True): "this rank has not",
        }
        raise pickle.UnpicklingError(
            f"{name}: cannot take the object of rank {rank}: {str(error).partition('. If you trust')[0]}. Objects "
            f"between ranks are read as files are: oneflow.serialization.add_safe_globals allows a name, and {_TRUST}=1"
            f" (or weights_only=False) on both ranks allows everything, also code; {sides[trusts, trusted]} opted in"
        ) from error


class _Unpickler(RestrictedUnpickler):
    """Reads frozen sets, too, which checkpoints have none of."""

    def _load_frozenset(self) -> None:
        items = self.pop_mark()
        self.append(frozenset(check_key(item) for item in items))

    dispatch: ClassVar[dict[int, Any]] = {**RestrictedUnpickler.dispatch, pickle.FROZENSET[0]: _load_frozenset}


class _Pickler(pickle.Pickler):
    """Spells tensors and arrays as plain parts."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is Tensor and obj.device.type == "meta" and not obj.is_global:
            return _shape, (str(obj.dtype), tuple(obj.shape))
        if type(obj) in (Tensor, Parameter) and _is_plain(obj):
            dense = obj.detach().cpu().contiguous()
            data = dense.reshape(-1).view(oneflow.uint8).numpy().tobytes() if dense.numel() else b""
            kind, place = type(obj).__name__, self.place(obj)
            return _tensor, (kind, str(obj.dtype), tuple(obj.shape), obj.requires_grad, place, data)
        if type(obj).__module__ == "numpy" and type(obj).__name__ == "ndarray" and obj.dtype.isbuiltin:
            return (_array, (obj.dtype.str, obj.shape, obj.tobytes())) if not obj.dtype.hasobject else NotImplemented
        return NotImplemented

    def place(self, tensor: Tensor) -> str:
        """The device that a tensor arrives on."""
        return str(tensor.device)


def _is_plain(tensor: Tensor) -> bool:
    return not tensor.is_global and not tensor.is_sparse and tensor.device.type != "meta"


def _dtype(name: Any, shape: Any) -> oneflow.dtype:
    """The dtype of this name, for a tensor whose shape is one."""
    found = getattr(oneflow, str(name).rpartition(".")[2], None)
    is_shape = isinstance(shape, tuple) and all(isinstance(n, int) and 0 <= n < 2**62 for n in shape)
    if not isinstance(found, oneflow.dtype) or not is_shape:
        raise pickle.UnpicklingError("a tensor has a broken description")
    return found


def _shape(dtype: Any, shape: Any) -> Tensor:
    return oneflow.empty(shape, dtype=_dtype(dtype, shape), device="meta")


def _tensor(kind: Any, dtype: Any, shape: Any, requires_grad: Any, device: Any, data: Any) -> Tensor:
    found = _dtype(dtype, shape)
    if not isinstance(data, bytes) or kind not in ("Tensor", "Parameter"):
        raise pickle.UnpicklingError("a tensor has a broken description")
    n_bytes = found.itemsize
    for n in shape:
        n_bytes *= n
    if n_bytes != len(data):
        raise pickle.UnpicklingError(f"a tensor of {dtype} and shape {list(shape)} has {len(data)} bytes")
    flat = (
        oneflow.frombuffer(bytearray(data), dtype=oneflow.uint8).view(found) if data else oneflow.empty(0, dtype=found)
    )
    result = flat.reshape(shape)
    if not str(device).startswith("cpu"):
        result = result.to(str(device))
    if kind == "Parameter":
        return Parameter(result, bool(requires_grad))
    return result.requires_grad_() if requires_grad else result


def _array(dtype: Any, shape: Any, data: Any) -> Any:
    import numpy

    found = numpy.dtype(str(dtype))
    if found.hasobject or not isinstance(data, bytes) or not isinstance(shape, tuple):
        raise pickle.UnpicklingError("an array has a broken description")
    return numpy.frombuffer(bytearray(data), found).reshape([int(n) for n in shape])


def _no_storage(pid: Any) -> Any:
    raise pickle.UnpicklingError("a storage stands alone")


def _path(*parts: Any) -> pathlib.Path:
    return pathlib.Path(*map(str, parts))


def _date(cls: type, first: Any = b"", *rest: Any) -> Any:
    # Its state as bytes, which the class checks.
    if not isinstance(first, (bytes, int)):
        raise pickle.UnpicklingError(f"a {cls.__name__} has a broken description")
    return cls(first, *rest)


_cache: dict[str, Any] = {}


def _names() -> dict[str, Any]:
    """Names that ranks accept from each other, besides the basic containers."""
    if not _cache:
        kinds: dict[str, Callable[..., Any]] = {
            f"{__name__}._tensor": _tensor,
            f"{__name__}._shape": _shape,
            f"{__name__}._array": _array,
            "oneflow.Size": lambda values=(): oneflow.Size([int(value) for value in values]),
            "oneflow.device": lambda *place: oneflow.device(*place),
            "builtins.slice": slice,
            "builtins.range": range,
            "datetime.timedelta": datetime.timedelta,
            "decimal.Decimal": lambda text="0": decimal.Decimal(str(text)),
            "_pickle.UnpicklingError": pickle.UnpicklingError,
            "pickle.UnpicklingError": pickle.UnpicklingError,
        }
        kinds |= {
            f"{module}.{kind}": _path for module in ("pathlib", "pathlib._local") for kind in ("PosixPath", "Path")
        }
        for cls in (datetime.date, datetime.time, datetime.datetime):
            kinds[f"datetime.{cls.__name__}"] = lambda *args, cls=cls: _date(cls, *args)
        for name, found in vars(builtins).items():
            if isinstance(found, type) and issubclass(found, Exception):
                kinds[f"builtins.{name}"] = found
        for name, found in vars(oneflow).items():
            if isinstance(found, oneflow.dtype):
                kinds[f"oneflow.{name}"] = found  # type: ignore[assignment]
        _cache.update(kinds)
    return _cache
