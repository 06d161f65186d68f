"""Effects of `build` on modules: attributes and buffers it writes, shared parts, missing gradients."""

from __future__ import annotations

import copy

import oneflow as flow
import pytest
from oneflow import nn


def graph_of(module, optimizer=None):
    class G(nn.Graph):
        def __init__(self):
            super().__init__()
            self.net = module
            if optimizer is not None:
                self.add_optimizer(optimizer)

        def build(self, x):
            y = self.net(x)
            if optimizer is not None:
                y.sum().backward()
            return y

    return G()


def compiled(module):
    return flow.compile(module, fullgraph=True)


class Counts(nn.Module):
    """Writes a buffer, a tensor that it reads, one that it only keeps, and a list."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("steps", flow.zeros(()))
        self.mean = flow.zeros(3)
        self.latest = None

    def forward(self, x):
        self.steps = self.steps + 1
        self.mean = 0.5 * self.mean + 0.5 * x.mean(0)
        y = self.linear(x)
        self.latest = [y.pow(2).mean(), {"count": 2}]
        return y * self.steps


@pytest.mark.parametrize("wrap", [graph_of, compiled])
def test_what_a_module_writes_is_written_in_every_run(wrap):
    plain, module = Counts(), Counts()
    module.load_state_dict(plain.state_dict())
    run = wrap(module)
    for i in range(3):
        x = flow.randn(4, 3) + i
        assert flow.allclose(run(x), plain(x), atol=1e-6)
        assert module.steps == plain.steps and flow.allclose(module.mean, plain.mean)
        assert flow.allclose(module.latest[0], plain.latest[0]) and module.latest[1] == {"count": 2}
    programs = run._compiled if wrap is graph_of else run._compiled_call._programs
    assert len(programs) == 1
    # The module is intact for eager use, and what it kept has a history if compile created it.
    assert flow.allclose(module(x), plain(x), atol=1e-6)
    if wrap is compiled:
        run(x)
        module.zero_grad()
        module.latest[0].backward()
        assert module.linear.weight.grad is not None


class Appends(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen, self.calls = [], 0

    def forward(self, x):
        self.calls += 1
        self.seen.append(x * 2)
        return x


class Grows(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("all", flow.zeros(1))

    def forward(self, x):
        self.all = flow.cat([self.all, x])
        return self.all.sum()


@pytest.mark.parametrize("make, text", [(Appends, "Appends.seen is a list"), (Grows, r"buffer 'all'.*\(3,\)")])
def test_what_a_program_cannot_write_is_refused_and_undone(make, text):
    module = make()
    with pytest.raises(NotImplementedError, match=text):
        graph_of(module)(flow.ones(2))
    with pytest.warns(UserWarning, match=text):
        flow.compile(module)(flow.ones(2))
    if make is Appends:
        assert module.calls == 1 and [t.tolist() for t in module.seen] == [[2, 2]]
    else:
        assert module.all.tolist() == [0, 1, 1]


def test_a_failing_build_leaves_modules_as_they_were():
    class Fails(nn.Module):
        def forward(self, x):
            self.kept = x + 1
            return x.item()

    module = Fails()
    with pytest.raises(RuntimeError, match=r"data-dependent.*where\(\)"):
        graph_of(module)(flow.ones(1))
    assert not hasattr(module, "kept")


def test_numbers_that_follow_from_constants_are_read_while_a_graph_is_built():
    class Reads(nn.Module):
        def forward(self, x):
            places = flow.arange(x.shape[0])
            if (places >= 0).all():
                x = x[: int(places.sum() // 2)]
            return x * float(flow.eye(3).sum()) * places.max().item()

    x = flow.randn(4, 2)
    assert flow.equal(graph_of(Reads())(x), x[:3] * 3 * 3)


def test_what_can_change_is_not_read_while_a_graph_is_built():
    outside = flow.ones(3)

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", flow.ones(2))
            self.of = lambda x: self.scale

        def forward(self, x):
            return x * (self.of(x) * 2).sum().item()

    module = Reads()
    x = flow.ones(2)
    for of in (module.of, lambda x: outside, lambda x: x, lambda x: flow.rand(2)):
        module.of = of
        with pytest.raises(RuntimeError, match=r"data-dependent"):
            graph_of(module)(x)
    with pytest.warns(UserWarning, match="data-dependent"):
        compiled = flow.compile(lambda x: x if (outside * 2).sum() > 3 else -x)
        assert flow.equal(compiled(x), x)
    outside.zero_()
    assert flow.equal(compiled(x), -x)


def test_a_written_result_that_backward_needs():
    f = flow.compile(lambda x: x.exp(), fullgraph=True)
    y = f(flow.ones(2, requires_grad=True))
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_written_input_that_backward_needs():
    w = flow.ones(2, requires_grad=True)
    x = flow.ones(2)
    y = w * x
    flow.compile(lambda x: x.add_(1), fullgraph=True)(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_an_input_that_comes_back_keeps_its_values():
    class G(nn.Graph):
        def build(self, x):
            return x, x[0]

    x = flow.arange(6.0).reshape(2, 3).t()
    whole, row = G()(x)
    assert (whole == x).all() and (row == x[0]).all()


def test_modules_that_run_again():
    def block():
        return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))

    flow.manual_seed(0)
    plain = nn.Sequential(*[block() for _ in range(4)])
    marked = copy.deepcopy(plain)
    for part in marked:
        part.to(nn.graph.GraphModule).activation_checkpointing = True
        part.to(nn.graph.GraphModule).set_stage(0, flow.placement("cpu", [0]))
    graphs = [graph_of(m, flow.optim.SGD(m.parameters(), lr=0.1)) for m in (plain, marked)]
    x = flow.randn(256, 8)
    for _ in range(2):
        a, b = (g(x) for g in graphs)
        assert flow.allclose(a, b, atol=1e-5)
    assert graphs[1].memory()["peak"] < graphs[0].memory()["peak"]
    assert "forward" not in marked[0].__dict__ and marked[0].to(nn.Module) is marked[0]
    with pytest.raises(TypeError, match="placement"):
        marked[0].to(nn.graph.GraphModule).set_stage(0, "cpu")
    with pytest.raises(TypeError, match="class int"):
        marked[0].to(int)


def test_groups_are_clipped_by_their_own_norms():
    modules = [nn.Linear(3, 3)]
    modules.append(copy.deepcopy(modules[0]))
    group = {"clip_grad_max_norm": 0.1, "clip_grad_norm_type": 2.0}
    optimizers = [flow.optim.SGD([{"params": m.parameters(), **group}], lr=0.5) for m in modules]
    graph = graph_of(modules[0], optimizers[0])
    x = flow.randn(4, 3)
    for _ in range(2):
        graph(x)
        optimizers[1].zero_grad()
        modules[1](x).sum().backward()
        optimizers[1].clip_grad()
        optimizers[1].step()
    assert flow.allclose(modules[0].weight, modules[1].weight, atol=1e-6)


def test_an_optimizer_without_gradients_is_an_error():
    other = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="no parameter of its optimizers got a gradient"):
        graph_of(nn.Linear(3, 3), flow.optim.SGD(other.parameters(), lr=0.1))(flow.ones(1, 3))


def test_inputs_keep_what_they_want():
    """Gradients of inputs can be computed in build; a change of requires_grad is another program."""

    class Graph(flow.nn.Graph):
        def build(self, x, y):
            z = (x * y).sum()
            if not x.requires_grad:
                return z, y
            z.backward()
            (second,) = flow.autograd.grad((y * y).sum(), y) if y.requires_grad else (y,)
            return x.grad, second

    graph = Graph()
    x, y = flow.tensor([1.0, 2.0], requires_grad=True), flow.tensor([3.0, 4.0])
    assert [t.tolist() for t in graph(x, y)] == [[3, 4], [3, 4]]
    leaf = flow.tensor([3.0, 4.0], requires_grad=True)
    assert [t.tolist() for t in graph(x, leaf * 1)] == [[3, 4], [6, 8]]
    assert [t.tolist() for t in graph(x.detach(), y)] == [11, [3, 4]]
    assert x.grad is None and leaf.grad is None
