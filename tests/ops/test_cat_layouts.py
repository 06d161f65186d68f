"""``cat``: the memory format of its result, and tensors without elements along any dimension."""

import itertools

import oneflow
import pytest
import torch


def parts(fw, sizes, layout):
    """Two tensors of one size: whole, or a part of something larger."""
    x = fw.arange(2.0 * torch.Size(sizes).numel()).reshape(2, *sizes)
    pair = [t.clone() for t in x]
    if "last" in layout:
        format = fw.channels_last if len(sizes) == 4 else fw.channels_last_3d
        pair = [fw.empty(*sizes, memory_format=format).copy_(t) for t in pair]
    if "part" in layout:
        pair = [t[..., 1:] for t in pair]
    if "transposed" in layout:
        pair = [t.transpose(-1, -2) for t in pair]
    if "mixed" in layout:
        pair[1] = pair[1].contiguous()
    if "expanded" in layout:
        pair = [t[:, :1].expand(*t.shape) for t in pair]
    return pair


LAYOUTS = [
    "plain",
    "last",
    "last part",
    "part",
    "transposed",
    "last transposed",
    "last mixed",
    "expanded",
    "last part mixed",
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "sizes", [(2, 3, 4, 4), (1, 3, 4, 4), (2, 1, 4, 4), (2, 3, 1, 4), (2, 2, 3, 4, 4), (4, 1, 1, 2)]
)
def test_layouts(layout, sizes):
    for dim in range(-len(sizes), len(sizes)):
        ours, theirs = (fw.cat(parts(fw, sizes, layout), dim) for fw in (oneflow, torch))
        assert ours.stride() == theirs.stride(), (dim, ours.stride(), theirs.stride())
        assert ours.tolist() == theirs.tolist()


def test_empty_ones_along_any_dimension():
    for dim in (-3, 0, 1, 5):
        ours, theirs = (fw.cat([fw.empty(0), fw.empty(0, dtype=fw.float64)], dim) for fw in (oneflow, torch))
        assert tuple(ours.shape) == tuple(theirs.shape) == (0,)
        assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
    for order in itertools.permutations(range(3)):
        ours, theirs = (
            fw.cat([[fw.empty(0), fw.ones(2, 3), fw.zeros(2, 1)][i] for i in order], 1) for fw in (oneflow, torch)
        )
        assert ours.tolist() == theirs.tolist()
    leaf = oneflow.empty(0, requires_grad=True)
    oneflow.cat([leaf, oneflow.empty(0)], 3).sum().backward()
    assert leaf.grad.shape == (0,)
