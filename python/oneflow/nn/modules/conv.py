"""Convolutions and transposed convolutions over one to three spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn import init
from oneflow.nn.modules.module import Module
from oneflow.nn.parameter import Parameter

_Size = int | Sequence[int]


def _tuple(v: Any, n: int) -> tuple[Any, ...]:
    return tuple(v) if isinstance(v, Sequence) else (v,) * n


class _ConvNd(Module):
    """The base of all convolutions: weight, bias and their initialisation."""

    n: int
    """Number of spatial dimensions."""

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[int, ...] | str,
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        modes = {"zeros", "reflect", "replicate", "circular"}
        if padding_mode not in modes:
            raise ValueError(f"padding_mode must be one of {modes}, but got padding_mode='{padding_mode}'")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        # Widths around the input, the last dimension first, as ``pad`` takes them.
        if isinstance(padding, str):
            around = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilation, kernel_size, strict=False)]
            self._reversed_padding_repeated_twice = [
                width for total in reversed(around) for width in (total // 2, total - total // 2)
            ]
        else:
            self._reversed_padding_repeated_twice = [p for p in reversed(padding) for _ in range(2)]
        first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        shape = (first, second // groups, *kernel_size)
        self.weight = Parameter(oneflow.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(oneflow.empty((out_channels,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias again, uniform in +-1/sqrt(in_channels / groups * kernel size)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.shape[1] * math.prod(self.weight.shape[2:])
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        zero, one = (0,) * self.n, (1,) * self.n
        if self.padding != zero:
            text += f", padding={self.padding}"
        if self.dilation != one:
            text += f", dilation={self.dilation}"
        if self.output_padding != zero:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_ConvNd):
    _f: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Size,
        stride: _Size = 1,
        padding: _Size | str = 0,
        dilation: _Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        n = self.n
        super().__init__(
            in_channels,
            out_channels,
            _tuple(kernel_size, n),
            _tuple(stride, n),
            padding if isinstance(padding, str) else _tuple(padding, n),
            _tuple(dilation, n),
            False,
            (0,) * n,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return type(self)._f(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Convolution over sequences.

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, dilation: of the window.
        padding: zeros on both sides, or "same" or "valid".
        groups: the channels fall into so many convolutions side by side; divides both numbers of channels.
        bias: False leaves the bias out.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        device, dtype: of the parameters.

    Input (n, in_channels, l) or (in_channels, l), output (n, out_channels, l_out) with
    ``l_out = (l + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``.

    Example::

        >>> oneflow.nn.Conv1d(16, 33, 3, stride=2)(oneflow.zeros(20, 16, 50)).shape
        oneflow.Size([20, 33, 24])
    """

    n = 1
    _f = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Convolution over images; arguments as :class:`Conv1d`, one number or two (height, width).

    Input (n, in_channels, h, w) or (in_channels, h, w), output (n, out_channels, h_out, w_out).

    Example::

        >>> oneflow.nn.Conv2d(3, 8, 3, padding=1)(oneflow.zeros(2, 3, 9, 7)).shape
        oneflow.Size([2, 8, 9, 7])
    """

    n = 2
    _f = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Convolution over volumes; arguments as :class:`Conv1d`, one number or three (depth, height, width).

    Input (n, in_channels, d, h, w) or (in_channels, d, h, w), output (n, out_channels, d_out, h_out, w_out).

    Example::

        >>> oneflow.nn.Conv3d(3, 8, 3)(oneflow.zeros(2, 3, 5, 6, 7)).shape
        oneflow.Size([2, 8, 3, 4, 5])
    """

    n = 3
    _f = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    _f: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _Size,
        stride: _Size = 1,
        padding: _Size = 0,
        output_padding: _Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: _Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        n = self.n
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            _tuple(kernel_size, n),
            _tuple(stride, n),
            _tuple(padding, n),
            _tuple(dilation, n),
            True,
            _tuple(output_padding, n),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """Return the output padding that gives ``output_size``."""
        if output_size is None:
            return self.output_padding
        n, wanted = self.n, list(output_size)
        if len(wanted) == input.dim():
            wanted = wanted[-n:]
        if len(wanted) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {input.dim()} elements "
                f"(got {len(output_size)})"
            )
        padding: Any = self.padding  # Never a name that only convolutions accept.
        least = [
            (input.shape[d - n] - 1) * self.stride[d]
            - 2 * padding[d]
            + self.dilation[d] * (self.kernel_size[d] - 1)
            + 1
            for d in range(n)
        ]
        most = [least[d] + self.stride[d] - 1 for d in range(n)]
        if any(not low <= size <= high for low, size, high in zip(least, wanted, most, strict=True)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {least} to {most} "
                f"(for an input of {list(input.shape[-n:])})"
            )
        return tuple(size - low for size, low in zip(wanted, least, strict=True))

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self._output_padding(input, output_size)
        return type(self)._f(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


# The name under which older packages know it.
_ConvTransposeMixin = _ConvTransposeNd


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution over sequences: the gradient of a :class:`Conv1d` for its input.

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, padding, dilation, groups: of that convolution.
        output_padding: further elements at the end; a stride leaves open how long the output was.
        bias: False leaves the bias out.
        device, dtype: of the parameters.

    Input (n, in_channels, l) or (in_channels, l), output (n, out_channels, l_out) with
    ``l_out = (l - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``.

    Example::

        >>> nn.ConvTranspose1d(4, 2, kernel_size=3, stride=2)(oneflow.ones(1, 4, 5)).shape
        oneflow.Size([1, 2, 11])
    """

    n = 1
    _f = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution over images; arguments as :class:`ConvTranspose1d`, one number or two.

    Input (n, in_channels, h, w) or (in_channels, h, w), output (n, out_channels, h_out, w_out).

    Example::

        >>> oneflow.nn.ConvTranspose2d(4, 2, 2, stride=2)(oneflow.zeros(1, 4, 5, 6)).shape
        oneflow.Size([1, 2, 10, 12])
    """

    n = 2
    _f = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution over volumes; arguments as :class:`ConvTranspose1d`, one number or three.

    Input (n, in_channels, d, h, w) or (in_channels, d, h, w), output (n, out_channels, d_out, h_out, w_out).

    Example::

        >>> nn.ConvTranspose3d(4, 2, kernel_size=2)(oneflow.ones(1, 4, 3, 3, 3)).shape
        oneflow.Size([1, 2, 4, 4, 4])
    """

    n = 3
    _f = staticmethod(F.conv_transpose3d)
