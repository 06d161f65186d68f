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
