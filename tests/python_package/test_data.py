"""Data sets, samplers, collation and the loader, in this process and with workers."""

import collections
import re
import warnings

import numpy as np
import oneflow
import pytest
import torch
from oneflow.utils.data import DataLoader, TensorDataset
from torch_oracle import plain

Point = collections.namedtuple("Point", "x y")


class Squares(oneflow.utils.data.Dataset):
    def __init__(self, n, broken=None):
        self.n, self.broken = n, broken

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i == self.broken:
            raise KeyError("broken item")
        return i, i * i


BATCHES = [
    lambda fw: [fw.ones(2), fw.zeros(2)],
    lambda fw: [1, 2],
    lambda fw: [1.5, 2.0],
    lambda fw: ["a", "b"],
    lambda fw: [(1, fw.ones(1)), (2, fw.zeros(1))],
    lambda fw: [{"x": 1, "y": [1, 2]}, {"x": 2, "y": [3, 4]}],
    lambda fw: [Point(1, 2.0), Point(3, 4.0)],
]


@pytest.mark.parametrize("i", range(len(BATCHES)))
def test_collate_equals_torch(i):
    ours = oneflow.utils.data.default_collate(BATCHES[i](oneflow))
    theirs = torch.utils.data.default_collate(BATCHES[i](torch))
    assert type(ours).__name__ == type(theirs).__name__ and plain(ours) == plain(theirs)


@pytest.mark.parametrize("options", [{}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}])
def test_loader_order_equals_torch(options):
    ours = DataLoader(Squares(7), **options)
    theirs = torch.utils.data.DataLoader(Squares(7), **options)
    assert len(ours) == len(theirs)
    assert plain(list(ours)) == plain(list(theirs))


def test_shuffle_visits_everything_once_and_repeats_by_seed():
    data = TensorDataset(oneflow.arange(20))

    def visit(seed):
        oneflow.manual_seed(seed)
        return [i for (batch,) in DataLoader(data, batch_size=6, shuffle=True) for i in batch.tolist()]

    assert sorted(visit(0)) == list(range(20))
    assert visit(0) == visit(0) != visit(1)


def test_stream():
    class Stream(oneflow.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(5))

    assert plain(list(DataLoader(Stream(), batch_size=2))) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("options", [{}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}])
def test_streams_longer_than_they_said(options):
    """A warning for each sample beyond what a program has been told before the pass began."""

    def warned(package):
        data = package.utils.data

        class Stream(data.IterableDataset):
            def __iter__(self):
                return iter(range(4))

            def __len__(self):
                return 2

        loader = data.DataLoader(Stream(), **options)
        said = []
        for asks in (False, True, False):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                passes = iter(loader)
                if asks:
                    assert len(loader) == 2
                next(passes)
                n = 1 + sum(1 for _ in passes)
            said.append((n, sum("was reported to be 2" in str(w.message) for w in caught)))
        return said

    assert warned(oneflow) == warned(torch) == [(4, 0), (4, 0), (4, 2)]


def test_random_split():
    parts = oneflow.utils.data.random_split(Squares(10), [0.5, 0.3, 0.2])
    assert [len(p) for p in parts] == [5, 3, 2]
    assert sorted(p[i][0] for p in parts for i in range(len(p))) == list(range(10))


@pytest.mark.slow
def test_workers_keep_the_order():
    loader = DataLoader(Squares(23), batch_size=4, num_workers=2)
    for _ in range(2):
        assert plain(list(loader)) == plain(list(DataLoader(Squares(23), batch_size=4)))


@pytest.mark.slow
def test_a_workers_error_arrives():
    with pytest.raises(KeyError, match="broken item"):
        list(DataLoader(Squares(8, broken=5), batch_size=2, num_workers=2))


BAD = [
    (ValueError, {"batch_size": 0}),
    (ValueError, {"num_workers": -1}),
    (ValueError, {"sampler": [0], "shuffle": True}),
    (ValueError, {"batch_sampler": [[0]], "batch_size": 2}),
    (ValueError, {"batch_size": None, "drop_last": True}),
    (ValueError, {"prefetch_factor": 2}),
    (TypeError, {"num_workers": 1, "multiprocessing_context": object()}),
    (ValueError, {"num_workers": 1, "multiprocessing_context": "bad"}),
]


@pytest.mark.parametrize("i", range(len(BAD)))
def test_errors_are_torchs(i):
    kind, options = BAD[i]
    for module in (oneflow.utils.data, torch.utils.data):
        with pytest.raises(kind):
            module.DataLoader(Squares(3), **options)


Pair = collections.namedtuple("Pair", "x y")
COLLATED = {
    "named tuples": [Pair(1, "a"), Pair(2, "b")],
    "ordered dictionaries": [collections.OrderedDict(b=1, a=2.5), collections.OrderedDict(b=3, a=4.5)],
    "default dictionaries": [collections.defaultdict(int, a=1), collections.defaultdict(int, a=2)],
    "tuples of texts": [(1, "a"), (2, "b")],
    "lists of lists": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
    "deques": [collections.deque([1, 2]), collections.deque([3, 4])],
    "numbers of numpy": [np.float64(1), np.float64(2)],
    "arrays": [np.ones(2, np.float32), np.zeros(2, np.float32)],
    "bytes": [b"a", b"b"],
}


def described(value):
    if hasattr(value, "tolist"):
        return str(value.dtype).rpartition(".")[2], value.tolist()
    if isinstance(value, collections.abc.Mapping):
        return type(value).__name__, {k: described(v) for k, v in value.items()}
    if isinstance(value, (str, bytes)) or not isinstance(value, collections.abc.Sequence):
        return value
    return type(value).__name__, [described(v) for v in value]


@pytest.mark.parametrize("case", COLLATED)
def test_containers_keep_their_kind(case):
    for name in ("default_collate", "default_convert"):
        data = COLLATED[case] if name == "default_collate" else COLLATED[case][0]
        ours, theirs = (getattr(fw.utils.data, name)(data) for fw in (oneflow, torch))
        assert described(ours) == described(theirs)


class Odd(oneflow.utils.data.Dataset):
    """Samples of which those with odd numbers cannot be loaded."""

    def __len__(self):
        return 6

    def __getitem__(self, i):
        if i % 2:
            raise ValueError(f"sample {i}")
        return i


@pytest.mark.parametrize("n_workers", [0, 2])
@pytest.mark.parametrize("kept", [False, True])
def test_a_pass_goes_on_after_an_error(n_workers, kept):
    loader = DataLoader(Odd(), batch_size=None, num_workers=n_workers, persistent_workers=kept and n_workers > 0)
    for _ in range(2):
        seen, batches = [], iter(loader)
        while True:
            try:
                seen.append(int(next(batches)))
            except ValueError as error:
                seen.append(re.search(r"sample \d", str(error))[0])
            except StopIteration:
                break
        assert seen == [0, "sample 1", 2, "sample 3", 4, "sample 5"]
    with pytest.raises(ValueError, match="sample 1"):
        list(loader)


def test_loaders_in_annotations():
    assert DataLoader[int].__origin__ is DataLoader
