"""One loss curve, whoever starts the ranks: our launcher, torchrun, Open MPI, MPICH, Slurm on four nodes, and hosts
that are network namespaces. `make test-clusters` runs these tests; each part that is not installed says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import slurm
from distributed.processes import environment, free_port

pytestmark = pytest.mark.skipif(
    os.environ.get("ONEFLOW_TEST_CLUSTERS") != "1",
    reason="engines and packages beyond the project's: make test-clusters",
)

TRAIN = str(Path(__file__).parent / "train.py")
PYTHON = [sys.executable, TRAIN]
MPI = {
    "Open MPI": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np"],
    "MPICH": ["mpiexec.hydra", "-n"],
}


def losses(command: list[str], **own: object) -> list[float]:
    """Of a job that this command runs to its end."""
    done = subprocess.run(command, env=environment(**own), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return read(done.stdout)


def read(output: str) -> list[float]:
    lines = [line for line in output.splitlines() if line.startswith("[")]
    assert len(lines) == 1, output
    return json.loads(lines[0])


@pytest.fixture(scope="module")
def alone() -> list[float]:
    curve = losses([*PYTHON, "ddp"])
    assert len(curve) == 30 and curve[-1] < curve[0]
    return curve


def is_that(curve: list[float], alone: list[float]) -> None:
    # Sums over ranks are in another order, and 30 steps of AdamW follow from them.
    assert curve == pytest.approx(alone, rel=2e-4)


@pytest.mark.parametrize(
    ("n", "mode"), [(2, "ddp"), (4, "ddp"), (2, "fsdp"), (4, "fsdp"), (2, "tensor"), (4, "tensor"), (4, "grid")]
)
def test_own_launcher(n: int, mode: str, alone: list[float]) -> None:
    launch = [sys.executable, "-m", "oneflow.distributed.launch", "--nproc-per-node", str(n)]
    is_that(losses([*launch, "--master-port", str(free_port()), TRAIN, mode]), alone)


def test_torchrun(alone: list[float]) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    is_that(losses([*launch, TRAIN, "ddp"]), alone)


@pytest.mark.parametrize("mode", ["ddp", "mpi", "fsdp"])
@pytest.mark.parametrize("engine", MPI)
def test_mpi(engine: str, mode: str, alone: list[float]) -> None:
    command = MPI[engine]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed: apt-get install {'openmpi-bin' if 'Open' in engine else 'mpich'}")
    if mode == "fsdp":
        # Global tensors and sub-groups over MPI's messages.
        return is_that(losses([*command, "4", *PYTHON, "mpi"]), alone)
    is_that(losses([*command, "2", *PYTHON, mode]), alone)


@pytest.mark.parametrize("engine", MPI)
def test_a_rank_that_fails_ends_the_mpi_job(engine: str) -> None:
    command = MPI[engine]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    body = (
        "import oneflow as torch, oneflow.distributed as dist\n"
        "dist.init_process_group('mpi')\n"
        "data = torch.arange(3_000_000) + dist.get_rank()\n"
        "dist.all_reduce(data)\n"
        "assert data[-1] == 3 * 2_999_999 + 3 and dist.get_backend() == 'mpi'\n"
        "if dist.get_rank() == 1: raise ValueError('on purpose')\n"
        "try: dist.barrier()\n"
        "except RuntimeError as error: print(dist.get_rank(), error)\n"
        "raise SystemExit(3)\n"
    )
    start = time.monotonic()
    done = subprocess.run(
        [*command, "3", sys.executable, "-c", body],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode != 0 and "on purpose" in done.stderr
    assert time.monotonic() - start < 60
    # Who is not ended by mpirun first says who has left; between such lines stand those of mpirun itself.
    said = [line for line in done.stdout.splitlines() if "barrier()" in line]
    assert all("rank 1 has left the group" in line for line in said), done.stdout


def test_slurm_on_four_nodes(tmp_path_factory: pytest.TempPathFactory, alone: list[float]) -> None:
    reason = slurm.missing()
    if reason:
        pytest.skip(reason)
    with slurm.cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "ONEFLOW_JOB_SECRET": "s" * 32}
        done = cluster.run("srun", "--nodes=4", "--ntasks=4", *PYTHON, "ddp", seconds=240, **own)
        assert done.returncode == 0, done.stderr
        assert "4 ranks, found by Slurm" in done.stderr
        is_that(read(done.stdout), alone)
        # Every rank learns of a task that is killed, and the step ends.
        kill = "d.get_rank() == 2 and os.kill(os.getpid(), 9)"
        body = f"import oneflow.distributed as d, os; d.barrier(); {kill}; d.barrier()"
        start = time.monotonic()
        done = cluster.run("srun", "--nodes=4", "--ntasks=4", sys.executable, "-c", body, **own)
        assert done.returncode != 0 and "rank 2 died" in done.stderr, done.stderr
        assert time.monotonic() - start < 60


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@contextlib.contextmanager
def two_namespaces() -> Iterator[list[str]]:
    names = [f"oneflow-{os.getpid()}-{side}" for side in "ab"]
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@contextlib.contextmanager
def two_hosts() -> Iterator[list[str]]:
    """Two network namespaces with a link between them."""
    links = [f"of{os.getpid() % 100_000}{side}" for side in "ab"]
    with two_namespaces() as names:
        ip("link", "add", links[0], "type", "veth", "peer", "name", links[1])
        for place, (name, link) in enumerate(zip(names, links, strict=True)):
            ip("link", "set", link, "netns", name)
            ip("-n", name, "addr", "add", f"10.77.0.{place + 1}/24", "dev", link)
            ip("-n", name, "link", "set", link, "up")
        yield names


@contextlib.contextmanager
def two_far_hosts(*options: str) -> Iterator[tuple[list[str], subprocess.Popen[str]]]:
    """Two network namespaces with a wire between them, and the process that carries, delays and loses its packets."""
    with two_namespaces() as names:
        command = [sys.executable, str(Path(__file__).parent / "wire.py"), *names, *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as wire:
            try:
                assert wire.stdout is not None and wire.stdout.readline() == "up\n"
                yield names, wire
            finally:
                wire.terminate()


needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="network namespaces need root and iproute2"
)


@contextlib.contextmanager
def on_two_hosts(names: list[str], per_host: int, program: list[str]) -> Iterator[list[subprocess.Popen[str]]]:
    """A launcher of this job on each host."""
    port, jobs = str(free_port()), []
    for node, name in enumerate(names):
        launch = [sys.executable, "-m", "oneflow.distributed.launch", "--nnodes", "2"]
        launch += ["--nproc-per-node", str(per_host), "--node-rank", str(node)]
        where = ["--master-addr", "10.77.0.1", "--master-port", port]
        command = ["ip", "netns", "exec", name, *launch, *where, *program]
        env = environment(ONEFLOW_JOB_SECRET="a secret of both hosts")
        jobs.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    try:
        yield jobs
    finally:
        for job in jobs:
            job.kill()


@needs_namespaces
@pytest.mark.parametrize(
    ("mode", "link"), [("ddp", []), ("grid", []), ("ddp", ["rate", "20mbit", "burst", "4kb", "limit", "12kb"])]
)
def test_two_hosts_with_two_ranks_each(mode: str, link: list[str], alone: list[float]) -> None:
    with two_hosts() as names:
        for name in names if link else []:
            # So little room that packets of most messages are dropped and sent again.
            device = json.loads(run_in(name, "ip", "-j", "link", "show", "type", "veth"))[0]["ifname"]
            run_in(name, "tc", "qdisc", "add", "dev", device, "root", "tbf", *link)
        with on_two_hosts(names, 2, [TRAIN, mode]) as jobs:
            said = [job.communicate(timeout=200) for job in jobs]
        assert all(job.returncode == 0 for job in jobs), said
        is_that(read(said[0][0]), alone)
        if link:
            device = json.loads(run_in(names[0], "ip", "-j", "link", "show", "type", "veth"))[0]["ifname"]
            sent = json.loads(run_in(names[0], "tc", "-s", "-j", "qdisc", "show", "dev", device))
            assert sent[0]["drops"] > 0, sent


@needs_namespaces
@pytest.mark.skipif(not os.path.exists("/dev/net/tun"), reason="no TUN devices")
@pytest.mark.parametrize(
    "wire",
    [
        ["--delay", "0.01"],
        # Packets overtake each other.
        ["--delay", "0.002", "--jitter", "0.01"],
        ["--delay", "0.001", "--loss", "0.02"],
    ],
)
def test_two_hosts_far_from_each_other(wire: list[str], tmp_path: Path, alone: list[float]) -> None:
    script = tmp_path / "far.py"
    script.write_text(FAR.format(train=TRAIN))
    with two_far_hosts(*wire) as (names, process):
        with on_two_hosts(names, 2, [str(script), "ddp"]) as jobs:
            said = [job.communicate(timeout=200) for job in jobs]
        assert all(job.returncode == 0 for job in jobs), said
        is_that(read(said[0][0]), alone)
        # A barrier of hosts needs a way there and back.
        took = float(next(line for line in said[0][0].splitlines() if line.startswith("barrier")).split()[1])
        assert took >= 2 * float(wire[1]), took
        process.terminate()
        carried, lost = map(int, process.communicate()[0].split())
        assert carried > 1000 and (lost > 0 or "--loss" not in wire), (carried, lost)


FAR = """
import runpy, sys, time
import oneflow.distributed as dist
dist.barrier()
start = time.perf_counter()
dist.barrier()
if dist.get_rank() == 0:
    print("barrier", time.perf_counter() - start)
runpy.run_path({train!r}, run_name="__main__")
"""

FOREVER = """
import os, time
import oneflow as flow, oneflow.distributed as dist
dist.init_process_group()
data = flow.ones(1000)
for step in range(10**9):
    dist.all_reduce(data, op=dist.ReduceOp.MAX)
    if step == 3:
        open(os.environ["GOES"] + str(dist.get_rank()), "w").close()
    time.sleep(0.001)
"""


@needs_namespaces
def test_ranks_name_who_is_behind_a_link_that_is_down(tmp_path: Path) -> None:
    script = tmp_path / "forever.py"
    script.write_text(FOREVER.replace('os.environ["GOES"]', repr(str(tmp_path / "goes"))))
    with two_hosts() as names, on_two_hosts(names, 1, [str(script)]) as jobs:
        deadline = time.monotonic() + 120
        while not all((tmp_path / f"goes{rank}").exists() for rank in range(2)):
            assert time.monotonic() < deadline and all(job.poll() is None for job in jobs)
            time.sleep(0.1)
        device = json.loads(run_in(names[0], "ip", "-j", "link", "show", "type", "veth"))[0]["ifname"]
        start = time.monotonic()
        run_in(names[0], "ip", "link", "set", device, "down")
        said = [job.communicate(timeout=100)[1] for job in jobs]
        assert all(job.returncode != 0 for job in jobs) and time.monotonic() - start < 60
        for rank, text in enumerate(said):
            assert f"rank {1 - rank} does not answer for 10 s" in text and "all_reduce" in text, text


def run_in(name: str, *command: str) -> str:
    done = subprocess.run(["ip", "netns", "exec", name, *command], check=True, capture_output=True, text=True)
    return done.stdout
