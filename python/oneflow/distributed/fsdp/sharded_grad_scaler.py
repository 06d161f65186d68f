"""The gradient scaler of sharded modules."""

from __future__ import annotations

from typing import Any

from oneflow.amp import GradScaler

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """:class:`~oneflow.amp.GradScaler`, in which ranks skip a step together already.

    Args:
        process_group: the ranks that skip together; all of the job.

    Example::

        >>> from oneflow.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
        >>> ShardedGradScaler(device="cpu", init_scale=4.0).get_scale()
        4.0
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            device,
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )
