"""The processes of one start of a job: started, watched, ended together, and what they leave behind."""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import pickle
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from oneflow.distributed import _error_files, launch
from oneflow.distributed.elastic.multiprocessing import Std
from oneflow.distributed.elastic.multiprocessing.errors import ProcessFailure
from oneflow.distributed.launcher._console import Console, prefix

# The output streams of a process: their flag, file descriptor and the end of their file's name.
_STREAMS = ((Std.OUT, 1, "stdout"), (Std.ERR, 2, "stderr"))


class Run:
    """One start of all ranks of this machine.

    Args:
        config: the :class:`~oneflow.distributed.launcher.LaunchConfig`.
        job: what :func:`oneflow.distributed.launch.environment` reads.
        restart: how many starts there were before.
        folder: where results and errors of ranks are left.
    """

    def __init__(self, config: Any, job: argparse.Namespace, restart: int, folder: str) -> None:
        self._config, self._job, self._restart, self._folder = config, job, restart, folder
        self._processes: list[Any] = []
        self._console = Console(config.monitor_interval)

    def to_end(
        self, entrypoint: Callable[..., Any] | str, args: list[Any]
    ) -> tuple[dict[int, Any], dict[int, ProcessFailure]]:
        """Return the results of functions by rank, or the failures that ended the job."""
        for local_rank in range(self._job.nproc_per_node):
            _error_files.forget(self._error_file(local_rank))
        try:
            for local_rank in range(self._job.nproc_per_node):
                self._processes.append(
                    self._start_command(local_rank, entrypoint, args)
                    if isinstance(entrypoint, str)
                    else self._start_function(local_rank, entrypoint, args)
                )
            # After all forks, which would copy the threads' locks as they are.
            for local_rank in range(self._job.nproc_per_node):
                self._show(local_rank)
            failed = self._watch()
        finally:
            self._stop()
            self._console.close()
        if failed or isinstance(entrypoint, str):
            return {}, failed
        ranks = range(self._job.nproc_per_node)
        return {self._rank(i): self._result(i) for i in ranks}, {}

    def _rank(self, local_rank: int) -> int:
        return int(self._job.node_rank * self._job.nproc_per_node + local_rank)

    def _path(self, local_rank: int, kind: str) -> str:
        return os.path.join(self._folder, f"rank{self._rank(local_rank)}.{self._restart}.{kind}")

    def _environment(self, local_rank: int) -> dict[str, str]:
        found = launch.environment(self._job, local_rank, self._restart)
        # What this process has taken for itself, if it is a rank, is no word for its children.
        found.pop("ONEFLOW_RANK_OF_PROCESS", None)
        return {**found, "TORCHELASTIC_RUN_ID": self._config.run_id}

    def _outputs(self, local_rank: int) -> dict[int, str]:
        """The file descriptors of a rank that go to files."""
        specs = self._config.logs_specs
        to_files = specs.redirects_of(local_rank) | specs.tee_of(local_rank)
        found = {number: self._path(local_rank, kind) for std, number, kind in _STREAMS if to_files & std}
        if not specs.is_shown(local_rank):
            found = {number: found.get(number, os.devnull) for _, number, _ in _STREAMS}
        for path in found.values():
            if path != os.devnull:
                # What another job has left there is not shown.
                open(path, "wb").close()
        return found

    def _show(self, local_rank: int) -> None:
        """Follow the files of a rank that are shown, too."""
        specs = self._config.logs_specs
        if not specs.is_shown(local_rank):
            return
        template, role = self._config.log_line_prefix_template, self._config.role
        before = prefix(template, role, self._rank(local_rank), local_rank)
        for std, number, kind in _STREAMS:
            if specs.tee_of(local_rank) & std:
                stream = sys.stdout if number == 1 else sys.stderr
                self._console.follow(self._path(local_rank, kind), before, stream)

    def _start_function(self, local_rank: int, entrypoint: Any, args: list[Any]) -> Any:
        env, result = self._environment(local_rank), self._path(local_rank, "pickle")
        method = self._config.start_method
        launcher = os.getpid() if method != "forkserver" else None
        process = multiprocessing.get_context(method).Process(
            target=_work, args=(entrypoint, tuple(args), env, self._outputs(local_rank), result, launcher)
        )
        # Modules that are imported before the function runs read the environment, too.
        with _set(env):
            process.start()
        return process

    def _start_command(self, local_rank: int, entrypoint: str, args: list[Any]) -> Any:
        outputs = {number: open(path, "wb") for number, path in self._outputs(local_rank).items()}
        try:
            return subprocess.Popen(
                [entrypoint, *map(str, args)],
                env=self._environment(local_rank),
                stdout=outputs.get(1),
                stderr=outputs.get(2),
                preexec_fn=functools.partial(launch._end_with_parent, os.getpid()),
            )
        finally:
            for file in outputs.values():
                file.close()

    def _watch(self) -> dict[int, ProcessFailure]:
        """Wait for the end of all or the first failure."""
        while True:
            codes = [_code(process) for process in self._processes]
            failed = {i: code for i, code in enumerate(codes) if code}
            if failed:
                # Who failed first may be slower to end than those that heard of it. An exception ends a rank with 1.
                left = {i: 1 for i, code in enumerate(codes) if code is None and os.path.exists(self._error_file(i))}
                return {self._rank(i): self._failure(i, code) for i, code in (failed | left).items()}
            if None not in codes:
                return {}
            time.sleep(self._config.monitor_interval)

    def _failure(self, local_rank: int, code: int) -> ProcessFailure:
        return ProcessFailure(local_rank, self._processes[local_rank].pid, code, self._error_file(local_rank))

    def _error_file(self, local_rank: int) -> str:
        return os.path.join(self._folder, f"error{self._rank(local_rank)}.{self._restart}.json")

    def _stop(self) -> None:
        """Leave no process behind."""
        for process in self._processes:
            if _code(process) is None:
                process.terminate()
        deadline = time.monotonic() + self._config.shutdown_timeout
        for process in self._processes:
            while _code(process) is None:
                if time.monotonic() > deadline:
                    process.kill()
                time.sleep(0.01)

    def _result(self, local_rank: int) -> Any:
        with open(self._path(local_rank, "pickle"), "rb") as file:
            return pickle.load(file)


def _code(process: Any) -> int | None:
    found = process.poll() if isinstance(process, subprocess.Popen) else process.exitcode
    return None if found is None else int(found)


@contextmanager
def _set(env: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(env)
    try:
        yield
    finally:
        for name in env:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


def _work(
    entrypoint: Callable[..., Any],
    args: tuple[Any, ...],
    env: dict[str, str],
    outputs: dict[int, str],
    result: str,
    launcher: int | None,
) -> None:
    """What the process of a rank runs."""
    os.environ.update(env)
    os.environ.pop("ONEFLOW_RANK_OF_PROCESS", None)
    if launcher is not None:
        launch._end_with_parent(launcher)
    for number, path in outputs.items():
        with open(path, "wb") as file:
            os.dup2(file.fileno(), number)
    try:
        value = pickle.dumps(entrypoint(*args))
    except SystemExit as end:
        if end.code:
            raise
        value = pickle.dumps(None)
    except Exception as error:
        _error_files.write(error)
        traceback.print_exc()
        sys.exit(1)
    with open(result, "wb") as file:
        file.write(value)
