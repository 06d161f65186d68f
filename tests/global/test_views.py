"""Views of global tensors on meshes: splits go on into the next dimension, without communication where they can."""

from __future__ import annotations

import itertools

import oneflow as torch
import pytest
from oneflow import _oneflow, sbp
from oneflow.testing import run_ranks

B, S0, S1, S2 = sbp.broadcast, sbp.split(0), sbp.split(1), sbp.split(2)


@pytest.mark.parametrize(
    ("shape", "size", "mesh", "layout", "expected"),
    [
        ((8, 4), (2, 4, 4), (2, 2), (S0, S0), (S0, S1)),
        ((2, 4, 4), (8, 4), (2, 2), (S0, S1), (S0, S0)),
        ((8, 4), (4, 2, 4), (2, 2), (S0, S0), (S0, S0)),
        ((8, 3), (2, 2, 2, 3), (2, 2, 2), (S0, S0, S0), (S0, S1, S2)),
        ((2, 2, 2, 3), (8, 3), (2, 2, 2), (S0, S1, S2), (S0, S0, S0)),
        ((2, 6), (4, 3), (2, 2), (S0, S1), (S0, S0)),
        ((4, 8), (4, 2, 4), (2, 2), (S0, S1), (S0, S1)),
        ((4, 8), (4, 2, 4), (2, 2), (S1, S1), (S1, S2)),
    ],
    ids=str,
)
def test_a_split_goes_on_in_the_next_dimension(shape, size, mesh, layout, expected) -> None:
    n = torch.tensor(mesh).prod().item()

    def rank() -> None:
        place = torch.placement("cpu", torch.arange(n).view(mesh).tolist())
        whole = torch.arange(float(torch.Size(shape).numel())).view(shape)
        x = whole.to_global(place, [B] * len(mesh)).to_global(sbp=list(layout)).requires_grad_()
        sent = _oneflow._wire_counters()
        y = x.view(size)
        assert _oneflow._wire_counters() == sent and y.sbp == expected
        assert y.tolist() == whole.view(size).tolist()
        (y * y).sum().backward()
        assert x.grad.sbp == x.sbp and x.grad.tolist() == (2 * whole).tolist()

    run_ranks(n, rank)


def test_every_split_of_a_view_keeps_its_values() -> None:
    """Also where nothing follows: shapes that do not divide, dimensions of size one, partial sums."""
    groups = [[(6,), (2, 3), (3, 2), (1, 6), (2, 1, 3)], [(12,), (4, 3), (2, 2, 3), (3, 4), (2, 6)]]

    def rank() -> int:
        place = torch.placement("cpu", [[0, 1], [2, 3]])
        n_tried = 0
        for shapes in groups:
            for shape, size in itertools.permutations(shapes, 2):
                whole = torch.arange(float(torch.Size(shape).numel())).view(shape)
                kinds = [B, sbp.partial_sum, *(sbp.split(d) for d in range(len(shape)))]
                for layout in itertools.product(kinds, repeat=2):
                    x = whole.to_global(place, [B, B]).to_global(sbp=list(layout))
                    y = x.reshape(size)
                    assert y.shape == size and y.tolist() == whole.view(size).tolist(), (shape, size, layout, y.sbp)
                    n_tried += 1
        return n_tried

    assert set(run_ranks(4, rank)) == {sum(4 * sum((2 + len(s)) ** 2 for s in shapes) for shapes in groups)}


@pytest.mark.parametrize("to", [B, S0])
def test_values_of_another_mesh_are_brought_to_the_tensor_they_are_written_to(to):
    """By lists and tensors of indices, and by slices."""

    def rank():
        line, square = torch.placement("cpu", [0, 1]), torch.placement("cpu", [[0], [1]])
        x = torch.arange(8.0).to_global(line, B).to_global(line, to)
        values = torch.tensor([5.0, 4.0, 3.0]).to_global(square, [B, B])
        x[[0, 2, 4]] = values
        x[torch.tensor([1, 3]).to_global(line, B)] = values[:2]
        x[5:8] = values
        return x.numpy().tolist()

    assert run_ranks(2, rank) == [[5.0, 5.0, 4.0, 4.0, 3.0, 5.0, 4.0, 3.0]] * 2


@pytest.mark.parametrize("parts", ["balanced", "chunks"])
def test_shards_of_size_one_keep_their_dimension(parts: str) -> None:
    """Along a dimension where the whole has more elements, which a view of the whole does not drop."""
    views = [lambda x: x.squeeze(), lambda x: x.squeeze(1), lambda x: x.squeeze((0, 1)), lambda x: x.t().squeeze(0)]
    views += [lambda x: x[..., None].squeeze(), lambda x: x.transpose(0, 1).squeeze()]

    def rank() -> None:
        place = torch.placement("cpu", [0, 1, 2, 3], parts=parts)
        for shape, dim in itertools.product([(4, 2), (3, 2), (4, 4), (1, 4)], (0, 1)):
            whole = torch.arange(1.0, 1 + torch.Size(shape).numel()).view(shape)
            for view in views:
                x = whole.to_global(place, B).to_global(sbp=sbp.split(dim), copy=True).requires_grad_()
                y, expected = view(x), view(whole)
                sizes = list(expected.shape)
                if (at := y.sbp[0].dim) is not None:
                    sizes[at] = place._part(sizes[at], 0, torch.distributed.get_rank())[1]
                assert list(y.to_local().shape) == sizes and y.tolist() == expected.tolist(), (shape, dim, y.sbp)
                (y * y).sum().backward()
                assert x.grad.tolist() == (2 * whole).tolist()
                if shape[dim] == 4:
                    with torch.no_grad():
                        view(x).mul_(3)
                    assert x.tolist() == (3 * whole).tolist()

    run_ranks(4, rank)
