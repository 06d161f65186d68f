"""Functions under the names that PyTorch's library uses, and a few plain ones: compositions of ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.destinations import cast_into
from oneflow.autograd import Function

__all__ = [
    "bilinear",
    "constant_pad_nd",
    "grid_sampler",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "igamma",
    "igammac",
    "native_batch_norm",
    "native_group_norm",
    "native_layer_norm",
    "renorm",
]


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """``nn.functional.pad`` with a constant.

    Example::

        >>> oneflow.constant_pad_nd(oneflow.ones(2), (1, 0), 5.0)
        tensor([5., 1., 1.])
    """
    return oneflow.nn.functional.pad(input, pad, "constant", value)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """:func:`oneflow.nn.functional.bilinear`.

    Example::

        >>> oneflow.bilinear(oneflow.ones(2, 3), oneflow.ones(2, 4), oneflow.ones(5, 3, 4), None).shape
        oneflow.Size([2, 5])
    """
    return oneflow.nn.functional.bilinear(input1, input2, weight, bias)


_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """``nn.functional.grid_sample`` with numbers for bilinear, nearest, bicubic and for zeros, border, reflection.

    Example::

        >>> oneflow.grid_sampler(oneflow.ones(1, 1, 2, 2), oneflow.zeros(1, 1, 1, 2), 0, 0, True)
        tensor([[[[1.]]]])
    """
    if not 0 <= interpolation_mode < len(_MODES) or not 0 <= padding_mode < len(_PADDINGS):
        raise RuntimeError(
            f"grid_sampler(): no interpolation mode {interpolation_mode} or no padding mode {padding_mode}"
        )
    mode, padding = _MODES[interpolation_mode], _PADDINGS[padding_mode]
    return oneflow.nn.functional.grid_sample(input, grid, mode, padding, bool(align_corners))


def _of_rank(n: int) -> Any:
    def sampler(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
        if input.dim() != n + 2:
            raise RuntimeError(f"grid_sampler_{n}d(): expected {n + 2}D input, but got sizes {list(input.shape)}")
        return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)

    sampler.__name__ = sampler.__qualname__ = f"grid_sampler_{n}d"
    ones = ", ".join(["2"] * n)
    grid = ", ".join(["1"] * n)
    call = f"oneflow.grid_sampler_{n}d(oneflow.ones(1, 1, {ones}), oneflow.zeros(1, {grid}, {n}), 0, 0, True).shape"
    sampler.__doc__ = (
        f":func:`grid_sampler` over {n} spatial dimensions.\n\nExample::\n\n    >>> {call}\n"
        f"    oneflow.Size([1, 1, {grid}])"
    )
    return sampler


grid_sampler_2d = _of_rank(2)
grid_sampler_3d = _of_rank(3)


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer norm, and the mean and the reciprocal deviation of each row.

    Example::

        >>> [t.shape for t in oneflow.native_layer_norm(oneflow.ones(2, 3), (3,), None, None, 1e-5)]
        [oneflow.Size([2, 3]), oneflow.Size([2, 1]), oneflow.Size([2, 1])]
    """
    shape = list(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element"
        )
    for what, t in (("weight", weight), ("bias", bias)):
        if t is not None and list(t.shape) != shape:
            raise RuntimeError(
                f"Expected {what} to be of same shape as normalized_shape, but got {what} of shape {list(t.shape)} and "
                f"normalized_shape = {shape}"
            )
    if list(input.shape[input.dim() - len(shape) :]) != shape or input.dim() < len(shape):
        raise RuntimeError(
            f"Given normalized_shape={shape}, expected input with shape [*, {', '.join(map(str, shape))}], "
            f"but got input of size {list(input.shape)}"
        )
    y, mean, rstd = _oneflow._C.native_layer_norm(input, shape, weight, bias, eps)
    return y, mean.to(input.dtype), rstd.to(input.dtype)


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Group norm of (N, C, *), and the mean and the reciprocal deviation (N, groups).

    Example::

        >>> [t.shape for t in oneflow.native_group_norm(oneflow.ones(2, 4, 3), None, None, 2, 4, 3, 2, 1e-5)]
        [oneflow.Size([2, 4, 3]), oneflow.Size([2, 2]), oneflow.Size([2, 2])]
    """
    if input.numel() != N * C * HxW:
        raise RuntimeError(f"native_group_norm(): input {list(input.shape)} has not {N} x {C} x {HxW} elements")
    y, mean, rstd = _oneflow._C.group_norm_with_statistics(input, group, weight, bias, eps)
    if input.requires_grad and oneflow.is_grad_enabled():
        # Those of the kernel are constants to its backward; these have gradients of their own.
        grouped = input.reshape(N, group, C * HxW // group)
        mean = grouped.mean(-1)
        rstd = (grouped.var(-1, unbiased=False) + eps).rsqrt()
    return y, mean.reshape(N, group).to(input.dtype), rstd.reshape(N, group).to(input.dtype)


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch norm of (N, C, *), and in training the batch's mean and reciprocal deviation (C,).

    Example::

        >>> [t.shape for t in oneflow.native_batch_norm(oneflow.ones(2, 3), None, None, None, None, True, 0.1, 1e-5)]
        [oneflow.Size([2, 3]), oneflow.Size([3]), oneflow.Size([3])]
    """
    if not training:
        y = oneflow.nn.functional.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
        return y, input.new_empty(0), input.new_empty(0)
    y, mean, rstd, running = _oneflow._C.batch_norm_training(
        input, weight, bias, running_mean, running_var, momentum, eps
    )
    if running_mean is not None and running_var is not None:
        running_mean.copy_(running[0])
        running_var.copy_(running[1])
    return y, mean.to(input.dtype), rstd.to(input.dtype)


def renorm(input: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None) -> Tensor:
    """Each slice along ``dim`` scaled down to a p-norm of at most ``maxnorm``.

    Raises:
        RuntimeError: fewer than two dimensions, p not positive, or a negative ``maxnorm``.

    Example::

        >>> oneflow.renorm(oneflow.tensor([[3.0, 4.0]]), 2.0, 0, 1.0)
        tensor([[0.6000, 0.8000]])
    """
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    n = input.dim()
    if n < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {n} dimensions")
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    others = tuple(d for d in range(n) if d != dim % n)
    half = input.dtype in (oneflow.float16, oneflow.bfloat16)
    norm = oneflow.linalg.vector_norm(input, p, others, True, dtype=oneflow.float32 if half else None)
    factor = oneflow.where(norm > maxnorm, maxnorm / (norm + 1e-7), oneflow.ones_like(norm))
    y = (input * factor.to(input.dtype)).contiguous()
    return y if out is None else oneflow.alias_copy(y, out=out)


def _renorm_(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """In-place form of :func:`oneflow.renorm`."""
    return self.copy_(renorm(_kept(self), p, dim, maxnorm))


# ---- incomplete gamma functions


def _lower_series(a: Tensor, x: Tensor, steps: int = 3000) -> Tensor:
    """``P(a, x) a / (x ** a exp(-x) / gamma(a))`` for x up to about a."""
    term = oneflow.ones_like(x)
    total, k = term, a
    for i in range(steps):
        k = k + 1
        term = term * (x / k)
        total = total + term
        if i % 16 == 15 and not bool((term.abs() > total.abs() * 1e-17).any()):
            break
    return total


def _upper_fraction(a: Tensor, x: Tensor, steps: int = 3000) -> Tensor:
    """``Q(a, x) / (x ** a exp(-x) / gamma(a))`` for x beyond a, by Legendre's continued fraction. (Lentz, 1976.)"""
    tiny = 1e-300
    b = x + 1 - a
    c = oneflow.full_like(x, 1 / tiny)
    d = 1 / oneflow.where(b == 0, tiny, b)
    h = d
    for i in range(1, steps):
        an = -i * (i - a)
        b = b + 2
        d, c = an * d + b, b + an / c
        d = 1 / oneflow.where(d.abs() < tiny, tiny, d)
        c = oneflow.where(c.abs() < tiny, tiny, c)
        change = d * c
        h = h * change
        if i % 16 == 15 and not bool(((change - 1).abs() > 1e-16).any()):
            break
    return h


def _gamma_parts(a: Tensor, x: Tensor, upper: bool) -> Tensor:
    """The regularised lower or upper incomplete gamma function in double precision."""
    bad = (a < 0) | (x < 0) | a.isnan() | x.isnan() | ((a == 0) & (x == 0)) | (a.isinf() & x.isinf())
    at_zero, at_one = (x == 0) | a.isinf(), (a == 0) | x.isinf()
    plain = ~(bad | at_zero | at_one)
    safe_a, safe_x = oneflow.where(plain, a, 1.0), oneflow.where(plain, x, 1.0)
    by_series = safe_x < safe_a + 1
    scale = (safe_a * safe_x.log() - safe_x - safe_a.lgamma()).exp()
    low_x = oneflow.where(by_series, safe_x, oneflow.minimum(safe_a, oneflow.ones_like(safe_a)))
    high_x = oneflow.where(by_series, safe_a + 2, safe_x)
    low = scale * _lower_series(safe_a, low_x) / safe_a
    high = scale * _upper_fraction(safe_a, high_x)
    lower = oneflow.where(by_series, low, 1 - high)
    value = oneflow.where(by_series, 1 - low, high) if upper else lower
    value = oneflow.where(at_zero, 1.0 if upper else 0.0, value)
    value = oneflow.where(at_one & ~at_zero, 0.0 if upper else 1.0, value)
    return oneflow.where(bad, float("nan"), value)


def _gamma_function(upper: bool) -> Any:
    sign = -1 if upper else 1
    name = "igammac" if upper else "igamma"

    class Incomplete(Function):
        @staticmethod
        def forward(ctx: Any, a: Tensor, x: Tensor) -> Tensor:
            ctx.save_for_backward(a, x)
            dtype = oneflow.result_type(a, x)
            wide_a, wide_x = oneflow.broadcast_tensors(a.double(), x.double())
            return _gamma_parts(wide_a, wide_x, upper).to(dtype)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor]:
            a, x = ctx.saved_tensors
            if ctx.needs_input_grad[0]:
                raise NotImplementedError(f"the derivative for '{name}: input' is not implemented")
            return None, (sign * grad * ((a - 1) * x.log() - x - a.lgamma()).exp()).sum_to_size(x.shape)

    def function(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        for what, t in (("input", input), ("other", other)):
            if not isinstance(t, Tensor):
                raise TypeError(f"{name}(): argument '{what}' must be Tensor, not {type(t).__name__}")
        if not oneflow.result_type(input, other).is_floating_point:
            raise NotImplementedError(f'"{name}" not implemented for integers')
        return cast_into(Incomplete.apply(input, other), out)

    which = "upper" if upper else "lower"
    function.__name__ = function.__qualname__ = name
    example = f">>> oneflow.{name}(oneflow.ones(2), oneflow.ones(2)).shape\n    oneflow.Size([2])"
    function.__doc__ = (
        f"The regularised {which} incomplete gamma function, differentiable in ``other``.\n\nExample::\n\n    {example}"
    )
    return function


igamma = _gamma_function(False)
igammac = _gamma_function(True)


def _kept(input: Tensor) -> Tensor:
    """What a function reads whose result is then written into ``input``: a copy where a gradient will need it."""
    return input.clone() if input.requires_grad and oneflow.is_grad_enabled() else input


def _inplace(f: Any) -> Any:
    def method(self: Tensor, other: Tensor) -> Tensor:
        return self.copy_(f(_kept(self), other))

    method.__name__ = method.__qualname__ = f.__name__ + "_"
    method.__doc__ = f"In-place form of :func:`oneflow.{f.__name__}`."
    return method


def _polygamma(self: Tensor, n: int) -> Tensor:
    """``oneflow.polygamma(n, self)``."""
    return _oneflow.polygamma(n, self)


def _polygamma_(self: Tensor, n: int) -> Tensor:
    """In-place form of :func:`oneflow.polygamma`."""
    return self.copy_(_oneflow.polygamma(n, _kept(self)))


METHODS: dict[str, Any] = {
    "polygamma": _polygamma,
    "polygamma_": _polygamma_,
    "renorm": renorm,
    "renorm_": _renorm_,
    "igamma": igamma,
    "igammac": igammac,
    "igamma_": _inplace(igamma),
    "igammac_": _inplace(igammac),
}
