"""Groups as objects: PyTorch's methods of process groups, which return works.

Several tensors of one rank are what PyTorch's gloo makes of them: ``allreduce`` reduces over all tensors of all ranks,
``broadcast`` overwrites all with one of the root's. Lists are checked by ``_process_group_checks``.
"""

from __future__ import annotations

import datetime
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.distributed import _process_group_checks as check
from oneflow.distributed._groups import _seconds
from oneflow.distributed._work import _Steps

_OF_TWO: dict[str, Any] = {
    "sum": oneflow.add,
    "product": oneflow.mul,
    "min": oneflow.minimum,
    "max": oneflow.maximum,
    "band": oneflow.bitwise_and,
    "bor": oneflow.bitwise_or,
    "bxor": oneflow.bitwise_xor,
}


def _op(opts: Any, op: Any = None) -> str:
    return op or getattr(opts, "reduceOp", opts) or "sum"


def _root(opts: Any, root: int | None) -> int:
    if root is not None:
        return int(root)
    return int(getattr(opts, "rootRank", opts or 0))


def _time(opts: Any, timeout: Any) -> float | None:
    """Seconds that an operation may take; ``None``: the time of the group."""
    given = _seconds(getattr(opts, "timeout", None) if timeout is None else timeout)
    return None if given is None or given < 0 else given


def _copy(places: list[Tensor], values: Any) -> None:
    with oneflow.no_grad():
        for place, value in zip(places, values, strict=True):
            place.copy_(value.view(place.shape))


def _copy_sparse(places: list[Tensor], value: Tensor) -> None:
    with oneflow.no_grad():
        for place in places:
            place.copy_(value)


def _flat(tensors: list[Tensor]) -> Tensor:
    with oneflow.no_grad():
        return oneflow.cat([tensor.reshape(-1) for tensor in tensors])


class _GroupOptions:
    """What a group was made with: ``_timeout``, a ``datetime.timedelta``."""

    def __init__(self, group: Any) -> None:
        self._group = group

    @property
    def _timeout(self) -> datetime.timedelta:
        return datetime.timedelta(seconds=self._group.timeout())

    @property
    def backend(self) -> str:
        return self._group.backend()


class _Methods:
    """What is attached to the compiled class of groups."""

    def allreduce(self: Any, tensors: Any, opts: Any = None, timeout: Any = None, *, op: Any = None) -> Any:
        """Start reducing over all tensors of all ranks, in place."""
        found, chosen = check.tensors_of("allreduce", tensors), _op(opts, op)
        check.not_empty("allreduce", found)
        check.one_layout("allreduce", found)
        check.alike("allreduce", found, found[0])
        limit = _time(opts, timeout)
        if found[0].is_sparse:
            from oneflow.distributed import _sparse

            with oneflow.no_grad():
                total = found[0] if len(found) == 1 else sum(found[1:], found[0]).coalesce()
            work = _sparse.all_reduce(self, total, chosen)
            return work if len(found) == 1 else _Steps([work], lambda: _copy_sparse(found, total), found)
        if len(found) == 1 and found[0].is_contiguous():
            return self.issue("all_reduce", found[0], op=chosen, timeout=limit)
        if chosen not in _OF_TWO and len(found) > 1:
            raise NotImplementedError(f"ProcessGroup.allreduce: {chosen!r} of several tensors of one rank")
        with oneflow.no_grad():
            whole = found[0].clone(memory_format=oneflow.contiguous_format)
            for tensor in found[1:]:
                _OF_TWO[chosen](whole, tensor, out=whole)
        work = self.issue("all_reduce", whole, op=chosen, timeout=limit)
        return _Steps([work], lambda: _copy(found, [whole] * len(found)), found)

    def allreduce_coalesced(self: Any, tensors: Any, opts: Any = None) -> Any:
        """Start reducing each tensor of a list over all ranks, in place, as one operation."""
        name = "allreduce_coalesced"
        found = check.tensors_of(name, tensors)
        check.not_empty(name, found)
        check.dense(name, found)
        if any(tensor.dtype != found[0].dtype for tensor in found):
            raise RuntimeError(f"ProcessGroup::{name}: tensors must all have the same type")
        whole = _flat(found)
        work = self.issue("all_reduce", whole, op=_op(opts), timeout=_time(opts, None))
        return _Steps([work], lambda: _copy(found, whole.split([t.numel() for t in found])), found)

    def broadcast(self: Any, tensors: Any, opts: Any = None, timeout: Any = None, *, root: int | None = None) -> Any:
        """Start overwriting all tensors with one of the root's."""
        found, source, place = check.tensors_of("broadcast", tensors), _root(opts, root), getattr(opts, "rootTensor", 0)
        check.root_rank("broadcast", source, self.size())
        check.root_tensor("broadcast", place, len(found))
        check.dense("broadcast", found)
        check.alike("broadcast", found, found[0])
        limit = _time(opts, timeout)
        if len(found) == 1 and found[0].is_contiguous():
            return self.issue("broadcast", found[0], peer=source, timeout=limit)
        with oneflow.no_grad():
            whole = found[place].clone(memory_format=oneflow.contiguous_format)
        work = self.issue("broadcast", whole, peer=source, timeout=limit)
        return _Steps([work], lambda: _copy(found, [whole] * len(found)), found)

    def reduce(
        self: Any, tensors: Any, opts: Any = None, op: Any = None, timeout: Any = None, *, root: int | None = None
    ) -> Any:
        """Start reducing into the tensor of the root."""
        found, target = check.tensors_of("reduce", tensors), _root(opts, root)
        check.root_rank("reduce", target, self.size())
        check.root_tensor("reduce", getattr(opts, "rootTensor", 0), len(found))
        mine = check.single("reduce", found)
        return self.issue("reduce", mine, op=_op(opts, op), peer=target, timeout=_time(opts, timeout))

    def allgather(self: Any, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: Any = None) -> Any:
        """Start filling each list with the tensors of all ranks."""
        inputs = check.tensors_of("allgather", input_tensors, "input_tensors")
        rows, size = check.lists_of("allgather", output_tensors, "output_tensors"), self.size()
        check.gathered_rows("allgather", rows, inputs, size)
        mine = _flat(inputs)
        whole = mine.new_empty(mine.numel() * size)

        def hand_out() -> None:
            pieces = whole.split(inputs[0].numel()) if inputs[0].numel() else [inputs[0]] * len(rows[0])
            for row in rows:
                _copy(row, pieces)

        work = self.issue("all_gather", whole, mine, timeout=_time(opts, timeout))
        result: Any = rows[0] if len(rows) == 1 else rows
        return _Steps([work], hand_out, result)

    def allgather_into_tensor_coalesced(self: Any, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Start filling each output with every rank's input, one after the other."""
        limit = _time(opts, None)
        works = [self.issue("all_gather", o, i, timeout=limit) for o, i in zip(outputs, inputs, strict=True)]
        return _Steps(works, None, list(outputs))

    def reduce_scatter_tensor_coalesced(self: Any, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Start reducing each input over all ranks, of which each rank keeps its piece."""
        op, limit = _op(opts), _time(opts, None)
        works = [self.issue("reduce_scatter", o, i, op=op, timeout=limit) for o, i in zip(outputs, inputs, strict=True)]
        return _Steps(works, None, list(outputs))

    def _allgather_base(self: Any, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        return self.issue("all_gather", output, input, timeout=_time(opts, None))

    def gather(
        self: Any,
        output_tensors: Any,
        input_tensors: Any,
        opts: Any = None,
        timeout: Any = None,
        *,
        root: int | None = None,
    ) -> Any:
        """Start collecting every rank's tensor at the root."""
        target, size = _root(opts, root), self.size()
        check.root_rank("gather", target, size)
        mine = check.single("gather", check.tensors_of("gather", input_tensors, "input_tensors"), "input tensor list")
        rows, is_root = check.lists_of("gather", output_tensors, "output_tensors"), self.rank() == target
        places = check.rows_of_root("gather", rows, "output", is_root, size, mine)
        whole = mine.new_empty(mine.numel() * size) if is_root else mine.new_empty(0)
        work = self.issue("gather", whole, mine.contiguous(), peer=target, timeout=_time(opts, timeout))
        if places is None:
            return _Steps([work], None, [])
        return _Steps([work], lambda: _copy(places, whole.chunk(size) if len(whole) else places), places)

    def scatter(
        self: Any,
        output_tensors: Any,
        input_tensors: Any,
        opts: Any = None,
        timeout: Any = None,
        *,
        root: int | None = None,
    ) -> Any:
        """Start giving each rank its tensor of the root's list."""
        source, size = _root(opts, root), self.size()
        check.root_rank("scatter", source, size)
        mine = check.single(
            "scatter", check.tensors_of("scatter", output_tensors, "output_tensors"), "output tensor list"
        )
        rows = check.lists_of("scatter", input_tensors, "input_tensors")
        parts = check.rows_of_root("scatter", rows, "input", self.rank() == source, size, mine)
        whole = mine.new_empty(0) if parts is None else _flat(parts)
        place = mine if mine.is_contiguous() else mine.contiguous()
        work = self.issue("scatter", place, whole, peer=source, timeout=_time(opts, timeout))
        return _Steps([work], None if place is mine else lambda: _copy([mine], [place]), [mine])

    def reduce_scatter(
        self: Any, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: Any = None, *, op: Any = None
    ) -> Any:
        """Start reducing lists over all ranks, of which each keeps its tensor."""
        name, size = "reduce_scatter", self.size()
        mine = check.single(name, check.tensors_of(name, output_tensors, "output_tensors"), "output tensor list")
        parts = check.rows_of_root(
            name, check.lists_of(name, input_tensors, "input_tensors"), "input", True, size, mine
        )
        place = mine if mine.is_contiguous() else mine.contiguous()
        whole, chosen = _flat(parts or []), _op(opts, op)
        work = self.issue("reduce_scatter", place, whole, op=chosen, timeout=_time(opts, timeout))
        return _Steps([work], None if place is mine else lambda: _copy([mine], [place]), [mine])

    def _reduce_scatter_base(self: Any, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        return self.issue("reduce_scatter", output, input, op=_op(opts), timeout=_time(opts, None))

    def alltoall_base(
        self: Any, output: Tensor, input: Tensor, output_split_sizes: Any, input_split_sizes: Any, opts: Any = None
    ) -> Any:
        """Start sending pieces of a tensor to all ranks."""
        from oneflow import distributed

        return distributed.all_to_all_single(output, input, output_split_sizes, input_split_sizes, self, async_op=True)

    def alltoall(self: Any, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """Start sending a tensor to each rank."""
        from oneflow import distributed

        return distributed.all_to_all(list(output_tensors), list(input_tensors), self, async_op=True)

    def send(self: Any, tensors: Any, dstRank: int, tag: int = 0) -> Any:
        """Start sending to a rank of the group."""
        return self.issue("send", check.single("send", check.tensors_of("send", tensors)), peer=dstRank, tag=tag)

    def recv(self: Any, tensors: Any, srcRank: int, tag: int = 0) -> Any:
        """Start receiving from a rank of the group."""
        return self.issue("recv", check.single("recv", check.tensors_of("recv", tensors)), peer=srcRank, tag=tag)

    def recv_anysource(self: Any, tensors: Any, tag: int = 0) -> Any:
        """Start receiving from whichever rank sends first."""
        place = check.single("recv_anysource", check.tensors_of("recv_anysource", tensors))
        return self.issue("recv", place, peer=-1, tag=tag)

    def barrier(self: Any, opts: Any = None, timeout: Any = None) -> Any:
        """Start waiting until every rank has called it."""
        return self.issue("barrier", oneflow.empty(0), timeout=_time(opts, timeout))

    def monitored_barrier(self: Any, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """Wait for all ranks; the error names those that are missing."""
        from oneflow import distributed

        distributed.monitored_barrier(self, timeout, wait_all_ranks)

    def split_group(self: Any, ranks: list[int], timeout: Any = None, opts: Any = None, desc: Any = None) -> Any:
        """Make a group of some of this group's ranks; ``None`` on the others."""
        return self.new_group(list(ranks), _seconds(timeout))

    def shutdown(self: Any) -> None:
        """Leave the group."""
        self.close()

    @property
    def options(self: Any) -> Any:
        """What the group was made with."""
        return _GroupOptions(self)

    def _set_default_timeout(self: Any, timeout: Any) -> None:
        self.set_timeout(_seconds(timeout))

    @property
    def group_name(self: Any) -> str:
        """The name of the group, the same on all of its ranks."""
        return self.name()

    @property
    def group_desc(self: Any) -> str:
        """A name for people."""
        return "default_pg" if self.name() == "world" else self.name()

    def _get_backend(self: Any, device: Any) -> Any:
        return self

    def _get_backend_name(self: Any) -> str:
        return self.backend()

    def getBackendName(self: Any) -> str:
        """The name of the backend."""
        return self.backend()

    @staticmethod
    def create_device(hostname: str = "", interface: str = "", lazy_init: bool | None = None) -> Any:
        """Return what :class:`ProcessGroupGloo` takes as a device."""
        from oneflow.distributed._process_group_gloo import ProcessGroupGloo

        return ProcessGroupGloo.create_device(hostname, interface, lazy_init)


def _attach() -> None:
    for name, member in vars(_Methods).items():
        if not name.startswith("__") and name not in vars(_oneflow._ProcessGroup):
            setattr(_oneflow._ProcessGroup, name, member)


_attach()
