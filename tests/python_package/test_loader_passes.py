"""Several iterators over one loader, abandoned and restarted, compared with PyTorch's loader."""

import itertools
import pickle

import oneflow
import pytest
import torch
from torch_oracle import plain

N = 11


def datasets(package, is_stream):
    data = package.utils.data
    if not is_stream:
        return data.TensorDataset(package.arange(N))

    class Stream(data.IterableDataset):
        def __iter__(self):
            info = data.get_worker_info()
            start, step = (0, 1) if info is None else (info.id, info.num_workers)
            return iter(range(start, N, step))

    return Stream()


def programs(loader):
    """Return the results of passes that follow, cross and interrupt each other."""
    yield "whole", [plain(b) for b in loader]
    yield "pairs", [plain(p) for p in zip(loader, loader, strict=False)]
    yield "left half way", [plain(b) for b in itertools.islice(loader, 2)]
    first = iter(loader)
    got = [plain(next(first))]
    second = iter(loader)
    got += [plain(next(second)), plain(next(first)), plain(next(second))]
    yield "two iterators", got
    yield "the second goes on", [plain(b) for b in second]
    yield "the first goes on", [plain(b) for b in first]
    yield "one object", iter(loader) is iter(loader)
    # Where both loops are of one iterator, the inner one starts the outer one over, for ever.
    nested = (plain(b) for b in loader for _ in itertools.islice(loader, 1))
    yield "nested", list(itertools.islice(nested, 5))
    del nested
    yield "again", [plain(b) for b in loader]


OPTIONS = [
    {"batch_size": 2},
    {"batch_size": 2, "num_workers": 2},
    {"batch_size": 2, "num_workers": 2, "persistent_workers": True},
    {"batch_size": 3, "num_workers": 2, "persistent_workers": True, "drop_last": True, "prefetch_factor": 1},
    {"batch_size": None, "num_workers": 1, "persistent_workers": True, "prefetch_factor": 4},
    {"batch_size": 2, "num_workers": 2, "persistent_workers": True, "sampler": range(N - 1, -1, -1)},
]


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("i", range(len(OPTIONS)))
def test_passes_equal_torch(i, is_stream):
    options = OPTIONS[i]
    if is_stream and "sampler" in options:
        pytest.skip("a stream has no sampler")
    ours = oneflow.utils.data.DataLoader(datasets(oneflow, is_stream), **options)
    theirs = torch.utils.data.DataLoader(datasets(torch, is_stream), **options)
    for (name, a), (_, b) in zip(programs(ours), programs(theirs), strict=True):
        assert a == b, name


class Numbers:
    def __len__(self):
        return 7

    def __getitem__(self, i):
        return i


def draws(package):
    """Orders of samplers and loaders whose generators are shared, and the generator's numbers after them."""
    data = package.utils.data

    def generator():
        return package.Generator().manual_seed(5)

    for replacement, n in [(True, 3), (True, 32), (True, 70), (False, None), (False, 3), (False, 7), (False, 20)]:
        for g in (generator(), None):
            package.manual_seed(3)
            sampler = data.RandomSampler(Numbers(), replacement=replacement, num_samples=n, generator=g)
            yield (replacement, n), [list(sampler), package.rand(1, generator=g).item()]
    g = generator()
    endless = iter(data.RandomSampler(Numbers(), replacement=True, num_samples=10**10, generator=g))
    yield "endless", [*itertools.islice(endless, 40), package.rand(1, generator=g).item()]
    package.manual_seed(1)
    yield "subset", list(data.SubsetRandomSampler([4, 5, 6, 8], generator=generator()))
    yield "weighted", list(data.WeightedRandomSampler([0.1, 2.0, 0.4], 9, generator=generator()))
    yield (
        "weighted once",
        list(data.WeightedRandomSampler([0.1, 2.0, 0.4], 3, replacement=False, generator=generator())),
    )
    yield "split", [list(s) for s in data.random_split(Numbers(), [3, 4], generator=generator())]
    for options in [{}, {"generator": generator()}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}]:
        package.manual_seed(2)
        loader = data.DataLoader(Numbers(), batch_size=2, shuffle=True, **options)
        yield sorted(options), [[plain(b) for b in loader] for _ in range(2)] + [package.rand(1).item()]


def test_orders_equal_torch_with_its_engine():
    before = oneflow.random.use("mt19937")
    try:
        for (name, a), (_, b) in zip(draws(oneflow), draws(torch), strict=True):
            assert a == b, name
    finally:
        oneflow.random.use(before)


def test_an_endless_sampler_takes_no_memory():
    sampler = oneflow.utils.data.RandomSampler(Numbers(), replacement=True, num_samples=10**10)
    assert len(sampler) == 10**10
    loader = oneflow.utils.data.DataLoader(Numbers(), sampler=sampler, batch_size=4)
    assert all(0 <= i < 7 for b in itertools.islice(loader, 3) for i in b.tolist())


def test_a_loader_with_kept_workers_frees_them():
    import multiprocessing

    before = {p.pid for p in multiprocessing.active_children()}
    loader = oneflow.utils.data.DataLoader(Numbers(), num_workers=1, persistent_workers=True)
    assert len(list(loader)) == 7
    assert {p.pid for p in multiprocessing.active_children()} > before
    del loader
    assert {p.pid for p in multiprocessing.active_children()} <= before


def test_generators_pickle_with_their_engine():
    for engine in ("philox", "mt19937"):
        before = oneflow.random.use(engine)
        try:
            g = oneflow.Generator().manual_seed(4)
        finally:
            oneflow.random.use(before)
        oneflow.randn(3, generator=g)
        again = pickle.loads(pickle.dumps(g))
        assert again.engine == engine
        assert oneflow.equal(oneflow.rand(5, generator=again), oneflow.rand(5, generator=g))
