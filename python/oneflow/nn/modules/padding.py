"""Padding."""

from __future__ import annotations

from typing import Any

from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn.modules.module import Module


class _Pad(Module):
    """Widths for the last ``n_dims`` dimensions, one for all or two each, the last dimension first."""

    n_dims: int
    mode: str

    def __init__(self, padding: Any) -> None:
        super().__init__()
        n = 2 * self.n_dims
        if isinstance(padding, (tuple, list)):
            if len(padding) != n:
                raise ValueError(f"padding should have length {n}, but got {len(padding)}")
            self.padding = tuple(padding)
        else:
            self.padding = (padding,) * n

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_Pad):
    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad:
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)  # type: ignore[call-arg]

    def extra_repr(self) -> str:
        return f"{self.padding}"  # type: ignore[attr-defined]


class _ReflectionPadNd(_Pad):
    mode = "reflect"


class _ReplicationPadNd(_Pad):
    mode = "replicate"


class _CircularPadNd(_Pad):
    mode = "circular"

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (self.n_dims + 1, self.n_dims + 2):
            raise ValueError(f"expected {self.n_dims + 1}D or {self.n_dims + 2}D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return super().forward(input)


class ConstantPad1d(_ConstantPadNd):
    """Widen (*, L) by ``padding`` elements of ``value``.

    Example::

        >>> nn.ConstantPad1d((1, 2), 9.0)(oneflow.tensor([[1.0, 2.0]]))
        tensor([[9., 1., 2., 9., 9.]])
    """

    n_dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Widen (*, H, W) by ``padding`` elements of ``value``.

    Example::

        >>> nn.ConstantPad2d(1, 0.5)(oneflow.ones(1, 1, 2, 2)).shape
        oneflow.Size([1, 1, 4, 4])
    """

    n_dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Widen (*, D, H, W) by ``padding`` elements of ``value``.

    Example::

        >>> nn.ConstantPad3d(1, 0.5)(oneflow.ones(1, 1, 2, 2, 2)).shape
        oneflow.Size([1, 1, 4, 4, 4])
    """

    n_dims = 3


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Widen (*, L) by ``padding`` zeros.

    Example::

        >>> nn.ZeroPad1d((1, 2))(oneflow.tensor([[1.0, 2.0]]))
        tensor([[0., 1., 2., 0., 0.]])
    """


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Widen (*, H, W) by ``padding`` zeros.

    Example::

        >>> nn.ZeroPad2d(1)(oneflow.ones(1, 1, 2, 2)).shape
        oneflow.Size([1, 1, 4, 4])
    """


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Widen (*, D, H, W) by ``padding`` zeros.

    Example::

        >>> nn.ZeroPad3d(1)(oneflow.ones(1, 1, 2, 2, 2)).shape
        oneflow.Size([1, 1, 4, 4, 4])
    """


class ReflectionPad1d(_ReflectionPadNd):
    """Widen (*, L) by its reflection at the border elements.

    Example::

        >>> nn.ReflectionPad1d(2)(oneflow.tensor([[1.0, 2.0, 3.0]]))
        tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """

    n_dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Widen (*, H, W) by its reflection at the border elements.

    Example::

        >>> nn.ReflectionPad2d(1)(oneflow.ones(1, 1, 3, 3)).shape
        oneflow.Size([1, 1, 5, 5])
    """

    n_dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Widen (*, D, H, W) by its reflection at the border elements.

    Example::

        >>> nn.ReflectionPad3d(1)(oneflow.ones(1, 1, 3, 3, 3)).shape
        oneflow.Size([1, 1, 5, 5, 5])
    """

    n_dims = 3


class ReplicationPad1d(_ReplicationPadNd):
    """Widen (*, L) by copies of the border elements.

    Example::

        >>> nn.ReplicationPad1d(2)(oneflow.tensor([[1.0, 2.0, 3.0]]))
        tensor([[1., 1., 1., 2., 3., 3., 3.]])
    """

    n_dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Widen (*, H, W) by copies of the border elements.

    Example::

        >>> nn.ReplicationPad2d(1)(oneflow.ones(1, 1, 3, 3)).shape
        oneflow.Size([1, 1, 5, 5])
    """

    n_dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Widen (*, D, H, W) by copies of the border elements.

    Example::

        >>> nn.ReplicationPad3d(1)(oneflow.ones(1, 1, 3, 3, 3)).shape
        oneflow.Size([1, 1, 5, 5, 5])
    """

    n_dims = 3


class CircularPad1d(_CircularPadNd):
    """Widen (*, L) as if it repeated.

    Example::

        >>> nn.CircularPad1d(1)(oneflow.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[3., 1., 2., 3., 1.]]])
    """

    n_dims = 1


class CircularPad2d(_CircularPadNd):
    """Widen (*, H, W) as if it repeated.

    Example::

        >>> nn.CircularPad2d(1)(oneflow.ones(1, 1, 2, 2)).shape
        oneflow.Size([1, 1, 4, 4])
    """

    n_dims = 2


class CircularPad3d(_CircularPadNd):
    """Widen (*, D, H, W) as if it repeated.

    Example::

        >>> nn.CircularPad3d(1)(oneflow.ones(1, 1, 2, 2, 2)).shape
        oneflow.Size([1, 1, 4, 4, 4])
    """

    n_dims = 3
