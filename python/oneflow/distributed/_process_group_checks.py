"""What the methods of process groups demand of their lists of tensors; errors use PyTorch's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow import Tensor


def _fail(name: str, cause: str) -> RuntimeError:
    return RuntimeError(f"ProcessGroup::{name}: {cause}")


def tensors_of(name: str, given: Any, what: str = "tensors") -> list[Tensor]:
    """A tensor or a sequence of tensors as a list."""
    found = [given] if isinstance(given, Tensor) else given
    if not isinstance(found, Sequence) or not all(isinstance(tensor, Tensor) for tensor in found):
        raise TypeError(
            f"ProcessGroup.{name}: {what} must be a Tensor or a list of Tensors, got {type(given).__name__}"
        )
    return list(found)


def lists_of(name: str, given: Any, what: str) -> list[list[Tensor]]:
    """A list of tensors, or a list of such lists, as the latter."""
    if not isinstance(given, Sequence):
        raise TypeError(f"ProcessGroup.{name}: {what} must be a list of lists of Tensors, got {type(given).__name__}")
    if given and isinstance(given[0], Tensor):
        given = [given]
    return [tensors_of(name, row, what) for row in given]


def not_empty(name: str, tensors: list[Tensor], what: str = "tensor list") -> None:
    """There is a tensor."""
    if not tensors:
        raise _fail(name, f"requires non-empty {what}")


def alike(name: str, tensors: list[Tensor], like: Tensor) -> None:
    """All have the dtype and the shape of ``like``."""
    for i, tensor in enumerate(tensors):
        if tensor.dtype != like.dtype:
            raise _fail(name, f"invalid tensor type at index {i} (expected {like.dtype}, got {tensor.dtype})")
        if tensor.shape != like.shape:
            raise _fail(
                name, f"invalid tensor size at index {i} (expected {tuple(like.shape)}, got {tuple(tensor.shape)})"
            )


def one_layout(name: str, tensors: list[Tensor]) -> None:
    """All are sparse, or none is."""
    for i, tensor in enumerate(tensors):
        if tensor.is_sparse != tensors[0].is_sparse:
            raise _fail(name, f"invalid tensor layout at index {i}: {tensor.layout}, the first has {tensors[0].layout}")


def dense(name: str, tensors: list[Tensor]) -> None:
    """None is sparse."""
    sparse = [i for i, tensor in enumerate(tensors) if tensor.is_sparse]
    if sparse and len(sparse) == len(tensors):
        raise _fail(name, "unsupported layout: tensors must be dense")
    if sparse:
        raise _fail(name, f"invalid tensor layout at index {sparse[0]}: tensors must be dense")


def root_rank(name: str, root: int, size: int) -> None:
    """It is a rank of the group."""
    if not 0 <= root < size:
        raise _fail(name, f"invalid root rank: {root}")


def root_tensor(name: str, index: int, n_tensors: int) -> None:
    """It is the place of a tensor in the list."""
    if not 0 <= index < n_tensors:
        raise _fail(name, f"invalid root tensor: {index}")


def single(name: str, tensors: list[Tensor], what: str = "tensor list") -> Tensor:
    """The one tensor of a list."""
    if len(tensors) != 1:
        raise _fail(name, f"requires a single-element {what}")
    return tensors[0]


def rows_of_root(
    name: str, rows: list[list[Tensor]], side: str, is_root: bool, size: int, like: Tensor
) -> list[Tensor] | None:
    """The root's tensors, one a rank; none on other ranks. ``side`` is ``"input"`` or ``"output"``."""
    if not is_root:
        if rows:
            raise _fail(name, f"requires empty {side} on non-root")
        return None
    if len(rows) != 1:
        raise _fail(name, f"requires a single-element {side} list containing a list with {size} tensors")
    if len(rows[0]) != size:
        raise _fail(
            name,
            f"Incorrect {side} list size {len(rows[0])}. {side.capitalize()} list size should be {size}, same as size "
            "of the process group.",
        )
    alike(name, rows[0], like)
    return rows[0]


def gathered_rows(name: str, outputs: list[list[Tensor]], inputs: list[Tensor], size: int) -> None:
    """Each input has a list of outputs for all inputs of all ranks."""
    not_empty(name, inputs, "input tensor list")
    if len(outputs) != len(inputs):
        raise _fail(name, "requires input/output tensor lists to have the same length")
    for i, row in enumerate(outputs):
        if len(row) != size * len(inputs):
            raise _fail(
                name, f"invalid output tensor list at index {i} (expected length {size * len(inputs)}, got {len(row)})"
            )
    alike(name, inputs, inputs[0])
    for row in outputs:
        alike(name, row, inputs[0])
