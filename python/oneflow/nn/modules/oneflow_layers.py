"""Layers that OneFlow has and PyTorch has not: activations, norms with a sum before them, margins, quantization."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._extra import elementwise, fused, losses, quantization
from oneflow.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from oneflow.nn.modules.conv import Conv1d, Conv2d, Conv3d
from oneflow.nn.modules.module import Module
from oneflow.nn.parameter import Parameter

__all__ = [
    "CombinedMarginLoss",
    "FakeQuantization",
    "FusedBatchNorm1d",
    "FusedBatchNorm2d",
    "FusedBatchNorm3d",
    "MinMaxObserver",
    "MovingAverageMinMaxObserver",
    "QatConv1d",
    "QatConv2d",
    "QatConv3d",
    "Quantization",
    "QuickGELU",
    "RMSLayerNorm",
    "SquareReLU",
]


class QuickGELU(Module):
    """``x * sigmoid(1.702 * x)``, near to GELU.

    Example::

        >>> nn.QuickGELU()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.1542,  0.3504,  1.9357])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to every element."""
        return elementwise.quick_gelu(x)


class SquareReLU(Module):
    """``relu(x) ** 2``.

    Example::

        >>> nn.SquareReLU()(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([0.0000, 0.2500, 4.0000])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to every element."""
        return elementwise.square_relu(x)


class RMSLayerNorm(Module):
    """T5's layer norm: division by the root mean square over the last dimension, then a learned scale.

    Args:
        normalized_shape: the size of the last dimension.
        eps: added to the mean square.

    Example::

        >>> nn.RMSLayerNorm(2)(oneflow.tensor([3.0, 4.0]))
        tensor([0.8485, 1.1314], grad_fn=<NativeRmsNormBackward0>)
    """

    def __init__(self, normalized_shape: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = Parameter(oneflow.ones(normalized_shape))
        self.variance_epsilon = eps

    def forward(self, hidden_states: Tensor) -> Tensor:
        """(*, normalized_shape) in and out."""
        return fused.rms_layer_norm(hidden_states, self.weight, self.variance_epsilon)


class CombinedMarginLoss(Module):
    """Cosines with a margin at the label: ``cos(m1 * theta + m2) - m3``; a loss over classes follows.

    Args:
        m1, m2, m3: margins as in SphereFace, ArcFace and CosFace.

    Example::

        >>> nn.CombinedMarginLoss(1.0, 0.5, 0.0)(oneflow.tensor([[0.1, 0.9]]), oneflow.tensor([1]))
        tensor([[0.1000, 0.5808]])
    """

    def __init__(self, m1: float = 1.0, m2: float = 0.0, m3: float = 0.0) -> None:
        super().__init__()
        self.m1, self.m2, self.m3 = m1, m2, m3

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        """x (N, classes), label (N,); the result (N, classes)."""
        return losses.combined_margin_loss(x, label, self.m1, self.m2, self.m3)


class _FusedNorm(Module):
    def forward(self, x: Tensor, addend: Tensor | None = None) -> Tensor:
        """Normalise ``x``, add ``addend`` and take relu."""
        y = super().forward(x)
        return (y if addend is None else y + addend).relu()


class FusedBatchNorm1d(_FusedNorm, BatchNorm1d):
    """``relu(BatchNorm1d(x) + addend)``; arguments as for :class:`BatchNorm1d`.

    Example::

        >>> nn.FusedBatchNorm1d(2)(oneflow.ones(3, 2)).shape
        oneflow.Size([3, 2])
    """


class FusedBatchNorm2d(_FusedNorm, BatchNorm2d):
    """``relu(BatchNorm2d(x) + addend)``; arguments as for :class:`BatchNorm2d`.

    Example::

        >>> nn.FusedBatchNorm2d(2)(oneflow.ones(3, 2, 4, 4)).shape
        oneflow.Size([3, 2, 4, 4])
    """


class FusedBatchNorm3d(_FusedNorm, BatchNorm3d):
    """``relu(BatchNorm3d(x) + addend)``; arguments as for :class:`BatchNorm3d`.

    Example::

        >>> nn.FusedBatchNorm3d(2)(oneflow.ones(3, 2, 4, 4, 4)).shape
        oneflow.Size([3, 2, 4, 4, 4])
    """


# ---- quantization in training


class _Quantized(Module):
    """The three options that define rounding."""

    def __init__(
        self, quantization_formula: str = "google", quantization_bit: int = 8, quantization_scheme: str = "symmetric"
    ) -> None:
        super().__init__()
        quantization._check(quantization_formula, quantization_scheme, quantization_bit)
        self.quantization_formula = quantization_formula
        self.quantization_bit = quantization_bit
        self.quantization_scheme = quantization_scheme

    def _how(self) -> dict[str, Any]:
        return {
            "quantization_formula": self.quantization_formula,
            "quantization_bit": self.quantization_bit,
            "quantization_scheme": self.quantization_scheme,
        }

    def extra_repr(self) -> str:
        """The three words."""
        return ", ".join(f"{name}={value!r}" for name, value in self._how().items())


class MinMaxObserver(_Quantized):
    """Scale and zero point for the elements of a tensor.

    Args:
        quantization_formula: "google" or "cambricon".
        quantization_bit: bits of a number.
        quantization_scheme: "symmetric" or, with "google", "affine".
        per_layer_quantization: one scale for the tensor; else one for each row.

    Example::

        >>> scale, zero_point = nn.MinMaxObserver()(oneflow.tensor([-1.0, 1.0]))
        >>> scale.shape
        oneflow.Size([1])
    """

    def __init__(
        self,
        quantization_formula: str = "google",
        quantization_bit: int = 8,
        quantization_scheme: str = "symmetric",
        per_layer_quantization: bool = True,
    ) -> None:
        super().__init__(quantization_formula, quantization_bit, quantization_scheme)
        self.per_layer_quantization = per_layer_quantization

    def forward(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """Any tensor; scale and zero point, (1,) or (rows,)."""
        return quantization.min_max_observer(input, per_layer_quantization=self.per_layer_quantization, **self._how())


class MovingAverageMinMaxObserver(_Quantized):
    """Scale and zero point by ranges averaged over training steps.

    Args:
        stop_update_after_iters: the last step whose range counts.
        quantization_formula, quantization_bit, quantization_scheme: as for :class:`MinMaxObserver`.
        momentum: what the averages keep in a step.

    Example::

        >>> observer = oneflow.nn.MovingAverageMinMaxObserver()
        >>> observer(oneflow.tensor([-127.0, 3.0]), oneflow.tensor([1]))
        (tensor([1.]), tensor([0.]))
    """

    moving_max: Tensor
    moving_min: Tensor

    def __init__(
        self,
        stop_update_after_iters: int = 1,
        quantization_formula: str = "google",
        quantization_bit: int = 8,
        quantization_scheme: str = "symmetric",
        momentum: float = 0.95,
    ) -> None:
        super().__init__(quantization_formula, quantization_bit, quantization_scheme)
        self.stop_update_after_iters = stop_update_after_iters
        self.momentum = momentum
        self.register_buffer("moving_max", oneflow.zeros(1))
        self.register_buffer("moving_min", oneflow.zeros(1))

    def reset_running_stats(self) -> None:
        """Forget the ranges seen."""
        self.moving_max.zero_()
        self.moving_min.zero_()

    def forward(self, input: Tensor, current_train_step: Tensor) -> tuple[Tensor, Tensor]:
        """Any tensor and the number of the step, (1,); scale and zero point, (1,)."""
        return quantization.moving_average_min_max_observer(
            input,
            current_train_step,
            self.moving_max,
            self.moving_min,
            self.training,
            self.stop_update_after_iters,
            momentum=self.momentum,
            **self._how(),
        )


class FakeQuantization(_Quantized):
    """Rounds to what quantization can hold; gradients pass as if it did not. Arguments as for the observers.

    Example::

        >>> scale, zero_point = nn.MinMaxObserver()(oneflow.tensor([-1.0, 1.0]))
        >>> nn.FakeQuantization()(oneflow.tensor([-1.0, 1.0]), scale, zero_point).shape
        oneflow.Size([2])
    """

    def forward(self, input: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
        """Any tensor, with an observer's scale and zero point."""
        return quantization.fake_quantization(input, scale, zero_point, **self._how())


class Quantization(_Quantized):
    """Return the integers that represent a tensor, as floats. Arguments as for the observers.

    Example::

        >>> scale, zero_point = nn.MinMaxObserver()(oneflow.tensor([-1.0, 1.0]))
        >>> nn.Quantization()(oneflow.tensor([-1.0, 1.0]), scale, zero_point).shape
        oneflow.Size([2])
    """

    def forward(self, input: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
        """Any tensor, with an observer's scale and zero point."""
        return quantization.quantization(input, scale, zero_point, **self._how())


class _QatConv(Module):
    """A convolution of fake-quantized inputs with fake-quantized weights."""

    def __init__(
        self,
        *args: Any,
        quantization_formula: str = "google",
        quantization_bit: int = 8,
        quantization_scheme: str = "symmetric",
        per_layer_quantization: bool = True,
        momentum: float = 0.95,
        stop_update_after_iters: int = 2**31 - 1,
        weight_quant_per_layer: bool | None = None,
        input_quant_momentum: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if weight_quant_per_layer is not None:
            per_layer_quantization = weight_quant_per_layer
        if input_quant_momentum is not None:
            momentum = input_quant_momentum
        how = (quantization_formula, quantization_bit, quantization_scheme)
        self.weight_observer = MinMaxObserver(*how, per_layer_quantization)
        self.input_observer = MovingAverageMinMaxObserver(stop_update_after_iters, *how, momentum)
        self.fake_quantization = FakeQuantization(*how)
        self.register_buffer("current_train_step", oneflow.zeros(1, dtype=oneflow.int64))

    def forward(self, x: Tensor) -> Tensor:
        """As the convolution."""
        if self.training:
            with oneflow.no_grad():
                self.current_train_step.add_(1)
        weight: Any = self.weight
        x = self.fake_quantization(x, *self.input_observer(x, self.current_train_step))
        weight = self.fake_quantization(weight, *self.weight_observer(weight))
        return self._conv_forward(x, weight, self.bias)


class QatConv1d(_QatConv, Conv1d):
    """:class:`Conv1d` whose input and weight are rounded in training as quantization will round them.

    Args:
        *args, **kwargs: as for the convolution.
        quantization_formula, quantization_bit, quantization_scheme, per_layer_quantization: as for
            :class:`MinMaxObserver`.
        momentum, stop_update_after_iters: of the input's range, as for :class:`MovingAverageMinMaxObserver`.
        weight_quant_per_layer, input_quant_momentum: other names of ``per_layer_quantization`` and ``momentum``.

    Example::

        >>> oneflow.nn.QatConv1d(2, 4, 3)(oneflow.ones(1, 2, 5)).shape
        oneflow.Size([1, 4, 3])
    """


class QatConv2d(_QatConv, Conv2d):
    """:class:`Conv2d` with rounding; arguments as for :class:`QatConv1d`.

    Example::

        >>> oneflow.nn.QatConv2d(2, 4, 3)(oneflow.ones(1, 2, 5, 5)).shape
        oneflow.Size([1, 4, 3, 3])
    """


class QatConv3d(_QatConv, Conv3d):
    """:class:`Conv3d` with rounding; arguments as for :class:`QatConv1d`.

    Example::

        >>> oneflow.nn.QatConv3d(2, 4, 3)(oneflow.ones(1, 2, 5, 5, 5)).shape
        oneflow.Size([1, 4, 3, 3, 3])
    """
