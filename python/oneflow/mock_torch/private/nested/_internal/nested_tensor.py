"""``torch.nested._internal.nested_tensor``: the class of nested tensors, and what takes its objects apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow import Tensor, device, dtype, jagged
from oneflow.nested import nested_tensor, nested_tensor_from_jagged
from oneflow.nested._forms import Packed
from oneflow.nested._rules import repacked
from oneflow.nested._tensor import NestedTensor

__all__ = [
    "NestedTensor",
    "buffer_from_jagged",
    "jagged_from_list",
    "nested_from_padded",
    "nested_view_from_values_offsets",
    "nested_view_from_values_offsets_lengths",
]


def buffer_from_jagged(nested: NestedTensor) -> Tensor:
    """Return the values below a nested tensor."""
    return nested.values()


def nested_view_from_values_offsets(
    values: Tensor,
    offsets: Tensor,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """Return the nested tensor of parts that reach to one another."""
    return nested_tensor_from_jagged(
        values, offsets, jagged_dim=ragged_idx, min_seqlen=min_seqlen, max_seqlen=max_seqlen
    )


def nested_view_from_values_offsets_lengths(
    values: Tensor,
    offsets: Tensor,
    lengths: Tensor,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """Return the nested tensor of parts with gaps between them."""
    return nested_tensor_from_jagged(values, offsets, lengths, ragged_idx, min_seqlen, max_seqlen)


def jagged_from_list(
    tensors: Sequence[Tensor], offsets: Tensor | None, dtype: dtype | None = None, device: device | None = None
) -> tuple[Any, Tensor]:
    """Return the nested tensor of copies of ``tensors``, and where its parts begin."""
    made: Any = nested_tensor(tensors, dtype=dtype, device=device, layout=jagged)
    if offsets is not None:
        made = nested_tensor_from_jagged(made.values(), offsets)
    return made, made.offsets()


def nested_from_padded(padded: Tensor, offsets: Tensor, ragged_idx: int = 1, **known: Any) -> Tensor:
    """Return the nested tensor of the first rows of each part of a padded one, as many as offsets leave room for."""
    return repacked(padded, Packed(offsets, ragged=ragged_idx))
