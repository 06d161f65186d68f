"""``fully_shard``: parameters of a module in slices, gathered for its forward and backward alone."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.distributed.device_mesh import DeviceMesh, init_device_mesh
from oneflow.distributed.fsdp._homes import Home
from oneflow.distributed.fsdp._params import ParamGroup, ShardedParam, Uses, device_of, device_type_of
from oneflow.distributed.fsdp._policies import MixedPrecisionPolicy, OffloadPolicy
from oneflow.distributed.fsdp._state import FSDPState, state_of
from oneflow.distributed.tensor import Shard
from oneflow.nn import Module

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method", "share_comm_ctx"]


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Tensor], Shard | None] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Tensor] | None = None,
) -> Any:
    """Keep one slice of each parameter on each rank; gather them for the module's forward and backward.

    Apply it to the layers first and to the whole model last: each call takes the parameters that no call before has
    taken, gathers them in one collective, and reduces their gradients in one. Parameters become DTensors split along
    their first dimension; make the optimizer afterwards. Each rank has its own part of the batch, and gradients are
    averaged. The module becomes an :class:`FSDPModule` too.

    Slices, and what is gathered and reduced, lie where the mesh is: a module of a CPU goes to a GPU with a mesh of type
    "cuda". Without a mesh its parameters say where.

    The parameters of a module on the meta device get memory for their slices alone, without values: call ``to_empty``
    and the modules' ``reset_parameters``, or load them, before the first forward, which warns otherwise.

    Args:
        module: a module, or a list of modules that run one after the other.
        mesh: of one dimension, or of two: replicated over the first and split over the second. All ranks by default.
        reshard_after_forward: free the gathered parameters after the forward and gather them again for the backward. By
            default true, except for the root. With a number, as many neighbouring ranks keep the parameters until then
            and gather them among each other, the ranks of a host for example: more memory, less to send between hosts.
        shard_placement_fn: gives ``Shard(dim)`` for parameters that are split along another dimension.
        mp_policy: dtypes of computation and reduction.
        offload_policy: where slices live: on the mesh's devices by default, in host memory (``CPUOffloadPolicy``), or
            in files (``DiskOffloadPolicy``). Graphs have ``nn.GraphConfig.enable_offload``.
        ignored_params: parameters that stay as they are, whose gradients nobody reduces.

    Raises:
        ValueError: a mesh of more dimensions, a module that was sharded before, scalar parameters, or a folder that is
            not there or lies in memory; a number of ranks that does not divide those of the mesh.
        NotImplementedError: ``DiskOffloadPolicy`` with a mesh of GPUs.

    The first forward warns of parameters of the meta device to which nobody has written.

    Example::

        >>> from oneflow.distributed.fsdp import fully_shard
        >>> def rank():
        ...     model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
        ...     for layer in model:
        ...         fully_shard(layer)
        ...     fully_shard(model)
        ...     model(oneflow.ones(1, 4)).sum().backward()
        ...     return model[0].weight.to_local().shape, model[0].weight.grad.placements
        >>> oneflow.testing.run_ranks(2, rank)[0]
        (oneflow.Size([4, 4]), (Shard(dim=0),))
    """
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    for one in modules:
        if not isinstance(one, Module) or isinstance(one, (oneflow.nn.ModuleList, oneflow.nn.ModuleDict)):
            raise ValueError(
                f"fully_shard does not support containers that do not implement forward: {type(one).__name__}"
            )
        if state_of(one) is not None:
            raise ValueError(f"fully_shard: {type(one).__name__} was sharded before")
    mesh = _mesh_of(mesh, modules)
    reshard_after_forward, n_keepers = _after_forward(reshard_after_forward, mesh.size(mesh.ndim - 1))
    home = Home(mesh, offload_policy)
    policy = mp_policy or MixedPrecisionPolicy()
    ignored = {id(p) for p in ignored_params or ()}
    params = []
    for param, uses, name in _managed(modules, ignored):
        where = shard_placement_fn(param) if shard_placement_fn is not None else None
        if where is not None and not isinstance(where, Shard):
            raise ValueError(f"fully_shard: shard_placement_fn gives a Shard or None, got {where!r} for '{name}'")
        dim = 0 if where is None else where.dim
        params.append(ShardedParam(uses, param, mesh, dim, policy.param_dtype, name, home))
    _move_buffers(modules, device_of(mesh))
    group = ParamGroup(params, mesh, policy) if params else None
    if group is not None and n_keepers is not None:
        group.keep_over(n_keepers)
    state = FSDPState(modules, group, policy, reshard_after_forward)
    for one in modules:
        object.__setattr__(one, "_fsdp_state", state)
        kind = type(one)
        one.__class__ = _sharded_class(kind)  # type: ignore[arg-type]
    return module


def _mesh_of(mesh: DeviceMesh | None, modules: list[Module]) -> DeviceMesh:
    if mesh is None:
        return init_device_mesh(device_type_of(modules), (distributed.get_world_size(),))
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if mesh.ndim == 2 and mesh.mesh_dim_names is None:
        raise AssertionError("Please init the 2D mesh for HSDP with mesh_dim_names specified")
    return mesh


def _after_forward(given: bool | int | None, n: int) -> tuple[bool | None, int | None]:
    """Whether the whole is freed after a forward, and if only in part, how many ranks have it together."""
    if given is None or isinstance(given, bool):
        return given, None
    if not isinstance(given, int):
        raise ValueError(f"reshard_after_forward should be a bool or an int representing the group size, got {given}")
    if given < 1 or n % given:
        raise ValueError(f"If passing reshard_after_forward as an int, it should be a factor of {n}, not {given}")
    return given > 1, given if 1 < given < n else None


def _managed(modules: list[Module], ignored: set[int]) -> list[tuple[Tensor, Uses, str]]:
    """Each parameter below the modules that no other call has taken, with all its places."""
    found: dict[int, tuple[Tensor, Uses, str]] = {}
    for module, prefix in (place for root in modules for place in _below(root, "")):
        for name, param in module._parameters.items():
            if param is not None and id(param) not in ignored:
                found.setdefault(id(param), (param, [], prefix + name))[1].append((module, name))
    return list(found.values())


def _below(module: Module, prefix: str) -> Iterator[tuple[Module, str]]:
    """A module and those below it that no other call has taken, with the beginning of their parameters' names."""
    # A closure that calls itself would be a cycle, which keeps whole parameters until a collection.
    yield module, prefix
    for name, child in module.named_children():
        if state_of(child) is None:
            yield from _below(child, f"{prefix}{name}.")


def _move_buffers(modules: list[Module], device: oneflow.device) -> None:
    """Buffers that no other call has taken go where the slices are."""
    for module in modules:
        for name, buffer in module._buffers.items():
            if buffer is not None and not buffer.is_meta and not buffer.is_global:
                module._buffers[name] = buffer.to(device)
        _move_buffers([child for child in module.children() if state_of(child) is None], device)


@functools.cache
def _sharded_class(kind: type) -> type:
    return type(f"FSDP{kind.__name__}", (FSDPModule, kind), {"__module__": kind.__module__})


class UnshardHandle:
    """What :meth:`FSDPModule.unshard` gives: :meth:`wait` returns when the parameters are there.

    Example::

        >>> from oneflow.distributed.fsdp import fully_shard
        >>> def rank():
        ...     layer = fully_shard(nn.Linear(4, 2))
        ...     handle = layer.unshard(async_op=True)
        ...     handle.wait()
        ...     return layer.weight.shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([2, 4]), oneflow.Size([2, 4])]
    """

    def __init__(self, group: ParamGroup | None) -> None:
        self._group = group

    def wait(self) -> None:
        """Wait for the parameters, and give them to the module."""
        if self._group is not None:
            self._group.unshard()
            self._group = None


class FSDPModule:
    """What a module becomes, besides its own class, when :func:`fully_shard` is applied to it.

    Example::

        >>> from oneflow.distributed.fsdp import FSDPModule, fully_shard
        >>> def rank():
        ...     layer = fully_shard(nn.Linear(4, 2))
        ...     layer.unshard()
        ...     whole = layer.weight.is_global
        ...     layer.reshard()
        ...     return isinstance(layer, FSDPModule), isinstance(layer, nn.Linear), whole, layer.weight.is_global
        >>> oneflow.testing.run_ranks(2, rank)[0]
        (True, True, False, True)
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Another module of the class, as in a deep copy, is the plain one.
        plain: Any = cls.__mro__[2]
        made = plain.__new__(plain)
        made.__init__(*args, **kwargs)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module."""
        try:
            return super().__call__(*args, **kwargs)  # type: ignore[misc]
        except BaseException:
            self._state().abandon()
            raise

    def __deepcopy__(self, memo: Any) -> Any:
        raise AssertionError(
            f"FSDP does not support deepcopy: hooks of {type(self).__name__} gather this module's own parameters; copy "
            "it before fully_shard, or load its state_dict() into another one"
        )

    def _state(self) -> FSDPState:
        state = state_of(self)  # type: ignore[arg-type]
        assert state is not None
        return state

    def _states(self, recurse: bool) -> Iterator[FSDPState]:
        modules = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        seen: set[int] = set()
        for module in modules:
            state = state_of(module)
            if state is not None and id(state) not in seen:
                seen.add(id(state))
                yield state

    def reshard(self) -> None:
        """Free the gathered parameters; those of modules below stay."""
        self._state().reshard()

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the parameters, those of modules below excepted.

        Args:
            async_op: return at once a handle that waits; without it the parameters are there.
        """
        group = self._state().group
        if group is not None:
            group.start_unshard(async_op)
            if not async_op:
                group.unshard()
        return UnshardHandle(group) if async_op else None

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Say whether other backwards of the same forward follow."""
        for state in self._states(True):
            if state.shared is not None:
                state.shared.is_last_backward = is_last_backward

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Say whether backwards reduce gradients; if not, each rank keeps sums of its own until one does."""
        for state in self._states(recurse):
            if state.group is not None:
                state.group.reduces = state.group.reduces_replicas = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Say whether backwards average gradients over replicas too; see the mesh of two dimensions."""
        for state in self._states(recurse):
            if state.group is not None:
                state.group.reduces_replicas = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Set whether forwards free the gathered parameters."""
        for state in self._states(recurse):
            state.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Set whether backwards free the gathered parameters."""
        for state in self._states(recurse):
            state.reshard_after_backward = reshard_after_backward

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Set whether the backward gathers the parameters; one that needs none of them (an embedding) need not."""
        self._state().unshard_in_backward = unshard_in_backward

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """Set the sharded modules whose parameters this one's forward begins to gather."""
        self._state().prefetch_forward = [_checked(m)._state() for m in modules]

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """Set the sharded modules whose parameters this one's backward begins to gather; by default the one before
        it."""
        self._state().prefetch_backward = [_checked(m)._state() for m in modules]

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide sums of gradients by ``factor`` in place of the number of ranks."""
        group = self._state().group
        if group is not None:
            group.divide_by = float(factor)

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_all_reduce_hook(self, hook: Callable[[Tensor], None], *, stream: Any = None) -> None:
        """Call ``hook(reduced)`` with this rank's slices of reduced gradients, which it may change in place.

        Args:
            stream: in which the hook runs; of the current one if left out.
        """
        group = self._state().group
        if group is None:
            return

        def run(reduced: Tensor) -> None:
            if stream is None:
                hook(reduced)
                return
            current = oneflow.cuda.current_stream(reduced.device)
            stream.wait_stream(current)
            with oneflow.cuda.stream(stream):
                hook(reduced)
            current.wait_stream(stream)

        group.all_reduce_hook = run

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Set whether averages are sums that each rank divides afterwards: some networks reduce only sums."""
        group = self._state().group
        if group is not None:
            group.sums_only = enable

    @contextlib.contextmanager
    def _no_sync(self) -> Iterator[None]:
        groups = [state.group for state in self._states(True) if state.group is not None]
        before = [(group.reduces, group.reduces_replicas) for group in groups]
        self.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            for group, (reduces, replicas) in zip(groups, before, strict=True):
                group.reduces, group.reduces_replicas = reduces, replicas


def _checked(module: Any) -> FSDPModule:
    if not isinstance(module, FSDPModule):
        raise ValueError(f"expected a module that fully_shard was applied to, got {type(module).__name__}")
    return module


def share_comm_ctx(modules: list[Any]) -> None:
    """Have sharded modules that are roots, such as the stages of a pipeline, use the same streams for collectives.

    They do in any case: the collectives of a process group have one stream. The modules must be of one type of device.

    Raises:
        ValueError: a module that is not sharded, or of another type of device than the first one.

    Example::

        >>> from oneflow.distributed.fsdp import fully_shard, share_comm_ctx
        >>> def rank():
        ...     share_comm_ctx([fully_shard(nn.Linear(4, 2)), fully_shard(nn.Linear(2, 2))])
        >>> oneflow.testing.run_ranks(2, rank)
        [None, None]
    """
    groups = [group for m in modules if (group := _checked(m)._state().group) is not None]
    kinds = {group.mesh.device_type for group in groups}
    if len(kinds) > 1:
        raise ValueError(f"share_comm_ctx: all modules must be on one type of device, got {sorted(kinds)}")


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Make a method of a sharded module gather its parameters as ``forward`` does. Other modules stay as they are.

    Raises:
        ValueError: there is no such method.

    Example::

        >>> from oneflow.distributed.fsdp import fully_shard, register_fsdp_forward_method
        >>> class Encoder(nn.Linear):
        ...     def encode(self, x):
        ...         return x @ self.weight.t()
        >>> def rank():
        ...     layer = fully_shard(Encoder(4, 2))
        ...     register_fsdp_forward_method(layer, "encode")
        ...     return layer.encode(oneflow.ones(1, 4)).shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([1, 2]), oneflow.Size([1, 2])]
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    method, state = getattr(module, method_name), module._state()

    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            changed = state._before_forward(module, args, kwargs)
            args, kwargs = (args, kwargs) if changed is None else changed
            output = method(*args, **kwargs)
            changed = state._after_forward(module, args, output)
        except BaseException:
            state.abandon()
            raise
        return output if changed is None else changed

    object.__setattr__(module, method_name, run)
