"""Jagged and keyed tensors against lists of Python, collections against dense bags of PyTorch."""

import itertools

import numpy as np
import oneflow
import pytest
import torch
from embedding.stores import options, sgd
from oneflow import one_embedding as oe

KEYS = ["a", "b", "c"]


def features(weighted=False, seed=0, rows=20):
    """A batch of four with lists of any length, and the same as lists."""
    rng = np.random.default_rng(seed)
    lists = {key: [rng.integers(0, rows, rng.integers(0, 4)).tolist() for _ in range(4)] for key in KEYS}
    lists["b"][0], lists["b"][3] = [], [3, 3, 1]
    values = [v for key in KEYS for row in lists[key] for v in row]
    lengths = [len(row) for key in KEYS for row in lists[key]]
    weights = oneflow.from_numpy(rng.random(len(values)).astype("float32")) if weighted else None
    made = oe.KeyedJaggedTensor.from_lengths_sync(
        KEYS, oneflow.tensor(values, dtype=oneflow.int64), oneflow.tensor(lengths), weights
    )
    return made, lists


def as_lists(jagged):
    return [row.tolist() for row in jagged.to_dense()]


def test_a_jagged_tensor_holds_lists():
    jagged = oe.JaggedTensor(oneflow.tensor([1, 2, 3, 4]), oneflow.arange(4) / 2, lengths=oneflow.tensor([1, 0, 3]))
    assert as_lists(jagged) == [[1], [], [2, 3, 4]]
    assert jagged.offsets().tolist() == [0, 1, 1, 4]
    assert oe.JaggedTensor(jagged.values(), offsets=jagged.offsets()).lengths().tolist() == [1, 0, 3]
    assert jagged.to_padded_dense(2, -1).tolist() == [[1, -1], [-1, -1], [2, 3]]
    assert jagged.to_padded_dense_weights().tolist() == [[0, 0, 0], [0, 0, 0], [0.5, 1, 1.5]]
    assert [w.tolist() for w in jagged.to_dense_weights()] == [[0.0], [], [0.5, 1.0, 1.5]]
    assert as_lists(oe.JaggedTensor.from_dense([oneflow.tensor([1, 2]), oneflow.tensor([3])])) == [[1, 2], [3]]
    dense = oneflow.tensor([[1, 2], [3, 4]])
    assert as_lists(oe.JaggedTensor.from_dense_lengths(dense, oneflow.tensor([1, 2]))) == [[1], [3, 4]]
    assert as_lists(oe.JaggedTensor.empty()) == []
    assert oe.JaggedTensor.empty().to_padded_dense().shape == (0, 0)


def test_a_keyed_jagged_tensor_holds_the_lists_of_each_key():
    made, lists = features(weighted=True)
    assert made.keys() == KEYS and made.stride() == 4
    assert {key: as_lists(part) for key, part in made.to_dict().items()} == lists
    assert made.length_per_key() == [sum(map(len, lists[key])) for key in KEYS]
    back = oe.KeyedJaggedTensor.from_offsets_sync(KEYS, made.values(), made.offsets(), made.weights())
    assert as_lists(back["b"]) == lists["b"] and back["c"].weights().tolist() == made["c"].weights().tolist()
    one, two = made.split([1, 2])
    assert one.keys() == ["a"] and as_lists(two["c"]) == lists["c"]
    turned = made.permute([2, 0])
    assert turned.keys() == ["c", "a"] and as_lists(turned["a"]) == lists["a"]
    assert turned["c"].weights().tolist() == made["c"].weights().tolist()
    joined = oe.KeyedJaggedTensor.concat([one, two])
    assert joined.keys() == KEYS and as_lists(joined["b"]) == lists["b"]
    assert as_lists(oe.KeyedJaggedTensor.from_jt_dict(made.to_dict())["b"]) == lists["b"]
    assert oe.KeyedJaggedTensor.empty().to_dict() == {} and made.permute([]).keys() == []


def test_a_keyed_tensor_finds_columns_by_key():
    one = oe.KeyedTensor(["a", "b"], [2, 1], oneflow.arange(6).reshape(2, 3))
    two = oe.KeyedTensor.from_tensor_list(["c"], [oneflow.tensor([[7], [8]])])
    assert one["b"].tolist() == [[2], [5]] and one.offset_per_key() == [0, 2, 3]
    groups = oe.KeyedTensor.regroup([one, two], [["c", "a"], ["b"]])
    assert [g.tolist() for g in groups] == [[[7, 0, 1], [8, 3, 4]], [[2], [5]]]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("stored", [False, True])
def test_bag_collections_are_dense_bags(tmp_path, weighted, pooling, stored):
    tables = [
        oe.EmbeddingBagConfig(20, 4, "t1", ["a", "b"], pooling=pooling),
        oe.EmbeddingBagConfig(20, 4, "t2", ["b", "c"], pooling=pooling),
    ]
    given, lists = features(weighted)
    ours = oe.EmbeddingBagCollection(tables, weighted, store_options=options(tmp_path) if stored else None)
    every = oneflow.arange(20)
    if stored:
        weights = [ours.store(every, oneflow.full((20,), i)).detach().numpy() for i in range(2)]
        optimizer = sgd(ours.store)
    else:
        assert sorted(ours.state_dict()) == ["embedding_bags.t1.weight", "embedding_bags.t2.weight"]
        weights = [p.detach().numpy().copy() for p in ours.parameters()]
        optimizer = oneflow.optim.SGD(ours.parameters(), lr=1.0)
    theirs = [torch.tensor(w, requires_grad=True) for w in weights]
    expected = []
    for key, i in [("a", 0), ("b", 0), ("b", 1), ("c", 1)]:
        ends = np.cumsum([0, *map(len, lists[key])])
        factors = torch.from_numpy(given[key].weights().numpy()) if weighted else None
        flat = torch.tensor([v for row in lists[key] for v in row], dtype=torch.int64)
        for start, end in itertools.pairwise(ends):
            rows = theirs[i][flat[start:end]]
            rows = rows * factors[start:end, None] if weighted else rows
            total = rows.sum(0)
            expected.append(total / max(end - start, 1) if pooling == "mean" else total)
    expected = torch.stack(expected).reshape(4, 4, 4).permute(1, 0, 2).reshape(4, 16)
    out = ours(given)
    assert out.keys() == ["a", "b@t1", "b@t2", "c"]
    np.testing.assert_allclose(out.values().detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    (out.values() ** 2).sum().backward()
    (expected**2).sum().backward()
    optimizer.step()
    for i, weight in enumerate(theirs):
        found = ours.store(every, oneflow.full((20,), i)) if stored else list(ours.parameters())[i]
        updated = (weight - weight.grad).detach().numpy()
        np.testing.assert_allclose(found.detach().numpy(), updated, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stored", [False, True])
def test_collections_give_the_rows_of_lists(tmp_path, stored):
    tables = [oe.EmbeddingConfig(20, 4, "t", KEYS)]
    given, lists = features()
    ours = oe.EmbeddingCollection(tables, store_options=options(tmp_path) if stored else None)
    weight = (ours.store(oneflow.arange(20)) if stored else ours.embeddings["t"].weight).detach()
    for key, part in ours(given).items():
        for row, ids in zip(part.to_dense(), lists[key], strict=True):
            assert oneflow.equal(row.detach(), weight[oneflow.tensor(ids, dtype=oneflow.int64)])


def test_mistakes_are_named(tmp_path):
    given, _ = features()
    one = [oe.EmbeddingBagConfig(5, 4, "t", ["a"])]
    for error, match, call in [
        (ValueError, "lengths and offsets", lambda: oe.JaggedTensor(oneflow.ones(2))),
        (ValueError, "weights", lambda: oe.JaggedTensor(oneflow.ones(2), oneflow.ones(3), oneflow.tensor([2]))),
        (ValueError, "no weights", lambda: given.weights()),
        (KeyError, "no key 'x'", lambda: given["x"]),
        (ValueError, "twice", lambda: oe.KeyedJaggedTensor(["a", "a"], oneflow.ones(2), lengths=oneflow.ones(2))),
        (ValueError, "lengths", lambda: oe.KeyedJaggedTensor(["a", "b"], oneflow.ones(3), lengths=oneflow.ones(3))),
        (ValueError, "segments", lambda: given.split([4])),
        (IndexError, "permute", lambda: given.permute([3])),
        (ValueError, "add up", lambda: oe.KeyedTensor(["a"], [2], oneflow.ones(2, 3))),
        (KeyError, "no tensor has", lambda: oe.KeyedTensor.regroup([], [["a"]])),
        (ValueError, "name", lambda: oe.EmbeddingBagCollection([*one, *one])),
        (ValueError, "feature_names", lambda: oe.EmbeddingCollection([oe.EmbeddingConfig(5, 4, "t")])),
        (
            ValueError,
            "sum or mean",
            lambda: oe.EmbeddingBagCollection([oe.EmbeddingBagConfig(5, 4, "t", ["a"], pooling="max")]),
        ),
        (
            ValueError,
            "one embedding_dim",
            lambda: oe.EmbeddingBagCollection(
                [*one, oe.EmbeddingBagConfig(5, 8, "u", ["b"])], store_options=options(tmp_path)
            ),
        ),
        (KeyError, "no key", lambda: oe.EmbeddingBagCollection([oe.EmbeddingBagConfig(5, 4, "t", ["x"])])(given)),
    ]:
        with pytest.raises(error, match=match):
            call()
