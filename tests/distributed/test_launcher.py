"""Ranks that a program starts itself: the same programs, run by PyTorch and by this package."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from distributed.processes import environment
from oneflow.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
from oneflow.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from oneflow.distributed.launcher import LaunchConfig, elastic_launch

HEAD = """
import json, os, sys, time
package, folder = sys.argv[1:3]
torch = __import__(package)
if package == "oneflow":
    import oneflow.mock_torch
    oneflow.mock_torch.enable()
import torch.distributed as dist
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, record

def config(**given):
    values = dict(min_nodes=1, max_nodes=1, nproc_per_node=2, run_id="a-run", rdzv_backend="c10d",
                  rdzv_endpoint="localhost:0", max_restarts=0, monitor_interval=0.05)
    return LaunchConfig(**{**values, **given})
"""


def run(package: str, body: str, folder: Path) -> Any:
    """The last line that the program writes, as JSON."""
    path = folder / "program.py"
    path.write_text(HEAD + body)
    (folder / package).mkdir()
    done = subprocess.run(
        [sys.executable, str(path), package, str(folder / package)],
        env=environment(GLOO_SOCKET_IFNAME="lo"),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, (package, done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def both(body: str, folder: Path) -> Any:
    """What the program writes under PyTorch, and the same under this package."""
    theirs, ours = (run(package, body, folder) for package in ("torch", "oneflow"))
    assert theirs == ours
    return ours


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_functions_return_their_results_by_rank(method: str, tmp_path: Path) -> None:
    body = """
def work(x, y):
    dist.init_process_group("gloo")
    total = torch.tensor([float(dist.get_rank() + x)])
    dist.all_reduce(total)
    names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK".split()
    names += ["TORCHELASTIC_RUN_ID", "TORCHELASTIC_MAX_RESTARTS", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE"]
    found = [os.environ[name] for name in names]
    dist.destroy_process_group()
    return total.item(), y, found

if __name__ == "__main__":
    kept = dict(os.environ)
    print(json.dumps(elastic_launch(config=config(start_method="METHOD", role="trainer"), entrypoint=work)(10, "y")))
"""
    found: Any = both(body.replace("METHOD", method), tmp_path)
    assert found["0"] == [21.0, "y", ["0", "0", "2", "2", "0", "a-run", "0", "trainer", "0", "2"]]


def test_a_failure_ends_all_and_tells_which(tmp_path: Path) -> None:
    body = """
@record
def work(how):
    if os.environ["RANK"] == "1":
        if how == "raise":
            raise ValueError("went wrong")
        os.kill(os.getpid(), 9) if how == "kill" else os._exit(7)
    time.sleep(100)

if __name__ == "__main__":
    said = []
    for how in ("raise", "kill", "exit"):
        try:
            elastic_launch(config(), work)(how)
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            text = failure.message if isinstance(failure.message, str) else failure.message["message"]
            said.append([error.name, rank, sorted(error.failures), failure.local_rank, failure.exitcode,
                         failure.signal_name(), "went wrong" in text, "work FAILED" in str(error)])
    print(json.dumps(said))
"""
    found = both(body, tmp_path)
    assert [one[4] for one in found] == [1, -9, 7]


def test_the_rank_that_failed_first_is_named_also_where_it_ends_last(tmp_path: Path) -> None:
    """Others hear of its failure, fail too, and end sooner; the folder still has what an earlier job left."""
    body = """
import glob
from oneflow.distributed.elastic.multiprocessing import DefaultLogsSpecs
logs = os.path.join(folder, "logs")

def work(text):
    if os.environ["RANK"] == "1":
        atexit.register(time.sleep, 5)
        raise ValueError(text)
    while not glob.glob(os.path.join(logs, "error1.0.json")):
        time.sleep(0.01)
    raise RuntimeError("rank 1 is gone")

if __name__ == "__main__":
    said = []
    for text in ("earlier", "later"):
        try:
            elastic_launch(config(logs_specs=DefaultLogsSpecs(logs), shutdown_timeout=0), work)(text)
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            said.append([rank, sorted(error.failures), failure.exitcode, failure.message["message"]])
    print(json.dumps(said))
"""
    found = run("oneflow", "import atexit\n" + body, tmp_path)
    assert found == [[1, [0, 1], 1, f"ValueError: {text}"] for text in ("earlier", "later")]


def test_restarts_start_all_ranks_anew(tmp_path: Path) -> None:
    body = """
def work():
    dist.init_process_group("gloo")
    n = torch.ones(1)
    dist.all_reduce(n)
    start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    open(os.path.join(folder, f"{start}.{dist.get_rank()}"), "w").close()
    if start < 2 and dist.get_rank() == 0:
        sys.exit(1)
    dist.barrier()
    dist.destroy_process_group()
    return start, n.item()

if __name__ == "__main__":
    found = elastic_launch(config(max_restarts=6), work)()
    # A rank that is slow to leave may fail where the other has gone already, and cost one start more.
    print(json.dumps([sorted(found), min(start for start, _ in found.values()) >= 2, [n for _, n in found.values()]]))
"""
    # PyTorch's gives the same, after half a minute for each rank that it has to end.
    assert run("oneflow", body, tmp_path) == [[0, 1], True, [2.0, 2.0]]


def test_commands_and_the_files_of_their_output(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\nprint('rank', os.environ['RANK'], sys.argv[1])\nprint('words', file=sys.stderr)\n"
    )
    logs = tmp_path / "logs"
    specs = DefaultLogsSpecs(str(logs), redirects={0: Std.ALL, 1: Std.OUT})
    config = LaunchConfig(1, 1, 2, logs_specs=specs, max_restarts=0, monitor_interval=0.02)
    assert elastic_launch(config, sys.executable)("-u", str(script), 3) == {}
    assert (logs / "rank0.0.stdout").read_text() == "rank 0 3\n"
    assert (logs / "rank0.0.stderr").read_text() == "words\n"
    assert (logs / "rank1.0.stdout").read_text() == "rank 1 3\n"
    assert not (logs / "rank1.0.stderr").exists()


@pytest.mark.parametrize(
    ("flags", "shown", "complained"),
    [
        (["--tee", "3"], ["[default0]:out 0", "[default0]:rest", "[default1]:out 1", "[default1]:rest"], 2),
        (["-t", "0:1", "--role", "trainer"], ["[trainer0]:out 0", "[trainer0]:rest", "out 1", "rest"], 0),
        (
            ["--tee=3", "--log-line-prefix-template", "${role_name}/${rank} $x: ", "--local-ranks-filter", "1"],
            ["default/1 $x: out 1", "default/1 $x: rest"],
            1,
        ),
        (["--local_ranks_filter=0"], ["out 0", "rest"], 0),
        (["--redirects", "3", "--local_ranks_filter=0"], [], 0),
    ],
)
@pytest.mark.parametrize("package", ["torch", "oneflow"])
def test_lines_of_ranks_are_shown_with_a_prefix(
    package: str, flags: list[str], shown: list[str], complained: int, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\nprint('out', os.environ['RANK'])\nprint('words', file=sys.stderr)\nprint('rest')\n"
    )
    command = ["--nproc-per-node", "2", "--log-dir", str(tmp_path / "logs"), *flags, str(script)]
    done = subprocess.run(
        [sys.executable, "-m", f"{package}.distributed.run", *command],
        env=environment(OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(done.stdout.splitlines()) == sorted(shown)
    assert sum(line.endswith((":words", ": words")) for line in done.stderr.splitlines()) == complained


def test_a_last_line_without_an_end_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    specs = DefaultLogsSpecs(str(tmp_path), tee={1: Std.OUT})
    config = LaunchConfig(1, 1, 2, logs_specs=specs, max_restarts=0, log_line_prefix_template="${rank}: ")
    elastic_launch(config, sys.executable)("-c", "print('a\\nb', end='')")
    assert capsys.readouterr().out == "1: a\n1: b\n"
    assert (tmp_path / "rank1.0.stdout").read_text() == "a\nb"


def _outcome(config: LaunchConfig, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        elastic_launch(config, max)(1, 2)


def test_what_is_refused() -> None:
    def config(**given: Any) -> LaunchConfig:
        return LaunchConfig(**{"min_nodes": 1, "max_nodes": 1, "nproc_per_node": 1, **given})

    _outcome(config(max_nodes=2), NotImplementedError, "min_nodes 1 must be max_nodes 2")
    _outcome(config(min_nodes=2, max_nodes=2), NotImplementedError, "use 'static'")
    _outcome(config(rdzv_backend="static"), ValueError, "host:port")
    _outcome(config(rdzv_backend="static", rdzv_endpoint="h:1", rdzv_configs={"rank": 1}), ValueError, "rank 1 of 1")
    _outcome(config(nproc_per_node=0), ValueError, "positive")
    _outcome(config(metrics_cfg={"a": "b"}), NotImplementedError, "metrics_cfg")
    _outcome(config(virtual_local_rank=True), NotImplementedError, "virtual_local_rank")
    _outcome(config(signals_to_handle="SIGNO"), ValueError, "SIGNO")
    with pytest.raises(ValueError, match="shutdown_timeout"):
        config(shutdown_timeout=-1)
    with pytest.raises(TypeError, match="entrypoint"):
        elastic_launch(config(), None)()
    for text in ("4", "1:", "x", "0:9"):
        with pytest.raises(ValueError, match="from_str"):
            Std.from_str(text)


def test_results_that_cannot_be_pickled_are_failures_of_their_rank() -> None:
    with pytest.raises(ChildFailedError, match="pickle"):
        elastic_launch(LaunchConfig(1, 1, 1, start_method="fork", max_restarts=0), _unpicklable)()


def _unpicklable() -> Any:
    return lambda: 1


def test_a_command_line_as_torchrun_reads_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("""
import os, sys
open(os.path.join(sys.argv[1], os.environ["RANK"]), "w").write(" ".join([os.environ["WORLD_SIZE"], *sys.argv[2:]]))
sys.exit(3 if sys.argv[2:] == ["fail"] and os.environ["RANK"] == "1" else 0)
""")
    body = f"""
from torch.distributed import run
script = {str(tmp_path / "train.py")!r}

def started(*flags, arguments=("--lr", "0.1"), **changes):
    args = run.get_args_parser().parse_args([*flags, script, folder, *arguments])
    vars(args).update(changes)
    for rank in os.listdir(folder):
        os.unlink(os.path.join(folder, rank))
    try:
        run.run(args)
    except ChildFailedError as error:
        return "failed", error.get_first_failure()[0], error.get_first_failure()[1].exitcode
    except Exception as error:
        return type(error).__name__
    return [open(os.path.join(folder, rank)).read() for rank in sorted(os.listdir(folder))]

def config_of(*flags):
    try:
        config, command, arguments = run.config_from_args(run.parse_args([*flags, script, "--x", "1"]))
    except Exception as error:
        return type(error).__name__
    command = getattr(command, "__name__", command)
    return (config.nproc_per_node, config.max_nodes, config.max_restarts, config.rdzv_configs.get("rank"),
            config.start_method, command, arguments)

if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    # What a launcher that is built on it changes is text.
    found = [started("--nproc-per-node", "2"), started("--standalone", nproc_per_node="2"),
             started("--nproc_per_node=2", "--monitor-interval", "0.05", arguments=["fail"]),
             started("--run-path", "--nproc-per-node", "2")]
    found += [config_of("--rdzv-endpoint", "localhost:1234", *flags) for flags in (
        [], ["--module"], ["--no-python"], ["--no-python", "-m"], ["--nnodes", "2", "--node-rank", "1"],
        ["--nproc-per-node", "cpu"], ["--nproc-per-node", "many"], ["--nnodes", "1:1:1"], ["--max_restarts=4"],
        ["--run-path", "--start-method", "fork"], ["--local_ranks_filter", "a"], ["--redirects", "7"])]
    os.environ["PET_NPROC_PER_NODE"] = "5"
    found += [config_of("--rdzv-endpoint", "localhost:1234"), run.parse_min_max_nnodes("2:3")]
    print(json.dumps(found))
"""
    found: Any = both(body, tmp_path)
    assert found[:3] == [["2 --lr 0.1"] * 2, ["2 --lr 0.1"] * 2, ["failed", 1, 3]]


def test_a_signal_to_the_launcher_ends_the_ranks(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"""
import os, sys, time
from oneflow.distributed.launcher import LaunchConfig, elastic_launch
def work():
    open(os.path.join({str(tmp_path)!r}, os.environ["RANK"]), "w").write(str(os.getpid()))
    time.sleep(100)
if __name__ == "__main__":
    elastic_launch(LaunchConfig(1, 1, 2), work)()
""")
    for number in (signal.SIGTERM, signal.SIGKILL):
        launcher = subprocess.Popen(
            [sys.executable, str(program)], env=environment(), stderr=subprocess.PIPE, text=True
        )
        paths = [tmp_path / "0", tmp_path / "1"]
        deadline = time.monotonic() + 60
        while not all(path.exists() and path.read_text() for path in paths) and time.monotonic() < deadline:
            time.sleep(0.05)
        launcher.send_signal(number)
        error = launcher.communicate(timeout=60)[1]
        assert launcher.returncode != 0 and (number == signal.SIGKILL or SignalException.__name__ in error)
        for path in paths:
            pid = int(path.read_text())
            while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not os.path.exists(f"/proc/{pid}")
            path.unlink()


def test_a_failure_of_a_process_in_words(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    path.write_text(
        json.dumps({"message": {"message": "E: x", "extraInfo": {"py_callstack": "trace", "timestamp": "5"}}})
    )
    first, other = ProcessFailure(1, 12, 1, str(path)), ProcessFailure(0, 11, -15, "")
    assert (first.timestamp, first.signal_name(), other.signal_name()) == (5, "<N/A>", "SIGTERM")
    error = ChildFailedError("train", {0: other, 1: first})
    assert error.get_first_failure() == (1, first)
    assert str(error).splitlines() == [
        "train FAILED: rank 1 (local_rank 1, pid 12, exitcode 1) failed first",
        "trace",
        "rank 0 (local_rank 0, pid 11, exitcode -15, SIGTERM) failed, too:",
        "Signal 15 (SIGTERM) received by PID 11",
    ]
    with pytest.raises(ValueError, match="must not be empty"):
        ChildFailedError("train", {})
