"""Dropout: of elements, of whole channels, and such that keeps mean and variance."""

from __future__ import annotations

import warnings

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.global_layouts import replicate_like

# The limit of SELU for inputs far below zero.
_ALPHA = 1.7580993408473766

_REAL = {oneflow.complex64: oneflow.float32, oneflow.complex128: oneflow.float64}


def _check(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _ones(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Ones of a shape; real where ``like`` is complex, since a complex number is dropped as a whole."""
    dtype = _REAL.get(like.dtype, like.dtype)
    return replicate_like(like, oneflow.ones(shape, dtype=dtype, device=like.device))


def _kept(shape: tuple[int, ...], like: Tensor, p: float) -> Tensor:
    """One with probability ``1 - p``, else zero."""
    ones = _ones(shape, like)
    if p == 1.0:
        return oneflow.zeros_like(ones)
    return _oneflow._C.native_dropout(ones, p)[0] * (1.0 - p)


def _into(input: Tensor, output: Tensor, inplace: bool) -> Tensor:
    return input.copy_(output) if inplace else output


def _channels(input: Tensor, p: float, training: bool, inplace: bool, n_batch_dims: int) -> Tensor:
    if not training or p == 0.0 or input.numel() == 0:
        return input
    shape = tuple(input.shape[:n_batch_dims]) + (1,) * (input.dim() - n_batch_dims)
    return _into(input, input * _oneflow._C.native_dropout(_ones(shape, input), p)[0], inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels of (N, C, L) or (C, L) to zero with probability ``p`` and scale the rest.

    Example::

        >>> F.dropout1d(oneflow.ones(1, 2, 3), training=False).shape
        oneflow.Size([1, 2, 3])
    """
    _check(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that dropout1d exists to "
            "provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional "
            "batch dimension (i.e. 2D or 3D inputs)."
        )
    return _channels(input, p, training, inplace, input.dim() - 1)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels of (N, C, H, W) to zero with probability ``p`` and scale the rest by ``1 / (1 - p)``.

    Example::

        >>> F.dropout2d(oneflow.ones(1, 2, 3, 3), training=False).shape
        oneflow.Size([1, 2, 3, 3])
    """
    _check(p)
    if input.dim() not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {input.dim()}-D input to dropout2d, which is deprecated and will result in an "
            "error in a future release. To retain the behavior and silence this warning, please use dropout instead.",
            stacklevel=3,
        )
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "- input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a "
            "future release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain "
            "the 1D channel-wise dropout behavior, please switch to using dropout1d instead.",
            stacklevel=3,
        )
    return _channels(input, p, training, inplace, min(2, input.dim()))


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels of (N, C, D, H, W) or (C, D, H, W) to zero with probability ``p`` and scale the rest.

    Example::

        >>> F.dropout3d(oneflow.ones(1, 2, 3, 3, 3), training=False).shape
        oneflow.Size([1, 2, 3, 3, 3])
    """
    _check(p)
    if input.dim() not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {input.dim()}-D input to dropout3d, which is deprecated and will result in an "
            "error in a future release. To retain the behavior and silence this warning, please use dropout instead.",
            stacklevel=3,
        )
    return _channels(input, p, training, inplace, input.dim() - 3 if input.dim() in (4, 5) else min(2, input.dim()))


def _alpha(input: Tensor, p: float, shape: tuple[int, ...], inplace: bool) -> Tensor:
    if p == 1.0:
        return _into(input, input * 0, inplace)
    a = ((_ALPHA**2 * p + 1) * (1 - p)) ** -0.5
    kept = _kept(shape, input, p).round()
    shift = (kept - 1) * (_ALPHA * a) + _ALPHA * a * p
    return _into(input, input * (kept * a) + shift, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout for SELU networks: dropped elements go to SELU's floor, and mean and variance stay. (Klambauer, 2017.)

    Example::

        >>> F.alpha_dropout(oneflow.tensor([1.0, 2.0]), training=False)
        tensor([1., 2.])
    """
    _check(p)
    if not training or p == 0.0 or input.numel() == 0:
        return input
    return _alpha(input, p, tuple(input.shape), inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """As :func:`alpha_dropout` for whole channels of (N, C, ...).

    Example::

        >>> F.feature_alpha_dropout(oneflow.ones(1, 2, 3), training=False).shape
        oneflow.Size([1, 2, 3])
    """
    _check(p)
    if not training or p == 0.0 or input.numel() == 0:
        return input
    if input.dim() < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return _alpha(input, p, tuple(input.shape[:2]) + (1,) * (input.dim() - 2), inplace)


def dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    generator: oneflow.Generator | None = None,
    *,
    addend: Tensor | None = None,
) -> Tensor:
    """Set elements to zero with probability ``p`` and scale the rest by ``1 / (1 - p)``; identity unless ``training``.

    Args:
        input: any shape, floating point or complex.
        p: probability of zero, within [0, 1].
        training: whether to drop anything.
        inplace: write into ``input``.
        generator: where the random numbers come from, as in OneFlow.
        addend: added to the result, as in OneFlow; of the shape of ``input``.

    Raises:
        ValueError: ``p`` is outside [0, 1].

    Example::

        >>> F.dropout(oneflow.tensor([1.0, 2.0]), p=0.5, training=False)
        tensor([1., 2.])
        >>> F.dropout(oneflow.tensor([1.0, 2.0]), p=1.0)
        tensor([0., 0.])
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input if addend is None else input + addend
    if input.is_complex():
        output = input * _oneflow._C.native_dropout(_ones(tuple(input.shape), input), p, generator=generator)[0]
    else:
        output = _oneflow._C.native_dropout(input, p, generator=generator)[0]
    output = output if addend is None else output + addend
    return input.copy_(output) if inplace else output
