"""Bags of embedding rows: values, gradients and errors are PyTorch's, in every mode and form."""

import itertools

import oneflow
import pytest
import torch

GENERATOR = torch.Generator().manual_seed(0)
FORMS = {
    "even": ((4, 3), None, False),
    "ragged": ((12,), [0, 3, 3, 7], False),
    "last offset": ((12,), [0, 3, 3, 7, 12], True),
    "early last offset": ((12,), [0, 3, 3, 7, 9], True),
}


def _copy(fw, t, **options):
    return None if t is None else fw.tensor(t.tolist(), dtype=getattr(fw, str(t.dtype).split(".")[1]), **options)


def _run(fw, weight, index, offsets, factors, **options):
    weight = _copy(fw, weight, requires_grad=True)
    factors = None if factors is None else _copy(fw, factors, requires_grad=True)
    y = fw.nn.functional.embedding_bag(
        _copy(fw, index), weight, _copy(fw, offsets), per_sample_weights=factors, **options
    )
    y.backward(fw.arange(1.0, y.numel() + 1, dtype=y.dtype).reshape(y.shape) / 7)
    grad = weight.grad.to_dense() if options.get("sparse") else weight.grad
    return [y.detach(), grad] + ([] if factors is None else [factors.grad])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", ["sum", "mean", "max", "weighted"])
@pytest.mark.parametrize("options", [{}, {"scale_grad_by_freq": True}, {"sparse": True}], ids=str)
def test_as_in_pytorch(form, mode, options):
    if mode == "max" and options:
        return  # Neither has it.
    sizes, offsets, last = FORMS[form]
    for padding, width, index_dtype in itertools.product([None, 1, -2], [1, 5, 16, 70], [torch.int64, torch.int32]):
        weight = torch.randn(9, width, generator=GENERATOR, dtype=torch.float64)
        index = torch.randint(0, 9, sizes, generator=GENERATOR, dtype=index_dtype)
        factors = torch.randn(sizes, generator=GENERATOR, dtype=torch.float64) if mode == "weighted" else None
        arguments = (weight, index, offsets and torch.tensor(offsets, dtype=index_dtype), factors)
        if form == "early last offset" and mode != "max" and padding is None:
            continue  # PyTorch's gradients hold what was in the memory before.
        kind = {"mode": "sum" if factors is not None else mode, "padding_idx": padding, "include_last_offset": last}
        mine, theirs = (_run(fw, *arguments, **kind, **options) for fw in (oneflow, torch))
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(torch.tensor(a.tolist(), dtype=b.dtype).reshape(b.shape), b)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_halves_are_summed_in_float32(dtype):
    weight = oneflow.ones(1, 3, dtype=getattr(oneflow, dtype))
    bags = oneflow.zeros(1, 1000, dtype=oneflow.int64)
    assert oneflow.nn.functional.embedding_bag(bags, weight, mode="sum").tolist() == [[1000.0] * 3]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_of_halves_are_rounded_once(mode, dtype):
    # Each row is used by many bags.
    weight = torch.randn(3, 5, generator=GENERATOR).to(getattr(torch, dtype))
    index = torch.randint(0, 3, (200, 4), generator=GENERATOR)
    found, exact = (_run(oneflow, w, index, None, None, mode=mode)[1] for w in (weight, weight.double()))
    torch.testing.assert_close(
        torch.tensor(found.tolist(), dtype=torch.float64),
        torch.tensor(exact.tolist(), dtype=torch.float64),
        rtol=2 * torch.finfo(weight.dtype).eps,
        atol=0.0,
    )


@pytest.mark.parametrize(
    "index, offsets",
    [([0, 9], [0]), ([0, -1], [0]), ([0, 1], [1]), ([0, 1], [0, 3]), ([0, 1, 2], [0, 2, 1])],
    ids=str,
)
def test_wrong_indices(index, offsets):
    with pytest.raises(RuntimeError, match=r"offsets|found idx"):
        oneflow.nn.functional.embedding_bag(oneflow.tensor(index), oneflow.ones(4, 2), oneflow.tensor(offsets))


def test_int_mm():
    for m, k, n in [(1, 1, 1), (17, 40, 9), (33, 70, 64)]:
        a, b = (torch.randint(-128, 128, s, generator=GENERATOR, dtype=torch.int8) for s in ((m, k), (k, n)))
        got = oneflow._int_mm(
            oneflow.tensor(a.tolist(), dtype=oneflow.int8), oneflow.tensor(b.tolist()).to(oneflow.int8)
        )
        assert got.dtype == oneflow.int32 and got.tolist() == (a.int() @ b.int()).tolist()
