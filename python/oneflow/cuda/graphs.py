"""Captured graphs: work of a stream that is recorded once and launched again as a whole.

While work is captured it is not done. Its tensors keep their addresses, so replays read and write the same memory:
new inputs are copied into the captured ones. What needs a result on the host (``item()``, ``cpu()``, a
synchronisation) cannot be captured and raises an error that names the call. Random numbers of the default generator
go on with each replay.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.cuda.streams import Stream, StreamContext, current_stream

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]


def is_current_stream_capturing() -> bool:
    """Return whether the work of the current stream is captured.

    Example::

        >>> oneflow.cuda.is_current_stream_capturing()
        False
    """
    return oneflow.cuda.is_available() and _oneflow._cuda_is_capturing(current_stream()._raw)


def graph_pool_handle() -> tuple[int, int]:
    """Return the name of a new memory pool that graphs can share, for ``pool=``.

    Raises:
        RuntimeError: there is no GPU.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     pool = oneflow.cuda.graph_pool_handle()
    """
    return (0, _oneflow._cuda_new_pool())


class CUDAGraph:
    """A captured graph. :class:`graph` is the usual way to fill one.

    Its memory belongs to a private pool, which lives as long as a graph uses it. Graphs that share a pool (``pool=``)
    are replayed in the order of their captures, and not at the same time.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     x = oneflow.ones(4, device="cuda")
        ...     g = oneflow.cuda.CUDAGraph()
        ...     with oneflow.cuda.graph(g):
        ...         y = x * 2
        ...     x.fill_(3)
        ...     g.replay()
        ...     assert (y == 6).all()
    """

    def __init__(self, keep_graph: bool = False) -> None:
        if keep_graph:
            raise NotImplementedError("CUDAGraph(): keep_graph=True is not implemented")
        from oneflow import cuda

        cuda._check()
        self._raw = _oneflow._CudaGraph()

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", *, _follows: Any = None) -> None:
        """Begin to capture the current stream, which must not be the device's own.

        Args:
            pool: of :func:`graph_pool_handle` or another graph's :meth:`pool`; None makes a new one.
            capture_error_mode: ``global`` (no thread may make a call that could break a capture, as an allocation of
                another library), ``thread_local`` (this thread may not) or ``relaxed``.

        Raises:
            RuntimeError: the graph is captured already, the stream is the device's own or is captured, or an unknown
                mode.
        """
        self._raw.capture_begin(
            current_stream()._raw, 0 if pool is None else pool[1], capture_error_mode, _follows and _follows._raw
        )

    def capture_end(self) -> None:
        """End the capture.

        Raises:
            RuntimeError: no capture is under way, or a call ended it, which the message names.
        """
        self._raw.capture_end()

    def replay(self) -> None:
        """Issue the captured work to the current stream.

        Collectives in it count as issued now: ranks launch their graphs in the same order, and a group whose ranks do
        not all come within its timeout fails, with an error that names the first collective.

        Raises:
            RuntimeError: nothing is captured, or a group whose collectives it holds has failed or was closed.
        """
        self._raw.replay(current_stream()._raw)

    def reset(self) -> None:
        """Forget what is captured."""
        self._raw.reset()

    def pool(self) -> tuple[int, int]:
        """Return the name of the memory pool, for ``pool=`` of another graph."""
        return (0, self._raw.pool)


class graph:
    """Context manager that captures what is issued inside.

    Args:
        cuda_graph: takes what is captured.
        pool: of :func:`graph_pool_handle` or another graph's ``pool()``; None makes a new one.
        stream: the stream to capture; None is one of its own.
        capture_error_mode: as for :meth:`CUDAGraph.capture_begin`.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     x, g = oneflow.ones(4, device="cuda"), oneflow.cuda.CUDAGraph()
        ...     with oneflow.cuda.graph(g):
        ...         x.add_(1)
        ...     g.replay()
    """

    default_capture_stream: Stream | None = None

    def __init__(
        self, cuda_graph: CUDAGraph, pool: Any = None, stream: Stream | None = None, capture_error_mode: str = "global"
    ) -> None:
        if stream is None and graph.default_capture_stream is None:
            graph.default_capture_stream = Stream()
        chosen = graph.default_capture_stream if stream is None else stream
        assert chosen is not None
        self.capture_stream = chosen
        self.stream_ctx = StreamContext(chosen)
        self.cuda_graph, self.pool, self.capture_error_mode = cuda_graph, pool, capture_error_mode
        self._follows: CUDAGraph | None = None

    def __enter__(self) -> None:
        # What was issued before comes before, and what nobody uses makes room.
        oneflow.cuda.synchronize(self.capture_stream.device)
        gc.collect()
        oneflow.cuda.empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode, _follows=self._follows)
        except BaseException:
            self.stream_ctx.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        try:
            self.cuda_graph.capture_end()
        except RuntimeError:
            # The exception inside says what happened.
            if kind is None:
                raise
        finally:
            self.stream_ctx.__exit__(kind, value, trace)


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Return callables whose forward and backward are a graph each.

    Args:
        callables: a function or module of tensors, or a tuple of them in the order in which they run. Modules are
            changed in place: in training mode their ``forward`` replays, in the other mode it is as before.
        sample_args: tensors of the sizes, dtypes and devices of later calls, those that need gradients with
            ``requires_grad=True``; for a tuple of callables a tuple of such tuples.
        num_warmup_iters: runs before the capture.
        allow_unused_input: whether inputs may have no gradient.
        pool: of :func:`graph_pool_handle`; None makes a new one.

    Raises:
        RuntimeError: a module has hooks, or buffers that require gradients.
        TypeError: an argument is no tensor.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     layer, x = oneflow.nn.Linear(4, 4).cuda(), oneflow.ones(2, 4, device="cuda")
        ...     layer = oneflow.cuda.make_graphed_callables(layer, (x,))
        ...     layer(x).sum().backward()
    """
    several = isinstance(callables, tuple)
    functions = callables if several else (callables,)
    samples = sample_args if several else (sample_args,)
    graphed = _graph_all(functions, [tuple(s) for s in samples], num_warmup_iters, allow_unused_input, pool)
    return tuple(graphed) if several else graphed[0]


class _Graphed:
    """One callable with its graphs and the tensors that they read and write."""

    def __init__(self, function: Callable[..., Any], sample: tuple[Any, ...]) -> None:
        if not all(isinstance(x, Tensor) for x in sample):
            raise TypeError("make_graphed_callables(): sample_args must be tensors")
        self.function = function
        self.parameters: tuple[Tensor, ...] = ()
        if isinstance(function, oneflow.nn.Module):
            if any([function._backward_hooks, function._forward_hooks, function._forward_pre_hooks]):
                raise RuntimeError(
                    "Modules must not have hooks registered at the time they are passed. However, registering hooks on "
                    "modules after passing them through make_graphed_callables is allowed."
                )
            if any(b.requires_grad for b in function.buffers()):
                raise RuntimeError(
                    "In any Module passed to make_graphed_callables(), only parameters may be trainable. "
                    "All buffers must have requires_grad=False."
                )
            self.parameters = tuple(function.parameters())
        # Views of their own: a gradient asked for an input ends here, wherever the sample came from.
        self.inputs = tuple(x.detach().requires_grad_(x.requires_grad) for x in sample)
        self.wanted = tuple(x for x in (*self.inputs, *self.parameters) if x.requires_grad)
        self.forward_graph, self.backward_graph = CUDAGraph(), CUDAGraph()
        self.outputs: tuple[Tensor, ...] = ()
        self.is_tuple = False
        self.grad_outputs: tuple[Tensor | None, ...] = ()
        self.grads: tuple[Tensor | None, ...] = ()

    def run(self) -> tuple[Tensor, ...]:
        """The outputs of an eager call."""
        made = self.function(*self.inputs)
        self.is_tuple = not isinstance(made, Tensor)
        return tuple(made) if self.is_tuple else (made,)

    def backward(self, outputs: tuple[Tensor, ...], grads: Sequence[Tensor], unused: bool) -> tuple[Tensor | None, ...]:
        """Gradients of what needs some."""
        roots = [y for y in outputs if y.requires_grad]
        if not roots or not self.wanted:
            return ()
        return oneflow.autograd.grad(roots, self.wanted, grads, allow_unused=unused)

    def warm_up(self, n: int, unused: bool) -> None:
        for _ in range(n):
            outputs = self.run()
            self.backward(outputs, [oneflow.ones_like(y) for y in outputs if y.requires_grad], unused)

    def capture_forward(self, pool: Any) -> None:
        with graph(self.forward_graph, pool):
            self.outputs = self.run()

    def capture_backward(self, pool: Any, unused: bool) -> None:
        self.grad_outputs = tuple(oneflow.empty_like(y) if y.requires_grad else None for y in self.outputs)
        if not self.wanted or all(g is None for g in self.grad_outputs):
            return
        context = graph(self.backward_graph, pool)
        context._follows = self.forward_graph
        with context:
            found = self.backward(self.outputs, [g for g in self.grad_outputs if g is not None], unused)
        gradients = iter(found)
        inputs = (*self.inputs, *self.parameters)
        self.grads = tuple(next(gradients) if x.requires_grad else None for x in inputs)

    def callable(self) -> Callable[..., Any]:
        """The function that replays."""
        mine = self

        class Replay(oneflow.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *given: Tensor) -> tuple[Tensor, ...]:
                for static, x in zip(mine.inputs, given, strict=False):
                    if static.data_ptr() != x.data_ptr():
                        static.detach().copy_(x)
                mine.forward_graph.replay()
                outputs = tuple(y.detach() for y in mine.outputs)
                ctx.mark_non_differentiable(
                    *[y for y, was in zip(outputs, mine.outputs, strict=True) if not was.requires_grad]
                )
                return outputs

            @staticmethod
            def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
                for static, g in zip(mine.grad_outputs, grads, strict=True):
                    if static is not None and g is not None and static.data_ptr() != g.data_ptr():
                        static.copy_(g)
                mine.backward_graph.replay()
                return tuple(None if g is None else g.detach() for g in mine.grads)

        def replay(*given: Tensor) -> Any:
            if len(given) != len(mine.inputs):
                raise TypeError(f"the graphed callable takes {len(mine.inputs)} tensors, got {len(given)}")
            for x, static in zip(given, mine.inputs, strict=True):
                if x.shape != static.shape or x.dtype != static.dtype or x.device != static.device:
                    raise RuntimeError(
                        f"the graphed callable was captured for a {static.dtype} tensor {tuple(static.shape)} on "
                        f"{static.device}, got {x.dtype} {tuple(x.shape)} on {x.device}"
                    )
            made = Replay.apply(*given, *mine.parameters)
            made = made if isinstance(made, tuple) else (made,)
            return made if mine.is_tuple else made[0]

        return replay


def _graph_all(
    functions: tuple[Any, ...], samples: list[tuple[Any, ...]], n_warm: int, unused: bool, pool: Any
) -> list[Any]:
    if len(functions) != len(samples):
        raise ValueError(
            f"make_graphed_callables(): {len(functions)} callables and {len(samples)} groups of sample_args"
        )
    from oneflow import cuda

    cuda._check()
    parts = [_Graphed(f, s) for f, s in zip(functions, samples, strict=True)]
    pool = graph_pool_handle() if pool is None else pool
    side = Stream()
    side.wait_stream(current_stream())
    with StreamContext(side):
        for part in parts:
            part.warm_up(n_warm, unused)
    current_stream().wait_stream(side)
    # Memory of a forward is kept by its outputs until the backward is captured, in the reverse order of the forwards.
    for part in parts:
        part.capture_forward(pool)
    for part in reversed(parts):
        part.capture_backward(pool, unused)
    return [_as_given(part) for part in parts]


def _as_given(part: _Graphed) -> Any:
    """The callable that takes a function's or a module's place."""
    replay, module = part.callable(), part.function
    if not isinstance(module, oneflow.nn.Module):
        return replay
    eager, was_training = module.forward, module.training

    def forward(*given: Any, **named: Any) -> Any:
        return replay(*given) if module.training == was_training and not named else eager(*given, **named)

    module.forward = forward  # type: ignore[method-assign]
    return module
