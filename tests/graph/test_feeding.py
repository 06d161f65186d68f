"""Loaders and readers that feed a graph: order, back-pressure, errors, files."""

from __future__ import annotations

import re
import signal
import struct
import threading
import time

import numpy as np
import oneflow as flow
import pytest
from oneflow import nn
from oneflow.utils.data import DataLoader, TensorDataset
from oneflow.utils.data.readers import IndexedTokenReader, OFRecordReader, RawReader, TokenReader


class Scale(nn.Graph):
    def build(self, x, y=None):
        return x * 2 if y is None else x * 2 + y.sum()


class Step(nn.Graph):
    def __init__(self, net, optimizer, schedule=None):
        super().__init__()
        self.net = net
        self.add_optimizer(optimizer, lr_sch=schedule)

    def build(self, x, y):
        loss = nn.functional.cross_entropy(self.net(x), y)
        loss.backward()
        return loss


def trainable():
    flow.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = flow.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    return net, optimizer, flow.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)


def data(n=45):
    flow.manual_seed(3)
    return TensorDataset(flow.randn(n, 6), flow.randint(0, 3, (n,)))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_trains_as_calls_do(workers):
    losses = []
    for feeds in (True, False):
        net, optimizer, schedule = trainable()
        step = Step(net, optimizer, schedule)
        # The last batch is smaller: it has a separate program.
        loader = DataLoader(data(), batch_size=8, num_workers=workers)
        for _ in range(2):
            out = step.over(loader) if feeds else (step(x, y) for x, y in loader)
            losses.append([loss.item() for loss in out])
        losses.append(optimizer.param_groups[0]["lr"])
    assert losses[:3] == losses[3:]
    assert len(losses[0]) == 6


def test_the_loader_waits_where_nobody_takes_its_batches():
    given = []

    def loader():
        for i in range(20):
            given.append(i)
            yield flow.full((2,), float(i))

    results = Scale().over(loader(), prefetch=3)
    first = next(results)
    # The one that ran, and three that wait in the register.
    deadline = time.monotonic() + 20
    while len(given) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert len(given) == 4 and first.tolist() == [0.0, 0.0]
    assert [r[0].item() for r in results] == [2.0 * i for i in range(1, 20)]
    assert len(given) == 20


def test_the_loader_works_while_a_step_runs():
    threads = set()

    def loader():
        for _ in range(4):
            threads.add(threading.get_ident())
            yield flow.ones(2)

    assert len(list(Scale().over(loader()))) == 4
    assert threads - {threading.get_ident()}


def test_what_a_loader_raises_comes_once_and_after_the_batches_before_it():
    def loader(n):
        for i in range(n):
            yield flow.full((2,), float(i))
        raise KeyError("no more of these")

    graph = Scale()
    for n in (1, 2, 5):
        seen = []
        with pytest.raises(KeyError, match="no more of these"):
            for y in graph.over(loader(n), prefetch=4):
                seen.append(y[0].item())
        assert seen == [2.0 * i for i in range(n)]
        assert graph(flow.ones(2)).tolist() == [2.0, 2.0]
    assert [y[0].item() for y in graph.over([flow.ones(2)] * 3)] == [2.0] * 3


def test_a_failing_step_ends_it_and_leaves_the_graph_usable():
    class Pick(nn.Graph):
        def build(self, i):
            return flow.arange(4).float()[i]

    graph = Pick()
    batches = [flow.tensor([1]), flow.tensor([9]), flow.tensor([2])]
    seen = []
    with pytest.raises(IndexError):
        for y in graph.over(batches):
            seen.append(y.item())
    assert seen == [1.0] and graph(flow.tensor([3])).item() == 3.0


def test_leaving_early_stops_the_loader():
    before = threading.active_count()
    results = Scale().over(flow.full((2,), float(i)) for i in range(100))
    assert [next(results)[0].item() for _ in range(3)] == [0.0, 2.0, 4.0]
    results.close()
    assert threading.active_count() == before
    # Dropped without a word.
    next(Scale().over(flow.ones(2) for _ in range(100)))


def test_other_structures_and_shapes_in_between():
    x = flow.ones(2)
    batches = [x, flow.ones(3), (x, flow.ones(4)), {"x": x, "y": flow.ones(5)}, x.t() if x.dim() == 2 else x]
    graph = Scale()
    got = [y.tolist() for y in graph.over(batches)]
    assert got == [[2.0] * 2, [2.0] * 3, [6.0] * 2, [7.0] * 2, [2.0] * 2]
    assert list(graph.over([])) == []
    with pytest.raises(ValueError, match="prefetch"):
        next(graph.over(batches, prefetch=0))
    with pytest.raises(TypeError, match="not supported"):
        next(graph.over([object()]))


def test_changes_between_steps_are_seen():
    class Drop(nn.Graph):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def build(self, x):
            return self.drop(x)

    graph = Drop()
    graph.drop.eval()
    kept = []
    for i, y in enumerate(graph.over([flow.ones(401)] * 8)):
        kept.append(y.sum().item())
        if i == 3:
            graph.drop.train()
    assert kept[:4] == [401.0] * 4 and len(kept) == 8
    assert all(k % 2 == 0 for k in kept[4:])


def test_a_second_thread_may_call_the_same_graph():
    net = nn.Linear(64, 64)

    class Forward(nn.Graph):
        def __init__(self):
            super().__init__()
            self.net = net

        def build(self, x):
            return self.net(x).tanh()

    graph = Forward()
    inputs = [flow.randn(32, 64) for _ in range(8)]
    want = [net(x).tanh() for x in inputs]
    wrong = []

    def work(k):
        for i in range(60):
            x = (i + k) % 8
            if (graph(inputs[x]) - want[x]).abs().max() > 1e-5:
                wrong.append(x)
            if i % 20 == 0:
                graph.memory()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not wrong and not any(t.is_alive() for t in threads)


class Identity(nn.Graph):
    def build(self, *x):
        return [y + 0 for y in x]


def fed(reader, prefetch=2):
    return [[t.tolist() for t in out] for out in Identity().over(reader, prefetch=prefetch)]


def alone(reader):
    return [[t.tolist() for t in (b if isinstance(b, tuple) else (b,))] for b in reader]


def test_token_files_feed_a_graph(tmp_path):
    words = np.arange(500, dtype=np.uint16)
    (tmp_path / "t").write_bytes(words.tobytes())

    def make(position=0):
        return TokenReader(tmp_path / "t", "uint16", 4, 7, batches=6, seed=3, position=position)

    got = fed(make())
    assert got == alone(make())
    assert len(got) == 6 and np.array(got[0][0]).shape == (4, 8)
    assert (np.diff(np.array(got)) == 1).all()
    assert fed(make(position=2))[:4] == got[2:]
    with pytest.raises(ValueError, match="tokens are"):
        TokenReader(tmp_path / "t", "float32", 4, 7, batches=1)
    with pytest.raises(RuntimeError, match="nothing"):
        TokenReader(tmp_path / "nothing", "uint16", 4, 7, batches=1)


def test_a_reader_continues_where_it_ended_and_sees_changes(tmp_path):
    (tmp_path / "t").write_bytes(np.arange(500, dtype=np.uint16).tobytes())

    class Gate(nn.Graph):
        def __init__(self):
            super().__init__()
            self.gate = nn.Identity()

        def build(self, x):
            return x + 0 if self.gate.training else x * 0

    def make(**options):
        return TokenReader(tmp_path / "t", "uint16", 2, 3, batches=4, **options)

    whole = [b.tolist() for _, r in [(0, make()), (1, make(position=4))] for b in r]
    reader, graph = make(), Gate()
    assert [b.tolist() for b in reader] == whole[:4] and reader.position == 4
    kept = []
    for y in graph.over(reader):
        kept.append(y.tolist())
        graph.gate.train(reader.position != 6)
    zeros = [[0] * 4] * 2
    assert kept == [whole[4], whole[5], zeros, whole[7]] and reader.position == 8
    # A loop that is left: what was read ahead and not run comes again.
    reader = make()
    for _ in graph.over(reader):
        break
    assert reader.position == 1 and [b.tolist() for b in reader] == whole[1:5]


def test_indexed_token_files_feed_a_graph(tmp_path):
    sequences = [np.arange(10, 40), np.arange(0), np.arange(100, 130)]
    tokens = np.concatenate(sequences).astype(np.int32)
    (tmp_path / "c.bin").write_bytes(tokens.tobytes())
    lengths = np.array([len(s) for s in sequences], dtype=np.int32)
    starts = (np.cumsum(lengths) - lengths).astype(np.int64) * 4
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, 3, 4)
    (tmp_path / "c.idx").write_bytes(head + lengths.tobytes() + starts.tobytes() + np.arange(4).tobytes())
    reader = IndexedTokenReader(tmp_path / "c", 2, 5, batches=3, shuffle=False)
    got = np.array(fed(reader))
    assert got[:, 0, :, :-1].reshape(-1).tolist() == tokens[:30].tolist()
    with pytest.raises(ValueError, match="give no batch"):
        IndexedTokenReader(tmp_path / "c", 2, 500, batches=1)


def test_raw_files_feed_a_graph(tmp_path):
    images = np.random.default_rng(0).normal(size=(12, 3, 2)).astype(np.float32)
    (tmp_path / "r").write_bytes(b"head" + images.tobytes())

    def make(**options):
        return RawReader(tmp_path / "r", (3, 2), flow.float32, 4, batches=3, header=4, **options)

    assert np.array_equal(np.array(fed(make()), dtype=np.float32).reshape(12, 3, 2), images)
    mixed = np.array(fed(make(shuffle=True)), dtype=np.float32).reshape(12, -1)
    assert sorted(map(tuple, mixed)) == sorted(map(tuple, images.reshape(12, -1)))
    with pytest.raises(ValueError, match="no records"):
        RawReader(tmp_path / "r", (3, 2), flow.float32, 4, batches=3)


def _field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def _record(label, values, text):
    def entry(name, kind, data):
        return _field(1, _field(1, name.encode()) + _field(2, _field(kind, _field(1, data))))

    body = entry("image", 2, struct.pack(f"<{len(values)}f", *values)) + entry("label", 5, bytes([label]))
    body += entry("text", 1, text)
    return struct.pack("<q", len(body)) + body


def test_ofrecords_feed_a_graph(tmp_path):
    records = [_record(i, [i + 0.5, -i], b"ab"[: i % 3]) for i in range(6)]
    (tmp_path / "part-0").write_bytes(b"".join(records[:4]))
    (tmp_path / "part-1").write_bytes(b"".join(records[4:]))
    files = [tmp_path / "part-0", tmp_path / "part-1"]
    decoders = [("image", (2,), flow.float32), ("label", (), flow.int32), ("text", (2,), "bytes")]

    def make(**options):
        return OFRecordReader(files, decoders, 3, batches=2, **options)

    got = fed(make(pad=True))
    assert [b[0] for b in got] == [[[i + 0.5, -i] for i in range(3)], [[i + 0.5, -i] for i in range(3, 6)]]
    assert [b[1] for b in got] == [[0, 1, 2], [3, 4, 5]] and got[0][2] == [[0, 0], [97, 0], [97, 98]]
    # Without padding a text of another length is an error, once; the graph continues.
    graph = Identity()
    with pytest.raises(ValueError, match=r'part-0.*"text" has 0 elements'):
        list(graph.over(make()))
    assert graph(flow.ones(1))[0].tolist() == [1.0]
    with pytest.raises(ValueError, match="cut short"):
        (tmp_path / "part-1").write_bytes(b"".join(records)[:-3])
        make()


def test_a_watchdog_names_the_waiting_tasks(monkeypatch, capfd):
    monkeypatch.setenv("ONEFLOW_WATCHDOG_SECONDS", "0.2")

    def slow():
        yield flow.ones(2)
        time.sleep(0.9)
        yield flow.ones(2)

    assert len(list(Scale().over(slow()))) == 2
    text = capfd.readouterr().err
    assert "a run has stood still for 0." in text
    assert re.search(r'compute \(after 1 steps\) [^;]*waits for "python 0" from python \(0 of 1 pieces\)', text)
    assert "receiver (after 1 steps) waits for" in text


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers that send signals")
def test_control_c_ends_a_run_that_waits_for_its_loader():
    def slow():
        yield flow.ones(2)
        time.sleep(1.0)
        yield flow.ones(2)

    graph = Scale()
    before = signal.signal(signal.SIGALRM, lambda *_: signal.default_int_handler(signal.SIGINT, None))
    try:
        with pytest.raises(KeyboardInterrupt):
            for _ in graph.over(slow()):
                signal.setitimer(signal.ITIMER_REAL, 0.2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert graph(flow.ones(2)).tolist() == [2.0, 2.0]
    assert len(list(graph.over([flow.ones(2)] * 3))) == 3
