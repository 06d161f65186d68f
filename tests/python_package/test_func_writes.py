"""Derivatives by directions of functions that write their inputs: as those of copies, and the writes stay."""

import functools

import oneflow
import pytest
import torch
from torch_oracle import close

pytestmark = pytest.mark.filterwarnings("ignore")

# Programs that write their inputs, of which derivatives by directions are taken.
WRITES = {
    "out of itself": lambda fw, x, y: x.exp_(),
    "of both": lambda fw, x, y: x.add_(y, alpha=2),
    "a chain": lambda fw, x, y: x.sin_().mul_(2).add_(y),
    "read afterwards": lambda fw, x, y: (x.sin_(), (x * x).sum() + y)[1],
    "a row": lambda fw, x, y: (x.__setitem__(0, y[1]), x)[1],
    "a number": lambda fw, x, y: (x[:, 1].fill_(3.0), x * y)[1],
    "a view": lambda fw, x, y: (x.t()[1].mul_(y[:, 0]), x)[1],
    "both": lambda fw, x, y: (x.add_(y), y.cos_(), x * y)[2],
    "masked": lambda fw, x, y: x.masked_fill_(y > 0.5, 0.0) + y,
    "indexed": lambda fw, x, y: x.index_add_(0, fw.tensor([0, 0]), y),
    "a shape": lambda fw, x, y: x.t_().cumsum_(1),
    "nothing": lambda fw, x, y: x.view(-1)[::2],
}


def _pair(fw):
    x = fw.arange(6, dtype=fw.float64).reshape(2, 3)
    return x / 7 + 0.3, x / 5 + 0.2


def _inner(func, f, y, a):
    return func.jvp(lambda b: f(b, y * 1), (a,), (y * 2,))


@pytest.mark.parametrize("name", WRITES)
def test_directions_through_written_inputs(name):
    def derivatives(fw):
        func, program = fw.func, functools.partial(WRITES[name], fw)

        def of_copies(x, y):
            return program(x * 1, y * 1)

        found = []
        for f in (program, of_copies):
            x, y = _pair(fw)
            found += [*func.jvp(f, (x, y), (x.cos(), y.sin())), x, y]
            x, y = _pair(fw)
            found += [*func.jacfwd(f, argnums=(0, 1))(x, y), x, y]
            if name == "a shape":
                continue
            # Derivatives of derivatives; the outer one sees what the inner one has written.
            x, y = _pair(fw)
            inner = functools.partial(_inner, func, f, y)
            found += [*func.jvp(lambda a, inner=inner: inner(a)[1], (x,), (x.sin(),)), x]
            x, _ = _pair(fw)
            found += [*func.jvp(lambda a, inner=inner: (inner(a), a * a)[1], (x,), (x.sin(),)), x]
        return found

    for ours, theirs in zip(derivatives(oneflow), derivatives(torch), strict=True):
        close(ours, theirs, 1e-12)


def test_a_product_with_itself_in_place():
    """PyTorch's tangent is another one: it multiplies with what has been written already."""
    x, _ = _pair(oneflow)
    start = x.clone()
    y, tangent = oneflow.func.jvp(lambda a: a.mul_(a), (x,), (oneflow.ones_like(x),))
    assert oneflow.equal(y, start * start) and oneflow.equal(x, y)
    assert oneflow.allclose(tangent, 2 * start)


def test_directions_by_rows_that_are_written():
    def of(fw):
        x, y = _pair(fw)
        return [*fw.func.vmap(lambda r, t: fw.func.jvp(lambda a: a.exp_() * 2, (r,), (t,)))(x, y), x]

    for ours, theirs in zip(of(oneflow), of(torch), strict=True):
        close(ours, theirs, 1e-12)


@pytest.mark.parametrize("name", ["out of itself", "a row", "a view"])
def test_writes_to_inputs_that_are_refused(name):
    for fw in (torch, oneflow):
        x, y = _pair(fw)
        program = functools.partial(WRITES[name], fw)
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            fw.func.grad(lambda a, f=program, y=y: f(a, y).sum())(x)
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            fw.func.jvp(lambda a, f=program, y=y: f(a, y), (x.requires_grad_(),), (y,))


def test_an_input_of_an_outer_derivative_keeps_its_shape():
    x, _ = _pair(oneflow)

    def inner(a):
        return oneflow.func.jvp(lambda b: b.t_().mul_(2.0), (a,), (x * 2,))[0]

    with pytest.raises(RuntimeError, match="gave it another shape"):
        oneflow.func.jvp(inner, (x,), (x * 3,))


def copied(x, y):
    y.copy_(x)
    return y


def scaled(x, y):
    y.mul_(x)
    return y * 2


OTHERS = {
    "grad": lambda fw, f: fw.func.grad(lambda x, y: f(x, y).sum()),
    "grad of a keyword": lambda fw, f: lambda x, y: fw.func.grad(lambda x, *, y: f(x, y).sum())(x, y=y),
    "grad of a nest": lambda fw, f: lambda x, y: fw.func.grad(lambda x, ys: f(x, ys["y"]).sum())(x, {"y": y}),
    "second": lambda fw, f: fw.func.grad(lambda x, y: fw.func.grad(lambda x, y: (f(x, y) * x).sum())(x, y).sum()),
    "jacrev": lambda fw, f: fw.func.jacrev(f),
    "jacfwd": lambda fw, f: fw.func.jacfwd(f),
    "hessian": lambda fw, f: fw.func.hessian(lambda x, y: f(x, y).sum()),
    "rows": lambda fw, f: lambda x, y: fw.vmap(fw.func.grad(lambda x, y: f(x, y).sum()))(x[:, None], y[:, None]),
}


@pytest.mark.parametrize("transform", OTHERS)
@pytest.mark.parametrize("f", [copied, scaled], ids=lambda f: f.__name__)
def test_arguments_that_a_derivative_is_not_by_may_be_written(f, transform):
    found = []
    for fw in (oneflow, torch):
        x, y = fw.tensor([1.0, 2.0]), fw.tensor([3.0, 4.0])
        result = OTHERS[transform](fw, f)(x, y)
        # What is left in the argument has no history of the derivative.
        assert not y.requires_grad
        found.append((result.tolist(), x.tolist(), y.tolist()))
    assert found[0] == found[1]


def test_running_statistics_are_written_under_derivatives():
    found = []
    for fw in (oneflow, torch):
        layer = fw.nn.BatchNorm1d(2)
        params = {name: p.detach() for name, p in layer.named_parameters()}
        buffers = {name: b.clone() for name, b in layer.named_buffers()}
        x = fw.arange(8.0).reshape(4, 2)

        def loss(params, buffers, x, fw=fw, layer=layer):
            return fw.func.functional_call(layer, (params, buffers), (x,)).square().sum()

        grads = fw.func.grad(loss)(params, buffers, x)
        found.append([t.tolist() for t in (*grads.values(), *buffers.values())])
    for ours, theirs in zip(*found, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-5)
