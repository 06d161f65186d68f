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


FACTORS = {
    "addmm": ((2, 3), (2, 2), (2, 3)),
    "baddbmm": ((2, 2, 3), (2, 2, 2), (2, 2, 3)),
    "addbmm": ((2, 3), (2, 2, 2), (2, 2, 3)),
    "addmv": ((2,), (2, 3), (3,)),
    "addr": ((2, 3), (2,), (3,)),
}


@pytest.mark.parametrize("factors", [(1 + 2j, 2 + 3j), (1j, 1 - 1j), (0.5, 1j), (0, 1)], ids=str)
@pytest.mark.parametrize("name", FACTORS)
def test_complex_factors(name, factors):
    """A factor whose real part is one or zero is neither of them."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s) + 1j * rng.normal(size=s) for s in FACTORS[name]]
    results = []
    for fw in (oneflow, torch):
        xs = [fw.tensor(a, dtype=fw.complex128, requires_grad=True) for a in arrays]
        y = getattr(fw, name)(*xs, beta=factors[0], alpha=factors[1])
        y.backward(fw.ones_like(y) * (0.3 - 0.7j))
        # A term without weight has no gradient, or one of zeros.
        results.append([y.detach().numpy(), *(np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in xs)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_complex_factors_of_indexed_sums():
    for alpha in (1 + 1j, 1j, 2):
        source = oneflow.tensor([1 + 2j, 3j], dtype=oneflow.complex128, requires_grad=True)
        y = oneflow.zeros(3, dtype=oneflow.complex128).index_add(0, oneflow.tensor([2, 2]), source, alpha=alpha)
        y.backward(oneflow.tensor([1, 2, 3 - 1j], dtype=oneflow.complex128))
        assert y.tolist() == [0, 0, (1 + 5j) * alpha]
        # PyTorch's gradient lacks the conjugate.
        assert source.grad.tolist() == [(3 - 1j) * complex(alpha).conjugate()] * 2


def test_an_imaginary_number_is_true():
    assert oneflow.tensor([1j, 0j]).bool().tolist() == [True, False]
    assert oneflow.tensor([1j, 0j], dtype=oneflow.bool).tolist() == [True, False]
    assert oneflow.full((1,), 1j, dtype=oneflow.bool).tolist() == torch.full((1,), 1j, dtype=torch.bool).tolist()
    x = oneflow.zeros(2, dtype=oneflow.bool)
    x[0] = 1j
    assert x.tolist() == [True, False]


def test_the_diagonal_of_a_hermitian_matrix_is_real():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(2, 4, 4)) + 1j * rng.normal(size=(2, 4, 4))
    for uplo in "LU":
        ours, theirs = (fw.linalg.eigvalsh(fw.tensor(a), uplo).numpy() for fw in (oneflow, torch))
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)
        values, vectors = (t.numpy() for t in oneflow.linalg.eigh(oneflow.tensor(a), uplo))
        half = np.tril(a, -1) if uplo == "L" else np.triu(a, 1)
        whole = half + half.conj().swapaxes(-1, -2) + np.real(a) * np.eye(4)
        np.testing.assert_allclose(whole @ vectors, vectors * values[:, None, :], atol=1e-12)
