"""A rank that raises, is slow or ends anywhere in a save or a load: all others hear of it, none waits for ever, and the
folder holds one checkpoint whole."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import oneflow
import oneflow.distributed as dist
import oneflow.distributed.checkpoint as dcp
import pytest
from oneflow.distributed.checkpoint import _folders
from oneflow.distributed.checkpoint.filesystem import SerializationFormat
from oneflow.distributed.checkpoint.staging import AsyncStager, DefaultStager, StagingOptions
from oneflow.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from oneflow.distributed.tensor import Shard, distribute_tensor
from oneflow.testing import run_ranks

N = 3
Act = Callable[[], None]


class Ends(BaseException):
    """What ends a rank and is nobody's error."""


def fails() -> None:
    raise OSError("broken")


def ends() -> None:
    raise Ends("gone")


def is_slow() -> None:
    time.sleep(0.05)


FORMATS: dict[str, tuple[Any, Any]] = {
    "plain": (dcp.FileSystemWriter, dcp.FileSystemReader),
    "dcp": (
        lambda path: dcp.FileSystemWriter(path, serialization_format=SerializationFormat.TORCH_SAVE),
        dcp.FileSystemReader,
    ),
    "hf": (lambda path: dcp.HuggingFaceStorageWriter(path, save_distributed=True), dcp.HuggingFaceStorageReader),
    "hf_whole": (
        lambda path: dcp.HuggingFaceStorageWriter(path, save_distributed=True, enable_consolidation=True),
        dcp.HuggingFaceStorageReader,
    ),
}


class Part:
    """An object with a state; ``act`` is called where a rank gives it."""

    def __init__(self, value: float) -> None:
        whole = oneflow.full((2 * N,), value)
        self.w = distribute_tensor(whole, dist.init_device_mesh("cpu", (N,)), [Shard(0)])
        self.act: Act = lambda: None

    def state_dict(self) -> dict[str, Any]:
        self.act()
        return {"w": self.w}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.w = state_dict["w"]


class Copied:
    """An entry of which copies are made."""

    def __init__(self, act: Act) -> None:
        self._act = act

    def __deepcopy__(self, memo: Any) -> int:
        self._act()
        return 3


class Planner(dcp.DefaultSavePlanner):
    """Calls ``act`` where data are asked for."""

    def __init__(self, act: Act) -> None:
        super().__init__()
        self._act = act

    def resolve_data(self, write_item: Any) -> Any:
        self._act()
        return super().resolve_data(write_item)


class LoadPlanner(dcp.DefaultLoadPlanner):
    """Calls ``act`` where boxes are asked for."""

    def __init__(self, act: Act) -> None:
        super().__init__()
        self._act = act

    def resolve_tensor(self, read_item: Any) -> Any:
        self._act()
        return super().resolve_tensor(read_item)


class Stager(AsyncStager):
    """Calls ``act`` where tensors are to be copied."""

    def __init__(self, act: Act) -> None:
        self._act = act

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        self._act()
        return state_dict

    def synchronize_staging(self) -> None:
        pass


def on(rank: int, act: Act) -> Act:
    """``act`` on the thread of this rank, nothing on others."""
    return lambda: act() if dist.get_rank() == rank else None


def is_file_of(rank: int, name: str) -> bool:
    return name.startswith((f"part_{rank:05}", f"objects_{rank:05}", f"__{rank}_", f"shard-{rank + 1:05}"))


def in_folder(monkeypatch: pytest.MonkeyPatch, method: str, act: Act, chosen: Callable[[str], bool]) -> None:
    """Call ``act`` where a method of folders is called for a chosen file."""
    whole = getattr(_folders.Folder, method)

    def call(self: Any, name: str, *args: Any) -> Any:
        if chosen(name):
            act()
        return whole(self, name, *args)

    monkeypatch.setattr(_folders.Folder, method, call)


def save(folder: Path, form: str, value: float, how: str = "save", **options: Any) -> None:
    part = Part(value)
    part.act = options.pop("act", part.act)
    state: dict[str, Any] = {"part": part, **options.pop("more", {})}
    if not form.startswith("hf"):
        state.setdefault("step", int(value))
    if "planner" in options:
        options["planner"] = options["planner"]()
    writer = FORMATS[form][0](folder)
    if how == "save":
        dcp.save(state, storage_writer=writer, **options)
        return
    made = dcp.async_save(state, storage_writer=writer, **options)
    (made if isinstance(made, Future) else made.upload_completion).result()


def load(folder: Path, form: str, **options: Any) -> list[float]:
    part = Part(0.0)
    part.act = options.pop("act", part.act)
    if "planner" in options:
        options["planner"] = options["planner"]()
    dcp.load({"part": part}, storage_reader=FORMATS[form][1](folder), **options)
    return part.w.full_tensor().tolist()


def files(folder: Path) -> dict[str, bytes]:
    found = [Path(path) / name for path, _, names in os.walk(folder) for name in names]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


# Where a fault is: the formats and calls that have such a place, and how it is put there.
PLACES: dict[str, tuple[str, str, Callable[..., dict[str, Any]]]] = {
    "state": ("plain dcp hf", "save async_save", lambda m, rank, act: {"act": on(rank, act)}),
    "planner": ("plain dcp hf", "save async_save", lambda m, rank, act: {"planner": lambda: Planner(on(rank, act))}),
    "copy": ("plain dcp", "async_save", lambda m, rank, act: {"more": {"step": Copied(on(rank, act))}}),
    "stager": ("plain dcp", "async_save", lambda m, rank, act: {"async_stager": Stager(on(rank, act))}),
    "file": (
        "plain dcp",
        "save async_save",
        lambda m, rank, act: in_folder(m, "draft", act, lambda name: is_file_of(rank, name)) or {},
    ),
    "settled": (
        "plain dcp",
        "save async_save",
        lambda m, rank, act: in_folder(m, "settle", act, lambda name: is_file_of(rank, name)) or {},
    ),
    "scratch": (
        "hf",
        "save",
        lambda m, rank, act: in_folder(m, "settle_scratch", act, lambda name: is_file_of(rank, name)) or {},
    ),
    "whole": (
        "hf_whole",
        "save",
        lambda m, rank, act: (
            in_folder(m, "settle_scratch", act, lambda name: name.startswith("model") and rank == 0) or {}
        ),
    ),
    "manifest": (
        "plain dcp",
        "save async_save",
        lambda m, rank, act: in_folder(m, "replace", act, lambda name: rank == 0) or {},
    ),
}
CASES = [
    (place, form, how) for place, (forms, hows, _) in PLACES.items() for form in forms.split() for how in hows.split()
]
CASES = [case for case in CASES if case[1:] != ("hf", "async_save")]
# What the first rank alone does.
FIRST_ONLY = ("whole", "manifest", "copy")


def bad_ranks(place: str) -> tuple[int, ...]:
    return (0,) if place in FIRST_ONLY else (0, 1)


def check_told(errors: dict[int, BaseException], bad: int, word: str) -> None:
    assert sorted(errors) == list(range(N)), errors
    assert "broken" in str(errors[bad])
    for rank, error in errors.items():
        if rank != bad:
            assert isinstance(error, dcp.CheckpointException), error
            assert str(error).startswith(word) and f"rank {bad}: OSError: broken" in str(error), error


def in_step() -> None:
    x = oneflow.ones(1)
    dist.all_reduce(x)
    assert x.item() == N


@pytest.mark.parametrize(("place", "form", "how"), CASES)
def test_a_save_that_fails_on_one_rank_fails_on_all(
    place: str, form: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_ranks(N, lambda: save(tmp_path, form, 1.0))
    before = files(tmp_path)
    for bad in bad_ranks(place):
        errors: dict[int, BaseException] = {}
        with monkeypatch.context() as patched:
            options = PLACES[place][2](patched, bad, fails)

            def rank(options: Any = options, errors: Any = errors) -> None:
                try:
                    save(tmp_path, form, 2.0, how, **options)
                except Exception as error:
                    errors[dist.get_rank()] = error
                in_step()

            run_ranks(N, rank)
        check_told(errors, bad, "save: ")
        if place != "whole":
            assert files(tmp_path) == before
        # The next save is as if there had been none.
        run_ranks(N, lambda: save(tmp_path, form, 1.0))
        assert run_ranks(N, lambda: load(tmp_path, form)) == [[1.0] * 2 * N] * N
        assert len(files(tmp_path)) == len(before)
        before = files(tmp_path)


@pytest.mark.parametrize(("place", "form", "how"), CASES)
def test_a_save_waits_for_a_slow_rank(
    place: str, form: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_ranks(N, lambda: save(tmp_path, form, 1.0))
    n_files = len(files(tmp_path))
    for slow in bad_ranks(place):
        value = 2.0 + slow
        with monkeypatch.context() as patched:
            options = PLACES[place][2](patched, slow, is_slow)

            def rank(options: Any = options, value: float = value) -> list[float]:
                save(tmp_path, form, value, how, **options)
                return load(tmp_path, form)

            assert run_ranks(N, rank) == [[value] * 2 * N] * N
        assert len(files(tmp_path)) == n_files


@pytest.mark.parametrize(("place", "form", "how"), CASES)
def test_a_rank_that_ends_in_a_save_leaves_the_old_checkpoint(
    place: str, form: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_ranks(N, lambda: save(tmp_path, form, 1.0))
    for bad in bad_ranks(place):
        errors: dict[int, BaseException] = {}
        with monkeypatch.context() as patched:
            options = PLACES[place][2](patched, bad, ends)

            def rank(options: Any = options, errors: Any = errors) -> None:
                try:
                    save(tmp_path, form, 2.0, how, **options)
                except BaseException as raised:
                    errors[dist.get_rank()] = raised
                    raise

            with pytest.raises((Ends, RuntimeError)):
                run_ranks(N, rank)
        assert sorted(errors) == list(range(N)) and isinstance(errors[bad], Ends), errors
        for other, error in errors.items():
            if other != bad:
                assert f"rank {bad} aborted: Ends: gone" in str(error), error
        if place != "whole":
            assert run_ranks(N, lambda: load(tmp_path, form)) == [[1.0] * 2 * N] * N


READS: dict[str, Callable[..., dict[str, Any]]] = {
    "state": lambda m, rank, act: {"act": on(rank, act)},
    "planned state": lambda m, rank, act: {"act": on(rank, act), "planner": lambda: LoadPlanner(lambda: None)},
    "planner": lambda m, rank, act: {"planner": lambda: LoadPlanner(on(rank, act))},
    "file": lambda m, rank, act: in_folder(m, "local", on(rank, act), lambda name: True) or {},
    "planned file": lambda m, rank, act: (
        in_folder(m, "local", on(rank, act), lambda name: True) or {"planner": lambda: LoadPlanner(lambda: None)}
    ),
    "manifest": lambda m, rank, act: in_folder(m, "exists", on(rank, act), lambda name: True) or {},
    "planned manifest": lambda m, rank, act: (
        in_folder(m, "exists", on(rank, act), lambda name: True) or {"planner": lambda: LoadPlanner(lambda: None)}
    ),
}


@pytest.mark.parametrize("place", READS)
@pytest.mark.parametrize("form", ["plain", "dcp", "hf"])
def test_a_load_that_fails_on_one_rank_fails_on_all(
    place: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_ranks(N, lambda: save(tmp_path, form, 1.0))
    for bad in (0, 1):
        errors: dict[int, BaseException] = {}
        with monkeypatch.context() as patched:
            options = READS[place](patched, bad, fails)

            def rank(options: Any = options, errors: Any = errors) -> None:
                try:
                    load(tmp_path, form, **options)
                except Exception as error:
                    errors[dist.get_rank()] = error
                in_step()

            run_ranks(N, rank)
        check_told(errors, bad, "load: ")
        with monkeypatch.context() as patched:
            options = READS[place](patched, bad, is_slow)
            assert run_ranks(N, lambda options=options: load(tmp_path, form, **options)) == [[1.0] * 2 * N] * N


@pytest.mark.parametrize("form", ["plain", "dcp"])
def test_a_manifest_is_put_back_where_that_of_the_other_format_stays(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both manifests are there for a moment: a failure then must leave the old one with its files."""
    other = "dcp" if form == "plain" else "plain"
    save_alone = lambda kind, value: dcp.save(  # noqa: E731
        {"w": oneflow.full((2,), value)}, storage_writer=FORMATS[kind][0](tmp_path)
    )
    save_alone(other, 1.0)
    before = files(tmp_path)
    with monkeypatch.context() as patched:
        in_folder(patched, "remove", fails, lambda name: name in before)
        with pytest.raises(dcp.CheckpointException, match="broken"):
            save_alone(form, 2.0)
    assert files(tmp_path) == before
    # What is stale after the manifest is written is no failure of the checkpoint.
    with monkeypatch.context() as patched:
        in_folder(patched, "remove", fails, lambda name: name.startswith(("part_", "__")))
        with pytest.warns(UserWarning, match="is written, but files of an earlier one are left: broken"):
            save_alone(form, 3.0)
    found = {"w": oneflow.zeros(2)}
    dcp.load(found, checkpoint_id=tmp_path)
    assert found["w"].tolist() == [3.0, 3.0]


@pytest.mark.parametrize("form", ["plain", "dcp"])
def test_a_save_waits_for_the_one_in_the_background_of_its_folder(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the first would remove the files of the second as stale ones."""
    in_folder(monkeypatch, "replace", is_slow, lambda name: True)

    def rank() -> list[float]:
        future = dcp.async_save({"part": Part(1.0)}, storage_writer=FORMATS[form][0](tmp_path))
        save(tmp_path, form, 2.0)
        assert future.done()
        return load(tmp_path, form)

    assert run_ranks(N, rank) == [[2.0] * 2 * N] * N


def test_saves_of_a_group_leave_others_in_step(tmp_path: Path) -> None:
    """The group of its own that a save in the background has is made by its ranks alone."""

    def rank() -> float:
        pair = dist.new_group([0, 1])
        if dist.get_rank() < 2:
            dcp.async_save({"w": oneflow.ones(2)}, checkpoint_id=tmp_path, process_group=pair).result()
        x = oneflow.ones(1)
        dist.all_reduce(x, group=dist.new_group([0, 1, 2], timeout=20))
        return x.item()

    assert run_ranks(3, rank) == [3.0] * 3


def test_copies_beside_training_that_fail_are_known_to_all(tmp_path: Path) -> None:
    def rank() -> tuple[str, str]:
        made = dcp.async_save(
            {f"own{dist.get_rank()}": Copied(on(1, fails)), "w": oneflow.ones(2)},
            checkpoint_id=tmp_path,
            async_stager=DefaultStager(StagingOptions(False, False, True, False)),
        )
        staging = "" if dist.get_rank() == 0 else str(made.staging_completion.exception())
        return staging, str(made.upload_completion.exception())

    (_, first), (staging, second) = run_ranks(2, rank)
    assert staging == "broken" and "rank 1: OSError: broken" in first and "rank 1: OSError: broken" in second


def test_ranks_hear_of_a_first_rank_that_has_no_whole_tensors() -> None:
    """The others wait for its broadcasts."""
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    errors: dict[int, BaseException] = {}

    def rank() -> None:
        model = oneflow.nn.Linear(N, N)
        mesh = dist.init_device_mesh("cpu", (N,))
        spread = {name: distribute_tensor(p, mesh, [Shard(0)]) for name, p in model.state_dict().items()}
        try:
            set_model_state_dict(model, spread, options=options)
        except Exception as error:
            errors[dist.get_rank()] = error
        in_step()

    run_ranks(N, rank)
    words = "broadcast_from_rank0 takes whole tensors, got one of shape (3, 3)"
    assert str(errors[0]).startswith(words) and f"rank 0: ValueError: {words}" in str(errors[1]), errors
