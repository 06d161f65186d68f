"""`make_fx`: functions as graphs of ops. They give what the functions give, at other values too, as PyTorch's do."""

import re

import oneflow
import pytest
import torch
from oneflow.fx.experimental.proxy_tensor import get_isolated_graphmodule, make_fx
from torch.fx.experimental.proxy_tensor import make_fx as torch_make_fx

LIBRARIES = (torch, oneflow)


def gradient_inside(lib, x):
    x = x.detach().requires_grad_()
    return lib.autograd.grad((x.sin() * 2).sum(), x)[0]


def writes(lib, x):
    y = x.clone()
    y.add_(1)
    y[0] = 5.0
    return y.t()


def layers(lib, x):
    lib.manual_seed(0)
    layer = lib.nn.Linear(3, 2)
    with lib.no_grad():
        for p in layer.parameters():
            p.copy_(lib.arange(float(p.numel())).reshape(p.shape) / 7)
    return lambda x: lib.relu(layer(x)), (x,)


# What is traced, of the library, and its arguments: x is 2 x 3, y is 3.
CASES = {
    "one": lambda lib, x, y: (lambda x: x.sin() + 1, (x,)),
    "nest": lambda lib, x, y: (lambda a, b: (a + b, {"k": [a * b]}), (x, y)),
    "dictionary": lambda lib, x, y: (lambda d: d["a"] + d["b"], ({"a": x, "b": y},)),
    "list": lambda lib, x, y: (lambda values: values[0] * values[1], ([x, y],)),
    "any number": lambda lib, x, y: (lambda *args: args[0] + args[1], (x, y)),
    "number": lambda lib, x, y: (lambda x, n: x * n, (x, 3)),
    "constant": lambda lib, x, y: (lambda x: x + y, (x,)),
    "no argument": lambda lib, x, y: (lambda: lib.zeros(2), ()),
    "argument itself": lambda lib, x, y: (lambda x: (x, x.shape[0], 1.5, None), (x,)),
    "module": lambda lib, x, y: (lib.nn.Softmax(-1), (x,)),
    "layers": lambda lib, x, y: layers(lib, x),
    "writes": lambda lib, x, y: (lambda x: writes(lib, x), (x,)),
    "gradient inside": lambda lib, x, y: (lambda x: gradient_inside(lib, x), (x,)),
    "grad": lambda lib, x, y: (lib.func.grad(lambda x: (x**2).sum()), (x,)),
    "vmap": lambda lib, x, y: (lib.func.vmap(lambda x: x * 2), (x,)),
    "jacrev": lambda lib, x, y: (lib.func.jacrev(lambda y: y**3), (y,)),
    "pieces": lambda lib, x, y: (lambda x: lib.cat([x, x]).split(1), (x,)),
    "loss": lambda lib, x, y: (lambda x: lib.nn.functional.cross_entropy(x, lib.tensor([0, 1])), (x,)),
    "norm": lambda lib, x, y: (lambda x, y: lib.nn.functional.layer_norm(x, (3,), y, y), (x, y)),
    "attention": lambda lib, x, y: (
        lambda x: lib.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
        (x,),
    ),
    "sizes": lambda lib, x, y: (lambda x: x.reshape(x.shape[1], -1), (x,)),
}


def case(name, lib, shift=0.0):
    x = lib.arange(6.0).reshape(2, 3) + shift
    return CASES[name](lib, x, lib.ones(3) + shift)


def numbers(value):
    if isinstance(value, (torch.Tensor, oneflow.Tensor)):
        return pytest.approx(value.detach().flatten().tolist(), rel=1e-5, abs=1e-6)
    if isinstance(value, (list, tuple)):
        return [numbers(v) for v in value]
    return {k: numbers(v) for k, v in value.items()} if isinstance(value, dict) else value


def plain(value):
    if isinstance(value, (torch.Tensor, oneflow.Tensor)):
        return value.detach().flatten().tolist()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("mode", ["real", "fake"])
@pytest.mark.parametrize("name", CASES)
def test_a_graph_computes_what_its_function_does(name, mode):
    f, args = case(name, oneflow)
    made = make_fx(f, tracing_mode=mode)(*args)
    theirs_f, theirs_args = case(name, torch)
    theirs = torch_make_fx(theirs_f)(*theirs_args)
    if name != "any number":
        # Inputs have the same names.
        places = [[n.target for n in g.graph.nodes if n.op == "placeholder"] for g in (theirs, made)]
        assert places[0] == places[1]
    assert all(n.op != "call_module" for n in made.graph.nodes)
    for shift in (0.0, 2.0) if name not in ("number",) else (0.0,):
        f, args = case(name, oneflow, shift)
        if name in ("constant",):
            args = case(name, oneflow, shift)[1]
            expected = args[0] + 1.0
        else:
            expected = f(*args)
        result = made(*args)
        assert plain(result) == numbers(expected)
        if name != "constant":
            assert plain(result) == numbers(theirs(*case(name, torch, shift)[1]))


def test_an_argument_that_is_written_is_written_by_the_graph():
    def add(x):
        x.add_(1)
        return x.sum()

    made = make_fx(add)(oneflow.ones(2))
    x = oneflow.zeros(2)
    assert made(x).item() == 2 and x.tolist() == [1, 1]


def test_parameters_are_those_of_the_module():
    layer = oneflow.nn.Linear(3, 2)
    made = make_fx(layer)(oneflow.ones(1, 3))
    assert [p is q for p, q in zip(made.parameters(), layer.parameters(), strict=True)] == [True, True]
    made(oneflow.ones(1, 3)).sum().backward()
    assert layer.weight.grad.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_functions_stand_for_ops():
    table = {oneflow.ops.aten.sigmoid.default: lambda x: 1 / (1 + (-x).exp())}
    made = make_fx(lambda x: oneflow.sigmoid(x).sum(), decomposition_table=table)(oneflow.ones(3))
    names = [re.sub(r"_\d+$", "", n.name) for n in made.graph.nodes]
    assert "sigmoid" not in names and "exp" in names
    x = oneflow.randn(5)
    assert made(x).item() == pytest.approx(x.sigmoid().sum().item())


def test_nodes_know_the_sizes_of_their_values():
    made = make_fx(lambda x: x.t() @ x)(oneflow.ones(2, 3))
    assert tuple(list(made.graph.nodes)[-2].meta["val"].shape) == (3, 3)


def test_one_call_is_a_module_of_its_leaves():
    made = get_isolated_graphmodule(oneflow.add, (oneflow.ones(2), 1), {"alpha": 2})
    assert made(oneflow.zeros(2), 1, 2).tolist() == [2, 2]


def test_what_is_refused():
    x = oneflow.ones(2)
    with pytest.raises(RuntimeError, match="values"):
        make_fx(lambda x: x * float(x.sum()))(x)
    with pytest.raises(RuntimeError, match="Tracing expected 2 arguments but got 1"):
        make_fx(lambda x, a=2: x * a)(x)
    with pytest.raises(NotImplementedError, match="symbolic"):
        make_fx(lambda x: x, tracing_mode="symbolic")
    with pytest.raises(NotImplementedError, match="pre_dispatch"):
        make_fx(lambda x: x, pre_dispatch=True)
    with pytest.raises(AssertionError, match="tracing_mode"):
        make_fx(lambda x: x, tracing_mode="other")
