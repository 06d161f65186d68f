"""``DistributedOptimizer``: updates of parameters on the workers that have them."""

from __future__ import annotations

import threading
from typing import Any

from oneflow.distributed import autograd, rpc
from oneflow.distributed.rpc import RRef
from oneflow.futures import Future

__all__ = ["DistributedOptimizer"]

# Contexts of several callers may update the same parameters.
_lock = threading.Lock()


class _LocalOptimizer:
    """What updates the parameters of one worker."""

    def __init__(self, optimizer_class: Any, parameters: list[RRef[Any]], *args: Any, **kwargs: Any) -> None:
        self._parameters = [parameter.local_value() for parameter in parameters]
        self.optim = optimizer_class(self._parameters, *args, **kwargs)

    def step(self, context_id: int) -> None:
        """Update with the gradients of a context; ``.grad`` is as before afterwards."""
        gradients = autograd.get_gradients(context_id)
        with _lock:
            before = [parameter.grad for parameter in self._parameters]
            try:
                for parameter in self._parameters:
                    parameter.grad = gradients.get(parameter)
                self.optim.step()
            finally:
                for parameter, grad in zip(self._parameters, before, strict=True):
                    parameter.grad = grad


def _make(optimizer_class: Any, parameters: list[RRef[Any]], args: Any, kwargs: Any) -> RRef[_LocalOptimizer]:
    return RRef(_LocalOptimizer(optimizer_class, parameters, *args, **kwargs))


def _step(optimizer: RRef[_LocalOptimizer], context_id: int) -> None:
    optimizer.local_value().step(context_id)


class DistributedOptimizer:
    """An optimizer on each worker that has some of the parameters, which steps with the gradients of a context.

    Args:
        optimizer_class: such as :class:`oneflow.optim.SGD`.
        params_rref: references to the parameters.
        args, kwargs: further arguments of the class.

    Raises:
        Exception: what the class raises on a worker.

    Example::

        >>> import oneflow.distributed.autograd as dist_autograd
        >>> from oneflow.distributed import rpc
        >>> from oneflow.distributed.optim import DistributedOptimizer
        >>> rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> weight = oneflow.nn.Parameter(oneflow.ones(2))
        >>> optimizer = DistributedOptimizer(oneflow.optim.SGD, [rpc.RRef(weight)], lr=0.5)
        >>> with dist_autograd.context() as context_id:
        ...     dist_autograd.backward(context_id, [weight.sum()])
        ...     optimizer.step(context_id)
        >>> weight.data
        tensor([0.5000, 0.5000])
        >>> rpc.shutdown()
    """

    def __init__(self, optimizer_class: Any, params_rref: list[RRef[Any]], *args: Any, **kwargs: Any) -> None:
        by_owner: dict[Any, list[RRef[Any]]] = {}
        for parameter in params_rref:
            by_owner.setdefault(parameter.owner(), []).append(parameter)
        made = [
            rpc.rpc_async(owner, _make, args=(optimizer_class, parameters, args, kwargs))
            for owner, parameters in by_owner.items()
        ]
        self.remote_optimizers: list[RRef[_LocalOptimizer]] = _all(made)

    def step(self, context_id: int) -> None:
        """Update all parameters with the gradients of a context; returns when all workers have.

        Raises:
            RuntimeError: no such context.
        """
        autograd._retrieve_context(context_id)
        _all([rpc.rpc_async(o.owner(), _step, args=(o, context_id)) for o in self.remote_optimizers])


def _all(waiting: list[Future]) -> list[Any]:
    """The results of all, once all are done; the last error is raised."""
    results, failure = [], None
    for future in waiting:
        try:
            results.append(future.wait())
        except Exception as error:
            failure = error
    if failure is not None:
        raise failure
    return results
