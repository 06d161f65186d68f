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
