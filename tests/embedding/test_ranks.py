"""Stores of several ranks against one: equal rows, payloads in fewer bytes, snapshots of another number of ranks."""

import numpy as np
import oneflow
import pytest
from embedding.stores import DIM, make
from oneflow import one_embedding as oe

N = 300
TABLES = [oe.make_table(oe.make_uniform_initializer(-0.5, 0.5)), oe.make_table(oe.make_normal_initializer(0, 0.1))]


def batches(n_ranks, n_steps=4):
    """Ids of all ranks in each step: (ranks, ids, tables); duplicates within ranks and between them."""
    rng = np.random.default_rng(7)
    return [rng.zipf(1.3, (n_ranks, 60, 2)) % N for _ in range(n_steps)]


def train(path, n_ranks, rule=oneflow.optim.Adam, **kwargs):
    """Train on the same samples on any number of ranks; return lookups by sample, rows, their number."""

    def rank_program():
        rank = oneflow.distributed.get_rank()
        embedding = make(path, tables=TABLES, size_factor=3, **kwargs)
        optimizer = oe.Optimizer(rule(embedding.parameters(), lr=0.05), [embedding])
        seen = []
        for ids in batches(4):
            mine = oneflow.from_numpy(np.concatenate(np.split(ids, n_ranks)[rank]))
            rows = embedding(mine)
            seen.append(rows.detach().numpy())
            # A mean over all samples is the mean over ranks of the ranks' means.
            (rows**2).mean().backward()
            optimizer.step()
        with oneflow.no_grad():
            every = embedding(oneflow.arange(N)[:, None].expand(-1, 2).contiguous()).numpy()
        embedding.save_snapshot("end")
        n_rows = embedding.statistics()["rows"]
        embedding.close()
        return np.concatenate([s.reshape(-1, 2, DIM) for s in seen]), every, n_rows

    return oneflow.testing.run_ranks(n_ranks, rank_program, timeout=60.0)


@pytest.mark.parametrize("rule", [oneflow.optim.SGD, oneflow.optim.Adam])
def test_rows_of_any_number_of_ranks_are_those_of_one(tmp_path, rule):
    ((_, alone, n_rows),) = train(tmp_path / "1", 1, rule)
    for n_ranks in (2, 4):
        results = train(tmp_path / str(n_ranks), n_ranks, rule)
        for _, every, _ in results:
            np.testing.assert_allclose(every, alone, rtol=1e-4, atol=1e-6)
        counts = [n for _, _, n in results]
        assert sum(counts) == n_rows and min(counts) > 0.6 * n_rows / n_ranks, "each row has one owner"


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize(
    ("n_ranks", "shape", "sbp"),
    [
        (2, (2,), "S"),
        (2, (2,), "B"),
        (3, (3,), "S"),
        (4, (2, 2), "SB"),
        (4, (2, 2), "BS"),
        (4, (2, 2), "BB"),
    ],
)
def test_global_ids_give_global_rows_and_one_gradient(tmp_path, n_ranks, shape, sbp, average):
    """Rows beside dense global parameters: the same numbers as on one rank."""

    def train_on(path, as_global):
        embedding = make(path, tables=TABLES, average_gradients=average)
        weight = oneflow.nn.Parameter(as_global(oneflow.linspace(-1, 1, DIM), "B" * len(shape)))
        sgd = oneflow.optim.SGD([weight, *embedding.parameters()], lr=0.5)
        optimizer = oe.Optimizer(sgd, [embedding])
        for ids in batches(3):
            whole = oneflow.from_numpy(np.concatenate(ids))
            rows = embedding(as_global(whole, sbp))
            assert rows.shape == (*whole.shape, DIM)
            optimizer.zero_grad()
            ((rows * weight) ** 2).mean().backward()
            optimizer.step()
        with oneflow.no_grad():
            every = embedding(oneflow.arange(N)[:, None].expand(-1, 2).contiguous()).numpy()
        return every, (weight.to_local() if weight.is_global else weight).detach().numpy()

    placement = np.arange(n_ranks).reshape(shape)

    def on_ranks():
        where = oneflow.placement("cpu", placement)

        def as_global(tensor, sbp):
            parts = [oneflow.sbp.split(0) if s == "S" else oneflow.sbp.broadcast for s in sbp]
            return tensor.to_global(placement=where, sbp=[oneflow.sbp.broadcast] * len(parts)).to_global(sbp=parts)

        return train_on(tmp_path / "ranks", as_global)

    want = train_on(tmp_path / "one", lambda tensor, sbp: tensor)
    for found in oneflow.testing.run_ranks(n_ranks, on_ranks, timeout=60.0):
        for ours, theirs in zip(found, want, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("n_ranks", [2, 3])
def test_rows_train_beside_a_data_parallel_model(tmp_path, n_ranks):
    """Rows by owner, dense parameters by DistributedDataParallel: the same numbers as on one rank."""

    class Scores(oneflow.nn.Module):
        def __init__(self, embedding):
            super().__init__()
            oneflow.manual_seed(0)
            self.embedding, self.head = embedding, oneflow.nn.Linear(2 * DIM, 1)

        def forward(self, ids):
            return self.head(self.embedding(ids).flatten(1))

    def train_on(path, wrap):
        model = Scores(make(path, tables=TABLES, size_factor=3))
        adam = oneflow.optim.Adam(model.parameters(), lr=0.05)
        optimizer = oe.Optimizer(adam, [model.embedding])
        wrapped, rank = wrap(model), oneflow.distributed.get_rank()
        n = oneflow.distributed.get_world_size()
        for ids in batches(6):
            optimizer.zero_grad()
            (wrapped(oneflow.from_numpy(np.concatenate(np.split(ids, n)[rank]))) ** 2).mean().backward()
            optimizer.step()
        with oneflow.no_grad():
            every = model.embedding(oneflow.arange(N)[:, None].expand(-1, 2).contiguous()).numpy()
        return every, model.head.weight.detach().numpy()

    def on_ranks():
        return train_on(tmp_path / "ranks", oneflow.nn.parallel.DistributedDataParallel)

    want = train_on(tmp_path / "one", lambda model: model)
    for found in oneflow.testing.run_ranks(n_ranks, on_ranks, timeout=60.0):
        for ours, theirs in zip(found, want, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


def test_global_ids_that_do_not_fit_are_refused(tmp_path):
    where = oneflow.placement("cpu", [0])
    embedding = make(tmp_path / "rows", tables=TABLES)
    ids = oneflow.tensor([[1, 2]]).to_global(placement=where, sbp=oneflow.sbp.broadcast)
    tables = oneflow.tensor([[0, 1]])
    with pytest.raises(ValueError, match="table_ids must be a global tensor"):
        embedding(ids, tables)
    with pytest.raises(ValueError, match="split or broadcast"):
        embedding(oneflow.tensor([[1, 2]]).to_global(placement=where, sbp=oneflow.sbp.partial_sum))
    with pytest.raises(NotImplementedError, match="to_local"):
        embedding.prefetch(ids)
    bag = oe.EmbeddingBag("bag", DIM, oe.make_cached_ssd_store_options(16, str(tmp_path / "bag")))
    with pytest.raises(NotImplementedError, match="to_local"):
        bag(ids)


def test_payloads_are_close_and_halves_exact_in_their_digits(tmp_path):
    (_, alone, _), _ = train(tmp_path / "f", 2, oneflow.optim.SGD)
    for payload, error in [("float16", 2e-3), ("bfloat16", 1e-2), ("int8", 2e-2)]:
        (_, every, _), _ = train(tmp_path / payload, 2, oneflow.optim.SGD, payload=payload)
        assert 0 < np.abs(every - alone).max() < error, payload


def test_int8_rows_take_a_quarter_of_the_bytes(tmp_path, monkeypatch):
    from oneflow.one_embedding import _exchange

    real, sent = _exchange._all_to_all, {}

    def counted(rows, *counts):
        if rows.dtype is not oneflow.int64:
            sent[payload] = sent.get(payload, 0) + rows.numel() * rows.dtype.itemsize
        return real(rows, *counts)

    monkeypatch.setattr(_exchange, "_all_to_all", counted)
    for payload in ("float32", "int8"):
        train_wide(tmp_path / payload, payload)
    assert sent["int8"] <= 0.3 * sent["float32"]


def train_wide(path, payload):
    def rank_program():
        embedding = make(path, dim=32, payload=payload)
        optimizer = oe.Optimizer(oneflow.optim.SGD(embedding.parameters(), lr=0.1), [embedding])
        embedding(oneflow.arange(100)).sum().backward()
        optimizer.step()
        embedding.close()

    oneflow.testing.run_ranks(2, rank_program, timeout=60.0)


def test_a_snapshot_of_four_ranks_loads_on_three_and_on_one(tmp_path):
    saved = train(tmp_path, 4)
    expected, n_rows = saved[0][1], sum(s[2] for s in saved)

    def rank_program():
        embedding = make(tmp_path, tables=TABLES, size_factor=3)
        embedding.load_snapshot("end")
        with oneflow.no_grad():
            every = embedding(oneflow.arange(N)[:, None].expand(-1, 2).contiguous()).numpy()
        n = embedding.statistics()["rows"]
        with pytest.raises(ValueError, match="no snapshot"):
            embedding.load_snapshot("other")
        embedding.close()
        return every, n

    for n_ranks in (3, 1):
        results = oneflow.testing.run_ranks(n_ranks, rank_program, timeout=60.0)
        assert sum(n for _, n in results) == n_rows
        for every, _ in results:
            np.testing.assert_array_equal(every, expected)


def test_ranks_with_only_padding_and_ranks_without_ids_take_part(tmp_path):
    def rank_program():
        rank = oneflow.distributed.get_rank()
        embedding = make(tmp_path, tables=TABLES[:1], padding_idx=0)
        optimizer = oe.Optimizer(oneflow.optim.SGD(embedding.parameters(), lr=1.0), [embedding])
        ids = oneflow.tensor([[], [0, 0], [5, 0]][rank], dtype=oneflow.int64)
        out = embedding(ids)
        out.sum().backward()
        optimizer.step()
        rows = embedding.statistics()["rows"]
        embedding.close()
        return out.detach().numpy(), rows

    results = oneflow.testing.run_ranks(3, rank_program, timeout=60.0)
    assert [out.shape for out, _ in results] == [(0, DIM), (2, DIM), (2, DIM)]
    assert (results[1][0] == 0).all() and (results[2][0][0] != 0).all()
    assert sum(n for _, n in results) == 1


def test_a_rank_that_fails_ends_the_others(tmp_path):
    def rank_program():
        embedding = make(tmp_path)
        if oneflow.distributed.get_rank() == 1:
            raise KeyError("lost")
        embedding(oneflow.arange(10))

    with pytest.raises(KeyError, match="lost"):
        oneflow.testing.run_ranks(2, rank_program, timeout=60.0)


def test_bags_and_functions_of_several_ranks_agree_with_one(tmp_path):
    ids = np.random.default_rng(1).integers(0, 50, (2, 12))

    def rank_program():
        rank = oneflow.distributed.get_rank()
        folder = oe.make_cached_ssd_store_options(4, str(tmp_path))
        bags = oe.EmbeddingBag("shared", DIM, folder)
        mine = oneflow.from_numpy(ids[rank % len(ids)])
        pooled = bags(mine, oneflow.tensor([0, 5]))
        call = oneflow._C
        matrix, positions, n, unique, _, inverse = call.one_embedding_id_shuffle(mine, None, 1, "shared")
        asked = unique[: int(n)]
        values = asked.float()[:, None].expand(-1, 2).contiguous()
        shuffled = call.one_embedding_embedding_shuffle(values, matrix, inverse, positions, "shared")
        grads = call.one_embedding_embedding_gradient_shuffle(
            oneflow.ones(len(mine), 1), matrix, inverse, positions, "shared"
        )
        counts = dict(zip(asked.tolist(), grads[: int(n), 0].tolist(), strict=True))
        bags.close()
        return pooled.detach().numpy(), shuffled[:, 0].tolist(), counts

    (alone,) = oneflow.testing.run_ranks(1, rank_program, timeout=60.0)
    both = oneflow.testing.run_ranks(2, rank_program, timeout=60.0)
    np.testing.assert_allclose(both[0][0], alone[0], rtol=1e-5)
    total = {}
    for rank, (_, shuffled, counts) in enumerate(both):
        assert shuffled == ids[rank].tolist()
        assert not total.keys() & counts.keys(), "each id has one owner"
        total.update(counts)
    assert total == {int(i): float((ids == i).sum()) for i in np.unique(ids)}


@pytest.mark.parametrize("rule", [oneflow.optim.SGD, oneflow.optim.Adam])
def test_rows_that_every_rank_keeps_are_equal_and_do_not_travel(tmp_path, rule, monkeypatch):
    from oneflow.one_embedding import _exchange

    real, sent = _exchange._all_to_all, {}

    def counted(rows, *counts):
        if rows.dtype is not oneflow.int64:
            sent[name] = sent.get(name, 0) + len(rows)
        return real(rows, *counts)

    monkeypatch.setattr(_exchange, "_all_to_all", counted)

    def rank_program():
        embedding = make(tmp_path / name, tables=TABLES, size_factor=3)
        optimizer = oe.Optimizer(rule(embedding.parameters(), lr=0.05), [embedding])
        rank = oneflow.distributed.get_rank()
        for i, ids in enumerate(batches(3, 8)):
            if i == 3:
                assert name == "plain" or embedding.replicate(100) == 100
                oneflow.distributed.barrier()
                sent.pop(name, None)
                oneflow.distributed.barrier()
            (embedding(oneflow.from_numpy(ids[rank])) ** 2).mean().backward()
            optimizer.step()
        oneflow.distributed.barrier()
        copies, trained = None, sent.get(name)
        oneflow.distributed.barrier()
        if name == "kept":
            kept = embedding._replicas
            copies = embedding._store.records(kept.batch)[4].numpy()
            assert embedding.replicate(0) == 0
        every = oneflow.arange(N)[:, None].expand(-1, 2).contiguous()
        with oneflow.no_grad():
            rows = embedding(every).numpy()
        n_rows = embedding.statistics()["rows"]
        embedding.close()
        oneflow.distributed.barrier()
        sent[name] = trained
        return rows, n_rows, copies

    results = {}
    for name in ("plain", "kept"):
        results[name] = oneflow.testing.run_ranks(3, rank_program, timeout=60.0)
    for (rows, _, copies), (want, _, _) in zip(results["kept"], results["plain"], strict=True):
        np.testing.assert_allclose(rows, want, rtol=1e-4, atol=1e-6)
        assert (copies == results["kept"][0][2]).all(), "copies differ between ranks"
    assert [r[1] for r in results["kept"]] == [r[1] for r in results["plain"]], "copies are removed again"
    assert sent["kept"] < 0.7 * sent["plain"]


def test_a_rank_that_dies_in_a_step_ends_the_others_and_leaves_the_last_epoch(tmp_path):
    def rank_program(dies):
        embedding = make(tmp_path, tables=TABLES, size_factor=3)
        optimizer = oe.Optimizer(oneflow.optim.Adam(embedding.parameters(), lr=0.05), [embedding])
        rank = oneflow.distributed.get_rank()
        for i, ids in enumerate(batches(2, 4)):
            if dies and i == 2 and rank == 1:
                raise ArithmeticError("this rank dies")
            (embedding(oneflow.from_numpy(ids[rank])) ** 2).mean().backward()
            optimizer.step()
            if i == 1:
                embedding.commit()
                with oneflow.no_grad():
                    every = embedding(oneflow.arange(N)[:, None].expand(-1, 2).contiguous()).numpy()
                if not dies:
                    # As a killed process would.
                    embedding._finalizer.detach()
                    embedding._store.close()
                    return every
        return None

    want = oneflow.testing.run_ranks(2, rank_program, False, timeout=20.0)
    import shutil

    shutil.rmtree(tmp_path)
    with pytest.raises(ArithmeticError, match="dies"):
        oneflow.testing.run_ranks(2, rank_program, True, timeout=20.0)
    import gc

    gc.collect()

    def rows():
        embedding = make(tmp_path, tables=TABLES, size_factor=3)
        with oneflow.no_grad():
            return embedding(oneflow.arange(N)[:, None].expand(-1, 2).contiguous()).numpy()

    for found, expected in zip(oneflow.testing.run_ranks(2, rows, timeout=20.0), want, strict=True):
        assert (found == expected).all()
