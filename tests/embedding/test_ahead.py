"""Prefetched lookups and lookups in graphs: the same bits as without, over cache sizes, ranks and optimizers."""

import numpy as np
import oneflow
import pytest
from embedding.stores import DIM, make, options, rows_of
from oneflow import nn
from oneflow import one_embedding as oe

N = 400
TABLES = [oe.make_table(oe.make_uniform_initializer(-0.5, 0.5)), oe.make_table(oe.make_normal_initializer(0, 0.1))]
# MiB by the share of 6400 rows of 8 weights and 16 numbers of state that they keep in memory, where rows lie in pages
# and where the log has the place of each. A store keeps at least 64 rows.
BUDGETS = {
    ("1 %", "pages"): 1e-6,
    ("10 %", "pages"): 0.12,
    ("1 %", "log"): 1e-6,
    ("10 %", "log"): 0.21,
    ("all", "pages"): 64,
    ("all", "log"): 64,
}
SHARES = {"1 %": (0.01, 0.011), "10 %": (0.06, 0.14), "all": (0.99, 1.0)}
EVERY = 3200


def batches(n=10, size=48, seed=3):
    rng = np.random.default_rng(seed)
    ids = [oneflow.from_numpy(rng.zipf(1.2, (size, 2)) % N) for _ in range(n)]
    return [(i, (i.sum(1) % 3).float()) for i in ids]


class Model(nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.embedding, self.head = embedding, nn.Linear(2 * DIM, 1)

    def forward(self, ids):
        return self.head(self.embedding(ids).flatten(1)).squeeze(1)


def made(path, budget, rule, **kwargs):
    oneflow.manual_seed(0)
    model = Model(make(path, tables=TABLES, size_factor=3, budget_mb=budget, **kwargs))
    return model, oe.Optimizer(rule(model.parameters()), [model.embedding])


def loss_of(model, ids, labels):
    return ((model(ids) - labels) ** 2).mean()


def train_eagerly(model, optimizer, data, prefetches=False):
    losses = []
    loader = oe.Prefetcher(data, lambda b: [(model.embedding, b[0])], depth=2) if prefetches else data
    for ids, labels in loader:
        loss = loss_of(model, ids, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class Training(nn.Graph):
    def __init__(self, model, optimizer, schedule=None):
        super().__init__()
        self.model = model
        self.add_optimizer(optimizer, lr_sch=schedule)

    def build(self, ids, labels):
        loss = loss_of(self.model, ids, labels)
        loss.backward()
        return loss


def every_row(embedding):
    with oneflow.no_grad():
        return embedding(oneflow.arange(N)[:, None].expand(-1, 2).contiguous()).numpy()


RULES = {
    "sgd": lambda p: oneflow.optim.SGD(p, lr=0.1),
    "momentum": lambda p: oneflow.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: oneflow.optim.Adam(p, lr=0.02),
    "adamw": lambda p: oneflow.optim.AdamW(p, lr=0.02),
    "adagrad": lambda p: oneflow.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "smart decay": lambda p: oe.SmartDecayAdam(p, lr=0.02),
    "row-wise": lambda p: oe.RowWiseAdagrad(p, lr=0.1),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("share", "tier"), BUDGETS)
def test_graphs_and_prefetches_give_the_bits_of_eager_steps(tmp_path, rule, share, tier):
    def run(name, train):
        budget, pages = BUDGETS[share, tier], tier == "pages"
        model, optimizer = made(tmp_path / name, budget, RULES[rule], pages=pages)
        # Every row is trained first: more than a small cache holds.
        everything = oneflow.arange(EVERY)[:, None].expand(-1, 2).contiguous()
        train_eagerly(model, optimizer, [(everything, oneflow.zeros(EVERY))])
        stats = model.embedding.statistics()
        least, most = SHARES[share]
        assert least <= stats["rows_in_memory"] / stats["rows"] <= most, stats
        losses = train(model, optimizer, batches())
        return losses, every_row(model.embedding), model.head.weight.detach().numpy(), model.embedding.statistics()

    plain = run("eager", train_eagerly)
    assert plain[3]["evictions"] > 0 or share == "all"
    ways = {
        "prefetched": lambda m, o, d: train_eagerly(m, o, d, prefetches=True),
        "graph": train_in_graph,
        "overlapped": lambda m, o, d: [loss.item() for loss in Training(m, o).over(d)],
    }
    for name, way in ways.items():
        losses, rows, head, stats = run(name, way)
        assert losses == plain[0], name
        assert (rows == plain[1]).all() and (head == plain[2]).all(), name
        if name in ("prefetched", "overlapped") and share == "1 %":
            assert stats["prefetched"] > 0, name


def train_in_graph(model, optimizer, data):
    step = Training(model, optimizer)
    losses = [step(*batch).item() for batch in data]
    assert len(step._compiled) == 1, "one program for all steps"
    return losses


def test_learning_rates_follow_a_schedule_in_graphs(tmp_path):
    def run(name, in_graph):
        model, optimizer = made(tmp_path / name, 64, RULES["adam"])
        schedule = oneflow.optim.lr_scheduler.StepLR(optimizer.optimizer, 3, 0.1)
        if in_graph:
            step = Training(model, optimizer, schedule)
            return [step(*b).item() for b in batches()], every_row(model.embedding)
        losses = []
        for batch in batches():
            losses += train_eagerly(model, optimizer, [batch])
            schedule.step()
        return losses, every_row(model.embedding)

    (a, rows_a), (b, rows_b) = run("eager", False), run("graph", True)
    assert a == b and (rows_a == rows_b).all()


def test_ids_that_build_computes_and_micro_batches(tmp_path):
    class Shifted(Training):
        def build(self, ids, labels):
            return super().build((ids * 3 - ids) // 2, labels)

    model, optimizer = made(tmp_path / "a", 64, RULES["sgd"])
    plain = train_eagerly(model, optimizer, batches())
    rows = every_row(model.embedding)
    for name in ("call", "over"):
        model, optimizer = made(tmp_path / name, 64, RULES["sgd"])
        step = Shifted(model, optimizer)
        got = [step(*b).item() for b in batches()] if name == "call" else [x.item() for x in step.over(batches())]
        assert got == plain and (every_row(model.embedding) == rows).all()
    # Gradients of micro-batches are averaged: sums in another order.
    model, optimizer = made(tmp_path / "micro", 64, RULES["sgd"])
    step = Training(model, optimizer)
    step.config.set_gradient_accumulation_steps(4)
    for batch in batches():
        step(*[t.contiguous() for t in batch])
    np.testing.assert_allclose(every_row(model.embedding), rows, rtol=1e-4, atol=1e-6)


def test_graphs_that_only_read_make_no_rows(tmp_path):
    embedding = make(tmp_path, tables=TABLES)

    class Reading(nn.Graph):
        def __init__(self):
            super().__init__()
            self.embedding = embedding

        def build(self, ids):
            return self.embedding(ids) * 2

    ids = batches(1)[0][0]
    with oneflow.no_grad():
        want = embedding(ids) * 2
    assert oneflow.equal(Reading()(ids).detach(), want)
    assert [oneflow.equal(y.detach(), want) for y in Reading().over([ids, ids])] == [True, True]
    assert embedding.statistics()["rows"] == 0
    with pytest.raises(TypeError, match="key_type"):
        Reading()(ids.to(oneflow.int32))
    graph = Reading()
    graph(ids)
    with pytest.raises(NotImplementedError, match="stores"):
        oneflow.save(graph, tmp_path / "program")
    with pytest.warns(UserWarning, match="runs eagerly"), oneflow.no_grad():
        assert oneflow.equal(oneflow.compile(lambda i: embedding(i) * 2)(ids), want)


def test_bags_in_graphs_and_prefetched(tmp_path):
    rng = np.random.default_rng(0)
    offsets = oneflow.tensor([0, 3, 3, 10])
    data = [(oneflow.from_numpy(rng.integers(0, 50, 17)), offsets) for _ in range(6)]

    def bags(name, mode):
        module = oe.EmbeddingBag("bags", DIM, options(tmp_path / f"{name}-{mode}", 1e-6), mode=mode, padding_idx=3)
        return module, oe.Optimizer(oneflow.optim.SGD(module.parameters(), lr=0.5), [module])

    for mode in ("sum", "mean"):
        ways = {}
        for name in ("eager", "prefetched", "graph", "over"):
            module, optimizer = bags(name, mode)

            class Step(nn.Graph):
                def __init__(self, module, optimizer):
                    super().__init__()
                    self.module = module
                    self.add_optimizer(optimizer)

                def build(self, ids, offsets):
                    pooled = self.module(ids, offsets)
                    (pooled**2).sum().backward()
                    return pooled

            if name in ("graph", "over"):
                step = Step(module, optimizer)
                rows = [step(*b) for b in data] if name == "graph" else list(step.over(data))
            else:
                loader = data if name == "eager" else oe.Prefetcher(data, lambda b, m=module: [(m, *b)])
                rows = []
                for batch in loader:
                    pooled = module(*batch)
                    optimizer.zero_grad()
                    (pooled**2).sum().backward()
                    optimizer.step()
                    rows.append(pooled)
            ways[name] = oneflow.stack([r.detach() for r in rows])
        assert all(oneflow.equal(way, ways["eager"]) for way in ways.values()), mode


@pytest.mark.parametrize("n_ranks", [1, 2, 3])
def test_ranks_prefetch_and_trace_the_same_rows(tmp_path, n_ranks):
    def rank_program(way):
        rank = oneflow.distributed.get_rank() if n_ranks > 1 else 0
        model, optimizer = made(tmp_path / f"{way}{n_ranks}", 1e-6, RULES["adam"])
        data = [tuple(oneflow.chunk(t, n_ranks)[rank].contiguous() for t in b) for b in batches()]
        if way == "graph":
            losses = [loss.item() for loss in Training(model, optimizer).over(data)]
        else:
            losses = train_eagerly(model, optimizer, data, prefetches=way == "prefetched")
        rows = every_row(model.embedding)
        model.embedding.close()
        return losses, rows

    def run(way):
        return oneflow.testing.run_ranks(n_ranks, rank_program, way, timeout=60.0)

    plain = run("eager")
    for way in ("prefetched", "graph"):
        for (losses, rows), (want, want_rows) in zip(run(way), plain, strict=True):
            assert losses == want and (rows == want_rows).all(), way


def test_a_prefetch_counts_for_the_tensors_that_it_was_of(tmp_path):
    embedding = make(tmp_path)
    optimizer = oe.Optimizer(oneflow.optim.SGD(embedding.parameters(), lr=1.0), [embedding])
    ids = oneflow.tensor([1, 2, 3])
    embedding.prefetch(ids)
    ids.fill_(7)
    assert oneflow.equal(embedding(ids).detach()[0], oneflow.from_numpy(rows_of(embedding, 8))[7])
    # Updates between a prefetch and its lookup count; with a staleness as many may be missed.
    for staleness, is_old in ((0, False), (1, True)):
        embedding = make(tmp_path / str(staleness), staleness=staleness)
        optimizer = oe.Optimizer(oneflow.optim.SGD(embedding.parameters(), lr=1.0), [embedding])
        before = rows_of(embedding, 2)[1]
        first, second, third = (oneflow.tensor([1]) for _ in range(3))
        embedding.prefetch(second)
        embedding.prefetch(third)
        embedding._ahead._pool.submit(int).result()
        for n in range(2):
            embedding(first).sum().backward()
            optimizer.step()
            if n == 0:
                assert ((embedding(second).detach().numpy() == before).all()) == is_old
                optimizer.zero_grad()
        late = embedding(third).detach().numpy()
        np.testing.assert_allclose(late, [before - 2], atol=1e-5, err_msg="two steps are more than one")
    with pytest.raises(ValueError, match="staleness"):
        make(tmp_path / "bad", staleness=-1)
    with pytest.raises(TypeError, match="key_type"):
        embedding.prefetch(oneflow.tensor([1], dtype=oneflow.int32))
    with pytest.raises(ValueError, match="depth"):
        oe.Prefetcher([], lambda b: [], depth=0)


@pytest.mark.parametrize("in_graph", [False, True])
def test_steps_that_a_gradient_scaler_skips_leave_rows_and_counters(tmp_path, in_graph):
    model, optimizer = made(tmp_path, 64, RULES["adam"])
    scaler = oneflow.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=1000)
    ids, labels = batches(1)[0]
    if in_graph:
        step = Training(model, optimizer)
        step.set_grad_scaler(scaler)
    else:

        def step(ids, labels):
            loss = loss_of(model, ids, labels)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    step(ids, labels)
    before, stats = every_row(model.embedding), model.embedding.statistics()
    step(ids, labels * float("inf"))
    assert (every_row(model.embedding) == before).all()
    assert model.embedding.statistics()["rows"] == stats["rows"] and model.embedding._step == 1
    step(ids, labels)
    assert model.embedding._step == 2
    # The rows are those of a run without a scale and without the bad step.
    plain, its_optimizer = made(tmp_path / "plain", 64, RULES["adam"])
    train_eagerly(plain, its_optimizer, [(ids, labels)] * 2)
    np.testing.assert_allclose(every_row(model.embedding), every_row(plain.embedding), rtol=1e-5, atol=1e-7)


def test_the_norm_of_rows_and_parameters_is_clipped_as_that_of_dense_tables(tmp_path):
    model, optimizer = made(tmp_path, 64, RULES["sgd"])
    head = nn.Linear(2 * DIM, 1)
    ids = oneflow.from_numpy(np.random.default_rng(0).integers(0, 20, (30, 2)))
    table = every_row(model.embedding)
    first, second = (nn.Parameter(oneflow.from_numpy(np.ascontiguousarray(table[:, i]))) for i in range(2))
    head.load_state_dict(model.head.state_dict())
    labels = oneflow.ones(30) * 50
    for max_norm in (0.5, 1e6):
        rows = oneflow.stack([nn.functional.embedding(ids[:, i], p) for i, p in enumerate((first, second))], 1)
        loss = ((head(rows.flatten(1)).squeeze(1) - labels) ** 2).mean()
        params = [first, second, *head.parameters()]
        for p in params:
            p.grad = None
        loss.backward()
        want = nn.utils.clip_grad_norm_(params, max_norm)
        loss = loss_of(model, ids, labels)
        optimizer.zero_grad()
        loss.backward()
        got = optimizer.clip_grad_norm_(max_norm)
        np.testing.assert_allclose(got.item(), want.item(), rtol=1e-5)
        optimizer.step()
        with oneflow.no_grad():
            for p in params:
                p.sub_(0.1 * p.grad)
        np.testing.assert_allclose(every_row(model.embedding)[:, 0], first.detach().numpy(), rtol=1e-5, atol=1e-6)
    optimizer.param_groups[0]["clip_grad_max_norm"] = 0.25
    loss_of(model, ids, labels).backward()
    optimizer.clip_grad()
    assert optimizer.clip_grad_norm_(1e9).item() == pytest.approx(0.25, rel=1e-4)
    optimizer.zero_grad()
    loss_of(model, ids, labels * float("nan")).backward()
    with pytest.raises(RuntimeError, match="norm"):
        optimizer.clip_grad_norm_(1.0, error_if_nonfinite=True)


@pytest.mark.parametrize("block", [512, 4096])
def test_direct_reads_give_the_same_rows(tmp_path, block):
    def run(name, direct):
        store = oe.make_cached_ssd_store_options(
            1e-6, str(tmp_path / name), size_factor=3, physical_block_size=block, direct_io=direct
        )
        oneflow.manual_seed(0)
        model = Model(oe.MultiTableEmbedding("d", DIM, oneflow.float32, oneflow.int64, TABLES, store))
        train_eagerly(model, oe.Optimizer(RULES["adam"](model.parameters()), [model.embedding]), batches())
        return every_row(model.embedding), model.embedding

    (plain, _), (direct, embedding) = run("plain", False), run("direct", True)
    assert (plain == direct).all() and embedding.statistics()["reads"] > 0
    kind, _ = embedding._store.reads_by()
    assert kind in ("io_uring", "threads")
