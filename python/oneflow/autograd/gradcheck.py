"""Compare analytic gradients with numeric differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.autograd._engine import grad


class GradcheckError(RuntimeError):
    """Analytic and numeric gradients differ.

    Example::

        >>> issubclass(oneflow.autograd.GradcheckError, RuntimeError)
        True
    """


def _differentiable(values: Sequence[Any]) -> list[Tensor]:
    return [v for v in values if isinstance(v, Tensor) and v.requires_grad]


def _outputs(result: Any) -> list[Tensor]:
    values = [result] if isinstance(result, Tensor) else list(result)
    return [v for v in values if isinstance(v, Tensor) and v.is_floating_point()]


def _numeric(
    fn: Callable[..., Any], inputs: tuple[Any, ...], x: Tensor, n_outputs: int, eps: float
) -> list[list[list[float]]]:
    """Central differences: [output][element of x][element of output]."""
    columns: list[list[list[float]]] = [[] for _ in range(n_outputs)]
    # The same memory outside the graph: writes reach fn, and no saved tensor takes notice.
    values = x.data
    flat_index = _indices(tuple(values.shape))
    for index in flat_index:
        original = values[index].item()
        sides = []
        for step in (eps, -eps):
            values[index] = original + step
            sides.append([output.detach().clone() for output in _outputs(fn(*inputs))])
        values[index] = original
        for i in range(n_outputs):
            difference = (sides[0][i].double() - sides[1][i].double()) / (2 * eps)
            columns[i].append(difference.reshape(-1).tolist())
    return columns


def _indices(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    result: list[tuple[int, ...]] = [()]
    for size in shape:
        result = [(*index, i) for index in result for i in range(size)]
    return result


def _analytic(output: Tensor, xs: list[Tensor]) -> list[list[list[float]]]:
    """[x][element of output][element of x], one backward per element of ``output``."""
    rows: list[list[list[float]]] = [[] for _ in xs]
    for index in _indices(tuple(output.shape)):
        seed = oneflow.zeros_like(output)
        seed[index] = 1.0
        gradients = grad(output, xs, seed, retain_graph=True, allow_unused=True)
        for i, (x, gradient) in enumerate(zip(xs, gradients, strict=True)):
            if gradient is not None and gradient.shape != x.shape:
                raise GradcheckError(f"gradient of input {i} has shape {gradient.shape}, the input {x.shape}")
            rows[i].append([0.0] * x.numel() if gradient is None else gradient.double().reshape(-1).tolist())
    return rows


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    **ignored: Any,
) -> bool:
    """Check the gradients of ``func`` at ``inputs`` against central differences.

    Args:
        func: takes ``inputs``, returns one or several tensors.
        inputs: tensors (those with ``requires_grad`` are checked, float64 is advised) and other values.
        eps: step of the difference.
        atol, rtol: tolerance ``|a - n| <= atol + rtol * |n|``.
        raise_exception: raise instead of returning False.
        nondet_tol: largest difference allowed between two backward runs.
        check_undefined_grad: accepted for compatibility.

    Returns:
        True if all gradients agree.

    Raises:
        ValueError: no input requires a gradient.
        GradcheckError: they differ; the text shows where.

    Example::

        >>> x = oneflow.randn(3, dtype=oneflow.float64, requires_grad=True)
        >>> oneflow.autograd.gradcheck(lambda x: (x * x).sum(), (x,))
        True
    """
    arguments = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    xs = _differentiable(arguments)
    if not xs:
        raise ValueError("gradcheck expects at least one input with requires_grad=True")
    try:
        _check(func, arguments, xs, eps, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(
    func: Callable[..., Any],
    arguments: tuple[Any, ...],
    xs: list[Tensor],
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
) -> None:
    outputs = _outputs(func(*arguments))
    analytic_all = [_analytic_checked(o, output, xs, nondet_tol) for o, output in enumerate(outputs)]
    numeric = [_numeric(func, arguments, x, len(outputs), eps) for x in xs]
    for o, output in enumerate(outputs):
        analytic = analytic_all[o]
        for i, x in enumerate(xs):
            for row in range(output.numel()):
                for column in range(x.numel()):
                    a, n = analytic[i][row][column], numeric[i][o][column][row]
                    if not (a == n or abs(a - n) <= atol + rtol * abs(n)):
                        raise GradcheckError(
                            f"Jacobian mismatch for output {o} with respect to input {i}, at output element {row} and "
                            f"input element {column}:\nnumerical: {n}\nanalytical: {a}"
                        )


def _analytic_checked(o: int, output: Tensor, xs: list[Tensor], nondet_tol: float) -> list[list[list[float]]]:
    if not output.requires_grad:
        return [[[0.0] * x.numel() for _ in range(output.numel())] for x in xs]
    analytic = _analytic(output, xs)
    if not _equal(analytic, _analytic(output, xs), nondet_tol):
        raise GradcheckError(f"backward of output {o} is not deterministic: two runs differ")
    return analytic


def _equal(a: list[list[list[float]]], b: list[list[list[float]]], tolerance: float) -> bool:
    return all(
        x == y or abs(x - y) <= tolerance or (x != x and y != y)
        for p, q in zip(a, b, strict=True)
        for r, s in zip(p, q, strict=True)
        for x, y in zip(r, s, strict=True)
    )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    **ignored: Any,
) -> bool:
    """Check second derivatives: :func:`gradcheck` of the gradients of ``func``.

    Args:
        func, inputs, eps, atol, rtol, raise_exception, nondet_tol: as for :func:`gradcheck`.
        grad_outputs: the gradients arriving at the outputs; random ones of their shapes by default.
        gen_non_contig_grad_outputs: make the random ones non-contiguous.

    Example::

        >>> x = oneflow.ones(2, dtype=oneflow.float64, requires_grad=True)
        >>> oneflow.autograd.gradgradcheck(lambda t: t**3, (x,))
        True
    """
    arguments = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = [output for output in _outputs(func(*arguments)) if output.requires_grad]
    if grad_outputs is None:
        seeds = []
        for output in outputs:
            seed = oneflow.randn_like(output)
            if gen_non_contig_grad_outputs and output.dim():
                seed = oneflow.stack([seed, seed], -1)[..., 0]
            seeds.append(seed.detach().requires_grad_())
    else:
        seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    n_inputs = len(arguments)

    def gradients(*values: Any) -> tuple[Tensor, ...]:
        inner, given = values[:n_inputs], values[n_inputs:]
        results = [output for output in _outputs(func(*inner)) if output.requires_grad]
        found = grad(results, _differentiable(inner), given, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        (*arguments, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
    )
