"""Complex numbers: values and gradients of functions defined on them, views of their parts, errors elsewhere."""

import numpy as np
import oneflow
import pytest
import torch

VALUES = [1 + 2j, 0.3 - 1j, -2 - 0.5j]
UNARY = (
    "abs acos acosh angle asin asinh atan atanh cos cosh exp exp2 expm1 log log10 log1p log2 neg reciprocal rsqrt sgn "
    "sigmoid sin sinh sqrt square tan tanh"
).split()
EXPRESSIONS = {
    "mul": lambda fw, x: x * (x + 1j),
    "div": lambda fw, x: x / (x + 2),
    "pow_number": lambda fw, x: x**2.5,
    "pow": lambda fw, x: x**x,
    "pow_base": lambda fw, x: 2**x,
    "view_as_real": lambda fw, x: fw.view_as_real(x) * 3,
    "sum": lambda fw, x: x.sum(),
    "mean": lambda fw, x: x.mean(),
    "prod": lambda fw, x: x.prod(),
    "real": lambda fw, x: x.real * 2,
    "imag": lambda fw, x: x.imag * 2,
    "cumsum": lambda fw, x: x.cumsum(0),
    "cumprod": lambda fw, x: x.cumprod(0),
    "where": lambda fw, x: fw.where(x.real > 0, x, 2 * x),
    "complex": lambda fw, x: fw.complex(x.real, x.imag * 2),
    "polar": lambda fw, x: fw.polar(x.real, x.imag),
    "index": lambda fw, x: x[1:] * 2,
    **{name: lambda fw, x, name=name: getattr(fw, name)(x) for name in UNARY},
}


def _run(fw, f, dtype):
    x = fw.tensor(VALUES, dtype=getattr(fw, dtype), requires_grad=True)
    y = f(fw, x)
    (y.abs() if y.is_complex() else y).sum().backward()
    return y.detach().numpy(), x.grad.numpy()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_values_and_gradients(name, dtype):
    tolerance = 2e-5 if dtype == "complex64" else 1e-10
    ours, theirs = (_run(fw, EXPRESSIONS[name], dtype) for fw in (oneflow, torch))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_parts_are_views():
    x = oneflow.tensor([1 + 2j, 3 - 1j])
    x.real.fill_(7)
    x.imag = oneflow.tensor([1.0, 2.0])
    assert x.tolist() == [7 + 1j, 7 + 2j]
    assert oneflow.view_as_complex(oneflow.view_as_real(x)).tolist() == x.tolist()


def test_write_through_a_part_under_autograd():
    grads = []
    for fw in (oneflow, torch):
        x = fw.tensor(VALUES, dtype=fw.complex128, requires_grad=True)
        y = x * 2
        y.real.mul_(3)
        (y * y).abs().sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(*grads)


@pytest.mark.parametrize(
    "f",
    [lambda x: x < x, lambda x: x.floor(), lambda x: x.max(), lambda x: x.sort(), lambda x: x.relu(), lambda x: x // 2],
)
def test_what_has_no_meaning_is_refused(f):
    with pytest.raises(RuntimeError):
        f(oneflow.tensor(VALUES))


@pytest.mark.parametrize("values", [[1 + 2.5j], [[1 + 2j, -1.5j], [3.25, 1e-3j]], [1 + 0j]])
def test_prints_as_pytorch(values):
    assert str(oneflow.tensor(values)) == str(torch.tensor(values)).replace("torch.", "oneflow.")
