"""What ranks tell each other before local tensors become one global tensor: layouts, dtypes and shapes."""

from __future__ import annotations

import oneflow as torch
import pytest
from oneflow import sbp
from oneflow.testing import run_ranks


def _refused(n: int, shard) -> list[str]:
    """The errors of ``n`` ranks that make ``shard(rank)`` global."""

    def rank() -> str:
        with pytest.raises(RuntimeError) as error:
            local, placement, layout = shard(torch.distributed.get_rank())
            local.to_global(placement, layout)
        return str(error.value)

    return run_ranks(n, rank)


def test_a_rank_outside_learns_shape_and_dtype_of_the_whole() -> None:
    def rank() -> None:
        inside = torch.distributed.get_rank() < 2
        local = torch.ones(4, 4, dtype=torch.int32) if inside else torch.zeros(1)
        for layout, shape in [(sbp.split(0), (8, 4)), (sbp.split(1), (4, 8)), (sbp.broadcast, (4, 4))]:
            x = local.to_global(torch.placement("cpu", [0, 1]), layout)
            assert (tuple(x.shape), x.dtype, x.sbp) == (shape, torch.int32, (layout,))
            everywhere = x.to_global(torch.placement.all("cpu"), sbp.broadcast)
            assert everywhere.to_local().tolist() == torch.ones(shape, dtype=torch.int32).tolist()

    run_ranks(3, rank)


@pytest.mark.parametrize(
    "layouts",
    [
        [("cpu", [0, 1], [sbp.split(1)]), ("cpu", [0], [sbp.split(1)])],
        [("cpu", [0, 1], [sbp.split(0)]), ("cpu", [0, 1], [sbp.split(1)])],
        [("cpu", [[0, 1]], [sbp.split(0), sbp.broadcast]), ("cpu", [[0], [1]], [sbp.split(0), sbp.broadcast])],
    ],
    ids=["ranks", "sbp", "hierarchy"],
)
def test_layouts_that_differ_are_named_on_every_rank(layouts) -> None:
    def shard(rank):
        device, ranks, layout = layouts[rank]
        return torch.ones(2, 2), torch.placement(device, ranks), layout

    first, second = _refused(2, shard)
    assert first == second and "ranks named different layouts: rank 0 [" in first
    assert all(f'type="cpu", ranks={ranks}' in first for _, ranks, _ in layouts)


def test_shards_that_do_not_fit_are_named() -> None:
    p = lambda: torch.placement.all("cpu")  # noqa: E731
    dtypes = _refused(2, lambda rank: (torch.ones(2, dtype=(torch.int32, torch.float32)[rank]), p(), sbp.split(0)))
    assert set(dtypes) == {"to_global(): the shards have different dtypes: int32 on rank 0, float32 on rank 1"}
    shapes = _refused(2, lambda rank: (torch.ones(2, 3 + rank), p(), sbp.split(0)))
    assert "rank 0 has shape [2, 3], rank 1 has shape [2, 4]" in shapes[0] == shapes[1]
    dims = _refused(2, lambda rank: (torch.ones([2, 3][: 1 + rank]), p(), sbp.split(0)))
    assert "rank 0 has shape [2], rank 1 has shape [2, 3]" in dims[0] == dims[1]
    missing = _refused(2, lambda rank: (torch.ones(2), p(), sbp.split(1)))
    assert "does not fit a tensor of shape [2]" in missing[0] == missing[1]


def test_oneflows_sentences() -> None:
    p = lambda: torch.placement.all("cpu")  # noqa: E731
    with torch.conventions("oneflow"):
        uneven = _refused(2, lambda rank: (torch.ones(2 + 2 * rank, 4), p(), sbp.split(0)))
        other = _refused(2, lambda rank: (torch.ones(2 + 2 * rank, 4), p(), sbp.split(1)))
        layouts = _refused(2, lambda rank: (torch.ones(2), torch.placement("cpu", [0, 1][: 2 - rank]), sbp.split(0)))
    assert all("dimension 0 must be same or match balanced split" in text for text in uneven)
    assert all("Expected size 2 but got size 4 for tensor on rank 1!" in text for text in other)
    assert all("Inconsistent parallel description" in text for text in layouts)


def test_a_rank_that_gives_up_ends_the_waiting_of_others_in_parts_of_a_mesh() -> None:
    texts: dict[int, str] = {}

    def rank() -> None:
        mesh = torch.placement("cpu", [[0, 1], [2, 3]])
        try:
            x = torch.ones(4).to_global(mesh, [sbp.broadcast] * 2).to_global(sbp=[sbp.broadcast, sbp.split(0)])
            if torch.distributed.get_rank() == 3:
                raise ValueError("gives up")
            # Ranks 2 and 3 alone talk here.
            x.to_global(sbp=[sbp.broadcast] * 2)
        except RuntimeError as error:
            texts[torch.distributed.get_rank()] = str(error)

    with pytest.raises(ValueError, match="gives up"):
        run_ranks(4, rank, timeout=20)
    assert "ValueError: gives up" in texts[2]
