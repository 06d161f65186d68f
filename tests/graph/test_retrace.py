"""When a compiled program is reused: changed modules, thread modes, stances, and threads that run during a build."""

from __future__ import annotations

import threading

import oneflow as flow
import pytest
from oneflow import nn


def graph_of(module):
    class G(nn.Graph):
        def __init__(self):
            super().__init__()
            self.net = module

        def build(self, x):
            return self.net(x)

    return G()


def net() -> nn.Module:
    flow.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def compiled(module):
    return flow.compile(module, fullgraph=True)


def replace_parameter(m):
    m[0].weight = nn.Parameter(flow.ones(4, 4))


def replace_buffer_like(m):
    m[2].bias = nn.Parameter(flow.full((2,), 7.0))


def replace_child(m):
    # An object of the same size: it may get the address of the old one.
    m[1] = nn.Tanh()


def replace_nested_child(m):
    m[0] = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())


def drop_bias(m):
    m[2].bias = None


def add_buffer(m):
    # Of a module that held none.
    m[1].register_buffer("shift", flow.ones(4))
    m[1].forward = lambda x: x + m[1].shift


def write_past_the_module(m):
    m[0]._parameters["weight"] = nn.Parameter(flow.ones(4, 4))


def fill_past_the_module(m):
    m[1]._buffers["shift"] = flow.ones(4)


class Shift(nn.Module):
    """Adds a buffer, once it has one."""

    def forward(self, x):
        return x + self._buffers.get("shift", 0.0)


def change_one_mode(m):
    m[3].train(not m[3].training)


@pytest.mark.parametrize(
    "change",
    [
        replace_parameter,
        replace_buffer_like,
        replace_child,
        replace_nested_child,
        drop_bias,
        add_buffer,
        write_past_the_module,
        fill_past_the_module,
        change_one_mode,
    ],
)
@pytest.mark.parametrize("wrap", [graph_of, compiled])
def test_what_a_module_holds_is_looked_at_in_every_call(wrap, change):
    module = net()
    if change is fill_past_the_module:
        module[1] = Shift()
    if change is change_one_mode:
        module.append(nn.BatchNorm1d(2, track_running_stats=True))
        module[3].running_mean += 3
        module[3].eval()
    run = wrap(module)
    x = flow.randn(3, 4)
    for _ in range(2):
        assert flow.allclose(run(x), module(x))
    before = module(x)
    change(module)
    assert not flow.allclose(before, module(x))
    assert flow.allclose(run(x), module(x))


@pytest.mark.parametrize("wrap", [graph_of, compiled])
def test_a_module_that_changes_back_finds_its_program(wrap):
    module = net()
    run = wrap(module)
    x = flow.randn(3, 4)
    old = module[1]
    first = run(x)
    module[1] = nn.Tanh()
    run(x)
    module[1] = old
    assert (run(x) == first).all()
    programs = run._compiled if wrap is graph_of else run._compiled_call._programs
    assert len(programs) == 2


@pytest.mark.parametrize("wrap", [graph_of, compiled])
def test_programs_are_of_one_precision(wrap):
    module = net()
    run = wrap(module)
    x = flow.randn(3, 4)
    assert run(x).dtype is flow.float32
    with flow.autocast("cpu", dtype=flow.bfloat16):
        assert run(x).dtype is flow.bfloat16
    with flow.autocast("cpu", dtype=flow.float16):
        assert run(x).dtype is flow.float16
    assert run(x).dtype is flow.float32


def test_stances():
    calls = []

    @flow.compile
    def f(x):
        calls.append(x.shape)
        return x * 2

    with flow.compiler.set_stance("eager_on_recompile"):
        f(flow.ones(2))
        f(flow.ones(2))
    assert len(calls) == 2
    f(flow.ones(2))
    f(flow.ones(2))
    assert len(calls) == 3
    with flow.compiler.set_stance("eager_on_recompile"):
        f(flow.ones(2))
        assert len(calls) == 3
        f(flow.ones(3))
        assert len(calls) == 4
    with flow.compiler.set_stance("fail_on_recompile"):
        assert f(flow.ones(2)).sum() == 4
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            f(flow.ones(3))
    with pytest.raises(RuntimeError, match="invalid stance"):
        flow.compiler.set_stance("eager")


def test_the_scale_of_a_build_is_that_of_its_thread():
    """Backward passes of other threads, while a graph with a scaler is built, start from their own losses."""
    found = []

    def elsewhere():
        w = flow.ones(1, requires_grad=True)
        (w * 3).sum().backward()
        v = flow.ones(1, requires_grad=True)
        flow.autograd.backward([(v * 3).sum()])
        found.extend([float(w.grad), float(v.grad)])

    class G(nn.Graph):
        def __init__(self):
            super().__init__()
            self.net = net()
            self.add_optimizer(flow.optim.SGD(self.net.parameters(), lr=0.1))
            self.set_grad_scaler(flow.amp.StaticGradScaler(1024.0))

        def build(self, x):
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            loss = self.net(x).sum()
            loss.backward()
            return loss

    G()(flow.ones(2, 4))
    assert found == [3.0, 3.0]


@pytest.mark.parametrize("through", ["method", "function"])
def test_a_static_scale_changes_no_step(through):
    x = flow.randn(8, 4)
    nets = [net(), net()]

    class G(nn.Graph):
        def __init__(self):
            super().__init__()
            self.net = nets[0]
            self.config.allow_fuse_elementwise(False)
            self.add_optimizer(flow.optim.SGD(self.net.parameters(), lr=0.1))
            self.set_grad_scaler(flow.amp.StaticGradScaler(256.0))

        def build(self, x):
            loss = self.net(x).pow(2).mean()
            if through == "method":
                loss.backward()
            else:
                flow.autograd.backward([loss])
            return loss

    graph = G()
    optimizer = flow.optim.SGD(nets[1].parameters(), lr=0.1)
    for _ in range(3):
        loss = nets[1](x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # A power of two: scaling and unscaling round nothing.
        assert graph(x) == loss
    assert all((p == q).all() for p, q in zip(nets[0].parameters(), nets[1].parameters(), strict=True))
    with pytest.raises(ValueError, match="positive"):
        flow.amp.StaticGradScaler(0.0)


def test_many_kinds_of_inputs_do_not_fill_memory():
    graph = graph_of(nn.ReLU())
    for n in range(1, 30):
        assert graph(flow.ones(n)).shape == (n,)
    assert len(graph._compiled) == 16
    f = flow.compile(lambda x: x * 2)
    with pytest.warns(UserWarning, match="compiled for 16 other kinds"):
        for n in range(1, 30):
            assert f(flow.ones(n)).sum() == 2 * n


@pytest.mark.parametrize("wrap", [graph_of, compiled])
def test_hooks_that_come_and_go_are_seen(wrap):
    module = net()
    run = wrap(module)
    x = flow.randn(3, 4)
    plain = run(x)
    handle = module[0].register_forward_hook(lambda m, args, y: y * 3)
    assert flow.allclose(run(x), module(x)) and not flow.allclose(run(x), plain)
    handle.remove()
    assert flow.allclose(run(x), plain)


def test_hooks_on_gradients_run_once():
    module = net()
    module[0].weight.register_hook(lambda g: g * 2)
    x = flow.randn(3, 4)
    grads = []
    for run in (module, compiled(module)):
        module.zero_grad()
        run(x).sum().backward()
        grads.append(module[0].weight.grad)
    assert flow.allclose(*grads)


@pytest.mark.parametrize("where", ["closure", "list"])
def test_modules_that_are_only_called_have_modes_too(where):
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    x = flow.ones(8, 4)

    class G(nn.Graph):
        def __init__(self):
            super().__init__()
            self.parts = [module]

        def build(self, x):
            return (self.parts[0] if where == "list" else module)(x)

    for run in (G(), flow.compile(lambda x: module(x), fullgraph=True)):
        for _ in range(2):
            module.train()
            assert (run(x) == 0).any()
            module.eval()
            assert flow.allclose(run(x), module(x))
    # One program for each mode, as soon as the modules are known.
    graph = G()
    for _ in range(3):
        for mode in (True, False):
            module.train(mode)
            graph(x)
    assert len(graph._compiled) == 2


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.shift, self.seen = 1.0, flow.ones(2), 0

    def forward(self, x):
        self.seen += 1
        return x * self.scale + self.shift


def test_numbers_and_tensors_that_a_compiled_module_names():
    module = Scaled()
    f = compiled(module)
    x = flow.ones(2)
    assert f(x).tolist() == [2, 2]
    module.scale = 3.0
    assert f(x).tolist() == [4, 4]
    module.shift = flow.zeros(2)
    assert f(x).tolist() == [3, 3]
    traces = module.seen
    module.other = 1
    module.seen += 1
    # Attributes that forward does not name, or counts itself, cause no new trace.
    assert f(x).tolist() == [3, 3] and module.seen == traces + 1
    graph = graph_of(module)
    graph(x)
    module.shift = flow.ones(2)
    assert graph(x).tolist() == [4, 4]


factor = 1.0


def test_numbers_and_tensors_of_a_closure(monkeypatch):
    shift = flow.zeros(2)
    f = flow.compile(lambda x: x * factor + shift, fullgraph=True)
    x = flow.ones(2)
    assert f(x).tolist() == [1, 1]
    monkeypatch.setitem(globals(), "factor", 2.0)
    assert f(x).tolist() == [2, 2]
    shift = flow.ones(2)
    assert f(x).tolist() == [3, 3]


def test_a_graphs_own_tensors_may_be_replaced():
    class G(nn.Graph):
        def __init__(self):
            super().__init__()
            self.shift = flow.ones(2)

        def build(self, x):
            return x + self.shift

    graph = G()
    assert graph(flow.zeros(2)).tolist() == [1, 1]
    graph.shift = flow.full((2,), 5.0)
    assert graph(flow.zeros(2)).tolist() == [5, 5]


def test_parameters_that_are_frozen_after_the_first_step():
    module = net()

    class G(nn.Graph):
        def __init__(self):
            super().__init__()
            self.net = module
            self.add_optimizer(flow.optim.SGD(module.parameters(), lr=0.1))

        def build(self, x):
            loss = self.net(x).sum()
            loss.backward()
            return loss

    graph = G()
    x = flow.ones(2, 4)
    graph(x)
    frozen, other = module[0].weight.detach().clone(), module[2].bias.detach().clone()
    module[0].weight.requires_grad_(False)
    graph(x)
    assert (module[0].weight == frozen).all() and not (module[2].bias == other).any()
    module[0].weight.requires_grad_(True)
    graph(x)
    assert not (module[0].weight == frozen).all()
    f = compiled(module)
    module.requires_grad_(False)
    assert not f(x).requires_grad
    module.requires_grad_(True)
    f(x).sum().backward()
    assert module[0].weight.grad is not None


def test_settings_that_change_in_every_step_warn():
    module = net()
    optimizer = flow.optim.SGD(module.parameters(), lr=0.1)

    class G(nn.Graph):
        def __init__(self):
            super().__init__()
            self.net = module
            self.add_optimizer(optimizer)

        def build(self, x):
            loss = self.net(x).sum()
            loss.backward()
            return loss

    graph = G()
    for i in range(5):
        optimizer.param_groups[0]["weight_decay"] = 0.9 - i / 10
        graph(flow.ones(2, 4))
    optimizer.param_groups[0]["weight_decay"] = 0.1
    with pytest.warns(UserWarning, match="'weight_decay'") as told:
        graph(flow.ones(2, 4))
    assert told[0].filename == __file__


@pytest.mark.parametrize("name", ["SGD", "RMSprop", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "LAMB"])
def test_options_of_rules_change_without_another_trace(name):
    """Momenta, betas and decays are read from memory, as the learning rate is: twenty steps are one program."""
    x = flow.randn(8, 4, generator=flow.Generator().manual_seed(1))
    extra = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}

    def steps(traced):
        module = net()
        optimizer = getattr(flow.optim, name)(module.parameters(), lr=1e-2, **extra)
        schedule = flow.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=21)
        builds = []

        class G(nn.Graph):
            def __init__(self):
                super().__init__()
                self.net = module
                self.add_optimizer(optimizer, lr_sch=schedule)

            def build(self, x):
                builds.append(1)
                loss = self.net(x).square().mean()
                loss.backward()
                return loss

        graph, losses = G(), []
        for i in range(20):
            if not traced:
                optimizer.zero_grad()
                loss = module(x).square().mean()
                loss.backward()
                optimizer.step()
                schedule.step()
            else:
                loss = graph(x)
            optimizer.param_groups[0]["weight_decay"] = i / 100
            losses.append(loss.item())
        return losses, len(builds)

    (eager, _), (compiled, traces) = steps(False), steps(True)
    assert compiled == pytest.approx(eager, rel=1e-6)
    assert traces == 1
