"""DTensor: global tensors by PyTorch's names, and functions that make them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import oneflow
from oneflow import Tensor, distributed
from oneflow.distributed.device_mesh import DeviceMesh, current_mesh
from oneflow.distributed.tensor import _layouts
from oneflow.distributed.tensor._dtensor_spec import DTensorSpec
from oneflow.distributed.tensor._sharding_order import resolve
from oneflow.distributed.tensor._utils import compute_local_shape_and_global_offset
from oneflow.distributed.tensor.placement_types import Placement, Replicate, is_partial
from oneflow.nn import Module, Parameter

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "DTensor",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "linspace",
    "logspace",
    "ones",
    "rand",
    "randn",
    "zeros",
]


class _GlobalTensors(type(Tensor)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.is_global


class DTensor(Tensor, metaclass=_GlobalTensors):
    """What PyTorch calls a global tensor: ``isinstance(x, DTensor)`` holds for every tensor with ``is_global``.

    Such tensors have the attributes ``device_mesh`` and ``placements`` and the methods ``redistribute``,
    ``full_tensor`` and ``to_local``. They are made by :func:`distribute_tensor`, :meth:`DTensor.from_local`,
    :func:`zeros` and their like, or with ``to_global``.

    Sizes that a mesh does not divide: slices are those of :func:`oneflow.chunk`, and the last ranks have less or
    nothing. Slices of global tensors on an :class:`oneflow.placement` differ by one at most; ``redistribute`` and
    ``to_global`` convert between the two.

    Example::

        >>> from oneflow.distributed.tensor import DTensor, Shard, distribute_tensor
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     x = distribute_tensor(oneflow.arange(4.0), mesh, [Shard(0)])
        ...     return isinstance(x, DTensor), x.to_local().tolist(), (x * 2).placements
        >>> oneflow.testing.run_ranks(2, rank)
        [(True, [0.0, 1.0], (Shard(dim=0),)), (True, [2.0, 3.0], (Shard(dim=0),))]
    """

    def __new__(cls, local_tensor: Tensor, spec: DTensorSpec | None = None, *, requires_grad: bool = False) -> DTensor:
        if not isinstance(spec, DTensorSpec) or spec.tensor_meta is None:
            raise TypeError(
                "DTensor is made by distribute_tensor or DTensor.from_local, or of a DTensorSpec with sizes"
            )
        if local_tensor.requires_grad and not requires_grad:
            warnings.warn(
                "To construct DTensor from torch.Tensor, it's recommended to use local_tensor.detach() and make "
                "requires_grad consistent.",
                stacklevel=2,
            )
        placement, layout = resolve(spec.mesh, spec.placements, spec.ndim, "DTensor")
        made = _layouts.assemble(local_tensor, placement, layout, list(spec.shape))
        return made.requires_grad_(requires_grad)  # type: ignore[return-value]

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> Tensor:
        """Return the tensor of which ``local_tensor`` is this rank's part. Gradients come back to it.

        Args:
            device_mesh: the mesh whose ``with`` block this is, if left out.
            placements: all replicated if left out.
            run_check: compare shapes and the like over all ranks, and copy what is replicated from the first ones.
            shape, stride: of the whole, both or neither; otherwise parts are of one size. The whole has strides in the
                order of the parts' own, whatever ``stride`` says.
            grad_placements: those to which the gradient is brought before this rank's part of it is taken; by default
                those of the tensor, replicated where these are partial.

        Raises:
            RuntimeError: one of ``shape`` and ``stride`` alone, or a tensor that is a DTensor.
            ValueError: parts do not form a tensor of that shape.

        Example::

            >>> from oneflow.distributed.tensor import DTensor, Shard
            >>> def rank():
            ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
            ...     return DTensor.from_local(oneflow.ones(2, 3), mesh, [Shard(0)]).shape
            >>> oneflow.testing.run_ranks(2, rank)
            [oneflow.Size([4, 3]), oneflow.Size([4, 3])]
        """
        mesh = _mesh(device_mesh, "DTensor.from_local")
        if local_tensor.is_global:
            raise RuntimeError("DTensor.from_local: the tensor is a DTensor already")
        if (shape is None) != (stride is None):
            raise RuntimeError(
                f"Found shape:{shape}, stride:{stride}. Please pass both shape and stride at the same time."
            )
        placements = [Replicate()] * mesh.ndim if placements is None else placements
        placement, layout = resolve(mesh, placements, local_tensor.dim(), "DTensor.from_local")
        sizes = list(local_tensor.shape) if shape is None else list(shape)
        if shape is None:
            for axis, s in enumerate(layout):
                if s.dim is not None:
                    sizes[s.dim] *= placement.hierarchy[axis]
        if run_check:
            _check(local_tensor, mesh, placements)
        if shape is not None:
            _check_part(local_tensor, mesh, placements, sizes)
        return _layouts.enter_placed(local_tensor, mesh, placements, sizes, grad_placements)


def _mesh(mesh: DeviceMesh | None, what: str) -> DeviceMesh:
    mesh = mesh or current_mesh()
    if mesh is None:
        raise ValueError(f"{what}: no device_mesh is given, and this is no `with device_mesh` block")
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"{what}: device_mesh must be a DeviceMesh, got {type(mesh).__name__}")
    return mesh


def _check_part(local: Tensor, mesh: DeviceMesh, placements: Sequence[Placement], sizes: list[int]) -> None:
    """Parts have the sizes of ``chunk``."""
    expected, _ = compute_local_shape_and_global_offset(sizes, mesh, placements)
    if mesh.get_coordinate() is None or tuple(local.shape) == expected:
        return
    raise ValueError(
        f"DTensor.from_local: {list(placements)} of shape {sizes} over {mesh} has a part of shape "
        f"{list(expected)} on rank {distributed.get_rank()}, got {list(local.shape)}; a dimension that does not divide "
        "is split as by torch.chunk, 7 into 3, 3 and 1"
    )


def _check(local: Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> None:
    for axis, placed in enumerate(placements):
        group = mesh.get_group(axis)
        shapes: list[Any] = [None] * mesh.size(axis)
        own = (tuple(local.shape), tuple(local.stride()), str(local.dtype), local.requires_grad)
        distributed.all_gather_object(shapes, own, group)
        if len(set(shapes)) > 1:
            raise ValueError(
                f"DTensor.from_local: the ranks of {mesh} have parts of different shapes, strides, dtypes or "
                f"requires_grad: {shapes}"
            )
        if placed.is_replicate():
            whole = local.detach().contiguous()
            distributed.broadcast(whole, distributed.get_global_rank(group, 0), group)
            if whole.data_ptr() != local.data_ptr():
                with oneflow.no_grad():
                    local.copy_(whole)


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Tensor:
    """Distribute a tensor that every rank has in full. The result is a new leaf.

    Args:
        device_mesh: the mesh whose ``with`` block this is, if left out.
        placements: one for each dimension of the mesh; all replicated if left out.
        src_data_rank: the rank in each group of the mesh whose data counts. With ``None`` nothing is sent, and each
            rank takes its part of its own data.

    Raises:
        ValueError: placements that do not fit the mesh; a DTensor of another mesh or in other placements.

    Example::

        >>> from oneflow.distributed.tensor import Shard, distribute_tensor
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     return distribute_tensor(oneflow.arange(3.0), mesh, [Shard(0)]).to_local().tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 1.0], [2.0]]
    """
    mesh = _mesh(device_mesh, "distribute_tensor")
    if not tensor.is_leaf and not tensor.is_global:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    placement, layout = resolve(mesh, placements, tensor.dim(), "distribute_tensor")
    if tensor.is_global:
        if tensor.placement == mesh.placement._with_parts("balanced"):
            raise ValueError(
                f"distribute_tensor: the tensor is global on {tensor.placement}, and the mesh is {mesh.placement}; "
                "move it with `redistribute`"
            )
        if tensor.placement not in (mesh.placement, placement):
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device mesh {mesh}."
            )
        if tensor.placement != placement or list(tensor.sbp) != layout:
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} to a different placements "
                f"{tuple(placements or ())}. do you want to call `redistribute` instead?"
            )
        return tensor
    whole = tensor.detach()
    if mesh.get_coordinate() is None:
        return _layouts.assemble(whole, placement, layout, list(whole.shape)).requires_grad_(tensor.requires_grad)
    # On the meta device there is nothing to send.
    if src_data_rank is not None and mesh.size() > 1 and not whole.is_meta:
        whole = whole.clone(memory_format=oneflow.contiguous_format)
        for axis in range(mesh.ndim):
            if mesh.size(axis) > 1:
                group = mesh.get_group(axis)
                distributed.broadcast(whole, distributed.get_global_rank(group, src_data_rank), group)
    return shard_of_whole(whole, placement, layout).requires_grad_(tensor.requires_grad)


def shard_of_whole(whole: Tensor, placement: Any, layout: list[Any]) -> Tensor:
    """The global tensor of a whole that every rank has; each keeps a copy of its part. Nothing is sent."""
    replicated = [oneflow.sbp.broadcast] * len(layout)
    spread = _layouts.assemble(whole, placement, replicated, list(whole.shape))
    if any(is_partial(s) for s in layout):
        return _layouts.terms(spread, layout)
    return spread.to_global(sbp=layout, copy=True)


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Module:
    """Make every parameter and buffer of a module a DTensor.

    Args:
        device_mesh: the mesh whose ``with`` block this is, if left out.
        partition_fn: called as ``partition_fn(name, submodule, device_mesh)`` for each; it distributes the parameters
            that are not to be replicated.
        input_fn: called as ``input_fn(module, inputs, device_mesh)`` before each forward; gives the inputs.
        output_fn: called as ``output_fn(module, outputs, device_mesh)`` after it; gives the outputs.

    Raises:
        RuntimeError: the module was distributed before.

    Example::

        >>> from oneflow.distributed.tensor import distribute_module
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     return distribute_module(nn.Linear(2, 2), mesh).weight.placements
        >>> oneflow.testing.run_ranks(2, rank)
        [(Replicate(),), (Replicate(),)]
    """
    mesh = _mesh(device_mesh, "distribute_module")
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            "distribute_module should only be called once on a module, but it has already been called on this module!"
        )
    for name, sub in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, sub, mesh)
        _replicate_rest(sub, mesh)
    if input_fn is not None:
        before = _with_module("input_fn", input_fn)
        module.register_forward_pre_hook(lambda own, inputs: before(own, inputs, mesh))
    if output_fn is not None:
        after = _with_module("output_fn", output_fn)
        module.register_forward_hook(lambda own, inputs, outputs: after(own, outputs, mesh))
    module._distribute_module_applied = True
    return module


def _with_module(name: str, function: Callable[..., Any]) -> Callable[[Module, Any, DeviceMesh], Any]:
    """A function of inputs or outputs that takes the module, too; older ones do not."""
    n = len(inspect.signature(function).parameters)
    what = name.replace("_fn", "s")
    if n == 3:
        return function
    if n != 2:
        raise ValueError(f"{name} should take in 3 arguments, but got {n} arguments!")
    warnings.warn(
        f"Deprecating {name} that takes two arguments ({what}, device_mesh), please use {name} that takes in "
        f"(module, {what}, device_mesh) instead!",
        FutureWarning,
        stacklevel=3,
    )
    return lambda _, values, mesh: function(values, mesh)


def _replicate_rest(module: Module, mesh: DeviceMesh) -> None:
    whole: list[Placement] = [Replicate()] * mesh.ndim
    for name, param in module._parameters.items():
        if param is not None and not param.is_global:
            module._parameters[name] = Parameter(distribute_tensor(param.data, mesh, whole), param.requires_grad)
    for name, buffer in module._buffers.items():
        if buffer is not None and not buffer.is_global:
            module._buffers[name] = distribute_tensor(buffer.detach(), mesh, whole)


class Options(TypedDict, total=False):
    """What functions that make a DTensor take besides sizes; a dtype, layout and gradient as usual."""

    requires_grad: bool
    dtype: Any
    layout: Any
    device_mesh: DeviceMesh | None
    placements: Sequence[Placement] | None


def _place(name: str, ndim: int, options: Options) -> tuple[Any, list[Any]]:
    """The placement and the layout of what is made."""
    for key in options:
        if key not in Options.__annotations__:
            raise TypeError(f"{name}() got an unexpected keyword argument {key!r}")
    if options.get("layout") not in (None, oneflow.strided):
        raise NotImplementedError(f"{name}: only strided tensors are distributed")
    mesh = _mesh(options.get("device_mesh"), name)
    return resolve(mesh, options.get("placements"), ndim, name)


def _made(name: str, size: tuple[Any, ...], first: tuple[Any, ...], options: Options) -> Tensor:
    sizes = list(size[0]) if len(size) == 1 and isinstance(size[0], (list, tuple)) else list(size)
    placement, layout = _place(name, len(sizes), options)
    kept = {"dtype": options.get("dtype"), "requires_grad": options.get("requires_grad", False)}
    return getattr(oneflow, name)(sizes, *first, placement=placement, sbp=layout, **kept)


def zeros(*size: Any, **options: Unpack[Options]) -> Tensor:
    """A DTensor of zeros, of which each rank makes its part.

    Args:
        size: the sizes of the whole tensor, or one list of them.
        options: ``device_mesh``, the mesh whose ``with`` block this is if left out; ``placements``, one for each
            dimension of the mesh, all replicated if left out; ``requires_grad``, ``dtype`` and ``layout`` as
            :func:`oneflow.zeros` takes them.

    Example::

        >>> from oneflow.distributed.tensor import Shard, zeros
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     return zeros(4, 3, device_mesh=mesh, placements=[Shard(0)]).to_local().shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([2, 3]), oneflow.Size([2, 3])]
    """
    return _made("zeros", size, (), options)


def ones(*size: Any, **options: Unpack[Options]) -> Tensor:
    """A DTensor of ones; see :func:`zeros`.

    Example::

        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     return oneflow.distributed.tensor.ones(2, device_mesh=mesh).to_local().tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[1.0, 1.0], [1.0, 1.0]]
    """
    return _made("ones", size, (), options)


def empty(*size: Any, **options: Unpack[Options]) -> Tensor:
    """A DTensor whose elements are not set; see :func:`zeros`.

    Example::

        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     return oneflow.distributed.tensor.empty(2, device_mesh=mesh).shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([2]), oneflow.Size([2])]
    """
    return _made("empty", size, (), options)


def full(size: Any, fill_value: Any, **options: Unpack[Options]) -> Tensor:
    """A DTensor filled with a number; see :func:`zeros`.

    Example::

        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     return oneflow.distributed.tensor.full((2,), 3.0, device_mesh=mesh).to_local().tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[3.0, 3.0], [3.0, 3.0]]
    """
    return _made("full", (size,), (fill_value,), options)


def linspace(start: float, end: float, steps: int, **options: Unpack[Options]) -> Tensor:
    """A DTensor of evenly spaced numbers, as :func:`oneflow.linspace` makes them; see :func:`zeros`.

    Example::

        >>> from oneflow.distributed.tensor import Shard, linspace
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     return linspace(0, 3, 4, device_mesh=mesh, placements=[Shard(0)]).to_local().tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 1.0], [2.0, 3.0]]
    """
    return _spaced("linspace", oneflow.linspace, (start, end, steps), options)


def logspace(start: float, end: float, steps: int, base: float = 10.0, **options: Unpack[Options]) -> Tensor:
    """A DTensor of powers of ``base`` with evenly spaced exponents; see :func:`linspace`.

    Example::

        >>> from oneflow.distributed.tensor import logspace
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     return logspace(0, 2, 3, device_mesh=mesh).to_local().tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[1.0, 10.0, 100.0], [1.0, 10.0, 100.0]]
    """
    return _spaced("logspace", oneflow.logspace, (start, end, steps, base), options)


def _spaced(name: str, make: Callable[..., Tensor], args: tuple[Any, ...], options: Options) -> Tensor:
    placement, layout = _place(name, 1, options)
    whole = make(*args, dtype=options.get("dtype"), device=placement.type)
    return shard_of_whole(whole, placement, layout).requires_grad_(options.get("requires_grad", False))


def rand(*size: Any, **options: Unpack[Options]) -> Tensor:
    """A DTensor of numbers between 0 and 1: those that one rank would draw, whatever the placements.

    Example::

        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     return oneflow.distributed.tensor.rand(2, device_mesh=mesh).shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([2]), oneflow.Size([2])]
    """
    return _made("rand", size, (), options)


def randn(*size: Any, **options: Unpack[Options]) -> Tensor:
    """A DTensor of normal numbers; see :func:`rand`.

    Example::

        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     return oneflow.distributed.tensor.randn(2, device_mesh=mesh).shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([2]), oneflow.Size([2])]
    """
    return _made("randn", size, (), options)
