"""Reductions of masked: shapes and dtypes as PyTorch's, whichever dimensions are named."""

import numpy as np
import oneflow
import oneflow.masked
import pytest
import torch
import torch.masked

REDUCTIONS = "sum prod mean amax amin norm std var".split()
DIMS = [None, (), 0, -1, (0, 1), (1, -3), (0, 1, 2)]


def _reduced(m, name, dtype, dim, keepdim, masked):
    x = m.arange(24, dtype=m.float64).reshape(2, 3, 4).sin().to(getattr(m, dtype))
    options = {"mask": m.arange(24).reshape(2, 3, 4) % 3 != 0} if masked else {}
    arguments = (x, 2.0) if name == "norm" else (x,)
    y = getattr(m.masked, name)(*arguments, dim=dim, keepdim=keepdim, **options)
    return list(y.shape), str(y.dtype).rpartition(".")[2], m.view_as_real(y) if y.is_complex() else y


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, dtype):
    if dtype == "complex128" and name in ("amax", "amin"):
        pytest.skip("complex numbers have no order")
    for dim in [*DIMS, *([[]] if name == "prod" else [])]:
        for keepdim in (False, True):
            for masked in (False, True):
                ours = _reduced(oneflow, name, dtype, dim, keepdim, masked)
                theirs = _reduced(torch, name, dtype, dim, keepdim, masked)
                assert ours[:2] == theirs[:2], (dim, keepdim, masked)
                np.testing.assert_allclose(ours[2].numpy(), theirs[2].numpy(), rtol=1e-11, atol=1e-11)
