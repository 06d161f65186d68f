"""Compiled functions and modules: the same values and gradients as eager, retracing, falling back."""

from __future__ import annotations

import copy
import pickle
import warnings

import oneflow as flow
import pytest
from oneflow import nn


def net() -> nn.Module:
    flow.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))


def told(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, [str(w.message) for w in caught]


def test_values_and_gradients_are_those_of_eager():
    plain = net()
    module = copy.deepcopy(plain)
    compiled = flow.compile(module, fullgraph=True)
    for step in range(3):
        x = flow.randn(3, 4, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        a, b = compiled(x), plain(y)
        assert (a == b).all()
        (a**2).sum().backward()
        (b**2).sum().backward()
        pairs = [
            (x.grad, y.grad),
            *[(p.grad, q.grad) for p, q in zip(module.parameters(), plain.parameters(), strict=True)],
        ]
        assert all((p == q).all() for p, q in pairs), step
        with flow.no_grad():
            for p, q in zip(module.parameters(), plain.parameters(), strict=True):
                p -= 0.1 * p.grad
                q -= 0.1 * q.grad


def test_two_calls_may_be_open_at_once():
    f = flow.compile(lambda x, w: (x @ w).tanh() * x, fullgraph=True)
    w = flow.randn(3, 3, requires_grad=True)
    xs = [flow.randn(2, 3) for _ in range(3)]
    total = sum(f(x, w).sum() for x in xs)
    total.backward()
    got, w.grad = w.grad, None
    sum(((x @ w).tanh() * x).sum() for x in xs).backward()
    assert (got - w.grad).abs().max() < 1e-5


def test_results_that_alias_inputs_have_memory_of_their_own():
    f = flow.compile(lambda x: (x, x.T, [x + 1, {"k": 2}]), fullgraph=True)
    x = flow.ones(2, 3)
    a, b, (c, d) = f(x)
    assert d == {"k": 2} and b.shape == (3, 2) and (c == 2).all()
    a.zero_()
    b.zero_()
    assert (x == 1).all()


def test_a_module_written_to_in_forward():
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", flow.zeros(()))
            self.scale = nn.Parameter(flow.ones(2))

        def forward(self, x):
            self.calls += 1
            return x * self.scale

    m = Counter()
    c = flow.compile(m, fullgraph=True)
    for _ in range(3):
        c(flow.ones(2)).sum().backward()
    assert m.calls == 3 and (m.scale.grad == 3).all()


def test_each_kind_of_input_and_mode_has_its_programs():
    m = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    c = flow.compile(m, fullgraph=True)
    assert not (c.eval()(flow.ones(2, 4)) == 0).any()
    assert (c.train()(flow.ones(64, 4)) == 0).any()
    assert c(flow.ones(3, 4)).shape == (3, 4)
    with flow.no_grad():
        assert not c(flow.ones(3, 4)).requires_grad
    m[0].weight.data = flow.zeros(4, 4)
    assert (c.eval()(flow.ones(2, 4)) == m[0].bias).all()


def test_random_numbers_are_those_of_eager():
    drop = flow.compile(lambda x: nn.functional.dropout(x, 0.5) * 2, fullgraph=True)
    x = flow.ones(100, requires_grad=True)
    flow.manual_seed(5)
    a = [drop(x) for _ in range(2)]
    flow.manual_seed(5)
    b = [nn.functional.dropout(x, 0.5) * 2 for _ in range(2)]
    assert all((p == q).all() for p, q in zip(a, b, strict=True)) and (a[0] != a[1]).any()


def test_python_that_depends_on_data_runs_eagerly_and_says_so_once():
    def sign(x):
        return x if x.sum().item() > 0 else -x

    f = flow.compile(sign)
    y, texts = told(lambda: f(flow.tensor([-1.0, -2.0])))
    assert y.tolist() == [1, 2]
    assert len(texts) == 1 and "sign" in texts[0] and "data-dependent" in texts[0]
    assert told(lambda: f(flow.ones(2)))[1] == []
    with pytest.raises(RuntimeError, match="data-dependent"):
        flow.compile(sign, fullgraph=True)(flow.ones(2))


def test_the_users_own_error_stays():
    f = flow.compile(lambda x: x @ x)
    with pytest.raises(RuntimeError, match=r"matmul|shape"):
        f(flow.ones(2, 3))


def test_names_of_compile():
    m = net()
    c = flow.compile(m)
    assert next(iter(c.state_dict())).startswith("_orig_mod.") and c._orig_mod is m
    assert flow.compile(m, disable=True) is m
    assert flow.compile(m, backend="eager")(flow.ones(1, 4)).shape == (1, 2)
    with pytest.raises(TypeError, match="compile"):
        flow.compile(3)

    @flow.compile(mode="max-autotune")
    def f(x):
        return x + 1 if flow.compiler.is_compiling() else x + 2

    assert f(flow.zeros(())) == 1
    with flow.compiler.set_stance("force_eager"):
        assert f(flow.zeros(())) == 2
    flow.compiler.reset()
    assert f(flow.zeros(())) == 1
    again = copy.deepcopy(c)
    assert again._orig_mod is not m and (again(flow.ones(1, 4)) == m(flow.ones(1, 4))).all()
    assert (pickle.loads(pickle.dumps(c))(flow.ones(1, 4)) == m(flow.ones(1, 4))).all()


@pytest.mark.parametrize("drop", [0.0, 0.5])
def test_second_derivatives_run_the_function_again(drop):
    layer = nn.Linear(3, 4)

    def f(x):
        return nn.functional.dropout(layer(x), drop).tanh().pow(2).sum()

    found = []
    for function in (f, flow.compile(f)):
        flow.manual_seed(2)
        x = flow.arange(6.0).view(2, 3).requires_grad_()
        layer.zero_grad()
        (first,) = flow.autograd.grad(function(x * 0.1), x, create_graph=True)
        first.pow(2).sum().backward()
        found.append((first, x.grad, layer.weight.grad))
    for a, b in zip(*found, strict=True):
        assert flow.allclose(a, b, atol=1e-6)
    square = flow.compile(lambda x: (x**2).sum())
    assert flow.func.hessian(square)(flow.ones(2)).tolist() == [[2, 0], [0, 2]]
    assert flow.func.vmap(flow.func.grad(square))(flow.ones(2, 1)).tolist() == [[2], [2]]


def test_pytorchs_sequence_of_numbers_is_put_back_by_second_derivatives():
    before = flow.random.use("mt19937")
    try:
        layer = nn.Linear(3, 4)
        compiled = flow.compile(lambda x: layer(x).tanh().sum())
        found = []
        for function in (lambda x: layer(x).tanh().sum(), compiled):
            flow.manual_seed(1)
            x = flow.ones(2, 3, requires_grad=True)
            (first,) = flow.autograd.grad(function(x), x, create_graph=True)
            drawn = flow.rand(2)
            first.sum().backward()
            found.append((first, x.grad, drawn, flow.rand(2)))
        assert all(flow.allclose(a, b, atol=1e-6) for a, b in zip(*found, strict=True))
    finally:
        flow.random.use(before)


def test_second_derivatives_of_what_writes_are_refused():
    norm, x = nn.BatchNorm1d(3), flow.randn(4, 3, requires_grad=True)
    with pytest.raises(NotImplementedError, match="writes to tensors"):
        flow.autograd.grad(flow.compile(norm)(x).pow(2).sum(), x, create_graph=True)


def test_training_steps_run_eagerly_and_whole():
    def train(wrap):
        model = net()
        optimizer = flow.optim.AdamW(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).pow(2).sum()
            loss.backward()
            optimizer.step()
            return loss

        step = wrap(step)
        return [step(flow.ones(1, 4)).item() for _ in range(3)], optimizer.state_dict()["state"][0]["step"].item()

    with pytest.warns(UserWarning, match=r"AdamW\.step\(\) runs eagerly"):
        compiled_run = train(flow.compile)
    assert compiled_run == train(lambda step: step)

    weight = nn.Parameter(flow.ones(2))
    weight.grad = flow.full((2,), 5.0)
    with pytest.warns(UserWarning, match=r"backward\(\) is called in it"):
        flow.compile(lambda x: (weight * x).sum().backward())(flow.ones(2))
    assert weight.grad.tolist() == [6, 6]


class Decorated(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.inner, self.factor = nn.Linear(2, 2), factor

    @flow.compile(fullgraph=True)
    def forward(self, x):
        return self.scaled(x)

    def scaled(self, x):
        return self.inner(x) * self.factor


def test_methods_have_programs_of_each_module():
    a, b = Decorated(1.0), Decorated(2.0)
    x = flow.ones(1, 2)
    for module in (a, b, copy.deepcopy(a)):
        assert flow.allclose(module(x), module.inner(x) * module.factor)
    assert flow.allclose(nn.Sequential(a, b)(x), b.inner(a.inner(x) * a.factor) * b.factor)
    a.factor = 3.0
    assert flow.allclose(a(x), a.inner(x) * 3)


def test_what_is_disabled_runs_in_every_call():
    seen = []

    @flow.compiler.disable(reason="it logs")
    def log(x):
        seen.append(x.shape)
        return x + 1

    f = flow.compile(lambda x: log(x) * 2)
    with pytest.warns(UserWarning, match=r"log is marked with compiler\.disable\(\): it logs \(at .*test_compile"):
        f(flow.ones(1))
    assert f(flow.ones(1)).item() == 4 and len(seen) == 2


def test_a_compiled_module_is_its_module():
    module = net()
    c = flow.compile(module)
    assert len(c) == len(module) and c
    c.scale = 2.0
    assert module.scale == 2.0
    del c.scale
    assert not hasattr(module, "scale")
    module.eval()
    assert not c.training
    c.train()
    assert module.training and module[0].training


def test_arguments_of_compile():
    f = flow.relu
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast"):
        flow.compile(f, mode="fast")
    with pytest.raises(RuntimeError, match="Either mode or options"):
        flow.compile(f, mode="default", options={})
    with pytest.raises(RuntimeError, match="Invalid backend: 'fast'"):
        flow.compile(f, backend="fast")
    with pytest.raises(NotImplementedError, match="by name"):
        flow.compile(f, backend=lambda graph, inputs: graph)
    limited = flow.compile(lambda x: x + 1, recompile_limit=2)
    with pytest.warns(UserWarning, match="compiled for 2 other"):
        assert [limited(flow.ones(n)).shape[0] for n in (1, 2, 3)] == [1, 2, 3]
    flow.compiler.set_default_backend("eager")
    try:
        assert flow.compiler.get_default_backend() == "eager"
        assert not flow.compile(lambda: flow.compiler.is_compiling())()
    finally:
        flow.compiler.set_default_backend(None)


def test_a_generator_of_ones_own_draws_what_it_draws_eagerly():
    generator = flow.Generator()
    f = flow.compile(lambda x: x + flow.rand(4, generator=generator))
    generator.manual_seed(1)
    with pytest.warns(UserWarning, match="default generator"):
        have = f(flow.zeros(4))
    generator.manual_seed(1)
    assert flow.equal(have, flow.rand(4, generator=generator))
