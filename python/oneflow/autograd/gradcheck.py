"""Compare analytic gradients, of backward and of forward mode, with numeric differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.autograd import _directions as directions
from oneflow.autograd import forward_ad
from oneflow.autograd._batching import vmap
from oneflow.autograd._directions import Input, as_tuple, is_differentiable, is_stored_sparsely
from oneflow.autograd._engine import grad
from oneflow.autograd.function import Function


class GradcheckError(RuntimeError):
    """Analytic and numeric gradients differ.

    Example::

        >>> issubclass(oneflow.autograd.GradcheckError, RuntimeError)
        True
    """


@dataclass(frozen=True)
class _Options:
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_undefined_grad: bool
    check_grad_dtypes: bool
    check_batched_grad: bool
    check_batched_forward_grad: bool
    check_forward_ad: bool
    check_backward_ad: bool
    fast_mode: bool
    masked: bool
    # Whether arguments without a tangent still require a gradient in forward mode: a gradient's own check needs it.
    keeps_grad: bool = False


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
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Check the gradients of ``func`` at ``inputs`` against central differences.

    Args:
        func: takes ``inputs``, returns one or several tensors.
        inputs: tensors (those with ``requires_grad`` are checked, float64 is advised) and other values.
        eps: step of the difference.
        atol, rtol: tolerance ``|a - n| <= atol + rtol * |n|``.
        raise_exception: raise instead of returning False.
        nondet_tol: largest difference allowed between two backward runs.
        check_undefined_grad: check that gradients of zero, and in forward mode tangents of zero, give zero.
        check_grad_dtypes: check that a gradient has the dtype of its input.
        check_batched_grad: check that ``vmap`` of a backward returns what single backwards return.
        check_batched_forward_grad: the same of forward mode; needs ``check_forward_ad``.
        check_forward_ad: check tangents of :mod:`~oneflow.autograd.forward_ad` too.
        check_backward_ad: check the backward.
        fast_mode: compare one random projection of each Jacobian instead of all of its elements.
        masked: check sparse inputs by their stored elements alone, not by all of their elements.

    Returns:
        True if all gradients agree.

    Raises:
        ValueError: no input requires a gradient, or an output is sparse.
        GradcheckError: they differ; the text says where.

    Example::

        >>> x = oneflow.randn(3, dtype=oneflow.float64, requires_grad=True)
        >>> oneflow.autograd.gradcheck(lambda x: (x * x).sum(), (x,))
        True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad and check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    options = _Options(
        eps,
        atol,
        rtol,
        nondet_tol,
        check_undefined_grad,
        check_grad_dtypes,
        check_batched_grad,
        check_batched_forward_grad,
        check_forward_ad,
        check_backward_ad,
        fast_mode,
        bool(masked),
    )
    return _run(func, as_tuple(inputs), options, raise_exception)


def _run(func: Callable[..., Any], arguments: tuple[Any, ...], options: _Options, raise_exception: bool) -> bool:
    try:
        _check(func, arguments, options)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(func: Callable[..., Any], arguments: tuple[Any, ...], o: _Options) -> None:
    inputs = _checked_inputs(arguments, o)
    result = func(*arguments)
    outputs = [y for y in as_tuple(result) if isinstance(y, Tensor) and y.requires_grad]
    if any(is_stored_sparsely(y) for y in outputs):
        raise ValueError(
            "Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the output of "
            "fn for gradcheck."
        )
    numbered = [y for y in as_tuple(result) if is_differentiable(y)]
    if not outputs:
        _check_no_slope(func, arguments, inputs, o)
        return
    slopes = _Slopes(func, arguments, inputs, o)
    if o.check_backward_ad:
        _check_backward(slopes, numbered)
    if o.check_forward_ad:
        _check_forward(slopes)
        if o.check_undefined_grad:
            _check_zero_tangents(func, arguments, inputs, o)
    if o.check_batched_forward_grad:
        _check_batched_tangents(func, arguments, inputs, o)
    if not o.check_backward_ad:
        return
    if o.check_batched_grad:
        for i, output in enumerate(outputs):
            _check_batched_gradients(output, i, inputs)
    _check_zero_gradients(outputs, inputs)
    if o.check_undefined_grad:
        _check_undefined(func, arguments, inputs)


def _checked_inputs(arguments: tuple[Any, ...], o: _Options) -> list[Input]:
    found = Input.of(arguments, o.masked)
    for one in found:
        if one.x.dtype not in (oneflow.float64, oneflow.complex128):
            warnings.warn(
                f"Input #{one.place} requires gradient and is not a double precision floating point or complex. This "
                "check will likely fail if all the inputs are not of double precision floating point or complex.",
                stacklevel=4,
            )
        strided = not is_stored_sparsely(one.x)
        if strided and any(stride == 0 and size > 1 for stride, size in zip(one.x.stride(), one.x.shape, strict=True)):
            raise RuntimeError(
                f"The {one.place}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                ".contiguous on the input before passing it to gradcheck."
            )
    if not found:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    return found


class _Slopes:
    """Numeric derivatives, and the directions that they are taken along."""

    def __init__(self, func: Callable[..., Any], arguments: tuple[Any, ...], inputs: list[Input], o: _Options) -> None:
        self.func, self.arguments, self.inputs, self.o = func, arguments, inputs, o
        self.directions = [[one.anywhere()] if o.fast_mode else list(one.units()) for one in inputs]
        # [input][output], each [direction, element of the output]; nothing for an input without elements.
        self.numeric: list[list[Tensor]] = []
        for one, along in zip(inputs, self.directions, strict=True):
            rows = [directions.by_difference(func, arguments, one, d, o.eps) for d in along]
            self.numeric.append([oneflow.stack(of_output) for of_output in zip(*rows, strict=True)])


def _check_no_slope(func: Callable[..., Any], arguments: tuple[Any, ...], inputs: list[Input], o: _Options) -> None:
    """No output requires a gradient: then none may change with an input."""
    slopes = _Slopes(func, arguments, inputs, o)
    for of_input in slopes.numeric:
        for slope in of_input:
            if not oneflow.allclose(slope, oneflow.zeros_like(slope), rtol=o.rtol, atol=o.atol):
                raise GradcheckError("Numerical gradient for function expected to be zero")


def _check_backward(slopes: _Slopes, outputs: list[Tensor]) -> None:
    o, inputs = slopes.o, slopes.inputs
    has_complex = any(y.is_complex() for y in outputs)
    is_reentrant = True
    for imaginary in (True, False) if has_complex else (False,):
        part = "imaginary" if imaginary else "real"
        prefix = f"While considering the {part} part of complex outputs only, " if has_complex else ""
        for number, y in enumerate(outputs):
            if imaginary and not y.is_complex():
                continue
            for seed, weight in directions.seeds(y, not o.fast_mode, imaginary):
                rows, again = _rows(y, inputs, seed, o), _rows(y, inputs, seed, o)
                is_reentrant &= all(
                    (a - b).abs().le(o.nondet_tol).all().item() for a, b in zip(rows, again, strict=True)
                )
                for i, row in enumerate(rows):
                    if not slopes.numeric[i]:
                        continue
                    numeric = slopes.numeric[i][number]
                    wanted = (numeric.imag if imaginary else numeric.real if numeric.is_complex() else numeric) @ weight
                    analytic = (slopes.directions[i][0].double() @ row).reshape(1) if o.fast_mode else row
                    scale = _scale(slopes.directions[i], weight) if o.fast_mode else 1.0
                    if not oneflow.allclose(analytic, wanted, rtol=o.rtol, atol=o.atol * scale):
                        raise GradcheckError(
                            f"{prefix}Jacobian mismatch for output {number} with respect to input "
                            f"{i},\n{_apart(weight, o)}numerical:{wanted}\nanalytical:{analytic}\n"
                        )
    if not is_reentrant:
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
            "different values, although analytical gradient matches numerical gradient. The tolerance for "
            f"nondeterminism was {o.nondet_tol}."
        )


def _scale(along: list[Tensor], weight: Tensor) -> float:
    """By how much a projection may differ more than an element."""
    return max(float(along[0].abs().sum()) * float(weight.abs().sum()), 1.0)


def _apart(weight: Tensor, o: _Options) -> str:
    return "of a random projection\n" if o.fast_mode else f"at output element {int(weight.argmax())}\n"


def _rows(y: Tensor, inputs: list[Input], seed: Tensor, o: _Options) -> list[Tensor]:
    if not y.requires_grad:
        return [oneflow.zeros(one.numbers.numel(), dtype=oneflow.float64) for one in inputs]
    if o.check_grad_dtypes:
        found = grad(y, [one.x for one in inputs], seed, retain_graph=True, allow_unused=True)
        if any(g is not None and g.dtype != one.x.dtype for one, g in zip(inputs, found, strict=True)):
            raise GradcheckError("Gradient has dtype mismatch")
    return directions.by_backward(y, inputs, seed)


def _check_forward(slopes: _Slopes) -> None:
    o, inputs = slopes.o, slopes.inputs
    has_complex = any(one.x.is_complex() for one in inputs)
    for i, one in enumerate(inputs):
        for k, direction in enumerate(slopes.directions[i]):
            found = _forward(slopes, one, direction)
            for number, tangent in enumerate(found):
                numeric = slopes.numeric[i][number][k]
                if oneflow.allclose(tangent, numeric.to(tangent.dtype), rtol=o.rtol, atol=o.atol):
                    continue
                part = "imaginary" if k % 2 else "real"
                prefix = f"While considering the {part} part of complex inputs only, " if has_complex else ""
                raise GradcheckError(
                    f"{prefix if not o.fast_mode else ''}Jacobian computed with forward mode mismatch for output "
                    f"{number} with respect to input {i},\nnumerical:{numeric}\nanalytical:{tangent}\n"
                )


def _forward(slopes: _Slopes, one: Input, direction: Tensor) -> list[Tensor]:
    with forward_ad.dual_level():
        asked = [other.place for other in slopes.inputs]
        # The others have tangents too, of zeros: a function may read them.
        tangents = {other.place: oneflow.zeros_like(other.x) for other in slopes.inputs}
        tangents[one.place] = one.as_tangent(direction)
        given = directions.duals(slopes.arguments, tangents, asked, slopes.o.keeps_grad)
        found = directions.tangents_of(slopes.func(*given))
        return [directions.wide(oneflow.zeros_like(y) if t is None else t) for y, t in found]


def _check_zero_tangents(
    func: Callable[..., Any], arguments: tuple[Any, ...], inputs: list[Input], o: _Options
) -> None:
    """Check that a tangent of zeros has the same effect as no tangent."""
    random = {one.place: one.as_tangent(one.anywhere()) for one in inputs}
    asked = [one.place for one in inputs]
    for one in inputs:
        results = []
        for zero in ({one.place: oneflow.zeros_like(one.x)}, {}):
            others = {place: t for place, t in random.items() if place != one.place}
            with forward_ad.dual_level():
                given = directions.duals(arguments, {**others, **zero}, asked, o.keeps_grad)
                found = directions.tangents_of(func(*given))
                results.append([oneflow.zeros_like(y) if t is None else t for y, t in found])
        for a, b in zip(*results, strict=True):
            if not oneflow.allclose(a, b):
                raise GradcheckError(
                    f"Expected forward mode to treat an undefined tangent of input {one.place} as zeros, but a tangent "
                    "of zeros gives other tangents of the outputs."
                )


_BATCHED = (
    "gradcheck or gradgradcheck failed while testing batched gradient computation: a derivative under vmap was "
    "compared with single ones. check_batched_grad=False (or check_batched_forward_grad=False) leaves this check out."
)


def _check_batched_tangents(
    func: Callable[..., Any], arguments: tuple[Any, ...], inputs: list[Input], o: _Options
) -> None:
    for one in inputs:

        def push(tangent: Tensor, one: Input = one) -> tuple[Tensor, ...]:
            with forward_ad.dual_level():
                asked = [other.place for other in inputs]
                given = directions.duals(arguments, {one.place: tangent}, asked, o.keeps_grad)
                return tuple(t for _, t in directions.tangents_of(func(*given)) if t is not None)

        tangents = [oneflow.randn_like(one.x.detach()) for _ in range(2)]
        singles = [push(t) for t in tangents]
        if not singles[0]:
            continue
        try:
            batched = as_tuple(vmap(push)(oneflow.stack(tangents)))
        except RuntimeError as error:
            raise GradcheckError(f"While computing batched gradients, got: {_reason(error)}\n\n{_BATCHED}") from error
        _compare_batched(batched, singles, f"input {one.place}")


def _check_batched_gradients(output: Tensor, number: int, inputs: list[Input]) -> None:
    seeds = [oneflow.randn_like(output.detach()) for _ in range(2)]
    xs = [one.x for one in inputs]

    def pull(seed: Tensor, is_batched: bool = False) -> tuple[Tensor, ...]:
        return grad(
            output, xs, seed, retain_graph=True, allow_unused=True, materialize_grads=True, is_grads_batched=is_batched
        )

    singles = [pull(seed) for seed in seeds]
    try:
        batched = pull(oneflow.stack(seeds), True)
    except RuntimeError as error:
        raise GradcheckError(f"While computing batched gradients, got: {_reason(error)}\n\n{_BATCHED}") from error
    _compare_batched(batched, singles, f"output {number}")


def _reason(error: RuntimeError) -> str:
    """The text of an error of ``vmap``: nobody can hand gradcheck the flags that it advises for random calls."""
    if "called random operation" not in str(error):
        return str(error)
    return (
        "vmap: We do not yet support calling random operations inside of vmap. Please perform random operations "
        "outside of vmap as a workaround"
    )


def _compare_batched(batched: Sequence[Tensor], singles: Sequence[Sequence[Tensor]], where: str) -> None:
    for i, (found, *wanted) in enumerate(zip(batched, *singles, strict=True)):
        expected = oneflow.stack([w.to_dense() if is_stored_sparsely(w) else w for w in wanted])
        if not oneflow.allclose(found, expected):
            raise GradcheckError(
                f"For {where} and derivative {i}, vmap gives {found}\nand single ones give {expected}\n\n{_BATCHED}"
            )


def _check_zero_gradients(outputs: list[Tensor], inputs: list[Input]) -> None:
    """Check that a backward is linear: a gradient of zeros gives zeros, in the layout of each input."""
    zeros = [oneflow.zeros_like(y) for y in outputs]
    xs = [one.x for one in inputs]
    found: tuple[Tensor | None, ...] = grad(outputs, xs, zeros, retain_graph=True, allow_unused=True)
    for one, g in zip(inputs, found, strict=True):
        if g is None:
            continue
        if is_stored_sparsely(one.x) and g.layout == one.x.layout:
            if g.sparse_dim() != one.x.sparse_dim():
                raise GradcheckError("grad is sparse tensor, but has incorrect sparse_dim")
            if g.dense_dim() != one.x.dense_dim():
                raise GradcheckError("grad is sparse tensor, but has incorrect dense_dim")
        elif g.layout != one.x.layout and not is_stored_sparsely(one.x):
            raise GradcheckError(f"grad is incorrect layout ({g.layout} is not {one.x.layout})")
        values = g.to_dense() if is_stored_sparsely(g) else g
        if not values.eq(0).all():
            raise GradcheckError("backward not multiplied by grad_output")
        if g.dtype != one.x.dtype:
            raise GradcheckError(f"grad is incorrect type: {g.dtype} for an input of {one.x.dtype}")
        if g.shape != one.x.shape:
            raise GradcheckError(f"grad is incorrect size: {list(g.shape)} for an input of {list(one.x.shape)}")


class _Undefined(Function):
    """Returns its input unchanged, and no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> None:
        return None


def _check_undefined(func: Callable[..., Any], arguments: tuple[Any, ...], inputs: list[Input]) -> None:
    """Gradients that never arrive count as zeros, of all outputs and of each of several."""
    xs = [one.x for one in inputs]

    def outputs() -> list[Tensor]:
        return [y for y in as_tuple(func(*arguments)) if isinstance(y, Tensor) and y.requires_grad]

    n = len(outputs())
    for chosen in [range(n), *([i] for i in range(n) if n > 1)]:
        ends = [_Undefined.apply(y) if i in chosen else y for i, y in enumerate(outputs())]
        try:
            found = grad(ends, xs, [oneflow.zeros_like(y) for y in ends], allow_unused=True)
        except RuntimeError as error:
            _warn_of_undefined()
            raise GradcheckError(
                "Expected backward function to handle undefined output grads. Please look at the notes about undefined "
                "output gradients of autograd.Function."
            ) from error
        for g in found:
            if g is not None and not (g.to_dense() if is_stored_sparsely(g) else g).eq(0).all():
                _warn_of_undefined()
                raise GradcheckError(
                    "Expected all input grads to be undefined or zero when all output grads are undefined or zero."
                )


def _warn_of_undefined() -> None:
    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may "
        "break existing callers of this function. If this is true for you, you can call this function with "
        '"check_undefined_grad=False" to disable the feature',
        stacklevel=6,
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
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Check second derivatives: :func:`gradcheck` of the gradients of ``func``.

    Args:
        func, inputs, eps, atol, rtol, raise_exception, nondet_tol: as for :func:`gradcheck`.
        check_undefined_grad, check_grad_dtypes, check_batched_grad, fast_mode, masked: as for :func:`gradcheck`.
        grad_outputs: the gradients arriving at the outputs; random ones of their shapes by default.
        gen_non_contig_grad_outputs: make the random ones non-contiguous.
        check_fwd_over_rev: check tangents of the gradients, by forward mode.
        check_rev_over_rev: check gradients of the gradients.

    Example::

        >>> x = oneflow.ones(2, dtype=oneflow.float64, requires_grad=True)
        >>> oneflow.autograd.gradgradcheck(lambda t: t**3, (x,))
        True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    arguments = as_tuple(inputs)
    outputs = [y for y in as_tuple(func(*arguments)) if is_differentiable(y) and y.requires_grad]
    if grad_outputs is None:
        seeds = []
        for output in outputs:
            seed = oneflow.randn_like(output.detach().contiguous())
            if gen_non_contig_grad_outputs and output.dim():
                seed = oneflow.stack([seed, seed], -1)[..., 0]
            seeds.append(seed.requires_grad_())
    else:
        seeds = list(as_tuple(grad_outputs))
    places = [one.place for one in Input.of(arguments)]
    n_inputs = len(arguments)

    def gradients(*values: Any) -> tuple[Tensor, ...]:
        inner, given = values[:n_inputs], values[n_inputs:]
        results = [y for y in as_tuple(func(*inner)) if is_differentiable(y) and y.requires_grad]
        found = grad(results, [inner[i] for i in places], given, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    options = _Options(
        eps,
        atol,
        rtol,
        nondet_tol,
        check_undefined_grad,
        check_grad_dtypes,
        check_batched_grad,
        False,
        check_fwd_over_rev,
        check_rev_over_rev,
        fast_mode,
        masked,
        keeps_grad=True,
    )
    return _run(gradients, (*arguments, *seeds), options, raise_exception)
