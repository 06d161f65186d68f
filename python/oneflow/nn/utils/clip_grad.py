"""Gradient clipping. Only ops, no host reads: a traced training step holds the very same computation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.global_layouts import replicate_like
from oneflow.sbp import broadcast, sbp

#: In the trace of a graph whether gradients of further micro-batches will be added. Gradients are clipped once they are
#: there: partial sums have other norms.
gradients_follow: ContextVar[bool] = ContextVar("gradients_follow", default=False)


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def _place(tensor: Tensor) -> Any:
    return tensor.placement if tensor.is_global else tensor.device


def _near(number: Tensor, tensor: Tensor) -> Tensor:
    """Return a 0-dim tensor on another's device or placement: gradients of pipeline stages have several."""
    if not tensor.is_global:
        if number.is_global:
            number = number.to_global(sbp=[broadcast] * len(number.sbp)).to_local()
        return number.to(tensor.device)
    return number if number.is_global and number.placement == tensor.placement else replicate_like(tensor, number)


@oneflow.no_grad()
def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of all ``tensors`` taken as one vector, a 0-dim tensor.

    Raises:
        RuntimeError: the norm is not finite and ``error_if_nonfinite`` is set, or some tensors are global and others
            are not.

    Example::

        >>> nn.utils.get_total_norm([oneflow.tensor([3.0]), oneflow.tensor([4.0])])
        tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return oneflow.tensor(0.0)
    places: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        places.setdefault(_place(tensor), []).append(tensor)
    if len({tensor.is_global for tensor in tensors}) > 1:
        n = sum(tensor.is_global for tensor in tensors)
        raise RuntimeError(
            f"get_total_norm: got mixed torch.Tensor and DTensor: {n} of {len(tensors)} tensors are global; make the "
            "others global too, as by distribute_tensor, or clip the two kinds in separate calls"
        )
    # One number travels from each place.
    norms = [_norm_of(group, norm_type) for group in places.values()]
    total = norms[0]
    if len(norms) > 1:
        total = _oneflow._C.vector_norm(oneflow.stack([_near(norm, tensors[0]) for norm in norms]), norm_type)
    if error_if_nonfinite and not math.isfinite(float(total.item())):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@oneflow.no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients in place by ``max_norm / total_norm`` where that is below one.

    In a graph with several micro-batches those of the last one, which are the sums.

    Example::

        >>> w = nn.Parameter(oneflow.ones(1))
        >>> (w * 4).sum().backward()
        >>> nn.utils.clip_grads_with_norm_([w], 2.0, oneflow.tensor(4.0))
        >>> w.grad
        tensor([2.0000])
    """
    if gradients_follow.get():
        return
    # Multiplying by a coefficient clamped to one avoids a branch on a device value.
    coefficient = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    places: dict[Any, list[Tensor]] = {}
    for grad in _gradients(parameters):
        places.setdefault(_place(grad), []).append(grad)
    for grads in places.values():
        near = _near(coefficient, grads[0])
        if _in_one_launch(grads):
            flag = oneflow.zeros((), dtype=oneflow.float32, device=grads[0].device)
            _oneflow._C._amp_foreach_non_finite_check_and_unscale_(grads, flag, near)
            continue
        for grad in grads:
            grad.mul_(near)


def _norm_of(tensors: list[Tensor], norm_type: float) -> Tensor:
    """Return the norm of tensors of one place."""
    if not tensors[0].is_global or norm_type <= 0 or _oneflow._is_tracing():
        return _oneflow._C.vector_norm(_norms(tensors, norm_type), norm_type)
    # Norms of shards are reduced together: once for all tensors that the same axes split.
    kinds: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        axes = tuple(s if s.dim is None else None for s in tensor.sbp)
        kinds.setdefault((axes, tensor.dtype), []).append(tensor)
    norms = [_norm_of_shards(group, norm_type) for group in kinds.values()]
    return norms[0] if len(norms) == 1 else _oneflow._C.vector_norm(oneflow.stack(norms), norm_type)


def _norm_of_shards(tensors: list[Tensor], norm_type: float) -> Tensor:
    """Return the norm of global tensors that the same axes split, with one reduction along each of these."""
    layout, placement = list(tensors[0].sbp), tensors[0].placement
    if not any(s.dim is not None for s in layout) or any(s.dim is None and s != broadcast for s in layout):
        return _oneflow._C.vector_norm(_norms(tensors, norm_type), norm_type)
    shards = [_oneflow._C._shard(tensor, placement, list(tensor.sbp), False) for tensor in tensors]
    shards = [shard for shard in shards if shard.numel()]
    dtype = oneflow.float64 if tensors[0].dtype == oneflow.float64 else oneflow.float32
    here = oneflow.zeros((), dtype=dtype, device=placement.type)
    if shards:
        here = _oneflow._C.vector_norm(_norms(shards, norm_type), norm_type).to(dtype)
    is_max = math.isinf(norm_type)
    term = [broadcast if s.dim is None else sbp("P(max)" if is_max else "P") for s in layout]
    terms = _oneflow._C._assemble(here if is_max else here.pow(norm_type), placement, term, [])
    whole = terms.to_global(placement, [broadcast] * len(layout))
    return (whole if is_max else whole.pow(1 / norm_type)).to(tensors[0].dtype)


def _norms(tensors: list[Tensor], norm_type: float) -> Tensor:
    """Return the norm of each tensor, all in one vector."""
    if _in_one_launch(tensors) and len({tensor.dtype for tensor in tensors}) == 1:
        return _oneflow._C._stacked_norms(tensors, norm_type)
    return oneflow.stack([_oneflow._C.vector_norm(tensor, norm_type) for tensor in tensors])


def _in_one_launch(grads: list[Tensor]) -> bool:
    """Return whether one kernel takes all of them: on a GPU, where a launch each costs more."""
    plain = all(grad.is_cuda and grad.is_floating_point() and not (grad.is_global or grad.is_sparse) for grad in grads)
    alone = len({grad.data_ptr() for grad in grads}) == len(grads)
    return plain and alone and len(grads) > 1 and not _oneflow._is_tracing()


@oneflow.no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of ``parameters`` in place so that their total norm is at most ``max_norm``.

    In a graph with several micro-batches the sums of their gradients are scaled, once all are there; the result for
    each micro-batch before the last is nan.

    Args:
        parameters: one tensor or several; those without gradient are skipped.
        max_norm: the largest norm allowed.
        norm_type: order of the norm, ``inf`` for the largest element.
        error_if_nonfinite: raise when the norm is nan or infinite.
        foreach: accepted for compatibility; there is one path.

    Returns:
        the norm before clipping, 0-dim.

    Example::

        >>> norm = oneflow.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if gradients_follow.get() and (grads := _gradients(parameters)):
        # No norm is asked for, which would reduce gradients of each micro-batch.
        unknown = oneflow.tensor(math.nan, dtype=grads[0].dtype, device=None if grads[0].is_global else grads[0].device)
        return _near(unknown, grads[0])
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


@oneflow.no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clamp every gradient element of ``parameters`` to [-clip_value, clip_value], in place.

    In a graph with several micro-batches those of the last one, which are the sums.

    Example::

        >>> w = nn.Parameter(oneflow.ones(2))
        >>> (w * oneflow.tensor([0.1, 5.0])).sum().backward()
        >>> nn.utils.clip_grad_value_([w], 1.0)
        >>> w.grad
        tensor([0.1000, 1.0000])
    """
    if gradients_follow.get():
        return
    bound = float(clip_value)
    for grad in _gradients(parameters):
        grad.clamp_(min=-bound, max=bound)


clip_grad_norm = clip_grad_norm_
