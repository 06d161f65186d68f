"""Reductions compared with PyTorch: `dtype=`, statistics and logarithms of complex numbers, very long rows."""

import itertools

import numpy as np
import oneflow
import pytest
import torch
from ops.op_samples import check_equal, dtype_name

pytestmark = pytest.mark.filterwarnings("ignore")

DTYPES = ("bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")
WITH_DTYPE = {
    "sum": lambda fw, x, d: x.sum(dtype=d),
    "sum.dim": lambda fw, x, d: x.sum(0, dtype=d),
    "nansum": lambda fw, x, d: fw.nansum(x, 1, dtype=d),
    "prod": lambda fw, x, d: x.prod(dtype=d),
    "prod.dim": lambda fw, x, d: x.prod(1, dtype=d),
    "cumsum": lambda fw, x, d: x.cumsum(1, dtype=d),
    "cumprod": lambda fw, x, d: x.cumprod(1, dtype=d),
    "mean": lambda fw, x, d: x.mean(1, dtype=d),
    "softmax": lambda fw, x, d: x.softmax(1, dtype=d),
    "vector_norm": lambda fw, x, d: fw.linalg.vector_norm(x, dtype=d),
}
# Fractions that a cast to an integer drops, and sizes that a narrower format rounds.
VALUES = [[1.9, -2.9, 3.5], [0.4, 1.0, -1.0]]


def _both(f, values, dtype):
    outcomes = []
    for fw in (oneflow, torch):
        x = fw.tensor(values, dtype=fw.complex128 if np.iscomplexobj(values) else fw.float64).to(getattr(fw, dtype))
        try:
            outcomes.append(f(fw, x))
        except Exception as e:
            outcomes.append(e)
    return outcomes


@pytest.mark.parametrize("name", WITH_DTYPE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_casts_first(name, dtype):
    """Elements are cast before they are reduced: `tensor([1.9, 2.9]).sum(dtype=int64)` is 3."""
    for to in DTYPES:
        values = np.abs(VALUES) if "uint8" in (dtype, to) else np.asarray(VALUES)
        ours, theirs = _both(lambda fw, x, to=to: WITH_DTYPE[name](fw, x, getattr(fw, to)), values.tolist(), dtype)
        if isinstance(theirs, Exception):
            continue  # A dtype that only we take.
        assert not isinstance(ours, Exception), f"{to}: {ours!r}"
        if dtype in ("float16", "bfloat16") or to in ("float16", "bfloat16"):
            assert dtype_name(ours) == dtype_name(theirs)
            a, b = (t.to(fw.complex128).numpy() for t, fw in ((ours, oneflow), (theirs, torch)))
            np.testing.assert_allclose(a, b, rtol=2e-2, atol=2e-2)
        else:
            check_equal(ours, theirs)


COMPLEX = {
    "std": lambda fw, x: fw.std(x),
    "std.dim": lambda fw, x: fw.std(x, 1, correction=0),
    "var": lambda fw, x: fw.var(x),
    "var.dim": lambda fw, x: fw.var(x, 0, keepdim=True),
    "var.all": lambda fw, x: x.var(dim=(0, 1)),
    "var_mean": lambda fw, x: fw.var_mean(x, 1),
    "std_mean": lambda fw, x: fw.std_mean(x),
    "dist": lambda fw, x: fw.dist(x, x.flip(1)),
    "dist.p": lambda fw, x: fw.dist(x, x.flip(1), 3),
    "pairwise_distance": lambda fw, x: fw.nn.functional.pairwise_distance(x, x.flip(1)),
    "vector_norm": lambda fw, x: fw.linalg.vector_norm(x, 2, 1),
    "norm": lambda fw, x: x.norm(),
    "logsumexp": lambda fw, x: fw.logsumexp(x, 1),
    "logsumexp.keep": lambda fw, x: fw.logsumexp(x, (0, 1), keepdim=True),
    "logcumsumexp": lambda fw, x: fw.logcumsumexp(x, 1),
    "logaddexp": lambda fw, x: fw.logaddexp(x, x.flip(0)),
    "cov": lambda fw, x: fw.cov(x),
    "cov.weights": lambda fw, x: fw.cov(x, correction=0, fweights=fw.tensor([1, 2, 1])),
    "corrcoef": lambda fw, x: fw.corrcoef(x),
    "mean": lambda fw, x: x.mean(1),
    "sum": lambda fw, x: x.sum(),
    "prod": lambda fw, x: x.prod(1),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name):
    """Values and gradients."""
    rng = np.random.default_rng(1)
    values = (rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))).tolist()
    results = []
    for fw in (oneflow, torch):
        x = fw.tensor(values, dtype=fw.complex128, requires_grad=True)
        y = COMPLEX[name](fw, x)
        parts = y if isinstance(y, tuple) else (y,)
        (g,) = fw.autograd.grad(sum((t.abs() * t.abs()).sum() + t.abs().sum() for t in parts), x)
        results.append((*parts, g.resolve_conj()))
    check_equal(*results, strides=False)


LONG = {
    "layer_norm": lambda fw, x: fw.nn.functional.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda fw, x: fw.nn.functional.rms_norm(x, x.shape[-1:]),
    "group_norm": lambda fw, x: fw.nn.functional.group_norm(x.reshape(1, 1, -1), 1).reshape(x.shape),
    "batch_norm": lambda fw, x: fw.nn.functional.batch_norm(x.reshape(1, 1, -1), None, None, training=True).reshape(
        x.shape
    ),
    "mean": lambda fw, x: x.mean(1),
    "sum": lambda fw, x: x.sum(1),
    "var": lambda fw, x: x.var(1),
    "softmax": lambda fw, x: x.softmax(1) * x.shape[1],
    "norm": lambda fw, x: fw.linalg.vector_norm(x, dim=1),
    "cumsum": lambda fw, x: x.cumsum(1),
    "logsumexp": lambda fw, x: x.logsumexp(1),
}


@pytest.mark.parametrize("name", LONG)
def test_long_rows_keep_their_digits(name):
    """Single precision over two million elements compared with double precision: sums do not drift."""
    x = np.random.default_rng(2).uniform(0.0, 1.0, size=(1, 1 << 21)).astype("float32")
    exact = LONG[name](torch, torch.tensor(x, dtype=torch.float64)).numpy()
    leaf = oneflow.tensor(x, requires_grad=True)
    ours = LONG[name](oneflow, leaf)
    np.testing.assert_allclose(ours.detach().double().numpy(), exact, rtol=2e-6, atol=1e-6)
    if name in ("layer_norm", "rms_norm", "group_norm", "batch_norm"):
        g = np.linspace(0.0, 1.0, 1 << 21, dtype="float32").reshape(1, -1)
        wide = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        LONG[name](torch, wide).backward(torch.tensor(g, dtype=torch.float64))
        ours.backward(oneflow.tensor(g))
        np.testing.assert_allclose(leaf.grad.double().numpy(), wide.grad.numpy(), rtol=2e-5, atol=4e-6)


def test_variance_of_numbers_at_the_end_of_the_format():
    """Its own deviations are small though the sum overflows; over all elements PyTorch goes through that sum."""
    for shape, dims in (((4,), None), ((4, 4), (0, 1)), ((3, 4), 1)):
        for fill in (1e38, 3e38):
            x = oneflow.full(shape, fill), torch.full(shape, fill)
            check_equal(x[0].var(dims), x[1].var(dims))
            check_equal(x[0].std(dims), x[1].std(dims))


SPREADS = ("var", "std", "var_mean", "std_mean")


@pytest.mark.parametrize("name", SPREADS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_variance_over_dimensions_of_size_one(name, dtype):
    """One element has no variance: NaN with the correction, 0 without, also if nothing is left to reduce."""
    cases = [
        ((), None),
        ((1,), 0),
        ((5, 1), 1),
        ((3, 1, 4), 1),
        ((1, 1), (0, 1)),
        ((1, 3, 1), (0, 2)),
        ((1, 4), (0, 1)),
    ]
    for (shape, dim), correction, keepdim in itertools.product(cases, (0, 1), (False, True)):
        if not shape and "complex" in dtype:
            continue
        made = []
        for fw in (oneflow, torch):
            x = fw.arange(1.0, 1.0 + int(np.prod(shape)), dtype=fw.float64).reshape(shape).to(getattr(fw, dtype))
            found = getattr(fw, name)(x, dim, correction=correction, keepdim=keepdim)
            made.append(found if isinstance(found, tuple) else (found,))
        for ours, theirs in zip(*made, strict=True):
            assert tuple(ours.shape) == tuple(theirs.shape), (shape, dim)
            a, b = (t.to(fw.complex128).numpy() for t, fw in ((ours, oneflow), (theirs, torch)))
            np.testing.assert_allclose(a, b, rtol=1e-2 if "16" in dtype else 1e-5, err_msg=f"{shape} {dim}")
