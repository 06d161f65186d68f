"""Products of eight-bit floats with their factors, beside PyTorch's."""

import numpy as np
import oneflow
import oneflow.nn.functional as F
import pytest
import torch


def _eight_bits(fw, seed, rows, columns, dtype):
    numbers = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    return fw.tensor(numbers).to(getattr(fw, dtype))


@pytest.mark.parametrize("dtypes", [("float8_e4m3fn",) * 2, ("float8_e5m2", "float8_e4m3fn")])
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("out_dtype", ["float32", "bfloat16", None])
def test_scaled_products(dtypes, rows, out_dtype):
    made = []
    for fw in (oneflow, torch):
        a, b = (_eight_bits(fw, i, 16, 32, dtype) for i, dtype in enumerate(dtypes))
        shapes = ((16, 1), (1, 16)) if rows else ((), (1, 1))
        scales = [
            fw.full(shape, 0.25) + fw.arange(16.0).reshape(shape) / 16 if rows else fw.full(shape, 0.5)
            for shape in shapes
        ]
        bias = fw.arange(16.0).to(fw.bfloat16 if out_dtype is None else getattr(fw, out_dtype))
        wanted = out_dtype and getattr(fw, out_dtype)
        made.append([fw._scaled_mm(a, b.t(), *scales, bias=bias, out_dtype=wanted)])
        recipe = fw.nn.functional.ScalingType.RowWise if rows else fw.nn.functional.ScalingType.TensorWise
        made[-1].append(fw.nn.functional.scaled_mm(a, b.t(), scales[0], recipe, scales[1], recipe, output_dtype=wanted))
    for ours, theirs in zip(*made, strict=True):
        assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
        np.testing.assert_allclose(ours.float().numpy(), theirs.float().numpy(), rtol=0.01 if out_dtype else 0.13)


def test_scaled_products_refuse():
    a, one = oneflow.ones(4, 4).to(oneflow.float8_e5m2), oneflow.tensor(1.0)
    for call, error in {
        lambda: oneflow._scaled_mm(a.float(), a, one, one): ValueError,
        lambda: oneflow._scaled_mm(a, a, one, oneflow.ones(4)): ValueError,
        lambda: oneflow._scaled_mm(a, a[:2], one, one): RuntimeError,
        lambda: oneflow._scaled_mm(a, a, one, one, oneflow.ones(3)): RuntimeError,
        lambda: oneflow._scaled_mm(a, a, one, one, scale_result=one): NotImplementedError,
        lambda: F.scaled_mm(
            a, a, one, F.ScalingType.BlockWise1x32, one, F.ScalingType.BlockWise1x32
        ): NotImplementedError,
        lambda: F.scaled_mm(a, a, one, F.ScalingType.RowWise, one, F.ScalingType.RowWise): ValueError,
    }.items():
        with pytest.raises(error):
            call()


# Sizes of the two matrices and of their factors, and the ends of the groups.
GROUPED = {
    "rows": ((5, 8), (2, 8, 6), (5,), (2, 6), (2, 5)),
    "columns": ((2, 4, 8), (8, 7), (2, 4), (7,), (3, 7)),
    "inner": ((4, 8), (8, 6), (8,), (12,), (3, 8)),
    "inner, as many rows as indices": ((4, 8), (8, 4), (8,), (8,), (4, 8)),
    "batch": ((2, 4, 8), (2, 8, 6), (2, 4), (2, 6), None),
}


@pytest.mark.parametrize("name", GROUPED)
def test_scaled_groups_of_products(name):
    """Beside sums in float64."""
    *shapes, ends = GROUPED[name]
    rng = np.random.default_rng(0)
    a, b = (oneflow.tensor(rng.standard_normal(s)).float().to(oneflow.float8_e4m3fn) for s in shapes[:2])
    rows, columns = (oneflow.tensor(rng.uniform(0.5, 2, s)).float() for s in shapes[2:])
    offs = None if ends is None else oneflow.tensor(ends, dtype=oneflow.int32)
    by_row = F.ScalingType.RowWise
    found = F.scaled_grouped_mm(a, b, rows, by_row, columns, by_row, offs=offs, output_dtype=oneflow.float32)
    x, y = (t.float().double().numpy() for t in (a, b))
    p, q = rows.double().numpy(), columns.double().numpy()
    cuts = list(zip((0, *ends), ends, strict=False)) if ends else []
    wanted = {
        "rows": lambda: np.concatenate([x[i:j] @ y[g] * p[i:j, None] * q[g] for g, (i, j) in enumerate(cuts)]),
        "columns": lambda: np.concatenate(
            [x[g] @ y[:, i:j] * p[g][:, None] * q[i:j] for g, (i, j) in enumerate(cuts)], -1
        ),
        "inner": lambda: np.stack(
            [x[:, i:j] @ y[i:j] * p.reshape(2, -1)[g][:, None] * q.reshape(2, -1)[g] for g, (i, j) in enumerate(cuts)]
        ),
        "batch": lambda: x @ y * p[..., None] * q[:, None],
    }[name.partition(",")[0]]()
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-5)
    assert F.scaled_grouped_mm(a, b, rows, by_row, columns, by_row, offs=offs).dtype == oneflow.bfloat16


def test_scaled_groups_refuse():
    a, b = (oneflow.ones(2, n, n).to(oneflow.float8_e4m3fn) for n in (4, 4))
    factors, by_row = oneflow.ones(2, 4), F.ScalingType.RowWise
    for error, call in (
        (ValueError, lambda: F.scaled_grouped_mm(a.float(), b, factors, by_row, factors, by_row)),
        (ValueError, lambda: F.scaled_grouped_mm(a, b, oneflow.ones(2), by_row, factors, by_row)),
        (ValueError, lambda: F.scaled_grouped_mm(a, b, factors.double(), by_row, factors, by_row)),
        (RuntimeError, lambda: F.scaled_grouped_mm(a[0], b, factors, by_row, factors, by_row)),
        (RuntimeError, lambda: F.scaled_grouped_mm(a, b, factors, by_row, factors, by_row, bias=factors)),
        (NotImplementedError, lambda: F.scaled_grouped_mm(a, b, factors, 0, factors, 0)),
    ):
        with pytest.raises(error, match=r"scaled_grouped_mm\(\)"):
            call()
