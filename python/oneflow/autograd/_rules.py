"""Implements :meth:`Function.apply` for classes that define ``vmap`` or ``jvp`` themselves.

``vmap`` of the class is called with the tensors of all samples. ``jvp`` is linear in the tangents, so the transpose of
what it computes is the backward that tangents are read from: both directions follow from the one method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._oneflow import Function
from oneflow.autograd._batching import _broadcast, innermost
from oneflow.autograd._engine import grad
from oneflow.utils._pytree import tree_flatten, tree_unflatten


class VmapInfo(NamedTuple):
    """The batch, as passed to ``vmap`` of a class."""

    batch_size: int
    randomness: str


def batched(cls: Any, args: tuple[Any, ...]) -> Any:
    """Apply ``cls`` to tensors of a sample, by its own ``vmap``."""
    if getattr(cls, "generate_vmap_rule", False):
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overriden vmap "
            "staticmethod. Please set generate_vmap_rule=False or delete the overriden vmap staticmethod to avoid "
            "ambiguity. For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"
        )
    return by_rule(cls.vmap, f"the vmap staticmethod of {cls.__name__}", args, {})


def by_rule(rule: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a rule of a batch, ``rule(info, in_dims, *args)``, with tensors of a sample; the results are such again."""
    leaves, spec = tree_flatten(args)
    level, size, randomness = innermost([t for t in leaves if isinstance(t, Tensor)])
    inside = [isinstance(t, Tensor) and _oneflow._vmap_is_in(t, level) for t in leaves]
    every = [_oneflow._vmap_out(t, level, size) if is_in else t for t, is_in in zip(leaves, inside, strict=True)]
    in_dims = tree_unflatten([0 if is_in else None for is_in in inside], spec)
    result = rule(VmapInfo(size, randomness), in_dims, *tree_unflatten(every, spec), **kwargs)
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(
            f"Expected {name} to have two returns, an output and out_dims with pytree structure compatible with the "
            "output."
        )
    output, out_dims = result
    outputs, out_spec = tree_flatten(output)
    dims = _broadcast(out_dims, output, f"{name}: out_dims {out_dims} do not fit the output")
    samples = [
        t if dim is None or not isinstance(t, Tensor) else _oneflow._vmap_in(t, dim % t.dim(), level)
        for t, dim in zip(outputs, dims, strict=True)
    ]
    return tree_unflatten(samples, out_spec)


def with_defaults(cls: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of ``cls.forward``, with its defaults for those that are not given."""
    function = getattr(cls.forward, "__func__", cls.forward)
    defaults = getattr(function, "__defaults__", None)
    if not defaults:
        return args
    n_params = function.__code__.co_argcount - (function is not cls.forward)
    n_missing = n_params - len(args)
    return (*args, *defaults[len(defaults) - n_missing :]) if 0 < n_missing <= len(defaults) else args


def as_view(x: Tensor) -> Tensor:
    """Return a view of all of a tensor, as its class makes it."""
    return x.view_as(x)


def with_tangents(cls: Any, args: tuple[Any, ...]) -> Any:
    """Apply ``cls`` where tangents are computed: the backward is the transpose of its ``jvp``."""
    contexts: list[Any] = []
    default: Any = Function
    body: dict[str, Any] = {"jvp": default.jvp, "vjp": default.vjp, "backward": staticmethod(_transposed)}
    if cls.setup_context is default.setup_context:

        def forward(ctx: Any, *given: Any) -> Any:
            contexts.append(ctx)
            return cls.forward(ctx, *given)

        body["forward"] = staticmethod(forward)
    else:

        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            contexts.append(ctx)
            cls.setup_context(ctx, inputs, output)

        body["setup_context"] = staticmethod(setup_context)
    transposed: Any = type(cls.__name__, (cls,), body)
    # Read first: forward may write its inputs.
    directions = [_direction(x) for x in args]
    output = transposed.apply(*args)
    (ctx,) = contexts
    with oneflow.enable_grad():
        given = [_materialized(x, None if d is None else d.clone()) for x, d in zip(args, directions, strict=True)]
        ctx._in_forward_mode(True)
        try:
            found = cls.jvp(ctx, *given)
        finally:
            ctx._in_forward_mode(False)
    tangents = found if isinstance(found, tuple) else (found,)
    outputs = output if isinstance(output, tuple) else (output,)
    if len(tangents) != len(outputs):
        raise RuntimeError(
            f"Function {cls.__name__}Backward returned an incorrect number of tangents (expected {len(outputs)}, got "
            f"{len(tangents)})"
        )
    for i, (t, y) in enumerate(zip(tangents, outputs, strict=True)):
        if t is not None and t.shape != y.shape:
            raise RuntimeError(
                f"{cls.__name__}.jvp: tangent {i} has shape {list(t.shape)}, its output has shape {list(y.shape)}"
            )
        if isinstance(y, Tensor):
            _check_tangent(t, y, args, given, i)
    ctx._linear = (directions, tangents)
    return output


def _check_tangent(t: Tensor | None, y: Tensor, args: Any, given: list[Tensor | None], i: int) -> None:
    """A tangent must relate to those of the inputs as its output relates to them: written in place, or a view."""
    if not y.requires_grad:
        if t is not None:
            raise RuntimeError(
                f"A custom Function's jvp is returning a tangent for output {i}, which is not differentiable. "
                "You should return None at that position instead."
            )
        return
    for x, direction in zip(args, given, strict=True):
        if not isinstance(x, Tensor) or direction is None:
            continue
        if y is x:
            if t is not direction:
                raise RuntimeError(
                    "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                    "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
                )
            return
        if y._base is None or not (y._base is x or y._base is x._base):
            continue
        text = "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view"
        if t is None or t._base is None:
            raise RuntimeError(f"{text}.")
        if not (t._base is direction or t._base is direction._base):
            what = "of the given input's tangent" if x._base is None else "of the same base as the given tangent"
            raise RuntimeError(f"{text} {what}.")
        return


def _materialized(x: Any, direction: Tensor | None) -> Tensor | None:
    """Return the tangent of an argument for ``jvp``: zeros for a tensor without one, as backward does for gradients."""
    if direction is None and isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex()):
        return oneflow.zeros_like(x)
    return direction


def _direction(x: Any) -> Tensor | None:
    """A tangent of the input that what ``jvp`` computes is recorded from."""
    if not isinstance(x, Tensor) or not x.requires_grad:
        return None
    tangent = oneflow.autograd.forward_ad.unpack_dual(x).tangent
    return (oneflow.zeros_like(x) if tangent is None else tangent.detach().clone()).requires_grad_()


def _transposed(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    directions, tangents = ctx._linear
    pairs = [(t, g) for t, g in zip(tangents, grads, strict=True) if t is not None and t.requires_grad]
    wanted = [v for v in directions if v is not None]
    if not pairs or not wanted:
        return (None,) * len(directions)
    made = grad(
        [t for t, _ in pairs],
        wanted,
        [g for _, g in pairs],
        create_graph=True,
        retain_graph=True,
        allow_unused=True,
    )
    found = iter(made)
    return tuple(None if v is None else next(found) for v in directions)
