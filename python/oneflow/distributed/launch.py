"""Start the ranks of a job on this machine: ``python -m oneflow.distributed.launch --nproc-per-node 2 script.py``.

Takes torchrun's flags for one launcher a node, also as variables (``PET_NNODES`` and the like), and gives every process
torchrun's environment. The first process that fails ends the others, after which all may start anew
(``--max-restarts``); no process outlives the launcher. On one machine the launcher makes the job's secret; on several
``ONEFLOW_JOB_SECRET`` or ``ONEFLOW_JOB_SECRET_FILE`` must be the same for all. With ``--tls`` all connections between
ranks are encrypted.
"""

from __future__ import annotations

import argparse
import ctypes
import glob
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from oneflow.distributed import _error_files


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line.

    Example::

        >>> from oneflow.distributed.launch import parse_arguments
        >>> args = parse_arguments(["--nproc-per-node", "2", "train.py", "--lr", "0.1"])
        >>> args.nproc_per_node, args.script, args.arguments
        (2, 'train.py', ['--lr', '0.1'])
    """
    parser = argparse.ArgumentParser(prog="oneflow.distributed.launch", description=__doc__)

    def flag(name: str, default: object, help: str, type: object = int) -> None:
        # As torchrun, whose flags may come in the environment: argparse reads a default that is a text.
        default = os.environ.get(f"PET_{name.upper()}", default)
        parser.add_argument(f"--{name.replace('_', '-')}", f"--{name}", type=type, default=default, help=help)  # type: ignore[arg-type]

    flag("nnodes", 1, "machines in the job")
    flag("node_rank", 0, "which of them this is")
    flag("nproc_per_node", 1, "processes on this machine; cpu or auto: one for each core", _processes)
    flag("master_addr", "127.0.0.1", "address of machine 0", str)
    flag("master_port", None, "port of machine 0, a free one by default")
    flag("role", "default", "what the ranks are to be called, the same on all machines: ROLE_NAME", str)
    parser.add_argument("--standalone", action="store_true", help="one machine, a free port: what is done anyway")
    parser.add_argument(
        "--max-restarts",
        "--max_restarts",
        type=int,
        default=0,
        help="how often all processes start anew after a failure",
    )
    parser.add_argument(
        "--log-dir", "--log_dir", "--logdir", help="folder for a file of output for each rank and start"
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="encrypt all connections between ranks: ONEFLOW_TLS=1",
    )
    parser.add_argument("-m", "--module", action="store_true", help="the script is a module's name")
    parser.add_argument("--no-python", "--no_python", action="store_true", help="the script is a program")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args(argv)
    if args.nproc_per_node < 1 or not 0 <= args.node_rank < args.nnodes:
        parser.error("--nproc-per-node must be positive and --node-rank below --nnodes")
    if args.master_port is None:
        if args.nnodes > 1:
            parser.error("--master-port is required with several machines")
        args.master_port = _free_port(args.master_addr)
    # Inherited by the ranks and seen by nobody else; the same after a restart.
    args.secret = secrets.token_hex(32)
    args.records = args.log_dir or os.path.join(tempfile.gettempdir(), f"oneflow-{args.secret[:8]}")
    return args


def _processes(text: str) -> int:
    return len(os.sched_getaffinity(0)) if text in ("cpu", "auto") else int(text)


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def environment(args: argparse.Namespace, local_rank: int, restart: int = 0) -> dict[str, str]:
    """Return the environment of one rank.

    Example::

        >>> from oneflow.distributed.launch import environment, parse_arguments
        >>> found = environment(parse_arguments(["--nproc-per-node", "2", "train.py"]), 1)
        >>> found["RANK"], found["WORLD_SIZE"]
        ('1', '2')
    """
    n = args.nproc_per_node
    own = {
        "RANK": args.node_rank * n + local_rank,
        "LOCAL_RANK": local_rank,
        "WORLD_SIZE": args.nnodes * n,
        "LOCAL_WORLD_SIZE": n,
        "GROUP_RANK": args.node_rank,
        "GROUP_WORLD_SIZE": args.nnodes,
        # All ranks of a job have the same role.
        "ROLE_NAME": args.role,
        "ROLE_RANK": args.node_rank * n + local_rank,
        "ROLE_WORLD_SIZE": args.nnodes * n,
        "MASTER_ADDR": args.master_addr,
        "MASTER_PORT": args.master_port,
        "TORCHELASTIC_RUN_ID": os.environ.get("TORCHELASTIC_RUN_ID", "none"),
        "TORCHELASTIC_RESTART_COUNT": restart,
        "TORCHELASTIC_MAX_RESTARTS": args.max_restarts,
    }
    env = {**os.environ, **{name: str(value) for name, value in own.items()}}
    if args.nnodes == 1 and not (env.get("ONEFLOW_JOB_SECRET") or env.get("ONEFLOW_JOB_SECRET_FILE")):
        env["ONEFLOW_JOB_SECRET"] = args.secret
    if args.tls:
        env["ONEFLOW_TLS"] = "1"
    env["TORCHELASTIC_ERROR_FILE"] = os.path.join(args.records, f"error{own['RANK']}.{restart}.json")
    env.setdefault("ONEFLOW_FLIGHT_DIR", os.path.join(args.records, f"flight.{restart}"))
    if n > 1:
        env.setdefault("OMP_NUM_THREADS", "1")
    return env


def main(argv: list[str] | None = None) -> int:
    """Run the job and return the exit code of the first process that failed, 0 if none did.

    Example::

        >>> import signal, pathlib
        >>> from oneflow.distributed.launch import main
        >>> _ = pathlib.Path("train.py").write_text("import sys; sys.exit(3)")
        >>> before = signal.getsignal(signal.SIGTERM)
        >>> main(["--nproc-per-node", "2", "train.py"])
        3
        >>> _ = signal.signal(signal.SIGTERM, before)
    """
    args = parse_arguments(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.makedirs(args.records, mode=0o700, exist_ok=True)
    for restart in range(args.max_restarts + 1):
        code = _run(args, restart)
        if code:
            _explain(args, restart)
        if code == 0 or restart == args.max_restarts:
            break
        sys.stderr.write(f"oneflow.distributed.launch: a process ended with {code}; start {restart + 2} of all\n")
        if args.nnodes == 1:
            # The old port may still be held for a while.
            args.master_port = _free_port(args.master_addr)
    if args.log_dir is None and not glob.glob(os.path.join(args.records, "flight.*", "*")):
        shutil.rmtree(args.records, ignore_errors=True)
    return code


def _explain(args: argparse.Namespace, restart: int) -> None:
    """Say what ended the job: the first exception of a rank, and where the records of all are."""
    left = {}
    for rank in range(args.node_rank * args.nproc_per_node, (args.node_rank + 1) * args.nproc_per_node):
        path = os.path.join(args.records, f"error{rank}.{restart}.json")
        found = _error_files.read(path)
        if found is not None:
            left[rank] = (os.stat(path).st_mtime_ns, found["message"])
    if left:
        rank = min(left, key=lambda r: left[r])
        sys.stderr.write(f"oneflow.distributed.launch: rank {rank} failed first: {left[rank][1]}\n")
    folder = os.environ.get("ONEFLOW_FLIGHT_DIR") or os.path.join(args.records, f"flight.{restart}")
    if glob.glob(os.path.join(folder, "rank*.json")):
        sys.stderr.write(f"oneflow.distributed.launch: see: python -m oneflow.distributed.flight {folder}\n")


def _run(args: argparse.Namespace, restart: int) -> int:
    """One start of all processes, to the end of the last or the failure of the first."""
    command = [] if args.no_python else [sys.executable, "-u"]
    command += ["-m", args.script] if args.module else [args.script]
    command += args.arguments
    for rank in range(args.node_rank * args.nproc_per_node, (args.node_rank + 1) * args.nproc_per_node):
        _error_files.forget(os.path.join(args.records, f"error{rank}.{restart}.json"))
    processes = [_start(command, args, rank, restart) for rank in range(args.nproc_per_node)]
    code = 0
    try:
        while code == 0 and any(p.poll() is None for p in processes):
            code = next((p.returncode for p in processes if p.returncode), 0)
            time.sleep(0.05)
        return code or next((p.returncode for p in processes if p.returncode), 0)
    finally:
        for p in processes:
            if p.poll() is None:
                p.terminate()
        for p in processes:
            try:
                p.wait(timeout=10)
            except subprocess.TimeoutExpired:
                p.kill()


def _start(command: list[str], args: argparse.Namespace, local_rank: int, restart: int) -> subprocess.Popen[bytes]:
    env = environment(args, local_rank, restart)
    if args.log_dir is None:
        return subprocess.Popen(command, env=env, preexec_fn=_end_with_parent)
    os.makedirs(args.log_dir, exist_ok=True)
    with open(os.path.join(args.log_dir, f"rank{env['RANK']}.{restart}.log"), "wb") as log:
        return subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT, preexec_fn=_end_with_parent)


_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


_LAUNCHER = os.getpid()


def _end_with_parent(launcher: int = _LAUNCHER) -> None:
    """Also a launcher that is killed outright leaves no process behind, not even one that ignores SIGTERM."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher:
        # It was killed before the line above.
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
