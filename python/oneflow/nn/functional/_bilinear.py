"""Bilinear maps. Public under ``nn.functional``."""

from __future__ import annotations

from oneflow import Tensor


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input1 @ weight[k] @ input2 + bias[k]`` for each k: (*, in1), (*, in2), (out, in1, in2), (out,) to (*, out).

    Example::

        >>> F.bilinear(oneflow.ones(2, 3), oneflow.ones(2, 4), oneflow.ones(5, 3, 4)).shape
        oneflow.Size([2, 5])
    """
    if input1.dim() != input2.dim() or input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {tuple(input1.shape)} and {tuple(input2.shape)}"
        )
    if weight.dim() != 3 or input1.size(-1) != weight.size(1) or input2.size(-1) != weight.size(2):
        raise RuntimeError(
            f"bilinear(): input1 size {tuple(input1.shape)} and input2 size {tuple(input2.shape)} do not match weight "
            f"size {tuple(weight.shape)}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        shapes = f"bias size {tuple(bias.shape)} does not match weight size {tuple(weight.shape)}"
        raise RuntimeError(f"bilinear(): {shapes}")
    n_out, n_in1, n_in2 = weight.shape
    left = input1.reshape(-1, n_in1) @ weight.permute(1, 0, 2).reshape(n_in1, n_out * n_in2)
    output = (left.reshape(-1, n_out, n_in2) * input2.reshape(-1, 1, n_in2)).sum(-1, dtype=left.dtype)
    output = output if bias is None else output + bias
    return output.reshape(*input1.shape[:-1], n_out)
