"""Gradients at NaN, infinity, zero and ties, where PyTorch's values are conventions rather than limits."""

import math

import oneflow as flow
import pytest
import torch

NAN, INF = math.nan, math.inf
ONE = [NAN, 1.0, -1.0, INF, -INF, 0.0, -0.0, 0.5, -0.5, 3.0, -3.0, 6.0]
UNARY = (
    "abs sign sqrt rsqrt log log1p log2 log10 exp exp2 expm1 square reciprocal sin cos tan tanh sigmoid asin acos atan "
    "cosh sinh atanh asinh sinc nan_to_num frac round ceil trunc erf erfc i0 nansum nanmean norm std var logsumexp0 "
    "relu relu6 hardtanh hardsigmoid hardswish hardshrink softshrink tanhshrink leaky_relu elu celu selu silu mish "
    "gelu softplus logsigmoid softsign threshold cumsum cumprod cummax cummin sort max min amax amin"
).split()
PAIRS = [(NAN, 1.0), (1.0, NAN), (NAN, NAN), (2.0, 1.0), (1.0, 2.0), (3.0, 3.0), (INF, INF), (INF, 1.0), (0.5, -INF)]
BINARY = "maximum minimum fmax fmin clamp_min clamp_max mul div sub hypot copysign xlogy".split()
POWERS = [
    (0.0, 2.0),
    (0.0, 0.0),
    (0.0, -1.0),
    (0.0, 0.5),
    (2.0, 3.0),
    (2.0, 0.0),
    (NAN, 0.0),
    (0.0, NAN),
    (INF, 0.0),
    (1.0, INF),
]


def call(fw, name, *xs):
    if name == "threshold":
        return fw.nn.functional.threshold(xs[0], 0.5, 1.0)
    if name == "logsumexp0":
        return fw.logsumexp(xs[0], 0)
    f = getattr(fw, name, None) or getattr(fw.nn.functional, name)
    out = f(*xs, 0) if name.startswith("cum") else f(*xs)
    return out if isinstance(out, fw.Tensor) else out[0]


def gradients(fw, f, *values):
    xs = [fw.tensor(v, dtype=fw.float64, requires_grad=True) for v in values]
    out = f(fw, *xs)
    weights = (fw.arange(out.numel(), dtype=fw.float64) + 1).reshape(out.shape)
    found = fw.autograd.grad((out * weights).sum() if out.dim() else out * 2, xs, allow_unused=True)
    return [None if g is None else g.reshape(-1).tolist() for g in found]


def check(f, *values):
    ours, theirs = gradients(flow, f, *values), gradients(torch, f, *values)
    for a, b in zip(ours, theirs, strict=True):
        # PyTorch's hardsigmoid multiplies with a sixth in float32.
        assert a == pytest.approx(b, rel=1e-7, abs=1e-9, nan_ok=True)


# At NaN, PyTorch's kernels for AVX2 give NaN and those for AVX-512 the gradient of a positive number, as ours do.
DIFFERS_AT_NAN = {"hardswish", "elu", "celu", "selu"}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    check(lambda fw, x: call(fw, name, x), ONE[1:] if name in DIFFERS_AT_NAN else ONE)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    check(lambda fw, x, y: call(fw, name, x, y), *map(list, zip(*PAIRS, strict=True)))


def test_clamp_between_tensors():
    values = [
        (NAN, 1.0, 2.0),
        (1.0, NAN, 2.0),
        (1.0, 0.0, NAN),
        (3.0, 3.0, 4.0),
        (4.0, 3.0, 4.0),
        (0.0, 1.0, 2.0),
        (5.0, 1.0, 2.0),
    ]
    check(lambda fw, x, lo, hi: fw.clamp(x, lo, hi), *map(list, zip(*values, strict=True)))


@pytest.mark.parametrize("limits", [(-0.5, 0.5), (0.0, None), (None, 0.0), (None, INF), (-INF, None), (1.0, 1.0)])
def test_clamp_between_numbers(limits):
    low, high = limits
    check(lambda fw, x: fw.clamp(x, low, high), ONE)
    if low is not None:
        check(lambda fw, x: fw.clamp_min(x, low), ONE)
    if high is not None:
        check(lambda fw, x: fw.clamp_max(x, high), ONE)


def test_powers():
    bases, exponents = map(list, zip(*POWERS, strict=True))
    check(lambda fw, x, y: x**y, bases, exponents)
    check(lambda fw, x, y: fw.float_power(x, y), bases, exponents)
    check(lambda fw, y: 0**y, exponents)
    for power in (0, 0.5, -1, 1, 2, 3.0):
        check(lambda fw, x, power=power: x**power, [0.0, -0.0, 1.0, 2.0, NAN, INF])


@pytest.mark.parametrize("p", [0.0, 0.3, 0.9, 1.0, 1.5, 2.0, 3.0, INF])
def test_distances(p):
    rows = [[0.0, 1.0, 2.0], [1.0, 1.0, -1.0], [2.0, 3.0, 0.0]]
    others = [[0.0, 1.0, 2.0], [1.0, 0.5, -1.0], [1.0, 2.0, 1.0]]
    check(lambda fw, x, y: fw.cdist(x, y, p=p), rows, others)
    check(lambda fw, x: fw.nn.functional.pdist(x, p), rows)
    if p > 0:
        check(lambda fw, x, y: fw.nn.functional.pairwise_distance(x, y, p=p, eps=0.0), rows, others)
        check(lambda fw, x, y: fw.dist(x, y, p=p), rows, others)
        check(lambda fw, x: fw.linalg.vector_norm(x, p, dim=1), rows)
