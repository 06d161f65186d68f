"""Compilation of functions and modules under the names of torch.compile.

:func:`compile` runs Python once on traced tensors, forward and backward, and from then on two static programs, for each
kind of input. Where Python depends on data it falls back to eager execution, and warns once.
"""

from __future__ import annotations

from oneflow.compiler._compile import compile, reset
from oneflow.compiler._hints import (
    allow_in_graph,
    assume_constant_result,
    is_exporting,
    nested_compile_region,
    nonstrict_trace,
    substitute_in_graph,
)
from oneflow.compiler._module import OptimizedModule
from oneflow.compiler._settings import (
    cudagraph_mark_step_begin,
    disable,
    get_default_backend,
    is_compiling,
    is_dynamo_compiling,
    list_backends,
    set_default_backend,
    set_stance,
)

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "nested_compile_region",
    "nonstrict_trace",
    "reset",
    "set_default_backend",
    "set_stance",
    "substitute_in_graph",
]
