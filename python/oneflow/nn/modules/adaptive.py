"""A softmax over many classes, rare ones in clusters (Grave et al., "Efficient softmax for GPUs", 2017)."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn.modules.container import ModuleList, Sequential
from oneflow.nn.modules.linear import Linear
from oneflow.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss"]

_Result = namedtuple("_Result", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-softmax and loss over classes sorted by how frequent they are, the first ones the most frequent.

    Args:
        in_features: width of the input.
        n_classes: number of classes.
        cutoffs: where clusters of rarer classes begin, increasing, below ``n_classes``.
        div_value: each cluster's width is the one before divided by this.
        head_bias: a bias for the head.

    Returns:
        of a call: the log-probabilities of the targets (N,), and their negative mean.

    Raises:
        ValueError: cutoffs that are not such.

    Example::

        >>> layer = oneflow.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10])
        >>> layer(oneflow.randn(4, 16), oneflow.tensor([0, 7, 12, 19])).output.shape
        oneflow.Size([4])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(cutoffs)
            or min(cutoffs) <= 0
            or max(cutoffs) > n_classes - 1
            or len(set(cutoffs)) != len(cutoffs)
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*cutoffs, n_classes]
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        made = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(Linear(in_features, width, bias=False, **made), Linear(width, size, bias=False, **made))
            )

    def reset_parameters(self) -> None:
        """Draw all weights again."""
        self.head.reset_parameters()
        for down, out in self.tail:
            down.reset_parameters()
            out.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _Result:
        """input (N, in_features) and target (N,), or one of each without N."""
        batched = target_.dim() > 0
        if batched and input_.shape[0] != target_.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if batched and input_.dim() != 2:
            raise RuntimeError(f"1D target tensor expects 2D input tensors, but found inputs with size {input_.size()}")
        if not batched and input_.dim() != 1:
            raise RuntimeError(f"0D target tensor expects 1D input tensors, but found inputs with size {input_.size()}")
        x, target = (input_, target_) if batched else (input_.unsqueeze(0), target_.unsqueeze(0))
        if x.shape[0] and (int(target.min()) < 0 or int(target.max()) >= self.n_classes):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{int(target.min())}, "
                f"{int(target.max())}] were found. "
            )
        head = self.head(x).log_softmax(1)
        column = target.clamp(max=self.shortlist_size - 1)
        extra = oneflow.zeros_like(head[:, 0])
        for i, project in enumerate(self.tail):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if not rows.numel():
                continue
            column = column.index_fill(0, rows, self.shortlist_size + i)
            inside = project(x.index_select(0, rows)).log_softmax(1)
            picked = inside.gather(1, (target.index_select(0, rows) - low).unsqueeze(1)).squeeze(1)
            extra = extra.index_add(0, rows, picked)
        output = extra + head.gather(1, column.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _Result(output if batched else output.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes: (N, in_features) to (N, n_classes)."""
        head = self.head(input).log_softmax(1)
        parts = [head[:, : self.shortlist_size]]
        for i, project in enumerate(self.tail):
            parts.append(project(input).log_softmax(1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return oneflow.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most likely class of each row: (N, in_features) to (N,)."""
        return self.log_prob(input).argmax(1)


class LinearCrossEntropyLoss(Module):
    """A linear layer onto classes and the cross entropy of its result.

    Args:
        in_features: width of the input.
        num_classes: number of classes.
        out_features: further dimensions of the result.
        bias: a bias for the layer.
        reduction, weight, ignore_index, label_smoothing: as for :class:`CrossEntropyLoss`.
        options: see :class:`LinearCrossEntropyOptions`.

    Example::

        >>> loss = oneflow.nn.LinearCrossEntropyLoss(8, 3)
        >>> loss(oneflow.zeros(2, 8), oneflow.tensor([0, 2]))
        tensor(1.0986, grad_fn=<...>)
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        super().__init__()
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0.0 <= label_smoothing <= 1.0:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        self.register_buffer("weight", weight)
        self.num_classes, self.out_features, self.reduction = num_classes, out_features, reduction
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        total = oneflow.Size((num_classes, *out_features)).numel()
        self.linear = Linear(in_features, total, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input (N, in_features), target (N, *out_features); see :func:`oneflow.nn.functional.linear_cross_entropy`."""
        shape = (self.num_classes, *self.out_features)
        bias: Any = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, -1),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )
