"""backward and grad: arguments brought into one form and handed to the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow


def _initial_gradients(outputs: Sequence[Tensor], gradients: Any, owner: str) -> list[Tensor | None]:
    given = [None] * len(outputs) if gradients is None else _as_list(gradients)
    if len(given) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(given)} gradients")
    result: list[Tensor | None] = []
    for output, gradient in zip(outputs, given, strict=True):
        if gradient is not None:
            if not isinstance(gradient, Tensor):
                raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
            if gradient.shape != output.shape:
                raise RuntimeError(
                    f"Mismatch in shape: {owner} has a shape of {gradient.shape} and output has a shape of "
                    f"{output.shape}."
                )
        elif output.requires_grad:
            if output.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            gradient = oneflow.ones_like(output)
        result.append(gradient)
    return result


def _as_list(value: Any) -> list[Any]:
    return [value] if isinstance(value, Tensor) or value is None else list(value)


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
    """
    outputs = _as_list(tensors)
    gradients = _initial_gradients(outputs, grad_variables if grad_tensors is None else grad_tensors, "grad_output")
    if retain_graph is None:
        retain_graph = create_graph
    targets = None if inputs is None else _as_list(inputs)
    if targets is not None and not targets:
        raise RuntimeError("`inputs` argument to `backward` cannot be empty.")
    _oneflow._run_backward(outputs, gradients, retain_graph, create_graph, targets, False, True)


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
        materialize_grads: zeros instead of that None.

    Example::

        >>> x = oneflow.tensor(3.0, requires_grad=True)
        >>> oneflow.autograd.grad(x * x, x)
        (tensor(6.),)
    """
    if is_grads_batched:
        raise NotImplementedError("autograd.grad: is_grads_batched=True is not implemented")
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: False.")
    output_list, input_list = _as_list(outputs), _as_list(inputs)
    gradients = _initial_gradients(output_list, grad_outputs, "grad_output")
    if retain_graph is None:
        retain_graph = create_graph
    result = _oneflow._run_backward(
        output_list, gradients, retain_graph, create_graph, input_list, bool(allow_unused) or materialize_grads, False
    )
    if materialize_grads:
        result = [oneflow.zeros_like(x) if g is None else g for x, g in zip(input_list, result, strict=True)]
    return tuple(result)
