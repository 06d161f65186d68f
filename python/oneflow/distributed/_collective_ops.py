"""``ops._c10d_functional``: the functional collectives as ops, which tables of classes and modes name."""

from __future__ import annotations

from typing import Any

from oneflow import Tensor, _ops
from oneflow.distributed import _functional_collectives as functional

_NAMESPACE = "_c10d_functional"


def _group(group_name: Any) -> Any:
    """A group by its name, or itself."""
    if not isinstance(group_name, str):
        return group_name
    if group_name in ("", "world"):
        return None
    raise ValueError(f"{_NAMESPACE}: the group {group_name!r} cannot be found by its name; pass the group itself")


def _all_gather_into_tensor(input: Tensor, group_size: int, group_name: Any) -> Tensor:
    return functional.all_gather_tensor(input, 0, _group(group_name))


def _all_reduce(input: Tensor, reduce_op: str, group_name: Any) -> Tensor:
    return functional.all_reduce(input, reduce_op, _group(group_name))


def _all_reduce_(input: Tensor, reduce_op: str, group_name: Any) -> Tensor:
    return input.copy_(_all_reduce(input, reduce_op, group_name))


def _all_to_all_single(
    input: Tensor, output_split_sizes: list[int] | None, input_split_sizes: list[int] | None, group_name: Any
) -> Tensor:
    return functional.all_to_all_single(input, output_split_sizes, input_split_sizes, _group(group_name))


def _broadcast(input: Tensor, src: int, group_name: Any) -> Tensor:
    return functional.broadcast(input, src, _group(group_name))


def _reduce_scatter_tensor(input: Tensor, reduce_op: str, group_size: int, group_name: Any) -> Tensor:
    return functional.reduce_scatter_tensor(input, reduce_op, 0, _group(group_name))


for _kernel in (
    _all_gather_into_tensor,
    _all_reduce,
    _all_reduce_,
    _all_to_all_single,
    _broadcast,
    _reduce_scatter_tensor,
    functional.wait_tensor,
):
    _name = _kernel.__name__.removeprefix("_")
    _ops.define(f"{_NAMESPACE}::{_name}").kernels[""] = _kernel
    # The older namespace, and PyTorch's collectives of lists, name operations. Calling one raises: there is no kernel.
    _ops.define(f"c10d_functional::{_name}")
for _name in ("allgather_", "allreduce_", "broadcast_", "gather_", "reduce_scatter_", "scatter_"):
    _ops.define(f"c10d::{_name}")
