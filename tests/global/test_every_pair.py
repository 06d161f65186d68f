"""Every ordered pair of layouts on one mesh, on meshes of different shapes and across placements: values and gradients.

Dimensions are smaller than the mesh (some shards are empty), uneven, and zero.
"""

from __future__ import annotations

import itertools

import oneflow
import pytest
from oneflow.testing import run_ranks

SBPS = (oneflow.sbp.split(0), oneflow.sbp.split(1), oneflow.sbp.broadcast, oneflow.sbp.partial_sum)


def depth(mesh: list) -> int:
    return 1 + (depth(mesh[0]) if isinstance(mesh[0], list) else 0)


@pytest.mark.parametrize(
    ("one", "other", "shapes"),
    [
        ([0, 1, 2, 3], None, [(1, 1), (5, 7), (0, 3)]),
        ([[0, 1], [2, 3]], None, [(3, 1)]),
        ([0, 1], [2, 3], [(1, 3)]),
        ([0, 1, 2], [1, 3], [(1, 1), (2, 5)]),
        ([0, 3], [3, 0], [(1, 3)]),
        ([[0, 1], [2, 3]], [0, 1, 2, 3], [(3, 2)]),
        ([0, 1, 2, 3], [[0, 1], [2, 3]], [(1, 2)]),
        ([1, 0], [[0, 1], [2, 3]], [(3, 1)]),
    ],
    ids=str,
)
def test_every_pair(one: list, other: list | None, shapes: list[tuple[int, int]]) -> None:
    def rank() -> list[str]:
        whole = oneflow.placement("cpu", [0, 1, 2, 3])
        before, after = oneflow.placement("cpu", one), oneflow.placement("cpu", one if other is None else other)
        wrong = []
        for shape in shapes:
            oneflow.manual_seed(3)
            value, weight = oneflow.randn(*shape), oneflow.randn(*shape)
            w = weight.to_global(placement=whole, sbp=oneflow.sbp.broadcast)
            pairs = itertools.product(
                itertools.product(SBPS, repeat=depth(one)), itertools.product(SBPS, repeat=depth(other or one))
            )
            for source, target in pairs:
                x = value.to_global(placement=whole, sbp=oneflow.sbp.broadcast).requires_grad_()
                moved = x.to_global(placement=before, sbp=list(source)).to_global(placement=after, sbp=list(target))
                back = moved.to_global(placement=whole, sbp=oneflow.sbp.broadcast)
                (back * w).sum().backward()
                for what, found, expected in (("value", back, value), ("gradient", x.grad, weight)):
                    local = found.to_global(placement=whole, sbp=oneflow.sbp.broadcast).to_local()
                    if local.shape != expected.shape or not oneflow.allclose(local, expected, atol=1e-5):
                        wrong.append(f"{what} of {shape}: {source} to {target}")
        return wrong

    assert run_ranks(4, rank) == [[]] * 4
