"""Bags of embeddings of nested tensors, and writes to nested tensors by indices."""

import numpy as np
import oneflow
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")
BAGS = ([1, 2], [3], [], [4, 4, 6])


def _bags(m, layout, bags=BAGS, dtype="int64"):
    parts = [m.tensor(bag, dtype=getattr(m, dtype)) for bag in bags]
    return m.nested.nested_tensor(parts, layout=getattr(m, layout))


def _same(ours, theirs):
    assert ours.is_nested == theirs.is_nested
    pairs = zip(ours.unbind(), theirs.unbind(), strict=True) if theirs.is_nested else [(ours, theirs)]
    for a, b in pairs:
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)


def _flat(m):
    """What PyTorch is asked where it has no answer for nested tensors."""
    return m.tensor([i for bag in BAGS for i in bag]), m.tensor(np.cumsum([0] + [len(b) for b in BAGS])[:-1].tolist())


@pytest.mark.parametrize("layout", ["jagged", "strided"])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 4}], ids=str)
def test_bags_of_embeddings(layout, mode, options):
    found = []
    for m in (oneflow, torch):
        weight = (m.arange(20.0).reshape(10, 2) / 3).requires_grad_()
        bag = m.nn.functional.embedding_bag
        if m is oneflow:
            made = bag(_bags(m, layout), weight, mode=mode, **options)
        else:
            made = bag(_flat(m)[0], weight, _flat(m)[1], mode=mode, **options)
        (made * made).sum().backward()
        found.append((made, weight.grad))
    for a, b in zip(*found, strict=True):
        _same(a, b)
    if layout == "jagged":
        layer = [m.nn.EmbeddingBag.from_pretrained(m.arange(20.0).reshape(10, 2), mode=mode) for m in (oneflow, torch)]
        _same(layer[0](_bags(oneflow, layout, BAGS[:2])), layer[1](_bags(torch, layout, BAGS[:2])))


@pytest.mark.parametrize("layout", ["jagged", "strided"])
def test_weights_of_samples(layout):
    numbers = [[float(i) for i in bag] for bag in BAGS]
    table = np.arange(20.0, dtype=np.float32).reshape(10, 2)
    bag = oneflow.nn.functional.embedding_bag
    for weights in (_bags(oneflow, layout, numbers, "float32"), oneflow.tensor([i for n in numbers for i in n])):
        made = bag(_bags(oneflow, layout), oneflow.tensor(table), mode="sum", per_sample_weights=weights)
        indices, starts = _flat(torch)
        flat = torch.tensor([i for n in numbers for i in n])
        _same(
            made,
            torch.nn.functional.embedding_bag(
                indices, torch.tensor(table), starts, mode="sum", per_sample_weights=flat
            ),
        )
    with pytest.raises(ValueError, match="per_sample_weights"):
        weights = _bags(oneflow, layout, numbers[1:] + numbers[:1], "float32")
        bag(_bags(oneflow, layout), oneflow.tensor(table), mode="sum", per_sample_weights=weights)
    with pytest.raises(ValueError, match="leave offsets out"):
        bag(_bags(oneflow, layout), oneflow.tensor(table), oneflow.tensor([0, 1]))
    with pytest.raises(ValueError, match="two dimensions"):
        bag(_bags(oneflow, layout, ([[1]], [[2]])), oneflow.tensor(table))


def _numbers(m, requires_grad=False):
    parts = [m.tensor(np.arange(n * 2, dtype=np.float32).reshape(n, 2) + n) for n in (2, 1, 3)]
    return m.nested.nested_tensor(parts, layout=m.jagged, requires_grad=requires_grad)


# Indices of parts, of rows of parts, of elements; and the values.
WRITES = {
    "rows": (([0, 2], [1, 2]), [[10.0, 20.0], [30.0, 40.0]]),
    "a row twice": (([2, 2], [0, 0]), [[1.0, 2.0], [1.0, 2.0]]),
    "elements": (([0, 2, 1], [1, 2, 0], [1, 0, 1]), [1.0, 2.0, 3.0]),
    "one value": (([0, 2], [1, 2]), 7.0),
    "parts": (([2, 0],), [1.0, 2.0]),
    "by a grid": (([[0], [2]], [[0, 1], [1, 2]]), [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]),
}


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_writes_by_indices(name, accumulate):
    """As writes to the padded tensor: PyTorch compares indices of rows with the lengths of all parts."""
    dense, start = _numbers(torch).to_padded_tensor(0.0), _numbers(torch)
    dense.index_put_(tuple(torch.tensor(i) for i in WRITES[name][0]), torch.tensor(WRITES[name][1]), accumulate)
    expected = torch.nested.nested_tensor([dense[i, :n] for i, n in enumerate((2, 1, 3))], layout=torch.jagged)
    indices, values = tuple(oneflow.tensor(i) for i in WRITES[name][0]), oneflow.tensor(WRITES[name][1])
    x = _numbers(oneflow)
    _same(x.index_put(indices, values, accumulate), expected)
    _same(x, start)
    assert x.index_put_(indices, values, accumulate) is x
    _same(x, expected)
    if not accumulate:
        x = _numbers(oneflow)
        x[indices] = values
        _same(x, expected)
    if name == "parts":
        start.index_put_((torch.tensor(WRITES[name][0][0]),), torch.tensor(WRITES[name][1]), accumulate)
        _same(expected, start)


def test_gradients_of_writes_by_indices():
    x, y = _numbers(oneflow, requires_grad=True), oneflow.ones(2, 2, requires_grad=True)
    made = x.index_put((oneflow.tensor([0, 2]), oneflow.tensor([1, -1])), y)
    (made * made).values().sum().backward()
    assert y.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    kept = [part.numpy() * 2 for part in _numbers(oneflow).unbind()]
    kept[0][1], kept[2][2] = 0, 0
    for a, b in zip(x.grad.unbind(), kept, strict=True):
        assert a.tolist() == b.tolist()


def test_writes_of_parts_and_columns():
    x = _numbers(oneflow)
    x[1] = 5.0
    x[:, :, 0] = 6.0
    x[2, 1:] = oneflow.tensor([8.0, 9.0])
    assert [part.tolist() for part in x.unbind()] == [
        [[6.0, 3.0], [6.0, 5.0]],
        [[6.0, 5.0]],
        [[6.0, 4.0], [8.0, 9.0], [8.0, 9.0]],
    ]


def test_indices_that_do_not_fit():
    for m in (oneflow, torch):
        with pytest.raises(RuntimeError, match="Some indices in the ragged dimension are out of bounds"):
            _numbers(m).index_put_((m.tensor([0, 1, 2]), m.tensor([1, 1, 1])), m.tensor(1.0))
    x = _numbers(oneflow)
    with pytest.raises(IndexError, match="dimension 0 with size 3"):
        x.index_put_((oneflow.tensor([3]), oneflow.tensor([0])), oneflow.tensor(1.0))
    with pytest.raises(NotImplementedError, match="tensors of numbers"):
        x.index_put_((oneflow.tensor([True, False, True]),), oneflow.tensor(1.0))
    with pytest.raises(NotImplementedError, match="layout jagged"):
        _bags(oneflow, "strided").index_put_((oneflow.tensor([0]), oneflow.tensor([0])), oneflow.tensor(1))
    _same(x, _numbers(torch))
