"""OneFlow's functions ``_C.one_embedding_*``: lookups and updates step by step are those of the modules."""

import numpy as np
import oneflow
import pytest
from embedding.stores import DIM, make, sgd
from oneflow import _C
from oneflow import one_embedding as oe


def test_steps_of_a_lookup_and_an_update_are_the_modules(tmp_path):
    embedding = make(tmp_path, size_factor=1)
    ids = oneflow.tensor([[7, 9], [7, 1]])
    expected = embedding(ids).detach()
    matrix, positions, n, unique, tables, inverse = _C.one_embedding_id_shuffle(ids, None, 1, "test")
    assert unique[: int(n)].tolist() == [7, 9, 1] and len(unique) == 4 and matrix.tolist() == [3]
    rows = _C.one_embedding_lookup(n, unique, tables, oneflow.float32, oneflow.float32, DIM, DIM, "test", "", "", 0)
    assert oneflow.equal(_C.one_embedding_embedding_shuffle(rows, matrix, inverse, positions, "test"), expected)
    grads = _C.one_embedding_embedding_gradient_shuffle(oneflow.ones(2, 2, DIM), matrix, inverse, positions, "test")
    assert grads[:, 0].tolist() == [2, 1, 1, 0]
    updated = _C.one_embedding_sgd_update(
        n, rows, grads, None, None, None, 0.5, 1.0, 0.0, 0.0, DIM, DIM, embedding_name="test"
    )
    _C.one_embedding_embedding_put(n, unique, updated, "test", DIM)
    after = embedding(oneflow.tensor([7, 9, 1])).detach()
    np.testing.assert_allclose(after, expected.reshape(-1, DIM)[[0, 1, 3]] - 0.5 * grads[:3], rtol=1e-6)
    with pytest.raises(ValueError, match="no embedding 'nobody'"):
        _C.one_embedding_fused_lookup(embedding.shadow, ids, None, oneflow.float32, "nobody", DIM, DIM, False, 1, "")


def test_fused_lookups_train_by_name(tmp_path):
    embedding = make(tmp_path)
    optimizer, ids = sgd(embedding), oneflow.tensor([1, 2])
    before = embedding(ids).detach()
    rows = _C.one_embedding_fused_lookup(embedding.shadow, ids, None, oneflow.float32, "test", DIM, DIM, False, 1, "")
    assert oneflow.equal(rows.detach(), before)
    _C.one_embedding_fused_lookup_grad(ids, oneflow.ones(2, DIM), "test", DIM, DIM)
    rows.sum().backward()
    optimizer.step()
    np.testing.assert_allclose(embedding(ids).detach(), before - 2, rtol=1e-6)


def test_unique_pairs():
    keys, values = oneflow.tensor([5, 5, 6, 5]), oneflow.tensor([0, 1, 0, 0], dtype=oneflow.int32)
    n, unique, tables, inverse = _C.one_embedding_unique_key_value_pair(keys, values, 2, "")
    assert (int(n), unique[:3].tolist(), tables[:3].tolist()) == (3, [5, 5, 6], [0, 1, 0])
    assert inverse.tolist() == [0, 1, 2, 0] and inverse.dtype is oneflow.int32
    n, _, tables, _ = _C.one_embedding_unique_key_value_pair(oneflow.tensor([[5, 5], [5, 6]]), None, 2, "")
    assert (int(n), tables[: int(n)].tolist()) == (3, [0, 1, 1])


RULES = {
    "sgd": (lambda p: oneflow.optim.SGD(p, lr=0.1, weight_decay=0.2), 1, {"weight_decay": 0.2}),
    "sgd momentum": (lambda p: oneflow.optim.SGD(p, lr=0.1, momentum=0.9), 2, {"momentum": 0.9}),
    "adam": (lambda p: oneflow.optim.AdamW(p, lr=0.1, weight_decay=0.2), 3, {"weight_decay": 0.2}),
    "adagrad": (lambda p: oneflow.optim.Adagrad(p, lr=0.1, lr_decay=0.5), 2, {"lr_decay": 0.5}),
    "ftrl": (
        lambda p: oe.Ftrl(p, lr=0.1, lambda1=0.05, lambda2=0.1, beta=0.5, lr_power=0.5, weight_decay=0.1),
        3,
        {"lambda1": 0.05, "lambda2": 0.1, "beta": 0.5, "lr_power": 0.5, "weight_decay": 0.1},
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_updates_are_those_of_a_store(tmp_path, rule):
    make_optimizer, size_factor, numbers = RULES[rule]
    embedding = make(tmp_path, size_factor=size_factor)
    optimizer = oe.Optimizer(make_optimizer(embedding.parameters()), [embedding])
    ids = oneflow.arange(5)
    rows = oneflow.zeros(6, size_factor * DIM)
    rows[:5, :DIM] = embedding(ids).detach()
    if rule == "ftrl":
        rows[:5, DIM : 2 * DIM] = 0.1
    name, n = rule.split()[0], oneflow.tensor([5])
    for step in range(3):
        grads = 2 * rows[:, :DIM]
        given = dict(numbers)
        if name == "adam":
            given |= {"bias_correction1_val": 1 - 0.9 ** (step + 1), "bias_correction2_val": 1 - 0.999 ** (step + 1)}
        if name == "adagrad":
            given |= {"train_step_val": step}
        update = getattr(_C, f"one_embedding_{name}_update")
        sizes = {"line_size": size_factor * DIM, "embedding_size": DIM}
        skipped = update(n, rows, grads, skip_if=oneflow.tensor([1]), learning_rate_val=0.1, **given, **sizes)
        assert oneflow.equal(skipped, rows)
        by_tensor = {"learning_rate": oneflow.tensor([0.1]), "down_scale_by_tensor": oneflow.tensor([4.0])}
        rows = update(n, rows, grads, **by_tensor, scale=4.0, **given, **sizes)
        (embedding(ids) ** 2).sum().backward()
        optimizer.step()
    assert (rows[5] == 0).all(), "rows that do not count stay"
    np.testing.assert_allclose(rows[:5, :DIM].numpy(), embedding(ids).detach().numpy(), rtol=2e-4, atol=2e-6)
    with pytest.raises(ValueError, match="sizes"):
        update(n, rows, grads, line_size=3, embedding_size=DIM)
