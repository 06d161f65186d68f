"""Running extremes, membership, sequences, draws and bytes against PyTorch, by dtype and layout."""

import itertools

import numpy as np
import oneflow
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")

INF, NAN = float("inf"), float("nan")
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "strided": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "flipped": lambda x: x.flip(-1),
    "expanded": lambda x: x[:1].expand(x.shape),
    "slice": lambda x: x[1:, ..., 1:],
}


def both(values, dtype, layout=None):
    """The same numbers in both libraries, from NumPy's double or integer array."""
    make = LAYOUTS[layout] if layout else lambda x: x
    return [make(fw.tensor(np.asarray(values).tolist()).to(getattr(fw, dtype))) for fw in (oneflow, torch)]


def same(ours, theirs, **tolerance):
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
    assert tuple(ours.shape) == tuple(theirs.shape)
    a, b = (t.detach().double().numpy() if t.is_floating_point() else t.numpy() for t in (ours, theirs))
    if tolerance:
        np.testing.assert_allclose(a, b, **tolerance)
    else:
        np.testing.assert_array_equal(a, b)


def numbers(dtype, shape, seed=0):
    """Few different numbers, so that there are ties; floats with NaN, infinities and zeros of both signs."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 9, shape)
    if dtype not in FLOATS:
        return x % 2 == 0 if dtype == "bool" else x
    x = x - 4.0
    for value in (NAN, INF, -INF, -0.0):
        x[rng.random(shape) < 0.06] = value
    return x


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS, "bool"))
def test_running_extremes(dtype, layout):
    ours, theirs = both(numbers(dtype, (5, 7, 70)), dtype, layout)
    for name, dim in itertools.product(("cummax", "cummin"), (0, 1, 2)):
        for a, b in zip(getattr(ours, name)(dim), getattr(theirs, name)(dim), strict=True):
            same(a, b)
    for a, b in zip(ours[0, 0, 0].cummax(0), theirs[0, 0, 0].cummax(0), strict=True):
        same(a, b)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS))
def test_membership(dtype, layout):
    """Few others, many close to each other, many far from each other; NaN is no member, both zeros are one number."""
    rng = np.random.default_rng(1)
    ours, theirs = both(numbers(dtype, (3, 5, 70)), dtype, layout)
    far = rng.integers(0, 120 if dtype in ("uint8", "int8", "float16") else 2**14, 90) * 1.0
    for others in ([], [3], [NAN, -0.0] if dtype in FLOATS else [0, 3], list(range(40)), [*far, 2.0]):
        a, b = both(np.asarray(others, dtype=np.float64), dtype)
        for invert in (False, True):
            same(oneflow.isin(ours, a, invert=invert), torch.isin(theirs, b, invert=invert))
    wide = rng.integers(-(2**62), 2**62, 500)
    a, b = both(wide, "int64")
    x, y = both(np.concatenate([wide[::3], wide[::5] + 1]), "int64")
    same(oneflow.isin(x, a), torch.isin(y, b))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", (*FLOATS, "int32", "bool"))
def test_sums_without_nan(dtype, layout):
    values = numbers(dtype, (6, 7, 40))
    ours, theirs = both(np.where(np.isinf(values), 2.0, values) if dtype in FLOATS else values, dtype, layout)
    for dims in (None, 0, 2, (0, 2), (0, 1)):
        same(oneflow.nansum(ours, dims), torch.nansum(theirs, dims), rtol=1e-2 if dtype == "bfloat16" else 1e-3)
    if dtype in ("float32", "float64"):
        a, b = ours.detach().requires_grad_(), theirs.detach().requires_grad_()
        (oneflow.nansum(a, 1, keepdim=True) * 3).sum().backward()
        (torch.nansum(b, 1, keepdim=True) * 3).sum().backward()
        same(a.grad, b.grad)
    long = np.where(np.arange(300_000) % 7 == 0, NAN, 0.1)
    a, b = both(long, "float32")
    same(oneflow.nansum(a), torch.nansum(b), rtol=1e-6)
    assert oneflow.nansum(oneflow.tensor([INF, 1.0, NAN])) == INF
    assert oneflow.nansum(oneflow.tensor([INF, -INF])).isnan()


@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS, "complex64"))
def test_linspace(dtype):
    for start, end, n in ((0, 1, 5), (-3, 9, 0), (2, 7, 1), (9, -9, 2), (0, 100, 1001), (0.5, 100.3, 700)):
        if dtype == "uint8" and end < 0:
            continue
        ours, theirs = (fw.linspace(start, end, n, dtype=getattr(fw, dtype)) for fw in (oneflow, torch))
        # A number just below an integer may be cut to the one below.
        step = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 2e-6, "float64": 1e-13, "complex64": 2e-6}.get(dtype, 0)
        a, b = (np.asarray(t.resolve_conj().to(fw.complex128).numpy()) for t, fw in ((ours, oneflow), (theirs, torch)))
        np.testing.assert_allclose(a, b, rtol=step, atol=step or 1)
        if n > 1 and dtype in ("float32", "float64"):
            assert ours[0].item() == theirs[0].item()
            assert ours[-1].item() == theirs[-1].item()


@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS, "bool", "complex64"))
def test_unit_matrices(dtype):
    for n, m in ((3, None), (0, 4), (4, 0), (2, 5), (5, 2), (70, 70)):
        shape = (n,) if m is None else (n, m)
        ours, theirs = (fw.eye(*shape, dtype=getattr(fw, dtype)) for fw in (oneflow, torch))
        np.testing.assert_array_equal(ours.to(oneflow.complex128).numpy(), theirs.to(torch.complex128).numpy())
        assert ours.stride() == theirs.stride()


def test_permutations_are_fair_and_follow_the_seed():
    for n in (0, 1, 2, 33, 5000):
        assert oneflow.randperm(n).sort().values.tolist() == list(range(n))
    oneflow.manual_seed(3)
    a = oneflow.randperm(50)
    b = oneflow.randperm(50)
    oneflow.manual_seed(3)
    assert a.tolist() == oneflow.randperm(50).tolist() != b.tolist()
    assert oneflow.randperm(50, dtype=oneflow.int32).dtype == oneflow.int32
    counts = np.zeros((4, 4))
    for _ in range(2000):
        counts[np.arange(4), oneflow.randperm(4).numpy()] += 1
    # Six standard deviations of a binomial count.
    assert np.abs(counts - 500).max() < 6 * np.sqrt(2000 * 0.25 * 0.75)


@pytest.mark.parametrize("dtype", FLOATS)
def test_draws_with_replacement_follow_the_weights(dtype):
    weights = oneflow.tensor([[0.0, 1, 2, 0, 5, 0], [4, 0, 0, 0, 4, 0]], dtype=getattr(oneflow, dtype))
    drawn = oneflow.multinomial(weights, 8000, replacement=True)
    assert drawn.shape == (2, 8000)
    assert drawn.dtype == oneflow.int64
    for row, p in zip(drawn.numpy(), weights.double().numpy() / 8, strict=True):
        found = np.bincount(row, minlength=6) / 8000
        assert (found[p == 0] == 0).all()
        np.testing.assert_allclose(found, p, atol=6 * np.sqrt(0.25 / 8000))
    assert oneflow.multinomial(oneflow.tensor([0.0, 0.0, 1e-30, 0.0]), 50, replacement=True).eq(2).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_signs_of_half_types(dtype):
    """All patterns of bits, also where the result is the input and where rows are strided."""
    bits = np.arange(-(2**15), 2**15).astype(np.int16)
    for f in (lambda x: -x, lambda x: x.abs(), lambda x: -x[::3], lambda x: x.view(256, 256).t().abs().contiguous()):
        ours = f(oneflow.tensor(bits).view(getattr(oneflow, dtype)))
        theirs = f(torch.tensor(bits).view(getattr(torch, dtype)))
        a, b = ours.view(oneflow.int16).numpy(), theirs.view(torch.int16).numpy()
        # Rows that are gathered go through float32, which marks a signalling NaN.
        np.testing.assert_array_equal(np.where(theirs.isnan().numpy(), 0, a), np.where(theirs.isnan().numpy(), 0, b))
        np.testing.assert_array_equal(ours.isnan().numpy(), theirs.isnan().numpy())
    x = oneflow.tensor(bits).view(getattr(oneflow, dtype))
    x.neg_()
    np.testing.assert_array_equal(x.view(oneflow.int16).numpy(), bits ^ np.int16(-(2**15)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["div", "reciprocal", "sqrt", "rsqrt"])
def test_quotients_and_roots_of_half_types(name, dtype):
    rng = np.random.default_rng(3)
    bits = rng.integers(-(2**15), 2**15, (2, 5000)).astype(np.int16)
    results = []
    for fw in (oneflow, torch):
        a, b = fw.tensor(bits).view(getattr(fw, dtype))
        out = [a / b, a / 3.0, a[::2] / b[:2500], a.div(b[0])] if name == "div" else [getattr(fw, name)(a)]
        results.append([t.double().numpy() for t in out])
    # PyTorch multiplies by the reciprocal of a number.
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=8e-3 if dtype == "bfloat16" else 1e-3, atol=1e-7)


@pytest.mark.parametrize("n", [0, 1, 63, 4097, 40_000])
def test_logic_of_bytes(n):
    """Truths are one where a byte was anything else than zero; pieces, rows and in-place results agree."""
    rng = np.random.default_rng(4)
    names = (
        "logical_and",
        "logical_or",
        "logical_xor",
        "eq",
        "ne",
        "lt",
        "ge",
        "bitwise_and",
        "bitwise_or",
        "add",
        "mul",
    )
    for dtype in (np.uint8, bool, np.int8):
        x, y = (rng.integers(0, 3, (3, n)).astype(dtype) for _ in range(2))
        for name in names:
            ours, theirs = ([fw.tensor(v) for v in (x, y)] for fw in (oneflow, torch))
            for a, b in (ours, theirs), ([t[:, : n // 2] for t in ours], [t[:, : n // 2] for t in theirs]):
                same(getattr(oneflow, name)(*a), getattr(torch, name)(*b))
            if name != "add":
                getattr(ours[0], f"{name}_")(ours[1][:1])
                getattr(theirs[0], f"{name}_")(theirs[1][:1])
                same(ours[0], theirs[0])
        same(oneflow.tensor(x).logical_not(), torch.tensor(x).logical_not())
        same(~oneflow.tensor(x), ~torch.tensor(x))


@pytest.mark.parametrize("p", (0.0, 0.5, 1.0, 2.0, 3.0, INF))
@pytest.mark.parametrize("layout", ("contiguous", "transposed", "strided", "flipped"))
def test_distances_of_all_pairs(p, layout):
    rng = np.random.default_rng(3)
    for rows, others in (((5, 7), (6, 7)), ((2, 1, 9, 33), (3, 4, 33)), ((1, 1), (3, 1))):
        a, b = rng.standard_normal(rows), rng.standard_normal(others)
        a[..., 0, :] = b.reshape(-1, b.shape[-1])[0]
        # PyTorch's greatest difference loses NaN where a smaller element comes after it.
        for values in (a, np.where(rng.random(rows) < 0.05, NAN, a))[: 1 if p == INF else 2]:
            x, y = both(values, "float64", layout), both(b, "float64", layout)
            ours, theirs = (fw.cdist(u, v, p) for fw, u, v in zip((oneflow, torch), x, y, strict=True))
            same(ours, theirs, rtol=1e-12, atol=1e-14)
    x, y = both(a, "float32"), both(b, "float32")
    same(oneflow.cdist(x[0], y[0], p), torch.cdist(x[1], y[1], p), rtol=3e-5)


@pytest.mark.parametrize("n", (0, 1, 2, 3, 7, 8, 9, 1000))
@pytest.mark.parametrize("right", (False, True))
def test_places_in_sorted_rows(n, right):
    """Also where a row is not sorted: which of the halves is searched decides then."""
    rng = np.random.default_rng(n)
    for order in (np.sort, lambda x: x):
        rows = order(rng.integers(0, 50, (3, n)).astype(float))
        keys = np.concatenate([rng.integers(-2, 52, (3, 21)).astype(float), [[NAN], [INF], [-INF]]], 1)
        (x, y), (a, b) = both(rows, "float32"), both(keys, "float32")
        same(oneflow.searchsorted(x, a, right=right), torch.searchsorted(y, b, right=right))
