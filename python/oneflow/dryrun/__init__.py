"""Dry runs: what a step of a graph takes on a described cluster, before a machine is rented.

The graph is traced and compiled as each rank would compile it, without memory for large tensors, and the plans of all
ranks run on a simulator of devices and links. ``python -m oneflow.dryrun --cluster cluster.toml script.py`` does so
with the first graph that a script calls.

Example::

    >>> class Twice(oneflow.nn.Graph):
    ...     def build(self, x):
    ...         return x * 2
    >>> oneflow.dryrun.dry_run(Twice(), oneflow.ones(1024, 8), cluster="4xcpu").n_ranks
    1
"""

from oneflow.dryrun._calibrate import calibrate, measure
from oneflow.dryrun._job import dry_run
from oneflow.dryrun._report import Report
from oneflow.dryrun._schedule import ScheduleReport, simulate_schedule
from oneflow.dryrun._sweep import Sweep, sweep
from oneflow.dryrun._world import described

__all__ = [
    "Report",
    "ScheduleReport",
    "Sweep",
    "calibrate",
    "described",
    "dry_run",
    "measure",
    "simulate_schedule",
    "sweep",
]
