"""Functions of functions: gradients, Jacobians, products with them, batching, and modules as functions."""

from __future__ import annotations

from oneflow.autograd._batching import vmap
from oneflow.func._derivatives import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    value_and_grad,
    vjp,
)
from oneflow.func._modules import functional_call, replace_all_batch_norm_modules_, stack_module_state

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
]


def functionalize(func, *, remove: str = "mutations"):  # type: ignore[no-untyped-def]
    """Return ``func`` itself: traces write down values, whatever a function writes in place.

    Example::

        >>> oneflow.func.functionalize(abs)(-1)
        1
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument remove={remove}. "
            "Valid options are: remove='mutations', remove='mutations_and_views'"
        )
    return func
