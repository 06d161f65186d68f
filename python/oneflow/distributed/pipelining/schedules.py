"""Schedules: a table of work, and the stages of this rank that it is done on.

One executor runs every table: it takes the actions of its row in order, receives what an action needs when its turn
has come
and sends what it made without waiting. The tables are checked when a schedule is made, on every rank alike, so a
schedule
that would wait for itself is refused before the first step. Modules of the stages are not wrapped: combine with data
parallelism by reducing gradients after ``step``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._schedules.generators import find, make_table
from oneflow._schedules.table import Action, PipelineTable
from oneflow.distributed.pipelining._messages import Messages
from oneflow.distributed.pipelining.microbatch import merge_chunks, split_args_kwargs_into_chunks
from oneflow.distributed.pipelining.stage import PipelineStage, _as_list

__all__ = [
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleTable",
    "ScheduleZBH1",
    "ScheduleZBVZeroBubble",
    "get_schedule_class",
]


class _PipelineSchedule:
    """What all schedules share: a table, stages, and a step."""

    def __init__(
        self,
        table: PipelineTable,
        stages: list[PipelineStage],
        loss_fn: Callable[..., Tensor] | None,
        args_chunk_spec: Any,
        kwargs_chunk_spec: Any,
        output_merge_spec: Any,
        scale_grads: bool,
    ) -> None:
        kind = type(self).__name__
        if loss_fn is not None and not callable(loss_fn):
            raise TypeError(f"{kind}: loss_fn must be callable, got {type(loss_fn).__name__}")
        self.table = table
        self._stages = {stage.stage_index: stage for stage in stages}
        self._loss_fn, self._scale_grads = loss_fn, scale_grads
        self._specs = (args_chunk_spec, kwargs_chunk_spec, output_merge_spec)
        first = stages[0]
        self._group, self._rank = first.group, first.group_rank
        if first.group_size != table.n_ranks:
            raise ValueError(f"{kind}: the table is for {table.n_ranks} ranks, and the group has {first.group_size}")
        wrong = sorted({s.num_stages for s in stages} - {table.n_stages})
        if wrong:
            raise ValueError(f"{kind}: the stages count {wrong[0]} stages, and the table has {table.n_stages}")
        mine = table.stages_of(self._rank)
        if sorted(self._stages) != mine or len(stages) != len(mine):
            given = [stage.stage_index for stage in stages]
            raise ValueError(f"{kind}: rank {self._rank} of the group has stages {mine}, got {given}")
        self._messages = Messages(self._group, table.n_micro_batches)

    @property
    def n_microbatches(self) -> int:
        """The micro-batches of a step."""
        return self.table.n_micro_batches

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Tensor] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        arg_mbs: Any = None,
        kwarg_mbs: Any = None,
        target_mbs: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Run all micro-batches forward and, with a loss, backward; gradients are those of the mean of their losses.

        Args:
            args: the whole batch, on the rank of the first stage. ``kwargs`` go to the module of every stage of this
                rank.
            target: what the loss compares with, on the rank of the last stage.
            losses: filled with the loss of each micro-batch there.
            return_outputs: return the last stage's results, put together; else None, as on other ranks.
            loss_kwargs: further arguments of the loss.
            arg_mbs: a tuple for each micro-batch in place of ``args``; so ``kwarg_mbs`` and ``target_mbs``.

        Raises:
            ValueError: a batch cannot be cut, whole and cut arguments are mixed, or there are not enough of them.
            RuntimeError: the schedule trains and gradients are off.
        """
        trains = self._loss_fn is not None and self.table.trains
        if trains and not oneflow.is_grad_enabled():
            raise RuntimeError(f"{type(self).__name__}.step() trains, and gradients are off: call eval() instead")
        return self._run(
            trains, args, kwargs, target, losses, loss_kwargs, return_outputs, (arg_mbs, kwarg_mbs, target_mbs)
        )

    def eval(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Tensor] | None = None,
        arg_mbs: Any = None,
        kwarg_mbs: Any = None,
        target_mbs: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Run all micro-batches forward only, without gradients. Arguments are those of :meth:`step`."""
        with oneflow.no_grad():
            return self._run(False, args, kwargs, target, losses, None, True, (arg_mbs, kwarg_mbs, target_mbs))

    # ---- the executor

    def _run(
        self,
        trains: bool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Any,
        losses: list[Tensor] | None,
        loss_kwargs: dict[str, Any] | None,
        return_outputs: bool,
        cut: tuple[Any, Any, Any],
    ) -> Any:
        batch = self._cut(args, kwargs, target, cut)
        run = _Run(self, batch, loss_kwargs or {}, trains)
        for stage in self._stages.values():
            stage.has_backward = trains
        row = self.table.rows[self._rank]
        try:
            for action in row if trains else [a for a in row if a.kind == "F"]:
                run.do(action)
            self._messages.finish()
        except BaseException:
            self._messages.forget()
            raise
        finally:
            for stage in self._stages.values():
                stage.forget()
        if losses is not None:
            losses[:] = [run.losses[m] for m in sorted(run.losses)]
        if not run.results or not return_outputs:
            return None
        return merge_chunks([run.results[m] for m in sorted(run.results)], self._specs[2])

    def _cut(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any, cut: tuple[Any, Any, Any]
    ) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]], list[Any]]:
        """The arguments, keyword arguments and targets of each micro-batch."""
        n = self.n_microbatches
        kind = type(self).__name__
        if any(c is not None for c in cut):
            if args or kwargs or target is not None:
                raise ValueError(
                    f"{kind}: give whole batches or micro-batches (arg_mbs, kwarg_mbs, target_mbs), not both"
                )
            for name, given in zip(("arg_mbs", "kwarg_mbs", "target_mbs"), cut, strict=True):
                if given is not None and len(given) != n:
                    raise ValueError(f"{kind}: {name} has {len(given)} entries for {n} micro-batches")
            arg_mbs, kwarg_mbs, target_mbs = cut
            return (
                [tuple(a) for a in arg_mbs or [()] * n],
                [dict(k) for k in kwarg_mbs or [{}] * n],
                list(target_mbs) if target_mbs is not None else [None] * n,
            )
        of_args, of_kwargs = split_args_kwargs_into_chunks(
            args, kwargs, n, self._specs[0] if args else None, self._specs[1]
        )
        of_target = split_args_kwargs_into_chunks((target,), None, n)[0]
        return of_args, of_kwargs, [t for (t,) in of_target]


class _Run:
    """One step of a rank."""

    def __init__(self, schedule: _PipelineSchedule, batch: Any, loss_kwargs: dict[str, Any], trains: bool) -> None:
        self._table, self._stages, self._messages = schedule.table, schedule._stages, schedule._messages
        self._rank, self._loss_fn, self._loss_kwargs = schedule._rank, schedule._loss_fn, loss_kwargs
        self._args, self._kwargs, self._targets = batch
        self._trains = trains
        self._scale = 1 / schedule.n_microbatches if schedule._scale_grads else 1.0
        # Of stages of this rank for each other: by stage, direction and micro-batch.
        self._handed: dict[tuple[int, bool, int], list[Tensor]] = {}
        self.losses: dict[int, Tensor] = {}
        self.results: dict[int, Any] = {}

    def do(self, action: Action) -> None:
        """Do one piece of work; an error says which."""
        try:
            if action.kind == "F":
                self._forward(action)
            elif action.kind == "B":
                self._backward(action)
            else:
                self._stages[action.stage].backward_weights(action.micro_batch)
        except Exception as error:
            names = {"F": "forward", "B": "backward", "W": "backward of weights"}
            where = f"in the {names[action.kind]} of pipeline stage {action.stage}, micro-batch {action.micro_batch}"
            if len(error.args) == 1 and isinstance(error.args[0], str):
                error.args = (f"{error}\n  {where}",)
            raise

    def _forward(self, action: Action) -> None:
        number, m, _ = action
        stage = self._stages[number]
        inputs = list(self._args[m]) if stage.is_first else self._take(number, False, m, number - 1)
        result = stage.forward(m, inputs, self._kwargs[m])
        if not stage.is_last:
            self._give(number + 1, False, m, _as_list(result))
            return
        self.results[m] = _detached(result)
        if self._loss_fn is not None and (self._trains or self._targets[m] is not None):
            loss = self._loss_fn(result, self._targets[m], **self._loss_kwargs)
            if not isinstance(loss, Tensor) or loss.numel() != 1:
                raise TypeError("pipeline: loss_fn must return a tensor of one element")
            self.losses[m] = loss

    def _backward(self, action: Action) -> None:
        number, m, _ = action
        stage = self._stages[number]
        roots: list[Tensor]
        grads: list[Tensor | None]
        if stage.is_last:
            loss = self.losses[m]
            if not loss.requires_grad:
                raise RuntimeError("pipeline: the loss requires no gradient")
            roots, grads = [loss], [oneflow.full_like(loss, self._scale)]
            self.losses[m] = loss.detach()
        else:
            roots = stage.outputs(m)
            grads = list(self._take(number, True, m, number + 1)) if roots else []
        found = stage.backward(m, roots, grads, self._table.splits(number, m))
        if found:
            self._give(number - 1, True, m, found)

    def _take(self, stage: int, backward: bool, m: int, source: int) -> list[Tensor]:
        """What a stage gets from a neighbour."""
        rank = self._table.rank_of(source)
        if rank == self._rank:
            return self._handed.pop((stage, backward, m))
        return self._messages.receive(rank, stage, backward, m, self._stages[stage].device)

    def _give(self, stage: int, backward: bool, m: int, tensors: list[Tensor]) -> None:
        rank = self._table.rank_of(stage)
        if rank == self._rank:
            # As if it had been sent: the graph ends here.
            self._handed[stage, backward, m] = [t.detach().requires_grad_(t.requires_grad) for t in tensors]
        else:
            self._messages.send(rank, stage, backward, m, tensors)


def _detached(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, (tuple, list)):
        return type(value)(_detached(v) for v in value)
    if isinstance(value, dict):
        return {name: _detached(v) for name, v in value.items()}
    return value


class PipelineScheduleSingle(_PipelineSchedule):
    """The base of schedules with one stage on each rank.

    Args:
        stage: of this rank; its index is the rank's number in the group.
        n_microbatches: of a step.
        loss_fn: called with the last stage's result and the target of a micro-batch; without it steps run forward only.
        args_chunk_spec: how arguments are cut, ``kwargs_chunk_spec`` those by name (``microbatch.TensorChunkSpec``).
        output_merge_spec: how results are put together.
        scale_grads: divide gradients by the number of micro-batches.

    Example::

        >>> from oneflow.distributed.pipelining import schedules
        >>> issubclass(schedules.ScheduleGPipe, schedules.PipelineScheduleSingle)
        True
    """

    _name = ""

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        if not isinstance(stage, PipelineStage):
            raise TypeError(f"{type(self).__name__}: expected a PipelineStage, got {type(stage).__name__}")
        table = make_table(self._name, stage.group_size, n_microbatches)
        super().__init__(table, [stage], loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)


class PipelineScheduleMulti(_PipelineSchedule):
    """The base of schedules with several stages on each rank.

    Args:
        stages: of this rank.
        n_microbatches: of a step; the other arguments are those of :class:`PipelineScheduleSingle`.

    Raises:
        NotImplementedError: an option of FSDP inside stages, or of the order of messages, differs from its default.

    Example::

        >>> from oneflow.distributed.pipelining import schedules
        >>> issubclass(schedules.ScheduleLoopedBFS, schedules.PipelineScheduleMulti)
        True
    """

    _name = ""

    def __init__(
        self,
        stages: list[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
        defer_pp_recv: bool = False,
        max_active_stages: int = 3,
        unshard_lookahead: Any = "full",
        *,
        defer_reduce_grad_wait: bool = False,
        max_outstanding_sends: int | None = None,
    ) -> None:
        for name, given, usual in (
            ("backward_requires_autograd", backward_requires_autograd, True),
            ("defer_pp_recv", defer_pp_recv, False),
            ("max_active_stages", max_active_stages, 3),
            ("unshard_lookahead", unshard_lookahead, "full"),
            ("defer_reduce_grad_wait", defer_reduce_grad_wait, False),
            ("max_outstanding_sends", max_outstanding_sends, None),
        ):
            if given != usual:
                raise NotImplementedError(f"{type(self).__name__}({name}={given!r}) is not supported")
        stages = _checked(stages, self)
        table = self._table(stages[0].group_size, n_microbatches, len(stages))
        super().__init__(table, stages, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)

    def _table(self, n_ranks: int, n_microbatches: int, stages_per_rank: int) -> PipelineTable:
        return make_table(self._name, n_ranks, n_microbatches, stages_per_rank)


def _checked(stages: Any, schedule: _PipelineSchedule) -> list[PipelineStage]:
    stages = list(stages) if isinstance(stages, (list, tuple)) else [stages]
    if not stages or not all(isinstance(stage, PipelineStage) for stage in stages):
        raise TypeError(f"{type(schedule).__name__}: expected a list of PipelineStages")
    return stages


class ScheduleGPipe(PipelineScheduleSingle):
    """All forwards, then all backwards. Bubble: ``3 (p - 1)`` ticks; it holds every micro-batch's activations.

    Example::

        >>> from oneflow.distributed import pipelining
        >>> stage = pipelining.PipelineStage(oneflow.nn.Linear(2, 1), 0, 1, "cpu")
        >>> schedule = pipelining.ScheduleGPipe(stage, 2, loss_fn=oneflow.nn.functional.mse_loss)
        >>> schedule.step(oneflow.ones(4, 2), target=oneflow.zeros(4, 1)).shape
        oneflow.Size([4, 1])
    """

    _name = "GPipe"


class Schedule1F1B(PipelineScheduleSingle):
    """One forward for one backward. Bubble: ``3 (p - 1)`` ticks; it holds ``p`` micro-batches at most.

    Example::

        >>> from oneflow.distributed import pipelining
        >>> stage = pipelining.PipelineStage(oneflow.nn.Linear(2, 1), 0, 1, "cpu")
        >>> schedule = pipelining.Schedule1F1B(stage, 2, loss_fn=oneflow.nn.functional.mse_loss)
        >>> schedule.step(oneflow.ones(4, 2), target=oneflow.zeros(4, 1)).shape
        oneflow.Size([4, 1])
    """

    _name = "1F1B"


class ScheduleZBH1(PipelineScheduleSingle):
    """1F1B whose gradients of weights fill the bubble, of which a third is left: ``p - 1`` ticks.

    Example::

        >>> from oneflow.distributed import pipelining
        >>> stage = pipelining.PipelineStage(oneflow.nn.Linear(2, 1), 0, 1, "cpu")
        >>> schedule = pipelining.ScheduleZBH1(stage, 2, loss_fn=oneflow.nn.functional.mse_loss)
        >>> schedule.step(oneflow.ones(4, 2), target=oneflow.zeros(4, 1)).shape
        oneflow.Size([4, 1])
    """

    _name = "ZB-H1"


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """1F1B over several stages a rank. Bubble: ``3 (p - 1)`` ticks of stages that are as many times smaller.

    Example::

        >>> from oneflow.distributed import pipelining
        >>> parts = [oneflow.nn.Linear(2, 2), oneflow.nn.Linear(2, 1)]
        >>> stages = [pipelining.PipelineStage(part, i, 2, "cpu") for i, part in enumerate(parts)]
        >>> schedule = pipelining.ScheduleInterleaved1F1B(stages, 2, loss_fn=oneflow.nn.functional.mse_loss)
        >>> schedule.step(oneflow.ones(4, 2), target=oneflow.zeros(4, 1)).shape
        oneflow.Size([4, 1])
    """

    _name = "Interleaved1F1B"


class ScheduleInterleavedZeroBubble(PipelineScheduleMulti):
    """Interleaved 1F1B whose gradients of weights fill the bubble: ``p - 1`` ticks are left.

    Example::

        >>> from oneflow.distributed import pipelining
        >>> parts = [oneflow.nn.Linear(2, 2), oneflow.nn.Linear(2, 1)]
        >>> stages = [pipelining.PipelineStage(part, i, 2, "cpu") for i, part in enumerate(parts)]
        >>> schedule = pipelining.ScheduleInterleavedZeroBubble(stages, 2, loss_fn=oneflow.nn.functional.mse_loss)
        >>> schedule.step(oneflow.ones(4, 2), target=oneflow.zeros(4, 1)).shape
        oneflow.Size([4, 1])
    """

    _name = "InterleavedZeroBubble"


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """GPipe over several stages a rank, breadth first. As in PyTorch it takes no specification of cuts.

    Example::

        >>> from oneflow.distributed import pipelining
        >>> parts = [oneflow.nn.Linear(2, 2), oneflow.nn.Linear(2, 1)]
        >>> stages = [pipelining.PipelineStage(part, i, 2, "cpu") for i, part in enumerate(parts)]
        >>> schedule = pipelining.ScheduleLoopedBFS(stages, 2, loss_fn=oneflow.nn.functional.mse_loss)
        >>> schedule.step(oneflow.ones(4, 2), target=oneflow.zeros(4, 1)).shape
        oneflow.Size([4, 1])
    """

    _name = "LoopedBFS"

    def __init__(
        self,
        stages: list[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(
            stages, n_microbatches, loss_fn, output_merge_spec=output_merge_spec, scale_grads=scale_grads, **options
        )


class ScheduleZBVZeroBubble(PipelineScheduleMulti):
    """Two stages a rank in the form of a V, no bubble: rank ``r`` of ``p`` has the stages ``r`` and ``2p - 1 - r``.

    Example::

        >>> from oneflow.distributed import pipelining
        >>> parts = [oneflow.nn.Linear(2, 2), oneflow.nn.Linear(2, 1)]
        >>> stages = [pipelining.PipelineStage(part, i, 2, "cpu") for i, part in enumerate(parts)]
        >>> schedule = pipelining.ScheduleZBVZeroBubble(stages, 2, loss_fn=oneflow.nn.functional.mse_loss)
        >>> schedule.step(oneflow.ones(4, 2), target=oneflow.zeros(4, 1)).shape
        oneflow.Size([4, 1])
    """

    _name = "ZB-V"


class ScheduleDualPipeV(PipelineScheduleMulti):
    """Two stages a rank in the form of a V; forwards of one stand beside backwards of the other.

    The pairs of the table run one after the other here: which part of one overlaps messages of the other is up to
    the device.

    Example::

        >>> from oneflow.distributed import pipelining
        >>> parts = [oneflow.nn.Linear(2, 2), oneflow.nn.Linear(2, 1)]
        >>> stages = [pipelining.PipelineStage(part, i, 2, "cpu") for i, part in enumerate(parts)]
        >>> schedule = pipelining.ScheduleDualPipeV(stages, 2, loss_fn=oneflow.nn.functional.mse_loss)
        >>> schedule.step(oneflow.ones(4, 2), target=oneflow.zeros(4, 1)).shape
        oneflow.Size([4, 1])
    """

    _name = "DualPipeV"


class ScheduleTable(PipelineScheduleMulti):
    """A schedule of any table.

    Args:
        stages: of this rank, as the table has them.
        table: a :class:`PipelineTable`; the other arguments are those of :class:`PipelineScheduleSingle`.

    Example::

        >>> from oneflow.distributed import pipelining
        >>> table = pipelining.PipelineTable([["0F0", "0F1", "0B1", "0B0"]])
        >>> stage = pipelining.PipelineStage(oneflow.nn.Linear(2, 1), 0, 1, "cpu")
        >>> schedule = pipelining.ScheduleTable([stage], table, loss_fn=oneflow.nn.functional.mse_loss)
        >>> schedule.step(oneflow.ones(4, 2), target=oneflow.zeros(4, 1)).shape
        oneflow.Size([4, 1])
    """

    def __init__(
        self,
        stages: list[PipelineStage],
        table: PipelineTable,
        loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        if not isinstance(table, PipelineTable):
            raise TypeError(f"ScheduleTable: expected a PipelineTable, got {type(table).__name__}")
        _PipelineSchedule.__init__(
            self,
            table,
            _checked(stages, self),
            loss_fn,
            args_chunk_spec,
            kwargs_chunk_spec,
            output_merge_spec,
            scale_grads,
        )


def get_schedule_class(schedule_name: str) -> type[_PipelineSchedule]:
    """Return the class of a schedule by its name, in any case.

    Raises:
        ValueError: there is none.

    Example::

        >>> oneflow.distributed.pipelining.schedules.get_schedule_class("zbvzerobubble").__name__
        'ScheduleZBVZeroBubble'
    """
    bases = {kind.__name__.lower(): kind for kind in (PipelineScheduleSingle, PipelineScheduleMulti)}
    if (base := bases.get(schedule_name.lower())) is not None:
        return base
    known = find(schedule_name)
    kinds: list[Any] = [*PipelineScheduleSingle.__subclasses__(), *PipelineScheduleMulti.__subclasses__()]
    return next(kind for kind in kinds if kind._name == known)
