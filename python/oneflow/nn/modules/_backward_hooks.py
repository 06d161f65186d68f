"""Full backward hooks of a Module: identity nodes around its inputs and outputs that report their gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from oneflow import Tensor
from oneflow.autograd import Function

Gradients = tuple[Any, ...]


class BackwardHooks:
    """One forward call's watch over the gradients of a module's inputs and outputs.

    Args:
        module: handed to every hook.
        hooks: called with (module, grad_input, grad_output); a result that is not None replaces grad_input.
        pre_hooks: called with (module, grad_output); a result that is not None replaces grad_output.
    """

    def __init__(self, module: Any, hooks: list[Callable[..., Any]], pre_hooks: list[Callable[..., Any]]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_output: Gradients | None = None
        self.n_inputs = 0
        self.input_places: list[int] | None = None
        self.output_places: list[int] = []
        self.n_outputs = 0

    def setup_input(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return ``args`` with every tensor that wants a gradient passed through an identity node."""
        self.n_inputs = len(args)
        places, gated = _gate(self._on_input_gradients, args)
        if places:
            self.input_places = places
        return gated

    def setup_output(self, result: Any) -> Any:
        """Return ``result`` (a tensor or a flat tuple or list of them) passed through an identity node."""
        is_tensor = isinstance(result, Tensor)
        values = (result,) if is_tensor else result
        if not isinstance(values, (tuple, list)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result)}",
                stacklevel=3,
            )
            return result
        self.n_outputs = len(values)
        self.output_places, gated = _gate(self._on_output_gradients, tuple(values))
        if is_tensor:
            return gated[0]
        return type(values)(gated) if type(values) in (tuple, list) else type(values)(*gated)

    def _on_output_gradients(self, gradients: Gradients) -> Gradients:
        full = _spread(gradients, self.output_places, self.n_outputs)
        for hook in self.pre_hooks:
            replaced = hook(self.module, full)
            if replaced is not None:
                full = _checked(replaced, len(full), "pre hook", "grad_output")
        self.grad_output = full
        if self.input_places is None:
            # No input wants a gradient, so nothing further down will report.
            if self.hooks:
                warnings.warn(
                    "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                    "inputs require gradients.",
                    stacklevel=2,
                )
            self._run_hooks((None,) * self.n_inputs)
        return tuple(full[i] for i in self.output_places)

    def _on_input_gradients(self, gradients: Gradients) -> Gradients:
        if self.grad_output is None:
            # The gradient came by another way than through the module's output: that of a second derivative.
            return gradients
        places = self.input_places or []
        full = self._run_hooks(_spread(gradients, places, self.n_inputs))
        return tuple(full[i] for i in places)

    def _run_hooks(self, grad_input: Gradients) -> Gradients:
        for hook in self.hooks:
            replaced = hook(self.module, grad_input, self.grad_output)
            if replaced is not None:
                replaced = _checked(replaced, len(grad_input), "hook", "grad_input")
                if self.input_places is None and any(gradient is not None for gradient in replaced):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always return None or None "
                        "for all gradients."
                    )
                grad_input = replaced
        self.grad_output = None
        return grad_input


class BackwardHookFunction(Function):
    """Identity on tensors; backward passes the gradients through ``report``. Errors of writes in place name it."""

    @staticmethod
    def forward(ctx: Any, report: Callable[[Gradients], Gradients], *tensors: Tensor) -> Any:
        ctx.report = report
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *ctx.report(gradients))


def _gate(report: Callable[[Gradients], Gradients], values: tuple[Any, ...]) -> tuple[list[int], tuple[Any, ...]]:
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad]
    if not places:
        return places, values
    passed = BackwardHookFunction.apply(report, *(values[i] for i in places))
    gated = list(values)
    for i, tensor in zip(places, passed, strict=True):
        gated[i] = tensor
    return places, tuple(gated)


def _spread(gradients: Gradients, places: list[int], n: int) -> Gradients:
    full: list[Any] = [None] * n
    for i, gradient in zip(places, gradients, strict=True):
        full[i] = gradient
    return tuple(full)


def _checked(replaced: Any, n: int, kind: str, name: str) -> Gradients:
    gradients = replaced if isinstance(replaced, tuple) else (replaced,)
    if len(gradients) != n:
        raise RuntimeError(
            f"Backward {kind} returned an invalid number of {name}, got {len(gradients)}, but expected {n}"
        )
    return gradients
