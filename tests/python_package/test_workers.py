"""Worker processes: shared batches, errors, deaths, time limits; and forks of a process that has computed."""

import gc
import multiprocessing as python_multiprocessing
import os
import signal
import time
import warnings

import oneflow
import pytest
import torch
from oneflow.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from oneflow.utils.data._workers import WorkerInfo, _Worker


class Images(Dataset):
    def __init__(self, n, action=None):
        self.n, self.action = n, action

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if self.action is not None:
            self.action(i)
        return oneflow.full((3, 20, 20), float(i)), i


def summary(loader):
    return [(tuple(x.shape), x[:, 0, 0, 0].tolist(), y.tolist()) for x, y in loader]


@pytest.mark.parametrize("context", [None, "spawn", "forkserver"])
@pytest.mark.parametrize("persistent", [False, True])
def test_batches_are_those_of_this_process(context, persistent):
    if context is not None and persistent:
        pytest.skip("one start method is enough")
    loader = DataLoader(
        Images(21), 4, num_workers=2, multiprocessing_context=context, persistent_workers=persistent, prefetch_factor=3
    )
    here = summary(DataLoader(Images(21), 4))
    assert [summary(loader) for _ in range(2)] == [here, here]
    if persistent:
        del loader


def test_kept_batches_stay_as_they_were():
    kept = [x for x, _ in DataLoader(Images(40), 2, num_workers=2)]
    assert [x[0, 0, 0, 0].item() for x in kept] == list(range(0, 40, 2))
    views = [x[1] for x in kept]
    del kept
    assert [v[2, 5, 5].item() for v in views] == list(range(1, 40, 2))


def test_memory_of_dropped_batches_is_used_again():
    loader = DataLoader(Images(400), 2, num_workers=1)
    iterator = iter(loader)
    for _ in range(150):
        next(iterator)
    pool = iterator._batches.gi_yieldfrom.gi_frame.f_locals["pool"]
    assert len(pool.workers[0].receiver.mappings) <= 6
    del iterator


def test_batches_keep_their_nesting():
    class Nested(Images):
        def __getitem__(self, i):
            big = oneflow.full((1000,), float(i))
            return {"a": big, "b": [big, (i, "text")], "c": None if i < 0 else 1.5}

    here = list(DataLoader(Nested(4), 2))
    there = list(DataLoader(Nested(4), 2, num_workers=1))
    for a, b in zip(here, there, strict=True):
        assert (
            a["a"].tolist() == b["a"].tolist() and a["b"][1][1] == b["b"][1][1] and a["c"].tolist() == b["c"].tolist()
        )
        assert a["b"][0].tolist() == b["b"][0].tolist()


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(start, 10, step))


@pytest.mark.parametrize("options", [{"batch_size": 2}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}])
def test_streams_equal_torch(options):
    class Theirs(torch.utils.data.IterableDataset):
        def __iter__(self):
            info = torch.utils.data.get_worker_info()
            return iter(range(info.id, 10, info.num_workers))

    def plain(batches):
        return [b.tolist() if hasattr(b, "tolist") else b for b in batches]

    ours = plain(DataLoader(Stream(), num_workers=2, **options))
    assert ours == plain(torch.utils.data.DataLoader(Theirs(), num_workers=2, **options))


def test_workers_have_their_identity():
    class Asks(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            info = get_worker_info()
            return info.id, info.num_workers, info.seed, oneflow.initial_seed(), oneflow.get_num_threads()

    seen = []
    ids = [tuple(row[:2]) for row in DataLoader(Asks(), batch_size=None, num_workers=2, worker_init_fn=seen.append)]
    assert ids == [(0, 2), (1, 2), (0, 2), (1, 2)] and seen == [] and get_worker_info() is None
    rows = list(DataLoader(Asks(), batch_size=None, num_workers=2))
    assert rows[0][2] + 1 == rows[1][2] and rows[0][2] == rows[0][3] and rows[0][4] == 1


def failing(i):
    if i == 5:
        raise KeyError("broken item")


def dying(i):
    if i == 5:
        os.kill(os.getpid(), signal.SIGKILL)


def leaving(i):
    os._exit(3)


def sleeping(i):
    time.sleep(60)


@pytest.mark.parametrize(
    "action, error, text, options",
    [
        (failing, KeyError, "Caught KeyError in DataLoader worker process 1.*broken item", {}),
        (dying, RuntimeError, r"DataLoader worker \(pid \d+\) is killed by signal: Killed", {}),
        (leaving, RuntimeError, "exited unexpectedly with exit code 3", {}),
        (sleeping, RuntimeError, "DataLoader timed out after 0.5 seconds", {"timeout": 0.5}),
    ],
)
def test_what_happens_to_a_worker_reaches_the_caller(action, error, text, options):
    start = time.monotonic()
    with pytest.raises(error, match="(?s)" + text):
        list(DataLoader(Images(10, action), num_workers=2, **options))
    assert time.monotonic() - start < 30


def test_an_error_of_the_start_function_reaches_the_caller():
    def start(i):
        raise ValueError(f"no start {i}")

    with pytest.raises(ValueError, match="no start 0"):
        list(DataLoader(Images(4), num_workers=1, worker_init_fn=start))


def test_a_loader_left_half_way_leaves_no_process():
    before = {p.pid for p in python_multiprocessing.active_children()}
    iterator = iter(DataLoader(Images(100), 2, num_workers=2))
    next(iterator)
    del iterator
    assert {p.pid for p in python_multiprocessing.active_children()} <= before


# ---- forks


def product(n):
    x = oneflow.ones(n, n)
    return float((x @ x)[0, 0])


def in_fork(f):
    """The child's result, with a deadline: a broken lock would wait for ever."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if f() else 1)
        except BaseException:
            os._exit(2)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"


@pytest.mark.parametrize("used_before", [False, True])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_forked_child_computes(used_before, n_threads):
    before = oneflow.get_num_threads()
    oneflow.set_num_threads(n_threads)
    try:
        if used_before:
            assert product(700) == 700
        assert in_fork(lambda: product(700) == 700) == 0
        assert in_fork(lambda: in_fork(lambda: product(300) == 300) == 0) == 0
        # The parent continues as before.
        assert product(700) == 700
    finally:
        oneflow.set_num_threads(before)


def test_a_forked_child_differentiates_and_frees():
    kept = [oneflow.ones(1000) for _ in range(50)]

    def child():
        kept.clear()
        x = oneflow.ones(100, 100, requires_grad=True)
        (x @ x).sum().backward()
        return float(x.grad[0, 0]) == 200.0

    assert in_fork(child) == 0 and len(kept) == 50


# ---- oneflow.multiprocessing


def add_one(queue, results, received):
    x = queue.get()
    x += 1
    results.put((x.sum().item(), oneflow.full((4, 4), 7.0)))
    # The process that created the memory sends it.
    received.wait(60)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_queues_share_tensors(method):
    context = oneflow.multiprocessing.get_context(method)
    queue, results = context.Queue(), context.Queue()
    received = context.Event()
    process = context.Process(target=add_one, args=(queue, results, received))
    process.start()
    x = oneflow.zeros(1000)
    queue.put(x)
    total, back = results.get(timeout=60)
    received.set()
    process.join(60)
    # Both sides see one memory.
    assert total == 1000 and x.sum().item() == 1000 and x.is_shared() and back.sum().item() == 112


def write_rank(rank, shared, fails):
    if fails and rank == 1:
        raise ValueError("rank one fails")
    shared[rank] = rank + 1


def test_spawn_runs_all_ranks_and_raises_their_errors():
    shared = oneflow.zeros(3).share_memory_()
    oneflow.multiprocessing.spawn(write_rank, (shared, False), nprocs=3)
    assert shared.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(oneflow.multiprocessing.ProcessRaisedException, match=r"(?s)Process 1.*rank one fails"):
        oneflow.multiprocessing.spawn(write_rank, (shared, True), nprocs=2)


def test_a_socket_that_the_collector_finds_closes_silently():
    """The collector finalizes a circle in any order: a worker's socket may go before the pool that closes it."""
    info = WorkerInfo(0, 1, 0, None)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        worker = _Worker(python_multiprocessing.get_context(), info, None, None, [])
        number, process = worker.channel.fileno(), worker.process
        os.fstat(number)
        del worker
        gc.collect()
    assert not [w for w in seen if issubclass(w.category, ResourceWarning)]
    # The worker ends when its socket does.
    process.join(timeout=60)
    assert process.exitcode == 0
