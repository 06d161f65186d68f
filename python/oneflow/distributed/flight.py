"""Show what the ranks of a job did last: ``python -m oneflow.distributed.flight FILES``.

Each rank keeps its last operations (``ONEFLOW_FLIGHT_RECORDS``, 1024 by default) and writes them to
``rank<number>.json`` in
the folder ``ONEFLOW_FLIGHT_DIR`` when a group fails; the package's launcher names a folder itself. This program
compares the files and says which rank is behind, and in which operation, as text or with ``--html FILE`` as a page.
"""

from __future__ import annotations

import argparse
import html
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oneflow import _oneflow

__all__ = ["Report", "main", "record", "report"]

_LONGEST = 64 << 20


def record() -> dict[str, Any]:
    """The last operations of this process and the groups it is in.

    Return a dictionary with ``rank``, ``world_size``, ``groups`` and ``operations``; each operation has a ``group``,
    a number
    ``seq`` in it, a ``kind``, all of it as text in ``what``, a ``state`` (issued, started, completed or failed), and
    times in microseconds since 1970.

    Example::

        >>> found = oneflow.distributed.flight.record()
        >>> found["rank"], found["world_size"]
        (0, 1)
    """
    return json.loads(_oneflow._flight_record("on request"))


@dataclass
class _Group:
    name: str
    ranks: list[int]
    # Of each rank with a record: its collectives by number.
    operations: dict[int, dict[int, dict[str, Any]]] = field(default_factory=dict)


@dataclass
class Report:
    """What the records of a job's ranks say together.

    Attributes:
        world_size: ranks of the job.
        causes: what each rank with a record says of the failure.
        lost: ranks without a record.
        findings: sentences, the most telling first.
        table: for each group, rank and operation: group, rank, state, and the operation as text.

    Example::

        >>> flight = oneflow.distributed.flight
        >>> flight.report([flight.record()]).lost
        []
    """

    world_size: int
    causes: dict[int, str]
    lost: list[int]
    findings: list[str]
    table: list[tuple[str, int, str, str]]

    def text(self) -> str:
        """The report for a terminal."""
        lines = [f"{self.world_size} ranks, {len(self.causes)} records"]
        lines += [f"  {finding}" for finding in self.findings]
        lines += [f"rank {rank} says: {cause}" for rank, cause in sorted(self.causes.items())]
        width = max((len(group) for group, *_ in self.table), default=0)
        lines += [f"{group:<{width}}  rank {rank:>4}  {state:<9}  {what}" for group, rank, state, what in self.table]
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """The report as a page."""
        said = "".join(f"<li>{html.escape(finding)}</li>" for finding in self.findings)
        causes = "".join(f"<li>rank {r}: {html.escape(cause)}</li>" for r, cause in sorted(self.causes.items()))
        rows = "".join(
            f'<tr class="{html.escape(state)}"><td>{html.escape(group)}</td><td>{rank}</td>'
            f"<td>{html.escape(state)}</td>"
            f"<td>{html.escape(what)}</td></tr>"
            for group, rank, state, what in self.table
        )
        return (
            "<!doctype html><meta charset=utf-8><title>Flight record</title><style>"
            "body{font-family:sans-serif;margin:2em}"
            "td,th{padding:.2em .8em;text-align:left}.failed,.started{background:#fdd}.issued{background:#ffd}"
            ".missing{background:#ddd}</style>"
            f"<h1>{self.world_size} ranks, {len(self.causes)} records</h1><ul>{said}</ul><h2>What they say</h2>"
            f"<ul>{causes}</ul><h2>Last operations</h2>"
            f"<table><tr><th>group<th>rank<th>state<th>operation</tr>{rows}</table>"
        )


def _check(found: Any) -> dict[str, Any]:
    """A record that has every field; it may be from anywhere."""
    if not isinstance(found, dict) or found.get("version") != 1:
        raise ValueError("no flight record of this version")
    operations = found["operations"]
    keys = {"group": str, "seq": int, "kind": str, "what": str, "state": str, "issued": int}
    if not all(isinstance(found[key], int) for key in ("rank", "world_size")) or not all(
        isinstance(operation[key], kind) for operation in operations for key, kind in keys.items()
    ):
        raise ValueError("a flight record with broken fields")
    return found


def report(records: list[dict[str, Any]]) -> Report:
    """Compare the records of several ranks.

    Raises:
        ValueError: there is none, or one is broken.

    Example::

        >>> flight = oneflow.distributed.flight
        >>> flight.report([flight.record()]).world_size
        1
    """
    if not records:
        raise ValueError("report: there are no flight records")
    try:
        records = [_check(found) for found in records]
        groups: dict[str, _Group] = {}
        for found in records:
            for group in found["groups"]:
                groups.setdefault(group["name"], _Group(group["name"], list(group["ranks"])))
            for operation in found["operations"]:
                group = groups.setdefault(operation["group"], _Group(operation["group"], []))
                if operation["kind"] not in ("send", "recv"):
                    group.operations.setdefault(found["rank"], {})[operation["seq"]] = operation
    except (KeyError, TypeError) as error:
        raise ValueError(f"report: a flight record is broken: {error!r}") from error
    size = max(found["world_size"] for found in records)
    causes = {found["rank"]: str(found.get("cause", "")) for found in records}
    lost = [rank for rank in range(size) if rank not in causes]
    findings = []
    if lost:
        named = ", ".join(map(str, lost[:50])) + (", ..." if len(lost) > 50 else "")
        findings.append(f"no record of rank {named}: killed, stopped, or on a host whose files are not here")
    table: list[tuple[str, int, str, str]] = []
    for group in groups.values():
        findings += _compare(group)
        for rank, operations in sorted(group.operations.items()):
            last = operations[max(operations)]
            table.append((group.name, rank, last["state"], last["what"]))
    findings += _messages(records)
    return Report(size, causes, lost, findings or ["no rank is behind: all ended their last operations alike"], table)


def _compare(group: _Group) -> list[str]:
    """What the numbers of a group's collectives say."""
    last = {rank: max(operations) for rank, operations in group.operations.items()}
    # A member with a record that has issued nothing in this group.
    if not last:
        return []
    findings = []
    newest = max(last.values())
    behind = sorted(rank for rank, seq in last.items() if seq < newest)
    ahead = sorted(rank for rank, seq in last.items() if seq == newest)
    for rank in behind:
        at, others = group.operations[rank][last[rank]], group.operations[ahead[0]][newest]
        findings.append(
            f"group '{group.name}': rank {rank} is behind: its last operation is {at['what']} ({at['state']}), while "
            f"rank {', '.join(map(str, ahead[:8]))} {'is' if len(ahead) == 1 else 'are'} in {others['what']} "
            f"({others['state']})"
        )
    for seq in sorted({seq for operations in group.operations.values() for seq in operations}):
        said: dict[str, list[int]] = {}
        for rank, operations in sorted(group.operations.items()):
            if seq in operations:
                said.setdefault(operations[seq]["what"], []).append(rank)
        if len(said) > 1:
            parts = "; ".join(f"rank {', '.join(map(str, ranks))} in {what}" for what, ranks in said.items())
            findings.insert(0, f"group '{group.name}': the ranks differ in operation {seq}: {parts}")
            break
    stuck = [
        (rank, operations[last[rank]]) for rank, operations in sorted(group.operations.items()) if last[rank] == newest
    ]
    waiting = [rank for rank, operation in stuck if operation["state"] in ("started", "failed")]
    absent = [rank for rank in group.ranks if rank not in last]
    if waiting and absent:
        findings.append(
            f"group '{group.name}': rank {', '.join(map(str, waiting[:8]))} waited in {stuck[0][1]['what']}; of rank "
            f"{', '.join(map(str, absent[:8]))} no operation of this group is known"
        )
    return findings


def _messages(records: list[dict[str, Any]]) -> list[str]:
    """Sends and receives that are not complete."""
    findings = []
    for found in records:
        open_ = [op for op in found["operations"] if op["kind"] in ("send", "recv") and op["state"] != "completed"]
        for operation in open_[-3:]:
            way = "to" if operation["kind"] == "send" else "from"
            findings.append(
                f"group '{operation['group']}': rank {found['rank']} was in {operation['what']} {way} rank "
                f"{operation.get('peer')}"
            )
    return findings


def main(argv: list[str] | None = None) -> int:
    """Read the files, print the report, and return 0; 1 if there is nothing to read.

    Example::

        >>> import json, pathlib
        >>> from oneflow.distributed import flight
        >>> _ = pathlib.Path("rank0.json").write_text(json.dumps(flight.record()))
        >>> flight.main(["rank0.json", "--html", "flight.html"])  # doctest: +ELLIPSIS
        1 ranks, 1 records
        ...
        0
    """
    parser = argparse.ArgumentParser(prog="oneflow.distributed.flight", description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILES", help="files of ranks, or folders of them")
    parser.add_argument("--html", metavar="FILE", help="write a page, too")
    args = parser.parse_args(argv)
    paths = [
        p
        for name in args.files
        for p in (sorted(Path(name).glob("rank*.json")) if Path(name).is_dir() else [Path(name)])
    ]
    records = []
    for path in paths:
        try:
            if path.stat().st_size > _LONGEST:
                raise ValueError(f"longer than {_LONGEST} bytes")
            records.append(_check(json.loads(path.read_text())))
        except (OSError, ValueError, KeyError, TypeError) as error:
            sys.stderr.write(f"{path}: {error}\n")
    if not records:
        sys.stderr.write("oneflow.distributed.flight: there is no flight record to show\n")
        return 1
    found = report(records)
    sys.stdout.write(found.text())
    if args.html:
        Path(args.html).write_text(found.html())
    return 0


if __name__ == "__main__":
    sys.exit(main())
