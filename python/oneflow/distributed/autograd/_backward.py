"""``backward`` over workers: messages are gone back over in the reverse order of their times.

The worker that calls it asks one worker after the other. Whatever adds to the gradients of a message comes later by the
clock of the context, so that when its turn comes they are complete, and each part of the graph is run once for each
message: no count of dependencies is needed.
"""

from __future__ import annotations

import heapq
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.distributed.autograd import _contexts

__all__ = ["backward", "release"]


def backward(context_id: int, roots: list[Tensor], retain_graph: bool = False) -> None:
    """Compute the gradients of the sum of ``roots`` on all workers that took part.

    They are added to those of the context: :func:`~oneflow.distributed.autograd.get_gradients`.

    Args:
        context_id: what :class:`~oneflow.distributed.autograd.context` gave.
        roots: scalars.
        retain_graph: keep what the workers remember, so that it can be called again.

    Raises:
        RuntimeError: no such context; a root is no scalar or has no gradients; or it is the second time.

    Example::

        >>> import oneflow.distributed.autograd as dist_autograd
        >>> from oneflow.distributed import rpc
        >>> rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> x = oneflow.ones(2, requires_grad=True)
        >>> with dist_autograd.context() as context_id:
        ...     dist_autograd.backward(context_id, [(x * x).sum()])
        ...     print(dist_autograd.get_gradients(context_id)[x])
        tensor([2., 2.])
        >>> rpc.shutdown()
    """
    context = _contexts.find(context_id)
    if not isinstance(roots, (list, tuple)) or not roots:
        raise RuntimeError("No tensors provided for gradient computation.")
    for root in roots:
        if not root.requires_grad:
            raise RuntimeError("requires_grad not set on root")
        if root.numel() != 1:
            raise RuntimeError(f"{list(root.shape)} is not a scalar, all roots need to be scalar")
    from oneflow.distributed.rpc import _state

    here = _state.agent().rank
    took_part = {here}
    waiting = [(-found.clock, found) for found in context.run(list(roots), [oneflow.ones_like(r) for r in roots])]
    heapq.heapify(waiting)
    # A message that is reached from several sides is waited for once.
    known = {found.message for _, found in waiting}
    while waiting:
        _, message = heapq.heappop(waiting)
        known.discard(message.message)
        took_part |= {message.receiver, message.sender}
        for found in _ask(here, message.receiver, _go_back, context_id, message.message):
            if found.message not in known:
                known.add(found.message)
                heapq.heappush(waiting, (-found.clock, found))
    if not retain_graph:
        for rank in took_part:
            _ask(here, rank, _forget_graph, context_id)


def _ask(here: int, rank: int, function: Any, *args: Any) -> Any:
    from oneflow.distributed.rpc import _state

    agent = _state.agent()
    return function(*args) if rank == here else agent.call(agent.workers[rank], function, args, {}).wait()


def _go_back(context_id: int, message: int) -> list[_contexts.Arrived]:
    """On the receiver of a message: send the gradients of its tensors to the sender, which goes on."""
    from oneflow.distributed.rpc import _state

    sender, grads = _contexts.find(context_id).take_arrived(message)
    found = _ask(_state.agent().rank, sender, _go_on, context_id, message, grads)
    return [_contexts.Arrived(*one) for one in found]


def _go_on(context_id: int, message: int, grads: dict[int, Tensor]) -> list[_contexts.Arrived]:
    return _contexts.find(context_id).run_sent(message, grads)


def _forget_graph(context_id: int) -> None:
    _contexts.find(context_id).forget_graph()


def release(context_id: int) -> None:
    """Drop a context here and on the workers that it has reached."""
    from oneflow.distributed.rpc import _state

    context = _contexts.forget(context_id)
    agent = _state.running()
    if context is None or agent is None:
        return
    for rank in context._known_worker_ids() - {agent.rank}:
        # Nobody waits; a worker that is gone has forgotten it.
        agent.call(agent.workers[rank], release, (context_id,), {})
