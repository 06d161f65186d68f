"""Groups: ranks outside of them, sub-groups, and barriers that name who is missing."""

from __future__ import annotations

import inspect
import re
import time
import warnings
from typing import Any

import oneflow
import oneflow.distributed as dist
import pytest
from distributed.processes import free_port, run, torchrun
from oneflow.testing import run_ranks

OUTSIDE = dist.GroupMember.NON_GROUP_MEMBER


def with_group() -> list[str]:
    """Every public function of the package that takes a group."""
    functions = {name: getattr(dist, name) for name in dist.__all__ if inspect.isfunction(getattr(dist, name))}
    return sorted(name for name, f in functions.items() if "group" in inspect.signature(f).parameters)


# Queries about a group, from outside of it.
ANSWERS: dict[str, Any] = {"get_rank": -1, "get_world_size": -1, "destroy_process_group": None}
REFUSALS = {
    "get_backend",
    "get_backend_config",
    "set_timeout",
    "get_process_group_ranks",
    "get_global_rank",
    "get_group_rank",
    "new_subgroups",
    "shrink_group",
}


@pytest.mark.parametrize("name", with_group())
def test_a_rank_outside_a_group_never_acts_on_the_world(name: str) -> None:
    function = getattr(dist, name)
    parameters = list(inspect.signature(function).parameters.values())
    needed = [p.name for p in parameters if p.default is p.empty and p.name != "group"]
    values: dict[str, Any] = dict.fromkeys(needed, oneflow.ones(2))
    values |= {name: [oneflow.ones(2)] for name in values if "list" in name}
    values |= {name: 0 for name in values if name in ("src", "dst", "group_rank", "global_rank")}

    def rank() -> Any:
        before = dist.wire_calls()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if name in REFUSALS:
                with pytest.raises(ValueError, match="not part of the group"):
                    function(**values, group=OUTSIDE)
                result = None
            else:
                result = function(**values, group=OUTSIDE)
        assert dist.wire_calls() == before and not dist.get_world_size() == 1
        return result, [str(w.message) for w in caught]

    for result, said in run_ranks(2, rank):
        assert result == ANSWERS.get(name)
        assert name in ANSWERS or name in REFUSALS or re.search("does not belong to the given group", said[0])
        assert all(f"Running {name} on" in text for text in said)


@pytest.mark.parametrize("name", sorted(set(with_group()) - {"destroy_process_group"}))
def test_what_is_no_group_is_refused(name: str) -> None:
    function = getattr(dist, name)
    parameters = inspect.signature(function).parameters.values()
    values = {p.name: None for p in parameters if p.default is p.empty}
    with pytest.raises(TypeError, match=r"\w+: group must be a process group or None, got list"):
        function(**{**values, "group": [0, 1]})


def test_world_is_a_group_that_can_be_passed() -> None:
    def rank() -> float:
        x = oneflow.ones(1)
        dist.all_reduce(x, group=dist.group.WORLD)
        return x.item()

    assert run_ranks(3, rank) == [3.0] * 3
    assert OUTSIDE == -100


def test_members_of_a_group_meet_and_others_go_on() -> None:
    def rank() -> tuple[int, float]:
        group = dist.new_group([2, 0])
        x = oneflow.full((1,), 1.0 + dist.get_rank())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dist.all_reduce(x, group=group)
        return dist.get_rank(group), x.item()

    assert run_ranks(3, rank) == [(0, 4.0), (-1, 2.0), (1, 4.0)]


def test_subgroups() -> None:
    def rank() -> Any:
        mine, all_ = dist.new_subgroups(2)
        some, _ = dist.new_subgroups_by_enumeration([[3, 1], [2]])
        with pytest.raises(ValueError, match="divisible"):
            dist.new_subgroups(3)
        with pytest.raises(ValueError, match="more than one"):
            dist.new_subgroups_by_enumeration([[0, 1], [1]])
        with pytest.raises(ValueError, match="empty"):
            dist.new_subgroups_by_enumeration([])
        others = [g for g in all_ if g != OUTSIDE]
        return dist.get_process_group_ranks(mine), len(others), None if some is None else list(some.ranks())

    assert run_ranks(4, rank) == [([0, 1], 1, None), ([0, 1], 1, [1, 3]), ([2, 3], 1, [2]), ([2, 3], 1, [1, 3])]


def test_a_monitored_barrier_lets_all_pass() -> None:
    def rank() -> None:
        for timeout in (None, 5.0):
            time.sleep(0.02 * dist.get_rank())
            dist.monitored_barrier(timeout=timeout)
        with pytest.raises(ValueError, match="positive"):
            dist.monitored_barrier(timeout=0)

    run_ranks(3, rank)


MISSING = """
dist.init_process_group("gloo")
started = time.monotonic()
if dist.get_rank() in (1, 3):
    time.sleep(3)
else:
    try:
        dist.monitored_barrier(timeout=1.0)
    except RuntimeError as error:
        print(time.monotonic() - started < 8, error)
os._exit(0)
"""


def test_a_monitored_barrier_names_the_missing_ranks_on_all_others() -> None:
    port = free_port()
    for rank, (out, err) in enumerate(run(MISSING, [torchrun(rank, 4, port) for rank in range(4)])):
        if rank not in (1, 3):
            assert out.startswith("True ") and "rank(s) 1, 3 of 4 did not arrive within 1 s" in out, out + err
