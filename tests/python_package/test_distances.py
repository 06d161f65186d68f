"""Distances of all pairs of rows, by differences and by one product: values and derivatives as in PyTorch."""

import oneflow
import pytest
import torch

MODES = ["use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"]


def run(fw, shapes, p, mode, equal_rows):
    torch.manual_seed(0)
    x1, x2 = (torch.randn(s, dtype=torch.float64) for s in shapes)
    if equal_rows:
        x2[..., 0, :] = x1[..., 0, :]
    weight = torch.randn(torch.cdist(x1, x2).shape, dtype=torch.float64)
    x1, x2, weight = (fw.tensor(x.numpy()) for x in (x1, x2, weight))
    x1.requires_grad_()
    x2.requires_grad_()
    y = fw.cdist(x1, x2, p, compute_mode=mode)
    grads = fw.autograd.grad((y * weight).sum(), [x1, x2], create_graph=True)
    second = fw.autograd.grad(grads[0].square().sum(), [x1, x2]) if not equal_rows else ()
    return [torch.tensor(t.detach().numpy()) for t in (y, *grads, *second)]


SHAPES = [((3, 4), (5, 4)), ((30, 4), (2, 4)), ((2, 27, 3), (2, 28, 3))]
BATCHES = ((2, 1, 26, 3), (3, 4, 3))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("p", [2.0, 1.0, 3.0])
@pytest.mark.parametrize(
    ("shapes", "equal_rows"), [(BATCHES, False), *((s, equal) for s in SHAPES for equal in (False, True))]
)
def test_cdist(shapes, equal_rows, p, mode):
    expected = run(torch, shapes, p, mode, equal_rows)
    got = run(oneflow, shapes, p, mode, equal_rows)
    # The root of a rounding error of two equal rows is its distance: 1e-16 becomes 1e-8.
    tolerance = 1e-7 if equal_rows else 1e-10
    for a, b in zip(expected, got, strict=True):
        if equal_rows and p == 2.0 and mode != "donot_use_mm_for_euclid_dist":
            a, b = a[..., 1:, :], b[..., 1:, :]
        torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance)
