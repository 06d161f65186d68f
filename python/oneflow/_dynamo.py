"""The private names of PyTorch's compiler that scripts use, over :mod:`oneflow.compiler`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, TypeVar

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

# Kept and read back; nothing here reads them.
config: Any = SimpleNamespace(
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
)


def allow_in_graph(fn: T) -> T:
    """Return ``fn`` itself: a trace holds what its ops do."""
    return fn


def graph_break() -> None:
    """Do nothing: a trace is one program, or the function runs eagerly."""


def mark_dynamic(t: Any, index: Any, **_: Any) -> None:
    """Accepted: each size is compiled on its own."""


maybe_mark_dynamic = mark_static = mark_dynamic
