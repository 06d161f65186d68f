"""Walks through state dictionaries, beside PyTorch's."""

from __future__ import annotations

import gc
import random
import weakref
from typing import Any

import oneflow
import oneflow.distributed.checkpoint._flatten as flat_tables
import oneflow.distributed.checkpoint._nested_dict as nests
import oneflow.distributed.checkpoint._traverse as walks
import pytest
import torch
import torch.distributed.checkpoint._nested_dict as their_nests
import torch.distributed.checkpoint._traverse as their_walks


def nest(package: Any, chance: random.Random, depth: int) -> Any:
    kind = chance.choice(["dict", "list", "leaf", "leaf"]) if depth else "leaf"
    if kind == "dict":
        return {chance.choice(["a", "b", 3]): nest(package, chance, depth - 1) for _ in range(chance.randint(0, 3))}
    if kind == "list":
        return [nest(package, chance, depth - 1) for _ in range(chance.randint(0, 3))]
    return chance.choice([1, "text", (1, 2), package.tensor([1.0]), package.tensor([2.0])])


def plain(value: Any) -> Any:
    """A nest with numbers for tensors."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(item) for item in value)
    return value.tolist() if hasattr(value, "tolist") else value


def test_nests_are_walked_through_and_flattened_as_pytorch_does() -> None:
    for seed in range(300):
        mine, theirs = (
            {f"k{i}": nest(package, chance, 4) for i in range(3)}
            for package, chance in ((oneflow, random.Random(seed)), (torch, random.Random(seed)))
        )
        visits: list[list[Any]] = [[], []]
        walks.traverse_state_dict(mine, lambda path, value: visits[0].append((path, plain(value))))  # noqa: B023
        their_walks.traverse_state_dict(theirs, lambda path, value: visits[1].append((path, plain(value))))  # noqa: B023
        assert visits[0] == visits[1], seed
        flat, paths = nests.flatten_state_dict(mine)
        their_flat, their_paths = their_nests.flatten_state_dict(theirs)
        assert plain(flat) == plain(their_flat) and paths == their_paths, seed
        assert plain(nests.unflatten_state_dict(flat, paths)) == plain(
            their_nests.unflatten_state_dict(their_flat, their_paths)
        ), seed
        for path, value in visits[0]:
            assert plain(walks.get_element(mine, path)) == value or "3" in path
            assert walks.get_element(mine, (*path, "none"), 7) == 7 and walks.get_element(mine, (*path, 99)) is None


def test_two_paths_of_one_name() -> None:
    with pytest.raises(ValueError, match=r"duplicated flatten key a\.b"):
        nests.flatten_state_dict({"a": {"b": 1}, "a.b": 2})


def test_elements_are_put_where_nothing_is() -> None:
    for module in (walks, their_walks):
        root: dict[str, Any] = {}
        for path, value in ((("k", 2), 1), (("k", 1), 99), (("m", "n", 0, 0), 5), (("k", 4, "x"), 6)):
            module.set_element(root, path, value)
        assert root == {"k": [None, 99, 1, None, {"x": 6}], "m": {"n": [[5]]}}
    said: list[str] = []
    walks.print_tensor(("a", 0), oneflow.ones(2, 3), said.append)
    walks.print_tensor(("b",), "text", said.append)
    assert said == ["('a', 0) Tensor size: oneflow.Size([2, 3])", "('b',) Type: <class 'str'>"]


@pytest.mark.parametrize("flatten", [nests.flatten_state_dict, flat_tables.flatten])
def test_flat_tables_keep_no_tensor_longer_than_they_live(flatten: Any) -> None:
    """Also where the collector of cycles does not run: a checkpoint is as large as a model."""
    kept = oneflow.ones(2)
    tensor = weakref.ref(kept)
    gc.disable()
    try:
        table = flatten({"a": {"b": [kept]}})
        del kept
        assert tensor() is not None
        del table
        assert tensor() is None
    finally:
        gc.enable()
