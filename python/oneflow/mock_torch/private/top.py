"""Names of ``torch`` itself that packages mention though oneflow has them elsewhere or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow, tensor
from oneflow.futures import Future
from oneflow.jit import ScriptModule
from oneflow.library import Tag
from oneflow.mock_torch.private._C import DeviceObjType, FloatType, PyTorchFileReader, PyTorchFileWriter, TensorType

__all__ = [
    "DeviceObjType",
    "FloatType",
    "Future",
    "PyTorchFileReader",
    "PyTorchFileWriter",
    "ScriptModule",
    "Tag",
    "TensorType",
    "_has_compatible_shallow_copy_type",
    "_shape_as_tensor",
    "_validate_sparse_bsc_tensor_args",
    "_validate_sparse_bsr_tensor_args",
    "_validate_sparse_compressed_tensor_args",
    "_validate_sparse_coo_tensor_args",
    "_validate_sparse_csc_tensor_args",
    "_validate_sparse_csr_tensor_args",
]


def _shape_as_tensor(x: Tensor) -> Tensor:
    """Return the sizes of a tensor as a tensor of int64."""
    return tensor(list(x.shape))


def _has_compatible_shallow_copy_type(a: Tensor, b: Tensor) -> bool:
    """Return whether ``a.data = b`` may be set: both lie in memory, in one kind of layout, or neither does."""
    is_without_memory = _oneflow._C._is_without_memory
    return a.layout is b.layout and is_without_memory(a) == is_without_memory(b)


def _validate_sparse_coo_tensor_args(
    indices: Tensor, values: Tensor, size: Sequence[int], is_coalesced: bool | None = None, check_pinning: bool = True
) -> None:
    """Raise unless these are the parts of a sparse tensor of coordinates; memory is not asked whether it is pinned."""
    named: dict[str, Any] = {} if is_coalesced is None else {"is_coalesced": is_coalesced}
    oneflow.sparse_coo_tensor(indices, values, size, check_invariants=True, **named)


def _validate_sparse_compressed_tensor_args(
    compressed_indices: Tensor,
    plain_indices: Tensor,
    values: Tensor,
    size: Sequence[int],
    layout: Any,
    check_pinning: bool = True,
) -> None:
    """Raise unless these are the parts of a sparse tensor of the layout; memory is not asked whether it is pinned."""
    oneflow.sparse_compressed_tensor(
        compressed_indices, plain_indices, values, size, layout=layout, check_invariants=True
    )


def _validating(layout: str) -> Callable[..., None]:
    def validate(
        compressed_indices: Tensor,
        plain_indices: Tensor,
        values: Tensor,
        size: Sequence[int],
        check_pinning: bool = True,
    ) -> None:
        _validate_sparse_compressed_tensor_args(
            compressed_indices, plain_indices, values, size, getattr(oneflow, layout), check_pinning
        )

    validate.__name__ = validate.__qualname__ = f"_validate_{layout}_tensor_args"
    validate.__doc__ = f"As :func:`_validate_sparse_compressed_tensor_args`, of the layout {layout}."
    return validate


_validate_sparse_csr_tensor_args = _validating("sparse_csr")
_validate_sparse_csc_tensor_args = _validating("sparse_csc")
_validate_sparse_bsr_tensor_args = _validating("sparse_bsr")
_validate_sparse_bsc_tensor_args = _validating("sparse_bsc")
