"""Records of what each rank did last: what is written when a job fails, and what the report says of it."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import oneflow
import oneflow.distributed as dist
import pytest
from distributed.processes import environment
from oneflow.distributed import flight
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

FAILS = """
import oneflow as flow, oneflow.distributed as dist
dist.init_process_group("gloo")
here = dist.get_rank()
dist.all_reduce(flow.ones(3))
pair = dist.new_group([0, 2])
if here == 1:
    dist.broadcast(flow.ones(4), src=0)
    dist.barrier()
elif here == 0:
    dist.all_reduce(flow.ones(5), async_op=True).wait()
else:
    dist.all_reduce(flow.ones(5))
    dist.barrier()
raise ValueError("was not told")
"""


def test_a_failed_job_leaves_records_that_tell_who_differs(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(FAILS)
    logs = tmp_path / "logs"
    command = [sys.executable, "-m", "oneflow.distributed.launch", "--nproc-per-node", "3", "--log-dir"]
    done = subprocess.run(
        [*command, str(logs), str(script)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "failed first: RuntimeError" in done.stderr and "desync" in done.stderr, done.stderr
    assert f"python -m oneflow.distributed.flight {logs}/flight.0" in done.stderr
    records = sorted((logs / "flight.0").glob("rank*.json"))
    assert [path.name for path in records] == ["rank0.json", "rank1.json", "rank2.json"]
    page = tmp_path / "flight.html"
    assert flight.main([str(logs / "flight.0"), "--html", str(page)]) == 0
    found = flight.report([json.loads(path.read_text()) for path in records])
    assert found.findings[0].startswith("group 'world': the ranks differ in operation 1: "), found.text()
    # One of ranks 0 and 2 may learn of it before it begins.
    assert re.search(r"[02] in #1 all_reduce\(float32, 5 elements, sum\)", found.findings[0]), found.findings
    assert "rank 1 in #1 broadcast(float32, 4 elements, root 0)" in found.findings[0]
    assert "differ in operation 1" in page.read_text() and found.lost == [] and found.world_size == 3
    # torchrun reads the same files.
    error = logs / "error0.0.json"
    failure = ProcessFailure(local_rank=0, pid=1, exitcode=1, error_file=str(error))
    assert "RuntimeError" in str(failure.message) and failure.timestamp > 1_600_000_000


def operation(
    seq: int, what: str = "all_reduce(float32, 4 elements, sum)", state: str = "completed", **own: Any
) -> Any:
    kind = what.partition("(")[0]
    base = {"group": "world", "seq": seq, "kind": kind, "what": f"#{seq} {what}", "peer": None, "state": state}
    return {**base, "issued": 1, "started": 1, "ended": 0, **own}


def job(*ranks: list[Any], size: int | None = None) -> list[dict[str, Any]]:
    n = size or len(ranks)
    groups = [{"name": "world", "ranks": list(range(n))}]
    return [
        {"version": 1, "rank": rank, "world_size": n, "cause": f"cause {rank}", "groups": groups, "operations": ops}
        for rank, ops in enumerate(ranks)
    ]


def test_who_is_behind_is_named() -> None:
    ahead = [operation(0), operation(1), operation(2, state="failed")]
    said = flight.report(job(ahead, ahead[:2], ahead)).findings
    assert len(said) == 1 and "rank 1 is behind: its last operation is #1" in said[0]
    assert "while rank 0, 2 are in #2 all_reduce(float32, 4 elements, sum) (failed)" in said[0]


def test_ranks_without_records_are_named() -> None:
    found = flight.report(job([operation(0, state="failed")], size=3))
    assert found.lost == [1, 2] and found.findings[0].startswith("no record of rank 1, 2")
    assert any("no operation of this group is known" in text and "rank 1, 2" in text for text in found.findings)


def test_a_healthy_job_has_nothing_to_tell() -> None:
    found = flight.report(job([operation(0)], [operation(0)]))
    assert found.findings == ["no rank is behind: all ended their last operations alike"]
    assert found.text().count("cause") == 2


def test_messages_that_wait_are_named() -> None:
    recv = operation(0, "recv(float32, 1 elements, tag 3)", "started", peer=1)
    said = flight.report(job([recv], [operation(0, "send(float32, 1 elements, tag 4)", "issued", peer=0)])).findings
    assert any("rank 0 was in #0 recv(float32, 1 elements, tag 3) from rank 1" in text for text in said)
    assert any("rank 1 was in #0 send(float32, 1 elements, tag 4) to rank 0" in text for text in said)


def test_pages_show_texts_as_they_are() -> None:
    records = job([operation(0, what="<b>bold</b>()", state="<i>")])
    records[0]["cause"] = "<script>"
    page = flight.report(records).html()
    assert "<b>" not in page and "<script>" not in page and "<i>" not in page and "&lt;script&gt;" in page


@pytest.mark.parametrize("key", ["version", "rank", "world_size", "groups", "operations"])
def test_broken_records_are_refused(key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = job([operation(0)])[0]
    for bad in (
        {k: v for k, v in good.items() if k != key},
        {**good, key: "x"},
        {**good, key: [1]},
        {**good, key: None},
    ):
        with pytest.raises(ValueError, match="record"):
            flight.report([bad])
    (tmp_path / "rank0.json").write_text("{")
    assert flight.main([str(tmp_path), str(tmp_path / "nothing.json")]) == 1
    assert "there is no flight record to show" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no flight records"):
        flight.report([])


def test_every_field_of_an_operation_is_checked() -> None:
    for key in ("group", "seq", "kind", "what", "state", "issued"):
        bad = copy.deepcopy(job([operation(0)]))
        bad[0]["operations"][0][key] = [1]
        with pytest.raises(ValueError, match="record"):
            flight.report(bad)


def test_this_process_has_a_record_of_its_own() -> None:
    dist.barrier()
    dist.all_reduce(oneflow.ones(3))
    last = flight.record()["operations"][-2:]
    assert [op["kind"] for op in last] == ["barrier", "all_reduce"]
    assert all(op["state"] == "completed" and op["issued"] <= op["started"] <= op["ended"] for op in last)
