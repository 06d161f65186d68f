"""nn.Graph: results bit-equal to eager, one trace, no allocations, nested values, state, errors."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from pathlib import Path

import oneflow as torch
import oneflow.nn as nn
import pytest
from oneflow import _oneflow

ROOT = Path(__file__).parents[2]


class Net(nn.Module):
    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.first = nn.Linear(12, 32)
        self.norm = nn.LayerNorm(32)
        self.act = nn.GELU()
        self.drop = nn.Dropout(dropout)
        self.last = nn.Linear(32, 5)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(32))

    def forward(self, x):
        h = self.act(self.norm(self.first(x)))
        if self.training:
            with torch.no_grad():
                self.seen.add_(1.0)
                self.mean.mul_(0.9).add_(h.mean(0), alpha=0.1)
        return self.last(self.drop(h))


def same(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())


def make(optimizer="AdamW", seed=0):
    torch.manual_seed(seed)
    net = Net()
    if optimizer == "SGD":
        opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    else:
        opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
    return net, opt, torch.optim.lr_scheduler.LambdaLR(opt, lambda step: 1.0 / (1 + step))


def loss_of(net, x, y):
    return nn.functional.cross_entropy(net(x), y)


class Step(nn.Graph):
    def __init__(self, net, opt, schedule, fuse=False):
        super().__init__()
        self.net = net
        self.config.allow_fuse_elementwise(fuse)
        self.add_optimizer(opt, lr_sch=schedule)
        self.builds = 0

    def build(self, x, y):
        self.builds += 1
        loss = loss_of(self.net, x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
        return loss


def batches(n):
    torch.manual_seed(99)
    return [(torch.randn(8, 12), torch.randint(0, 5, (8,))) for _ in range(n)]


def eager_losses(net, opt, schedule, data):
    out = []
    for x, y in data:
        loss = loss_of(net, x, y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        schedule.step()
        out.append(loss.item())
    return out


def tensors_of(net, opt):
    found = list(net.state_dict().values())
    for state in opt.state_dict()["state"].values():
        found += [v for v in state.values() if isinstance(v, torch.Tensor)]
    return found


@pytest.mark.parametrize("optimizer", ["AdamW", "SGD"])
def test_twenty_steps_are_the_bits_of_eager(optimizer):
    data = batches(20)
    net, opt, schedule = make(optimizer)
    torch.manual_seed(1)
    want = eager_losses(net, opt, schedule, data)

    net2, opt2, schedule2 = make(optimizer)
    graph = Step(net2, opt2, schedule2)
    torch.manual_seed(1)
    have = []
    for i, (x, y) in enumerate(data):
        before = _oneflow._n_allocs()
        loss = graph(x, y)
        if i > 1:
            assert _oneflow._n_allocs() == before
        have.append(loss.item())
    assert have == want
    assert graph.builds == 1
    assert opt2.param_groups[0]["lr"] == opt.param_groups[0]["lr"]
    pairs = list(zip(tensors_of(net, opt), tensors_of(net2, opt2), strict=True))
    assert len(pairs) > 12
    assert all(same(a, b) for a, b in pairs)
    assert net2.seen.item() == 20
    assert all(p.grad is None for p in net2.parameters())


def test_fusion_stays_within_rounding():
    data = batches(20)
    net, opt, schedule = make()
    torch.manual_seed(1)
    want = eager_losses(net, opt, schedule, data)
    net2, opt2, schedule2 = make()
    graph = Step(net2, opt2, schedule2, fuse=True)
    torch.manual_seed(1)
    have = [graph(x, y).item() for x, y in data]
    # Fused steps round where single ops do; only sums inside a fused kernel could differ by a rounding.
    assert have == pytest.approx(want, rel=1e-6)


def test_the_planned_peak_is_near_the_lower_bound():
    graph = Step(*make())
    graph(*batches(1)[0])
    memory = graph.memory()
    assert memory["lower_bound"] <= memory["peak"] <= 1.1 * memory["lower_bound"]
    assert memory["peak"] < memory["without_reuse"]


def test_the_example_gpt_trains_as_a_graph():
    sys.path.insert(0, str(ROOT / "examples" / "gpt"))
    try:
        from model import GPT, GPTConfig
        from train import eager_step, graph_step, make_optimizer
    finally:
        sys.path.pop(0)

    def setup():
        torch.manual_seed(3)
        model = GPT(GPTConfig(block_size=16, n_layers=2, n_heads=2, width=16, dropout=0.1))
        opt = make_optimizer(model, 1e-3)
        return model, opt, torch.optim.lr_scheduler.CosineAnnealingLR(opt, 10)

    torch.manual_seed(5)
    data = [(torch.randint(0, 256, (4, 16)), torch.randint(0, 256, (4, 16))) for _ in range(6)]
    eager_parts, graph_parts = setup(), setup()
    torch.manual_seed(7)
    eager = eager_step(*eager_parts)
    want = [eager(*d).item() for d in data]
    graph = graph_step(*graph_parts)
    graph.config.allow_fuse_elementwise(False)
    torch.manual_seed(7)
    assert [graph(*d).item() for d in data] == want
    for a, b in zip(eager_parts[0].parameters(), graph_parts[0].parameters(), strict=True):
        assert same(a, b)


def test_nested_values_and_keyword_arguments():
    class Nested(nn.Graph):
        def build(self, pair, *, options, nothing=None, scale=2):
            a, b = pair
            return {"sum": a + b, "all": [a * scale, (options["c"], nothing)]}, None

    a, b, c = torch.ones(2), torch.full((2,), 3.0), torch.zeros(3)
    out, none = Nested()((a, b), options=OrderedDict(c=c))
    assert none is None and out["sum"].tolist() == [4, 4]
    doubled, (passed, nothing) = out["all"]
    assert doubled.tolist() == [2, 2] and passed.tolist() == [0, 0, 0] and nothing is None


@dataclass
class Batch:
    ids: object
    scale: float = 1.0


class Row:
    def __init__(self, cells):
        self.cells = cells


def test_classes_of_users_and_registered_ones(tmp_path):
    pytree = torch.utils._pytree
    # A context that cannot be hashed is compared.
    pytree.register_pytree_node(Row, lambda row: (row.cells, ["row"]), lambda cells, _: Row(list(cells)))
    pair = namedtuple("pair", "a b")

    class Graph(nn.Graph):
        n_builds = 0

        def build(self, batch, row, counts, ends):
            Graph.n_builds += 1
            a, b = row.cells
            return Batch(batch.ids * batch.scale + a + ends[-1], None), pair(Row([b, counts["x"]]), OrderedDict(last=a))

    x = torch.ones(2)
    graph = Graph()
    for scale in (2.0, 2.0, 3.0):
        args = Batch(x, scale), Row([x, x + 1]), defaultdict(list, x=x * 5), deque([x, x * 2], maxlen=2)
        made, result = graph(*args)
        assert type(made) is Batch and made.ids.tolist() == [scale + 3] * 2 and made.scale is None
        assert type(result) is pair and [t.tolist() for t in result.a.cells] == [[2, 2], [5, 5]]
        assert type(result.b) is OrderedDict
    assert Graph.n_builds == 2
    torch.save(graph, tmp_path)
    # Fields of classes come back as dictionaries and tuples.
    form = json.loads((tmp_path / "structure.json").read_text())["outputs"]
    assert [key for key, _ in form["tuple"][0]["dict"]] == ["ids", "scale"]


def test_one_trace_for_each_meta_and_mode():
    net = Net(0.0)

    class Forward(nn.Graph):
        def __init__(self):
            super().__init__()
            self.net = net
            self.builds = 0

        def build(self, x):
            self.builds += 1
            return self.net(x)

    graph = Forward()
    for size in (2, 3, 2, 3, 2):
        x = torch.randn(size, 12)
        got = graph(x)
        assert got.shape == (size, 5) and not got.requires_grad
    assert graph.builds == 2
    net.eval()
    x = torch.randn(2, 12)
    assert (graph(x) - net(x)).abs().max().item() < 1e-6
    assert graph.builds == 3


def test_linear_and_activation_fuse_where_nobody_needs_the_value_between():
    net = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 5), nn.ReLU())

    class Forward(nn.Graph):
        def __init__(self):
            super().__init__()
            self.net = net

        def build(self, x):
            return self.net(x)

    x = torch.randn(4, 12)
    with torch.no_grad():
        graph = Forward()
        assert (graph(x) - net(x)).abs().max().item() < 1e-6
    assert repr(graph).count("fused_linear(") == 2 and "gelu(" not in repr(graph).replace("fused", "")
    # In training the backward reads the value before gelu, so only relu, whose backward reads its result, may fuse.
    step = Step(*make(), fuse=True)
    step(*batches(1)[0])
    assert "fused_linear" not in repr(step)


def test_results_that_are_kept_stay():
    class Twice(nn.Graph):
        def build(self, x):
            return x * 2

    graph = Twice()
    kept = [graph(torch.full((3,), float(i))) for i in range(10)]
    assert [t[0].item() for t in kept] == [2.0 * i for i in range(10)]


def test_inputs_written_in_place_and_not_contiguous():
    class Write(nn.Graph):
        def build(self, x):
            x[0] += 1
            return x.sum()

    graph = Write()
    x = torch.zeros(3, 2)
    assert graph(x).item() == 2 and x.tolist() == [[1, 1], [0, 0], [0, 0]]
    y = torch.zeros(2, 3).t()
    assert graph(y).item() == 2 and y.tolist() == [[1, 1], [0, 0], [0, 0]]


def test_random_numbers_follow_the_generator():
    class Noise(nn.Graph):
        def build(self, x):
            return x + torch.rand(4), torch.randn(4)

    x = torch.zeros(4)
    torch.manual_seed(4)
    want = [(torch.rand(4), torch.randn(4), torch.rand(2)) for _ in range(3)]
    graph = Noise()
    torch.manual_seed(4)
    for a, b, c in want:
        u, v = graph(x)
        assert same(u, a) and same(v, b) and same(torch.rand(2), c)


def test_a_custom_function_is_traced():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    w = nn.Parameter(torch.tensor([1.0, 2.0]))

    class Custom(nn.Graph):
        def build(self, x):
            (g,) = torch.autograd.grad((Cube.apply(w) * x).sum(), [w])
            return g

    assert Custom()(torch.tensor([1.0, 10.0])).tolist() == [3.0, 120.0]


def build_of(function):
    class Given(nn.Graph):
        def build(self, *args):
            return function(*args)

    return Given()


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (lambda x: x.item(), RuntimeError, "nn.Graph"),
        (lambda x: x.tolist(), RuntimeError, "nn.Graph"),
        (lambda x: x * 2 if x > 0 else x, RuntimeError, "nn.Graph"),
        (lambda x: x.nonzero(), RuntimeError, "nonzero"),
        (lambda x: x[x > 0], RuntimeError, "nn.Graph"),
        (lambda x: x.numpy(), (RuntimeError, NotImplementedError), "traced"),
        (lambda x: torch.ones(2) * x + torch.ones(7), RuntimeError, "size of tensor"),
        (lambda x: object(), TypeError, "output"),
        (lambda x: build_of(lambda y: y)(x), RuntimeError, "another"),
    ],
)
def test_errors_in_build(function, error, text):
    x = torch.ones(1)
    with pytest.raises(error, match=text):
        build_of(function)(x)
    # The thread is as before.
    assert not _oneflow._is_tracing()
    assert (x + 1).item() == 2
    assert build_of(lambda y: y + 1)(x).item() == 2


def test_errors_of_a_run_leave_the_graph_usable():
    table = torch.arange(6.0).view(3, 2)
    graph = build_of(lambda i: nn.functional.embedding(i, table))
    assert graph(torch.tensor([2])).tolist() == [[4, 5]]
    for _ in range(3):
        with pytest.raises(IndexError):
            graph(torch.tensor([3]))
        assert graph(torch.tensor([1])).tolist() == [[2, 3]]
    with pytest.raises(TypeError, match="input"):
        graph(object())


def test_a_traced_tensor_does_not_outlive_its_trace():
    escaped = []
    build_of(lambda x: escaped.append(x * 2))(torch.ones(2))
    with pytest.raises(RuntimeError, match="build"):
        escaped[0] + 1
    with pytest.raises(RuntimeError, match="build"):
        build_of(lambda x: x + escaped[0])(torch.ones(2))


def test_gradients_outside_are_untouched():
    w = nn.Parameter(torch.ones(2))
    (w * 3).sum().backward()
    grad = w.grad

    class Backward(nn.Graph):
        def __init__(self):
            super().__init__()
            self.net = nn.ParameterList([w]) if hasattr(nn, "ParameterList") else None
            self.add_optimizer(torch.optim.SGD([w], lr=1.0))

        def build(self, x):
            loss = (w * x).sum()
            loss.backward()
            return loss

    graph = Backward() if hasattr(nn, "ParameterList") else None
    if graph is not None:
        graph(torch.ones(2))
    assert w.grad is grad and grad.tolist() == [3, 3]


def test_state_dict_round_trip():
    data = batches(6)
    graph = Step(*make())
    torch.manual_seed(2)
    for x, y in data[:3]:
        graph(x, y)
    state = graph.state_dict()
    rng = torch.get_rng_state()
    want = [graph(x, y).item() for x, y in data[3:]]
    other = Step(*make(seed=9))
    # A state_dict holds views of the live tensors: save and load through copies, as a file would.
    import io

    assert set(state) == {"net", "optimizer_0", "lr_scheduler_0"}
    graph2 = Step(*make())
    torch.manual_seed(2)
    for x, y in data[:3]:
        graph2(x, y)
    buffer = io.BytesIO()
    torch.save(graph2.state_dict(), buffer)
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, weights_only=False))
    torch.set_rng_state(rng)
    assert [other(x, y).item() for x, y in data[3:]] == want
    with pytest.raises(RuntimeError, match="first call"):
        other.load_state_dict(state)


def test_new_memory_and_new_settings_are_seen():
    data = batches(4)
    net, opt, schedule = make()
    graph = Step(net, opt, schedule)
    net2, opt2, schedule2 = make()
    torch.manual_seed(1)
    have = []
    for i, (x, y) in enumerate(data):
        if i == 2:
            net.first.weight.data = net.first.weight.detach() * 0.5
            opt.param_groups[0]["weight_decay"] = 0.3
        if i == 3:
            opt.load_state_dict(opt.state_dict())
        have.append(graph(x, y).item())
    torch.manual_seed(1)
    want = eager_losses(net2, opt2, schedule2, data[:2])
    net2.first.weight.data = net2.first.weight.detach() * 0.5
    opt2.param_groups[0]["weight_decay"] = 0.3
    want += eager_losses(net2, opt2, schedule2, data[2:])
    assert have == want
    assert graph.builds == 3


def test_repr_and_names():
    graph = Step(*make())
    assert "Linear" in repr(graph) and not graph.is_compiled and graph.training
    graph(*batches(1)[0])
    text = repr(graph)
    assert graph.is_compiled and graph.name.startswith("Step_")
    assert "net.first.weight" in text and "optimizer_0.net.first.weight.exp_avg" in text
    assert "test_graph.py:" in text


def test_passes_print_on_request(monkeypatch, capfd):
    monkeypatch.setenv("ONEFLOW_DEBUG_PASS", "fuse_chain")
    build_of(lambda x: (x + 1) * 2)(torch.ones(3))
    text = capfd.readouterr().err
    assert text.count("before fuse_chain") == 1 and text.count("after fuse_chain") == 1
    assert "add+mul(" in text.split("after")[1] and "dead_code" not in text
    monkeypatch.setenv("ONEFLOW_DEBUG_PASS", "ALL")
    build_of(lambda x: x + 1)(torch.ones(3))
    assert "before dead_code" in capfd.readouterr().err


def test_debug_prints_a_summary(capsys):
    graph = build_of(lambda x: x + 1)
    graph.debug(2)
    graph(torch.ones(3))
    text = capsys.readouterr().out
    assert "add(" in text and "1 launches a run" in text


def test_config():
    config = nn.graph.GraphConfig()
    config.set_outputs_buffer_size(3)
    config.set_gradient_accumulation_steps(1)
    with pytest.raises(RuntimeError, match="renamed"):
        config.set_zero_redundancy_optimizer_mode("distributed_split")
    with pytest.raises(TypeError):
        nn.Graph().add_optimizer(object())
    with pytest.raises(NotImplementedError):
        nn.Graph()(torch.ones(1))


def test_control_c_ends_a_run():
    n = 700
    w = torch.randn(n, n)

    def many(x):
        for _ in range(400):
            x = (x @ w) * 0.01
        return x

    graph = build_of(many)
    x = torch.randn(n, n)
    # Started in the background a process inherits that interrupts are ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.4, lambda: signal.raise_signal(signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        while time.monotonic() - started < 60:
            graph(x)
    small = build_of(lambda y: y + 1)
    assert small(torch.ones(1)).item() == 2


def test_micro_batches_are_averaged_and_their_results_come_together():
    def make_one():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    class Accumulate(nn.Graph):
        def __init__(self, net, opt):
            super().__init__()
            self.net = net
            self.add_optimizer(opt)
            self.config.set_gradient_accumulation_steps(4)

        def build(self, x):
            y = self.net(x)
            loss = y.pow(2).mean()
            loss.backward()
            return y, loss

    a, b = make_one(), make_one()
    first, second = (torch.optim.AdamW(net.parameters(), lr=0.1) for net in (a, b))
    graph = Accumulate(a, first)
    x = torch.randn(8, 4)
    for _ in range(3):
        y, losses = graph(x)
        second.zero_grad()
        parts = [b(part) for part in x.chunk(4)]
        expected = [part.pow(2).mean() for part in parts]
        for loss in expected:
            (loss / 4).backward()
        second.step()
        assert (y == torch.cat(parts)).all() and (losses == torch.stack(expected)).all()
    assert all((p == q).all() for p, q in zip(a.parameters(), b.parameters(), strict=True))
    with pytest.raises(ValueError, match="multiple of 4"):
        graph(torch.randn(6, 4))
    with pytest.raises(ValueError, match="positive"):
        graph.config.set_gradient_accumulation_steps(0)


def test_programs_of_old_shapes_are_forgotten_on_request():
    graph = build_of(lambda x: x * 2).with_dynamic_input_shape(size=2)
    for n in (1, 2, 1, 3):
        assert graph(torch.ones(n)).shape == (n,)
    assert len(graph._compiled) == 2
    assert {key[0][1][0][0] for key in graph._compiled} == {(1,), (3,)}
    with pytest.raises(ValueError, match="size"):
        graph.with_dynamic_input_shape(size=0)


def test_trace_compiles_without_running():
    state = torch.zeros(2)
    graph = build_of(lambda x: state.add_(x))
    assert graph.trace(torch.ones(2)) is graph and graph.is_compiled
    assert (state == 0).all()
    graph(torch.ones(2))
    assert (state == 1).all()
