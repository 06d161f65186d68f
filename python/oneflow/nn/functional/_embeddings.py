"""Rows of a table by index, and indices as rows with a single one."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.global_layouts import replicate_like


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of ``weight`` (rows, length) at the int64 indices ``input`` (*): (*, length).

    See :class:`oneflow.nn.Embedding` for the options.

    Raises:
        AssertionError: ``padding_idx`` is no row.
        IndexError: an index is out of range.

    Example::

        >>> F.embedding(oneflow.tensor([1, 0]), oneflow.tensor([[0.0, 1.0], [2.0, 3.0]]))
        tensor([[2., 3.],
                [0., 1.]])
    """
    if weight.dim() != 2:
        raise RuntimeError(f"'weight' must be 2-D, got {list(weight.shape)}")
    rows = weight.shape[0]
    if padding_idx is None:
        padding_idx = -1
    elif not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    elif padding_idx < 0:
        padding_idx += rows
    if max_norm is not None:
        renormalise_rows(weight, input, max_norm, norm_type)
    return _oneflow.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def renormalise_rows(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows of ``weight`` that ``index`` names down to ``max_norm``, in place."""
    with oneflow.no_grad():
        # An index that occurs twice is written twice, with the same row.
        used = index.reshape(-1)
        rows = weight[used]
        norms = rows.abs().pow(norm_type).sum(1, keepdim=True).pow(1.0 / norm_type)
        weight[used] = oneflow.where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows)


def one_hot(tensor: Tensor, num_classes: int = -1, on_value: Any = 1, off_value: Any = 0) -> Tensor:
    """int64 indices (*) to int64 rows (*, num_classes) with a single one each; -1 takes the largest index + 1.

    OneFlow's ``on_value`` and ``off_value`` replace the ones and the zeros; floats give a tensor of floats.

    Raises:
        RuntimeError: an index is negative or not below ``num_classes``.

    Example::

        >>> F.one_hot(oneflow.tensor([0, 2]), num_classes=3)
        tensor([[1, 0, 0],
                [0, 0, 1]])
    """
    if (on_value, off_value) != (1, 0) or isinstance(on_value, float) or isinstance(off_value, float):
        from oneflow._extra import flat

        return flat.one_hot(tensor, num_classes, on_value, off_value)
    if tensor.dtype != oneflow.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.numel() == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    # Values are unknown in a trace and in a batch, so the number of classes must be given.
    hidden = _oneflow._is_tracing() or _oneflow._vmap_shown(tensor) is not None
    read = tensor.numel() > 0 and not (num_classes > 0 and hidden)
    if read and int(tensor.min().item()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    largest = int(tensor.max().item()) if read else -1
    if num_classes == -1:
        num_classes = largest + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    elif largest >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    classes = replicate_like(tensor, oneflow.arange(num_classes, device=tensor.device))
    return (tensor.unsqueeze(-1) == classes).to(oneflow.int64)
