"""Placements, SBP and global tensors from Python."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import oneflow as torch
import pytest
from oneflow import sbp
from oneflow.testing import run_ranks


def test_values_and_their_texts() -> None:
    def check() -> None:
        p = torch.placement("cpu", [0, 1])
        assert repr(p) == 'oneflow.placement(type="cpu", ranks=[0, 1])'
        assert repr(torch.placement(type="cpu", ranks=[[0, 1]])) == 'oneflow.placement(type="cpu", ranks=[[0, 1]])'
        assert p == torch.placement.all("cpu") and hash(p) == hash(torch.placement.all("cpu"))
        assert p.type == "cpu" and p.ranks == [0, 1] and p.ranks.shape == (2,)
        assert pickle.loads(pickle.dumps(p)) == p
        with pytest.raises(ValueError, match="rank 7 does not exist"):
            torch.ones(2, placement=torch.placement("cpu", [7]), sbp=sbp.broadcast)
        with pytest.raises(ValueError, match="rank 7 does not exist"):
            torch.ones(2).to_global(torch.placement("cpu", [0, 7]), sbp.split(0))
        with pytest.raises(ValueError, match="twice"):
            torch.placement("cpu", [0, 0])
        with pytest.raises(ValueError, match="no device type"):
            torch.placement("tpu", [0])

    run_ranks(2, check)
    assert [repr(s) for s in (sbp.split(1), sbp.broadcast, sbp.partial_sum)] == [
        "oneflow.sbp.split(dim=1)",
        "oneflow.sbp.broadcast",
        "oneflow.sbp.partial_sum",
    ]
    assert sbp.split(0) == sbp.split(0) != sbp.split(1)
    assert pickle.loads(pickle.dumps(sbp.split(2))) == sbp.split(2)
    with pytest.raises(ValueError, match="dim must be"):
        sbp.split(-1)


def test_to_global_and_back() -> None:
    def check() -> None:
        rank = torch.distributed.get_rank()
        p = torch.placement.all("cpu")
        local = torch.full((2, 3), float(rank))
        x = local.to_global(p, sbp.split(0))
        assert x.shape == (4, 3) and x.is_global and not x.is_local and local.is_local
        assert x.placement == p and x.sbp == (sbp.split(0),)
        assert x.to_global(sbp=sbp.split(0)) is x
        assert x.to_local().tolist() == local.tolist()
        y = x.to_global(sbp=sbp.broadcast)
        assert y.to_local().tolist() == y.tolist() == x.tolist() == [[0.0] * 3] * 2 + [[1.0] * 3] * 2
        assert x.sum().item() == 6.0
        np.testing.assert_array_equal(x.numpy(), y.numpy())
        # The data of the first rank is everybody's.
        b = local.to_global(p, sbp.broadcast)
        assert b.tolist() == [[0.0] * 3] * 2
        assert "placement=" in repr(x) and "split(dim=0)" in repr(x)

    run_ranks(2, check)


def test_lists_and_numbers_index_global_tensors() -> None:
    def check() -> None:
        want = torch.arange(24.0).reshape(4, 6)
        for layout in (sbp.split(0), sbp.split(1), sbp.broadcast):
            x = want.to_global(torch.placement.all("cpu"), sbp.broadcast).to_global(sbp=layout)
            assert x[[0, 2]].is_global and x[[0, 2]].tolist() == want[[0, 2]].tolist()
            assert x[1:, [0, 5, 2]].tolist() == want[1:, [0, 5, 2]].tolist()
            assert x[[[0, 1], [3, 3]], [2, 4]].tolist() == want[[[0, 1], [3, 3]], [2, 4]].tolist()
            assert x[[True, False, True, True]].tolist() == want[[True, False, True, True]].tolist()
            assert x[np.array([3, 1])].tolist() == want[[3, 1]].tolist()
            y, expected = x.clone(), want.clone()
            for written in (y, expected):
                written[[1, 3]] = [float(i) for i in range(6)]
                written[:, [0]] = -1.0
            assert y.is_global and y.tolist() == expected.tolist()

    run_ranks(2, check)


def test_errors_name_op_and_argument() -> None:
    def check() -> None:
        p = torch.placement.all("cpu")
        x = torch.ones(4, 2).to_global(p, sbp.broadcast)
        with pytest.raises(RuntimeError, match=r"add\(\).*'other' is a local tensor"):
            x + torch.ones(4, 2)
        with pytest.raises(RuntimeError, match="Only global tensors have 'sbp'"):
            _ = torch.ones(2).sbp
        with pytest.raises(ValueError, match="both 'placement' and 'sbp'"):
            torch.ones(2).to_global(p)
        with pytest.raises(ValueError, match="mesh axes"):
            x.to_global(sbp=[sbp.broadcast, sbp.broadcast])
        with pytest.raises(RuntimeError, match="does not fit"):
            x.to_global(sbp=sbp.split(2))

    run_ranks(2, check)


def test_creation_in_a_layout_equals_one_rank() -> None:
    def make() -> list[object]:
        torch.manual_seed(3)
        p = torch.placement.all("cpu")
        s = sbp.split(1)
        made = [
            torch.zeros(3, 5, placement=p, sbp=s),
            torch.ones((3, 5), placement=p, sbp=s),
            torch.full((3, 5), 2.5, placement=p, sbp=s),
            torch.rand(3, 5, placement=p, sbp=s),
            torch.randn(3, 5, placement=p, sbp=s, dtype=torch.float64),
            torch.randint(0, 9, (3, 5), placement=p, sbp=s),
        ]
        assert all(x.sbp == (s,) for x in made)
        return [x.tolist() for x in made]

    for n in (2, 3, 4):
        assert run_ranks(n, make)[-1] == run_ranks(1, make)[0]
    torch.manual_seed(3)
    assert torch.rand(3, 5).tolist() == run_ranks(2, make)[0][3]


def test_python_reads_and_writes_as_on_one_rank() -> None:
    def program() -> list[object]:
        p = torch.placement.all("cpu")
        x = torch.arange(24.0).reshape(4, 6).to_global(p, sbp.broadcast).to_global(sbp=sbp.split(0))
        i = torch.tensor([0, 3, 1]).to_global(p, sbp.broadcast)
        found = [
            x[1],
            x[:, 2:4],
            x[i],
            x[-1, 0],
            x[..., None],
            x[::2],
            x.to(torch.int64),
            2.0 ** x[0],
            x.t().reshape(-1),
        ]
        found += [*x.chunk(2), x.max(), x.std(), x.sort(dim=0, descending=True)[0], x.cumsum(1), x[x > 7]]
        y = x.clone()
        y[:, 1] = 7.0
        y[y > 20] = 0.0
        found.append(y)
        assert len(x) == 4 and bool((x == x).all()) and [float(v) for v in x[0]] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        return [t.tolist() for t in found]

    want = run_ranks(1, program)[0]
    for n in (2, 3, 4):
        assert run_ranks(n, program) == [want] * n

    def write_through_a_boxed_view() -> None:
        p = torch.placement.all("cpu")
        x = torch.zeros(4, 6, placement=p, sbp=sbp.split(0))
        with pytest.raises(RuntimeError, match="had to be boxed"):
            x[0].fill_(5.0)
        x[0] = 5.0
        assert x.sbp == (sbp.split(0),) and x.sum().item() == 30.0

    run_ranks(2, write_through_a_boxed_view)


def test_collectives() -> None:
    def check() -> None:
        dist = torch.distributed
        rank, n = dist.get_rank(), dist.get_world_size()
        assert n == 3 and dist.is_initialized() and dist.get_backend() == "fake"
        x = torch.full((4,), float(rank + 1))
        dist.all_reduce(x)
        assert x.tolist() == [6.0] * 4
        out = torch.empty(3, 2)
        dist.all_gather_into_tensor(out, torch.full((2,), float(rank)))
        assert out.tolist() == [[0.0] * 2, [1.0] * 2, [2.0] * 2]
        y = torch.full((2,), float(rank))
        dist.broadcast(y, 2)
        assert y.tolist() == [2.0, 2.0]
        z = torch.empty(1)
        dist.reduce_scatter_tensor(z, torch.arange(3.0), op=dist.ReduceOp.MAX)
        assert z.item() == rank
        parts = [torch.empty(1) for _ in range(3)]
        dist.all_gather(parts, torch.full((1,), float(rank)))
        assert [p.item() for p in parts] == [0.0, 1.0, 2.0]
        a = torch.empty(3)
        dist.all_to_all_single(a, torch.arange(3.0) + 10 * rank)
        assert a.tolist() == [rank, 10 + rank, 20 + rank]
        work = dist.all_reduce(x, async_op=True)
        assert work.wait() and work.is_completed()
        if rank == 0:
            dist.send(torch.ones(2), 1)
        elif rank == 1:
            got = torch.zeros(2)
            assert dist.recv(got, 0) == 0 and got.tolist() == [1.0, 1.0]
        gathered = [torch.empty(1) for _ in range(3)] if rank == 0 else None
        dist.gather(torch.full((1,), float(rank)), gathered)
        given = torch.empty(1)
        dist.scatter(given, [torch.full((1,), 5.0 + i) for i in range(3)] if rank == 0 else None)
        assert given.item() == 5.0 + rank
        pair = dist.new_group([0, 2])
        assert (pair == dist.GroupMember.NON_GROUP_MEMBER) == (rank == 1)
        if rank != 1:
            w = torch.ones(1)
            dist.all_reduce(w, group=pair)
            assert w.item() == 2.0
        dist.barrier()
        with pytest.raises(ValueError, match="contiguous"):
            dist.all_reduce(torch.ones(2, 3).t())

    run_ranks(3, check)


def test_a_rank_that_fails_ends_the_others() -> None:
    def fail() -> None:
        if torch.distributed.get_rank() == 1:
            raise KeyError("lost")
        torch.distributed.barrier()

    with pytest.raises(KeyError, match="lost"):
        run_ranks(3, fail)


def test_a_process_that_dies_is_an_error_in_the_others(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, time\n"
        "import oneflow as torch\n"
        "from oneflow import sbp\n"
        "torch.distributed.init_process_group()\n"
        "p = torch.placement.all('cpu')\n"
        "x = torch.ones(4, 4).to_global(p, sbp.partial_sum)\n"
        "if torch.distributed.get_rank() == 1:\n"
        "    os._exit(7)\n"
        "try:\n"
        "    x.to_global(sbp=sbp.broadcast)\n"
        "except RuntimeError as e:\n"
        f"    open({str(tmp_path / 'said')!r}, 'w').write(str(e))\n"
        "    raise\n"
    )
    # Two processes without a launcher, which would end the survivor.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    job = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [subprocess.Popen([sys.executable, str(script)], env={**os.environ, **job, "RANK": str(r)}) for r in (0, 1)]
    assert [rank.wait(timeout=60) for rank in ranks] == [1, 7]
    assert "all_reduce" in (tmp_path / "said").read_text() and "rank 1" in (tmp_path / "said").read_text()
    command = [sys.executable, "-m", "oneflow.distributed.launch", "--nproc-per-node", "2", str(script)]
    assert subprocess.run(command, timeout=60, stderr=subprocess.DEVNULL).returncode in (1, 7)


def test_a_first_placement_joins_the_job_of_a_launcher(tmp_path):
    script = tmp_path / "ranks.py"
    script.write_text(
        "import oneflow as flow\n"
        "x = flow.ones(4, placement=flow.placement.all('cpu'), sbp=flow.sbp.split(0))\n"
        "assert flow.env.get_world_size() == 2 and x.to_local().shape == (2,)\n"
        "flow.distributed.init_process_group('gloo')\n"
        "assert x.sum().item() == 4\n"
    )
    command = [sys.executable, "-m", "oneflow.distributed.launch", "--nproc-per-node", "2", str(script)]
    assert subprocess.run(command, timeout=60).returncode == 0


def test_on_one_rank_all_layouts_are_the_same():
    """Adam's states of a split parameter are computed on one rank by ops whose results are broadcast there."""
    flow = torch
    p = flow.nn.Parameter(flow.ones(4).to_global(flow.placement("cpu", [0]), flow.sbp.split(0)))
    optimizer = flow.optim.Adam([p], lr=0.1)
    p.sum().backward()
    optimizer.prepare()
    optimizer.step()
    assert flow.allclose(p.to_local(), flow.full((4,), 0.9), atol=1e-4)


@pytest.mark.parametrize(
    ("job", "rank"),
    [
        (
            {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_STEP_NODELIST": "localhost"},
            ("SLURM_PROCID", "SLURM_LOCALID"),
        ),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")),
    ],
    ids=["slurm", "openmpi"],
)
def test_ranks_of_slurm_and_mpi_meet(tmp_path: Path, job: dict[str, str], rank: tuple[str, str]) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(
        "import oneflow as flow\n"
        "x = flow.ones(4, placement=flow.placement.all('cpu'), sbp=flow.sbp.partial_sum)\n"
        "assert x.sum().item() == 4\n"
        "assert flow.env.get_world_size() == 2 and flow.env.get_local_rank() == flow.env.get_rank()\n"
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1])}
    command = [sys.executable, str(script)]
    ranks = [
        subprocess.Popen(command, env={**os.environ, **job, **meet, **dict.fromkeys(rank, str(r))}) for r in (0, 1)
    ]
    assert [process.wait(timeout=60) for process in ranks] == [0, 0]


def test_a_group_names_ranks_by_their_numbers_in_the_world() -> None:
    dist = torch.distributed

    def rank() -> None:
        me = dist.get_rank()
        group = dist.new_group([1, 2])
        if me == 0:
            return
        x = torch.full((1,), float(me))
        dist.broadcast(x, src=2, group=group)
        assert x.item() == 2
        dist.reduce(x, dst=1, group=group)
        assert x.item() == (4 if me == 1 else 2)
        parts = [torch.zeros(1), torch.zeros(1)] if me == 2 else None
        dist.gather(torch.full((1,), float(me)), parts, dst=2, group=group)
        assert parts is None or [p.item() for p in parts] == [1, 2]
        dist.scatter(x, [torch.ones(1), torch.full((1,), 5.0)] if me == 1 else None, src=1, group=group)
        assert x.item() == (1 if me == 1 else 5)
        dist.send(x, 1, group) if me == 2 else dist.recv(x, 2, group)
        assert x.item() == 5
        said = [me]
        dist.broadcast_object_list(said, src=1, group=group)
        assert said == [1]
        with pytest.raises(ValueError, match="Global rank 0 is not part of group"):
            dist.broadcast(x, src=0, group=group)
        assert dist.barrier(group, async_op=True).wait()
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1), process_group=group)
        model(x.reshape(1, 1) * 0 + me).sum().backward()
        assert model.module.weight.grad.item() == 1.5

    run_ranks(3, rank)


def test_a_launcher_restarts_all_ranks_after_a_failure(tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(
        "import os, oneflow as flow\n"
        "flow.distributed.init_process_group()\n"
        "first = os.environ['TORCHELASTIC_RESTART_COUNT'] == '0'\n"
        "if first and flow.distributed.get_rank() == 1:\n"
        "    os._exit(3)\n"
        "x = flow.ones(1)\n"
        "flow.distributed.all_reduce(x)\n"
        "print('sum', x.item())\n"
    )
    launch = [sys.executable, "-m", "oneflow.distributed.launch", "--nproc-per-node", "2", "--log-dir", str(tmp_path)]
    run = subprocess.run([*launch, "--max-restarts", "1", str(script)], timeout=120, capture_output=True, text=True)
    assert run.returncode == 0 and "start 2 of all" in run.stderr
    # Rank 0 also says how the ranks were found.
    logs = [(tmp_path / f"rank{r}.1.log").read_text() for r in (0, 1)]
    assert [log.splitlines()[-1] for log in logs] == ["sum 2.0"] * 2 and "2 ranks, found by RANK" in logs[0]
    assert subprocess.run([*launch, str(script)], timeout=120).returncode != 0


def test_no_rank_outlives_its_launcher(tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    pids = tmp_path / "pids"
    script.write_text(f"import os, time\nopen({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')\ntime.sleep(100)\n")
    launcher = subprocess.Popen(
        [sys.executable, "-m", "oneflow.distributed.launch", "--nproc-per-node", "2", str(script)]
    )
    deadline = time.monotonic() + 60
    while not pids.exists() or pids.read_text().count("\n") < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    launcher.kill()
    launcher.wait()
    for pid in map(int, pids.read_text().split()):
        while (
            Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        ):
            assert time.monotonic() < deadline
            time.sleep(0.05)
