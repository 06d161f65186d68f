"""Functions of local tensors as functions of DTensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from oneflow import Tensor
from oneflow.distributed.tensor._api import DTensor
from oneflow.utils import _pytree as pytree

__all__ = ["local_map"]


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Any = None,
    in_placements: Sequence[Any] | None = None,
    in_grad_placements: Sequence[Any] | None = None,
    device_mesh: Any = None,
    *,
    redistribute_inputs: bool = False,
    spmd_types: bool = False,
) -> Callable[..., Any]:
    """Return a function that gives ``func`` this rank's parts of DTensors, and makes DTensors of its results.

    Args:
        func: a function of local tensors; a decorator is returned if it is left out.
        out_placements: the placements of the result, or a tuple of them for each result, with ``None`` for what is no
            tensor.
        in_placements: those that the arguments must have, nested ones in their order, with ``None`` for what is no
            DTensor; none are checked if left out.
        in_grad_placements: those of the gradients of the parts, if they are others than the arguments have.
        device_mesh: that of the results; the first DTensor's by default.
        redistribute_inputs: bring arguments to their placements in place of an error.

    Raises:
        ValueError: an argument has other placements.
        AssertionError: the numbers of placements and of arguments or results differ, or one is for what is no tensor.

    Example::

        >>> from oneflow.distributed.tensor import Partial, Shard, distribute_tensor
        >>> from oneflow.distributed.tensor.experimental import local_map
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     x = distribute_tensor(oneflow.arange(4.0), mesh, [Shard(0)])
        ...     total = local_map(lambda part: part.sum(), [Partial()], ([Shard(0)],))
        ...     return total(x).full_tensor().item()
        >>> oneflow.testing.run_ranks(2, rank)
        [6.0, 6.0]
    """
    if spmd_types:
        raise NotImplementedError("local_map: spmd_types is not supported; the types of local tensors are not checked")
    if func is None:
        return functools.partial(
            local_map,
            out_placements=out_placements,
            in_placements=in_placements,
            in_grad_placements=in_grad_placements,
            device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten(args)
        if in_placements is not None and len(in_placements) != len(leaves):
            raise AssertionError(
                f"in_placements length {len(in_placements)} does not match the number of input args {len(leaves)}!"
            )
        mesh, local = device_mesh, []
        for i, leaf in enumerate(leaves):
            wanted = None if in_placements is None else in_placements[i]
            if _is_dtensor(leaf):
                mesh = leaf.device_mesh if mesh is None else mesh
                if in_placements is not None:
                    leaf = _placed(leaf, wanted, redistribute_inputs)
                local.append(_part(leaf, in_grad_placements, i))
                continue
            if wanted is not None and not isinstance(leaf, Tensor):
                raise AssertionError(f"Non-Tensor input {leaf} expects None placements but received {wanted}!")
            local.append(leaf)
        result = func(*pytree.tree_unflatten(local, spec), **kwargs)
        return _joined(result, out_placements, mesh) if any(map(_is_dtensor, leaves)) else result

    return call


def _is_dtensor(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.is_global


def _placed(x: Tensor, wanted: Any, redistributes: bool) -> Tensor:
    """An argument in the placements that it must have."""
    if wanted is None:
        raise AssertionError(f"DTensor input {x} expects placements but received {wanted}!")
    if x.placements == tuple(wanted):
        return x
    if not redistributes:
        raise ValueError(
            f"arg {x} in local_map has a mismatched placements: arg placements is {x.placements} but the input "
            f"placements is {tuple(wanted)}! If redistribute_inputs is wanted, set redistribute_inputs=True to "
            "local_map."
        )
    return x.redistribute(placements=tuple(wanted))


def _part(x: Tensor, in_grad_placements: Sequence[Any] | None, i: int) -> Tensor:
    if in_grad_placements is None:
        return x.to_local()
    given = in_grad_placements[i]
    if given is None:
        raise AssertionError(f"DTensor input {x} expects in grad placements but received {given}!")
    return x.to_local(grad_placements=tuple(given))


def _joined(result: Any, out_placements: Any, mesh: Any) -> Any:
    """The results as DTensors."""
    leaves, spec = pytree.tree_flatten(result)
    placements = out_placements if isinstance(out_placements, tuple) else (out_placements,)
    if len(leaves) != len(placements):
        raise AssertionError(
            "local_map requires one PlacementType be provided for each output value, received "
            f"{len(placements)} out_placements but {len(leaves)} is expected!"
        )
    made = []
    for leaf, given in zip(leaves, placements, strict=True):
        if isinstance(leaf, Tensor):
            if leaf.is_global:
                raise AssertionError(f"torch.Tensor output expected but received {type(leaf)}: {leaf}")
            made.append(DTensor.from_local(leaf, mesh, given, run_check=False))
        elif given is not None:
            raise AssertionError(f"Non-tensor output {leaf} expects None placements but received {given}!")
        else:
            made.append(leaf)
    return pytree.tree_unflatten(made, spec)
