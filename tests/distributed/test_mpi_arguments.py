"""The backend "mpi" without mpirun, and arguments that contradict it. tests/clusters has it run."""

from __future__ import annotations

import oneflow.distributed as dist
import pytest
from distributed.processes import environment, free_port, run, torchrun
from oneflow.distributed import _backends


def test_mpi_needs_mpirun_and_takes_no_meeting_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in set(environment()) ^ set(environment(PMI_RANK=0, PMI_SIZE=1)):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RuntimeError, match="mpirun has not started this process"):
        dist.init_process_group("mpi")
    with pytest.raises(ValueError, match="leave out store and init_method"):
        dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "1")
    monkeypatch.setenv("ONEFLOW_MPI_LIBRARY", "/no/such/libmpi.so")
    with pytest.raises(RuntimeError, match=r"no MPI library .*/no/such/libmpi.so.*ONEFLOW_MPI_LIBRARY names one"):
        dist.init_process_group("mpi")
    assert not dist.is_mpi_available() and not dist.is_backend_available("mpi")
    assert not dist.is_initialized()


def test_a_rank_of_another_launcher_has_no_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launchers of programs that ask it choose "gloo" then, whatever library the machine has."""
    for name in set(environment()) ^ set(environment(PMI_RANK=0, PMI_SIZE=1)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_backends._oneflow, "_is_mpi_available", lambda: True)
    assert dist.is_mpi_available() and dist.is_backend_available("mpi")
    for name, value in torchrun(0, 2, 29400).items():
        monkeypatch.setenv(name, str(value))
    assert not dist.is_mpi_available() and not dist.is_backend_available("mpi")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert dist.is_mpi_available()


def test_groups_have_the_backend_of_the_job() -> None:
    port = free_port()
    body = (
        "dist.init_process_group('gloo')\n"
        "try: dist.new_group([0], backend='mpi')\n"
        "except NotImplementedError as error: print(error)"
    )
    for out, error in run(body, [torchrun(rank, 2, port) for rank in range(2)]):
        assert "backend 'mpi', but the job was joined with 'tcp'" in out, error
