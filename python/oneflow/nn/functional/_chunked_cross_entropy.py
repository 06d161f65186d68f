"""How the cross entropy of a linear map is divided: rows in chunks, whose logits are never in memory together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import oneflow
from oneflow import Tensor

_POLICIES = ("auto", "accurate", "compact")
_ACCUMULATED = (oneflow.float16, oneflow.bfloat16, oneflow.float32, oneflow.float64)


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """Options of :func:`oneflow.nn.functional.linear_cross_entropy`: rows are taken in chunks.

    A chunk's logits (rows, classes) are computed, reduced and forgotten, and computed again for its gradients: memory
    is that of one chunk, for one more product with the weight. It pays where there are many more classes than features.

    Args:
        allow_retain_graph: stored; backward may run again in any case.
        batch_chunk_size: rows of a chunk.
        chunking_method: how they are chosen. "aspect_ratio": so that a chunk's logits take about the memory of the
            input, "aspect_ratio:N" an N-th of that; "auto": the same, and less where that is as much as all logits;
            None: ``batch_chunk_size``, or one chunk of all rows.
        acc_policy: "auto", "compact" or "accurate", stored: products of half types always add in float32.
        acc_dtype: dtype of the logits and of the sums over chunks; the input's where None.

    Raises:
        ValueError: a value that is none of these; in a call, a ``batch_chunk_size`` that differs from what
            ``chunking_method`` chooses.

    Example::

        >>> options = oneflow.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
        >>> target = oneflow.tensor([0, 1, 2, 3])
        >>> F.linear_cross_entropy(oneflow.ones(4, 3), oneflow.zeros(8, 3), target, options=options)
        tensor(2.0794)
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}; expected one of {', '.join(_POLICIES)}")
        if self.chunking_method not in (None, "auto"):
            name, given, factor = str(self.chunking_method).partition(":")
            if name != "aspect_ratio" or (given and not (factor.isdigit() and int(factor) > 0)):
                raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype is not None and self.acc_dtype not in _ACCUMULATED:
            raise ValueError(
                f"acc_dtype must be None or a floating point dtype of 16 bits or more, got {self.acc_dtype!r}"
            )

    def _rows(self, n: int, features: int, classes: int, has_probabilities: bool) -> int:
        """The rows of a chunk of ``n``."""
        own, method = self.batch_chunk_size, self.chunking_method
        if method is None or (method == "auto" and own is not None):
            return max(1, min(own or n, n))
        wanted = -(-n // -(-classes // max(features, 1)))
        rows = min((1 << max(wanted - 1, 0).bit_length()) // int(method.partition(":")[2] or 1), n)
        if method == "auto":
            most = n // 2 if has_probabilities else n * classes // (4 * max(features, 1))
            rows = min(rows, 1 << max(most.bit_length() - 1, 0))
        if own is not None and own != rows:
            raise ValueError(
                f"batch_chunk_size (={own}) and chunking_method ({method!r}) give different chunk sizes ({own} vs "
                f"{rows}); pass only one."
            )
        return max(1, rows)


def in_chunks(
    options: LinearCrossEntropyOptions,
    loss: Callable[..., Tensor],
    input: Tensor,
    linear_weight: Tensor,
    linear_bias: Tensor | None,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
) -> Tensor:
    """``loss(input, linear_weight, linear_bias, target, weight, reduction)`` of (N, features), chunk by chunk."""
    if not isinstance(options, LinearCrossEntropyOptions):
        raise TypeError(
            f"linear_cross_entropy(): options must be LinearCrossEntropyOptions, got {type(options).__name__}"
        )
    dtype, acc = input.dtype, options.acc_dtype or input.dtype
    by_class = not target.dtype.is_floating_point
    rows = options._rows(len(input), input.shape[-1], len(linear_weight), not by_class)
    # Once, not for each chunk: gradients of chunks are added in this dtype.
    linear_weight, bias = linear_weight.to(acc), None if linear_bias is None else linear_bias.to(acc)
    weight = None if weight is None else weight.to(acc)
    target = target if by_class else target.to(acc)
    how = "none" if reduction == "none" else "sum"

    def chunk(part: Tensor, linear_weight: Tensor, bias: Tensor | None, of: Tensor) -> Tensor:
        return loss(part.to(acc), linear_weight, bias, of, weight, how)

    found = [
        oneflow.utils.checkpoint.checkpoint(
            chunk, part, linear_weight, bias, of, use_reentrant=False, preserve_rng_state=False
        )
        for part, of in zip(input.split(rows), target.split(rows), strict=True)
    ]
    if reduction == "none":
        return oneflow.cat(found).to(dtype)
    wide = oneflow.float32 if acc in (oneflow.float16, oneflow.bfloat16) else acc
    total = oneflow.stack([one.to(wide) for one in found]).sum()
    if reduction == "mean":
        total = total / _counted(target, by_class, len(linear_weight), weight, ignore_index).to(wide)
    return total.to(dtype)


def _counted(target: Tensor, by_class: bool, classes: int, weight: Tensor | None, ignore_index: int) -> Tensor:
    """What a mean divides by: the targets that count, by the weights of their classes."""
    if not by_class:
        return oneflow.tensor(target.numel() // classes, device=target.device)
    counts = target != ignore_index
    if weight is None:
        return counts.sum()
    return oneflow.where(counts, weight[oneflow.where(counts, target, 0)], 0.0).sum()
