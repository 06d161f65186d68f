"""What a worker remembers of one context: tensors that were sent and received, gradients that have come.

Each message has a number and a time: the sender's count, which is greater than that of every message that it has sent
or received before (a Lamport clock). A tensor that is received is a leaf of the receiver's graph. Nothing here sends.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor

__all__ = ["Arrived", "Context", "current", "enter", "find", "forget", "forget_all", "known", "new", "of"]

_lock = threading.Lock()
_contexts: dict[int, Context] = {}
_numbers = itertools.count(1)
_thread = threading.local()
_RANK_BITS = 48


class Arrived(NamedTuple):
    """A message for whose tensors there are gradients: when it was sent, its number, who received and who sent it."""

    clock: int
    message: int
    receiver: int
    sender: int


class _Received(NamedTuple):
    sender: int
    clock: int
    leaves: list[Tensor]


class Context:
    """What this worker remembers of a context.

    Example::

        >>> import oneflow.distributed.autograd as dist_autograd
        >>> from oneflow.distributed import rpc
        >>> rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> with dist_autograd.context() as context_id:
        ...     found = dist_autograd._retrieve_context(context_id)
        ...     print(isinstance(found, dist_autograd.DistAutogradContext), found._context_id() == context_id)
        True True
        >>> rpc.shutdown()
    """

    def __init__(self, number: int, rank: int) -> None:
        self.number, self._rank = number, rank
        self._lock = threading.RLock()
        self._clock = 0
        self._messages = itertools.count(1)
        self._sent: dict[int, list[Tensor]] = {}
        self._received: dict[int, _Received] = {}
        self._places: dict[int, tuple[int, int]] = {}
        self._arriving: dict[int, dict[int, Tensor]] = {}
        self._gradients: dict[int, tuple[Tensor, Tensor]] = {}
        self._peers: set[int] = set()

    def _context_id(self) -> int:
        return self.number

    def _known_worker_ids(self) -> set[int]:
        return set(self._peers)

    def _send_functions(self) -> dict[int, list[Tensor]]:
        return dict(self._sent)

    def _recv_functions(self) -> dict[int, list[Tensor]]:
        return {message: found.leaves for message, found in self._received.items()}

    def sending(self, to: int, tensors: list[Tensor]) -> tuple[int, int]:
        """Note a message that leaves; its number and time."""
        with self._lock:
            self._clock += 1
            message = self._rank << _RANK_BITS | next(self._messages)
            if tensors:
                self._sent[message] = tensors
            self._peers.add(to)
            return message, self._clock

    def receiving(self, sender: int, message: int, clock: int, leaves: list[Tensor]) -> None:
        """Note a message that has come."""
        with self._lock:
            self._clock = max(self._clock, clock) + 1
            self._peers.add(sender)
            if leaves:
                self._received[message] = _Received(sender, clock, leaves)
                self._places.update({id(leaf): (message, i) for i, leaf in enumerate(leaves)})

    def run(self, roots: list[Tensor], grads: list[Tensor]) -> list[Arrived]:
        """Run this worker's graph backward from tensors with their gradients; return the messages that it reaches."""
        for root, grad in zip(roots, grads, strict=True):
            if root.grad_fn is None:
                self._add(root, grad)
        inner = [(root, grad) for root, grad in zip(roots, grads, strict=True) if root.grad_fn is not None]
        leaves = _leaves([root for root, _ in inner])
        if leaves:
            # Other messages may come back to the same part of the graph.
            found = oneflow.autograd.grad(
                [root for root, _ in inner], leaves, [grad for _, grad in inner], retain_graph=True, allow_unused=True
            )
            for leaf, grad in zip(leaves, found, strict=True):
                if grad is not None:
                    self._add(leaf, grad)
        with self._lock:
            reached = {message: self._received[message] for message in self._arriving}
        return [Arrived(found.clock, message, self._rank, found.sender) for message, found in reached.items()]

    def _add(self, leaf: Tensor, grad: Tensor) -> None:
        with self._lock:
            place = self._places.get(id(leaf))
            if place is not None:
                arriving = self._arriving.setdefault(place[0], {})
                arriving[place[1]] = arriving[place[1]] + grad if place[1] in arriving else grad
                return
            before = self._gradients.get(id(leaf))
            self._gradients[id(leaf)] = leaf, grad.detach() if before is None else before[1] + grad

    def take_arrived(self, message: int) -> tuple[int, dict[int, Tensor]]:
        """Who sent a message, and the gradients of its tensors, which are forgotten here."""
        with self._lock:
            return self._received[message].sender, self._arriving.pop(message, {})

    def run_sent(self, message: int, grads: dict[int, Tensor]) -> list[Arrived]:
        """Go on with the gradients of the tensors of a message that this worker has sent."""
        with self._lock:
            tensors = self._sent.get(message)
        if tensors is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time: what the workers remember of it has been freed. "
                "Specify retain_graph=True for dist_autograd.backward to go back again"
            )
        chosen = list(grads)
        return self.run([tensors[i] for i in chosen], [grads[i] for i in chosen])

    def forget_graph(self) -> None:
        """Free what was sent; gradients stay."""
        with self._lock:
            self._sent.clear()

    def gradients(self) -> dict[Tensor, Tensor]:
        """The gradients of this worker's leaves."""
        with self._lock:
            return dict(self._gradients.values())


def _leaves(roots: list[Tensor]) -> list[Tensor]:
    """The leaves of a graph that take gradients."""
    waiting: list[Any] = [root.grad_fn for root in roots]
    seen: set[Any] = set()
    found: dict[int, Tensor] = {}
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found[id(variable)] = variable
        waiting += [following for following, _ in node.next_functions]
    return list(found.values())


def new(rank: int) -> Context:
    """A context of this worker."""
    return of(rank << _RANK_BITS | next(_numbers), rank)


def of(number: int, rank: int) -> Context:
    """The context of a number, which is made if a message brings it to this worker for the first time."""
    with _lock:
        if number not in _contexts:
            _contexts[number] = Context(number, rank)
        return _contexts[number]


def find(number: int) -> Context:
    """The context of a number.

    Raises:
        RuntimeError: this worker has none.
    """
    with _lock:
        found = _contexts.get(number)
    if found is None:
        raise RuntimeError(f"Could not find autograd context with id: {number}")
    return found


def known(number: int) -> Context | None:
    """The context of a number, if this worker still has it."""
    with _lock:
        return _contexts.get(number)


def forget(number: int) -> Context | None:
    """Drop a context; what it was if there was one."""
    with _lock:
        return _contexts.pop(number, None)


def forget_all() -> None:
    """Drop every context, when the worker ends."""
    with _lock:
        _contexts.clear()


def current() -> Context | None:
    """The context of the calling thread."""
    return getattr(_thread, "context", None)


def enter(context: Context | None) -> None:
    """Make a context that of the calling thread; ``None``: it has none."""
    _thread.context = context
