"""torchrun's module: ``python -m oneflow.distributed.run train.py``, and its functions for launchers built on it.

Takes torchrun's flags, makes a :class:`~oneflow.distributed.launcher.LaunchConfig` of them and starts the ranks with
:class:`~oneflow.distributed.launcher.elastic_launch`. Flags whose settings there are none of raise there.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from typing import Any

import oneflow
from oneflow.distributed import launch
from oneflow.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
from oneflow.distributed.elastic.multiprocessing.errors import ChildFailedError
from oneflow.distributed.launcher import LaunchConfig, elastic_launch

__all__ = [
    "config_from_args",
    "determine_local_world_size",
    "get_args_parser",
    "main",
    "parse_args",
    "parse_min_max_nnodes",
    "run",
    "run_script_path",
]

# Where rank 0 of several machines listens if nobody says otherwise.
_PORT = 29500


def get_args_parser() -> argparse.ArgumentParser:
    """Return a parser of torchrun's flags, which may also come in the environment (``PET_NNODES`` and the like).

    Example::

        >>> from oneflow.distributed.run import get_args_parser
        >>> args = get_args_parser().parse_args(["--nproc-per-node", "2", "train.py", "--lr", "0.1"])
        >>> args.nproc_per_node, args.training_script, args.training_script_args
        ('2', 'train.py', ['--lr', '0.1'])
    """
    parser = argparse.ArgumentParser(prog="oneflow.distributed.run", description=__doc__)

    def names(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys((f"--{name.replace('_', '-')}", f"--{name}")))

    def flag(name: str, default: Any, help: str, *short: str, **more: Any) -> None:
        default = os.environ.get(f"PET_{name.upper()}", default)
        parser.add_argument(*short, *names(name), default=default, help=help, **more)

    def switch(name: str, help: str, *short: str) -> None:
        is_on = os.environ.get(f"PET_{name.upper()}", "0") not in ("", "0")
        parser.add_argument(*short, *names(name), action="store_true", default=is_on, help=help)

    flag("nnodes", "1:1", "machines in the job: a number, or a range of two equal ones")
    flag("nproc_per_node", "1", "processes on this machine: a number, cpu, gpu or auto")
    flag("rdzv_backend", "static", "static: machine 0 is named; other names serve jobs of one machine")
    flag("rdzv_endpoint", "", "host:port of machine 0; by default master_addr and master_port")
    flag("rdzv_id", "none", "a name of the job")
    flag("rdzv_conf", "", "name=value pairs with commas between")
    switch("standalone", "one machine, a free port")
    flag("max_restarts", 0, "how often all processes start anew after a failure", type=int)
    flag("monitor_interval", 0.1, "seconds between two looks at the processes", type=float)
    flag("start_method", "spawn", "for --run-path", choices=["spawn", "fork", "forkserver"])
    flag("event_log_handler", "null", "null, the only one")
    flag("role", "default", "what the ranks are to be called, the same on all machines: ROLE_NAME")
    switch("module", "the script is a module's name", "-m")
    switch("no_python", "the script is a program")
    switch("run_path", "run the script by its absolute path in processes of multiprocessing")
    flag("log_dir", None, "folder for files of output")
    flag("redirects", "0", "streams that go to files: 1 output, 2 errors, 3 both; or rank:number pairs", "-r")
    flag("tee", "0", "streams that go to files and are shown: as redirects", "-t")
    flag(
        "log_line_prefix_template",
        os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", ""),
        "before each line that tee shows: a text with ${role_name}, ${rank}, ${local_rank}, ${hostname}",
    )
    flag("local_ranks_filter", "", "ranks of this machine whose output is shown, with commas between; all by default")
    flag("duplicate_stdout_filters", [], "not supported", type=_texts)
    flag("duplicate_stderr_filters", [], "not supported", type=_texts)
    flag("node_rank", 0, "which machine this is", type=int)
    flag("master_addr", "127.0.0.1", "address of machine 0")
    flag("master_port", None, f"port of machine 0: a free one on one machine, else {_PORT}", type=int)
    flag("local_addr", None, "the address at which ranks of one machine meet")
    parser.add_argument(*names("logs_specs"), help="not supported")
    parser.add_argument(*names("numa_binding"), help="not supported")
    flag("signals_to_handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "signals that end the ranks")
    flag("shutdown_timeout", None, "seconds that a rank has to end", type=int)
    switch("virtual_local_rank", "not supported")
    parser.add_argument("--tls", action="store_true", help="encrypt all connections between ranks: ONEFLOW_TLS=1")
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def _texts(value: str) -> list[str]:
    return value.split(",")


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """Read a command line.

    Example::

        >>> from oneflow.distributed.run import parse_args
        >>> parse_args(["--standalone", "train.py"]).standalone
        True
    """
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """Return the numbers of machines in a text such as ``"2"`` or ``"1:4"``.

    Example::

        >>> from oneflow.distributed.run import parse_min_max_nnodes
        >>> parse_min_max_nnodes("2"), parse_min_max_nnodes("1:4")
        ((2, 2), (1, 4))
    """
    found = [int(part) for part in nnodes.split(":")]
    if len(found) > 2:
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    return found[0], found[-1]


def determine_local_world_size(nproc_per_node: str) -> int:
    """Return how many processes a machine runs: a number, or one for each core or GPU.

    Example::

        >>> from oneflow.distributed.run import determine_local_world_size
        >>> determine_local_world_size("3")
        3
    """
    if nproc_per_node == "gpu" or (nproc_per_node == "auto" and oneflow.cuda.is_available()):
        if not oneflow.cuda.is_available():
            raise ValueError("Cuda is not available.")
        return oneflow.cuda.device_count()
    if nproc_per_node in ("cpu", "auto"):
        return launch._processes(nproc_per_node)
    try:
        return int(nproc_per_node)
    except ValueError:
        raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}") from None


def config_from_args(args: argparse.Namespace) -> tuple[LaunchConfig, Callable[..., Any] | str, list[str]]:
    """Return how a job is started, what its ranks run, and the arguments of that.

    Raises:
        NotImplementedError: a flag asks for what there is not.
        ValueError: flags that contradict each other.

    Example::

        >>> from oneflow.distributed.run import config_from_args, parse_args
        >>> config, command, arguments = config_from_args(parse_args(["--nproc-per-node", "2", "train.py"]))
        >>> config.nproc_per_node, arguments
        (2, ['-u', 'train.py'])
    """
    min_nodes, max_nodes = parse_min_max_nnodes(str(args.nnodes))
    if args.logs_specs is not None:
        raise NotImplementedError("--logs-specs is not supported; ranks write where --redirects says")
    ranks = [int(rank) for rank in args.local_ranks_filter.split(",")] if args.local_ranks_filter else None
    logs = DefaultLogsSpecs(args.log_dir, Std.from_str(args.redirects), Std.from_str(args.tee), ranks)
    settings: dict[str, Any] = dict(pair.split("=", 1) for pair in args.rdzv_conf.split(",") if pair)
    backend, endpoint = args.rdzv_backend, args.rdzv_endpoint
    if backend == "static":
        settings["rank"] = args.node_rank
        if not endpoint:
            port = args.master_port or (launch._free_port(args.master_addr) if max_nodes == 1 else _PORT)
            endpoint = f"{args.master_addr}:{port}"
    config = LaunchConfig(
        min_nodes=min_nodes,
        max_nodes=max_nodes,
        nproc_per_node=determine_local_world_size(str(args.nproc_per_node)),
        logs_specs=logs,
        run_id=args.rdzv_id,
        role=args.role,
        rdzv_endpoint=endpoint,
        rdzv_backend=backend,
        rdzv_configs=settings,
        max_restarts=args.max_restarts,
        monitor_interval=args.monitor_interval,
        start_method=args.start_method,
        log_line_prefix_template=args.log_line_prefix_template or None,
        local_addr=args.local_addr,
        event_log_handler=args.event_log_handler,
        numa_options=args.numa_binding,
        signals_to_handle=args.signals_to_handle,
        duplicate_stdout_filters=args.duplicate_stdout_filters,
        duplicate_stderr_filters=args.duplicate_stderr_filters,
        virtual_local_rank=args.virtual_local_rank,
        shutdown_timeout=args.shutdown_timeout,
    )
    rest = list(args.training_script_args)
    if args.run_path:
        return config, run_script_path, [args.training_script, *rest]
    if args.no_python:
        if args.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
        return config, args.training_script, rest
    python = os.environ.get("PYTHON_EXEC", sys.executable)
    return config, python, ["-u", *(["-m"] if args.module else []), args.training_script, *rest]


def run_script_path(training_script: str, *training_script_args: str) -> None:
    """Run a script in this process as the main program.

    Example::

        >>> import pathlib
        >>> from oneflow.distributed.run import run_script_path
        >>> path = pathlib.Path("say.py")
        >>> _ = path.write_text("import sys; print(sys.argv[1:])")
        >>> run_script_path(str(path.absolute()), "--lr", "0.1")
        ['--lr', '0.1']
    """
    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


def run(args: argparse.Namespace) -> None:
    """Start the ranks of a job and wait for their end.

    Args:
        args: what :func:`get_args_parser` gives; a launcher may change it.

    Raises:
        ChildFailedError: a rank failed, also at its last restart.

    Example::

        >>> import pathlib
        >>> from oneflow.distributed.run import parse_args, run
        >>> _ = pathlib.Path("train.py").write_text("import os; assert os.environ['WORLD_SIZE'] == '2'")
        >>> run(parse_args(["--nproc-per-node", "2", "train.py"]))
    """
    if args.standalone:
        args.rdzv_backend, args.rdzv_endpoint = "c10d", "localhost:0"
    if getattr(args, "tls", False):
        os.environ["ONEFLOW_TLS"] = "1"
    config, command, arguments = config_from_args(args)
    elastic_launch(config, command)(*arguments)


def main(args: Sequence[str] | None = None) -> int:
    """Run the job of a command line and return the exit code of a process that failed, 0 if none did.

    Example::

        >>> import pathlib
        >>> from oneflow.distributed.run import main
        >>> _ = pathlib.Path("train.py").write_text("pass")
        >>> main(["--nproc-per-node", "2", "train.py"])
        0
    """
    try:
        run(parse_args(args))
    except ChildFailedError as error:
        sys.stderr.write(f"oneflow.distributed.run: {error}\n")
        return int(error.get_first_failure()[1].exitcode) or 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
