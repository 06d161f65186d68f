"""All-reduce, also in half types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.futures import Future

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]


class WorkFuture(Future):
    """The value that a function makes once a work is complete; it runs in the thread that waits."""

    def __init__(self, work: Any, value: Callable[[], Any]) -> None:
        super().__init__()
        self._work, self._make = work, value

    def wait(self) -> Any:
        """Wait for the work, and return the value."""
        if not self._done:
            self._work.wait()
            self.set_result(self._make())
        return super().wait()

    def value(self) -> Any:
        """The value."""
        return self.wait()

    def then(self, callback: Callable[[Any], Any]) -> Future:
        """The future of what ``callback`` makes of this one."""
        return WorkFuture(self, lambda: callback(self))


def _averaged(group: Any, tensor: Tensor) -> Future:
    work = distributed.all_reduce(tensor, distributed.ReduceOp.AVG, group, async_op=True)
    return WorkFuture(work, lambda: tensor)


def allreduce_hook(process_group: Any, bucket: Any) -> Future:
    """Average a bucket: what is done without a hook.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
        >>> model.register_comm_hook(None, allreduce_hook)
    """
    return _averaged(process_group, bucket.buffer())


def _compressed(process_group: Any, bucket: Any, dtype: Any) -> Future:
    n = distributed.get_world_size(process_group)
    buffer = bucket.buffer()
    # Divided first: a sum may be larger than the type holds.
    small = (buffer / n).to(dtype)
    work = distributed.all_reduce(small, distributed.ReduceOp.SUM, process_group, async_op=True)
    return WorkFuture(work, lambda: buffer.copy_(small))


def fp16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """Average a bucket in float16, which halves what is sent.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
        >>> model.register_comm_hook(None, fp16_compress_hook)
    """
    return _compressed(process_group, bucket, oneflow.float16)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """Average a bucket in bfloat16, which halves what is sent.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
        >>> model.register_comm_hook(None, bf16_compress_hook)
    """
    return _compressed(process_group, bucket, oneflow.bfloat16)


def _wrapped(hook: Callable[[Any, Any], Any], dtype: Any) -> Callable[[Any, Any], Future]:
    def run(state: Any, bucket: Any) -> Future:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))
        future = hook(state, bucket)

        def back() -> Tensor:
            value = future.value()
            return buffer.copy_(value[0] if isinstance(value, (list, tuple)) else value)

        return WorkFuture(future, back)

    return run


def fp16_compress_wrapper(hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Future]:
    """Return a hook that gives ``hook`` its buckets in float16.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks import default_hooks
        >>> def rank():
        ...     model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
        ...     model.register_comm_hook(None, default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook))
        ...     model(oneflow.ones(1, 1)).sum().backward()
        ...     return model.module.bias.grad.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [1.0, 1.0]
    """
    return _wrapped(hook, oneflow.float16)


def bf16_compress_wrapper(hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Future]:
    """Return a hook that gives ``hook`` its buckets in bfloat16.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks import default_hooks
        >>> def rank():
        ...     model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
        ...     model.register_comm_hook(None, default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook))
        ...     model(oneflow.ones(1, 1)).sum().backward()
        ...     return model.module.bias.grad.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [1.0, 1.0]
    """
    return _wrapped(hook, oneflow.bfloat16)
