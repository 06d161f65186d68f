"""EmbeddingBag over a store against PyTorch's, with values and updates of rows."""

import numpy as np
import oneflow
import pytest
import torch
from embedding.stores import options, rows_of
from oneflow import one_embedding as oe

N, DIM = 40, 6


class Unpooled:
    """Rows of a bag's module by themselves."""

    def __init__(self, bags):
        self.bags = bags

    def __call__(self, ids):
        return oe.Embedding.forward(self.bags, ids)


def bags(path, **kwargs):
    return oe.EmbeddingBag("bags", DIM, options(path, 1e-6), **kwargs)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("form", ["matrix", "offsets", "last offset", "weights"])
def test_bags_equal_those_of_torch(tmp_path, mode, padding, form):
    if form == "weights" and mode != "sum":
        pytest.skip("factors go with sums")
    rng = np.random.default_rng(0)
    ours = bags(tmp_path, mode=mode, padding_idx=padding, include_last_offset=form == "last offset")
    theirs = torch.nn.EmbeddingBag(N, DIM, mode=mode, padding_idx=padding, include_last_offset=form == "last offset")
    with torch.no_grad():
        theirs.weight.copy_(torch.from_numpy(rows_of(Unpooled(ours), N)))
    optimizer = oe.Optimizer(oneflow.optim.SGD(ours.parameters(), lr=0.5), [ours])
    reference = torch.optim.SGD(theirs.parameters(), lr=0.5)
    for _ in range(3):
        ids = rng.integers(0, N, (5, 4)) if form == "matrix" else rng.integers(0, N, 20)
        given = [ids]
        if form != "matrix":
            given.append(np.array([0, 3, 3, 9, 19] + ([20] if form == "last offset" else [])))
        factors = [rng.random(20).astype("float32")] if form == "weights" else []
        out, expected = (m(*map(lib.from_numpy, [*given, *factors])) for m, lib in ((ours, oneflow), (theirs, torch)))
        np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
        optimizer.zero_grad()
        reference.zero_grad()
        (out**2).sum().backward()
        (expected**2).sum().backward()
        optimizer.step()
        reference.step()
    want = theirs.weight.detach().numpy().copy()
    if padding is not None:
        want[padding] = 0
    np.testing.assert_allclose(rows_of(Unpooled(ours), N), want, rtol=1e-4, atol=1e-5)


def test_factors_have_gradients(tmp_path):
    ours = bags(tmp_path)
    factors = oneflow.ones(3, requires_grad=True)
    ours(oneflow.tensor([1, 2, 3]), oneflow.tensor([0, 1]), factors).sum().backward()
    np.testing.assert_allclose(factors.grad.numpy(), rows_of(Unpooled(ours), 4)[1:].sum(1), rtol=1e-5)


@pytest.mark.parametrize("dtype", [oneflow.float16, oneflow.bfloat16])
def test_half_weights_of_float32_rows_keep_small_updates(tmp_path, dtype):
    ours = oe.MultiTableEmbedding(
        "half", 4, dtype, oneflow.int64, [oe.make_table(oe.make_constant_initializer(1))], options(tmp_path)
    )
    optimizer = oe.Optimizer(oneflow.optim.SGD(ours.parameters(), lr=2**-14), [ours])
    ids = oneflow.tensor([5])
    for _ in range(256):
        out = ours(ids)
        assert out.dtype is dtype
        out.sum().backward()
        optimizer.step()
    # Each step is less than half of the distance to the next half number.
    assert float(ours(ids)[0, 0].detach()) == 1 - 2**-6


def test_mistakes_are_named(tmp_path):
    ours, ids = bags(tmp_path), oneflow.arange(6)
    for error, match, call in [
        (ValueError, "mode", lambda: bags(tmp_path / "x", mode="min")),
        (ValueError, "offsets", lambda: ours(ids)),
        (ValueError, "rise", lambda: ours(ids, oneflow.tensor([0, 4, 2]))),
        (ValueError, "rise", lambda: ours(ids, oneflow.tensor([1, 4]))),
        (ValueError, "rise", lambda: ours(ids, oneflow.tensor([0, 9]))),
        (ValueError, "shape of the ids", lambda: ours(ids, oneflow.tensor([0]), oneflow.ones(5))),
        (TypeError, "key_type", lambda: ours(ids.int(), oneflow.tensor([0]))),
        (
            NotImplementedError,
            "sum",
            lambda: bags(tmp_path / "m", mode="mean")(ids, oneflow.tensor([0]), oneflow.ones(6)),
        ),
    ]:
        with pytest.raises(error, match=match):
            call()
