"""Pipeline parallelism under PyTorch's names: stages on ranks, schedules as tables, modules cut into stages.

Example::

    >>> from oneflow.distributed.pipelining import PipelineStage, ScheduleGPipe
    >>> def rank():
    ...     dist = oneflow.distributed
    ...     here, n = dist.get_rank(), dist.get_world_size()
    ...     oneflow.manual_seed(here)
    ...     stage = PipelineStage(oneflow.nn.Linear(2, 2), here, n, "cpu")
    ...     schedule = ScheduleGPipe(stage, 2, loss_fn=oneflow.nn.functional.mse_loss)
    ...     if here == 0:
    ...         return schedule.step(oneflow.ones(4, 2))
    ...     return schedule.step(target=oneflow.zeros(4, 2)).shape
    >>> oneflow.testing.run_ranks(2, rank)
    [None, oneflow.Size([4, 2])]
"""

from oneflow._schedules.generators import make_table
from oneflow._schedules.table import Action, PipelineTable
from oneflow.distributed.pipelining._splitting import Pipe, SplitPoint, pipe_split, pipeline
from oneflow.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleTable,
    ScheduleZBH1,
    ScheduleZBVZeroBubble,
)
from oneflow.distributed.pipelining.stage import PipelineStage, build_stage

__all__ = [
    "Action",
    "Pipe",
    "PipelineStage",
    "PipelineTable",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleTable",
    "ScheduleZBH1",
    "ScheduleZBVZeroBubble",
    "SplitPoint",
    "build_stage",
    "make_table",
    "pipe_split",
    "pipeline",
]
