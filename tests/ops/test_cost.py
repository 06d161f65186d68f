"""The declared cost of ops equals PyTorch's flop counter for every op that the counter supports."""

import oneflow
import pytest
import torch
from oneflow.utils.flop_counter import FlopCounterMode
from torch.utils import flop_counter

CASES = {
    "mm": lambda fw: fw.mm(fw.ones(4, 6), fw.ones(6, 8)),
    "matmul": lambda fw: fw.matmul(fw.ones(4, 6), fw.ones(6, 8)),
    "matmul of batches": lambda fw: fw.matmul(fw.ones(2, 3, 4, 6), fw.ones(3, 6, 8)),
    "matmul of rows": lambda fw: fw.matmul(fw.ones(2, 3, 6), fw.ones(6, 8)),
    "bmm": lambda fw: fw.bmm(fw.ones(3, 4, 6), fw.ones(3, 6, 8)),
    "addmm": lambda fw: fw.addmm(fw.ones(8), fw.ones(4, 6), fw.ones(6, 8)),
    "baddbmm": lambda fw: fw.baddbmm(fw.ones(3, 4, 8), fw.ones(3, 4, 6), fw.ones(3, 6, 8)),
    "linear": lambda fw: fw.nn.functional.linear(fw.ones(5, 6), fw.ones(8, 6)),
    "linear with bias": lambda fw: fw.nn.functional.linear(fw.ones(2, 5, 6), fw.ones(8, 6), fw.ones(8)),
    "nothing": lambda fw: fw.mm(fw.ones(4, 0), fw.ones(0, 8)),
    "attention": lambda fw: fw.nn.functional.scaled_dot_product_attention(*[fw.ones(2, 4, 16, 8)] * 3),
    "causal attention": lambda fw: fw.nn.functional.scaled_dot_product_attention(
        *[fw.ones(2, 4, 16, 8)] * 3, is_causal=True
    ),
    "backward of linear": lambda fw: (
        fw.nn.functional.linear(fw.ones(5, 6, requires_grad=True), fw.ones(8, 6, requires_grad=True)).sum().backward()
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_flops(case):
    with flop_counter.FlopCounterMode(display=False) as theirs:
        CASES[case](torch)
    with FlopCounterMode(display=False) as ours:
        CASES[case](oneflow)
    assert ours.get_total_flops() == theirs.get_total_flops()
