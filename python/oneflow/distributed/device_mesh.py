"""Ranks as an array whose dimensions have names: PyTorch's ``torch.distributed.device_mesh``.

A mesh is an :class:`oneflow.placement` with names, and the process groups along its dimensions. Its ranks share a
dimension of a tensor in chunks, as PyTorch's do. Parts of a mesh use the
groups of the whole, so they are made without communication.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.distributed import _groups

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """An n-dimensional array of ranks, and a process group for each line of ranks along each dimension.

    All ranks of the job make the same mesh, also those that are not in it.

    Args:
        device_type: ``"cpu"`` or ``"cuda"``.
        mesh: the ranks, as nested lists or a tensor of integers.
        mesh_dim_names: a name for each dimension, for slices such as ``mesh["tp"]``.

    Raises:
        RuntimeError: ranks that the job does not have, or that appear twice; names that do not fit.

    Example::

        >>> def rank():
        ...     mesh = oneflow.distributed.DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))
        ...     return mesh["tp"].mesh.tolist(), mesh.get_local_rank("dp")
        >>> oneflow.testing.run_ranks(4, rank)
        [([0, 1], 0), ([0, 1], 0), ([2, 3], 1), ([2, 3], 1)]
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None,
        _init_backend: bool = True,
        _groups_of_dims: list[Any] | None = None,
        _root: DeviceMesh | None = None,
    ) -> None:
        if backend_override is not None:
            raise NotImplementedError("DeviceMesh: backend_override is not supported; a mesh uses the job's backend")
        nested = mesh.tolist() if isinstance(mesh, Tensor) or hasattr(mesh, "tolist") else mesh
        world = _groups._world()
        self.device_type = device_type
        self._placement = _placement(device_type, nested, world.size())
        self._world = world
        self._ranks: list[int] = self._placement.ranks.reshape(-1).tolist()
        self._shape: tuple[int, ...] = tuple(self._placement.hierarchy)
        self._dim_names = _checked_names(mesh_dim_names, self._shape)
        self._root = _root
        self._flattened: dict[str, DeviceMesh] = {}
        self._orders: dict[tuple[int, ...], Any] = {}
        # The names of the dimensions that were flattened into this one.
        self._flat_of: tuple[str, ...] = ()
        if _groups_of_dims is None and _init_backend:
            _groups_of_dims = _make_groups(world, self._placement, self._ranks, self._shape)
        self._groups = _groups_of_dims
        if _groups_of_dims is not None and self.get_coordinate() is not None:
            _oneflow._adopt_axis_groups(self._placement, _groups_of_dims)
        _register(self)

    # ---- what it is

    @property
    def mesh(self) -> Tensor:
        """The ranks, a tensor of int32 of the mesh's shape."""
        return oneflow.tensor(self._placement.ranks.tolist(), dtype=oneflow.int32)

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The names of the dimensions, or None."""
        return self._dim_names

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of ranks along each dimension."""
        return self._shape

    @property
    def placement(self) -> Any:
        """The :class:`oneflow.placement` of global tensors over this mesh, with ``parts="chunks"``."""
        return self._placement

    def size(self, mesh_dim: int | str | None = None) -> int:
        """Return the number of ranks, of all or along a dimension."""
        return math.prod(self._shape) if mesh_dim is None else self._shape[self._dim(mesh_dim)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        return self._placement == other._placement and self._dim_names == other._dim_names

    def __hash__(self) -> int:
        return hash((self._placement, self._dim_names))

    def __repr__(self) -> str:
        names = self._dim_names or range(self.ndim)
        shape = ", ".join(f"{name}={n}" for name, n in zip(names, self._shape, strict=True))
        return f"DeviceMesh(({shape}), '{self.device_type}', ranks={self._ranks})"

    def __deepcopy__(self, memo: Any) -> DeviceMesh:
        return self

    def __enter__(self) -> DeviceMesh:
        _table().current.append(self)
        return self

    def __exit__(self, *exc: Any) -> None:
        _table().current.pop()

    # ---- where this rank is

    def get_rank(self) -> int:
        """Return this rank's number in the job."""
        return self._world.rank()

    def get_coordinate(self) -> list[int] | None:
        """Return this rank's place along each dimension; None on a rank outside the mesh."""
        if (rank := self.get_rank()) not in self._ranks:
            return None
        at, place = self._ranks.index(rank), []
        for n in reversed(self._shape):
            at, here = divmod(at, n)
            place.append(here)
        return place[::-1]

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return this rank's place along a dimension, which a mesh of one dimension need not name.

        Raises:
            RuntimeError: no dimension is given and there are several, or this rank is outside the mesh.
        """
        dim = self._only_dim(mesh_dim)
        place = self.get_coordinate()
        if place is None:
            raise RuntimeError(f"get_local_rank: rank {self.get_rank()} is not part of {self}")
        return place[dim]

    # ---- groups

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """Return the process group of this rank along a dimension, which a mesh of one dimension need not name.

        Raises:
            RuntimeError: no dimension is given and there are several.
            KeyError: no dimension is called so.
        """
        if isinstance(mesh_dim, str) and mesh_dim not in (self._dim_names or ()):
            if (flat := self._top()._flattened.get(mesh_dim)) is not None:
                return flat.get_group()
        dim = self._only_dim(mesh_dim)
        return self.get_all_groups()[dim]

    def get_all_groups(self) -> list[Any]:
        """Return the process groups of this rank, one for each dimension."""
        if self._groups is None:
            self._groups = _make_groups(self._world, self._placement, self._ranks, self._shape)
        return list(self._groups)

    @staticmethod
    def from_group(
        group: Any,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """Return the mesh over a group, or over one group for each dimension of ``mesh``.

        Example::

            >>> def rank():
            ...     group = oneflow.distributed.new_group([0, 1])
            ...     return oneflow.distributed.DeviceMesh.from_group(group, "cpu").size()
            >>> oneflow.testing.run_ranks(2, rank)
            [2, 2]
        """
        if isinstance(group, (list, tuple)):
            if not group:
                raise ValueError("Expect at least one ProcessGroup to be specified")
            if mesh is None:
                raise ValueError("Must pass mesh if passing multiple ProcessGroups")
            groups = list(group)
        else:
            groups = [group]
            ranks = _groups.get_process_group_ranks(group)
            if mesh is None:
                mesh = ranks
            elif (mesh.tolist() if hasattr(mesh, "tolist") else list(mesh)) != ranks:
                raise ValueError(f"Invalid mesh {mesh} for the ranks {ranks} of the group")
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _groups_of_dims=groups)
        if len(groups) != made.ndim:
            raise ValueError(f"Expects mesh with ndim equal to the {len(groups)} groups, got {made.ndim}")
        return made

    # ---- parts

    def __getitem__(self, mesh_dim_names: str | Sequence[str]) -> DeviceMesh:
        """Return the part of the mesh that holds this rank, along the dimensions named, or such that were flattened.

        Raises:
            RuntimeError: the mesh has no names.
            KeyError: a dimension is not there, or they are not in the mesh's order.
        """
        if not self._dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self._dim_names:
            return self
        flattened = self._top()._flattened
        if len(names) == 1 and names[0] in flattened:
            return flattened[names[0]]
        lines = [self._dims_of(name) for name in names]
        dims = [d for line in lines for d in line]
        if not dims or sorted(set(dims)) != dims:
            raise KeyError(f"Invalid mesh_dim_names {names} specified: they must be in the order {self._dim_names}.")
        if len(dims) == len(names):
            return self._part(dims, names)
        whole = self._part(dims, tuple((self._dim_names)[d] for d in dims))
        shape = [math.prod(self._shape[d] for d in line) for line in lines]
        return DeviceMesh(
            self.device_type,
            whole._placement.ranks.reshape(shape).tolist(),
            mesh_dim_names=names,
            _init_backend=False,
            _groups_of_dims=[self.get_group(name) for name in names],
            _root=self._top(),
        )

    def _dims_of(self, name: str) -> tuple[int, ...]:
        """The dimensions behind a name, several for one that was flattened."""
        own, flattened = self._dim_names or (), self._top()._flattened
        if name in own:
            return (own.index(name),)
        if name in flattened and set(flattened[name]._flat_of) <= set(own):
            return tuple(own.index(part) for part in flattened[name]._flat_of)
        raise KeyError(f"Invalid mesh_dim_name {name} specified. Valid mesh_dim_names are {[*own, *flattened]}.")

    def _part(self, dims: list[int], names: tuple[str, ...] | None) -> DeviceMesh:
        place = self.get_coordinate() or [0] * self.ndim
        index = tuple(slice(None) if d in dims else place[d] for d in range(self.ndim))
        groups = None if self._groups is None else [self._groups[d] for d in dims]
        ranks = self._placement.ranks[index].tolist()
        part = DeviceMesh(
            self.device_type,
            ranks,
            mesh_dim_names=names,
            _init_backend=False,
            _groups_of_dims=groups,
            _root=self._top(),
        )
        return part

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """Return a mesh of one dimension over the same ranks. All ranks of the mesh that this is a part of call it.

        Afterwards the whole mesh finds it under its name, by default the names of its dimensions joined by ``_``.
        """
        top = self._top()
        if mesh_dim_name is None:
            mesh_dim_name = "_".join(self._dim_names or ("all",))
        if mesh_dim_name in (top._dim_names or ()) and self.ndim > 1:
            raise ValueError(f"{mesh_dim_name} already exists for submesh of the {self}.")
        if (found := top._flattened.get(mesh_dim_name)) is not None:
            if found._ranks != self._ranks:
                raise ValueError(f"Flatten mesh with mesh_dim_name {mesh_dim_name} has been created for {found}.")
            return found
        group = self.get_group() if self.ndim == 1 else self._group_of_all(top)
        flat = DeviceMesh(
            self.device_type, self._ranks, mesh_dim_names=(mesh_dim_name,), _groups_of_dims=[group], _root=top
        )
        flat._flat_of = self._dim_names or ()
        top._flattened[mesh_dim_name] = flat
        return flat

    def _group_of_all(self, top: DeviceMesh) -> Any:
        """The group of this part's ranks; every rank of the whole makes the groups of all such parts."""
        own = top._placement.ranks
        if self is top:
            return _own_group(self._world, [self._ranks])
        names = top._dim_names or ()
        inside = [d for d in range(top.ndim) if names[d] in (self._dim_names or ())]
        outside = [d for d in range(top.ndim) if d not in inside]
        lines = own.transpose(*outside, *inside).reshape(-1, self.size()).tolist()
        return _own_group(self._world, lines)

    # ---- helpers

    def _top(self) -> DeviceMesh:
        return self if self._root is None else self._root

    def _get_root_mesh(self) -> DeviceMesh:
        return self._top()

    def _dim(self, mesh_dim: int | str) -> int:
        if isinstance(mesh_dim, str):
            if mesh_dim not in (self._dim_names or ()):
                raise KeyError(f"Mesh dimension '{mesh_dim}' does not exist. Available: {self._dim_names}")
            return (self._dim_names or ()).index(mesh_dim)
        if not -self.ndim <= mesh_dim < self.ndim:
            raise IndexError(f"mesh_dim {mesh_dim} is out of range for a mesh of {self.ndim} dimensions")
        return mesh_dim % self.ndim

    def _only_dim(self, mesh_dim: int | str | None) -> int:
        if mesh_dim is not None:
            return self._dim(mesh_dim)
        if self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs to be specified "
                "when device_mesh.ndim > 1."
            )
        return 0


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """Return the mesh of this shape over the first ranks of the job, in their order.

    Args:
        device_type: ``"cpu"`` or ``"cuda"``.
        mesh_shape: ranks along each dimension.
        mesh_dim_names: a name for each.

    Raises:
        RuntimeError: more ranks than the job has, names that do not fit, or a device type with an index.

    Example::

        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp"))
        ...     return mesh.shape, mesh["dp"].get_local_rank()
        >>> oneflow.testing.run_ranks(2, rank)
        [((2, 1), 0), ((2, 1), 1)]
    """
    shape = tuple(mesh_shape) if isinstance(mesh_shape, (list, tuple)) else (mesh_shape,)
    if mesh_dim_names is not None:
        _checked_names(mesh_dim_names, shape)
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. "
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'."
        )
    if not shape or any(not isinstance(n, int) or n < 1 for n in shape):
        raise RuntimeError(f"mesh_shape must be positive numbers of ranks, got {mesh_shape}")
    ranks = oneflow.arange(math.prod(shape)).view(*shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, backend_override=backend_override)


def mesh_of(placement: Any) -> DeviceMesh | None:
    """The mesh that this thread has made over the ranks of a placement, if it has made one in its present job."""
    found = _table().meshes.get(placement._with_parts("chunks")) or axes_of(placement)[0]
    if found is None or found._world != _oneflow._world_group():
        return None
    return found


def reordered(mesh: DeviceMesh, axes: tuple[int, ...]) -> Any:
    """The placement over a mesh whose dimensions stand in another order: they cut a tensor in that order."""
    if axes == tuple(range(mesh.ndim)):
        return mesh.placement
    placement = mesh._orders.get(axes)
    if placement is None:
        placement = _placement(mesh.device_type, mesh.placement.ranks.transpose(axes).tolist(), mesh._world.size())
        if mesh._groups is not None and mesh.get_coordinate() is not None:
            _oneflow._adopt_axis_groups(placement, [mesh._groups[axis] for axis in axes])
        mesh._orders[axes] = placement
    _table().orders[placement] = (mesh, axes)
    return placement


def axes_of(placement: Any) -> tuple[DeviceMesh | None, tuple[int, ...]]:
    """The mesh, and the order of its dimensions, of a placement of :func:`reordered`; of others no mesh."""
    chunks = placement._with_parts("chunks")
    own = tuple(range(len(placement.hierarchy)))
    return (None, own) if chunks in _table().meshes else _table().orders.get(chunks, (None, own))


def mesh_or_new(placement: Any) -> DeviceMesh:
    """The mesh over the ranks of a placement; one without names if nobody has made it."""
    found = mesh_of(placement)
    return found or DeviceMesh(placement.type, placement.ranks.tolist(), _init_backend=False)


def current_mesh() -> DeviceMesh | None:
    """The mesh whose ``with`` block this is."""
    current = _table().current
    return current[-1] if current else None


class _Table(threading.local):
    """Ranks may be threads of one process, each with meshes of its own."""

    def __init__(self) -> None:
        self.meshes: dict[Any, DeviceMesh] = {}
        self.orders: dict[Any, tuple[DeviceMesh, tuple[int, ...]]] = {}
        self.current: list[DeviceMesh] = []


_TABLE = _Table()


def _table() -> _Table:
    return _TABLE


def _register(mesh: DeviceMesh) -> None:
    known = _TABLE.meshes.get(mesh._placement)
    # A tensor knows its ranks alone: the mesh that has names says more.
    if known is None or known._world != mesh._world or known._dim_names is None or mesh._dim_names is not None:
        _TABLE.meshes[mesh._placement] = mesh


def _placement(device_type: str, nested: Any, n_ranks: int) -> Any:
    flat = _flat(nested)
    if len(set(flat)) != len(flat):
        raise RuntimeError(f"Mesh cannot contain duplicate values, but found {nested}")
    if len(flat) > n_ranks or max(flat, default=0) >= n_ranks:
        raise RuntimeError(
            f"Mesh should not be bigger than default world size {n_ranks}, but found {len(flat)} ranks: {nested}"
        )
    return oneflow.placement(device_type, nested if isinstance(nested, list) else [nested], parts="chunks")


def _flat(nested: Any) -> list[int]:
    return [r for item in nested for r in _flat(item)] if isinstance(nested, (list, tuple)) else [nested]


def _checked_names(names: Sequence[str] | None, shape: Sequence[int]) -> tuple[str, ...] | None:
    if names is None:
        return None
    if len(set(names)) != len(names):
        raise RuntimeError(f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in {tuple(names)}")
    if len(names) != len(shape):
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! "
            f"Found len(mesh_dim_names): {len(names)} and len(mesh_shape): {len(shape)}"
        )
    return tuple(names)


def _make_groups(world: Any, placement: Any, ranks: list[int], shape: tuple[int, ...]) -> list[Any]:
    """One group for each dimension. Every rank of the job makes all of them, in one order."""
    found = _oneflow._axis_groups(placement)
    for axis, n in enumerate(shape):
        if n == 1:
            # Global tensors need no group of one rank, and users ask for it.
            found[axis] = _own_group(world, [[r] for r in ranks])
    return found


def _own_group(world: Any, lines: list[list[int]]) -> Any:
    own = None
    for line in lines:
        if line == list(range(world.size())):
            own = world
            continue
        made = _groups.new_group(line, sort_ranks=False)
        own = made if world.rank() in line else own
    return own


class _MeshEnv:
    """PyTorch's private table of meshes, as far as programs ask it."""

    def get_current_mesh(self) -> DeviceMesh:
        """The mesh whose ``with`` block this is."""
        found = current_mesh()
        if found is None:
            raise RuntimeError("No device mesh is currently active!")
        return found

    def get_root_mesh(self, device_mesh: DeviceMesh) -> DeviceMesh:
        """The mesh that this is a part of."""
        return device_mesh._get_root_mesh()

    def get_root_mesh_dim(self, device_mesh: DeviceMesh) -> int | None:
        """The dimension of the whole mesh that a part of one dimension is; None for others."""
        root, names = device_mesh._get_root_mesh(), device_mesh.mesh_dim_names
        if names is None or len(names) != 1 or names[0] not in (root.mesh_dim_names or ()):
            return None
        return self.get_mesh_dim_by_name(root, names[0])

    def get_mesh_dim_by_name(self, device_mesh: DeviceMesh, mesh_dim_name: str) -> int:
        """The dimension of this name."""
        return device_mesh._dim(mesh_dim_name)

    @property
    def flatten_name_to_root_dims(self) -> dict[DeviceMesh, dict[str, tuple[int, ...]]]:
        """For each whole mesh of this thread, the dimensions behind the names of its flattened parts."""
        roots = {mesh._get_root_mesh() for mesh in _table().meshes.values()}
        return {root: {name: root._dims_of(name) for name in root._flattened} for root in roots}

    def _get_all_submeshes(self, device_mesh: DeviceMesh, mesh_dim_name: str) -> list[DeviceMesh]:
        """The lines of a mesh along a dimension, those of other ranks too."""
        dim = self.get_mesh_dim_by_name(device_mesh, mesh_dim_name)
        others = [d for d in range(device_mesh.ndim) if d != dim]
        lines = device_mesh._placement.ranks.transpose(*others, dim).reshape(-1, device_mesh.size(dim)).tolist()
        own = device_mesh[mesh_dim_name]
        return [
            own
            if line == own._ranks
            else DeviceMesh(device_mesh.device_type, line, mesh_dim_names=(mesh_dim_name,), _init_backend=False)
            for line in lines
        ]


_mesh_resources = _MeshEnv()
