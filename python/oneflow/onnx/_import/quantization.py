"""Quantized and dequantized tensors, products of codes, and weights of four bits."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow.onnx._import.convolution import convolution
from oneflow.onnx._import.elementwise import cast_to
from oneflow.onnx._import.math import shifted
from oneflow.onnx._import.registry import Call, axis_of, handler
from oneflow.onnx._import.values import RANGES, UINT8, Narrow, dtype_of, elem_of, elem_of_dtype, is_narrow


def _values(x: Any, dtype: Any) -> Any:
    return (x.values if isinstance(x, Narrow) else x).to(dtype)


def _spread(c: Call, p: Any, x: Any) -> Any:
    """A scale or zero point in a shape that broadcasts over ``x``: of the tensor, an axis, or blocks along one."""
    if p.dim() == 0 or (p.numel() == 1 and p.dim() <= 1):
        return p.reshape(())
    axis = axis_of(c.get("axis", 1), len(x.shape), c.op)
    if p.dim() == 1 and len(x.shape) != 1:
        sizes = [1] * len(x.shape)
        sizes[axis] = p.shape[0]
        return p.reshape(sizes)
    if p.shape[axis] == x.shape[axis]:
        return p
    block = c.get("block_size", 0) or -(-x.shape[axis] // p.shape[axis])
    return flow.repeat_interleave(p, block, dim=axis).narrow(axis, 0, x.shape[axis])


@handler("QuantizeLinear")
def quantize_linear(c: Call, x: Any, scale: Any, zero: Any = None) -> Any:
    to = elem_of(zero) if zero is not None else (c.get("output_dtype", 0) or UINT8)
    precision = c.get("precision", 0)
    wide = flow.float32 if not precision else dtype_of(precision)
    ratio = _values(x, wide) / _spread(c, scale.to(wide), x)
    offset = None if zero is None else _spread(c, _values(zero, flow.float32), x)
    if to not in RANGES:
        ratio = ratio if offset is None else ratio + offset
        return cast_to(ratio.to(flow.float32), to, bool(c.get("saturate", 1)))
    low, high = RANGES[to]
    code = flow.round(ratio)
    code = flow.clamp(code if offset is None else code + offset, low, high)
    return Narrow(code.to(dtype_of(to)), to) if is_narrow(to) else code.to(flow.int32).to(dtype_of(to))


@handler("DequantizeLinear")
def dequantize_linear(c: Call, x: Any, scale: Any, zero: Any = None) -> Any:
    wide = flow.float32 if scale.dtype != flow.float64 else scale.dtype
    codes = _values(x, wide)
    if zero is not None:
        codes = codes - _spread(c, _values(zero, wide), x)
    to = c.get("output_dtype", 0) or elem_of_dtype(scale.dtype)
    return (codes * _spread(c, scale.to(wide), x)).to(dtype_of(to))


@handler("DynamicQuantizeLinear")
def dynamic_quantize_linear(c: Call, x: Any) -> Any:
    low = flow.minimum(flow.amin(x), flow.zeros((), dtype=x.dtype))
    high = flow.maximum(flow.amax(x), flow.zeros((), dtype=x.dtype))
    scale = (high - low) / 255
    scale = flow.where(scale == 0, flow.ones_like(scale), scale)
    zero = flow.clamp(flow.round(-low / scale), 0, 255)
    codes = flow.clamp(flow.round(x / scale) + zero, 0, 255).to(flow.uint8)
    return codes, scale, zero.to(flow.uint8)


def _requantized(y: Any, scale: Any, zero: Any) -> Any:
    low, high = RANGES[elem_of(zero)]
    codes = flow.clamp(flow.round(y / scale) + zero.to(y.dtype), low, high)
    return codes.to(flow.int32).to(zero.dtype)


@handler("QLinearMatMul")
def qlinear_matmul(
    c: Call, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
) -> Any:
    y = flow.matmul(shifted(a, a_zero, -2), shifted(b, b_zero, -1)).to(flow.float32)
    left = a_scale.to(flow.float32).reshape(-1, 1) if a_scale.numel() > 1 else a_scale.to(flow.float32).reshape(())
    right = b_scale.to(flow.float32) if b_scale.numel() > 1 else b_scale.to(flow.float32).reshape(())
    return _requantized(y * (left * right), y_scale.to(flow.float32).reshape(()), y_zero.reshape(()))


@handler("QLinearConv")
def qlinear_conv(
    c: Call,
    x: Any,
    x_scale: Any,
    x_zero: Any,
    w: Any,
    w_scale: Any,
    w_zero: Any,
    y_scale: Any,
    y_zero: Any,
    bias: Any = None,
) -> Any:
    y = convolution(c, shifted(x, x_zero, None).to(flow.float64), shifted(w, w_zero, 0).to(flow.float64))
    channels = [1, -1, *[1] * (x.dim() - 2)]
    if bias is not None:
        y = y + bias.to(flow.float64).reshape(channels)
    weight_scale = w_scale.reshape(channels) if w_scale.numel() > 1 else w_scale.reshape(())
    y = y.to(flow.float32) * (x_scale.reshape(()) * weight_scale)
    return _requantized(y, y_scale.reshape(()), y_zero.reshape(()))


def _arithmetic(function: Any) -> Any:
    def compute(
        c: Call, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any = None
    ) -> Any:
        left, right = shifted(a, a_zero, None) * a_scale, shifted(b, b_zero, None) * b_scale
        return _requantized(function(left, right), y_scale, flow.zeros((), dtype=a.dtype) if y_zero is None else y_zero)

    return compute


handler("QLinearAdd", domain="com.microsoft")(_arithmetic(flow.add))
handler("QLinearMul", domain="com.microsoft")(_arithmetic(flow.mul))


@handler("MatMulNBits", domain="com.microsoft")
def matmul_n_bits(
    c: Call, x: Any, packed: Any, scales: Any, zeros: Any = None, group: Any = None, bias: Any = None
) -> Any:
    """Rows of codes of ``bits`` each, in blocks with a scale and a zero point; the lowest bits come first."""
    k, n, bits, block = c.need("K"), c.need("N"), c.get("bits", 4), c.need("block_size")
    if bits not in (2, 4, 8):
        raise NotImplementedError(f"MatMulNBits: weights of {bits} bits are not provided (2, 4 and 8 are)")
    if group is not None:
        raise NotImplementedError("MatMulNBits: an order of groups (g_idx) is not provided")
    blocks = -(-k // block)
    codes = _unpacked(packed.reshape(n, -1), bits).narrow(1, 0, blocks * block).reshape(n, blocks, block)
    if zeros is None:
        zero: Any = float(1 << (bits - 1))
    elif zeros.is_floating_point():
        zero = zeros.reshape(n, blocks, 1)
    else:
        zero = _unpacked(zeros.reshape(n, -1), bits).narrow(1, 0, blocks).reshape(n, blocks, 1).to(scales.dtype)
    weight = ((codes.to(scales.dtype) - zero) * scales.reshape(n, blocks, 1)).reshape(n, -1).narrow(1, 0, k)
    y = flow.matmul(x, weight.t().to(x.dtype))
    return y if bias is None else y + bias


def _unpacked(x: Any, bits: int) -> Any:
    wide = x.to(flow.int32)
    parts = [flow.bitwise_and(flow.bitwise_right_shift(wide, s), (1 << bits) - 1) for s in range(0, 8, bits)]
    return flow.stack(parts, -1).reshape(x.shape[0], -1)
