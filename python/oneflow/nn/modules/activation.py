"""Activation functions as modules. All keep the shape of their input."""

from __future__ import annotations

import warnings
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn.modules.module import Module
from oneflow.nn.parameter import Parameter


class _Inplace(Module):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_Inplace):
    """``max(x, 0)``.

    Example::

        >>> nn.ReLU()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([0.0000, 0.5000, 2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class SiLU(_Inplace):
    """``x * sigmoid(x)``.

    Example::

        >>> nn.SiLU()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.2689,  0.3112,  1.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class GELU(Module):
    """``x`` times the normal distribution's cumulative function at ``x``.

    Args:
        approximate: "none" for the exact function, "tanh" for the tanh approximation.

    (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.)

    Example::

        >>> nn.GELU()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.1587,  0.3457,  1.9545])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Tanh(Module):
    """Hyperbolic tangent.

    Example::

        >>> nn.Tanh()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.7616,  0.4621,  0.9640])
    """

    def forward(self, input: Tensor) -> Tensor:
        return oneflow.tanh(input)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``.

    Example::

        >>> nn.Sigmoid()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([0.2689, 0.6225, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        return oneflow.sigmoid(input)


def _checked_dim(dim: int | None) -> int | None:
    if dim is not None and (not isinstance(dim, int) or isinstance(dim, bool)):
        raise TypeError(f"dim must be an int or None, got {type(dim)}")
    return dim


class Softmax(Module):
    """``exp(x)`` divided by its sum along ``dim``.

    Example::

        >>> nn.Softmax(dim=-1)(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([0.0391, 0.1753, 0.7856])
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = _checked_dim(dim)

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """Logarithm of the softmax along ``dim``.

    Example::

        >>> nn.LogSoftmax(dim=-1)(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-3.2413, -1.7413, -0.2413])
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = _checked_dim(dim)

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class _Plain(Module):
    """A function without options."""

    _function = staticmethod(F.softsign)

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input)


class Softsign(_Plain):
    """``x / (1 + abs(x))``.

    Example::

        >>> nn.Softsign()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.5000,  0.3333,  0.6667])
    """


class Tanhshrink(_Plain):
    """``x - tanh(x)``.

    Example::

        >>> nn.Tanhshrink()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.2384,  0.0379,  1.0360])
    """

    _function = staticmethod(F.tanhshrink)


class LogSigmoid(_Plain):
    """``log(1 / (1 + exp(-x)))``.

    Example::

        >>> nn.LogSigmoid()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-1.3133, -0.4741, -0.1269])
    """

    _function = staticmethod(F.logsigmoid)


class Threshold(Module):
    """``x`` where it is above ``threshold``, ``value`` elsewhere.

    Example::

        >>> nn.Threshold(0.1, 20.0)(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([20.0000,  0.5000,  2.0000])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class Hardtanh(Module):
    """Elements limited to [min_val, max_val].

    Example::

        >>> nn.Hardtanh()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-1.0000,  0.5000,  1.0000])
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for old, name in ((min_value, "min_val"), (max_value, "max_val")):
            if old is not None:
                text = f"keyword argument `{name}ue` is deprecated and rename to `{name}`"
                warnings.warn(text, FutureWarning, stacklevel=2)
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace
        assert self.max_val > self.min_val

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """``min(max(x, 0), 6)``.

    Example::

        >>> nn.ReLU6()(oneflow.tensor([-1.0, 3.0, 8.0]))
        tensor([0., 3., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Hardsigmoid(_Inplace):
    """``(x + 3) / 6`` limited to [0, 1].

    Example::

        >>> nn.Hardsigmoid()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([0.3333, 0.5833, 0.8333])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


class Hardswish(_Inplace):
    """``x * hardsigmoid(x)`` (Howard et al., "Searching for MobileNetV3", 2019).

    Example::

        >>> nn.Hardswish()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.3333,  0.2917,  1.6667])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)


class Mish(_Inplace):
    """``x * tanh(softplus(x))`` (Misra, "Mish", 2019).

    Example::

        >>> nn.Mish()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.3034,  0.3752,  1.9440])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class SELU(_Inplace):
    """The self-normalising exponential linear unit (Klambauer et al., 2017).

    Example::

        >>> nn.SELU()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-1.1113,  0.5254,  2.1014])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class _Alpha(Module):
    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class ELU(_Alpha):
    """``x`` where it is positive, ``alpha * (exp(x) - 1)`` elsewhere (Clevert et al., 2016).

    Example::

        >>> nn.ELU()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.6321,  0.5000,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Alpha):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`` (Barron, 2017).

    Example::

        >>> nn.CELU()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.6321,  0.5000,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(Module):
    """``x`` where it is positive, ``negative_slope * x`` elsewhere.

    Example::

        >>> nn.LeakyReLU(0.1)(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.1000,  0.5000,  2.0000])
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    """A random slope from [lower, upper) below zero while training, their mean otherwise.

    Example::

        >>> nn.RReLU().eval()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.2292,  0.5000,  2.0000])
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class PReLU(Module):
    """``x`` where it is positive, a learned ``weight * x`` elsewhere; one weight or one a channel.

    (He et al., "Delving Deep into Rectifiers", 2015.)

    Example::

        >>> nn.PReLU()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.2500,  0.5000,  2.0000], grad_fn=<PreluKernelBackward0>)
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(oneflow.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill the weight with its first value."""
        with oneflow.no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class _Lambd(Module):
    def __init__(self, lambd: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.lambd = lambd
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"{self.lambd}" + (", inplace=True" if self.inplace else "")


class Hardshrink(_Lambd):
    """``x`` where its absolute value is above ``lambd``, zero elsewhere.

    Example::

        >>> nn.Hardshrink()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-1.,  0.,  2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        output = F.hardshrink(input, self.lambd)
        return input.copy_(output) if self.inplace else output


class Softshrink(_Lambd):
    """``x`` moved towards zero by ``lambd``; zero where it is closer than that.

    Example::

        >>> nn.Softshrink()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.5000,  0.0000,  1.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        output = F.softshrink(input, self.lambd)
        return input.copy_(output) if self.inplace else output


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``; ``x`` itself where ``beta * x`` is above ``threshold``.

    Example::

        >>> nn.Softplus()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([0.3133, 0.9741, 2.1269])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class GLU(Module):
    """The first half along ``dim`` times the sigmoid of the second (Dauphin et al., 2017).

    Example::

        >>> nn.GLU()(oneflow.tensor([1.0, 2.0, 0.0, 0.0]))
        tensor([0.5000, 1.0000])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(Module):
    """Softmax of ``-x`` along ``dim``.

    Example::

        >>> nn.Softmin(dim=-1)(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([0.7856, 0.1753, 0.0391])
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W).

    Example::

        >>> nn.Softmax2d()(oneflow.ones(1, 2, 1, 1)).flatten()
        tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)
