"""Activation functions as functions: ops of the table under the names and arguments of ``torch.nn.functional``."""

from __future__ import annotations

import warnings
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow

# An op that a functional only renames is bound directly: a frame around it would double the cost of a small call.
gelu = _oneflow.gelu
glu_op = _oneflow.glu
hardshrink = _oneflow.hardshrink
logsigmoid = _oneflow.log_sigmoid
prelu = _oneflow.prelu
softplus = _oneflow.softplus
softshrink = _oneflow.softshrink


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``x`` where it is above ``threshold``, ``value`` elsewhere.

    Example::

        >>> F.threshold(oneflow.tensor([-1.0, 0.5, 2.0]), 0.1, 20.0)
        tensor([20.0000,  0.5000,  2.0000])
    """
    op = _oneflow.threshold_ if inplace else _oneflow.threshold
    return op(input, threshold, value)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """In-place form of :func:`threshold`.

    Example::

        >>> F.threshold_(oneflow.tensor([-1.0, 0.5, 2.0]), 0.1, 20.0)
        tensor([20.0000,  0.5000,  2.0000])
    """
    return _oneflow.threshold_(input, threshold, value)


def relu_(input: Tensor) -> Tensor:
    """In-place form of ``relu``.

    Example::

        >>> F.relu_(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([0.0000, 0.5000, 2.0000])
    """
    return input.relu_()


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(x, 0), 6)``.

    Example::

        >>> F.relu6(oneflow.tensor([-1.0, 3.0, 8.0]))
        tensor([0., 3., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Elements limited to [min_val, max_val].

    Raises:
        ValueError: ``min_val`` is above ``max_val``.

    Example::

        >>> F.hardtanh(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (_oneflow.hardtanh_ if inplace else _oneflow.hardtanh)(input, min_val, max_val)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """In-place form of :func:`hardtanh`.

    Example::

        >>> F.hardtanh_(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-1.0000,  0.5000,  1.0000])
    """
    return hardtanh(input, min_val, max_val, True)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``(x + 3) / 6`` limited to [0, 1].

    Example::

        >>> F.hardsigmoid(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([0.3333, 0.5833, 0.8333])
    """
    return _oneflow.hardsigmoid_(input) if inplace else _oneflow.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * hardsigmoid(x)``.

    Example::

        >>> F.hardswish(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.3333,  0.2917,  1.6667])
    """
    return _oneflow.hardswish_(input) if inplace else _oneflow.hardswish(input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where it is positive, ``alpha * (exp(x) - 1)`` elsewhere.

    Example::

        >>> F.elu(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.6321,  0.5000,  2.0000])
    """
    return _oneflow.elu_(input, alpha) if inplace else _oneflow.elu(input, alpha)


def elu_(input: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    """In-place form of :func:`elu`: ``scale * x`` above zero, ``scale * alpha * (exp(input_scale * x) - 1)`` below.

    Example::

        >>> F.elu_(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.6321,  0.5000,  2.0000])
    """
    if scale == 1.0 and input_scale == 1.0:
        return _oneflow.elu_(input, alpha)
    below = scale * alpha * (input * input_scale).expm1()
    return input.copy_(oneflow.where(input > 0, scale * input, below))


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The self-normalising exponential linear unit.

    Example::

        >>> F.selu(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-1.1113,  0.5254,  2.1014])
    """
    return _oneflow.selu_(input) if inplace else _oneflow.selu(input)


def selu_(input: Tensor) -> Tensor:
    """In-place form of :func:`selu`.

    Example::

        >>> F.selu_(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-1.1113,  0.5254,  2.1014])
    """
    return _oneflow.selu_(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``.

    Example::

        >>> F.celu(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.6321,  0.5000,  2.0000])
    """
    return _oneflow.celu_(input, alpha) if inplace else _oneflow.celu(input, alpha)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place form of :func:`celu`.

    Example::

        >>> F.celu_(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.6321,  0.5000,  2.0000])
    """
    return _oneflow.celu_(input, alpha)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``x`` where it is positive, ``negative_slope * x`` elsewhere.

    Example::

        >>> F.leaky_relu(oneflow.tensor([-1.0, 0.5, 2.0]), 0.1)
        tensor([-0.1000,  0.5000,  2.0000])
    """
    return (_oneflow.leaky_relu_ if inplace else _oneflow.leaky_relu)(input, negative_slope)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """In-place form of :func:`leaky_relu`.

    Example::

        >>> F.leaky_relu_(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.0100,  0.5000,  2.0000])
    """
    return _oneflow.leaky_relu_(input, negative_slope)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """``x`` where it is positive, elsewhere times a random slope of [lower, upper), their mean unless ``training``.

    Example::

        >>> F.rrelu(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.2292,  0.5000,  2.0000])
    """
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    if oneflow.default_generator.engine == "mt19937":
        # Drawn one after the other, there are numbers for those that need one alone.
        slope = oneflow.ones(input.shape, dtype=input.dtype)
        below = input.detach() <= 0
        slope[below] = oneflow.empty(int(below.sum()), dtype=oneflow.float64).uniform_(lower, upper).to(input.dtype)
    else:
        slope = oneflow.where(input > 0, 1.0, oneflow.empty_like(input).uniform_(lower, upper)).to(input.dtype)
    return input.mul_(slope) if inplace else input * slope


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """In-place form of :func:`rrelu`.

    Example::

        >>> F.rrelu_(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.2292,  0.5000,  2.0000])
    """
    return rrelu(input, lower, upper, training, True)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * tanh(softplus(x))``.

    Example::

        >>> F.mish(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.3034,  0.3752,  1.9440])
    """
    return _oneflow.mish_(input) if inplace else _oneflow.mish(input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along ``dim`` times the sigmoid of the second.

    Example::

        >>> F.glu(oneflow.tensor([1.0, 2.0, 0.0, 0.0]))
        tensor([0.5000, 1.0000])
    """
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return glu_op(input, dim)


def softsign(input: Tensor) -> Tensor:
    """``x / (1 + abs(x))``.

    Example::

        >>> F.softsign(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.5000,  0.3333,  0.6667])
    """
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """``x - tanh(x)``.

    Example::

        >>> F.tanhshrink(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.2384,  0.0379,  1.0360])
    """
    return input - input.tanh()


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Softmax of ``-input`` along ``dim``.

    Example::

        >>> F.softmin(oneflow.tensor([-1.0, 0.5, 2.0]), dim=-1)
        tensor([0.7856, 0.1753, 0.0391])
    """
    return softmax(-input, dim, _stacklevel + 1, dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Draw a relaxed sample of the categorical distribution with the given logits along ``dim``.

    Args:
        tau: temperature; the smaller, the closer to one-hot.
        hard: return one-hot vectors whose gradient is that of the relaxed sample.

    (Jang et al., "Categorical Reparameterization with Gumbel-Softmax", 2017.)

    Example::

        >>> F.gumbel_softmax(oneflow.zeros(2, 3), hard=True).sum(-1)
        tensor([1., 1.])
    """
    gumbels = -oneflow.empty_like(logits).exponential_().log()
    soft = ((logits + gumbels) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one_hot = oneflow.zeros_like(logits).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(x, 0)`` elementwise; with ``inplace`` into ``input`` itself.

    Example::

        >>> F.relu(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([0.0000, 0.5000, 2.0000])
    """
    return input.relu_() if inplace else _oneflow.relu(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)`` elementwise; with ``inplace`` into ``input`` itself.

    Example::

        >>> F.silu(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.2689,  0.3112,  1.7616])
    """
    return _oneflow.silu_(input) if inplace else _oneflow.silu(input)


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent, elementwise.

    Example::

        >>> F.tanh(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.7616,  0.4621,  0.9640])
    """
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-x))``, elementwise.

    Example::

        >>> F.sigmoid(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([0.2689, 0.6225, 0.8808])
    """
    return input.sigmoid()


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Softmax along ``dim``; the input is cast to ``dtype`` first if one is given.

    Example::

        >>> F.softmax(oneflow.tensor([-1.0, 0.5, 2.0]), dim=-1)
        tensor([0.0391, 0.1753, 0.7856])
    """
    if dim is None:
        dim = _implicit_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Logarithm of the softmax along ``dim``; the input is cast to ``dtype`` first if one is given.

    Example::

        >>> F.log_softmax(oneflow.tensor([-1.0, 0.5, 2.0]), dim=-1)
        tensor([-3.2413, -1.7413, -0.2413])
    """
    if dim is None:
        dim = _implicit_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def _implicit_dim(name: str, n_dims: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel + 1,
    )
    return 0 if n_dims in (0, 1, 3) else 1
