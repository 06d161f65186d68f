"""Names of torch.distributed beside collectives: backends, exceptions, rendezvous, gradients of ``distributed.nn``."""

from __future__ import annotations

import datetime
import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import oneflow
import oneflow.distributed as dist
import pytest
import torch.distributed as torch_dist
from distributed.processes import free_port, run, torchrun
from oneflow.testing import run_ranks


@pytest.mark.parametrize("given", ["gloo", "GLOO", "cpu:gloo", "cpu:gloo,cuda:gloo"])
def test_a_backend_keeps_the_name_that_it_was_given(given: str, tmp_path: Path) -> None:
    said = []
    for package in (dist, torch_dist):
        file = tmp_path / package.__name__
        package.init_process_group(given, store=package.FileStore(str(file), 1), rank=0, world_size=1)
        try:
            group = package.new_group([0])
            again = package.new_group([0], backend="gloo")
            said.append(
                [package.get_backend(), package.get_backend(group), package.get_backend(again), package.get_pg_count()]
            )
            with pytest.raises(ValueError, match="initialize the default process group twice"):
                package.init_process_group(given)
        finally:
            package.destroy_process_group()
    # PyTorch's number counts groups of the same ranks once.
    assert said[0][:3] == said[1][:3]
    assert dist.get_pg_count() == 0


def test_options_bring_a_timeout() -> None:
    options = dist.Backend.Options("gloo", datetime.timedelta(seconds=7))
    dist.init_process_group("gloo", pg_options=options)
    try:
        assert dist.group.WORLD.timeout() == 7
        assert dist.new_group([0], timeout=3.0, pg_options=options).timeout() == 3
        assert dist.new_group([0], pg_options=dist.ProcessGroup.Options("gloo")).timeout() == 1800
        with pytest.raises(TypeError, match=r"new_group: pg_options must be a Backend\.Options, got int"):
            dist.new_group([0], pg_options=1)
    finally:
        dist.destroy_process_group()


MODULES = "constants elastic.multiprocessing.errors nn.functional rendezvous tensor.parallel.loss tensor.parallel.style"


@pytest.mark.parametrize("module", ["placement_types", "device_mesh", "api", "experimental", "_utils"])
def test_older_places_of_distributed_tensors(module: str) -> None:
    found = importlib.import_module(f"oneflow.distributed._tensor.{module}")
    homes = [dist.tensor, dist]
    homes += [
        importlib.import_module(f"oneflow.distributed.tensor.{m}") for m in ("_dtensor_spec", "_utils", "experimental")
    ]
    for name in found.__all__:
        assert any(getattr(found, name) is getattr(home, name, None) for home in homes), name


@pytest.mark.parametrize("module", MODULES.split())
def test_modules_have_the_names_of_torch(module: str) -> None:
    theirs = importlib.import_module(f"torch.distributed.{module}")
    ours = importlib.import_module(f"oneflow.distributed.{module}")
    assert ours.__all__
    for name in ours.__all__:
        expected = getattr(theirs, name)
        if inspect.isfunction(expected):
            parameters = list(inspect.signature(expected).parameters)
            assert list(inspect.signature(getattr(ours, name)).parameters)[: len(parameters)] == parameters, name


def test_the_module_of_groups_offers_what_the_package_does() -> None:
    module = dist.distributed_c10d
    assert all(getattr(module, name) is getattr(dist, name) for name in dist.__all__)
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        module._get_default_group()


def test_exceptions_of_stores() -> None:
    def outcomes(package: Any) -> list[str]:
        port = free_port()
        store = package.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
        short = datetime.timedelta(seconds=0.2)
        store.set_timeout(short)
        calls = [
            lambda: store.get("nope"),
            lambda: store.wait(["nope"]),
        ]
        if package is dist:
            calls += [
                lambda: dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False),
                lambda: dist.TCPStore("127.0.0.1", 0, 3, is_master=True, timeout=short),
                lambda: dist.TCPStore("127.0.0.1", free_port(), timeout=short),
            ]
        found = []
        for call in calls:
            with pytest.raises(package.DistError) as error:
                call()
            found.append(type(error.value).__name__)
        return found

    assert outcomes(torch_dist) == ["DistStoreError"] * 2
    assert outcomes(dist) == ["DistStoreError"] * 2 + ["DistNetworkError", "DistStoreError", "DistNetworkError"]


@pytest.mark.parametrize("prefixed", [False, True])
@pytest.mark.parametrize("value", [1, True, 1.5, None, [1, 2], ("a",)])
def test_values_of_stores_are_texts_or_bytes(value: Any, prefixed: bool) -> None:
    """A number is no value: ``bytes`` would make that many zeros of it."""
    for package in (dist, torch_dist):
        store: Any = package.HashStore()
        store = package.PrefixStore("p", store) if prefixed else store
        for call in (
            lambda store=store: store.set("key", value),
            lambda store=store: store.append("key", value),
            lambda store=store: store.compare_set("key", "", value),
            lambda store=store: store.compare_set("key", value, "new"),
            lambda store=store: store.multi_set(["key"], [value]),
        ):
            with pytest.raises(TypeError):
                call()
        assert not store.check(["key"])


@pytest.mark.parametrize("text", ["gloo", "cpu:gloo", "cpu:gloo,cuda:gloo", "cpu:gloo,cpu:gloo", "cpu:gloo,x"])
def test_backends_by_device(text: str) -> None:
    def said(package: Any) -> Any:
        try:
            return package.BackendConfig(package.Backend(text)).get_device_backend_map()["cpu"]
        except (ValueError, KeyError) as error:
            return type(error)

    assert said(dist) == said(torch_dist)


def test_the_number_on_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    for package in (dist, torch_dist):
        assert package.get_node_local_rank(fallback_rank=3) == 3
        with pytest.raises(RuntimeError, match="LOCAL_RANK is not in the environment"):
            package.get_node_local_rank()
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert dist.get_node_local_rank() == torch_dist.get_node_local_rank() == 2
    for said in ("", "1"):
        if said:
            monkeypatch.setenv("TORCHELASTIC_RUN_ID", said)
        assert dist.is_torchelastic_launched() == torch_dist.is_torchelastic_launched() == bool(said)


def test_debug_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "detail")
    dist.set_debug_level_from_env()
    assert dist.get_debug_level() is dist.DebugLevel.DETAIL
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "much")
    with pytest.raises(RuntimeError, match="must be OFF, INFO, or DETAIL"):
        dist.set_debug_level_from_env()
    dist.set_debug_level(dist.DebugLevel.OFF)


def test_a_rendezvous_of_the_program(tmp_path: Path) -> None:
    def meet(url: str, **kwargs: Any) -> Any:
        yield dist.FileStore(str(tmp_path / "meeting"), 1), 0, 1

    scheme = f"own{tmp_path.name.replace('_', '-')}".lower()
    dist.register_rendezvous_handler(scheme, meet)
    with pytest.raises(RuntimeError, match="already registered"):
        dist.register_rendezvous_handler(scheme, meet)
    dist.init_process_group("gloo", init_method=f"{scheme}://")
    try:
        assert dist.get_world_size() == 1 and dist.get_backend() == "gloo"
    finally:
        dist.destroy_process_group()
    with pytest.raises(RuntimeError, match="No rendezvous handler for nobody"):
        dist.rendezvous("nobody://")


@pytest.mark.parametrize("url", ["tcp://127.0.0.1", "tcp://127.0.0.1:80", "tcp://127.0.0.1:80?rank=0", "file://"])
def test_addresses_that_say_too_little(url: str) -> None:
    for package in (dist, torch_dist):
        with pytest.raises(ValueError, match=r"Error initializing torch\.distributed using"):
            next(package.rendezvous(url))


def test_gradients_of_collectives() -> None:
    """Each function's gradient is that of the sum of all ranks' losses, found by changing one input at a time."""
    n, shape = 3, (2, 2)
    oneflow.manual_seed(0)
    inputs = oneflow.randn(n, n, *shape, dtype=oneflow.float64)
    weights = oneflow.randn(n, n, *shape, dtype=oneflow.float64)
    functional = dist.nn.functional
    like = lambda: oneflow.empty(*shape, dtype=oneflow.float64)  # noqa: E731
    functions = {
        "broadcast": lambda x: functional.broadcast(x[0], 1),
        "gather": lambda x: functional.gather(x[0], 2),
        "scatter": lambda x: functional.scatter(list(x), 1),
        "reduce": lambda x: functional.reduce(x[0], 1),
        "reduce_scatter": lambda x: functional.reduce_scatter(like(), list(x)),
        "all_gather": lambda x: functional.all_gather(x[0]),
        "all_to_all": lambda x: functional.all_to_all([like() for _ in range(n)], list(x)),
        "all_to_all_single": lambda x: functional.all_to_all_single(like().new_empty(n, 2, 2), x),
        "all_reduce": lambda x: functional.all_reduce(x[0], "avg"),
    }
    assert set(functions) == set(functional.__all__)
    outcomes = run_ranks(n, lambda: _outcomes(functions, inputs, weights))
    for name in functions:
        theirs = [_expected(name, inputs, weights, rank) for rank in range(n)]
        for rank in range(n):
            value, gradient = outcomes[rank][name]
            assert oneflow.allclose(value, theirs[rank][0]), (name, rank)
            assert oneflow.allclose(gradient, theirs[rank][1]), (name, rank)


def _outcomes(functions: dict[str, Any], inputs: Any, weights: Any) -> dict[str, Any]:
    rank, found = dist.get_rank(), {}
    for name, function in functions.items():
        x = inputs[rank].clone().requires_grad_()
        y = function(x)
        y = oneflow.stack(list(y)) if isinstance(y, tuple) else y
        w = weights[rank] if y.dim() == 3 else weights[rank, 0]
        (y * w).sum().backward()
        found[name] = (y.detach(), x.grad)
    return found


def _expected(name: str, x: Any, w: Any, rank: int) -> tuple[Any, Any]:
    """By hand: the value on a rank, and the gradient of the sum of all losses with respect to its inputs."""
    g = oneflow.zeros_like(x[rank])
    if name == "broadcast":
        g[0] = w[:, 0].sum(0) if rank == 1 else 0 * g[0]
        return x[1, 0], g
    if name == "gather":
        g[0] = w[2, rank]
        return (x[:, 0] if rank == 2 else 0 * x[:, 0]), g
    if name == "scatter":
        return x[1, rank], (w[:, 0] if rank == 1 else g)
    if name == "reduce":
        # The copies that the other ranks keep pass no gradient on, as in PyTorch.
        g[0] = w[1, 0]
        return (x[:, 0].sum(0) if rank == 1 else x[rank, 0]), g
    if name == "reduce_scatter":
        return x[:, rank].sum(0), w[:, 0]
    if name == "all_gather":
        g[0] = w[:, rank].sum(0)
        return x[:, 0], g
    if name in ("all_to_all", "all_to_all_single"):
        return x[:, rank], w[:, rank]
    g[0] = w[:, 0].mean(0)
    return x[:, 0].mean(0), g


def test_the_exception_of_a_rank_that_has_not_joined(tmp_path: Path) -> None:
    file = tmp_path / "error.json"
    body = (
        "from oneflow.distributed.elastic.multiprocessing.errors import record\n"
        "@record\ndef main():\n    raise KeyError('lost')\n"
        "try:\n    main()\nexcept KeyError:\n    pass\n"
    )
    run(body, [{"TORCHELASTIC_ERROR_FILE": str(file)}])
    assert json.loads(file.read_text())["message"]["message"] == "KeyError: 'lost'"


def test_two_processes_under_the_name_of_gloo() -> None:
    """PyTorch's first tutorial: the name, the place and the gradients of a gather."""
    port = free_port()
    body = (
        "dist.init_process_group('gloo')\n"
        "x = flow.full((1,), 1.0 + dist.get_rank(), requires_grad=True)\n"
        "parts = dist.nn.functional.all_gather(x)\n"
        "(parts[0] * parts[1]).sum().backward()\n"
        "print(dist.get_backend(), [p.item() for p in parts], x.grad.item(), dist.get_node_local_rank())\n"
    )
    said = run(body, [torchrun(rank, 2, port) for rank in range(2)])
    assert [out.strip() for out, _ in said] == ["gloo [1.0, 2.0] 4.0 0", "gloo [1.0, 2.0] 2.0 1"]


def test_a_store_of_the_program() -> None:
    """A class that has the simple methods alone, below a prefix."""

    def outcomes(package: Any) -> list[Any]:
        class Own(package.Store):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.values: dict[str, bytes] = {}

            def set(self, key: str, value: Any) -> None:
                self.values[key] = value if isinstance(value, bytes) else value.encode()

            def get(self, key: str) -> bytes:
                return self.values[key]

            def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
                found = self.values.get(key)
                if found == expected or (found is None and not expected):
                    self.values[key] = desired
                return self.values.get(key, expected)

        own = Own()
        store = package.PrefixStore("p", own)
        store.set("a", "1")
        store.append("b", "po")
        store.append("b", "tato")
        store.multi_set(["c", "d"], ["2", "3"])
        with pytest.raises(RuntimeError, match=r"(?i)not implemented|tried to call pure virtual"):
            store.add("n", 1)
        return [own.values, store.get("b"), store.multi_get(["a", "c"]), store.has_extended_api()]

    assert outcomes(dist) == outcomes(torch_dist)
    with pytest.raises(TypeError, match="ranks meet in a TCPStore, FileStore or HashStore, got Own"):

        class Own(dist.Store):
            pass

        dist.init_process_group("gloo", store=Own(), rank=0, world_size=1)


def test_hooks_say_what_they_take_and_give() -> None:
    """Annotations that contradict the interface are refused where the hook is registered, as in PyTorch."""
    model = oneflow.nn.parallel.DistributedDataParallel(oneflow.nn.Linear(2, 1))

    def takes_a_number(state: object, bucket: int) -> oneflow.futures.Future[oneflow.Tensor]:
        raise AssertionError

    def gives_a_number(state: object, bucket: dist.GradBucket) -> int:
        raise AssertionError

    def fits(state: object, bucket: dist.GradBucket) -> oneflow.futures.Future[oneflow.Tensor]:
        raise AssertionError

    # As they are where annotations are no strings.
    takes_a_number.__annotations__ = {"bucket": int}
    gives_a_number.__annotations__ = {"bucket": dist.GradBucket, "return": int}
    fits.__annotations__ = {"bucket": dist.GradBucket, "return": oneflow.futures.Future[oneflow.Tensor]}
    with pytest.raises(ValueError, match="bucket annotation should be"):
        model.register_comm_hook(None, takes_a_number)
    with pytest.raises(ValueError, match="return annotation should be"):
        model.register_comm_hook(None, gives_a_number)
    model.register_comm_hook(None, fits)


def test_methods_of_groups_for_several_tensors() -> None:
    def rank() -> Any:
        here = float(dist.get_rank())
        gathered = [oneflow.empty(2), oneflow.empty(4)]
        inputs = [oneflow.full((1,), here), oneflow.full((2,), here + 10)]
        group = dist.group.WORLD
        group.allgather_into_tensor_coalesced(gathered, inputs).wait()
        reduced = [oneflow.empty(1), oneflow.empty(2)]
        group.reduce_scatter_tensor_coalesced(reduced, gathered).wait()
        return [t.tolist() for t in gathered], [t.tolist() for t in reduced]

    gathered = [[0.0, 1.0], [10.0, 10.0, 11.0, 11.0]]
    assert run_ranks(2, rank) == [(gathered, [[0.0], [20.0, 20.0]]), (gathered, [[2.0], [22.0, 22.0]])]


def test_the_store_of_the_job(tmp_path: Path) -> None:
    body = (
        "from oneflow.distributed.distributed_c10d import _get_default_store\n"
        "dist.init_process_group('gloo', timeout=20)\n"
        "store, here = _get_default_store(), dist.get_rank()\n"
        "if here == 0: store.set('key', 'value')\n"
        "print(store.get('key').decode(), store.add('n', 1) in (1, 2), store.timeout.total_seconds())\n"
        "dist.barrier()\n"
        "print(_get_default_store().get('n').decode())\n"
        "dist.barrier()\n"
    )
    port = free_port()
    results = run(body, [torchrun(rank, 2, port) for rank in range(2)])
    assert [said.split() for said, _ in results] == [["value", "True", "20.0", "2"]] * 2, results
    from oneflow.distributed import distributed_c10d

    with pytest.raises(ValueError, match="not been initialized"):
        distributed_c10d._get_default_store()
    for method in (f"file://{tmp_path}/meeting", "env://"):
        dist.init_process_group("gloo", init_method=method, rank=0, world_size=1, timeout=0.2)
        store = distributed_c10d._get_default_store()
        store.set("key", "value")
        assert store.get("key") == b"value"
        with pytest.raises(dist.DistStoreError, match=r"(?i)timeout"):
            store.get("no such key")
        dist.destroy_process_group()
