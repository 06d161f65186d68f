"""Which ids get rows and which rows leave; statistics, metrics and regions of the profiler."""

import numpy as np
import oneflow
import pytest
from embedding.stores import DIM, constant, make, rows_of, sgd
from oneflow import one_embedding as oe


def train(embedding, optimizer, ids, table=0):
    ids = oneflow.tensor(ids)
    embedding(ids, oneflow.full_like(ids, table)).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("rule", [oneflow.optim.SGD, oneflow.optim.Adam])
def test_the_age_of_rows_survives_a_saved_optimizer(tmp_path, rule):
    for life in range(2):
        embedding = make(tmp_path, size_factor=3)
        optimizer = oe.Optimizer(rule(embedding.parameters(), lr=0.1), [embedding])
        if life:
            optimizer.load_state_dict(oneflow.load(tmp_path / "optimizer.pt"))
        for step in range(5):
            embedding(oneflow.tensor([100 * life + step])).sum().backward()
            optimizer.step()
        oneflow.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
        if life:
            assert embedding.forget(unused_steps=7) == 3
            assert embedding.keys()[1].tolist() == [3, 4, 100, 101, 102, 103, 104]
        embedding.close()


@pytest.mark.parametrize("filter_bytes", [None, 4096])
def test_ids_get_a_row_once_they_were_seen_often_enough(tmp_path, filter_bytes):
    admission = oe.make_count_admission(3, filter_bytes)
    embedding = make(tmp_path, tables=[constant(0, admission), constant(0)])
    optimizer = sgd(embedding)
    train(embedding, optimizer, [1, 2, 2])
    train(embedding, optimizer, [1, 2, 4], table=1)
    assert embedding.rows_by_table() == [0, 3]
    train(embedding, optimizer, [1, 2])
    assert embedding.rows_by_table() == [1, 3]
    train(embedding, optimizer, [1, 2])
    assert embedding.rows_by_table() == [2, 3]
    # The gradient of the admitting step counts, earlier ones do not.
    rows = embedding(oneflow.tensor([1, 2, 4]), oneflow.zeros(3, dtype=oneflow.int64)).detach()
    assert rows[:, 0].tolist() == [-1, -2, 0]
    assert embedding.statistics()["refused"] == 3


def test_a_share_of_the_ids_gets_a_row(tmp_path):
    for p in (0.0, 0.3, 1.0):
        embedding = make(tmp_path / str(p), tables=[constant(0, oe.make_probability_admission(p))])
        train(embedding, sgd(embedding), list(range(2000)))
        assert embedding.statistics()["rows"] == pytest.approx(2000 * p, abs=100 * p * (1 - p) * 4)


def test_rows_leave_by_age_count_norm_and_score(tmp_path):
    embedding = make(tmp_path, tables=[constant(0), constant(0)], budget_mb=1e-6)
    optimizer = sgd(embedding)
    for step in range(1, 11):
        ids = [i for i in range(200) if step % (i % 5 + 1) == 0]
        train(embedding, optimizer, ids, 0)
        train(embedding, optimizer, ids, 1)
    last = {i: max(s for s in range(1, 11) if s % (i % 5 + 1) == 0) for i in range(200)}
    count = {i: sum(s % (i % 5 + 1) == 0 for s in range(1, 11)) for i in range(200)}

    def left(table):
        tables, ids = embedding.keys()
        return ids[tables == table].tolist()

    # Each table's update is a step of its own.
    assert embedding.forget(0, unused_steps=4) == 200 - len(left(0))
    assert left(0) == [i for i in range(200) if 2 * last[i] - 1 > 20 - 4]
    assert len(left(1)) == 200
    embedding.forget(1, below_count=3)
    assert left(1) == [i for i in range(200) if count[i] >= 3]
    embedding.forget(1, below_norm=4 * DIM**0.5 - 0.1)
    assert left(1) == [i for i in range(200) if count[i] >= 4]
    best = sorted(left(1), key=lambda i: (-count[i], i))[:50]
    embedding.forget(1, max_rows=50)
    assert left(1) == sorted(best)
    assert embedding.forget() == 0
    with pytest.raises(ValueError, match="score"):
        embedding.forget(max_rows=1, score="age")
    with pytest.raises(IndexError, match="no table 2"):
        embedding.forget(2)
    with pytest.raises(ValueError, match="negative"):
        embedding.forget(unused_steps=-1)


def test_statistics_are_metrics_and_regions(tmp_path):
    embedding = make(tmp_path, budget_mb=1e-6)
    optimizer = sgd(embedding)
    with oneflow.profiler.profile() as prof:
        train(embedding, optimizer, list(range(1000)))
    names = {event.name for event in prof.events()}
    assert {"one_embedding.lookup", "one_embedding.update"} <= names
    train(embedding, optimizer, list(range(1000)))
    stats, text = embedding.statistics(), embedding.metrics()
    assert stats["stalled_ns"] > 0 and stats["evictions"] > 0 and stats["rows"] == 1000
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert 'one_embedding_rows{name="test",rank="0"} 1000' in lines
    assert len(lines) == len(stats)


def test_mistakes_are_named(tmp_path):
    for match, call in [
        ("at_least", lambda: oe.make_count_admission(0)),
        ("255", lambda: oe.make_count_admission(256, 100)),
        ("filter_bytes", lambda: oe.make_count_admission(2, 0)),
        ("probability", lambda: oe.make_probability_admission(1.5)),
        ("admission", lambda: make(tmp_path, tables=[constant(0, {"type": "luck"})])),
    ]:
        with pytest.raises(ValueError, match=match):
            call()


def test_smart_decay_adam_is_adam_where_no_step_is_missed(tmp_path):
    rows, ids = [], oneflow.arange(20)
    for rule in (oneflow.optim.Adam, oe.SmartDecayAdam):
        embedding = make(tmp_path / rule.__name__, size_factor=3, seed=3)
        optimizer = oe.Optimizer(rule(embedding.parameters(), lr=0.1), [embedding])
        for _ in range(4):
            (embedding(ids) ** 2).sum().backward()
            optimizer.step()
        rows.append(embedding(ids).detach().numpy())
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-6)


@pytest.mark.parametrize("pages", [False, True])
def test_files_stay_within_twice_the_rows_where_a_store_makes_epochs(tmp_path, pages):
    epochs, rows = {}, {}
    for bounds_disk in (False, True):
        path = tmp_path / str(bounds_disk)
        store = oe.make_cached_ssd_store_options(0.1, str(path), size_factor=3, pages=pages, bounds_disk=bounds_disk)
        embedding = oe.MultiTableEmbedding("b", DIM, oneflow.float32, oneflow.int64, [constant(0.0)], store)
        optimizer = oe.Optimizer(oneflow.optim.Adam(embedding.parameters(), lr=0.1), [embedding])
        before = embedding.commit()
        for step in range(60):
            ids = oneflow.arange(6000)[step % 12 * 500 :][:500]
            embedding(ids).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if step == 12:
                embedding.commit()
            stats = embedding.statistics()
            # Superseded records that are not worth collecting, and feet of pages, come beside.
            most = 2 * stats["rows"] * 4 * (6 + 3 * DIM) + 64_000
            assert not bounds_disk or stats["disk_bytes"] <= most, (step, stats)
        epochs[bounds_disk] = embedding.commit() - before
        rows[bounds_disk] = rows_of(embedding, 6000)
        embedding.close()
    assert epochs[False] == 2 < epochs[True]
    assert (rows[False] == rows[True]).all()
