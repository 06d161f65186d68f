"""Activation checkpointing: part of a forward is run again in backward instead of keeping what it saved.

The two ways differ in how they find out what to run again. The one without re-entry (``use_reentrant=False``) hooks
into what is saved; the other one (``use_reentrant=True``) is one node whose backward runs a nested backward.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
import weakref
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.amp import AUTOCAST_DEVICES
from oneflow.autograd import Function
from oneflow.autograd.graph import saved_tensors_hooks
from oneflow.utils._selective import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


class CheckpointError(RuntimeError):
    """Running a checkpointed part again gave other tensors than the first time.

    Example::

        >>> issubclass(oneflow.utils.checkpoint.CheckpointError, RuntimeError)
        True
    """


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Two contexts that do nothing: for the forward and for running it again.

    Example::

        >>> len(oneflow.utils.checkpoint.noop_context_fn())
        2
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


_early_stop = True
_debug: bool | None = None


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Generator[None, None, None]:
    """Inside, checkpointed parts stop running again as soon as everything wanted is there (True), or run to the end.

    Example::

        >>> with oneflow.utils.checkpoint.set_checkpoint_early_stop(True):
        ...     pass
    """
    global _early_stop
    was, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = was


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Generator[None, None, None]:
    """Inside, ``debug`` of :func:`checkpoint` is ``enabled`` regardless of the call; None leaves it to the call.

    Example::

        >>> with oneflow.utils.checkpoint.set_checkpoint_debug_enabled(False):
        ...     pass
    """
    global _debug
    was, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = was


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Return the GPUs of tensors among ``args`` and the states of their generators. All devices share the CPU's.

    Example::

        >>> oneflow.utils.checkpoint.get_device_states(oneflow.ones(1))
        ([], [])
    """
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Put states of :func:`get_device_states` back.

    Example::

        >>> devices, states = oneflow.utils.checkpoint.get_device_states(oneflow.ones(1))
        >>> oneflow.utils.checkpoint.set_device_states(devices, states)
    """


_again = threading.local()


def _runs_again() -> bool:
    """Whether this thread computes a checkpointed part again."""
    return getattr(_again, "depth", 0) > 0


class _World:
    """The state that a function may read besides its arguments: the random state and autocasting."""

    def __init__(self, preserve_rng_state: bool) -> None:
        self.rng = oneflow.get_rng_state() if preserve_rng_state else None
        self.autocast = _autocast_state()

    @contextlib.contextmanager
    def again(self) -> Generator[None, None, None]:
        """The world as it was, and afterwards as it is now."""
        now = oneflow.get_rng_state() if self.rng is not None else None
        if self.rng is not None:
            oneflow.set_rng_state(self.rng)
        _again.depth = getattr(_again, "depth", 0) + 1
        try:
            oneflow._oneflow._graph_run_again(True)
            with _autocast(self.autocast):
                yield
        finally:
            _again.depth -= 1
            oneflow._oneflow._graph_run_again(False)
            if now is not None:
                oneflow.set_rng_state(now)


def _autocast_state() -> list[dict[str, Any]]:
    return [
        {
            "device_type": kind,
            "enabled": oneflow.is_autocast_enabled(kind),
            "dtype": oneflow.get_autocast_dtype(kind),
            "cache_enabled": oneflow.is_autocast_cache_enabled(),
        }
        for kind in AUTOCAST_DEVICES
    ]


@contextlib.contextmanager
def _autocast(states: list[dict[str, Any]]) -> Generator[None, None, None]:
    with contextlib.ExitStack() as stack:
        for state in states:
            stack.enter_context(oneflow.autocast(**state))
        yield


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call ``function(*args)`` and keep only its arguments for backward, which calls it again.

    Args:
        function: computes the same result when called again with the same arguments.
        args: its arguments, by position; with ``use_reentrant=False`` ``kwargs`` too.
        use_reentrant: False hooks into what is saved; True runs a backward inside backward and wants at least one
            argument that requires a gradient. Should be given.
        context_fn: returns two contexts, for the call now and for the call in backward.
        determinism_check: "default" compares shapes, dtypes and devices of both calls' tensors, "none" nothing.
        debug: add the shapes of everything saved to the error of a failed comparison.
        early_stop: stop the second call once everything wanted is there.
        preserve_rng_state: (keyword) draw the same random numbers in the second call; True by default.

    Raises:
        CheckpointError: the second call saved other tensors than the first.

    Example::

        >>> x = oneflow.ones(2, requires_grad=True)
        >>> checkpoint(oneflow.sin, x, use_reentrant=False).sum().backward()
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, "
            "calling checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, but "
            "if you need to preserve the current default behavior, you can pass use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return _Reentrant.apply(function, preserve, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    debug = debug if _debug is None else _debug
    now, again = context_fn()
    frame = _Frame(
        function, args, kwargs, _World(preserve), again, determinism_check, debug, early_stop and _early_stop
    )
    if not oneflow.is_grad_enabled():
        with now:
            return function(*args, **kwargs)
    with saved_tensors_hooks(frame.pack, _unpack), now:
        result = function(*args, **kwargs)
    frame.complete = True
    return result


# ---- without re-entry


class _Holder:
    """Stands for the tensor that the first call saved ``number``-th."""

    __slots__ = ("__weakref__", "frame", "number")

    def __init__(self, frame: _Frame, number: int) -> None:
        self.frame = frame
        self.number = number


class _Enough(Exception):
    """Everything wanted was saved again."""


def _describe(t: Tensor) -> dict[str, Any]:
    return {"shape": tuple(t.shape), "dtype": t.dtype, "device": t.device}


def _apart(argument: Any) -> Any:
    """An argument of the second call: its graph is thrown away, so nothing of it reaches the first one's."""
    if isinstance(argument, Tensor) and argument.requires_grad:
        return argument.detach().requires_grad_()
    return argument


def _unpack(holder: _Holder) -> Tensor:
    return holder.frame.tensor(holder.number)


class _Frame:
    """One checkpointed call: how to run it again, and the tensors that running it again gave."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        world: _World,
        context: AbstractContextManager[Any],
        check: str,
        debug: bool,
        early_stop: bool,
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.world = world
        self.context = context
        self.check = check
        self.debug = debug
        self.early_stop = early_stop
        # Whether the first call has returned. Before that, only gradients taken inside of the function ask for tensors.
        self.complete = False
        self.described: list[dict[str, Any]] = []
        self.holders: list[weakref.ref[_Holder]] = []
        # By the number of the backward, so that a second backward runs the function once more.
        self.recomputed: dict[int, dict[int, Tensor]] = {}

    def pack(self, tensor: Tensor) -> _Holder:
        holder = _Holder(self, len(self.described))
        self.described.append(_describe(tensor))
        self.holders.append(weakref.ref(holder))
        return holder

    def tensor(self, number: int) -> Tensor:
        """The tensor of this number, which is handed out once."""
        run = oneflow._oneflow._C._backward_number()
        if run not in self.recomputed:
            # Values of an abandoned backward are of no use any more.
            self.recomputed.clear()
            self.recomputed[run] = self._recompute()
        saved = self.recomputed[run]
        if number not in saved:
            if run == 0:
                self.recomputed[run] = saved = self._recompute()
            if number not in saved:
                raise CheckpointError(
                    "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. "
                    "If you are calling ctx.saved_tensors in backward, make sure to do so only once."
                )
        return saved.pop(number)

    def _recompute(self) -> dict[int, Tensor]:
        saved: dict[int, Tensor] = {}
        count = 0
        described: list[dict[str, Any]] = []
        inside = not self.complete

        def pack(tensor: Tensor) -> Tensor:
            nonlocal count
            number, count = count, count + 1
            described.append(_describe(tensor))
            if number >= len(self.described):
                # The first call saved fewer: only an error if it did not stop early.
                return tensor
            if self.holders[number]() is not None:
                saved[number] = tensor
            if self.early_stop and count == len(self.described):
                raise _Enough
            return tensor

        args = [_apart(a) for a in self.args]
        kwargs = {name: _apart(a) for name, a in self.kwargs.items()}
        with (
            self.world.again(),
            oneflow.enable_grad(),
            self.context,
            contextlib.suppress(_Enough),
            saved_tensors_hooks(pack, lambda t: t),
        ):
            self.function(*args, **kwargs)
        # Inside of the first call it is not known yet how many tensors there will be.
        self._compare(described[: len(self.described)] if inside else described)
        return saved

    def _compare(self, described: list[dict[str, Any]]) -> None:
        if len(described) > len(self.described):
            raise CheckpointError(
                "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original "
                f"forward pass.\nNumber of tensors saved during forward: {len(self.described)}\n"
                f"Number of tensors saved during recomputation: {len(described)}." + self._listing(described)
            )
        if len(described) != len(self.described):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.described)}\n"
                f"Number of tensors saved during recomputation: {len(described)}." + self._listing(described)
            )
        if self.check == "none":
            return
        lines = [
            f"tensor at position {i}:\nsaved metadata: {a}\nrecomputed metadata: {b}"
            for i, (a, b) in enumerate(zip(self.described, described, strict=True))
            if a != b
        ]
        if lines:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                "during the forward pass.\n" + "\n".join(lines) + self._listing(described)
            )

    def _listing(self, described: list[dict[str, Any]]) -> str:
        if not self.debug:
            return ""
        return (
            "\nYou are seeing this error because you passed `debug=True` to checkpoint and the tensors to be saved "
            f"during the forward and the recomputation do not match.\nSaved in forward: {self.described}\n"
            f"Saved in recomputation: {described}"
        )


# ---- with re-entry


class _Reentrant(Function):
    """One node: its backward runs the function again, with recording, and then a backward of that."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        if not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=4)
        ctx.function = function
        ctx.world = _World(preserve_rng_state)
        ctx.args = [None if isinstance(a, Tensor) else a for a in args]
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with oneflow.no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if oneflow._oneflow._C._backward_is_partial():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        args = list(ctx.args)
        for i, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[i] = tensor.detach().requires_grad_(tensor.requires_grad)
        with ctx.world.again(), oneflow.enable_grad():
            outputs = ctx.function(*args)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        oneflow.autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        return None, None, *(a.grad if isinstance(a, Tensor) else None for a in args)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run ``functions`` one after another, in ``segments`` parts of which all but the last are checkpointed.

    Args:
        functions: a Sequential, or a list of modules or functions.
        segments: number of parts.
        input: what the first function takes.
        use_reentrant: as for :func:`checkpoint`.

    Example::

        >>> m = oneflow.nn.Sequential(oneflow.nn.Linear(2, 2), oneflow.nn.ReLU())
        >>> oneflow.utils.checkpoint.checkpoint_sequential(m, 2, oneflow.ones(1, 2, requires_grad=True),
        ...     use_reentrant=False).shape
        oneflow.Size([1, 2])
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    from oneflow.nn.modules.container import Sequential

    steps: list[Any] = list(functions.children()) if isinstance(functions, Sequential) else list(functions)

    def part(chosen: Iterable[Any]) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for step in chosen:
                value = step(value)
            return value

        return run

    size = len(steps) // segments
    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(part(steps[start:end]), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return part(steps[end:])(input)
