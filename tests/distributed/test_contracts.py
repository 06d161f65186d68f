"""Every launch contract is found by whoever asks first, and rank 0 says which it was.

The variables are those that the engines document; the processes are real.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from distributed.processes import environment, free_port, run, torchrun

N = 2


def contract(name: str, rank: int, port: int) -> dict[str, object]:
    """What an engine tells a process of two on this host."""
    master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    slurm = {
        "SLURM_PROCID": rank,
        "SLURM_STEP_NUM_TASKS": N,
        "SLURM_NTASKS": N,
        "SLURM_LOCALID": rank,
        "SLURM_STEP_TASKS_PER_NODE": f"{N}",
        "SLURM_JOB_ID": port,
        "SLURM_STEP_ID": 0,
        "SLURM_STEP_NODELIST": "somewhere",
        "SLURM_JOB_NAME": "train",
    }
    open_mpi = {
        "OMPI_COMM_WORLD_RANK": rank,
        "OMPI_COMM_WORLD_SIZE": N,
        "OMPI_COMM_WORLD_LOCAL_RANK": rank,
        "OMPI_COMM_WORLD_LOCAL_SIZE": N,
        "OMPI_UNIVERSE_SIZE": 64,
        "PMIX_NAMESPACE": f"prterun-host-{port}@1",
        "PMIX_RANK": rank,
    }
    return {
        "torchrun": torchrun(rank, N, port),
        "slurm": slurm,
        "slurm pmix": {**slurm, "PMIX_RANK": rank, "PMIX_NAMESPACE": f"slurm.pmix.{port}.0"},
        "open mpi": open_mpi,
        "open mpi in slurm": {**slurm, "SLURM_PROCID": 0, "SLURM_STEP_NUM_TASKS": 1, **open_mpi},
        # Without a meeting place: on one host it follows from the process that has started both.
        "hydra": {"PMI_RANK": rank, "PMI_SIZE": N, "MPI_LOCALRANKID": rank, "MPI_LOCALNRANKS": N},
        "mvapich": {"MV2_COMM_WORLD_RANK": rank, "MV2_COMM_WORLD_SIZE": N, **master},
        "pmix": {"PMIX_RANK": rank, "PMIX_NAMESPACE": "own", "WORLD_SIZE": N, **master},
        "kubernetes": {"JOB_COMPLETION_INDEX": rank, "WORLD_SIZE": N, **master},
        "pytorchjob": {"RANK": rank, "WORLD_SIZE": N, "PET_NNODES": N, "PET_NPROC_PER_NODE": 1, **master},
        "trainer": {
            "PET_NNODES": N,
            "PET_NPROC_PER_NODE": 1,
            "PET_NODE_RANK": rank,
            "PET_MASTER_ADDR": "127.0.0.1",
            "PET_MASTER_PORT": port,
        },
    }[name]


SAYS = {
    "torchrun": "RANK, WORLD_SIZE",
    "slurm": "Slurm",
    "slurm pmix": "Slurm",
    "open mpi": "Open MPI",
    "open mpi in slurm": "Open MPI",
    "hydra": "PMI (MPICH, Intel MPI)",
    "mvapich": "MVAPICH",
    "pmix": "PMIx",
    "kubernetes": "Kubernetes indexed job",
    "pytorchjob": "RANK, WORLD_SIZE",
    "trainer": "PET_NODE_RANK",
}

# Whoever asks first; each prints how many ranks it has found.
FIRST = {
    "placement": "print(len(flow.placement.all('cpu').ranks))",
    "placement of ranks": "flow.placement('cpu', [0, 1]); print(len(flow._oneflow._world_group().ranks()))",
    "env": "print(flow.env.get_world_size())",
    "distributed": "print(dist.get_world_size())",
    "collective": "x = flow.ones(1); dist.all_reduce(x); print(int(x))",
    "init": "dist.init_process_group('gloo'); print(dist.get_world_size())",
    "ddp": "flow.nn.parallel.DistributedDataParallel(flow.nn.Linear(1, 1)); print(dist.get_world_size())",
    "graph": """
class G(flow.nn.Graph):
    def build(self, x):
        return x + 1
G()(flow.ones(1))
print(flow._oneflow._world_group().size())
""",
}


def check(name: str, first: str) -> None:
    port = free_port()
    found = run(FIRST[first] + "\ndist.barrier()\n", [contract(name, rank, port) for rank in range(N)])
    assert [out for out, _ in found] == [f"{N}\n"] * N, found
    said = [[line for line in err.splitlines() if "ranks, found by" in line] for _, err in found]
    assert len(said[0]) == 1 and f"2 ranks, found by {SAYS[name]}" in said[0][0] and said[1] == [], found


@pytest.mark.parametrize("name", SAYS)
def test_every_engine_is_found(name: str) -> None:
    check(name, "distributed")


@pytest.mark.parametrize("first", FIRST)
def test_whoever_asks_first_finds_the_job(first: str) -> None:
    check("hydra" if first == "graph" else "kubernetes", first)


def test_children_of_a_rank_are_no_ranks() -> None:
    body = """
import subprocess
dist.init_process_group()
child = "import oneflow as flow; print(flow.placement.all('cpu').ranks, flow.env.get_world_size())"
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, timeout=50).stdout, end="")
dist.barrier()
dist.destroy_process_group()
print(dist.get_world_size())
"""
    port = free_port()
    for out, err in run(body, [torchrun(rank, N, port) for rank in range(N)]):
        assert out == "[0] 1\n1\n", err


def test_a_process_on_its_own_says_why() -> None:
    index = {"JOB_COMPLETION_INDEX": 3}
    ((out, err),) = run("print(dist.get_world_size(), dist.get_world_size())", [index])
    assert out == "1 1\n" and err.count("JOB_COMPLETION_INDEX is set without WORLD_SIZE") == 1
    ((_, err),) = run("flow.placement.all('cpu')", [{"PMIX_RANK": 0}])
    assert "ValueError: rendezvous (PMIx): PMIX_RANK is set, but WORLD_SIZE is not" in err


def test_the_package_s_own_launcher(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import oneflow\nprint(oneflow.placement.all('cpu').ranks.tolist())\noneflow.distributed.barrier()\n"
    )
    command = [sys.executable, "-m", "oneflow.distributed.launch", str(script)]
    done = subprocess.run(
        command,
        env=environment(PET_NPROC_PER_NODE=2, PET_NNODES=1),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.count("[0, 1]") == 2 and done.stderr.count("2 ranks, found by RANK") == 1, done.stderr
