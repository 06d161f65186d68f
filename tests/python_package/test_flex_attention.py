"""Attention by functions of positions, against PyTorch's."""

from __future__ import annotations

import numpy as np
import oneflow
import pytest
import torch
from oneflow.nn.attention.flex_attention import and_masks, create_block_mask, flex_attention, or_masks

rng = np.random.default_rng(0)


def causal(b, h, q, kv):
    return q >= kv


def window(b, h, q, kv):
    return (q - kv).abs() < 3


def relative(score, b, h, q, kv):
    return score + (q - kv) * 0.1 + h


@pytest.mark.parametrize("masks", [(), (causal,), (causal, window)])
@pytest.mark.parametrize("mod", [None, relative])
def test_flex_attention(masks, mod):
    """PyTorch's own has no backward on the CPU: its dense attention with the same bias does."""
    arrays = [rng.standard_normal((2, heads, 7, 4)).astype("f4") for heads in (4, 2, 2)]
    ours = [oneflow.tensor(a, requires_grad=True) for a in arrays]
    mask = create_block_mask(and_masks(*masks), None, None, 7, 7) if masks else None
    out = flex_attention(*ours, score_mod=mod, block_mask=mask, enable_gqa=True)
    out.square().sum().backward()
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    positions = [torch.arange(n).view([-1 if i == j else 1 for j in range(4)]) for i, n in enumerate((2, 4, 7, 7))]
    bias = torch.zeros(2, 4, 7, 7) if mod is None else mod(torch.zeros(2, 4, 7, 7), *positions)
    for mask_mod in masks:
        bias = bias.masked_fill(~mask_mod(*positions), float("-inf"))
    expected = torch.nn.functional.scaled_dot_product_attention(*theirs, attn_mask=bias, enable_gqa=True)
    expected.square().sum().backward()
    np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_masks():
    mask = create_block_mask(or_masks(causal, window), 2, None, 5, 6, BLOCK_SIZE=2)
    q, kv = np.indices((5, 6))
    assert mask.mask[1, 0].tolist() == ((q >= kv) | (abs(q - kv) < 3)).tolist() and mask.shape == (2, 1, 5, 6)
    assert mask.to_dense().shape == (2, 1, 3, 3) and mask.to_dense()[0, 0, 0].tolist() == [1, 1, 0]


def test_a_query_that_sees_nothing_gets_zeros():
    x = oneflow.ones(1, 1, 2, 4)
    mask = create_block_mask(lambda b, h, q, kv: (q > 0) & (kv >= 0), None, None, 2, 2)
    assert flex_attention(x, x, x, block_mask=mask)[0, 0].tolist() == [[0] * 4, [1] * 4]


def test_heads_must_fit():
    x = oneflow.ones(1, 3, 2, 4)
    with pytest.raises(ValueError, match="same number of heads but got Hq=3 and Hkv=2"):
        flex_attention(x, x[:, :2], x[:, :2])
