"""`grid_sample` and its gradients beside PyTorch: modes, borders, layouts, channels, positions anywhere."""

import itertools

import numpy as np
import oneflow
import oneflow.func
import oneflow.nn.functional as functional
import pytest
import torch
import torch.nn.functional as torch_functional

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")

INF, NAN = float("inf"), float("nan")
GRIDS = [
    (mode, border, align, dims)
    for mode, border, align, dims in itertools.product(
        ("nearest", "bilinear", "bicubic"), ("zeros", "border", "reflection"), (False, True), (2, 3)
    )
    if not (mode == "bicubic" and dims == 3)
]
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "strided": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "expanded": lambda x: x[:1].expand(x.shape),
    "channels last": lambda x: x.movedim(1, -1).contiguous().movedim(-1, 1),
}
grids = pytest.mark.parametrize(("mode", "border", "align", "dims"), GRIDS)


def positions(rng, shape):
    # Positions half way between neighbours are rounded by the last bit of their product: none are drawn.
    return np.round(rng.uniform(-1.6, 1.6, shape), 3) + 0.00031


def run(fw, values, dtype, layouts, wanted, options):
    """The result, its gradients for the wanted ones of images and positions, as doubles."""
    tensors = [LAYOUTS[layout](fw.tensor(v).to(getattr(fw, dtype))) for v, layout in zip(values, layouts, strict=True)]
    for t, want in zip(tensors, wanted, strict=True):
        t.requires_grad_(want)
    y = fw.nn.functional.grid_sample(*tensors, **options)
    (y * y).sum().backward()
    return [y.detach()] + [t.grad for t in tensors]


def same(ours, theirs, **tolerance):
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            assert tuple(a.shape) == tuple(b.shape)
            assert str(a.dtype).split(".")[-1] == str(b.dtype).split(".")[-1]
            np.testing.assert_allclose(a.double().numpy(), b.double().numpy(), **tolerance)


@grids
def test_beside_torch(mode, border, align, dims):
    """Every number of channels is read in blocks of its own, in each layout, with one or both of the gradients."""
    rng = np.random.default_rng(2)
    options = {"mode": mode, "padding_mode": border, "align_corners": align}
    layouts = itertools.cycle(itertools.product(LAYOUTS, list(LAYOUTS)[:4]))
    wanted = itertools.cycle([(True, True), (True, False), (False, True)])
    for n_channels, dtype in itertools.product((1, 2, 3, 4, 5, 18), ("float32", "float64")):
        shape, places = ((2, n_channels, 5, 6), (2, 3, 70)) if dims == 2 else ((2, n_channels, 4, 5, 6), (2, 2, 3, 70))
        values = rng.standard_normal(shape), positions(rng, (*places, dims))
        for _ in range(4):
            case = (values, dtype, next(layouts), next(wanted), options)
            tolerance = {"rtol": 2e-3, "atol": 1e-3} if dtype == "float32" else {"rtol": 1e-9, "atol": 1e-10}
            same(run(oneflow, *case), run(torch, *case), **tolerance)
            # Without gradients nothing is kept.
            x, grid = (LAYOUTS[layout](oneflow.tensor(v)) for v, layout in zip(values, case[2], strict=True))
            with oneflow.no_grad():
                direct = functional.grid_sample(x, grid, **options)
            y = torch_functional.grid_sample(
                *(LAYOUTS[layout](torch.tensor(v)) for v, layout in zip(values, case[2], strict=True)), **options
            )
            same([direct], [y], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_gradients_on_the_borders_are_torchs(border, align):
    """Where a position meets a border exactly its place is a corner: PyTorch says that it does not move there."""
    size = 4
    edges = [-1.0, 1.0, -1 + 1 / size, 1 - 1 / size, -3.0, 3.0, -0.5, 0.25]
    grid = np.stack(np.meshgrid(edges, edges), -1)[None]
    values = np.random.default_rng(4).standard_normal((1, 2, size, size)), grid
    options = {"mode": "bilinear", "padding_mode": border, "align_corners": align}
    case = (values, "float64", ("contiguous", "contiguous"), (True, True), options)
    same(run(oneflow, *case), run(torch, *case), rtol=1e-10, atol=1e-12)


@grids
def test_second_derivatives(mode, border, align, dims):
    """PyTorch has none; finite differences of the first derivatives have."""
    rng = np.random.default_rng(5)
    shape, places = ((1, 2, 3, 4), (1, 1, 3)) if dims == 2 else ((1, 2, 2, 3, 2), (1, 1, 1, 3))
    x = oneflow.tensor(rng.standard_normal(shape), requires_grad=True)
    grid = oneflow.tensor(positions(rng, (*places, dims)), requires_grad=mode != "nearest")

    def f(x, grid):
        return functional.grid_sample(x, grid, mode=mode, padding_mode=border, align_corners=align)

    assert oneflow.autograd.gradcheck(f, (x, grid))
    # The gradient of a nearest element is the same for all images.
    assert mode == "nearest" or oneflow.autograd.gradgradcheck(f, (x, grid))


def test_in_transforms():
    """Forward mode and vmap are made of the same ops as the gradients."""
    rng = np.random.default_rng(6)
    x, grid = rng.standard_normal((3, 2, 2, 4, 5)), positions(rng, (3, 2, 3, 4, 2))

    def of(fw, functions):
        def f(x, grid):
            return fw.nn.functional.grid_sample(x, grid, align_corners=False)

        a, b = fw.tensor(x), fw.tensor(grid)
        loss = functions.grad(lambda x, grid: (f(x, grid) ** 2).sum(), argnums=(0, 1))
        _, tangent = functions.jvp(f, (a[0], b[0]), (a[1], b[1] * 0.1))
        return [functions.vmap(f)(a, b), tangent, *functions.vmap(loss)(a, b)]

    ours = of(oneflow, oneflow.func)
    rows = [[t[i] for t in of(torch, torch.func)[:1]] for i in range(3)]
    same([ours[0][i] for i in range(3)], [row[0] for row in rows], rtol=1e-9, atol=1e-10)
    # PyTorch has no forward mode for it: a difference of two steps has.
    a, b = oneflow.tensor(x), oneflow.tensor(grid)
    step = 1e-6
    ends = [functional.grid_sample(a[0] + s * a[1], b[0] + s * b[1] * 0.1, align_corners=False) for s in (step, -step)]
    np.testing.assert_allclose(ours[1].numpy(), ((ends[0] - ends[1]) / (2 * step)).numpy(), rtol=1e-5, atol=1e-6)
    for i in range(3):
        case = ((x[i], grid[i]), "float64", ("contiguous", "contiguous"), (True, True), {"align_corners": False})
        same([t[i] for t in ours[2:]], run(torch, *case)[1:], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types_are_rounded_once(dtype):
    rng = np.random.default_rng(7)
    half = getattr(oneflow, dtype)
    x, grid = (
        oneflow.tensor(rng.standard_normal((2, 3, 5, 6))).to(half),
        oneflow.tensor(positions(rng, (2, 4, 9, 2))).to(half),
    )
    results = []
    for make in (lambda t: t.clone(), lambda t: t.float()):
        a, b = make(x).requires_grad_(), make(grid).requires_grad_()
        y = functional.grid_sample(a, b, align_corners=False)
        y.sum().backward()
        results.append([t.to(half) for t in (y.detach(), a.grad, b.grad)])
    same(*results, rtol=0, atol=0)


def test_positions_outside():
    """Infinite elements do not reach neighbouring positions, and a position that is NaN is nowhere."""
    x = oneflow.tensor([[[[1.0, INF], [2.0, NAN]]]], requires_grad=True)
    grid = oneflow.tensor([[[[-3.0, -3.0], [NAN, 0.0], [9.0, 9.0]]]], requires_grad=True)
    y = functional.grid_sample(x, grid, align_corners=False)
    assert y.tolist() == [[[[0.0, 0.0, 0.0]]]]
    y.sum().backward()
    assert x.grad.tolist() == [[[[0.0, 0.0], [0.0, 0.0]]]]
    assert grid.grad[0, 0, [0, 2]].tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_empty():
    for n, c, places in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        case = (
            (np.ones((n, c, 2, 2)), np.zeros((n, places, 2, 2))),
            "float32",
            ("contiguous", "contiguous"),
            (True, True),
            {"align_corners": False},
        )
        same(run(oneflow, *case), run(torch, *case), rtol=0, atol=0)
