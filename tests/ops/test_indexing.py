"""Indexing as PyTorch mixes its rules: numbers, slices, None, Ellipsis, lists, masks and tensors."""

import random

import numpy as np
import oneflow
import pytest
import torch

SHAPE = (3, 4, 2, 5)


def _item(rng, dim):
    """One index for a dimension of this size, as a function of the framework, and how many dimensions it takes."""
    kind = rng.choice(["int", "slice", "slice", "none", "list", "tensor", "scalar", "mask", "empty"])
    low, high = -dim, dim - 1
    if kind == "int":
        i = rng.randint(low, high)
        return lambda fw: i, 1
    if kind == "slice":
        s = slice(
            rng.choice([None, rng.randint(low, high)]), rng.choice([None, rng.randint(low, high)]), rng.randint(1, 2)
        )
        return lambda fw: s, 1
    if kind == "none":
        return lambda fw: None, 0
    if kind == "list":
        v = [rng.randint(low, high) for _ in range(2)]
        return lambda fw: v, 1
    if kind == "tensor":
        shape = rng.choice([(2,), (1,), (3, 1), (1, 2)])
        v = np.array([rng.randint(low, high) for _ in range(int(np.prod(shape)))]).reshape(shape)
        return lambda fw: fw.tensor(v.tolist()), 1
    if kind == "scalar":
        i = rng.randint(low, high)
        return lambda fw: fw.tensor(i), 1
    if kind == "empty":
        return lambda fw: fw.tensor([], dtype=fw.int64), 1
    m = [bool(rng.getrandbits(1)) for _ in range(dim)]
    return lambda fw: fw.tensor(m), 1


def _index(rng):
    makers, at = [], 0
    dots = rng.random() < 0.3
    for _ in range(rng.randint(1, len(SHAPE))):
        if at == len(SHAPE):
            break
        make, taken = _item(rng, SHAPE[at])
        makers.append(make)
        at += taken
    if dots:
        makers.append(lambda fw: Ellipsis)
    return lambda fw: tuple(m(fw) for m in makers)


def _outcome(f):
    try:
        return f(), None
    except Exception as e:
        return None, type(e).__name__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(300))
def test_random_index(seed):
    index = _index(random.Random(seed))
    values = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)

    def read(fw):
        x = fw.tensor(values.tolist(), requires_grad=True)
        y = x[index(fw)]
        (y * y).sum().backward()
        # Without elements, strides mean nothing; theirs are zeros.
        return y.detach().numpy(), y.stride() if y.numel() else (), x.grad.numpy()

    def write(fw):
        x = fw.tensor(values.tolist())
        x[index(fw)] = -1.0
        return (x.numpy(),)

    for f in (read, write):
        wanted, error = _outcome(lambda f=f: f(torch))
        got, mistake = _outcome(lambda f=f: f(oneflow))
        assert mistake == error
        for a, b in zip(got or (), wanted or (), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("places", [[], [0]])
@pytest.mark.parametrize("sizes", [(0,), (2, 0), (0, 3), (2, 0, 3)])
def test_dimensions_without_elements(sizes, places):
    """A place in a dimension without elements is refused by that; no place at all is right."""

    def read(fw, dim):
        return fw.ones(*sizes)[(slice(None),) * dim + (fw.tensor(places, dtype=fw.int64),)]

    def write(fw, _):
        return fw.ones(*sizes).index_put_((fw.tensor(places, dtype=fw.int64),), fw.tensor(1.0))

    for f, dim in [(read, dim) for dim in range(len(sizes))] + [(write, 0)]:
        try:
            want = f(torch, dim)
        except IndexError as error:
            with pytest.raises(IndexError) as raised:
                f(oneflow, dim)
            assert str(raised.value) == str(error)
            continue
        assert f(oneflow, dim).shape == tuple(want.shape)


def test_strides_of_results():
    """The result lies in memory as PyTorch's does, for permuted, stepped and expanded inputs and indices."""
    layouts = {
        "contiguous": lambda x: x,
        "permuted": lambda x: x.permute(2, 0, 3, 1),
        "reversed": lambda x: x.permute(3, 2, 1, 0),
        "stepped": lambda x: x[:, ::2],
        "expanded": lambda x: x[:1].expand(3, 4, 2, 5),
    }
    rng = random.Random(5)
    for name, layout in layouts.items():
        shape = layout(torch.zeros(SHAPE)).shape
        for _ in range(60):
            items, d = [], 0
            while d < len(shape) and len(items) < 4:
                item, taken = _item(rng, shape[d])
                items.append(item)
                d += taken
            index = [tuple(item(fw) for item in items) for fw in (oneflow, torch)]
            try:
                theirs = layout(torch.arange(120).reshape(SHAPE))[index[1]]
            except Exception:
                continue
            ours = layout(oneflow.arange(120).reshape(SHAPE))[index[0]]
            assert ours.tolist() == theirs.tolist(), (name, index[1])
            # A dimension of one element or of none has no stride that matters.
            told = [i for i, n in enumerate(theirs.shape) if n > 1] if theirs.numel() else []
            assert [ours.stride(i) for i in told] == [theirs.stride(i) for i in told], (name, index[1])


def test_strides_of_lists_and_matrices_of_indices():
    for index in (
        lambda fw: ([0, 1],),
        lambda fw: (slice(None), [0, 1]),
        lambda fw: (slice(None), slice(None), [0, 2]),
        lambda fw: ([0, 1], slice(None), [0, 1]),
        lambda fw: (slice(None), fw.tensor([[0, 1], [1, 1]])),
        lambda fw: (slice(None), fw.tensor([[0, 1], [1, 1]]).t()),
    ):
        strides = [fw.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)[index(fw)].stride() for fw in (oneflow, torch)]
        assert strides[0] == strides[1], index(torch)


@pytest.mark.parametrize("name", ["index_put", "index_put_"])
def test_writes_without_an_index_are_refused(name):
    with pytest.raises(IndexError, match="at least one index must be provided"):
        getattr(oneflow.zeros(3), name)((), oneflow.ones(3))
