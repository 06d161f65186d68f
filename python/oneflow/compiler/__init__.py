"""Compilation of functions and modules under the names of torch.compile.

:func:`compile` runs Python once on traced tensors, forward and backward, and from then on two static programs, for each
kind of input. Where Python depends on data it falls back to eager execution, and says so once.
"""

from __future__ import annotations

from oneflow.compiler._compile import (
    OptimizedModule,
    compile,
    cudagraph_mark_step_begin,
    disable,
    is_compiling,
    is_dynamo_compiling,
    list_backends,
    reset,
    set_stance,
)

__all__ = [
    "OptimizedModule",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "list_backends",
    "reset",
    "set_stance",
]
