"""Modules of helpers that packages import beside torch.distributed itself, compared with PyTorch's."""

from __future__ import annotations

import collections
import dataclasses
import importlib
import inspect
import json
import threading
from pathlib import Path
from typing import Any

import oneflow
import pytest
import torch
from oneflow.testing import run_ranks

MODULES = (
    "utils elastic.utils.api elastic.utils.store elastic.utils.distributed elastic.metrics.api "
    "elastic.multiprocessing.errors checkpoint.storage"
).split()
PACKAGES = (oneflow, torch)
Pair = collections.namedtuple("Pair", "first second")


def module(package: Any, name: str) -> Any:
    return importlib.import_module(f"{package.__name__}.distributed.{name}")


@pytest.mark.parametrize("name", MODULES)
def test_functions_take_what_those_of_torch_take(name: str) -> None:
    ours, theirs = (module(package, name) for package in PACKAGES)
    names = ours.__all__ or [n for n, f in vars(ours).items() if inspect.isfunction(f) and hasattr(theirs, n)]
    assert names
    for each in names:
        mine, expected = getattr(ours, each), getattr(theirs, each)
        if inspect.isfunction(expected):
            parameters = list(inspect.signature(expected).parameters)
            assert list(inspect.signature(mine).parameters)[: len(parameters)] == parameters, each


@dataclasses.dataclass
class Record:
    x: Any
    name: str = "n"


def shown(value: Any) -> Any:
    """Values without the names of packages."""
    if hasattr(value, "dtype"):
        return str(value.dtype).rpartition(".")[2], value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, [(key, shown(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shown(item) for item in value]
    if dataclasses.is_dataclass(value):
        return type(value).__name__, shown(vars(value))
    return value


def outcomes(package: Any) -> list[Any]:
    u = module(package, "utils")
    x, i = package.ones(2), package.tensor([3])
    nested = {"a": [x, (i, "t")], "p": Pair(x, None), "r": Record(x), "o": collections.OrderedDict(b=i)}
    found: list[Any] = [
        u._pack_kwargs(1, x, a=3, b=x),
        u._unpack_kwargs((1, 2, 3), ("c",)),
        u._unpack_kwargs((1, 2), ()),
        u._cast_forward_inputs(package.float64, x, i, y=[x]),
        u._cast_forward_inputs(None, x),
        u._apply_to_tensors(lambda t: t + 1, nested),
        u._to_kwargs((x, [i]), {"k": x}, package.device("cpu"), False),
        u._to_kwargs((), {"k": x}, package.device("cpu"), True),
        u._to_kwargs((x,), None, package.device("cpu"), False),
        u._to_kwargs((), {}, package.device("cpu"), False),
    ]
    kept = [x, {"k": (i,)}, Pair(1, x)]
    found.append(u._recursive_to(kept, package.device("cpu"), False)[0] is kept)
    state = {"a.x": 1, "a.y": 2, "b": 3}
    u._replace_by_prefix(state, "a.", "c.")
    found.append(sorted(state.items()))
    parts = [package.nn.Linear(1, 1) for _ in range(3)]
    whole = package.nn.Sequential(parts[0], package.nn.Sequential(parts[1]))
    roots = u._get_root_modules([parts[0], whole, parts[2], whole[1]])
    found.append([roots[0] is whole, roots[1] is parts[2], len(roots)])
    y = package.arange(4.0)
    u._free_storage(y)
    found.append([u._data_ptr_allocated(y), y.untyped_storage().nbytes(), tuple(y.shape)])
    u._free_storage(y)
    u._alloc_storage(y, y.shape)
    u._alloc_storage(y, y.shape)
    found.append([u._data_ptr_allocated(y), y.untyped_storage().nbytes()])
    for call in (
        lambda: u._unpack_kwargs((1,), ("a", "b")),
        lambda: u._replace_by_prefix({}, "a", "a"),
        lambda: u._p_assert(False, "said"),
        lambda: u._free_storage(package.arange(4.0)[1:]),
        lambda: u._alloc_storage(package.arange(4.0), package.Size([2])),
    ):
        with pytest.raises((AssertionError, ValueError)) as error:
            call()
        found.append(type(error.value).__name__)
    return [shown(value) for value in found]


def test_helpers_of_wrappers_do_what_those_of_torch_do() -> None:
    ours, theirs = (outcomes(package) for package in PACKAGES)
    assert ours == theirs


def test_ranks_compare_and_share_their_modules() -> None:
    u = module(oneflow, "utils")
    dist = oneflow.distributed

    def rank() -> None:
        here = dist.get_rank()
        net = oneflow.nn.BatchNorm1d(3)
        with oneflow.no_grad():
            for value in (*net.parameters(), *net.buffers()):
                value.fill_(here + 1)
        u._verify_param_shape_across_processes(dist.group.WORLD, list(net.parameters()))
        u._sync_module_states(net, dist.group.WORLD, 1 << 20, 1, {"bias", "running_var"})
        assert [float(p.float().mean()) for p in net.parameters()] == [2.0, here + 1.0]
        assert [float(b.float().mean()) for b in net.buffers()] == [2.0, here + 1.0, 2.0]
        for other in ([oneflow.ones(2 + here)], [oneflow.ones(1)] * (1 + here), [oneflow.ones(1).to(TYPES[here])]):
            with pytest.raises(RuntimeError, match=r"same model across all ranks, but ranks \[1\] differ from rank 0"):
                u._verify_param_shape_across_processes(dist.group.WORLD, other)

    run_ranks(2, rank)


TYPES = (oneflow.float32, oneflow.float64)


@pytest.mark.parametrize("n", [1, 3])
def test_meetings_at_a_store(n: int) -> None:
    def met(package: Any) -> Any:
        u = module(package, "elastic.utils.store")
        store, found = package.distributed.HashStore(), [None] * n

        def come(rank: int) -> None:
            u.barrier(store, n, "start", 20, rank=rank)
            found[rank] = u.synchronize(store, b"%d" % rank, rank, n, "data", 20)  # type: ignore[call-overload]

        threads = [threading.Thread(target=come, args=(rank,)) for rank in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # Threads that share a store may put back each other's timeout.
        return found, store.timeout.total_seconds() if n == 1 else None

    ours, theirs = (met(package) for package in PACKAGES)
    assert ours == theirs


def test_who_does_not_come_to_a_store_is_named() -> None:
    def said(package: Any) -> list[str]:
        u = module(package, "elastic.utils.store")
        store, errors = package.distributed.HashStore(), []

        def come(rank: int) -> None:
            with pytest.raises(package.distributed.DistStoreError) as error:
                u.barrier(store, 4, "start", 0.5, rank, lambda r: f"host{r}", trace_timeout=0.3)
            errors.append((rank, str(error.value)))

        threads = [threading.Thread(target=come, args=(rank,)) for rank in (0, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pytest.raises(AssertionError, match="Tracing requires rank information"):
            u.barrier(store, 4, "again", 0.1, rank_tracing_decoder=str)
        # PyTorch names them in no order.
        words = [text.replace("host3, host1", "host1, host3") for _, text in sorted(errors)]
        return [text.replace("[[<", "[<").replace(">]]", ">]") for text in words]

    ours, theirs = (said(package) for package in PACKAGES)
    assert ours == theirs
    assert "missing_ranks=[host1, host3]" in ours[0]


def test_metrics_go_to_the_handler_of_their_group() -> None:
    def emitted(package: Any) -> list[Any]:
        metrics = module(package, "elastic.metrics")
        found: list[Any] = []

        class Kept(metrics.MetricHandler):
            def emit(self, metric_data: Any) -> None:
                value = metric_data.value if "duration" not in metric_data.name else None
                found.append((metric_data.group_name, metric_data.name, value))

        metrics.put_metric("dropped", 0)
        metrics.configure(Kept(), "own")
        metrics.put_metric("steps", 3, "own")
        metrics.put_metric("dropped", 3, "other")

        @metrics.prof(group="own")
        def works(x: int) -> int:
            return 1 // x

        assert works(1) == 1
        with pytest.raises(ZeroDivisionError):
            works(0)
        with pytest.warns(FutureWarning):
            metrics.publish_metric("own", "old", 1)
        return found

    ours, theirs = (emitted(package) for package in PACKAGES)
    assert ours == theirs


def test_environment_and_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "1")
    for package in PACKAGES:
        api, meeting = module(package, "elastic.utils.api"), module(package, "elastic.utils.distributed")
        assert api.get_env_variable_or_raise("HERE") == "1"
        with pytest.raises(ValueError, match="Environment variable ABSENT expected, but not set"):
            api.get_env_variable_or_raise("ABSENT")
        assert api.macros.substitute(["a", "${local_rank}/${other}", 3], "5") == ["a", "5/${other}", 3]
        store = meeting.create_c10d_store(True, "localhost", meeting.get_free_port(), wait_for_workers=False)
        client = meeting.create_c10d_store(False, "localhost", store.port, wait_for_workers=False)
        client.set("key", "value")
        assert store.get("key") == b"value"
    with pytest.raises(ValueError, match="a client of localhost needs server_port"):
        meeting_of = module(oneflow, "elastic.utils.distributed")
        meeting_of.create_c10d_store(False, "localhost")


def test_error_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def written(package: Any) -> Any:
        errors, found = module(package, "elastic.multiprocessing.errors"), []
        for name in ("first", "second"):
            monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / f"{package.__name__}-{name}"))
            handler = errors.get_error_handler()
            handler.initialize()
            if name == "first":
                try:
                    raise ValueError("no data")
                except ValueError as error:
                    handler.record_exception(error)
            else:
                handler.dump_error_file(str(tmp_path / f"{package.__name__}-first"), error_code=3)
            said = json.loads((tmp_path / f"{package.__name__}-{name}").read_text())["message"]
            found.append((said["message"], sorted(said["extraInfo"]), said.get("errorCode")))
        return found

    ours, theirs = (written(package) for package in PACKAGES)
    assert ours == theirs
