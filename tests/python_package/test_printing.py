"""Tensors print as PyTorch prints them."""

import math

import oneflow
import pytest
import torch

TENSORS = [
    lambda fw: fw.tensor(3),
    lambda fw: fw.tensor(2.5),
    lambda fw: fw.tensor(True),
    lambda fw: fw.tensor([]),
    lambda fw: fw.zeros(0, 3),
    lambda fw: fw.zeros(0, 3, dtype=fw.int64),
    lambda fw: fw.zeros(2, 0, 4, dtype=fw.bool),
    lambda fw: fw.tensor([1, -20, 300]),
    lambda fw: fw.tensor([1.0, 2.0, 30.0]),
    lambda fw: fw.tensor([1.0, 2.5, -30.0]),
    lambda fw: fw.tensor([0.0, 0.0]),
    lambda fw: fw.tensor([1e-5, 1.0]),
    lambda fw: fw.tensor([1e-5, 2e-5]),
    lambda fw: fw.tensor([1e9, 1.0]),
    lambda fw: fw.tensor([1e9, 1.5]),
    lambda fw: fw.tensor([123456.0, 7.0]),
    lambda fw: fw.tensor([math.nan, math.inf, -math.inf]),
    lambda fw: fw.tensor([math.nan, 1.0, -math.inf, 2.5]),
    lambda fw: fw.tensor([math.nan, 1.0, -math.inf, 2e-9]),
    lambda fw: fw.tensor(math.nan),
    lambda fw: fw.tensor(1e-9),
    lambda fw: fw.tensor([True, False]),
    lambda fw: fw.tensor([[True, False], [False, True]]),
    lambda fw: fw.tensor([1.5, 2.5], dtype=fw.float64),
    lambda fw: fw.tensor([1.5, 2.5], dtype=fw.bfloat16),
    lambda fw: fw.tensor([0.1, 1000.0, 3.0], dtype=fw.float64),
    lambda fw: fw.arange(24).reshape(2, 3, 4),
    lambda fw: fw.arange(24, dtype=fw.float32).reshape(2, 3, 4) / 7,
    lambda fw: fw.arange(30),
    lambda fw: fw.arange(100, dtype=fw.float32) / 3,
    lambda fw: fw.arange(1001),
    lambda fw: fw.arange(5000, dtype=fw.float32).reshape(50, 100),
    lambda fw: fw.arange(12000).reshape(10, 20, 60),
    lambda fw: fw.arange(12000, dtype=fw.float64).reshape(2, 6000),
    lambda fw: fw.tensor([1.0, 2.0], requires_grad=True),
    lambda fw: fw.arange(20, dtype=fw.float32).requires_grad_(),
    lambda fw: fw.nn.Parameter(fw.tensor([[1.0, 2.0]])),
    lambda fw: fw.tensor([[1.0, 2.0]], requires_grad=True).detach(),
    lambda fw: sparse(fw, 3),
    lambda fw: sparse(fw, 60),
    lambda fw: sparse(fw, 60, dtype=fw.float64).requires_grad_(),
    lambda fw: sparse(fw, 60, device="meta"),
    lambda fw: sparse(fw, 0),
    lambda fw: fw.eye(30).to_sparse_csr(),
    lambda fw: (fw.eye(30) * (2 + 3j)).to_sparse_csc(),
    lambda fw: fw.eye(12).to_sparse_bsr((3, 2)),
    lambda fw: fw.arange(5000).to_sparse(),
]


def sparse(fw, n, **options):
    return fw.sparse_coo_tensor(fw.arange(n)[None] * 2 + 1000, fw.arange(n) / 7, (2000,), **options)


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("i", range(len(TENSORS)))
def test_text_equals_torchs(i):
    ours, theirs = repr(TENSORS[i](oneflow)), repr(TENSORS[i](torch))
    assert ours == theirs.replace("torch.", "oneflow.")


OPTIONS = [
    {"precision": 2},
    {"threshold": 10, "edgeitems": 1},
    {"threshold": 10, "edgeitems": 2},
    {"linewidth": 40},
    {"sci_mode": True},
    {"sci_mode": False},
    {"profile": "short"},
    {"profile": "full"},
]


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("options", OPTIONS)
def test_options(options):
    try:
        for fw in (oneflow, torch):
            fw.set_printoptions(**options)
        for make in TENSORS:
            assert repr(make(oneflow)) == repr(make(torch)).replace("torch.", "oneflow.")
    finally:
        for fw in (oneflow, torch):
            fw.set_printoptions(profile="default")


def test_grad_fn_is_shown():
    x = oneflow.tensor([1.0, 2.0], requires_grad=True)
    text = repr(x * 2)
    assert text.startswith("tensor([2., 4.], grad_fn=<") and text.endswith(">)")


def test_format_of_a_number():
    assert f"{oneflow.tensor(2.5):.2f}" == "2.50"
