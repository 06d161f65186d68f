"""Faults while a loader feeds a graph: one clear error, everything stops, and the graph can be used afterwards."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import oneflow as flow
import pytest
from oneflow import nn
from oneflow.utils.data import DataLoader, Dataset

TWO = [2.0, 2.0]


class Scale(nn.Graph):
    def build(self, x):
        return x * 2


def batches(n):
    for i in range(n):
        yield flow.full((2,), float(i))


def first_numbers(results):
    return [y[0].item() for y in results]


def check_usable(graph):
    assert graph(flow.ones(2)).tolist() == TWO
    assert first_numbers(graph.over(batches(4))) == [0.0, 2.0, 4.0, 6.0]


# ---- what a loader raises


class Own(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


RAISED = [
    KeyError("key"),
    Own(1, 2),
    StopAsyncIteration("early"),
    KeyboardInterrupt("typed in the loader"),
    SystemExit(3),
    MemoryError(),
]


@pytest.mark.parametrize("raised", RAISED, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("at", [0, 1, 2, 5])
def test_an_exception_arrives_as_it_is_and_after_the_batches_before_it(raised, at):
    def loader():
        yield from batches(at)
        raise raised

    graph, seen = Scale(), []
    with pytest.raises(type(raised)) as caught:
        for y in graph.over(loader()):
            seen.append(y[0].item())
    assert caught.value is raised and seen == [2.0 * i for i in range(at)]
    # The traceback leads to the line of the loader.
    frames = [f.name for f in caught.traceback]
    assert "loader" in frames
    check_usable(graph)


def test_an_iterator_that_stops_early_ends_the_loop():
    class Early:
        n = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 1
            if self.n > 3:
                raise StopIteration("nothing more")
            return flow.full((2,), float(self.n))

    graph = Scale()
    assert first_numbers(graph.over(Early())) == [2.0, 4.0, 6.0]
    # In a generator it is a mistake, which Python names.
    with pytest.raises(RuntimeError, match="generator raised StopIteration"):
        list(graph.over(next(iter([])) if i == 2 else flow.ones(2) for i in range(4)))
    check_usable(graph)


class Bad(Dataset):
    def __init__(self, at):
        self.at = at

    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == self.at:
            raise LookupError(f"item {i} is broken")
        return flow.full((2,), float(i))


@pytest.mark.parametrize("at", [0, 3, 7])
def test_exceptions_of_worker_processes_arrive(at):
    graph, seen = Scale(), []
    with pytest.raises(LookupError, match=f"item {at} is broken"):
        for y in graph.over(DataLoader(Bad(at), batch_size=1, num_workers=2)):
            seen.append(y[0, 0].item())
    assert seen == [2.0 * i for i in range(at)]
    check_usable(graph)
    assert len(list(graph.over(DataLoader(Bad(99), batch_size=2, num_workers=1)))) == 4


def test_a_batch_that_cannot_be_fed_comes_after_those_before_it():
    graph = Scale()
    good = flow.ones(2)
    for bad, error in [
        (object(), TypeError),
        (flow.ones(2, device="meta"), NotImplementedError),
        (3.0, TypeError),
    ]:
        seen = []
        with pytest.raises(error):
            for y in graph.over([good, good, bad, good]):
                seen.append(y.tolist())
        assert seen == [TWO] * 2
        check_usable(graph)
    assert [tuple(y.shape) for y in graph.over([good, flow.ones(3, 2), flow.ones(0), good])] == [
        (2,),
        (3, 2),
        (0,),
        (2,),
    ]


def test_a_failing_step_names_its_line_and_ends_the_loader():
    class Pick(nn.Graph):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(4, 2)

        def build(self, i):
            return self.table(i)

    graph, ended = Pick(), []

    def loader():
        try:
            for i in [1, 2, 9, 3, 3, 3, 3, 3]:
                yield flow.tensor([i])
        finally:
            ended.append(True)

    seen = []
    with pytest.raises(IndexError, match=r"embedding .*test_feeding_faults\.py:\d+, module table") as caught:
        for y in graph.over(loader()):
            seen.append(y.shape)
    assert len(seen) == 2
    del caught
    gc.collect()
    assert ended == [True]
    assert graph(flow.tensor([3])).shape == (1, 2)


def test_what_a_loader_raises_is_not_lost_where_the_program_changes():
    class Drop(nn.Graph):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def build(self, x):
            return self.drop(x)

    graph = Drop()
    graph.drop.eval()
    seen, made = [], threading.Event()

    def loader():
        yield from batches(3)
        made.set()
        raise Own(1, 2)

    with pytest.raises(Own):
        for y in graph.over(loader(), prefetch=3):
            seen.append(y.shape)
            assert made.wait(60)
            graph.drop.train(len(seen) % 2 == 1)
    assert len(seen) == 3


# ---- several users of one graph


def test_two_loops_over_one_graph_are_independent():
    graph = Scale()
    pairs = [(x[0].item(), y[0].item()) for x, y in zip(graph.over(batches(6)), graph.over(batches(4)), strict=False)]
    assert pairs == [(2.0 * i, 2.0 * i) for i in range(4)]
    inner = [(x[0].item(), first_numbers(graph.over(batches(2)))) for x in graph.over(batches(3))]
    assert inner == [(2.0 * i, [0.0, 2.0]) for i in range(3)]
    results = {}

    def loop(k):
        results[k] = first_numbers(graph.over(batches(50 + k)))

    threads = [threading.Thread(target=loop, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert results == {k: [2.0 * i for i in range(50 + k)] for k in range(3)}


def test_a_loader_may_call_the_graph_that_it_feeds():
    graph = Scale()
    assert first_numbers(graph.over(graph(x) for x in batches(5))) == [4.0 * i for i in range(5)]


def test_a_slow_loader_keeps_nobody_else_from_the_graph():
    graph, go = Scale(), threading.Event()

    def loader():
        yield flow.ones(2)
        assert go.wait(60)
        yield flow.ones(2)

    results = graph.over(loader())
    next(results)
    waiting = threading.Thread(target=lambda: next(results))
    waiting.start()
    # The thread waits for the loader, and the loader for us.
    assert graph(flow.ones(2)).tolist() == TWO
    assert waiting.is_alive()
    go.set()
    waiting.join(60)
    assert not waiting.is_alive() and list(results) == []


def test_training_continues_where_another_loop_stopped():
    net = nn.Linear(2, 1)
    optimizer = flow.optim.SGD(net.parameters(), lr=0.1)

    class Train(nn.Graph):
        def __init__(self):
            super().__init__()
            self.net = net
            self.add_optimizer(optimizer)

        def build(self, x):
            loss = self.net(x).square().mean()
            loss.backward()
            return loss

    graph = Train()
    losses = []
    for _ in range(5):
        for i, loss in enumerate(graph.over(flow.ones(3, 2) for _ in range(10))):
            losses.append(loss.item())
            if i == 1:
                break
    assert len(losses) == 10 and losses == sorted(losses, reverse=True)


# ---- leaving


@pytest.mark.parametrize("leave", ["close", "drop", "another thread", "graph first"])
def test_leaving_early_ends_the_thread(leave):
    before, graph = threading.active_count(), Scale()
    streams = lambda: sum("oneflow-stream" in name for name in thread_names())  # noqa: E731
    assert streams() == 0
    results = graph.over(batches(1000))
    next(results)
    assert streams() == 1
    if leave == "close":
        results.close()
    elif leave == "another thread":
        thread = threading.Thread(target=results.close)
        thread.start()
        thread.join(60)
    elif leave == "graph first":
        del graph
        gc.collect()
        assert next(results).tolist() == TWO
    del results
    gc.collect()
    assert streams() == 0 and threading.active_count() == before


def thread_names():
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as f:
                names.append(f.read().strip())
        except OSError:
            continue
    return names


def interrupt_after(seconds):
    signal.signal(signal.SIGALRM, lambda *_: signal.default_int_handler(signal.SIGINT, None))
    signal.setitimer(signal.ITIMER_REAL, seconds)


@pytest.fixture
def timer():
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_control_c_leaves_a_loader_behind_that_does_not_come_back(timer):
    come_back, left = threading.Event(), []

    def loader():
        yield flow.ones(2)
        come_back.wait(60)
        left.append(True)
        yield flow.ones(2)

    graph, start = Scale(), time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for _ in graph.over(loader()):
            interrupt_after(0.2)
    assert time.monotonic() - start < 20 and not left
    check_usable(graph)
    # It comes back to nobody, and does no harm.
    come_back.set()
    deadline = time.monotonic() + 20
    while any("oneflow-stream" in name for name in thread_names()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left == [True] and not any("oneflow-stream" in name for name in thread_names())
    check_usable(graph)


def test_leaving_waits_for_the_batch_that_is_being_made():
    made = []

    def loader():
        for i in range(10):
            if i:
                time.sleep(0.3)
            made.append(i)
            yield flow.ones(2)

    iterator = loader()
    for _ in Scale().over(iterator, prefetch=1):
        break
    # Nobody else is inside the iterator any more.
    n = len(made)
    next(iterator)
    assert len(made) == n + 1


def test_control_c_ends_the_wait_for_a_loader_that_is_left(timer):
    come_back = threading.Event()

    def loader():
        yield flow.ones(2)
        come_back.wait(60)

    results = Scale().over(loader())
    next(results)
    start = time.monotonic()
    interrupt_after(0.2)
    with pytest.raises(KeyboardInterrupt):
        results.close()
    assert time.monotonic() - start < 20
    come_back.set()


# ---- other processes, and the end of this one


def in_fork(f):
    """Return the child's output, with a deadline."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            said = str(f())
        except BaseException as e:
            said = f"{type(e).__name__}: {e}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            with os.fdopen(read, "rb") as f:
                return f.read().decode() if status == 0 else f"status {status}"
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(read)
    return "hangs"


def test_a_forked_process_uses_the_graph_and_cannot_use_its_loop():
    graph = Scale()
    results = graph.over(batches(50), prefetch=2)
    next(results)
    # Until the loader rests.
    time.sleep(0.2)
    assert in_fork(lambda: graph(flow.ones(2)).tolist()) == str(TWO)
    assert in_fork(lambda: first_numbers(graph.over(batches(3)))) == "[0.0, 2.0, 4.0]"
    assert in_fork(results.close) == "None"
    said = in_fork(lambda: [next(results) for _ in range(5)])
    assert said.startswith("RuntimeError: ") and "forked" in said
    assert first_numbers(results) == [2.0 * i for i in range(1, 50)]


@pytest.mark.parametrize("loader", ["fast", "sleeping", "busy", "stuck"])
@pytest.mark.parametrize("held", ["module", "cycle", "thread"])
def test_the_interpreter_ends_while_a_loader_works(loader, held):
    code = """
        import sys, threading, time
        import oneflow as flow

        class Scale(flow.nn.Graph):
            def build(self, x):
                return x * 2

        def loader(kind):
            yield flow.ones(2)
            while True:
                if kind == "sleeping":
                    time.sleep(0.2)
                elif kind == "busy":
                    sum(range(2_000_000))
                elif kind == "stuck":
                    time.sleep(1000)
                yield flow.ones(2)

        class Holder:
            pass

        results = Scale().over(loader(sys.argv[1]))
        next(results)
        if sys.argv[2] == "cycle":
            holder = Holder()
            holder.results, holder.itself = results, holder
            del holder, results
        elif sys.argv[2] == "thread":
            threading.Thread(target=lambda: next(results, None) and time.sleep(1000), daemon=True).start()
        time.sleep(0.05)
        print("done")
    """
    command = [sys.executable, "-c", textwrap.dedent(code), loader, held]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
