"""Ranks of a Ray job as far as no Ray is needed: order, variables, bad arguments. `tests/clusters` has jobs."""

from __future__ import annotations

import importlib.util

import pytest
from oneflow.distributed import ray as of_ray


def test_ranks_of_a_node_are_neighbours() -> None:
    places = [
        of_ray._Place(node, address, devices)
        for node, address, devices in [("b", "10.0.0.2", "0"), ("a", "10.0.0.1", "3"), ("b", "10.0.0.2", "1")]
    ]
    workers, variables = of_ray._ranks(["first", "second", "third"], places)
    assert workers == ["first", "third", "second"]
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")
    assert [tuple(own[name] for name in names) for own in variables] == [
        ("0", "3", "0", "2", "0", "2"),
        ("1", "3", "1", "2", "0", "2"),
        ("2", "3", "0", "1", "1", "2"),
    ]
    assert [(own["ROLE_NAME"], own["ROLE_RANK"], own["ROLE_WORLD_SIZE"]) for own in variables] == [
        ("default", str(rank), "3") for rank in range(3)
    ]
    assert {own["MASTER_ADDR"] for own in variables} == {"10.0.0.2"}
    assert [own["CUDA_VISIBLE_DEVICES"] for own in variables] == ["0,1", "0,1", "3"]


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="num_workers=0 must be positive"):
        of_ray.run(print, num_workers=0)
    with pytest.raises(ValueError, match="max_restarts=-1"):
        of_ray.run(print, max_restarts=-1)
    with pytest.raises(ValueError, match="resources_per_worker must name amounts"):
        of_ray.run(print, resources_per_worker={"CPU": -1})
    if importlib.util.find_spec("ray") is None:
        with pytest.raises(ImportError, match=r"pip install ray"):
            of_ray.run(print)
