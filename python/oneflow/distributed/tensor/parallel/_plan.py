"""Applying styles to the submodules that a plan names."""

from __future__ import annotations

import warnings
from fnmatch import fnmatch

from oneflow.distributed.device_mesh import DeviceMesh, current_mesh
from oneflow.distributed.tensor.parallel._styles import ParallelStyle
from oneflow.nn import Module

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Split a module, or those below it that a plan names, over a mesh of one dimension.

    Args:
        device_mesh: the mesh whose ``with`` block this is, if left out; ``mesh["tp"]`` of a larger one.
        parallelize_plan: a style for the module, or styles by the names of submodules, in which ``*`` stands for
            anything between two dots.
        src_data_rank: see :func:`oneflow.distributed.tensor.distribute_tensor`.

    Raises:
        ValueError: the mesh has several dimensions.
        TypeError: the plan is something else.

    Example::

        >>> from oneflow.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
        ...     parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        ...     return model(oneflow.ones(1, 4)).shape, model[0].weight.to_local().shape
        >>> oneflow.testing.run_ranks(2, rank)[0]
        (oneflow.Size([1, 4]), oneflow.Size([4, 4]))
    """
    mesh = device_mesh or current_mesh()
    if mesh is None:
        raise ValueError("parallelize_module: no device_mesh is given, and this is no `with device_mesh` block")
    if mesh.ndim != 1:
        raise ValueError(
            f"Tensor Parallel only accepts a 1D DeviceMesh, but found {mesh.ndim}D! "
            'If you have a 2-D or N-D device_mesh, consider passing in device_mesh["tp"]'
        )
    if parallelize_plan is None:
        warnings.warn("No parallelize_plan is provided and auto-parallel is not supported.", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        if path == "":
            parallelize_module(module, mesh, style, src_data_rank=src_data_rank)
            continue
        found = _named(module, path.split("."))
        if not found:
            warnings.warn(
                f"Parallelize plan key '{path}' could not be resolved: no submodule is called so.", stacklevel=2
            )
        for sub in found:
            parallelize_module(sub, mesh, style, src_data_rank=src_data_rank)
    return module


def _named(module: Module, atoms: list[str]) -> list[Module]:
    """The submodules whose names match the pattern, an atom for each level."""
    found = [module]
    for atom in atoms:
        found = [child for above in found for name, child in above.named_children() if fnmatch(name, atom)]
    return found
