"""Look at and work on the folder of a store: ``python -m oneflow.one_embedding COMMAND FOLDER``.

A folder is that of one rank, ``PATH/RANK-RANKS``. Snapshots can be read while their store trains; other commands need a
store that nobody has open.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from oneflow._oneflow import _EmbeddingSaved, _EmbeddingStore
from oneflow.one_embedding._deltas import AT_ONCE, BUDGET, export, merge_deltas, save_delta


def _inspect(args: argparse.Namespace) -> dict[str, Any]:
    saved = _EmbeddingSaved(args.folder, args.snapshot)
    config = saved.config()
    by_table, largest = [0] * int(config["n_tables"]), 0.0
    for first in range(0, len(saved), AT_ONCE):
        tables, _, _, _, values = saved.records(first, first + AT_ONCE)
        for table, n in enumerate(tables.bincount(minlength=len(by_table)).tolist()):
            by_table[table] += n
        largest = max(largest, float(values.abs().max()))
    place = os.path.join(args.folder, "snapshots")
    snapshots = sorted(n.removesuffix(".manifest") for n in os.listdir(place) if n.endswith(".manifest"))
    files = [os.path.join(args.folder, name) for name in os.listdir(args.folder) if name.endswith((".rows", ".pages"))]
    return {
        **config,
        "epoch": saved.epoch,
        "rows": len(saved),
        "rows_by_table": by_table,
        "largest_number": largest,
        "snapshots": snapshots,
        "disk_bytes": sum(map(os.path.getsize, files)),
    }


def _verify(args: argparse.Namespace) -> dict[str, Any]:
    saved = _EmbeddingSaved(args.folder, args.snapshot)
    for first in range(0, len(saved), AT_ONCE):
        saved.records(first, first + AT_ONCE)
    return {"verified": len(saved)}


def _compact(args: argparse.Namespace) -> dict[str, Any]:
    store = _EmbeddingStore.existing(args.folder, BUDGET)
    try:
        before = store.stats()["disk_bytes"]
        store.compact()
        return {"before_bytes": before, "after_bytes": store.stats()["disk_bytes"]}
    finally:
        store.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m oneflow.one_embedding", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, does: str, call: Any, snapshot: bool = True) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=does, description=does)
        sub.add_argument("folder")
        if snapshot:
            sub.add_argument("--snapshot", help="read this one; the last epoch without")
        sub.set_defaults(call=call)
        return sub

    command("inspect", "show sizes, tables, rows and snapshots", _inspect)
    command("verify", "read every row and check its checksum", _verify)
    command("compact", "rewrite files until they hold little but rows in use", _compact, snapshot=False)
    delta = command(
        "delta",
        "write the rows that changed since a snapshot",
        lambda a: save_delta(a.folder, a.since, a.snapshot, a.out),
    )
    delta.add_argument("--since", required=True, help="the older snapshot")
    delta.add_argument("out", help="a .safetensors file")
    merge = command("merge", "apply deltas", lambda a: merge_deltas(a.folder, a.deltas), snapshot=False)
    merge.add_argument("deltas", nargs="+")
    out = command(
        "export",
        "write all rows to a .npz, .safetensors or .parquet file",
        lambda a: {"rows": export(a.folder, a.snapshot, a.out, a.weights_only)},
    )
    out.add_argument("out")
    out.add_argument("--weights-only", action="store_true", help="leave optimizer state, steps and counts out")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run a command; errors go to standard error, and the exit code is 1."""
    args = _parser().parse_args(arguments)
    try:
        result = args.call(args)
    except (ValueError, RuntimeError, OSError, NotImplementedError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
