"""backward and grad: arguments brought into one form and handed to the engine."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow, overrides
from oneflow._base import conventions
from oneflow.autograd._batching import vmap
from oneflow.autograd.graph import GradientEdge


def _initial_gradients(outputs: Sequence[Any], gradients: Any) -> list[Tensor | None]:
    given = [None] * len(outputs) if gradients is None else _as_list(gradients)
    if len(given) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(given)} gradients")
    result: list[Tensor | None] = []
    for i, (output, gradient) in enumerate(zip(outputs, given, strict=True)):
        if isinstance(output, GradientEdge):
            result.append(gradient)
            continue
        if gradient is not None:
            if not isinstance(gradient, Tensor):
                raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
            if gradient.shape != output.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{i}] has a shape of {gradient.shape} and output[{i}] has a shape "
                    f"of {output.shape}."
                )
        elif output.requires_grad:
            if output.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if output.is_complex() and not conventions.are_oneflows():
                raise RuntimeError(
                    f"grad can be implicitly created only for real scalar outputs but got {output.dtype} "
                    + conventions.HINT
                )
            gradient = oneflow.ones_like(output)
        result.append(gradient)
    return result


def _as_list(value: Any) -> list[Any]:
    return [value] if isinstance(value, (Tensor, GradientEdge)) or value is None else list(value)


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Accumulate the gradient of ``tensors`` into ``.grad`` of the leaves.

    Args:
        tensors: what to differentiate.
        grad_tensors: the gradient arriving at each, of its shape; may be None for one-element tensors.
        retain_graph: keep what was saved, so that backward can run again; defaults to ``create_graph``.
        create_graph: record backward itself, for higher derivatives.
        inputs: accumulate into these only.

    Raises:
        RuntimeError: nothing requires a gradient, shapes differ, or what was saved is gone.

    Example::

        >>> x = oneflow.ones(2, requires_grad=True)
        >>> oneflow.autograd.backward((x * 3).sum())
        >>> x.grad
        tensor([3., 3.])
    """
    outputs = _as_list(tensors)
    if create_graph:
        _warn_of_cycle()
    gradients = _initial_gradients(outputs, grad_variables if grad_tensors is None else grad_tensors)
    if retain_graph is None:
        retain_graph = create_graph
    targets = None if inputs is None else _as_list(inputs)
    if targets is not None and not targets:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    _oneflow._run_backward(outputs, gradients, retain_graph, create_graph, targets, False, True)


_warned_of_cycle = False


def _warn_of_cycle(stacklevel: int = 3) -> None:
    """Once, unless warnings are always wanted. ``Tensor.backward`` calls it as well."""
    global _warned_of_cycle
    if _warned_of_cycle and not oneflow.is_warn_always_enabled():
        return
    _warned_of_cycle = True
    warnings.warn(
        "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient "
        "which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you "
        "have to use this function, make sure to reset the .grad fields of your parameters to None after use to break "
        "the cycle and avoid the leak.",
        stacklevel=stacklevel,
    )


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """Return the gradients of ``outputs`` with respect to ``inputs``; ``.grad`` stays untouched.

    Args:
        outputs: what to differentiate.
        inputs: tensors, leaves or not.
        grad_outputs: the gradient arriving at each output, of its shape; may be None for one-element tensors.
        retain_graph: keep what was saved; defaults to ``create_graph``.
        create_graph: record backward itself, for higher derivatives.
        allow_unused: None instead of an error for an input that the outputs do not depend on.
        is_grads_batched: ``grad_outputs`` have one more, leading dimension; one backward runs for all entries of it.
        materialize_grads: zeros instead of that None.

    Example::

        >>> x = oneflow.tensor(3.0, requires_grad=True)
        >>> oneflow.autograd.grad(x * x, x)
        (tensor(6.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    output_list, input_list = _as_list(outputs), _as_list(inputs)
    if overrides._C._has_torch_function(*output_list, *input_list):
        return overrides.handle_torch_function(
            grad,
            (*output_list, *input_list),
            outputs,
            inputs,
            grad_outputs=grad_outputs,
            retain_graph=retain_graph,
            create_graph=create_graph,
            only_inputs=only_inputs,
            allow_unused=allow_unused,
            is_grads_batched=is_grads_batched,
            materialize_grads=materialize_grads,
        )
    if is_grads_batched:
        return _batched(output_list, input_list, _as_list(grad_outputs), create_graph, allow_unused, materialize_grads)
    gradients = _initial_gradients(output_list, grad_outputs)
    if retain_graph is None:
        retain_graph = create_graph
    result = _oneflow._run_backward(
        output_list, gradients, retain_graph, create_graph, input_list, bool(allow_unused) or materialize_grads, False
    )
    if materialize_grads:
        if any(g is None and isinstance(x, GradientEdge) for x, g in zip(input_list, result, strict=True)):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
        result = [
            oneflow.zeros_like(x, requires_grad=create_graph) if g is None else g
            for x, g in zip(input_list, result, strict=True)
        ]
    return tuple(result)


def _batched(
    outputs: list[Any], inputs: list[Any], gradients: list[Any], create_graph: bool, *options: Any
) -> tuple[Any, ...]:
    """Gradients for each entry of the first dimension of ``gradients``, along a first dimension."""
    for i, (output, gradient) in enumerate(zip(outputs, gradients, strict=True)):
        if gradient is not None and gradient.shape[1:] != output.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                f"dimension. The other sizes must be those of the output, but grad_output[{i}] has a shape of "
                f"{gradient.shape} and output[{i}] has a shape of {output.shape}."
            )
    allow_unused, materialize_grads = options
    for i, (output, given) in enumerate(zip(outputs, gradients, strict=False)):
        if isinstance(output, Tensor) and isinstance(given, Tensor) and given.shape[1:] != output.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{i}] has a shape of {given.shape} and output[{i}] "
                f"has a shape of {output.shape}. If you only want some tensors in `grad_output` to be considered "
                "batched, consider using vmap."
            )
    unused: list[int] = []

    def pull(*grads: Any) -> list[Any]:
        found = grad(
            outputs,
            inputs,
            [next(given) if g is not None else None for given in [iter(grads)] for g in gradients],
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=allow_unused,
            materialize_grads=materialize_grads,
        )
        unused.extend(i for i, g in enumerate(found) if g is None)
        return [g for g in found if g is not None]

    rows = iter(vmap(pull, randomness="same")(*[g for g in gradients if g is not None]))
    return tuple(None if i in unused else next(rows) for i in range(len(inputs)))
