"""The private names of PyTorch's compiler that scripts use, over :mod:`oneflow.compiler`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, TypeVar

from oneflow._trace import dynamic
from oneflow.compiler import OptimizedModule, disable, is_compiling, list_backends, reset

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "config",
    "disable",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "reset",
]

T = TypeVar("T")


class _Settings(SimpleNamespace):
    """Settings that are kept and read back."""

    @contextlib.contextmanager
    def patch(self, *changes: Any, **named: Any) -> Iterator[None]:
        """Change settings in a ``with`` block or in a function: a name and a value, a dictionary, or by name."""
        given = dict([changes]) if len(changes) == 2 else dict(*changes)
        before = {name: getattr(self, name) for name in {**given, **named} if hasattr(self, name)}
        vars(self).update(given, **named)
        try:
            yield
        finally:
            for name in {**given, **named}:
                vars(self).pop(name)
            vars(self).update(before)


# Nothing here reads them.
config: Any = _Settings(
    cache_size_limit=8,
    accumulated_cache_size_limit=256,
    recompile_limit=8,
    suppress_errors=False,
    verbose=False,
    capture_scalar_outputs=False,
    capture_dynamic_output_shape_ops=False,
    optimize_ddp=True,
    assume_static_by_default=True,
    automatic_dynamic_shapes=True,
    inline_inbuilt_nn_modules=True,
    skip_fwd_side_effects_in_bwd_under_checkpoint=False,
    compiled_autograd=False,
)


def allow_in_graph(fn: T) -> T:
    """Return ``fn`` itself: a trace holds what its ops do."""
    return fn


def graph_break() -> None:
    """Do nothing: a trace is one program, or the function runs eagerly."""


def mark_dynamic(
    t: Any,
    index: Any,
    *,
    hint_override: Any = None,
    min: int | None = None,
    max: int | None = None,
    specialize_on: Any = None,
) -> None:
    """Keep dimensions of a tensor open in what is compiled for it: one program serves all their sizes.

    Args:
        t: an input of a compiled function or of an ``nn.Graph``.
        index: a dimension, or a list of them. Dimensions of one size are one dimension.
        min: the smallest size.
        max: the largest size.
        hint_override: accepted.
        specialize_on: accepted.

    The first call with it raises ValueError where the program does not follow from the size.
    """
    dynamic.mark(t, index, min, max, True)


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """As :func:`mark_dynamic`; where the program does not follow from the size, each size has its own."""
    dynamic.mark(t, index, None, None, False)


def mark_static(t: Any, index: Any = None) -> None:
    """Fix the sizes of dimensions of a tensor, of all where ``index`` is None, also under ``dynamic=True``."""
    if isinstance(t, type):
        return
    dynamic.unmark(t, index)
