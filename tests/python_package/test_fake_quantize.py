"""Fake quantization beside PyTorch's: values, gradients, ties, limits, and what is refused."""

import oneflow
import pytest
import torch

EDGES = [-3.0, -0.26, -0.25, 0.24, 0.25, 0.75, float("nan"), float("inf"), -float("inf"), 100.0]


def values(fw, dtype):
    return fw.tensor(EDGES, dtype=getattr(fw, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("as_tensors", [False, True])
def test_one_scale(dtype, as_tensors):
    results = []
    for fw in (oneflow, torch):
        scale = fw.tensor(0.5) if as_tensors else 0.5
        zero = fw.tensor(1, dtype=fw.int32) if as_tensors else 1
        x = values(fw, dtype).requires_grad_()
        y = fw.fake_quantize_per_tensor_affine(x, scale, zero, 0, 7)
        assert str(y.dtype).endswith(dtype)
        y.float().sum().backward()
        results.append((y.detach().double().tolist(), x.grad.double().tolist()))
    assert results[0] == results[1]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scale_for_each_channel(axis):
    data = torch.randn(3, 4, 3) * 3
    results = []
    for fw in (oneflow, torch):
        n = data.shape[axis]
        x = fw.tensor(data.tolist()).requires_grad_()
        scale = fw.tensor([0.1 * (i + 1) for i in range(n)])
        zero = fw.arange(n, dtype=fw.int32)
        y = fw.fake_quantize_per_channel_affine(x, scale, zero, axis % 3, -8, 7)
        (y * y).sum().backward()
        results.append((y.detach().tolist(), x.grad.tolist()))
    assert results[0] == results[1]


REFUSED = {
    "zero outside": lambda fw, z: fw.fake_quantize_per_tensor_affine(z, 0.5, 9, 0, 7),
    "empty range": lambda fw, z: fw.fake_quantize_per_tensor_affine(z, 0.5, 1, 8, 7),
    "sizes": lambda fw, z: fw.fake_quantize_per_channel_affine(z, fw.ones(2), fw.zeros(2, dtype=fw.int32), 0, 0, 7),
    "zero's dtype": lambda fw, z: fw.fake_quantize_per_channel_affine(
        z, fw.ones(3), fw.zeros(3, dtype=fw.int64), 0, 0, 7
    ),
    "zeros outside": lambda fw, z: fw.fake_quantize_per_channel_affine(
        z, fw.ones(3), fw.full((3,), 9, dtype=fw.int32), 0, 0, 7
    ),
    "scale's dtype": lambda fw, z: fw.fake_quantize_per_channel_affine(
        z, fw.ones(3, dtype=fw.float64), fw.zeros(3, dtype=fw.int32), 0, 0, 7
    ),
    "axis": lambda fw, z: fw.fake_quantize_per_channel_affine(z, fw.ones(3), fw.zeros(3, dtype=fw.int32), 5, 0, 7),
    "integers": lambda fw, z: fw.fake_quantize_per_tensor_affine(z.int(), 0.5, 1, 0, 7),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    kinds = []
    for fw in (oneflow, torch):
        with pytest.raises((RuntimeError, IndexError)) as caught:
            REFUSED[case](fw, fw.ones(3, 2))
        kinds.append(caught.type)
    assert kinds[0] is kinds[1]
