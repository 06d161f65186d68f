"""OneEmbedding against dense tables of PyTorch, over sizes of the cache, reopened stores and killed processes."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import oneflow
import pytest
import torch
from oneflow import one_embedding as oe
from oneflow.one_embedding._options import ROW_OVERHEAD

DIM = 8
N_ROWS = 300


def make(
    path, dim=DIM, tables=None, budget_mb=64, size_factor=3, cls=oe.MultiTableEmbedding, key=oneflow.int64, **kwargs
):
    options = oe.make_cached_ssd_store_options(budget_mb, str(path), size_factor=size_factor)
    return cls("test", dim, oneflow.float32, key, tables, options, **kwargs)


def uniform(low=-0.5, high=0.5):
    return oe.make_table_options(oe.make_uniform_initializer(low, high))


def rows_of(embedding, n=N_ROWS):
    with oneflow.no_grad():
        return embedding(oneflow.arange(n, dtype=embedding.key_type)).numpy()


def batches(n_steps, everything, seed=0):
    """Ids with duplicates; every row in each step where an optimizer moves rows without a gradient too."""
    rng = np.random.default_rng(seed)
    for _ in range(n_steps):
        ids = rng.zipf(1.3, 200) % N_ROWS
        yield np.concatenate([ids, rng.permutation(N_ROWS)]) if everything else ids


# Optimizer here, in PyTorch, and whether its rows without a gradient stay.
RULES = {
    "sgd": (lambda m, p: m.optim.SGD(p, lr=0.1), True),
    "sgd_decay": (lambda m, p: m.optim.SGD(p, lr=0.1, weight_decay=0.01), False),
    "momentum": (lambda m, p: m.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01), False),
    "nesterov": (lambda m, p: m.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True), False),
    "maximize": (lambda m, p: m.optim.SGD(p, lr=0.1, maximize=True), True),
    "adam": (lambda m, p: m.optim.Adam(p, lr=0.01, weight_decay=0.1), False),
    "adamw": (lambda m, p: m.optim.AdamW(p, lr=0.01, weight_decay=0.1), False),
    "adagrad": (lambda m, p: m.optim.Adagrad(p, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.1), True),
    "adagrad_decay": (lambda m, p: m.optim.Adagrad(p, lr=0.1, weight_decay=0.1), False),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("cache", ["1 %", "all"])
def test_training_equals_a_dense_table_of_torch(tmp_path, rule, cache):
    make_optimizer, rows_stay = RULES[rule]
    # The smallest store keeps 64 rows; a table of many more evicts them all the time.
    embedding = make(tmp_path, tables=[uniform()], budget_mb=1e-6 if cache == "1 %" else 64)
    dense = torch.nn.Embedding(N_ROWS, DIM)
    with torch.no_grad():
        dense.weight.copy_(torch.from_numpy(rows_of(embedding)))
    optimizer = oe.Optimizer(make_optimizer(oneflow, embedding.parameters()), [embedding])
    theirs = make_optimizer(torch, dense.parameters())
    target = np.random.default_rng(1).normal(size=(N_ROWS, DIM)).astype("float32")
    for ids in batches(8, not rows_stay):
        loss = ((embedding(oneflow.from_numpy(ids)) - oneflow.from_numpy(target[ids])) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected = ((dense(torch.from_numpy(ids)) - torch.from_numpy(target[ids])) ** 2).sum()
        theirs.zero_grad()
        expected.backward()
        theirs.step()
        # Sums in another order: the loss of a thousand squares differs in its last digits.
        assert float(loss.detach()) == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(rows_of(embedding), dense.weight.detach().numpy(), rtol=2e-4, atol=2e-6)
    assert (embedding.statistics()["evictions"] > 0) == (cache == "1 %")


def test_adam_is_sparse_adam_where_rows_have_no_gradient(tmp_path):
    embedding = make(tmp_path, tables=[uniform()])
    dense = torch.nn.Embedding(N_ROWS, DIM, sparse=True)
    with torch.no_grad():
        dense.weight.copy_(torch.from_numpy(rows_of(embedding)))
    # SparseAdam adds eps before the second moment's correction: a negligible one makes both agree.
    optimizer = oe.Optimizer(oneflow.optim.Adam(embedding.parameters(), lr=0.01, eps=1e-20), [embedding])
    theirs = torch.optim.SparseAdam(dense.parameters(), lr=0.01, eps=1e-20)
    for ids in batches(8, False):
        (embedding(oneflow.from_numpy(ids)) ** 2).sum().backward()
        optimizer.step()
        theirs.zero_grad()
        (dense(torch.from_numpy(ids)) ** 2).sum().backward()
        theirs.step()
    np.testing.assert_allclose(rows_of(embedding), dense.weight.detach().numpy(), rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("name", ["Ftrl", "RowWiseAdagrad"])
def test_optimizers_without_a_twin_in_torch_equal_their_dense_form(tmp_path, name):
    options = {"Ftrl": {"lambda1": 0.05, "lambda2": 0.1, "beta": 0.5, "lr_power": 0.5}}.get(name, {})
    embedding = make(tmp_path, tables=[uniform()])
    dense = oneflow.nn.Parameter(oneflow.from_numpy(rows_of(embedding)).clone())
    optimizer = oe.Optimizer(getattr(oe, name)(embedding.parameters(), lr=0.1, **options), [embedding])
    theirs = getattr(oe, name)([dense], lr=0.1, **options)
    for ids in batches(5, True):
        ids = oneflow.from_numpy(ids)
        (embedding(ids) ** 2).sum().backward()
        optimizer.step()
        theirs.zero_grad()
        (dense[ids] ** 2).sum().backward()
        theirs.step()
    np.testing.assert_allclose(rows_of(embedding), dense.detach().numpy(), rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("power", [-0.2, 0.5])
def test_ftrl_of_rows_is_the_rule_that_oneflow_states(tmp_path, power):
    """By the formula in float64: unlike that of a dense parameter, the decay of rows is apart from the gradient."""
    embedding = make(tmp_path, tables=[uniform()])
    want = rows_of(embedding).astype(np.float64)
    squares, z = np.full_like(want, 0.25), np.zeros_like(want)
    options = {"lambda1": 0.05, "lambda2": 0.1, "beta": 0.5, "weight_decay": 0.3, "lr_power": power}
    rule = oe.Ftrl(embedding.parameters(), lr=0.1, initial_accumulator_value=0.25, **options)
    optimizer = oe.Optimizer(rule, [embedding])
    for ids in batches(5, False):
        (embedding(oneflow.from_numpy(ids)) ** 2).sum().backward()
        optimizer.step()
        rows, counts = np.unique(ids, return_counts=True)
        w, g = want[rows], 2 * want[rows] * counts[:, None]
        total = squares[rows] + g * g
        z[rows] += g - (total**power - squares[rows] ** power) / 0.1 * w
        squares[rows] = total
        target = (np.sign(z[rows]) * 0.05 - z[rows]) / ((0.5 + total**power) / 0.1 + 0.1) - 0.1 * 0.3 * w
        want[rows] = np.where(np.abs(z[rows]) < 0.05, 0.0, target)
    np.testing.assert_allclose(rows_of(embedding), want, rtol=2e-4, atol=2e-6)


def test_the_cache_changes_no_bit(tmp_path):
    n, results = 6400, []
    for i, share in enumerate([0.01, 0.1, 1.0]):
        row_bytes = 4 * 3 * DIM + ROW_OVERHEAD
        embedding = make(tmp_path / str(i), tables=[uniform()], budget_mb=share * n * row_bytes * 1.1 / (1 << 20))
        optimizer = oe.Optimizer(oneflow.optim.Adam(embedding.parameters(), lr=0.01), [embedding])
        rng = np.random.default_rng(3)
        for _ in range(12):
            ids = oneflow.from_numpy(rng.zipf(1.1, 1500) % n)
            (embedding(ids) ** 3).sum().backward()
            optimizer.step()
        results.append((rows_of(embedding, n), embedding.statistics()))
    assert results[0][1]["reads"] > results[1][1]["reads"] > 0
    assert results[2][1]["reads"] == results[2][1]["evictions"] == 0
    for rows, _ in results[:2]:
        np.testing.assert_array_equal(rows, results[2][0])


def test_tables_and_columns_have_their_own_rows(tmp_path):
    tables = [
        oe.make_table([oe.make_column_options(oe.make_constant_initializer(v)), oe.make_column_options(rest)])
        for v, rest in [
            (1, oe.make_normal_initializer()),
            (2, oe.make_trunc_normal_initializer(std=0.1, a=-0.1, b=0.1)),
        ]
    ]
    embedding = make(tmp_path, [3, 5], tables, cls=oe.MultiTableMultiColumnEmbedding, size_factor=1)
    optimizer = oe.Optimizer(oneflow.optim.SGD(embedding.parameters(), lr=1.0), [embedding])
    same = embedding(oneflow.tensor([[7, 7], [8, 7]]))
    assert same.shape == (2, 2, 8)
    assert (same[:, 0, :3] == 1).all() and (same[:, 1, :3] == 2).all()
    assert same[:, 1, 3:].abs().max() <= 0.1 < same[:, 0, 3:].abs().max()
    ids, table_ids = oneflow.tensor([7, 7, 8]), oneflow.tensor([1, 0, 1], dtype=oneflow.int32)
    embedding(ids, table_ids)[0].sum().backward()
    optimizer.step()
    after = embedding(oneflow.tensor([[7, 7], [8, 8]])).detach()
    assert (after[0, 1, :3] == 1).all() and (after[0, 0, :3] == 1).all() and (after[1, 1, :3] == 2).all()
    # Whoever has a gradient has a row, also if the gradient is zero.
    assert [k.tolist() for k in embedding.keys()] == [[0, 1, 1], [7, 7, 8]]


@pytest.mark.parametrize("key", [oneflow.int32, oneflow.int64, oneflow.uint64])
def test_keys_of_each_type(tmp_path, key):
    info = np.iinfo(str(key).split(".")[-1])
    ids = oneflow.from_numpy(np.array([0, 1, info.max, info.min, info.max - 1], dtype=info.dtype))
    embedding = make(tmp_path, key=key, padding_idx=info.max)
    optimizer = oe.Optimizer(oneflow.optim.SGD(embedding.parameters(), lr=1.0), [embedding])
    before = embedding(ids).detach()
    assert (before[2] == 0).all() and (before[3] != 0).all()
    embedding(ids).sum().backward()
    optimizer.step()
    after = embedding(ids).detach()
    times = 2.0 if info.min == 0 else 1.0  # Unsigned keys have 0 twice.
    expected = [times, 1.0, 0.0, times, 1.0]
    np.testing.assert_allclose((before - after)[:, 0].numpy(), expected, atol=1e-6)
    assert embedding.statistics()["rows"] == 4 - (info.min == 0)


def test_initial_weights_depend_on_seed_and_key_alone(tmp_path):
    first, other = make(tmp_path / "a", seed=5), make(tmp_path / "b", seed=6)
    again = make(tmp_path / "c", seed=5, budget_mb=1e-6)
    backwards = again(oneflow.arange(N_ROWS).flip(0)).detach().numpy()[::-1]
    np.testing.assert_array_equal(rows_of(first), backwards)
    assert (rows_of(first) != rows_of(other)).mean() > 0.99
    assert rows_of(first).std() == pytest.approx(0.05, rel=0.05)


def test_gradients_of_several_lookups_and_backwards_are_one_update(tmp_path):
    embedding = make(tmp_path, tables=[oe.make_table(oe.make_constant_initializer(0))])
    optimizer = oe.Optimizer(oneflow.optim.Adam(embedding.parameters(), lr=0.1), [embedding])
    one, two = oneflow.tensor([1, 2, 1]), oneflow.tensor([[2], [3]])
    (embedding(one).sum() + embedding(two).sum()).backward()
    embedding(one).sum().backward()
    optimizer.step()
    # Adam's first step is the learning rate, whatever the gradient: once for each row.
    np.testing.assert_allclose(rows_of(embedding, 5)[:, 0], [0, -0.1, -0.1, -0.1, 0], rtol=1e-5)
    embedding(one).sum().backward()
    optimizer.zero_grad()
    before = rows_of(embedding)
    optimizer.step()
    np.testing.assert_array_equal(rows_of(embedding), before)


@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize(
    ("n_kept", "loss_of"),
    [
        (1, lambda rows, weights: rows.sum()),
        (6, lambda rows, weights: (rows.sum(1) * weights).sum()),
        (1, lambda rows, weights: (rows.mean((0, 1)) * weights[0]).sum()),
        (30, lambda rows, weights: (rows * weights[:, None]).sum()),
    ],
)
def test_expanded_gradients_are_those_of_their_copies(tmp_path, n_kept, loss_of, padding):
    rng = np.random.default_rng(0)
    ids = oneflow.from_numpy(rng.integers(0, 12, (6, 5)))
    weights = oneflow.from_numpy(rng.normal(size=(6, DIM)).astype(np.float32))
    rows, norms, kept = [], [], []
    for copied in (False, True):
        embedding = make(tmp_path / str(copied), padding_idx=padding)
        optimizer = oe.Optimizer(oneflow.optim.Adam(embedding.parameters(), lr=0.1), [embedding])
        for _ in range(3):
            optimizer.zero_grad()
            found = embedding(ids)
            if copied:
                found.register_hook(lambda grad: grad.contiguous())
            loss_of(found, weights).backward()
            kept.append(sum(grad.numel() for _, grad, _ in embedding._pending))
            norms.append(optimizer.clip_grad_norm_(0.5).item())
            optimizer.step()
        rows.append(rows_of(embedding, 12))
    np.testing.assert_array_equal(*rows)
    np.testing.assert_array_equal(norms[:3], norms[3:])
    assert kept == [n_kept * DIM] * 3 + [ids.numel() * DIM] * 3


def test_a_gradient_that_a_parameter_shares_is_clipped_once(tmp_path):
    embedding = make(tmp_path, size_factor=1)
    offset, ids = oneflow.nn.Parameter(oneflow.zeros(4, DIM)), oneflow.arange(4)
    weights = oneflow.arange(4.0 * DIM).reshape(4, DIM)
    sgd = oneflow.optim.SGD([offset, *embedding.parameters()], lr=1.0)
    optimizer = oe.Optimizer(sgd, [embedding])
    before = rows_of(embedding, 4)
    ((embedding(ids) + offset) * weights).sum().backward()
    optimizer.clip_grad_norm_(1.0)
    optimizer.step()
    want = weights.numpy() / np.sqrt(2 * (weights.numpy() ** 2).sum())
    np.testing.assert_allclose(offset.detach().numpy(), -want, rtol=1e-5)
    np.testing.assert_allclose(before - rows_of(embedding, 4), want, rtol=1e-4, atol=1e-6)


def test_evaluation_inserts_nothing(tmp_path):
    embedding = make(tmp_path)
    with oneflow.no_grad():
        assert not embedding(oneflow.arange(100)).requires_grad
    stats = embedding.statistics()
    assert stats["rows"] == stats["rows_in_memory"] == 0
    # A lookup that is trained brings initial values into memory, which are no rows before their update.
    embedding(oneflow.arange(100))
    assert embedding.statistics()["rows"] == len(embedding.keys()[1]) == 0


def test_a_step_that_a_scaler_skips_changes_nothing(tmp_path):
    embedding = make(tmp_path, size_factor=1)
    optimizer = oe.Optimizer(oneflow.optim.SGD(embedding.parameters(), lr=1.0), [embedding])
    scaler = oneflow.amp.GradScaler("cpu", init_scale=1024.0)
    ids, before = oneflow.tensor([1, 2]), rows_of(embedding)
    for unscale in (False, True):
        scaler.scale((embedding(ids) * float("inf")).sum()).backward()
        if unscale:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        np.testing.assert_array_equal(rows_of(embedding), before)
        assert embedding.statistics()["rows"] == 0
    scaler.scale(embedding(ids).sum()).backward()
    scaler.step(optimizer)
    np.testing.assert_allclose(rows_of(embedding)[1:3], before[1:3] - 1, rtol=1e-5)


def test_schedules_and_state_dicts_reach_the_rows(tmp_path):
    def trained(path, interrupt):
        embedding = make(path)
        optimizer = oe.Optimizer(oneflow.optim.Adam(embedding.parameters(), lr=0.1), [embedding])
        scheduler = oneflow.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        for i, ids in enumerate(batches(6, False)):
            if interrupt and i == 3:
                saved, schedule = optimizer.state_dict(), scheduler.state_dict()
                embedding.save_snapshot("middle")
                embedding.close()
                embedding = make(path)
                optimizer = oe.Optimizer(oneflow.optim.Adam(embedding.parameters(), lr=0.1), [embedding])
                scheduler = oneflow.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
                optimizer.load_state_dict(saved)
                scheduler.load_state_dict(schedule)
                embedding.load_snapshot("middle")
            (embedding(oneflow.from_numpy(ids)) ** 2).sum().backward()
            optimizer.step()
            scheduler.step()
        return rows_of(embedding)

    np.testing.assert_array_equal(trained(tmp_path / "a", False), trained(tmp_path / "b", True))


def test_snapshots_and_reopened_stores(tmp_path):
    embedding = make(tmp_path, size_factor=1, budget_mb=1e-6)
    optimizer = oe.Optimizer(oneflow.optim.SGD(embedding.parameters(), lr=1.0), [embedding])
    states = {}
    for name in ("one", "two"):
        embedding(oneflow.arange(N_ROWS)).sum().backward()
        optimizer.step()
        embedding.save_snapshot(name)
        states[name] = rows_of(embedding)
    embedding.load_snapshot("one")
    np.testing.assert_array_equal(rows_of(embedding), states["one"])
    assert embedding.snapshots() == ["one", "two"] and embedding.verify() == N_ROWS
    with pytest.raises(ValueError, match="no snapshot"):
        embedding.load_snapshot("three")
    with pytest.raises(RuntimeError, match="in use"):
        make(tmp_path, size_factor=1)
    del optimizer
    embedding.close()
    with pytest.raises(RuntimeError, match="closed"):
        rows_of(embedding)
    with pytest.raises(ValueError, match="state"):
        make(tmp_path, size_factor=2)
    with pytest.raises(ValueError, match="initializers"):
        make(tmp_path, size_factor=1, tables=[uniform()])
    again = make(tmp_path, size_factor=1)
    np.testing.assert_array_equal(rows_of(again), states["one"])
    again.remove_snapshot("two")
    assert again.remove(oneflow.arange(10)) == 10 and again.statistics()["rows"] == N_ROWS - 10
    # A deleted module commits.
    del again
    gc.collect()
    assert make(tmp_path, size_factor=1).statistics()["rows"] == N_ROWS - 10


CHILD = """
    import sys
    import oneflow
    from oneflow import one_embedding as oe

    options = oe.make_cached_ssd_store_options(1e-6, sys.argv[1])
    embedding = oe.MultiTableEmbedding("kill", 4, oneflow.float32, oneflow.int64, None, options,
                                       oe.make_constant_initializer(0))
    optimizer = oe.Optimizer(oneflow.optim.SGD(embedding.parameters(), lr=1.0), [embedding])
    for step in range(1, 100000):
        (-embedding(oneflow.arange(2000)).sum()).backward()
        optimizer.step()
        print(step, "before", flush=True)
        embedding.commit()
        print(step, "after", flush=True)
"""


def trained(path):
    embedding = make(path)
    optimizer = oe.Optimizer(oneflow.optim.SGD(embedding.parameters(), lr=0.1), [embedding])
    embedding(oneflow.arange(5)).sum().backward()
    optimizer.step()
    return embedding


def test_a_removed_folder_is_no_error_at_the_end(tmp_path):
    embedding = trained(tmp_path / "store")
    shutil.rmtree(tmp_path / "store")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del embedding
        gc.collect()
    assert caught == []


def test_rows_that_cannot_be_committed_at_the_end_are_a_warning(tmp_path, monkeypatch):
    def fails(store):
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(oe._modules, "_commit_and_close", fails)
    embedding = trained(tmp_path / "store")
    with pytest.warns(UserWarning, match="were not committed: the disk is full"):
        del embedding
        gc.collect()


def test_closing_a_removed_folder_raises(tmp_path):
    embedding = trained(tmp_path / "store")
    shutil.rmtree(tmp_path / "store")
    with pytest.raises((RuntimeError, OSError)):
        embedding.close()
    embedding.close()


def test_a_killed_process_leaves_its_last_epoch(tmp_path):
    start = 0
    for n_lines in (2, 7, 12):
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(CHILD), str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        lines = [child.stdout.readline() for _ in range(n_lines)]
        os.kill(child.pid, signal.SIGKILL)
        with child:
            rest = child.stdout.read().splitlines()
        seen = [line.split() for line in [*lines, *rest] if len(line.split()) == 2]
        options = oe.make_cached_ssd_store_options(1, str(tmp_path))
        initial = oe.make_constant_initializer(0)
        embedding = oe.MultiTableEmbedding("kill", 4, oneflow.float32, oneflow.int64, None, options, initial)
        rows = rows_of(embedding, 2000)
        assert (rows == rows[0, 0]).all(), "a whole epoch"
        committed = max((int(step) for step, when in seen if when == "after"), default=0)
        assert start + committed <= rows[0, 0] <= start + committed + 1
        assert embedding.verify() == (2000 if rows[0, 0] else 0)
        start = rows[0, 0]
        embedding.close()


def test_mistakes_are_named(tmp_path):
    embedding = make(tmp_path, tables=[uniform(), uniform()], size_factor=1)
    ids = oneflow.tensor([[1, 2]])
    for error, match, call in [
        (TypeError, "key_type", lambda: embedding(ids.int())),
        (ValueError, "last dimension", lambda: embedding(oneflow.tensor([1, 2, 3]))),
        (ValueError, "shape", lambda: embedding(ids, oneflow.tensor([1]))),
        (IndexError, "no table 2", lambda: embedding(ids, oneflow.tensor([[0, 2]]))),
        (IndexError, "no table", lambda: embedding(ids, oneflow.tensor([[0, -1]]))),
        (
            NotImplementedError,
            "float32",
            lambda: oe.MultiTableEmbedding("x", 4, oneflow.float64, oneflow.int64, None, {}),
        ),
        (TypeError, "key_type", lambda: oe.MultiTableEmbedding("x", 4, oneflow.float32, oneflow.int16, None, {})),
        (TypeError, "MultiColumn", lambda: make(tmp_path / "x", [4, 4])),
        (ValueError, "positive", lambda: make(tmp_path / "x", 0)),
        (ValueError, "columns", lambda: make(tmp_path / "x", tables=[oe.make_table([])])),
        (ValueError, "initializer", lambda: make(tmp_path / "x", tables=[{"initializer": {"type": "zipf"}}])),
        (ValueError, "no distribution", lambda: make(tmp_path / "x", tables=[uniform(1, 0)])),
        (ValueError, "greater than 0", lambda: oe.make_cached_ssd_store_options(0, "x")),
        (ValueError, "capacity", lambda: oe.make_device_mem_store_options("x", 0)),
        (TypeError, "initializer", lambda: oe.make_table(3)),
        (
            NotImplementedError,
            "RMSprop",
            lambda: oe.Optimizer(oneflow.optim.RMSprop(embedding.parameters()), [embedding]),
        ),
        (ValueError, "no group", lambda: oe.Optimizer(oneflow.optim.SGD([oneflow.ones(1)], lr=1), [embedding])),
    ]:
        with pytest.raises(error, match=match):
            call()
    embedding(ids).sum().backward()
    with pytest.raises(ValueError, match="Optimizer"):
        embedding(ids)
    adam = oe.Optimizer(oneflow.optim.Adam(embedding.parameters()), [embedding])
    with pytest.raises(ValueError, match="size_factor of at least 3"):
        adam.step()
    amsgrad = oe.Optimizer(oneflow.optim.Adam(embedding.parameters(), amsgrad=True), [embedding])
    with pytest.raises(NotImplementedError, match="amsgrad"):
        amsgrad.step()


@pytest.mark.parametrize("n", [0, 1])
def test_empty_batches_and_only_padding(tmp_path, n):
    embedding = make(tmp_path, padding_idx=0)
    optimizer = oe.Optimizer(oneflow.optim.Adam(embedding.parameters()), [embedding])
    out = embedding(oneflow.zeros(3, n, dtype=oneflow.int64))
    assert out.shape == (3, n, DIM) and (out == 0).all()
    out.sum().backward()
    optimizer.step()
    assert embedding.statistics()["rows"] == 0
