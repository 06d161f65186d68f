"""Loss functions as modules."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn.functional._losses import legacy_reduction
from oneflow.nn.modules.module import Module


class _Loss(Module):
    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = legacy_reduction(size_average, reduce, reduction)


class L1Loss(_Loss):
    """Mean (or "sum", or "none") of ``|input - target|``.

    Example::

        >>> nn.L1Loss()(oneflow.tensor([1.0, 2.0]), oneflow.tensor([0.0, 4.0]))
        tensor(1.5000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Mean (or "sum", or "none") of ``(input - target) ** 2``.

    Example::

        >>> nn.MSELoss()(oneflow.tensor([1.0, 2.0]), oneflow.tensor([0.0, 4.0]))
        tensor(2.5000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class _WeightedLoss(_Loss):
    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class NLLLoss(_WeightedLoss):
    """Negative log likelihood of int64 classes (N, *) under log probabilities (N, C, *).

    Args:
        weight: a factor per class, (C,).
        ignore_index: targets with this value count nothing.
        reduction: "mean" (weighted), "sum" or "none".

    Example::

        >>> nn.NLLLoss()(oneflow.tensor([[0.0, 2.0]]).log_softmax(-1), oneflow.tensor([1]))
        tensor(0.1269)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """The older name of :class:`NLLLoss` over images.

    Example::

        >>> issubclass(nn.NLLLoss2d, nn.NLLLoss)
        True
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn("NLLLoss2d has been deprecated. Please use NLLLoss instead.", FutureWarning, stacklevel=2)
        super().__init__(*args, **kwargs)


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy between logits (N, C, *) and int64 classes (N, *) or class probabilities (N, C, *).

    Args:
        weight: a factor per class, (C,).
        ignore_index: class targets with this value count nothing.
        reduction: "mean" (weighted), "sum" or "none".
        label_smoothing: share of the target distributed evenly over all classes, within [0, 1].

    Example::

        >>> nn.CrossEntropyLoss()(oneflow.tensor([[0.0, 2.0], [1.0, 0.0]]), oneflow.tensor([1, 0]))
        tensor(0.2201)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class SmoothL1Loss(_Loss):
    """Squared below ``beta``, absolute above. (Girshick, "Fast R-CNN", 2015.)

    Example::

        >>> nn.SmoothL1Loss()(oneflow.tensor([0.0, 0.0]), oneflow.tensor([0.5, 3.0]))
        tensor(1.3125)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Squared below ``delta``, absolute (times ``delta``) above. (Huber, 1964.)

    Example::

        >>> nn.HuberLoss()(oneflow.tensor([0.0, 0.0]), oneflow.tensor([0.5, 3.0]))
        tensor(1.3125)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class BCELoss(_WeightedLoss):
    """Binary cross entropy between probabilities; ``weight`` is a factor of each element's loss.

    Example::

        >>> nn.BCELoss()(oneflow.tensor([0.5, 0.9]), oneflow.tensor([0.0, 1.0]))
        tensor(0.3993)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy between ``sigmoid(input)`` and the target, computed without overflow.

    Args:
        weight: a factor of each element's loss.
        reduction: "mean", "sum" or "none".
        pos_weight: a factor of the positive class.

    Example::

        >>> nn.BCEWithLogitsLoss()(oneflow.tensor([0.0, 2.0]), oneflow.tensor([0.0, 1.0]))
        tensor(0.4100)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of the target from log probabilities.

    Example::

        >>> nn.KLDivLoss(reduction="batchmean")(oneflow.tensor([[0.5, 0.5]]).log(), oneflow.tensor([[0.25, 0.75]]))
        tensor(0.1308)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """Negative log likelihood of counts under a Poisson distribution.

    Example::

        >>> nn.PoissonNLLLoss()(oneflow.tensor([0.0]), oneflow.tensor([2.0]))
        tensor(1.)
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """Negative log likelihood of the target under a Gaussian of given mean and variance.

    Example::

        >>> nn.GaussianNLLLoss()(oneflow.tensor([1.0]), oneflow.tensor([2.0]), oneflow.tensor([1.0]))
        tensor(0.5000)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))`` for targets 1 and -1.

    Example::

        >>> nn.SoftMarginLoss()(oneflow.tensor([0.0, 2.0]), oneflow.tensor([-1.0, 1.0]))
        tensor(0.4100)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Margins between the labels of a row and its other classes.

    Example::

        >>> nn.MultiLabelMarginLoss()(oneflow.tensor([[0.1, 0.2, 0.4, 0.8]]), oneflow.tensor([[3, 0, -1, 1]]))
        tensor(0.8500)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Binary cross entropy of logits averaged over the classes; ``weight`` is a factor per class.

    Example::

        >>> nn.MultiLabelSoftMarginLoss()(oneflow.tensor([[0.0, 2.0]]), oneflow.tensor([[0.0, 1.0]]))
        tensor(0.4100)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """``max(0, margin - x[y] + x[i]) ** p`` over the other classes of each row.

    Example::

        >>> nn.MultiMarginLoss()(oneflow.tensor([[0.1, 0.2, 0.4]]), oneflow.tensor([2]))
        tensor(0.5000)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class _MarginLoss(_Loss):
    default_margin: float = 0.0

    def __init__(
        self,
        margin: float | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = self.default_margin if margin is None else margin


class HingeEmbeddingLoss(_MarginLoss):
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1.

    Example::

        >>> nn.HingeEmbeddingLoss()(oneflow.tensor([0.5, 0.2]), oneflow.tensor([1, -1]))
        tensor(0.6500)
    """

    default_margin = 1.0

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Example::

        >>> nn.CosineEmbeddingLoss()(oneflow.tensor([[1.0, 0.0]]), oneflow.tensor([[0.0, 1.0]]), oneflow.tensor([1]))
        tensor(1.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_MarginLoss):
    """``max(0, -target * (input1 - input2) + margin)``.

    Example::

        >>> nn.MarginRankingLoss()(oneflow.tensor([1.0]), oneflow.tensor([3.0]), oneflow.tensor([1.0]))
        tensor(2.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """``max(0, |anchor - positive| - |anchor - negative| + margin)`` in the p-norm.

    Example::

        >>> nn.TripletMarginLoss()(oneflow.tensor([[0.0, 0.0]]), oneflow.tensor([[0.0, 1.0]]), oneflow.tensor([[0.0,
        ...     0.5]]))
        tensor(1.5000)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """As :class:`TripletMarginLoss` with a distance of one's own.

    Example::

        >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=nn.PairwiseDistance())
        >>> loss(oneflow.tensor([[0.0, 0.0]]), oneflow.tensor([[0.0, 1.0]]), oneflow.tensor([[0.0, 0.5]]))
        tensor(1.5000)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function = F.pairwise_distance if distance_function is None else distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """Connectionist temporal classification; see :func:`oneflow.nn.functional.ctc_loss`.

    Example::

        >>> loss = nn.CTCLoss()
        >>> log_probs = oneflow.zeros(4, 1, 3).log_softmax(-1)
        >>> loss(log_probs, oneflow.tensor([[1, 2]]), oneflow.tensor([4]), oneflow.tensor([2]))
        tensor(0.8432)
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
