"""``python -m oneflow.dryrun --cluster cluster.toml script.py``: the first graph that a script calls is simulated.

The script is not edited. It runs as rank 0 of a job with a rank for each device of the cluster, without memory for
large tensors, and ends with the call of its first graph.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import oneflow
from oneflow.auto_parallel.cluster import Cluster
from oneflow.dryrun._job import dry_run
from oneflow.dryrun._report import Report
from oneflow.dryrun._world import described


class _Done(BaseException):
    """Ends the script."""


def main(args: list[str] | None = None) -> int:
    """Run the command; return its exit status: 1 where the job does not run, 2 where the script calls no graph."""
    options = _parser().parse_args(args)
    try:
        cluster = Cluster.load(options.cluster)
    except (ValueError, OSError, NotImplementedError) as error:
        _parser().error(str(error))
    if not Path(options.script).is_file():
        _parser().error(f"there is no script {options.script}")
    report = _run(options, cluster)
    if report is None:
        sys.stderr.write(f"oneflow.dryrun: {options.script} has ended and called no nn.Graph\n")
        return 2
    sys.stdout.write(report.table() + "\n")
    if options.html:
        report.html(options.html)
    if options.trace:
        report.chrome_trace(options.trace)
    if options.json:
        Path(options.json).write_text(json.dumps(report.to_dict()), encoding="utf-8")
    return 0 if report.fits else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m oneflow.dryrun", description=__doc__)
    names = ", ".join(Cluster.names())
    parser.add_argument("--cluster", required=True, help=f"a toml file, or one of {names}")
    parser.add_argument("--ranks", type=int, help="ranks of the job; by default one for each device")
    parser.add_argument("--slow", action="append", default=[], metavar="RANK=TIMES", help="a rank that is slower")
    parser.add_argument("--lost", metavar="RANK@SECONDS", help="a rank that stops")
    parser.add_argument("--html", help="write the report as a page")
    parser.add_argument("--trace", help="write the timeline for Chrome or Perfetto")
    parser.add_argument("--json", help="write everything as JSON")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the script")
    return parser


def _run(options: Any, cluster: Cluster) -> Report | None:
    slow = {int(rank): float(times) for rank, _, times in (text.partition("=") for text in options.slow)}
    lost = None
    if options.lost:
        rank, _, at = options.lost.partition("@")
        lost = (int(rank), float(at or 0.0))
    found: list[Report] = []

    def call(graph: Any, *args: Any, **kwargs: Any) -> Any:
        found.append(dry_run(graph, *args, cluster=cluster, slow=slow, lost=lost, **kwargs))
        raise _Done

    def over(graph: Any, loader: Any, **_: Any) -> Any:
        batch = next(iter(loader))
        if isinstance(batch, dict):
            call(graph, **batch)
        call(graph, *(batch if isinstance(batch, (tuple, list)) else (batch,)))

    before = (oneflow.nn.Graph.__call__, oneflow.nn.Graph.over, sys.argv, sys.path[0])
    graphs: Any = oneflow.nn.Graph
    graphs.__call__, graphs.over = call, over
    sys.argv = [options.script, *options.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))
    try:
        with described(cluster, 0, options.ranks):
            runpy.run_path(options.script, run_name="__main__")
    except _Done:
        pass
    finally:
        graphs.__call__, graphs.over = before[:2]
        sys.argv, sys.path[0] = before[2:]
    return found[0] if found else None


if __name__ == "__main__":
    sys.exit(main())
