"""Rounding to few bits in training: observers of ranges, and quantization with and without going back to floats."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor

FORMULAS = ("google", "cambricon")
SCHEMES = ("symmetric", "affine")


def _check(formula: str, scheme: str, bits: int) -> None:
    if formula not in FORMULAS or scheme not in SCHEMES or (formula == "cambricon" and scheme != "symmetric"):
        raise ValueError(f"no quantization by the formula {formula!r} in the scheme {scheme!r}")
    if bits < 2:
        raise ValueError(f"quantization_bit must be at least 2, got {bits}")


def _scale(low: Tensor, high: Tensor, formula: str, bits: int, scheme: str) -> tuple[Tensor, Tensor]:
    """Scale and zero point of numbers between ``low`` and ``high``."""
    if scheme == "affine":
        scale = (high - low) / (2.0**bits - 1)
        return scale, -(low / scale).round()
    largest = oneflow.maximum(low.abs(), high.abs())
    zero = oneflow.zeros_like(largest)
    if formula == "cambricon":
        return largest.log2().floor() - (bits - 2), zero
    return largest / (2.0 ** (bits - 1) - 1), zero


def min_max_observer(
    input: Tensor,
    quantization_formula: str = "google",
    quantization_bit: int = 8,
    quantization_scheme: str = "symmetric",
    per_layer_quantization: bool = True,
) -> tuple[Tensor, Tensor]:
    """Scale and zero point for the elements of ``input``: (1,), or by rows (n,) of (n, *).

    Args:
        quantization_formula: "google", or "cambricon", whose scale is an exponent of two.
        quantization_scheme: "symmetric" about zero or, with "google", "affine".
    """
    _check(quantization_formula, quantization_scheme, quantization_bit)
    rows = input.detach().reshape(1 if per_layer_quantization else input.shape[0], -1)
    return _scale(rows.amin(1), rows.amax(1), quantization_formula, quantization_bit, quantization_scheme)


def moving_average_min_max_observer(
    input: Tensor,
    current_train_step: Tensor,
    moving_max: Tensor,
    moving_min: Tensor,
    training: bool,
    stop_update_after_iters: int,
    quantization_formula: str = "google",
    quantization_bit: int = 8,
    quantization_scheme: str = "symmetric",
    momentum: float = 0.95,
) -> tuple[Tensor, Tensor]:
    """As :func:`min_max_observer`, of ranges averaged over steps; moves ``moving_max`` and ``moving_min`` in place.

    Args:
        current_train_step: one integer; beyond ``stop_update_after_iters`` the averages stay.
        momentum: what the averages keep; at zero they take the range as it is.
    """
    _check(quantization_formula, quantization_scheme, quantization_bit)
    if training:
        with oneflow.no_grad():
            on = current_train_step.to(input.device).reshape(-1)[:1] <= stop_update_after_iters
            x = input.detach()
            found_high, found_low = x.amax().reshape(1), x.amin().reshape(1)
            if quantization_scheme == "symmetric":
                found_high = oneflow.maximum(found_high.abs(), found_low.abs())
                found_low = -found_high
            for moving, found in ((moving_max, found_high), (moving_min, found_low)):
                averaged = oneflow.where(moving == 0, found, moving * momentum + found * (1 - momentum))
                moving.copy_(oneflow.where(on, averaged, moving))
    return _scale(moving_min, moving_max, quantization_formula, quantization_bit, quantization_scheme)


def _rounded(x: Tensor, scale: Tensor, zero_point: Tensor, formula: str, bits: int, scheme: str) -> tuple[Any, ...]:
    """Whole numbers, and the step and the shift that bring them back."""
    shape = (-1, *([1] * (x.dim() - 1))) if scale.numel() > 1 else ()
    step = scale.reshape(shape).exp2() if formula == "cambricon" else scale.reshape(shape)
    if scheme == "affine":
        shift = zero_point.reshape(shape)
        return (x / step + shift).round().clamp(0, 2**bits - 1), step, shift
    most = 2 ** (bits - 1) - 1
    return (x / step).round().clamp(-most - 1, most), step, 0.0


def quantization(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quantization_formula: str = "google",
    quantization_bit: int = 8,
    quantization_scheme: str = "symmetric",
) -> Tensor:
    """Return the integers that represent ``x``, as floats.

    Args:
        scale, zero_point: from an observer; one number, or one a row.
    """
    _check(quantization_formula, quantization_scheme, quantization_bit)
    return _rounded(x, scale, zero_point, quantization_formula, quantization_bit, quantization_scheme)[0]


def fake_quantization(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quantization_formula: str = "google",
    quantization_bit: int = 8,
    quantization_scheme: str = "symmetric",
) -> Tensor:
    """``x`` rounded to what quantization can hold; the gradient passes as if it were not rounded."""
    _check(quantization_formula, quantization_scheme, quantization_bit)
    with oneflow.no_grad():
        whole, step, shift = _rounded(
            x.detach(), scale, zero_point, quantization_formula, quantization_bit, quantization_scheme
        )
        change = (whole - shift) * step - x.detach()
    return x + change


def groupwise_dequantize(
    input: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    num_bits: int = 8,
    symmetric: bool = True,
    group_dim: int = -1,
    group_size: int = -1,
) -> Tensor:
    """Floats from whole numbers of 8 or 4 bits, one scale for each group along a dimension.

    Args:
        input: int8 or uint8; two numbers of 4 bits share a byte of the last dimension, the high half first.
        scale, zero: as ``input``, with one entry a group along ``group_dim``. Without ``zero`` the numbers are signed.
        group_size: elements of a group; all of the dimension by default.
    """
    if num_bits not in (4, 8):
        raise ValueError(f"groupwise_dequantize: num_bits must be 4 or 8, got {num_bits}")
    whole = input.to(oneflow.int32)
    if num_bits == 4:
        high = oneflow.bitwise_right_shift(whole, 4).bitwise_and(15)
        whole = oneflow.stack([high, whole.bitwise_and(15)], -1).flatten(-2)
        if symmetric:
            whole = oneflow.where(whole > 7, whole - 16, whole)
    dim = group_dim % whole.dim()
    size = whole.shape[dim] if group_size < 1 else group_size
    wide = scale.repeat_interleave(size, dim)
    values = whole.to(scale.dtype)
    if not symmetric and zero is not None:
        values = values - zero.repeat_interleave(size, dim)
    return values * wide


def fused_linear_with_groupwise_quantized_weight(
    x: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor | None = None,
    b: Tensor | None = None,
    num_bits: int = 8,
    symmetric: bool = True,
    group_dim: int = -1,
    group_size: int = -1,
) -> Tensor:
    """A linear layer over :func:`groupwise_dequantize` of its weight."""
    weight = groupwise_dequantize(w, w_scale, w_zero, num_bits, symmetric, group_dim, group_size)
    return oneflow.nn.functional.linear(x, weight, b)
