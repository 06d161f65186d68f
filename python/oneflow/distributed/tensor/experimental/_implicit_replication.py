"""Local tensors in calls beside DTensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.overrides import TorchFunctionMode
from oneflow.utils import _pytree as pytree

__all__ = ["implicit_replication"]


@contextlib.contextmanager
def implicit_replication() -> Iterator[None]:
    """Inside, a local tensor in a call that has a DTensor counts as one that is replicated over the same ranks.

    All ranks must have the same one; nobody compares them.

    Example::

        >>> from oneflow.distributed.tensor import Shard, distribute_tensor
        >>> from oneflow.distributed.tensor.experimental import implicit_replication
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     x = distribute_tensor(oneflow.arange(4.0), mesh, [Shard(0)])
        ...     with implicit_replication():
        ...         return (x + oneflow.ones(4)).full_tensor().tolist()
        >>> oneflow.testing.run_ranks(2, rank)[0]
        [1.0, 2.0, 3.0, 4.0]
    """
    with _Replicating():
        yield


class _Replicating(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__name__", "") in ("__get__", "__set__", "__delete__"):
            # An attribute computes nothing, and a gradient stays as it is.
            return func(*args, **(kwargs or {}))
        leaves, spec = pytree.tree_flatten((args, kwargs or {}))
        found = next((x for x in leaves if isinstance(x, Tensor) and x.is_global), None)
        if found is not None:
            layout = [oneflow.sbp.broadcast] * len(found.sbp)
            leaves = [
                x.to_global(found.placement, layout) if isinstance(x, Tensor) and not x.is_global else x for x in leaves
            ]
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return func(*args, **kwargs)
