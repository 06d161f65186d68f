"""Batch normalisation."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn.modules._affine import Affine
from oneflow.nn.modules._sync_batchnorm import sync_batch_norm
from oneflow.nn.modules.module import Module


class _NormBase(Affine):
    """Parameters and running statistics of batch and instance norm."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._make_affine(num_features, affine, bias, device=device, dtype=dtype)
        if track_running_stats:
            self.register_buffer("running_mean", oneflow.zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", oneflow.ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", oneflow.zeros((), dtype=oneflow.int64, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean zero, variance one, no batches seen."""
        if self.track_running_stats:
            self.running_mean.zero_()  # type: ignore[union-attr]
            self.running_var.fill_(1)  # type: ignore[union-attr]
            self.num_batches_tracked.zero_()  # type: ignore[union-attr]

    def reset_parameters(self) -> None:
        """Scale one, shift zero, and fresh running statistics."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("version", None)
        key = prefix + "num_batches_tracked"
        # Checkpoints from before the counter existed.
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            mine = self.num_batches_tracked
            known = mine is not None and mine.device.type != "meta"
            state_dict[key] = mine if known else oneflow.tensor(0, dtype=oneflow.int64)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    def _count(self) -> float:
        """Count a batch, and return the weight of its statistics in the running ones."""
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                # The plain average of all batches so far.
                momentum = 1.0 / float(self.num_batches_tracked)
        return momentum

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum = self._count()
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        running = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if running else None,
            self.running_var if running else None,
            self.weight,
            self.bias,
            by_batch,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalise each channel over the batch, then scale and shift it.

    Args:
        num_features: channels C.
        eps: added to the variance.
        momentum: share of a batch in the running statistics; None takes the average of all batches.
        affine: learn a scale (starts at 1) and a shift (starts at 0) of each channel.
        track_running_stats: keep the statistics that evaluation uses; without, evaluation uses those of its batch.
        device, dtype: of parameters and buffers.
        bias: False leaves the shift out.

    Input and output: (N, C) or (N, C, L). (Ioffe and Szegedy, "Batch Normalization", 2015.)

    Example::

        >>> nn.BatchNorm1d(2)(oneflow.tensor([[0.0, 1.0], [2.0, 5.0]]))
        tensor([[-1.0000, -1.0000],
                [ 1.0000,  1.0000]], grad_fn=<BatchNormTrainingBackward0>)
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d(_BatchNorm):
    """As :class:`BatchNorm1d`, for (N, C, H, W).

    Example::

        >>> m = nn.BatchNorm2d(3)
        >>> m(oneflow.ones(2, 3, 4, 4)).shape
        oneflow.Size([2, 3, 4, 4])
        >>> m.num_batches_tracked
        tensor(1)
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d(_BatchNorm):
    """As :class:`BatchNorm1d`, for (N, C, D, H, W).

    Example::

        >>> nn.BatchNorm3d(3)(oneflow.ones(2, 3, 2, 2, 2)).shape
        oneflow.Size([2, 3, 2, 2, 2])
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class SyncBatchNorm(_BatchNorm):
    """Batch norm over the batches of all processes.

    While it trains, local tensors are normalised by the mean and variance of the batches of all ranks together, which
    may differ in size. A global tensor's statistics are those of the whole tensor already, and a single process has
    nothing to wait for: then, and in evaluation, this is batch norm.

    Args:
        num_features, eps, momentum, affine, track_running_stats, device, dtype, bias: as of :class:`BatchNorm1d`.
        process_group: the ranks; all of the job if left out.

    Example::

        >>> def rank():
        ...     x = oneflow.full((1, 1), float(oneflow.distributed.get_rank()))
        ...     return nn.SyncBatchNorm(1, eps=0.0)(x).item()
        >>> oneflow.testing.run_ranks(2, rank)  # Mean 0.5, deviation 0.5.
        [-1.0, 1.0]
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """Normalise."""
        if input.is_global or not self.training or oneflow.distributed.get_world_size(self.process_group) <= 1:
            return super().forward(input)
        self._check_input_dim(input)
        if input.shape[1] != self.num_features:
            raise ValueError(
                f"SyncBatchNorm: expected {self.num_features} channels, got an input of {list(input.shape)}"
            )
        momentum = self._count()
        return sync_batch_norm(
            input,
            self.weight,
            self.bias,
            None if self.running_mean is None or self.running_var is None else (self.running_mean, self.running_var),
            self.eps,
            momentum,
            self.process_group,
        )

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """``module`` with each batch norm in it replaced by one of this class with the same parameters."""
        result = module
        if isinstance(module, _BatchNorm):
            result = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            if module.affine:
                with oneflow.no_grad():
                    result.weight, result.bias = module.weight, module.bias
            result.running_mean = module.running_mean
            result.running_var = module.running_var
            result.num_batches_tracked = module.num_batches_tracked
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result
