"""`nn.attention.bias` beside PyTorch: both triangles, sizes, grouped heads, gradients, texts and errors."""

import itertools

import numpy as np
import oneflow
import oneflow.nn.attention.bias
import pytest
import torch
import torch.nn.attention.bias

NAMES = ("causal_upper_left", "causal_lower_right")


# Below the last key some queries would see none.
CASES = [*itertools.product(NAMES, [(4, 4), (2, 5), (1, 3)]), ("causal_upper_left", (5, 2))]


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_attention(name, sizes):
    queries, keys = sizes
    rng = np.random.default_rng(0)
    for groups, scale, dims in itertools.product((1, 2), (None, 0.2), (3, 4)):
        lead = ([], [2])[dims == 4]
        shapes = [(*lead, 4, queries, 8), (*lead, 4 // groups, keys, 8), (*lead, 4 // groups, keys, 6)]
        arrays = [rng.standard_normal(s) for s in shapes]
        results = []
        for fw in (oneflow, torch):
            tensors = [fw.tensor(a, requires_grad=True) for a in arrays]
            bias = getattr(fw.nn.attention.bias, name)(queries, keys)
            f = fw.nn.functional.scaled_dot_product_attention
            out = f(*tensors, attn_mask=bias, scale=scale, enable_gqa=groups > 1)
            out.square().sum().backward()
            results.append([out.detach(), *(t.grad for t in tensors)])
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_what_it_is(name):
    ours, theirs = (getattr(fw.nn.attention.bias, name)(2, 4) for fw in (oneflow, torch))
    assert repr(ours) == repr(theirs)
    assert int(ours.variant) == int(theirs.variant)
    assert isinstance(ours, oneflow.Tensor)
    for fw in (oneflow, torch):
        bias = getattr(fw.nn.attention.bias, name)
        with pytest.raises(AssertionError, match="2D"):
            bias(3)
        x = fw.ones(1, 2, 4, 4)
        with pytest.raises(ValueError, match="causal=True"):
            fw.nn.functional.scaled_dot_product_attention(x, x, x, bias(4, 4), is_causal=True)
    x = oneflow.ones(1, 2, 4, 4)
    with pytest.raises(ValueError, match="3 queries and 4 keys"):
        oneflow.nn.functional.scaled_dot_product_attention(x, x, x, getattr(oneflow.nn.attention.bias, name)(3, 4))
    with pytest.warns(UserWarning, match="see no key"):
        bias = oneflow.nn.attention.bias.causal_lower_right(3, 2)
    out = oneflow.nn.functional.scaled_dot_product_attention(x[:, :, :3], x[:, :, :2], x[:, :, :2], bias)
    assert out[0, 0, :, 0].tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("mask", [None, (3, 5), (4, 3, 5), (1, 3, 5), (1, 5), (1, 1, 3, 5), (1, 4, 3, 5)])
def test_attention_without_a_batch(mask, groups):
    """Three dimensions are (heads, L, E), also where the heads are grouped."""
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s) for s in ((4, 3, 8), (4 // groups, 5, 8), (4 // groups, 5, 6))]
    added = None if mask is None else rng.standard_normal(mask)
    results = []
    for fw in (oneflow, torch):
        tensors = [fw.tensor(a, requires_grad=True) for a in arrays]
        bias = None if added is None else fw.tensor(added, requires_grad=True)
        out = fw.nn.functional.scaled_dot_product_attention(*tensors, bias, enable_gqa=groups > 1)
        out.square().sum().backward()
        results.append([out.detach(), *(t.grad for t in tensors), *([] if bias is None else [bias.grad])])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-10)
