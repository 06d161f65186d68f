"""Initial values for parameters. Every function fills its tensor in place, without recording, and returns it."""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor, overrides

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]


_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Factor by which a layer before ``nonlinearity`` keeps the variance of its signal.

    Args:
        nonlinearity: name of the functional, such as "relu"; "leaky_relu" uses ``param``, its negative slope.

    Raises:
        ValueError: unknown name, or a slope that is no number.

    Example::

        >>> nn.init.calculate_gain("relu")
        1.4142135623730951
    """
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def _handed_over(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Classes and modes with ``__torch_function__`` receive the call, all arguments by name, as in PyTorch."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def public(*args: Any, **kwargs: Any) -> Tensor:
        if not overrides.has_torch_function_variadic(*args[:1], *kwargs.values()):
            return function(*args, **kwargs)
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        named = given.arguments
        handled: Tensor = overrides.handle_torch_function(public, (named["tensor"],), **named)
        return handled

    return public


def _uniform(tensor: Tensor, a: float, b: float, generator: Any) -> Tensor:
    with oneflow.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def _normal(tensor: Tensor, mean: float, std: float, generator: Any) -> Tensor:
    with oneflow.no_grad():
        return tensor.normal_(mean, std, generator=generator)


@_handed_over
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with draws from the uniform distribution on [a, b).

    Example::

        >>> nn.init.uniform_(oneflow.empty(2), 1.0, 1.0)
        tensor([1., 1.])
    """
    return _uniform(tensor, a, b, generator)


@_handed_over
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with draws from the normal distribution.

    Example::

        >>> nn.init.normal_(oneflow.empty(2, 3), mean=1.0, std=0.0)
        tensor([[1., 1., 1.],
                [1., 1., 1.]])
    """
    return _normal(tensor, mean, std, generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Fill with draws from the normal distribution cut to [a, b].

    Where most normal numbers lie inside, those outside are drawn again; otherwise uniform numbers are accepted by their
    density.

    Example::

        >>> nn.init.trunc_normal_(oneflow.empty(50), a=-1.0, b=1.0).abs().max() <= 1.0
        tensor(True)
    """
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )

    def cdf(x: float) -> float:
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    with oneflow.no_grad():
        if cdf((b - mean) / std) - cdf((a - mean) / std) > 0.3:
            draws = _inside(tensor, mean, std, a, b, generator)
        else:
            draws = _accepted(tensor, mean, std, a, b, generator)
        return tensor if draws is tensor else tensor.copy_(draws)


def _inside(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    """Return normal numbers; those outside of [a, b], as the dtype rounds them, are drawn again."""
    low, high = oneflow.tensor([a, b], dtype=tensor.dtype).tolist()
    draws = tensor.normal_(mean, std, generator=generator)
    while (outside := (draws < low) | (draws > high)).any():
        draws = oneflow.where(outside, oneflow.empty_like(draws).normal_(mean, std, generator=generator), draws)
    return draws


def _accepted(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    """Uniform numbers of [a, b], each drawn again until it is accepted with its density over the greatest one."""
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    candidates, draws, waiting = oneflow.empty_like(tensor), tensor, None
    chances = oneflow.empty_like(tensor)
    while True:
        if waiting is None:
            candidates.copy_(tensor.uniform_(a, b, generator=generator))
        else:
            draws = oneflow.where(waiting, candidates.uniform_(a, b, generator=generator), draws)
        log_density = candidates.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        rejected = chances.uniform_(generator=generator).log_().gt(log_density)
        waiting = rejected if waiting is None else waiting & rejected
        if not waiting.any():
            return draws


@_handed_over
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with ``val``.

    Example::

        >>> nn.init.constant_(oneflow.empty(2), 0.5)
        tensor([0.5000, 0.5000])
    """
    with oneflow.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones.

    Example::

        >>> nn.init.ones_(oneflow.empty(2))
        tensor([1., 1.])
    """
    with oneflow.no_grad():
        return tensor.fill_(1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros.

    Example::

        >>> nn.init.zeros_(oneflow.empty(2))
        tensor([0., 0.])
    """
    with oneflow.no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """Make a 2-D tensor the identity, as far as it is square.

    Example::

        >>> nn.init.eye_(oneflow.empty(2, 3))
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    with oneflow.no_grad():
        rows_at = oneflow.arange(rows, device=tensor.device).unsqueeze(1)
        return tensor.copy_((rows_at == oneflow.arange(columns, device=tensor.device)).to(tensor.dtype))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Make a 3-, 4- or 5-D convolution weight pass its input channels through unchanged.

    Example::

        >>> nn.init.dirac_(oneflow.empty(2, 2, 3))
        tensor([[[0., 1., 0.],
                 [0., 0., 0.]],
        <BLANKLINE>
                [[0., 0., 0.],
                 [0., 1., 0.]]])
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.shape[0] // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    with oneflow.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.shape[1])):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    receptive = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[0 if mode == "fan_in" else 1]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform with variance ``gain^2 * 2 / (fan_in + fan_out)``. (Glorot and Bengio, 2010.)

    Example::

        >>> nn.init.xavier_uniform_(oneflow.empty(3, 3)).abs().max() <= 1.0
        tensor(True)
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / (fan_in + fan_out))
    return _uniform(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with variance ``gain^2 * 2 / (fan_in + fan_out)``. (Glorot and Bengio, 2010.)

    Example::

        >>> nn.init.xavier_normal_(oneflow.empty(3, 5)).shape
        oneflow.Size([3, 5])
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return _normal(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


@_handed_over
def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Uniform with variance ``gain^2 / fan``. (He et al., "Delving Deep into Rectifiers", 2015.)

    Args:
        tensor: at least 2-D, (out, in, ...).
        a: negative slope of a leaky ReLU that follows.
        mode: "fan_in" keeps the variance forward, "fan_out" backward.
        nonlinearity: what follows the layer.

    Example::

        >>> nn.init.kaiming_uniform_(oneflow.empty(3, 6), a=0.0).abs().max() <= 1.0
        tensor(True)
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return _uniform(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Normal with variance ``gain^2 / fan``; arguments as :func:`kaiming_uniform_`.

    Example::

        >>> nn.init.kaiming_normal_(oneflow.empty(100, 50), nonlinearity="relu").std() < 0.3
        tensor(True)
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    return _normal(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with a (semi-)orthogonal matrix times ``gain``; dimensions after the first count as one. (Saxe, 2013.)

    Raises:
        ValueError: the tensor has fewer than two dimensions.

    Example::

        >>> w = nn.init.orthogonal_(oneflow.empty(3, 3))
        >>> oneflow.allclose(w @ w.T, oneflow.eye(3), atol=1e-5)
        True
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.size(0), tensor.numel() // tensor.size(0)
    with oneflow.no_grad():
        flat = oneflow.empty(rows, columns, dtype=tensor.dtype, device=tensor.device)
        flat.normal_(0, 1, generator=generator)
        flat = flat.t() if rows < columns else flat
        q, r = oneflow.linalg.qr(flat)
        # Signs of the diagonal make the distribution uniform.
        q = q * r.diagonal().sign()
        tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape) * gain)
    return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal values with a share ``sparsity`` of every column set to zero. The tensor is 2-D.

    Example::

        >>> (nn.init.sparse_(oneflow.empty(10, 4), sparsity=0.5) == 0).sum(0)
        tensor([5, 5, 5, 5])
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    n_zeros = math.ceil(sparsity * rows)
    with oneflow.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[oneflow.randperm(rows)[:n_zeros], column] = 0
    return tensor


def _deprecated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function under its old name, without underscore."""
    old = function.__name__[:-1]

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{function.__name__}`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    wrapper.__name__ = old
    return wrapper


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
