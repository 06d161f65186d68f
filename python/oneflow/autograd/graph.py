"""The recorded graph: edges, hooks on what is saved for backward, hooks on several tensors at once."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, NamedTuple

import oneflow
from oneflow import _oneflow
from oneflow._oneflow import FunctionCtx, Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_warn_on_accumulate_grad_stream_mismatch",
]

_C = _oneflow._C


class _NodeType(type):
    """The class of compiled nodes: supports ``isinstance`` and ``issubclass`` with any of them."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (_oneflow.Node, FunctionCtx))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(subclass, (_oneflow.Node, FunctionCtx))


class Node(metaclass=_NodeType):
    """The base class of all nodes of the recorded graph, the contexts of custom functions among them.

    Example::

        >>> isinstance((oneflow.ones(1, requires_grad=True) * 2).grad_fn, oneflow.autograd.graph.Node)
        True
    """


class GradientEdge(NamedTuple):
    """Where the gradient of a tensor arrives: output ``output_nr`` of ``node``. Takes a tensor's place in ``grad``.

    Example::

        >>> x = oneflow.ones(1, requires_grad=True)
        >>> oneflow.autograd.graph.get_gradient_edge(x).output_nr
        0
    """

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge at which gradients of ``tensor`` arrive; for a leaf that of its accumulator.

    Raises:
        RuntimeError: the tensor requires no gradient.

    Example::

        >>> x = oneflow.ones(1, requires_grad=True)
        >>> type(oneflow.autograd.graph.get_gradient_edge(x * 2)).__name__
        'GradientEdge'
    """
    return GradientEdge(*_C._gradient_edge(tensor))


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Say that the data of ``tensor`` was written by something the library did not see.

    Example::

        >>> x = oneflow.ones(1)
        >>> oneflow.autograd.graph.increment_version(x)
        >>> x._version
        1
    """
    for t in [tensor] if isinstance(tensor, Tensor) else tensor:
        _C._increment_version(t)


class saved_tensors_hooks:
    """Context manager: tensors saved for backward inside pass through ``pack_hook``, and later ``unpack_hook``.

    Args:
        pack_hook: called with each tensor that is to be saved; returns anything.
        unpack_hook: called in backward with what ``pack_hook`` returned; returns the tensor.

    Example::

        >>> x = oneflow.ones(2, requires_grad=True)
        >>> with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        ...     y = x * x
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        _C._push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        _C._pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keep what is saved for backward in host memory.

    Args:
        pin_memory: keep it in pinned memory, from where it comes back without being waited for. Needs a GPU.
        device_type: the device the tensors come from.

    Example::

        >>> with oneflow.autograd.graph.save_on_cpu():
        ...     y = oneflow.ones(1, requires_grad=True).exp()
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> tuple[Any, Tensor]:
            if not pin_memory or tensor.device.type == "cpu":
                return tensor.device, tensor.cpu()
            pinned = oneflow.empty_like(tensor, device="cpu", pin_memory=True)
            return tensor.device, pinned.copy_(tensor)

        def unpack(packed: tuple[Any, Tensor]) -> Tensor:
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Generator[None, None, None]:
    """Refuse :class:`saved_tensors_hooks` inside, with ``error_message``.

    Example::

        >>> with oneflow.autograd.graph.disable_saved_tensors_hooks("not here"):
        ...     y = oneflow.ones(1, requires_grad=True).exp()
    """
    was = _C._refuse_saved_hooks(error_message)
    try:
        yield
    finally:
        _C._refuse_saved_hooks(was)


class _Saved:
    """Stands in a node for a tensor that was saved."""

    __slots__ = ("__weakref__",)


_Key = tuple[int, int, Any, tuple[int, ...], tuple[int, ...]]


class _Copies:
    """Tensors that were saved inside :func:`allow_mutation_on_saved_tensors`, and copies of those written since.

    All of it is held by the nodes that saved it: what no node needs any more is neither kept nor copied.
    """

    def __init__(self) -> None:
        self.original: weakref.WeakKeyDictionary[_Saved, Tensor] = weakref.WeakKeyDictionary()
        self.cloned: weakref.WeakKeyDictionary[_Saved, Tensor] = weakref.WeakKeyDictionary()
        self.tid_to_weakhandle: weakref.WeakValueDictionary[_Key, _Saved] = weakref.WeakValueDictionary()
        self.by_storage: dict[int, weakref.WeakSet[_Saved]] = {}
        self.is_open = True

    def pack(self, tensor: Tensor) -> _Saved:
        memory = tensor.untyped_storage().data_ptr()
        key = (tensor.data_ptr(), tensor._version, tensor.dtype, tuple(tensor.shape), tensor.stride())
        saved = self.tid_to_weakhandle.get(key)
        if saved is None:
            saved = self.tid_to_weakhandle[key] = _Saved()
            self.original[saved] = tensor.detach()
            self.by_storage.setdefault(memory, weakref.WeakSet()).add(saved)
        return saved

    def unpack(self, saved: _Saved) -> Tensor:
        if not self.is_open:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context "
                "in which the graph was originally recorded."
            )
        copy = self.cloned.get(saved)
        return self.original[saved] if copy is None else copy

    def before_write(self, tensor: Tensor) -> None:
        if not self.by_storage:
            return
        for saved in list(self.by_storage.pop(tensor.untyped_storage().data_ptr(), ())):
            original = self.original.pop(saved, None)
            if original is not None:
                with oneflow.no_grad():
                    self.cloned[saved] = original.clone()

    def clear(self) -> None:
        """Forget everything: no backward of what was recorded is possible afterwards."""
        self.original.clear()
        self.cloned.clear()
        self.tid_to_weakhandle.clear()
        self.by_storage.clear()


_allowing = threading.local()


@contextmanager
def allow_mutation_on_saved_tensors() -> Generator[_Copies, None, None]:
    """Inside, tensors that are saved for backward may be written: they are copied before the first write.

    The backward has to run inside, too. Only writes by the thread that entered are seen.

    Raises:
        RuntimeError: inside another such context.
        AssertionError: a backward outside of the context in which the graph was recorded.

    Example::

        >>> with oneflow.autograd.graph.allow_mutation_on_saved_tensors():
        ...     x = oneflow.ones(1, requires_grad=True)
        ...     y = x.clone()
        ...     z = y**2
        ...     _ = y.sin_()
        ...     z.backward()
        >>> x.grad
        tensor([2.])
    """
    if getattr(_allowing, "inside", False):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    copies = _Copies()
    with saved_tensors_hooks(copies.pack, copies.unpack):
        _allowing.inside = True
        _C._set_before_write(copies.before_write)
        try:
            yield copies
        finally:
            _C._set_before_write(None)
            _allowing.inside = False
            copies.is_open = False
            copies.clear()


class _Handles:
    def __init__(self, handles: Sequence[Any]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Remove the hook from all tensors."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: Literal["all", "any"] = "all"
) -> _Handles:
    """Call ``fn`` once in each backward: with the gradients of all ``tensors``, or with the first that is computed.

    Args:
        tensors: tensors that require a gradient.
        fn: with ``mode="all"`` called with a list of gradients, None for a tensor that was not reached; with
            ``mode="any"`` with one gradient.
        mode: "all" or "any".

    Example::

        >>> x = oneflow.ones(1, requires_grad=True)
        >>> handle = oneflow.autograd.graph.register_multi_grad_hook([x], lambda grads: print(grads))
        >>> (x * 2).backward()
        [tensor([2.])]
        >>> handle.remove()
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    if mode == "any":
        ran: set[int] = set()

        def first(grad: Tensor) -> None:
            run = _C._backward_number()
            with lock:
                if run in ran:
                    return
                ran.clear()
                ran.add(run)
            fn(grad)

        return _Handles([t.register_hook(first) for t in tensors])

    edges = [get_gradient_edge(t) for t in tensors]
    seen: dict[int, list[Any]] = {}
    counts: dict[int, list[int]] = {}

    def make(i: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            run = _C._backward_number()
            with lock:
                if run not in seen:
                    seen[run] = [None] * len(tensors)
                    expected = sum(map(_C._will_run, (e.node for e in edges)))
                    counts[run] = [0, expected]
                seen[run][i] = grad if seen[run][i] is None else seen[run][i] + grad
                counts[run][0] += 1
                if counts[run][0] < counts[run][1]:
                    return
                grads = seen.pop(run)
                del counts[run]
            fn(grads)

        return hook

    return _Handles([t.register_hook(make(i)) for i, t in enumerate(tensors)])


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Accepted: gradients are accumulated on the stream of the backward that computed them.

    Example::

        >>> oneflow.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    """
