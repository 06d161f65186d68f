"""Pipes of samples: each pipeline gives what PyTorch's gives, sample by sample, pass by pass, error by error."""

from __future__ import annotations

import functools
import importlib
import io
import pickle
import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import oneflow
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:.*function is not supported by pickle")

PACKAGES = (oneflow, torch)


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or the class of its exception."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__


def both(make: Callable[[ModuleType, ModuleType], Any]) -> Any:
    """What a function of both modules of pipes gives, which is the same under PyTorch."""
    found = []
    for package in PACKAGES:
        pipes = package.utils.data.datapipes
        found.append(repr(make(pipes.iter, pipes.map)))
    assert found[0] == found[1]
    return found[0]


def is_even(x: int) -> bool:
    return x % 2 == 0


def double(x: Any) -> Any:
    return 2 * x


def key(x: Any) -> int:
    return x % 3


PIPELINES: dict[str, Callable[[Any, Any], Any]] = {
    "map": lambda i, m: i.IterableWrapper(range(5)).map(double),
    "map a column": lambda i, m: i.IterableWrapper([(1, 2, 3), (4, 5, 6)]).map(double, input_col=1),
    "map columns": lambda i, m: i.IterableWrapper([(1, 2, 3), (4, 5, 6)]).map(max, input_col=[2, 0]),
    "map to a column": lambda i, m: i.IterableWrapper([[1, 2, 3]]).map(double, input_col=1, output_col=0),
    "map to the end": lambda i, m: i.IterableWrapper([(1, 2)]).map(double, input_col=1, output_col=-1),
    "map a key": lambda i, m: i.IterableWrapper([{"a": 1, "b": 2}]).map(double, input_col="a", output_col="c"),
    "map keys": lambda i, m: i.IterableWrapper([{"a": 1, "b": 2}]).map(max, input_col=("a", "b")),
    "filter": lambda i, m: i.IterableWrapper(range(7)).filter(is_even),
    "filter a column": lambda i, m: i.IterableWrapper([(1, 2), (2, 3)]).filter(is_even, input_col=1),
    "batch": lambda i, m: i.IterableWrapper(range(7)).batch(3),
    "batch, no rest": lambda i, m: i.IterableWrapper(range(7)).batch(3, drop_last=True),
    "batch of batches": lambda i, m: i.IterableWrapper(range(7)).batch(2).batch(2).unbatch(unbatch_level=1),
    "unbatch all": lambda i, m: i.IterableWrapper([[1, [2, [3]]], 4]).unbatch(unbatch_level=-1),
    "unbatch too deep": lambda i, m: i.IterableWrapper([[1, [2]], [3]]).unbatch(unbatch_level=2),
    "unbatch no level": lambda i, m: i.IterableWrapper([[1]]).unbatch(unbatch_level=-3),
    "collate": lambda i, m: i.IterableWrapper(range(6)).batch(2).collate().map(lambda t: t.tolist()),
    "collate by a function": lambda i, m: i.IterableWrapper(range(6)).batch(2).collate(collate_fn=sum),
    "concat": lambda i, m: i.IterableWrapper(range(3)).concat(i.IterableWrapper("ab"), i.IterableWrapper([])),
    "mux": lambda i, m: i.IterableWrapper(range(3)).mux(i.IterableWrapper("abcd"), i.IterableWrapper(range(9))),
    "zip": lambda i, m: i.IterableWrapper(range(3)).zip(i.IterableWrapper("abcd")),
    "groupby": lambda i, m: i.IterableWrapper(range(10)).groupby(key),
    "groupby of a size": lambda i, m: i.IterableWrapper(range(10)).groupby(key, group_size=2, keep_key=True),
    "groupby, short buffer": lambda i, m: i.IterableWrapper(range(10)).groupby(key, buffer_size=4),
    "groupby, too small groups": lambda i, m: i.IterableWrapper(range(10)).groupby(key, buffer_size=2, group_size=2),
    "groupby, small groups dropped": lambda i, m: i.IterableWrapper(range(10)).groupby(
        key, buffer_size=2, group_size=2, drop_remaining=True
    ),
    "groupby, guaranteed": lambda i, m: i.IterableWrapper([0, 3, 1, 6, 4, 9, 2]).groupby(
        key, buffer_size=4, group_size=3, guaranteed_group_size=2
    ),
    "shuffle": lambda i, m: i.IterableWrapper(range(20)).shuffle().set_seed(3),
    "shuffle by a short buffer": lambda i, m: i.IterableWrapper(range(20)).shuffle(buffer_size=4).set_seed(5),
    "shuffle what is in batches": lambda i, m: i.IterableWrapper([[1, 2], [3, 4]]).shuffle(unbatch_level=1).set_seed(1),
    "no shuffle": lambda i, m: i.IterableWrapper(range(9)).shuffle().set_shuffle(False),
    "sampler": lambda i, m: i.Sampler(i.IterableWrapper("abc")),
    "read": lambda i, m: i.IterableWrapper([("a", io.StringIO("words"))], deepcopy=False).read_from_stream(2),
    "table": lambda i, m: m.SequenceWrapper(range(5)),
    "table map": lambda i, m: m.SequenceWrapper("abc").map(str.upper),
    "table concat": lambda i, m: m.SequenceWrapper("abc").concat(m.SequenceWrapper([1]), m.SequenceWrapper(())),
    "table zip": lambda i, m: m.SequenceWrapper("abc").zip(m.SequenceWrapper([1, 2])),
    "table batch": lambda i, m: m.SequenceWrapper(range(7)).batch(3),
    "table batch, no rest": lambda i, m: m.SequenceWrapper(range(7)).batch(3, drop_last=True),
    "table shuffle": lambda i, m: m.SequenceWrapper(range(9)).shuffle().set_seed(2),
    "table shuffle by keys": lambda i, m: m.SequenceWrapper({"a": 1, "b": 2}).shuffle(indices=["a", "b"]).set_seed(2),
    "table, no shuffle": lambda i, m: m.SequenceWrapper(range(5)).shuffle().set_shuffle(False),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines(name: str) -> None:
    make = PIPELINES[name]

    def passes(i: Any, m: Any) -> Any:
        pipe = make(i, m)
        first = outcome(lambda: list(pipe))
        copy = outcome(lambda: list(pickle.loads(pickle.dumps(make(i, m)))))
        return first, outcome(lambda: len(pipe)), str(pipe), repr(pipe), copy if "lambda" not in name else None

    if name == "read":
        # Open files are not copied.
        both(lambda i, m: list(make(i, m)))
    else:
        both(passes)


@pytest.mark.parametrize("name", [name for name in PIPELINES if "shuffle" not in name and name != "read"])
def test_a_second_pass_is_as_the_first(name: str) -> None:
    def passes(i: Any, m: Any) -> Any:
        pipe = PIPELINES[name](i, m)
        return [outcome(lambda: list(pipe)) for _ in range(3)]

    both(passes)


def reads(pipes: list[Any], script: list[tuple[str, int]]) -> list[Any]:
    """What streams give that are read in turns: ``begin`` an iterator, ``next`` of it, ``all`` of the rest."""
    said: list[Any] = []
    iterators: dict[int, Any] = {}
    # Those that are no longer valid stay: what ends with them is their matter.
    kept = []
    for what, i in script:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if what == "begin":
                iterators[i] = iter(pipes[i])
                kept.append(iterators[i])
            elif i in iterators:
                call = (
                    functools.partial(next, iterators[i]) if what == "next" else functools.partial(list, iterators[i])
                )
                said.append((what, i, outcome(call)))
        said += ["warned" for warning in caught if "are not exhausted" in str(warning.message)]
    return said


@pytest.mark.parametrize("seed", range(60))
def test_streams_of_one_source_that_are_read_in_turns(seed: int) -> None:
    draw = random.Random(seed)
    n = draw.choice([2, 3])
    kind = draw.choice(["fork", "demux"])
    size = draw.choice([1000, 1000, 3, -1])
    script: list[tuple[str, int]] = []
    for _ in range(3):
        script += [("begin", i) for i in range(n)]
        script += [(draw.choice(["next", "next", "next", "all"]), draw.randrange(n)) for _ in range(draw.randrange(12))]
        script += [("all", i) for i in range(n)] if draw.random() < 0.6 else []

    def make(i: Any, m: Any) -> Any:
        source = i.IterableWrapper(range(8))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == "fork":
                pipes = source.fork(n, buffer_size=size)
            else:
                pipes = source.demux(n, functools.partial(modulo, n), buffer_size=size)
        return reads(pipes, script)

    both(make)


def modulo(n: int, x: int) -> int | None:
    return x % n


def none_or_modulo(x: int) -> int | None:
    return None if x % 3 == 2 else x % 3


def test_splitting() -> None:
    both(lambda i, m: [list(p) for p in i.IterableWrapper(range(9)).demux(2, none_or_modulo, drop_none=True)])
    both(lambda i, m: [outcome(lambda p=p: list(p)) for p in i.IterableWrapper(range(9)).demux(2, none_or_modulo)])
    both(lambda i, m: [outcome(lambda p=p: list(p)) for p in i.IterableWrapper(range(9)).demux(2, key)])
    both(lambda i, m: str(i.IterableWrapper(range(9)).fork(1)))
    both(lambda i, m: [len(p) for p in i.IterableWrapper(range(9)).fork(2)])
    both(lambda i, m: outcome(lambda: len(i.IterableWrapper(range(9)).demux(2, is_even)[0])))
    for bad in (0, -2):
        both(lambda i, m, bad=bad: outcome(lambda: i.IterableWrapper([]).fork(bad)))
        both(lambda i, m, bad=bad: outcome(lambda: i.IterableWrapper([]).demux(bad, is_even)))
    both(lambda i, m: outcome(lambda: i.IterableWrapper([]).fork(2, copy="some")))
    for way, same in ((None, True), ("shallow", False), ("deep", False)):
        for package in PACKAGES:
            a, b = package.utils.data.datapipes.iter.IterableWrapper([[1]]).fork(2, copy=way)
            assert (next(iter(a)) is next(iter(b))) == same
    pair = oneflow.utils.data.datapipes.iter.IterableWrapper(range(4)).fork(2)
    next(iter(pair[0]))
    a, b = pickle.loads(pickle.dumps(pair))
    with pytest.warns(UserWarning, match="are not exhausted"):
        assert list(a) == list(b) == [0, 1, 2, 3]


def test_one_iterator_is_valid() -> None:
    def make(i: Any, m: Any) -> Any:
        pipe = i.IterableWrapper(range(5)).map(double)
        first = iter(pipe)
        said = [next(first)]
        second = iter(pipe)
        said += [next(second), outcome(lambda: next(first)), next(second), pipe._number_of_samples_yielded]
        return said

    both(make)
    for package in PACKAGES:
        pipe = package.utils.data.datapipes.iter.IterableWrapper(range(5))
        first = iter(pipe)
        assert next(first) == next(iter(pipe)) == 0
        with pytest.raises(RuntimeError, match="This iterator has been invalidated because another iterator"):
            next(first)


def test_own_pipes() -> None:
    for package in PACKAGES:
        data = package.utils.data

        class Count(data.IterDataPipe):  # type: ignore[name-defined,misc]
            resets = 0

            def __init__(self, n: int) -> None:
                self.n, self.i = n, 0

            def __iter__(self) -> Any:
                return self

            def __next__(self) -> int:
                if self.i == self.n:
                    raise StopIteration
                self.i += 1
                return self.i

            def reset(self) -> None:
                self.resets += 1
                self.i = 0

        class Fails(data.IterDataPipe):  # type: ignore[name-defined,misc]
            def __iter__(self) -> Any:
                yield 1
                raise KeyError("text")

        class Table(data.MapDataPipe):  # type: ignore[name-defined,misc]
            def __getitem__(self, i: int) -> int:
                return i * i

        pipe = Count(3)
        assert list(pipe) == [1, 2, 3] and list(pipe.batch(2)) == [[1, 2], [3]] and pipe.resets == 2
        with pytest.raises(KeyError, match=r"text.*This exception is thrown by __iter__ of"):
            list(Fails().map(double))
        with pytest.raises(TypeError, match=r"valid length|has no len"):
            len(Table().map(double))
        assert Table().map(double)[3] == 18 and isinstance(pipe, data.IterableDataset)
        with pytest.raises(AttributeError, match="object has no attribute 'no_such"):
            _ = pipe.no_such_function
        assert {"map", "batch", "shuffle", "sharding_filter"} <= set(dir(pipe))

        @data.functional_datapipe("thrice")
        class Thrice(data.IterDataPipe):  # type: ignore[name-defined,misc]
            def __init__(self, source: Any, n: int = 3) -> None:
                self.source, self.n = source, n

            def __iter__(self) -> Any:
                for x in self.source:
                    yield from [x] * self.n

        try:
            assert list(Count(2).thrice()) == [1, 1, 1, 2, 2, 2] and list(Count(1).thrice(n=1)) == [1]
            with pytest.raises(Exception, match="already taken"):
                data.functional_datapipe("thrice")(Thrice)
        finally:
            del data.IterDataPipe.functions["thrice"]
    with pytest.raises(TypeError, match="can only decorate"):
        oneflow.utils.data.functional_datapipe("x")(dict)


@pytest.mark.parametrize(
    "call",
    [
        lambda i, m: i.IterableWrapper([]).batch(0),
        lambda i, m: i.IterableWrapper([]).shuffle(buffer_size=0),
        lambda i, m: i.IterableWrapper([]).map(3),
        lambda i, m: i.IterableWrapper([]).map(double, output_col=1),
        lambda i, m: i.IterableWrapper([]).map(double, input_col=1, output_col=[1, 2]),
        lambda i, m: i.IterableWrapper([]).map(double, input_col=[1, 2]),
        lambda i, m: i.IterableWrapper([]).map(lambda *, a: a),
        lambda i, m: i.IterableWrapper([]).map(modulo, input_col=1),
        lambda i, m: list(i.IterableWrapper([1]).filter(double)),
        lambda i, m: i.Concater(),
        lambda i, m: i.Concater([1]),
        lambda i, m: i.Zipper([1]),
        lambda i, m: m.Concater(),
        lambda i, m: m.Zipper(i.IterableWrapper([])),
        lambda i, m: m.SequenceWrapper("ab")[5],
        lambda i, m: m.SequenceWrapper("ab").concat(m.SequenceWrapper("c"))[3],
        lambda i, m: m.SequenceWrapper("ab").zip(m.SequenceWrapper("c"))[1],
        lambda i, m: m.SequenceWrapper(range(5)).batch(2)[3],
        lambda i, m: m.SequenceWrapper([]).batch(-1),
        lambda i, m: i.IterableWrapper([]).groupby(key, group_size=9, buffer_size=3),
        lambda i, m: i.IterableWrapper([]).groupby(key, guaranteed_group_size=3),
        lambda i, m: i.IterableWrapper(["x"]).open_files("w"),
        lambda i, m: i.IterableWrapper(["x"]).open_files("b", encoding="utf-8"),
        lambda i, m: i.IterableWrapper([]).sharding_filter().apply_sharding(2, 2),
        lambda i, m: i.Sampler(i.IterableWrapper(iter([]), deepcopy=False).filter(is_even)),
    ],
)
def test_refusals(call: Callable[[Any, Any], Any]) -> None:
    both(lambda i, m: outcome(lambda: call(i, m)))


def test_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.csv", "inner/d.txt", "inner/deep/e.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"words of {name}\n" * 2)
    root = str(tmp_path)
    for given in (
        {},
        {"masks": "*.txt"},
        {"masks": ["*.csv", "a*"]},
        {"recursive": True},
        {"recursive": True, "masks": "*.txt", "abspath": True},
    ):
        both(lambda i, m, given=given: list(i.FileLister(root, **given)))
        both(lambda i, m, given=given: list(i.IterableWrapper([root, f"{root}/a.txt"]).list_files(**given)))
    for mode in ("r", "b", "rt", "rb", "t"):
        both(lambda i, m, mode=mode: list(i.FileLister(root, "*.txt").open_files(mode).read_from_stream(5)))
    both(lambda i, m: (len(i.FileLister(root, length=7)), outcome(lambda: len(i.FileLister(root)))))
    with pytest.raises(FileNotFoundError):
        list(oneflow.utils.data.datapipes.iter.FileLister(f"{root}/none"))


@pytest.mark.parametrize("seed", range(40))
def test_parts_of_streams(seed: int) -> None:
    draw = random.Random(seed)
    calls = []
    for _ in range(draw.randrange(1, 4)):
        n = draw.randrange(1, 4)
        calls.append((n, draw.randrange(n), draw.choice(["DEFAULT", "DISTRIBUTED", "MULTIPROCESSING"])))
    size = draw.randrange(12)

    def make(package: Any) -> Any:
        sharding = package.utils.data.datapipes.iter.sharding
        pipe = package.utils.data.datapipes.iter.IterableWrapper(range(size)).sharding_filter()
        said = []
        for n, number, group in calls:
            place = getattr(sharding.SHARDING_PRIORITIES, group)
            said.append(outcome(lambda n=n, number=number, place=place: pipe.apply_sharding(n, number, place)))
        return said, list(pipe), len(pipe)

    import torch.utils.data.datapipes.iter.sharding

    assert make(oneflow) == make(torch)


def test_settings_of_pipelines() -> None:
    def make(package: Any) -> Any:
        import importlib

        graph = importlib.import_module(f"{package.__name__}.utils.data.graph")
        settings = importlib.import_module(f"{package.__name__}.utils.data.graph_settings")
        i = package.utils.data.datapipes.iter
        a, b = i.IterableWrapper(range(6)).sharding_filter().shuffle().fork(2)
        pipe = a.zip(b.map(double)).batch(2)

        def names(found: Any) -> Any:
            return [(str(p), names(inner)) for p, inner in found.values()]

        found = graph.traverse_dps(pipe)
        said = [names(found), sorted(map(str, settings.get_all_graph_pipes(found)))]
        settings.apply_sharding(pipe, 2, 1)
        settings.apply_shuffle_settings(pipe, shuffle=False)
        said.append(list(pipe))
        twice = i.IterableWrapper(range(6)).sharding_filter().map(double).sharding_filter()
        said.append(outcome(lambda: settings.apply_sharding(twice, 2, 1)))
        said.append(outcome(lambda: graph.traverse_dps([1])))
        with pytest.warns(UserWarning, match="does not contain a `Shuffler`"):
            said.append(str(settings.apply_shuffle_settings(i.IterableWrapper([1]), True)))
        return said

    assert make(oneflow) == make(torch)


def add_worker(x: Any) -> tuple[Any, int]:
    info = oneflow.utils.data.get_worker_info()
    return x, -1 if info is None else info.id


def test_loaders_divide_and_shuffle_pipes() -> None:
    pipes, loader = oneflow.utils.data.datapipes.iter, oneflow.utils.data.DataLoader

    def pipe() -> Any:
        return pipes.IterableWrapper(range(20)).shuffle().sharding_filter().map(add_worker)

    oneflow.manual_seed(7)
    for n_workers, kept in ((0, False), (2, False), (3, True)):
        made = loader(pipe(), batch_size=None, shuffle=True, num_workers=n_workers, persistent_workers=kept)
        passes = [[(int(x), w) for x, w in made] for _ in range(2)]
        for found in passes:
            # Every sample once: the workers shuffle alike.
            assert sorted(x for x, _ in found) == list(range(20))
            assert {w for _, w in found} == ({-1} if n_workers == 0 else set(range(n_workers)))
        assert [x for x, _ in passes[0]] != [x for x, _ in passes[1]]
    plain = loader(pipe(), batch_size=4, shuffle=False, collate_fn=list)
    assert [x for batch in plain for x, _ in batch] == list(range(20))
    with pytest.warns(UserWarning, match="Adding one at the end"):
        added = loader(pipes.IterableWrapper(range(20)), batch_size=None, shuffle=True)
    assert sorted(map(int, added)) == list(range(20)) and isinstance(added.dataset, pipes.Shuffler)
    oneflow.manual_seed(3)
    once = [int(x) for x, _ in loader(pipe(), batch_size=None)]
    oneflow.manual_seed(3)
    assert once == [int(x) for x, _ in loader(pipe(), batch_size=None)]
    table = oneflow.utils.data.datapipes.map.SequenceWrapper(range(5)).map(double)
    assert [int(x) for x in loader(table, batch_size=None, num_workers=2)] == [0, 2, 4, 6, 8]


def test_nobody_imports_pipes_who_does_not_use_them() -> None:
    code = """
import sys, oneflow
list(oneflow.utils.data.DataLoader(oneflow.utils.data.TensorDataset(oneflow.arange(3))))
assert not [name for name in sys.modules if "datapipes" in name]
from oneflow.utils.data import IterDataPipe
import oneflow.utils.data.datapipes.iter
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def doubled(state):
    return {**state, "seen": True}


def as_text(pipe):
    if type(pipe).__name__ != "IterableWrapperIterDataPipe":
        raise NotImplementedError
    return str, ("a pipe",)


@pytest.mark.parametrize("kind", ["iter", "map"])
def test_hooks_of_pickling(kind):
    answers = []
    for fw in (torch, oneflow):
        data = importlib.import_module(f"{fw.__name__}.utils.data")
        pipes = importlib.import_module(f"{fw.__name__}.utils.data.datapipes.{kind}")
        base = data.IterDataPipe if kind == "iter" else data.MapDataPipe
        source = pipes.IterableWrapper(range(3)) if kind == "iter" else pipes.SequenceWrapper(range(3))
        mapped = source.map(str)
        found = []
        for name, hook in (("getstate", doubled), ("reduce_ex", as_text)):
            set_hook = getattr(base, f"set_{name}_hook")
            set_hook(hook)
            try:
                with pytest.raises(RuntimeError, match=f"existing {name}_hook"):
                    set_hook(hook)
                found.append([str(pickle.loads(pickle.dumps(pipe))) for pipe in (source, mapped)])
                found.append("seen" in mapped.__getstate__())
            finally:
                set_hook(None)
        found.append("seen" in mapped.__getstate__())
        answers.append(found)
    assert answers[0] == answers[1]
