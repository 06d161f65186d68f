"""Poolings over one to three spatial dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn.modules.module import Module

_Size = int | Sequence[int]


def _tuple(v: Any, n: int) -> tuple[Any, ...]:
    return tuple(v) if isinstance(v, Sequence) else (v,) * n


class _MaxPoolNd(Module):
    _f: Any

    def __init__(
        self,
        kernel_size: _Size,
        stride: _Size | None = None,
        padding: _Size = 0,
        dilation: _Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        return type(self)._f(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """Maxima of windows over sequences.

    Args:
        kernel_size, dilation: of the window.
        stride: between windows; the kernel's size by default.
        padding: elements on both sides that never are the maximum, at most half a window.
        return_indices: also return where the maxima are, as :class:`MaxUnpool1d` takes them.
        ceil_mode: count windows that reach over the end.

    Input (n, c, l) or (c, l).

    Example::

        >>> nn.MaxPool1d(2)(oneflow.tensor([[[1.0, 3.0, 5.0, 7.0]]]))
        tensor([[[3., 7.]]])
    """

    _f = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """Maxima of windows over images: (n, c, h, w) or (c, h, w). Arguments as :class:`MaxPool1d`, one or two.

    Example::

        >>> nn.MaxPool2d(2)(oneflow.ones(1, 3, 4, 4)).shape
        oneflow.Size([1, 3, 2, 2])
    """

    _f = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """Maxima of windows over volumes: (n, c, d, h, w) or (c, d, h, w). Arguments as :class:`MaxPool1d`, one or three.

    Example::

        >>> nn.MaxPool3d(2)(oneflow.ones(1, 3, 4, 4, 4)).shape
        oneflow.Size([1, 3, 2, 2, 2])
    """

    _f = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(Module):
    n: int
    _f: Any

    def __init__(self, kernel_size: _Size, stride: _Size | None = None, padding: _Size = 0) -> None:
        super().__init__()
        self.kernel_size = _tuple(kernel_size, self.n)
        self.stride = _tuple(stride if stride is not None else kernel_size, self.n)
        self.padding = _tuple(padding, self.n)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return type(self)._f(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Write the maxima of a :class:`MaxPool1d` back to the positions of its indices, among zeros: (n, c, l).

    Example::

        >>> y, at = nn.MaxPool1d(2, return_indices=True)(oneflow.tensor([[[1.0, 3.0, 7.0, 5.0]]]))
        >>> nn.MaxUnpool1d(2)(y, at)
        tensor([[[0., 3., 7., 0.]]])
    """

    n = 1
    _f = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """Write the maxima of a :class:`MaxPool2d` back to the positions of its indices, among zeros: (n, c, h, w).

    Example::

        >>> y, at = nn.MaxPool2d(2, return_indices=True)(oneflow.arange(4.0).reshape(1, 1, 2, 2))
        >>> nn.MaxUnpool2d(2)(y, at)
        tensor([[[[0., 0.],
                  [0., 3.]]]])
    """

    n = 2
    _f = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Write the maxima of a :class:`MaxPool3d` back to the positions of its indices, among zeros: (n, c, d, h, w).

    Example::

        >>> y, at = nn.MaxPool3d(2, return_indices=True)(oneflow.ones(1, 1, 4, 4, 4))
        >>> nn.MaxUnpool3d(2)(y, at).shape
        oneflow.Size([1, 1, 4, 4, 4])
    """

    n = 3
    _f = staticmethod(F.max_unpool3d)


class _AvgPoolNd(Module):
    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """Means of windows over sequences.

    Args:
        kernel_size: of the window.
        stride: between windows; the kernel's size by default.
        padding: zeros on both sides.
        ceil_mode: count windows that reach over the end.
        count_include_pad: count padded zeros.

    Input (n, c, l) or (c, l).

    Example::

        >>> nn.AvgPool1d(2)(oneflow.tensor([[[1.0, 3.0, 5.0, 7.0]]]))
        tensor([[[2., 6.]]])
    """

    def __init__(
        self,
        kernel_size: _Size,
        stride: _Size | None = None,
        padding: _Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _tuple(kernel_size, 1)
        self.stride = _tuple(stride if stride is not None else kernel_size, 1)
        self.padding = _tuple(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPool(_AvgPoolNd):
    _f: Any

    def __init__(
        self,
        kernel_size: _Size,
        stride: _Size | None = None,
        padding: _Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return type(self)._f(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPool):
    """Means of windows over images: (n, c, h, w) or (c, h, w). Arguments as :class:`AvgPool1d`, one or two.

    ``divisor_override`` divides in place of the window's size.

    Example::

        >>> nn.AvgPool2d(2, stride=1)(oneflow.ones(1, 3, 4, 4)).shape
        oneflow.Size([1, 3, 3, 3])
    """

    _f = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """Means of windows over volumes: (n, c, d, h, w) or (c, d, h, w). Arguments as :class:`AvgPool1d`, one or three.

    ``divisor_override`` divides in place of the window's size.

    Example::

        >>> nn.AvgPool3d(2)(oneflow.ones(1, 3, 4, 4, 4)).shape
        oneflow.Size([1, 3, 2, 2, 2])
    """

    _f = staticmethod(F.avg_pool3d)


class _AdaptivePool(Module):
    _f: Any

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Any:
        return type(self)._f(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveAvgPoolNd(_AdaptivePool):
    pass


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means of ``output_size`` windows that cover (n, c, l) or (c, l) evenly.

    Example::

        >>> nn.AdaptiveAvgPool1d(2)(oneflow.tensor([[[1.0, 3.0, 5.0, 7.0]]]))
        tensor([[[2., 6.]]])
    """

    _f = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means of ``output_size`` windows that cover (n, c, h, w) or (c, h, w) evenly.

    Sizes of None are the input\'s.

    Example::

        >>> nn.AdaptiveAvgPool2d(1)(oneflow.ones(2, 3, 8, 8)).shape
        oneflow.Size([2, 3, 1, 1])
    """

    _f = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means of ``output_size`` windows that cover (n, c, d, h, w) or (c, d, h, w) evenly.

    Sizes of None are the input\'s.

    Example::

        >>> nn.AdaptiveAvgPool3d((1, 2, 2))(oneflow.ones(1, 3, 4, 4, 4)).shape
        oneflow.Size([1, 3, 1, 2, 2])
    """

    _f = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPoolNd(_AdaptivePool):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return type(self)._f(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima of ``output_size`` windows that cover (n, c, l) or (c, l) evenly.

    With ``return_indices`` also their positions.

    Example::

        >>> nn.AdaptiveMaxPool1d(2)(oneflow.tensor([[[1.0, 3.0, 5.0, 7.0]]]))
        tensor([[[3., 7.]]])
    """

    _f = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima of ``output_size`` windows that cover (n, c, h, w) or (c, h, w) evenly.

    With ``return_indices`` also their positions.

    Example::

        >>> nn.AdaptiveMaxPool2d((2, 3))(oneflow.ones(1, 3, 6, 6)).shape
        oneflow.Size([1, 3, 2, 3])
    """

    _f = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima of ``output_size`` windows that cover (n, c, d, h, w) or (c, d, h, w) evenly.

    With ``return_indices`` also their positions.

    Example::

        >>> nn.AdaptiveMaxPool3d(2)(oneflow.ones(1, 3, 4, 4, 4)).shape
        oneflow.Size([1, 3, 2, 2, 2])
    """

    _f = staticmethod(F.adaptive_max_pool3d)


class _LPPoolNd(Module):
    _f: Any

    def __init__(
        self, norm_type: float, kernel_size: _Size, stride: _Size | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return type(self)._f(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """``sum(x ** norm_type) ** (1 / norm_type)`` over windows of (n, c, l) or (c, l).

    Example::

        >>> nn.LPPool1d(2, 2)(oneflow.tensor([[[3.0, 4.0]]]))
        tensor([[[5.]]])
    """

    _f = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """``sum(x ** norm_type) ** (1 / norm_type)`` over windows of (n, c, h, w) or (c, h, w).

    Example::

        >>> nn.LPPool2d(2, 2)(oneflow.ones(1, 1, 2, 2))
        tensor([[[[2.]]]])
    """

    _f = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """``sum(x ** norm_type) ** (1 / norm_type)`` over windows of (n, c, d, h, w) or (c, d, h, w).

    Example::

        >>> nn.LPPool3d(2, 2)(oneflow.ones(1, 1, 2, 2, 2)).shape
        oneflow.Size([1, 1, 1, 1, 1])
    """

    _f = staticmethod(F.lp_pool3d)


class _FractionalMaxPool(Module):
    _n: int

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        n = self._n
        if output_size is None and output_ratio is None:
            raise ValueError(f"FractionalMaxPool{n}d requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        self.kernel_size = _tuple(kernel_size, n)
        self.output_size = None if output_size is None else _tuple(output_size, n)
        self.output_ratio = None if output_ratio is None else _tuple(output_ratio, n)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """(N, C, *) in; with ``return_indices`` also where the maxima are."""
        pool: Any = F.fractional_max_pool2d if self._n == 2 else F.fractional_max_pool3d
        return pool(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maxima of windows whose places are drawn; see :func:`oneflow.nn.functional.fractional_max_pool2d`.

    Args:
        kernel_size: of the windows.
        output_size: of the result; or
        output_ratio: of the result to the input, in (0, 1).
        return_indices: also return where the maxima are.

    Example::

        >>> oneflow.nn.FractionalMaxPool2d(2, output_size=(3, 4))(oneflow.ones(1, 2, 7, 8)).shape
        oneflow.Size([1, 2, 3, 4])
    """

    _n = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """As :class:`FractionalMaxPool2d`, of volumes.

    Example::

        >>> oneflow.nn.FractionalMaxPool3d(2, output_ratio=0.5)(oneflow.ones(1, 2, 6, 6, 6)).shape
        oneflow.Size([1, 2, 3, 3, 3])
    """

    _n = 3
