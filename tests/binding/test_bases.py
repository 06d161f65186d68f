"""The base of a view (`_base`), and sizes and formats that are changed in place, against PyTorch."""

import oneflow
import pytest
import torch

VIEWS = {
    "flatten": lambda fw, x: x.flatten(),
    "reshape": lambda fw, x: x.reshape(-1),
    "reshape_as": lambda fw, x: x.reshape_as(fw.empty(3, 2, 2)),
    "unflatten": lambda fw, x: x.unflatten(0, (-1, 1)),
    "contiguous": lambda fw, x: x.contiguous(),
    "t": lambda fw, x: x[0].t(),
    "mT": lambda fw, x: x.mT,
    "expand": lambda fw, x: x.expand(2, *x.shape),
    "unsqueeze": lambda fw, x: x.unsqueeze(0),
    "chunk": lambda fw, x: x.chunk(2)[0],
    "unbind": lambda fw, x: x.unbind()[0],
    "narrow": lambda fw, x: x.narrow(0, 0, 1),
    "diagonal": lambda fw, x: x.diagonal(),
    "movedim": lambda fw, x: fw.movedim(x, 0, 1),
    "squeeze": lambda fw, x: x.squeeze(),
    "atleast_1d": lambda fw, x: fw.atleast_1d(x)[0],
    "view_as": lambda fw, x: x.view_as(x),
    "real": lambda fw, x: fw.view_as_real(x + 0j),
    "parts": lambda fw, x: (x + 0j).imag,
    "as bytes": lambda fw, x: x.unsqueeze(-1).view(fw.uint8),
    "repeat": lambda fw, x: x.repeat(1, 1, 1),
    "select copy": lambda fw, x: x[[0]],
    "mean": lambda fw, x: x.mean(0),
    "tril": lambda fw, x: x.tril(),
    "flip": lambda fw, x: x.flip(0),
    "rot90": lambda fw, x: fw.rot90(x),
    "stack": lambda fw, x: fw.hstack([x, x]),
    "cdist": lambda fw, x: fw.cdist(x, x),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize("name", VIEWS)
def test_bases(name, order, grad):
    seen = []
    for fw in (oneflow, torch):
        x = fw.arange(12.0).reshape(3, 2, 2).clone().requires_grad_(grad)
        y = VIEWS[name](fw, x.permute(order))
        seen.append(("x" if y._base is x else "other" if y._is_view() else None, y.requires_grad))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("make", ["rand", "randn", "ones", "empty", "zeros"])
def test_complex_tensors_are_no_views(make):
    x = getattr(oneflow, make)(2, 3, dtype=oneflow.complex64)
    assert x._base is None
    assert oneflow.view_as_real(x)._base is x
    assert x.T.imag._base is x


def test_a_result_that_is_no_view_is_written_in_place():
    """Temporaries of a composition are no bases: a write goes into the history of the result alone."""
    for fw in (oneflow, torch):
        x = fw.arange(6.0).reshape(2, 3).requires_grad_()
        y = x.t().flatten()
        y[1] = 5.0
        y.mul_(2.0)
        (y * fw.arange(6.0)).sum().backward()
        assert x.grad.tolist() == [[0.0, 4.0, 8.0], [0.0, 6.0, 10.0]]


@pytest.mark.parametrize(("size", "kind"), [((2, 3, 4, 5), "channels_last"), ((2, 3, 2, 4, 5), "channels_last_3d")])
def test_resize_applies_the_given_format(size, kind):
    for call in (
        lambda fw, f: fw.empty(0).resize_(size, memory_format=f),
        lambda fw, f: fw.empty(500).resize_(*size, memory_format=f),
        lambda fw, f: fw.empty(0).resize_as_(fw.empty(size), memory_format=f),
        lambda fw, f: fw.empty(0).resize_as_(
            fw.empty(size).contiguous(memory_format=f), memory_format=fw.preserve_format
        ),
        lambda fw, f: fw.empty(0).resize_as_(fw.empty(size).contiguous(memory_format=f)),
        lambda fw, f: fw.rand_like(fw.empty(size), memory_format=f),
        lambda fw, f: fw.randn_like(fw.empty(size), memory_format=f),
        lambda fw, f: fw.randint_like(fw.empty(size), 1, 5, memory_format=f),
        lambda fw, f: fw.randint_like(fw.empty(size), 5, memory_format=f),
    ):
        ours, theirs = (call(fw, getattr(fw, kind)) for fw in (oneflow, torch))
        assert (tuple(ours.shape), ours.stride()) == (tuple(theirs.shape), theirs.stride())
    with pytest.raises(RuntimeError, match="memory format"):
        oneflow.empty(0).resize_(size, memory_format=oneflow.preserve_format)
    with pytest.raises(RuntimeError, match="rank"):
        oneflow.empty(0).resize_(2, 3, memory_format=getattr(oneflow, kind))


@pytest.mark.parametrize("size", [[0, 4, 2**61], [2, 4, 2**29, 2**29], [8, 8, 2**29, 2**29]])
def test_sizes_that_overflow(size):
    for call in (lambda fw: fw.empty((), dtype=fw.float64).resize_(size), lambda fw: fw.empty(size, dtype=fw.float64)):
        for fw in (oneflow, torch):
            with pytest.raises(RuntimeError, match="overflow"):
                call(fw)
