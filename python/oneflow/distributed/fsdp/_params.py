"""The parameters that are gathered, reduced and freed together.

Between uses each rank keeps its slice of each parameter, as a global tensor. :meth:`ParamGroup.unshard` gathers all of
them in one collective into memory that the module computes with, :meth:`ParamGroup.reshard` frees that memory, and
:meth:`ParamGroup.reduce` gives each slice its part of the averaged gradient. When that happens is not known here.

The memory is freed behind tensors that autograd may hold: their storage becomes empty, and is filled again before the
backward needs it. Filling is no write to the parameter: its version stays.
"""

from __future__ import annotations

import contextlib
import math
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow, distributed
from oneflow._base.purposes import purpose
from oneflow.distributed.device_mesh import DeviceMesh
from oneflow.distributed.fsdp._homes import Home
from oneflow.distributed.fsdp._policies import MixedPrecisionPolicy
from oneflow.distributed.tensor import Placement, Replicate, Shard, _layouts
from oneflow.distributed.tensor._sharding_order import resolve
from oneflow.distributed.tensor.placement_types import _StridedShard
from oneflow.nn import Module, Parameter
from oneflow.sbp import broadcast, split

__all__ = ["ParamGroup", "ShardedParam", "device_of", "device_type_of"]

Uses = list[tuple[Module, str]]


class ShardedParam:
    """One parameter: this rank's slice of it, and memory for the whole of it."""

    def __init__(
        self, uses: Uses, param: Tensor, mesh: DeviceMesh, dim: int, dtype: Any, what: str, home: Home
    ) -> None:
        self.uses, self.name, self.home = uses, what, home
        # With tensor parallelism the whole is what this rank has of it.
        whole = _layouts.local_part(param) if param.is_global else param.detach()
        # What is gathered and reduced lies where the mesh is, and slices too unless they are offloaded.
        self.device = device_of(mesh)
        if not whole.is_meta:
            whole = whole.to(self.device)
        if whole.dim() == 0:
            raise ValueError(
                f"fully_shard doesn't support scalar parameters. Change {what} to a 1D tensor with numel equal to 1."
            )
        self.dim = dim % whole.dim() if -whole.dim() <= dim < whole.dim() else _no_dim(dim, whole, what)
        self.shape, self.dtype, self.orig_dtype = tuple(whole.shape), dtype or whole.dtype, whole.dtype
        if not whole.is_floating_point():
            self.dtype = whole.dtype
        n, here = mesh.size(-1), mesh.get_local_rank(mesh.ndim - 1)
        self._here = here
        # The slices of all ranks along `dim`, as (start, length).
        self.slices = [mesh.placement._part(self.shape[self.dim], mesh.ndim - 1, r) for r in range(n)]
        self.others = math.prod(self.shape) // max(self.shape[self.dim], 1)
        # Room for a slice in what is sent: that of the largest.
        self.room = self.slices[0][1] * self.others
        own = whole.narrow(self.dim, *self.slices[here]).clone(memory_format=oneflow.contiguous_format)
        if whole.is_meta:
            # The whole is never made: only the slice has memory, and somebody has yet to write its values.
            own = oneflow.zeros(own.shape, dtype=own.dtype, device=self.device)
        self._tensor_parallel = (param.placement, list(param.sbp), list(param.shape)) if param.is_global else None
        placement, layout = _placement_of_slices(param, mesh, self.dim)
        own = home.memory_for(own)
        sharded = _layouts.assemble(own, home.placement(placement), layout, list(param.shape))
        self.sharded = Parameter(sharded, param.requires_grad)
        home.settle(self.sharded)
        # The version of a slice without values; None once it has some.
        self._empty_version = self.sharded._version if whole.is_meta else None
        self.unsharded: Parameter | None = None
        self._full: Tensor | None = None
        # Gradients of backwards that did not reduce.
        self.waiting: Tensor | None = None
        self.use_sharded()

    # ---- which of the two the module has

    def use_sharded(self) -> None:
        """Give the module the slice."""
        for module, name in self.uses:
            module._parameters[name] = self.sharded

    def use_unsharded(self) -> None:
        """Give the module the whole."""
        for module, name in self.uses:
            module._parameters[name] = self.unsharded

    def adopt(self) -> None:
        """Take over a parameter that somebody has put in place of the slice: ``module.to()``, ``load_state_dict``."""
        module, name = self.uses[0]
        found = module._parameters[name]
        if found is None or found is self.sharded or found is self.unsharded:
            return
        if not found.is_global or found.placement != self.sharded.placement or found.sbp != self.sharded.sbp:
            raise RuntimeError(
                f"fully_shard: parameter '{self.name}' was replaced by a tensor that is not sharded; expected "
                f"the layout {self.sharded.sbp} on {self.sharded.placement}"
            )
        self.sharded = found if isinstance(found, Parameter) else Parameter(found, found.requires_grad)
        self.orig_dtype = self.sharded.dtype
        self.home.settle(self.sharded)
        self._empty_version = None
        self.use_sharded()

    def accept_empty(self) -> None:
        """Say no more of it: somebody has heard that nobody has written its values."""
        self._empty_version = None

    def is_without_values(self) -> bool:
        """Whether it was made on the meta device and nobody has written to it since."""
        if self._empty_version is not None and self.sharded._version != self._empty_version:
            self._empty_version = None
        return self._empty_version is not None

    # ---- the whole

    def slice_here(self) -> Tensor:
        """This rank's slice, as a local tensor without gradient."""
        return _layouts.local_part(self.sharded)

    def fill(self, parts: Tensor) -> None:
        """Fill the whole from the slices of all ranks: a matrix with a row for each."""
        if self._full is None:
            self._full = oneflow.empty(self.shape, dtype=self.dtype, device=self.device)
            self.unsharded = self._as_parameter(self._full)
        self._full.untyped_storage().resize_(self._full.numel() * self._full.element_size())
        # A tensor with a version of its own.
        whole = self._full.data
        for (start, length), row in zip(self.slices, parts, strict=True):
            part = whole.narrow(self.dim, start, length)
            part.copy_(row[: length * self.others].view(part.shape))

    @property
    def is_tensor_parallel(self) -> bool:
        """Whether the whole is itself a part of a tensor."""
        return self._tensor_parallel is not None

    def _as_parameter(self, full: Tensor) -> Parameter:
        if self._tensor_parallel is None:
            return Parameter(full, self.sharded.requires_grad)
        placement, layout, sizes = self._tensor_parallel
        return Parameter(_layouts.assemble(full, placement, layout, sizes), self.sharded.requires_grad)

    @oneflow.no_grad()
    def write_back(self) -> None:
        """Write this rank's slice of the whole to the slice."""
        assert self._full is not None
        self.slice_here().copy_(self._full.narrow(self.dim, *self.slices[self._here]))
        self.hint(False)

    @oneflow.no_grad()
    def show_grad(self) -> None:
        """Give the whole the whole of the slice's gradient: a collective."""
        if self.sharded.grad is not None and self.unsharded is not None:
            whole = self.sharded.grad.full_tensor()
            self.unsharded.grad = whole.to(self.unsharded.dtype)

    @oneflow.no_grad()
    def hide_grad(self, writes_back: bool) -> None:
        """Take that gradient from the whole; its slice may have been changed."""
        whole = None if self.unsharded is None else self.unsharded.grad
        if whole is None:
            return
        if writes_back and self.sharded.grad is not None:
            own = _layouts.local_part(self.sharded.grad)
            own.copy_(whole.narrow(self.dim, *self.slices[self._here]))
        self.unsharded.grad = None  # type: ignore[union-attr]

    def hint(self, comes: bool) -> None:
        """Say that the slice is about to be read, or that it is not for some time."""
        if self.home.folder is not None:
            _oneflow._hint_file(self.sharded, comes)

    def free(self) -> None:
        """Free the memory of the whole."""
        if self._full is not None:
            self._full.untyped_storage().resize_(0)

    def n_bytes(self) -> int:
        """Bytes of the whole that are held now."""
        return 0 if self._full is None else self._full.untyped_storage().nbytes()

    # ---- gradients

    def take_grad(self) -> Tensor | None:
        """The gradient of the whole that has come since the last reduction, as a local tensor."""
        found = self.waiting
        grad = None if self.unsharded is None else self.unsharded.grad
        if grad is not None:
            own = _layouts.local_part(grad) if grad.is_global else grad.detach()
            found = own if found is None else found + own.to(found.dtype)
            self.unsharded.grad = None  # type: ignore[union-attr]
        self.waiting = None
        return found

    def keep_grad(self, dtype: Any) -> None:
        """Keep the gradient for a later reduction, in the dtype of that."""
        found = self.take_grad()
        self.waiting = found if found is None or dtype is None else found.to(dtype)

    def pack_grad(self, grad: Tensor, rows: Tensor) -> None:
        """Write the slices of a gradient into a matrix with a row for each rank."""
        even = self.slices[-1][1] == self.slices[0][1]
        if self.dim == 0 and even:
            rows.copy_(grad.reshape(len(self.slices), -1))
            return
        for (start, length), row in zip(self.slices, rows, strict=True):
            row[: length * self.others].copy_(grad.narrow(self.dim, start, length).reshape(-1))

    def add_grad(self, flat: Tensor) -> None:
        """Add this rank's slice of the reduced gradient to that of the slice."""
        here = self.slice_here()
        own = flat[: here.numel()].view(here.shape).to(here.device, here.dtype)
        s = self.sharded
        grad = _layouts.assemble(own, s.placement, list(s.sbp), list(s.shape))
        # As the end of a backward does: hooks of the parameter are called.
        s.backward(grad)


def device_of(mesh: DeviceMesh) -> oneflow.device:
    """This rank's device of a mesh: of its GPUs the current one."""
    index = oneflow.cuda.current_device() if mesh.device_type == "cuda" else 0
    return oneflow.device(mesh.device_type, index)


def device_type_of(modules: list[Module]) -> str:
    """Where the parameters of modules are, those of the meta device aside: of a mesh that nobody gives."""
    return next((p.device.type for m in modules for p in m.parameters() if not p.is_meta), "cpu")


def _no_dim(dim: int, whole: Tensor, what: str) -> int:
    raise ValueError(f"fully_shard: {Shard(dim)} does not fit parameter '{what}' of shape {tuple(whole.shape)}")


def _placement_of_slices(param: Tensor, mesh: DeviceMesh, dim: int) -> tuple[Any, list[Any]]:
    """Where slices live: over the mesh, inside the parts that tensor parallelism has made."""
    if not param.is_global:
        return mesh.placement, [*[broadcast] * (mesh.ndim - 1), split(dim)]
    inner = param.device_mesh
    if inner._top() is not mesh._top() or not mesh.mesh_dim_names or not inner.mesh_dim_names:
        raise ValueError(f"fully_shard: {inner} of a parameter and {mesh} must be parts of one mesh, cut by names")
    top = mesh._top()
    names = sorted((*inner.mesh_dim_names, *mesh.mesh_dim_names), key=top._dims_of)
    both, last = top[tuple(names)], mesh.mesh_dim_names[-1]
    found: dict[str, Placement] = dict.fromkeys(names, Replicate())
    found.update(zip(inner.mesh_dim_names, param.placements, strict=True))
    # Tensor parallelism cuts first, also where its dimension of the mesh is a later one.
    later = [axis for axis in range(names.index(last), both.ndim) if _cuts(found[names[axis]], dim)]
    n = math.prod(both.size(axis) for axis in later)
    found[last] = _StridedShard(dim, split_factor=n) if later else Shard(dim)
    return resolve(both, [found[name] for name in names], param.dim(), "fully_shard")


def _cuts(placement: Placement, dim: int) -> bool:
    return isinstance(placement, (Shard, _StridedShard)) and placement.dim == dim


class ParamGroup:
    """Parameters that are gathered and reduced together, over the last dimension of a mesh.

    With a mesh of two dimensions slices are replicated over the first, and gradients are averaged over it too.
    """

    def __init__(self, params: list[ShardedParam], mesh: DeviceMesh, policy: MixedPrecisionPolicy) -> None:
        self.params, self.mesh, self.policy = params, mesh, policy
        self.group = mesh.get_group(mesh.ndim - 1)
        self.replicas = mesh.get_group(0) if mesh.ndim > 1 else None
        self.n = mesh.size(mesh.ndim - 1)
        self.is_unsharded = False
        # Slices of the host are copied beside the work of the GPU.
        on_host = any(p.home.on_host for p in params)
        self._copies: Any = oneflow.cuda.Stream(device_of(mesh)) if on_host else None
        self.reduces, self.reduces_replicas = True, True
        self.divide_by: float | None = None
        self._gathering: list[tuple[Any, Tensor, list[ShardedParam]]] | None = None
        # Sums over slices that still have to be averaged over replicas.
        self._over_replicas: list[Tensor] | None = None
        self.on_new_whole: Callable[[ShardedParam], None] | None = None
        # Between a forward and its backward ranks may keep more than their slices: the group `_keepers` of `kept_over`
        # ranks has all of them.
        self.kept_over = 1
        self._keepers: Any = None
        self._kept: list[Tensor] | None = None
        self._rows: list[Tensor] = []
        self.all_reduce_hook: Callable[[Tensor], None] | None = None
        self.sums_only = False
        self._words = ""
        self.call("the module")

    def keep_over(self, n_ranks: int) -> None:
        """Between a forward and its backward keep the whole in ``n_ranks`` parts, on as many neighbouring ranks."""
        shape = [*self.mesh.shape[:-1], self.n // n_ranks, n_ranks]
        apart = DeviceMesh(self.mesh.device_type, self.mesh.placement.ranks.reshape(shape).tolist())
        self.kept_over, self._keepers = n_ranks, apart.get_group(apart.ndim - 1)

    def _kept_rows(self, gathered: Tensor) -> Tensor:
        """What this rank keeps of a matrix with a row for each rank."""
        n = self.n // self.kept_over
        return gathered.narrow(0, distributed.get_rank(self._keepers) * n, n)

    def forget(self) -> None:
        """A forward begins: slices may have been written to since the one before."""
        self._kept = None

    def call(self, module: str) -> None:
        """Name the module, for collectives: ranks that gather or reduce other parameters are out of step."""
        each = [f"{p.name} {list(p.shape)}" for p in self.params]
        more = f" and {len(each) - 2} more ({zlib.crc32(repr(each).encode()):08x})" if len(each) > 2 else ""
        self._words = f"{', '.join(each[:2])}{more} of {module}"

    def is_ready(self) -> bool:
        """Whether the whole is there, or on its way."""
        return self.is_unsharded or self._gathering is not None

    @oneflow.no_grad()
    def start_unshard(self, async_op: bool = False) -> None:
        """Begin to gather the parameters."""
        if self.is_ready():
            return
        self._gathering = []
        for p in self.params:
            p.adopt()
        empty = [p for p in self.params if p.is_without_values()]
        if empty:
            warnings.warn(
                "fully_shard: parameters were made on the meta device and nobody has written their values: "
                f"{', '.join(p.name for p in empty)}; initialise or load them after to_empty()",
                stacklevel=2,
            )
        for p in empty:
            p.accept_empty()
        with contextlib.nullcontext() if self._copies is None else oneflow.cuda.stream(self._copies):
            self._gather(async_op)

    def prefetch(self) -> None:
        """Have the slices read from their files, if they lie in some."""
        if not self.is_ready():
            for p in self.params:
                p.hint(True)

    def _gather(self, async_op: bool) -> None:
        assert self._gathering is not None
        kept, self._kept, self._rows = self._kept, None, []
        for i, params in enumerate(_by_dtype(self.params, lambda p: p.dtype)):
            if kept is not None:
                rows = kept[i]
                gathered = rows.new_empty(self.n * rows.shape[1])
                with purpose(f"the parameters {self._words}"):
                    work = distributed.all_gather_into_tensor(gathered, rows.view(-1), self._keepers, async_op=async_op)
                self._gathering.append((work, gathered.view(self.n, -1), params))
                continue
            total = sum(p.room for p in params)
            own = oneflow.zeros(total, dtype=params[0].dtype, device=params[0].device)
            at = 0
            for p in params:
                here = p.slice_here().reshape(-1)
                own[at : at + here.numel()].copy_(here, non_blocking=True)
                p.hint(False)
                at += p.room
            if self.n == 1:
                self._gathering.append((None, own.view(1, total), params))
                continue
            gathered = oneflow.empty(self.n * total, dtype=own.dtype, device=own.device)
            with purpose(f"the parameters {self._words}"):
                work = distributed.all_gather_into_tensor(gathered, own, self.group, async_op=async_op)
            self._gathering.append((work, gathered.view(self.n, total), params))

    @oneflow.no_grad()
    def unshard(self) -> None:
        """Gather the parameters, and give them to the modules."""
        self.start_unshard()
        if self._gathering is None:
            return
        if self._copies is not None:
            oneflow.cuda.current_stream(self.params[0].device).wait_stream(self._copies)
        for work, gathered, params in self._gathering:
            if work is not None:
                work.wait()
            if self._keepers is not None:
                self._rows.append(self._kept_rows(gathered).clone())
            at = 0
            for p in params:
                is_new = p.unsharded is None
                p.fill(gathered[:, at : at + p.room].contiguous())
                if is_new and self.on_new_whole is not None:
                    self.on_new_whole(p)
                assert p.unsharded is not None
                if p.unsharded.requires_grad != p.sharded.requires_grad:
                    p.unsharded.requires_grad_(p.sharded.requires_grad)
                p.use_unsharded()
                at += p.room
        self._gathering, self.is_unsharded = None, True

    def reshard(self, before_backward: bool = False) -> None:
        """Free the whole, and give the modules their slices; :meth:`keep_over` may keep more for a backward."""
        if self._gathering is not None:
            self.unshard()
        if not self.is_unsharded:
            return
        self._kept, self._rows = self._rows if before_backward and self._keepers is not None else None, []
        for p in self.params:
            p.free()
            p.use_sharded()
        self.is_unsharded = False

    def abandon(self) -> None:
        """After an exception: free the whole, without what has come of its gradients, and wait for nothing."""
        self._gathering, self._over_replicas, self.is_unsharded = None, None, False
        self._kept, self._rows = None, []
        for p in self.params:
            if p.unsharded is not None:
                p.unsharded.grad = None
            if any(module._parameters[name] is p.unsharded for module, name in p.uses):
                p.use_sharded()
            p.free()

    def write_back(self) -> None:
        """Keep what was written to the whole: each rank takes its slice."""
        if self.is_unsharded:
            for p in self.params:
                p.write_back()

    def show_grads(self) -> None:
        """While the whole is there, give it the whole of gradients."""
        if any(p.sharded.grad is not None and p.is_tensor_parallel for p in self.params):
            raise NotImplementedError("summon_full_params: with_grads is not supported with tensor parallelism")
        for p in self.params:
            p.show_grad()

    def hide_grads(self, writes_back: bool) -> None:
        """Take them back."""
        for p in self.params:
            p.hide_grad(writes_back)

    @oneflow.no_grad()
    def reduce(self) -> None:
        """Average the gradients that have come, or keep them where gradients are not synchronised."""
        trained = [p for p in self.params if p.sharded.requires_grad]
        if not self.reduces:
            for p in trained:
                p.keep_grad(self.policy.reduce_dtype)
            return
        outs = []
        for params in _by_dtype(trained, lambda p: self.policy.reduce_dtype or p.dtype):
            dtype = self.policy.reduce_dtype or params[0].dtype
            grads = [(p, p.take_grad()) for p in params]
            outs.append((self._reduced(grads, dtype), grads))
        if self.replicas is not None:
            flats = [out for out, _ in outs]
            if self._over_replicas is not None:
                for out, kept in zip(flats, self._over_replicas, strict=True):
                    out += kept
                self._over_replicas = None
            if not self.reduces_replicas:
                self._over_replicas = flats
                return
            for out in flats:
                with purpose(f"the gradients of {self._words}"):
                    distributed.all_reduce(out, self._reduce_op(), self.replicas)
                if self._divides_apart():
                    out /= self.mesh.size(0)
        if self.all_reduce_hook is not None:
            for out, grads in outs:
                self.all_reduce_hook(out[: len(out) - len(grads)])
        for out, grads in outs:
            at = 0
            # Asked only where a gradient is missing here: the answer has to come from the device.
            is_complete = all(grad is not None for _, grad in grads)
            counts = [1.0] * len(grads) if is_complete else out[len(out) - len(grads) :].tolist()
            for (p, _), count in zip(grads, counts, strict=True):
                if count:
                    p.add_grad(out[at : at + p.room])
                at += p.room

    def _reduced(self, grads: list[tuple[ShardedParam, Tensor | None]], dtype: Any) -> Tensor:
        """This rank's slices of the averages, one after the other; then for each whether any rank had a gradient."""
        total = sum(p.room for p, _ in grads) + len(grads)
        device = grads[0][0].device
        rows = oneflow.zeros(self.n, total, dtype=dtype, device=device)
        at = 0
        for p, grad in grads:
            if grad is not None:
                p.pack_grad(grad, rows[:, at : at + p.room])
            at += p.room
        for k, (_, grad) in enumerate(grads):
            if grad is not None:
                rows[:, at + k].fill_(1)
        if self.n == 1:
            out = rows.view(-1)
        else:
            out = oneflow.empty(total, dtype=dtype, device=device)
            with purpose(f"the gradients of {self._words}"):
                distributed.reduce_scatter_tensor(out, rows.view(-1), self._reduce_op(), self.group)
            if self._divides_apart():
                out /= self.n
        if self.divide_by is not None:
            out /= self.divide_by
        return out

    def _reduce_op(self) -> Any:
        averages = self.divide_by is None and not self.sums_only
        return distributed.ReduceOp.AVG if averages else distributed.ReduceOp.SUM

    def _divides_apart(self) -> bool:
        """Whether averages are sums that are divided afterwards."""
        return self.divide_by is None and self.sums_only

    def has_grads(self) -> bool:
        """Whether gradients of the whole have come since the last reduction."""
        return any(p.unsharded is not None and p.unsharded.grad is not None for p in self.params)


def _by_dtype(params: list[ShardedParam], dtype: Callable[[ShardedParam], Any]) -> list[list[ShardedParam]]:
    found: dict[Any, list[ShardedParam]] = {}
    for p in params:
        found.setdefault(dtype(p), []).append(p)
    return list(found.values())
