"""Jacobians, Hessians and their products with vectors, by repeated backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.autograd._engine import grad
from oneflow.overrides import DisableTorchFunctionSubclass

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Tensor, ...]


def _as_tuple(value: Any, what: str, function: str) -> tuple[bool, Tensors]:
    """Return whether ``value`` was a tuple, and it as one."""
    is_tuple = isinstance(value, (tuple, list))
    items = tuple(value) if is_tuple else (value,)
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            where = f"Value at index {i} of the {what}" if is_tuple else f"The {what}"
            raise TypeError(
                f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but the given "
                f"{what} has type {type(item)}. {where} is no Tensor."
            )
    return is_tuple, items


def _outputs(value: Any, what: str, function: str) -> tuple[bool, Tensors]:
    is_tuple = isinstance(value, tuple)
    items = value if is_tuple else (value,)
    for item in items:
        if not isinstance(item, Tensor):
            raise TypeError(
                f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but the given "
                f"{what} has type {type(item)}."
            )
    return is_tuple, items


def _prepared(inputs: Tensors, create_graph: bool) -> Tensors:
    """Return fresh inputs: with their history if a graph is wanted, else as new leaves."""
    if create_graph:
        return tuple(x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in inputs)
    return tuple(x.detach().requires_grad_() for x in inputs)


def _finished(values: Any, create_graph: bool) -> Any:
    if isinstance(values, tuple):
        return tuple(_finished(v, create_graph) for v in values)
    return values if create_graph else values.detach()


def _unpacked(values: Tensors, is_tuple: bool) -> Any:
    return values if is_tuple else values[0]


def _check_depends(outputs: Tensors, strict: bool, what: str) -> None:
    if not strict:
        return
    for i, output in enumerate(outputs):
        if not output.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The outputs must be computed "
                f"in a differentiable manner from the input when running in strict mode ({what})."
            )


def _check_bends(gradients: Tensors, strict: bool, what: str) -> None:
    """A gradient that depends on no input has no derivative to speak of."""
    if not strict:
        return
    for i, gradient in enumerate(gradients):
        if not gradient.requires_grad:
            raise RuntimeError(
                f"{what}(): the jacobian of the user-provided function with respect to input {i} is independent of the "
                "input. This is not allowed in strict mode: the function must be twice differentiable, and its "
                "jacobian must depend on the inputs, as that of a linear function does not."
            )


# The names of independent outputs in strict mode's errors, by what is differentiated.
_OUTPUT = "output of the user-provided function is independent of input"
_JACOBIAN = "jacobian of the user-provided function is independent of input"
_OF_ONE = "jacobian of the user-provided function with respect to input"
_TRICK = "gradient of the user-provided function is independent of its grad_output; entry"


def _grad(
    outputs: Tensors,
    inputs: Tensors,
    grads: Any,
    create_graph: bool,
    strict: bool,
    what: str,
    retain: bool = True,
    of: str = _OUTPUT,
    final: bool = False,
) -> Tensors:
    """Gradients with zeros for what was not reached; an error instead with ``strict``.

    ``final`` gradients are results: in strict mode they must be differentiable where a graph is wanted.
    """
    used = [(o, None if grads is None else grads[i]) for i, o in enumerate(outputs) if o.requires_grad]
    found: Any = [None] * len(inputs)
    if used:
        found = grad(
            [o for o, _ in used],
            inputs,
            None if grads is None else [g for _, g in used],
            allow_unused=True,
            create_graph=create_graph,
            retain_graph=retain or create_graph,
        )
    result = []
    for i, (x, g) in enumerate(zip(inputs, found, strict=True)):
        if g is None:
            if strict:
                missing = f"{of} {i}" + (" is independent of it" if of == _OF_ONE else "")
                raise RuntimeError(f"{what}(): The {missing}. This is not allowed in strict mode.")
            g = oneflow.zeros_like(x)
        elif strict and final and create_graph and not g.requires_grad:
            derivative = _JACOBIAN if what in ("vjp", "jacobian") else _JACOBIAN.replace("jacobian", "hessian")
            raise RuntimeError(
                f"{what}(): The {derivative} {i}. This is not allowed in strict mode when create_graph=True."
            )
        result.append(g)
    return tuple(result)


def _vectors(v: Any, like: Tensors, is_tuple: bool, function: str) -> Tensors:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single Tensor with a single "
                "element."
                if function in ("vjp", "vhp")
                else "The vector v can only be None if the input to the user-provided function is a single Tensor "
                "with a single element."
            )
        return (oneflow.ones_like(like[0]),)
    _, vectors = _as_tuple(v, "v", function)
    if len(vectors) != len(like):
        if not is_tuple:
            raise RuntimeError("The given v should contain a single Tensor.")
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}.")
    for i, (a, b) in enumerate(zip(vectors, like, strict=True)):
        if a.shape != b.shape:
            where = f"Entry {i} in v" if is_tuple else "v"
            raise RuntimeError(f"{where} has invalid size: should be {b.shape} but got {a.shape}.")
    return tuple(a.detach() if not a.requires_grad else a for a in vectors)


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return ``func(*inputs)`` and the product of ``v`` with the Jacobian of ``func`` at ``inputs``.

    Args:
        func: takes Tensors, returns a Tensor or a tuple of Tensors.
        inputs: a Tensor or a tuple of Tensors.
        v: of the shapes of the output; may be left out for one output of one element.
        create_graph: make the result differentiable.
        strict: raise where an output does not depend on an input, instead of zeros.

    Example::

        >>> oneflow.autograd.functional.vjp(lambda x: x**2, oneflow.tensor([1.0, 3.0]), oneflow.ones(2))[1]
        tensor([2., 6.])
    """
    with oneflow.enable_grad():
        many, xs = _as_tuple(inputs, "inputs", "vjp")
        xs = _prepared(xs, create_graph)
        many_out, ys = _outputs(func(*xs), "outputs of the user-provided function", "vjp")
        _check_depends(ys, strict, "vjp")
        vs = _vectors(v, ys, many_out, "vjp")
    with oneflow.set_grad_enabled(create_graph or oneflow.is_grad_enabled()):
        found = _grad(ys, xs, vs, create_graph, strict, "vjp", retain=False, final=True)
    return _finished(_unpacked(ys, many_out), create_graph), _finished(_unpacked(found, many), create_graph)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return ``func(*inputs)`` and the product of the Jacobian of ``func`` at ``inputs`` with ``v``.

    Computed by differentiating a backward. Arguments as for :func:`vjp`; ``v`` has the shapes of the inputs.

    Example::

        >>> oneflow.autograd.functional.jvp(lambda x: x**2, oneflow.tensor([1.0, 3.0]), oneflow.ones(2))[1]
        tensor([2., 6.])
    """
    with oneflow.enable_grad():
        many, xs = _as_tuple(inputs, "inputs", "jvp")
        xs = _prepared(xs, create_graph)
        vs = _vectors(v, xs, many, "jvp")
        many_out, ys = _outputs(func(*xs), "outputs of the user-provided function", "jvp")
        _check_depends(ys, strict, "jvp")
        us = tuple(oneflow.zeros_like(y, requires_grad=True) for y in ys)
        products = _grad(ys, xs, us, True, strict, "jvp")
    with oneflow.enable_grad():
        found = _grad(products, us, vs, create_graph, strict, "jvp", retain=False, of=_TRICK)
        if create_graph:
            for i, tangent in enumerate(found if strict else ()):
                if not tangent.requires_grad:
                    raise RuntimeError(
                        f"jvp(): The {_JACOBIAN} {i}. This is not allowed in strict mode when create_graph=True."
                    )
    return _finished(_unpacked(ys, many_out), create_graph), _finished(_unpacked(found, many_out), create_graph)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian of ``func`` at ``inputs``, of shape ``output.shape + input.shape``.

    Args:
        func: takes Tensors, returns a Tensor or a tuple of Tensors.
        inputs: a Tensor or a tuple of Tensors.
        create_graph: make the result differentiable.
        strict: raise where an output does not depend on an input, instead of zeros.
        vectorize: run one backward for all elements of an output, instead of one for each.
        strategy: "reverse-mode"; "forward-mode" computes the same, with ``vectorize`` alone.

    Returns:
        a tensor; nested in tuples, outputs outermost, where there are several outputs or inputs.

    Example::

        >>> oneflow.autograd.functional.jacobian(lambda x: x**2, oneflow.tensor([1.0, 3.0]))
        tensor([[2., 0.],
                [0., 6.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(f'Expected strategy to be either "forward-mode" or "reverse-mode", got {strategy}.')
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                "torch.autograd.functional.jacobian: `create_graph=True` and `strategy='forward-mode'` are not "
                "supported together (yet)."
            )
        if not vectorize:
            raise NotImplementedError(
                "strategy='forward-mode' is only implemented with vectorize=True: use vectorize=True or reverse mode"
            )
    with oneflow.enable_grad():
        many, xs = _as_tuple(inputs, "inputs", "jacobian")
        xs = _prepared(xs, create_graph)
        many_out, ys = _outputs(func(*xs), "outputs of the user-provided function", "jacobian")
        _check_depends(ys, strict, "jacobian")
        if vectorize and strict:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorize=True` are not supported together. "
                "Please either set `strict=False` or `vectorize=False`."
            )
        rows = []
        for y in ys:
            if vectorize and y.numel():
                rows.append(_all_at_once(y, xs, create_graph))
                continue
            columns: list[list[Tensor]] = [[] for _ in xs]
            flat = y.reshape(-1)
            of = f"Output {len(rows)} of the user-provided function is independent of input"
            for j in range(flat.numel()):
                found = _grad((flat[j],), xs, None, create_graph, strict, "jacobian", of=of, final=True)
                for column, g in zip(columns, found, strict=True):
                    column.append(g)
            rows.append(
                tuple(
                    oneflow.stack(column).reshape((*y.shape, *x.shape)) if column else x.new_zeros((*y.shape, *x.shape))
                    for column, x in zip(columns, xs, strict=True)
                )
            )
    finished = tuple(_unpacked(_finished(row, create_graph), many) for row in rows)
    return finished if many_out else finished[0]


def _all_at_once(y: Tensor, xs: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    """The Jacobian of one output by each input, of one backward for all of its elements."""
    if not y.requires_grad:
        return tuple(x.new_zeros((*y.shape, *x.shape)) for x in xs)
    units = oneflow.eye(y.numel(), dtype=y.dtype, device=y.device).reshape(y.numel(), *y.shape)
    # Gradients that no class made are plain tensors, as these units are.
    with DisableTorchFunctionSubclass():
        found = oneflow.autograd.grad(
            y, xs, units, retain_graph=True, create_graph=create_graph, is_grads_batched=True, materialize_grads=True
        )
    return tuple(g.reshape((*y.shape, *x.shape)) for g, x in zip(found, xs, strict=True))


def _scalar(func: Callable[..., Any], name: str) -> Callable[..., Tensor]:
    def checked(*xs: Tensor) -> Tensor:
        result = func(*xs)
        is_tuple, values = _outputs(result, "outputs of the user-provided function", name)
        if is_tuple:
            raise RuntimeError(f"The function given to {name} should return a single Tensor")
        if values[0].numel() != 1:
            raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
        return values[0].squeeze()

    return checked


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the Hessian of ``func``, which returns one element, at ``inputs``: ``input.shape + input.shape``.

    Arguments as for :func:`jacobian`. With several inputs a tuple of tuples: entry [i][j] is the derivative by input i
    and then by input j.

    Example::

        >>> oneflow.autograd.functional.hessian(lambda x: (x**3).sum(), oneflow.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    many, xs = _as_tuple(inputs, "inputs", "hessian")
    scalar = _scalar(func, "hessian")

    def gradient(*given: Tensor) -> Any:
        y = scalar(*given)
        _check_depends((y,), strict, "hessian")
        found = _grad((y,), given, None, True, strict, "hessian", of=_OF_ONE)
        _check_bends(found, strict, "hessian")
        return found

    found = jacobian(gradient, xs, create_graph=create_graph, strict=strict, vectorize=vectorize)
    return found if many else found[0][0]


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return ``func(*inputs)`` and the product of ``v`` with the Hessian of ``func``; arguments as for :func:`vjp`.

    Example::

        >>> oneflow.autograd.functional.vhp(lambda x: (x**3).sum(), oneflow.tensor([1.0, 2.0]), oneflow.ones(2))[1]
        tensor([ 6., 12.])
    """
    with oneflow.enable_grad():
        many, xs = _as_tuple(inputs, "inputs", "vhp")
        xs = _prepared(xs, create_graph)
        vs = _vectors(v, xs, many, "vhp")
        y = _scalar(func, "vhp")(*xs)
        _check_depends((y,), strict, "vhp")
        first = _grad((y,), xs, None, True, strict, "vhp")
        _check_bends(first, strict, "vhp")
        found = _grad(first, xs, vs, create_graph, strict, "vhp", retain=False, of=_JACOBIAN, final=True)
    return _finished(y, create_graph), _finished(_unpacked(found, many), create_graph)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return ``func(*inputs)`` and the product of the Hessian of ``func`` with ``v``; arguments as for :func:`vjp`.

    Example::

        >>> oneflow.autograd.functional.hvp(lambda x: (x**3).sum(), oneflow.tensor([1.0, 2.0]), oneflow.ones(2))[1]
        tensor([ 6., 12.])
    """
    with oneflow.enable_grad():
        many, xs = _as_tuple(inputs, "inputs", "hvp")
        xs = _prepared(xs, create_graph)
        vs = _vectors(v, xs, many, "hvp")
        y = _scalar(func, "hvp")(*xs)
        _check_depends((y,), strict, "hvp")
        first = _grad((y,), xs, None, True, strict, "hvp")
        _check_bends(first, strict, "hvp")
        us = tuple(oneflow.zeros_like(x, requires_grad=True) for x in xs)
        products = _grad(first, xs, us, True, strict, "hvp", of=_JACOBIAN)
        found = _grad(products, us, vs, create_graph, strict, "hvp", retain=False, of=_TRICK, final=True)
    return _finished(y, create_graph), _finished(_unpacked(found, many), create_graph)
