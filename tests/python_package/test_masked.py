"""Reductions of masked: shapes and dtypes as PyTorch's, whichever dimensions are named."""

import numpy as np
import oneflow
import oneflow.masked
import pytest
import torch
import torch.masked
from torch_oracle import close

REDUCTIONS = "sum prod mean amax amin logsumexp norm std var".split()
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


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int32", "bool"])
def test_sparse_input_and_mask(name, dtype):
    """Sparse tensors and masks, among them hybrid ones: at the places that count the result is that of dense ones."""
    if name.startswith("a") and dtype in ("complex64", "bool"):
        pytest.skip("no order")
    dense = [[0.0, 2.0, 0.0, 3.0], [1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    masks = {
        "same": [[True, True, False, True], [False, False, True, True], [False, False, False, False]],
        "row": [[True, False, True, True]],
    }
    for n_sparse in (2, 1):
        for dim in (None, 0, 1, (0, 1)):
            for keepdim in (False, True):
                for mask in masks.values():
                    x = oneflow.tensor(dense).to(getattr(oneflow, dtype))
                    m = oneflow.tensor(mask)
                    got = getattr(oneflow.masked, name)(
                        x.to_sparse(n_sparse), dim, keepdim=keepdim, mask=m.to_sparse(n_sparse)
                    )
                    want = getattr(torch.masked, name)(
                        torch.tensor(dense).to(getattr(torch, dtype)), dim, keepdim=keepdim, mask=torch.tensor(mask)
                    )
                    assert got.layout == oneflow.sparse_coo
                    counts = torch.tensor(mask).expand(3, 4)
                    counts = counts.any() if dim in (None, (0, 1)) else counts.any(dim, keepdim=keepdim)
                    places = counts.expand(want.shape)
                    close(got.to_dense().cpu()[oneflow.tensor(places.tolist())], want[places])


def _in(m, layout, rows, dtype):
    x = m.tensor(rows).to(getattr(m, dtype))
    return x if layout == "strided" else x.to_sparse(layout=getattr(m, f"sparse_{layout}"))


@pytest.mark.parametrize("layout", ["strided", "coo", "csr", "csc", "bsr"])
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean", "softmax", "std"])
def test_layouts_of_inputs_and_masks(name, layout):
    """A mask may have any layout beside any input; what has no form for the layout of an input says which it has."""
    rows = [[1.0, 0.0, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 4.0, 0.0], [0.0, 0.0, 0.0, 5.0]]
    kept = [[True, False, True, False], [False, True, False, False], [True, False, True, False], [False] * 4]
    x, reduction = oneflow.tensor(rows), getattr(oneflow.masked, name)
    x = _in(x, layout)
    if layout not in ("strided", *(() if name in ("softmax", "std") else ("coo", "csr"))):
        with pytest.raises(ValueError, match=f"masked {name} expects a strided.* tensor, got oneflow.sparse_{layout}"):
            reduction(x, dim=0)
        return
    for dim in (0, 1) if name == "softmax" else (None, 0, 1):
        options = {"dim": dim, **({} if name == "softmax" else {"keepdim": True})}
        right = getattr(torch.masked, name)(torch.tensor(rows), mask=torch.tensor(kept), **options).numpy()
        counts = np.array(kept) if name == "softmax" else np.array(kept).any(dim, keepdims=True)
        for mask_layout in ("strided", "coo", "csr", "csc"):
            found = reduction(x, mask=_in(oneflow.tensor(kept), mask_layout), **options)
            assert found.layout == x.layout
            found = found if layout == "strided" else found.to_dense()
            np.testing.assert_allclose(found.numpy()[counts], right[counts], rtol=1e-6)
    if layout == "csr":
        with pytest.raises(RuntimeError, match="keepdim=False"):
            reduction(x, 0, mask=oneflow.tensor(kept))


def _in(x, layout):
    blocks = {"blocksize": (2, 2)} if layout == "bsr" else {}
    return x if layout == "strided" else x.to_sparse(layout=getattr(oneflow, f"sparse_{layout}"), **blocks)


def test_sparse_sum_without_a_mask_and_products_that_need_one():
    x = oneflow.tensor([[0.0, 2.0], [0.0, 3.0]], requires_grad=True)
    total = oneflow.masked.sum(x.to_sparse(), 0)
    assert total.layout == oneflow.sparse_coo and total.to_dense().tolist() == [0.0, 5.0]
    with pytest.raises(ValueError, match="expects explicit mask"):
        oneflow.masked.prod(x.to_sparse(), 0)


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin"])
def test_whole_reductions_of_sparse_tensors_of_which_nothing_is_kept(name, shape):
    found = []
    for m in (oneflow, torch):
        x = m.ones(shape).to_sparse()
        mask = m.zeros(shape, dtype=m.bool).to_sparse()
        for options in ({}, {"dim": tuple(range(len(shape)))}, {"keepdim": True}, {"dim": 0}):
            if name == "sum" and not shape and "dim" in options:
                continue
            y = getattr(m.masked, name)(x, mask=mask, **{"dim": None, **options})
            found.append((m.__name__, str(y.layout).rpartition(".")[2], tuple(y.shape), y.to_dense().tolist()))
    half = len(found) // 2
    assert [f[1:] for f in found[:half]] == [f[1:] for f in found[half:]]
