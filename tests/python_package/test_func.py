"""Function transforms compared with ``torch.func``."""

import oneflow
import pytest
import torch

BOTH = (oneflow, torch)
pytestmark = pytest.mark.filterwarnings("ignore")


def close(ours, theirs):
    if isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(torch.tensor(ours.tolist()), theirs.detach(), rtol=1e-5, atol=1e-6)
        assert ours.requires_grad == theirs.requires_grad
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key in theirs:
            close(ours[key], theirs[key])
    elif isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            close(a, b)
    else:
        assert ours == theirs


def x(fw):
    return fw.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def w(fw):
    return fw.tensor([0.3, 0.6, -0.9], requires_grad=True)


CASES = {
    "grad": lambda fw: fw.func.grad(lambda a: a.sin().sum())(x(fw)),
    "grad sees closures": lambda fw: (lambda v: fw.func.grad(lambda a: (a * v).square().sum())(x(fw)))(w(fw)),
    "grad of an input with history": lambda fw: fw.func.grad(lambda a: a.square().sum())(w(fw)),
    "grad of grad": lambda fw: fw.func.grad(lambda a: fw.func.grad(lambda b: (b**3).sum())(a).sum())(x(fw)),
    "grad argnums": lambda fw: fw.func.grad(lambda a, b: (a * b).sum(), argnums=(1, 0))(x(fw), x(fw)),
    "grad of a nest": lambda fw: fw.func.grad(lambda p: (p["a"] * p["b"][0]).sum())({"a": x(fw), "b": [x(fw)]}),
    "grad with aux": lambda fw: fw.func.grad(lambda a: (a.sum(), {"y": a * 2}), has_aux=True)(x(fw)),
    "grad of unused": lambda fw: fw.func.grad(lambda a, b: b.sum())(x(fw), x(fw)),
    "grad_and_value": lambda fw: fw.func.grad_and_value(lambda a: a.exp().sum())(x(fw)),
    "vjp": lambda fw: fw.func.vjp(lambda a: a.cos(), x(fw))[1](x(fw)),
    "vjp of two": lambda fw: fw.func.vjp(lambda a, b: a * b, x(fw), x(fw))[1](x(fw)),
    "vjp output": lambda fw: fw.func.vjp(lambda a: (a.cos(), a.sum()), x(fw))[0],
    "jvp": lambda fw: fw.func.jvp(lambda a: a.exp() * a, (x(fw),), (x(fw),)),
    "jvp of two": lambda fw: fw.func.jvp(lambda a, b: a.matmul(b), (x(fw), x(fw).t()), (x(fw), x(fw).t())),
    "jvp with aux": lambda fw: fw.func.jvp(lambda a: (a * 2, a.sum()), (x(fw),), (x(fw),), has_aux=True),
    "jacrev": lambda fw: fw.func.jacrev(lambda a: a.sum(0).sin())(x(fw)),
    "jacrev of nests": lambda fw: fw.func.jacrev(lambda a, b: {"y": a * b}, (0, 1))(x(fw)[0], x(fw)[1]),
    "jacfwd": lambda fw: fw.func.jacfwd(lambda a: a.sum(0).sin())(x(fw)),
    "hessian": lambda fw: fw.func.hessian(lambda a: (a**3).sum() + a.prod())(x(fw)[0]),
    "linearize": lambda fw: fw.func.linearize(lambda a: a.sin(), x(fw))[1](x(fw)),
    "vmap": lambda fw: fw.func.vmap(lambda a, b: a.dot(b))(x(fw), x(fw)),
    "vmap dims": lambda fw: fw.func.vmap(lambda a, b: a * b, in_dims=(1, None), out_dims=1)(x(fw), x(fw)[:, 0]),
    "vmap of a nest": lambda fw: fw.func.vmap(
        lambda p: {"s": p["a"].sum(), "d": p["b"] * 2}, in_dims=({"a": 0, "b": 1},)
    )({"a": x(fw), "b": x(fw).t()}),
    "vmap of grad": lambda fw: fw.func.vmap(fw.func.grad(lambda a: a.square().sum()))(x(fw)),
    "vmap of vmap": lambda fw: fw.func.vmap(fw.func.vmap(lambda a: a * a))(x(fw)),
    "jacrev under vmap": lambda fw: fw.func.vmap(fw.func.jacrev(lambda a: a.exp()))(x(fw)),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_torch(case):
    close(*(CASES[case](fw) for fw in BOTH))


ERRORS = {
    "not a scalar": lambda fw: fw.func.grad(lambda a: a * 2)(x(fw)),
    "not a tensor": lambda fw: fw.func.grad(lambda a: 1.0)(x(fw)),
    "no such argument": lambda fw: fw.func.grad(lambda a: a.sum(), argnums=3)(x(fw)),
    "arguments twice": lambda fw: fw.func.grad(lambda a: a.sum(), argnums=(0, 0))(x(fw)),
    "no aux": lambda fw: fw.func.grad(lambda a: a.sum(), has_aux=True)(x(fw)),
    "another nest": lambda fw: fw.func.vjp(lambda a: a, x(fw))[1]((x(fw), x(fw))),
    "tangents of another shape": lambda fw: fw.func.jvp(lambda a: a, (x(fw),), (x(fw)[0],)),
    "sizes differ": lambda fw: fw.func.vmap(lambda a, b: a)(x(fw), x(fw)[:1]),
    "nothing to map": lambda fw: fw.func.vmap(lambda a: a, in_dims=None)(x(fw)),
    "no such dimension": lambda fw: fw.func.vmap(lambda a: a, in_dims=5)(x(fw)),
    "no chunk": lambda fw: fw.func.vmap(lambda a: a, chunk_size=0)(x(fw)),
    "randomness": lambda fw: fw.func.vmap(lambda a: a, randomness="no")(x(fw)),
    "no models": lambda fw: fw.func.stack_module_state([]),
    "strict": lambda fw: fw.func.functional_call(fw.nn.Linear(3, 2), {"bias": x(fw)[:, 0]}, x(fw), strict=True),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_torchs(case):
    kinds = []
    for fw in BOTH:
        with pytest.raises(Exception) as e:
            ERRORS[case](fw)
        kinds.append(e.type)
    assert kinds[0] is kinds[1], kinds


def test_functional_call_and_stacked_modules():
    results = []
    for fw in BOTH:
        layers = [fw.nn.Linear(3, 2) for _ in range(4)]
        with fw.no_grad():
            for i, layer in enumerate(layers):
                layer.weight.fill_(0.1 * (i + 1))
                layer.bias.fill_(float(i))
        params, buffers = fw.func.stack_module_state(layers)
        assert all(p.is_leaf and p.requires_grad for p in params.values())

        def one(p, b, data, fw=fw, base=layers[0]):
            return fw.func.functional_call(base, (p, b), (data,))

        y = fw.func.vmap(one, in_dims=(0, 0, None))(params, buffers, x(fw))
        y.sum().backward()
        results.append((y, params["weight"].grad))
        assert layers[0].weight.grad is None and layers[0].weight[0, 0].item() == pytest.approx(0.1)
    close(*results)


def test_tied_weights_are_replaced_together():
    class Tied(oneflow.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = oneflow.nn.Linear(2, 2, bias=False)
            self.b = oneflow.nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight

        def forward(self, v):
            return self.b(self.a(v))

    model = Tied()
    call = oneflow.nn.utils.stateless.functional_call
    y = call(model, {"a.weight": 2 * oneflow.eye(2)}, oneflow.ones(1, 2))
    assert y.tolist() == [[4.0, 4.0]]
    y = call(model, {"a.weight": 2 * oneflow.eye(2), "b.weight": oneflow.eye(2)}, oneflow.ones(1, 2), tie_weights=False)
    assert y.tolist() == [[2.0, 2.0]]
    with pytest.raises(ValueError, match="tied"):
        call(model, {"a.weight": oneflow.eye(2), "b.weight": oneflow.ones(2, 2)}, oneflow.ones(1, 2))
    assert model.a.weight is model.b.weight


def columns(fw):
    point = fw.tensor([0.3, 1.2, -0.7], dtype=fw.float64)
    table = fw.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]], dtype=fw.float64)
    forward, backward = fw.func.jacfwd, fw.func.jacrev

    def cubes(a):
        return (a**3).sum() * a[0]

    leaf = point.clone().requires_grad_()
    return [
        forward(lambda s: (s * table).sin())(fw.tensor(0.4, dtype=fw.float64)),
        *forward(lambda a, b: (b @ a).tanh(), argnums=(0, 1))(point, table),
        *forward(lambda a: (a.sin(), (a * a).sum()))(point),
        *(f(g(cubes))(point) for f, g in ((forward, backward), (backward, forward), (forward, forward))),
        *forward(lambda a: (a * 2, a.sum()), has_aux=True)(point),
        forward(lambda a: fw.ones(2, dtype=fw.float64))(point),
        forward(lambda nest: nest["p"] * table)({"p": point})["p"],
        fw.autograd.grad(forward(lambda s: (s * leaf).sin())(fw.tensor(0.4, dtype=fw.float64)).sum(), leaf)[0],
    ]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_jacobians_by_columns():
    for a, b in zip(columns(oneflow), columns(torch), strict=True):
        torch.testing.assert_close(torch.tensor(a.tolist(), dtype=b.dtype), b.detach(), rtol=1e-9, atol=1e-12)


def test_a_jacobian_by_columns_takes_one_pass_an_input():
    passes = []

    def seen(x):
        passes.append(1)
        return x

    class Counted(oneflow.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return seen(grad)

    oneflow.func.jacfwd(lambda s: Counted.apply(s) * oneflow.arange(50))(oneflow.tensor(0.1))
    assert len(passes) == 1


def test_derivatives_of_numbers_without_dimensions():
    for fw in (oneflow, torch):
        x = fw.tensor(2.0)
        cube = lambda x: x**3  # noqa: E731
        for transform in (fw.func.jacrev, fw.func.jacfwd, fw.func.hessian):
            y = transform(cube)(x)
            assert tuple(y.shape) == () and y.item() == 12.0


def test_results_under_no_grad_have_no_history():
    x = oneflow.tensor(2.0, requires_grad=True)
    cube = lambda x: x**3  # noqa: E731
    with oneflow.no_grad():
        results = [
            oneflow.func.grad(cube)(x),
            oneflow.func.vjp(cube, x)[1](oneflow.tensor(1.0))[0],
            oneflow.func.jvp(cube, (x,), (oneflow.tensor(1.0),))[1],
            oneflow.func.jacrev(cube)(x),
            oneflow.func.jacfwd(cube)(x),
        ]
    assert [y.item() for y in results] == [12.0] * 5 and not any(y.requires_grad for y in results)
    assert oneflow.func.grad(cube)(x).requires_grad

    def shifted(x):
        with oneflow.no_grad():
            shift = oneflow.func.grad(lambda x: 0.25 * x**4)(x)
        return x**3 - shift

    assert oneflow.func.grad(shifted)(oneflow.tensor(2.0)).item() == 12.0


NO_DERIVATIVE = {
    "nothing": (lambda f, x: f.vjp(lambda x: (), x), "non-empty output"),
    "None": (lambda f, x: f.jacrev(lambda x: None)(x), "non-empty output"),
    "a number": (lambda f, x: f.jacfwd(lambda x: 3.0)(x), "to return only tensors"),
    "other cotangents": (lambda f, x: f.vjp(lambda x: (x, x), x)[1](x), "pytree structure of cotangents"),
    "primals alone": (lambda f, x: f.jvp(lambda x: x, x, x), "Expected primals to be a tuple"),
    "no tensor": (lambda f, x: f.jvp(lambda x: x, (1.0,), (x,)), "primals to only contain Tensors"),
    "fewer tangents": (lambda f, x: f.jvp(lambda x: x, (x,), ()), "same python structure"),
    "chunks": (lambda f, x: f.jacrev(lambda x: x, chunk_size=0), "chunk_size` should be greater than 0"),
    "randomness": (lambda f, x: f.jacfwd(lambda x: x, randomness="any")(x), "allowed values for randomness"),
}


@pytest.mark.parametrize("case", NO_DERIVATIVE)
def test_refusals_say_what_is_wrong(case):
    call, text = NO_DERIVATIVE[case]
    for fw in (oneflow, torch):
        with pytest.raises((RuntimeError, ValueError), match=text):
            call(fw.func, fw.tensor([1.0, 2.0]))
