"""Numbers rounded to what integers of few bits can stand for, as training that prepares for quantization does."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.amp import in_float32_on_host
from oneflow.autograd import Function

__all__ = ["fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine"]


class _Rounded(Function):
    """The gradient passes where the number was inside of the range."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Any, zero_point: Any, least: int, most: int) -> Tensor:
        wide = x.float() if x.dtype in (oneflow.float16, oneflow.bfloat16) else x
        inverse = 1.0 / scale
        # What no integer stands for becomes the least one.
        at = ((wide * inverse).round() + zero_point).nan_to_num(nan=float(least))
        inside = (at >= least) & (at <= most) & ~wide.isnan()
        ctx.save_for_backward(inside)
        return ((at.clamp(least, most) - zero_point) * scale).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad * ctx.saved_tensors[0], None, None, None, None


def _check(name: str, input: Tensor, zero_point: Any, least: int, most: int) -> None:
    if not input.is_floating_point():
        raise NotImplementedError(f"{name}(): not implemented for {input.dtype}, only for floating-point numbers")
    if least > most:
        raise RuntimeError(f"{name}(): `quant_min` should be less than or equal to `quant_max`, got {least} and {most}")
    if not least <= int(zero_point) <= most:
        raise RuntimeError(f"{name}(): `zero_point` must be between `quant_min` and `quant_max`.")


@in_float32_on_host
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """``(clamp(round(input / scale) + zero_point, quant_min, quant_max) - zero_point) * scale``.

    The gradient passes unchanged where the clamp changes nothing, and is zero elsewhere.

    Args:
        input: floating-point numbers of any shape.
        scale: the distance of neighbours, a number or a tensor of one.
        zero_point: the integer that stands for zero, a number or a tensor of one.
        quant_min, quant_max: the least and the greatest integer.

    Raises:
        RuntimeError: ``zero_point`` or the range does not fit.

    Example::

        >>> oneflow.fake_quantize_per_tensor_affine(oneflow.tensor([0.26, 9.0]), 0.5, 0, 0, 3)
        tensor([0.5000, 1.5000])
    """
    name = "fake_quantize_per_tensor_affine"
    if isinstance(zero_point, Tensor):
        _check(name, input, quant_min, quant_min, quant_max)
    else:
        _check(name, input, zero_point, quant_min, quant_max)
    for what, value in (("scale", scale), ("zero_point", zero_point)):
        if isinstance(value, Tensor) and value.numel() != 1:
            raise RuntimeError(f"{name}(): {what} must have one element, got {list(value.shape)}")
    scale, zero_point = (v.reshape(()) if isinstance(v, Tensor) else v for v in (scale, zero_point))
    return _Rounded.apply(input, oneflow.as_tensor(scale, dtype=oneflow.float32), zero_point, quant_min, quant_max)


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """:func:`fake_quantize_per_tensor_affine` with a scale and a zero for each index of a dimension.

    Args:
        input: floating-point numbers.
        scale: float32 or bfloat16, of the size of ``axis``.
        zero_point: int32, float32 or float16, of the size of ``axis``.
        axis: the dimension.
        quant_min, quant_max: the least and the greatest integer.

    Raises:
        RuntimeError: sizes, dtypes or the range do not fit.

    Example::

        >>> x = oneflow.tensor([[0.26, 0.26], [0.26, 0.9]])
        >>> oneflow.fake_quantize_per_channel_affine(x, oneflow.tensor([0.5, 0.1]), oneflow.zeros(2), 0, 0, 3)
        tensor([[0.5000, 0.5000],
                [0.3000, 0.3000]])
    """
    name = "fake_quantize_per_channel_affine"
    _check(name, input, quant_min, quant_min, quant_max)
    if scale.dtype not in (oneflow.float32, oneflow.bfloat16):
        raise RuntimeError(f"{name}(): Scale must be Float or BFloat16, found {scale.dtype}")
    if zero_point.dtype not in (oneflow.int32, oneflow.float32, oneflow.float16):
        raise RuntimeError(f"{name}(): Zero-point must be Int32, Float or Half, found {zero_point.dtype}")
    if not -input.dim() <= axis < input.dim():
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.dim()}, {input.dim() - 1}], but got {axis})"
        )
    n = input.shape[axis]
    if list(scale.shape) != [n] or list(zero_point.shape) != [n]:
        raise RuntimeError(
            f"{name}(): dimensions of scale and zero-point are not consistent with input tensor: "
            f"{list(scale.shape)} and {list(zero_point.shape)} for a dimension of {n}"
        )
    if n and bool(((zero_point < quant_min) | (zero_point > quant_max)).any()):
        raise RuntimeError(f"{name}(): `zero_point` must be between `quant_min` and `quant_max`.")
    shape = [1] * input.dim()
    shape[axis] = n
    return _Rounded.apply(input, scale.reshape(shape).float(), zero_point.reshape(shape), quant_min, quant_max)
