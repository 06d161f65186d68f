"""Windows against PyTorch's."""

import oneflow
import pytest
import torch

SHAPES = [("hann", {}), ("hamming", {}), ("hamming", {"alpha": 0.5, "beta": 0.3}), ("bartlett", {}), ("blackman", {})]
SHAPES += [("kaiser", {}), ("kaiser", {"beta": 8.0})]


@pytest.mark.parametrize("n", [0, 1, 2, 5, 16])
@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_windows(name, shape, periodic, n):
    for dtype in ("float32", "float64"):
        ours = getattr(oneflow, f"{name}_window")(n, periodic, dtype=getattr(oneflow, dtype), **shape)
        theirs = getattr(torch, f"{name}_window")(n, periodic, dtype=getattr(torch, dtype), **shape)
        assert ours.dtype is getattr(oneflow, dtype) and ours.shape == theirs.shape
        torch.testing.assert_close(torch.from_numpy(ours.numpy()), theirs, rtol=1e-5, atol=2e-6)


def test_options():
    assert oneflow.hann_window(3, dtype=oneflow.bfloat16).dtype is oneflow.bfloat16
    assert oneflow.hann_window(3, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="floating point"):
        oneflow.hann_window(3, dtype=oneflow.int64)
    with pytest.raises(RuntimeError, match="hamming_window requires non-negative"):
        oneflow.hamming_window(-1)
