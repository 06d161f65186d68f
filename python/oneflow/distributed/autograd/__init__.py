"""Gradients through calls of :mod:`oneflow.distributed.rpc`: PyTorch's ``torch.distributed.autograd``.

Calls that are made inside :class:`context` remember which tensors went to which worker. :func:`backward` runs the graph
of each worker once and sends gradients the other way; they are kept by the context, not in ``.grad``.
"""

from __future__ import annotations

from types import TracebackType

from oneflow import Tensor
from oneflow.distributed.autograd import _contexts
from oneflow.distributed.autograd._backward import backward, release
from oneflow.distributed.autograd._contexts import Context as DistAutogradContext

__all__ = ["DistAutogradContext", "backward", "context", "get_gradients", "is_available"]


def is_available() -> bool:
    """Whether there are gradients through remote calls: always.

    Example::

        >>> oneflow.distributed.autograd.is_available()
        True
    """
    return True


class context:
    """A ``with`` block whose calls of other workers can be differentiated; gives its number, which all workers know.

    At its end all workers forget what they remember of it.

    Example::

        >>> import oneflow.distributed.autograd as dist_autograd
        >>> from oneflow.distributed import rpc
        >>> rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> x = oneflow.ones(2, requires_grad=True)
        >>> with dist_autograd.context() as context_id:
        ...     loss = rpc.rpc_sync("worker0", oneflow.mul, args=(x, 3)).sum()
        ...     dist_autograd.backward(context_id, [loss])
        ...     print(dist_autograd.get_gradients(context_id)[x])
        tensor([3., 3.])
        >>> rpc.shutdown()
    """

    def __enter__(self) -> int:
        from oneflow.distributed.rpc import _state

        agent = _state.agent()
        self._before = _contexts.current()
        if self._before is not None:
            raise RuntimeError("dist_autograd.context: this thread is in a context already; they cannot be nested")
        self._context = _contexts.new(agent.rank)
        _contexts.enter(self._context)
        return self._context.number

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        _contexts.enter(self._before)
        release(self._context.number)


def get_gradients(context_id: int) -> dict[Tensor, Tensor]:
    """Return this worker's gradients of a context, by the tensor that they are of.

    Raises:
        RuntimeError: there is no such context on this worker.

    Example::

        >>> import oneflow.distributed.autograd as dist_autograd
        >>> from oneflow.distributed import rpc
        >>> rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> x = oneflow.ones(2, requires_grad=True)
        >>> with dist_autograd.context() as context_id:
        ...     dist_autograd.backward(context_id, [x.sum()])
        ...     print(dist_autograd.get_gradients(context_id)[x])
        tensor([1., 1.])
        >>> rpc.shutdown()
    """
    return _contexts.find(context_id).gradients()


def _is_valid_context(context_id: int) -> bool:
    return _contexts.find(context_id) is not None


def _retrieve_context(context_id: int) -> DistAutogradContext:
    return _contexts.find(context_id)


def _current_context() -> DistAutogradContext:
    found = _contexts.current()
    if found is None:
        raise RuntimeError(
            "Trying to retrieve the current autograd context, but there is no valid autograd context set for this "
            "thread"
        )
    return found
