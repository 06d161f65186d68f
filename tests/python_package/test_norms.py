"""Norms, losses and resampling as layers: values, gradients, state and errors compared with PyTorch's."""

import numpy as np
import oneflow
import pytest
import torch
from torch_oracle import close

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)


def leaves(shape, dtype="float32", layout=None):
    """The same leaf for either framework."""
    values = RNG.standard_normal(shape)
    out = []
    for fw in (oneflow, torch):
        t = fw.tensor(values.tolist(), dtype=getattr(fw, dtype))
        t = t.reshape(shape)
        if layout is not None:
            t = t.to(memory_format=getattr(fw, layout))
        out.append(t.detach().requires_grad_(True))
    return out


TOLERANCE = {"float64": 1e-10, "float32": 2e-5, "bfloat16": 4e-2, "float16": 1e-2}


def check_step(mine, theirs, x, y, dtype="float32"):
    """One forward and backward of two equal modules."""
    a, b = mine(x), theirs(y)
    close(a, b, TOLERANCE[dtype])
    assert a.stride() == tuple(b.stride())
    g = RNG.standard_normal(tuple(b.shape))
    a.backward(oneflow.tensor(g.tolist(), dtype=a.dtype).reshape(tuple(a.shape)))
    b.backward(torch.tensor(g, dtype=b.dtype))
    close(x.grad, y.grad, TOLERANCE[dtype])
    for (name, p), q in zip(mine.named_parameters(), theirs.parameters(), strict=True):
        close(p.grad, q.grad, TOLERANCE[dtype], name)
    for (name, p), q in zip(mine.named_buffers(), theirs.buffers(), strict=True):
        close(p, q, TOLERANCE[dtype], name)


NORMS = [
    ("BatchNorm1d", (7,), (5, 7)),
    ("BatchNorm1d", (3,), (4, 3, 9)),
    ("BatchNorm2d", (19,), (4, 19, 5, 6)),
    ("BatchNorm2d", (3,), (2, 3, 1, 1)),
    ("BatchNorm3d", (3,), (2, 3, 4, 2, 3)),
    ("SyncBatchNorm", (3,), (4, 3, 5)),
    ("GroupNorm", (2, 6), (3, 6, 5, 4)),
    ("GroupNorm", (3, 6), (3, 6)),
    ("InstanceNorm1d", (4,), (3, 4, 5)),
    ("InstanceNorm2d", (4,), (3, 4, 5, 2)),
    ("LocalResponseNorm", (3,), (2, 5, 4, 3)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("name, args, shape", NORMS)
def test_norm(name, args, shape, dtype):
    layouts = [None, "channels_last"] if len(shape) == 4 else [None]
    if name in ("LocalResponseNorm", "SyncBatchNorm") and dtype != "float32":
        return
    for layout in layouts:
        if dtype.endswith("16") and shape in ((2, 3, 1, 1), (3, 6)):
            # Two or three values a channel: what is normalised is the rounding of half types.
            continue
        mine, theirs = (getattr(fw.nn, name)(*args).to(getattr(fw, dtype)) for fw in (oneflow, torch))
        for _ in range(2):
            if name == "SyncBatchNorm":
                theirs = torch.nn.BatchNorm1d(*args)
            check_step(mine, theirs, *leaves(shape, dtype, layout), dtype)
            mine.zero_grad(), theirs.zero_grad()
            if name == "SyncBatchNorm":
                break
        if not name.startswith("SyncBatch"):
            mine.eval(), theirs.eval()
            check_step(mine, theirs, *leaves(shape, dtype, layout), dtype)


@pytest.mark.parametrize("momentum", [0.3, None])
@pytest.mark.parametrize("track", [True, False])
def test_running_statistics(momentum, track):
    mine, theirs = (
        fw.nn.BatchNorm1d(4, momentum=momentum, track_running_stats=track, affine=False) for fw in (oneflow, torch)
    )
    for _ in range(3):
        check_step(mine, theirs, *leaves((6, 4)))
    if track:
        assert int(mine.num_batches_tracked) == int(theirs.num_batches_tracked) == 3
    mine.eval(), theirs.eval()
    check_step(mine, theirs, *leaves((6, 4)))
    assert list(mine.state_dict()) == list(theirs.state_dict())


def test_many_rows_of_channels():
    """Blocks of rows are combined: more rows than a block, an odd number of channels, a mean far from zero."""
    values = RNG.standard_normal((5000, 37)) + 1000
    a, b = oneflow.tensor(values.tolist(), dtype=oneflow.float32), torch.tensor(values, dtype=torch.float64)
    mine = oneflow.nn.functional.batch_norm(a, None, None, training=True)
    theirs = torch.nn.functional.batch_norm(b, None, None, training=True)
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), atol=5e-4)


def test_second_derivatives():
    for f in (
        lambda x: oneflow.nn.functional.batch_norm(x, None, None, training=True),
        lambda x: oneflow.group_norm(x, 2),
        lambda x: oneflow.nn.functional.interpolate(x, scale_factor=1.7, mode="linear"),
        lambda x: oneflow.nn.functional.smooth_l1_loss(x, oneflow.full_like(x, 0.3)),
        lambda x: oneflow.nn.functional.binary_cross_entropy_with_logits(x, (x > 0).to(x.dtype)),
    ):
        x = oneflow.tensor(RNG.standard_normal((3, 4, 5)).tolist(), dtype=oneflow.float64, requires_grad=True)
        assert oneflow.autograd.gradcheck(f, (x,)) and oneflow.autograd.gradgradcheck(f, (x,))


def test_traced_batch_norm_updates_its_statistics():
    class Step(oneflow.nn.Graph):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def build(self, x):
            return self.module(x)

    eager, traced = oneflow.nn.BatchNorm2d(3), oneflow.nn.BatchNorm2d(3)
    graph = Step(traced)
    for _ in range(3):
        x = oneflow.tensor(RNG.standard_normal((2, 3, 4, 4)).tolist())
        close(eager(x), graph(x))
    close(eager.running_var, traced.running_var)
    assert int(traced.num_batches_tracked) == 3


ERRORS = [
    (ValueError, lambda fw: fw.nn.BatchNorm2d(3)(fw.zeros(2, 3))),
    (ValueError, lambda fw: fw.nn.BatchNorm1d(3)(fw.zeros(1, 3))),
    (RuntimeError, lambda fw: fw.nn.BatchNorm1d(3)(fw.zeros(4, 5))),
    (ValueError, lambda fw: fw.nn.GroupNorm(2, 3)),
    (RuntimeError, lambda fw: fw.nn.functional.group_norm(fw.zeros(2, 3), 2)),
    (ValueError, lambda fw: fw.nn.functional.cross_entropy(fw.zeros(2, 3), fw.zeros(3, dtype=fw.int64))),
    (IndexError, lambda fw: fw.nn.functional.cross_entropy(fw.zeros(2, 3), fw.tensor([0, 3]))),
    (ValueError, lambda fw: fw.nn.functional.cross_entropy(fw.zeros(2, 3), fw.tensor([0, 1]), reduction="all")),
    (RuntimeError, lambda fw: fw.nn.functional.cross_entropy(fw.zeros(2, 3), fw.tensor([0, 1]), label_smoothing=2.0)),
    (RuntimeError, lambda fw: fw.nn.functional.cross_entropy(fw.zeros(2, 3), fw.tensor([0.0, 1.0]))),
    (RuntimeError, lambda fw: fw.nn.functional.cross_entropy(fw.zeros(2, 3), fw.tensor([0, 1]), fw.ones(2))),
    (IndexError, lambda fw: fw.nn.functional.nll_loss(fw.zeros(2, 3), fw.tensor([0, 5]))),
    (ValueError, lambda fw: fw.nn.functional.binary_cross_entropy(fw.zeros(2), fw.zeros(3))),
    (ValueError, lambda fw: fw.nn.functional.binary_cross_entropy_with_logits(fw.zeros(2), fw.zeros(3))),
    (RuntimeError, lambda fw: fw.nn.functional.pad(fw.zeros(1, 1, 3), (3, 0), mode="reflect")),
    (NotImplementedError, lambda fw: fw.nn.functional.pad(fw.zeros(1, 1, 3), (1, 0), mode="mirror")),
    (ValueError, lambda fw: fw.nn.functional.interpolate(fw.zeros(1, 1, 3))),
    (NotImplementedError, lambda fw: fw.nn.functional.interpolate(fw.zeros(1, 3), scale_factor=2)),
    (ValueError, lambda fw: fw.nn.functional.interpolate(fw.zeros(1, 1, 3), size=2, align_corners=True)),
    (RuntimeError, lambda fw: fw.nn.functional.pixel_shuffle(fw.zeros(1, 3, 2, 2), 2)),
    (RuntimeError, lambda fw: fw.cdist(fw.zeros(2, 3), fw.zeros(2, 4))),
    (ValueError, lambda fw: fw.nn.functional.grid_sample(fw.zeros(1, 1, 2, 2), fw.zeros(1, 2, 2, 2), mode="cubic")),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors(case):
    kind, f = ERRORS[case]
    for fw in (torch, oneflow):
        with pytest.raises(kind) as e:
            f(fw)
        assert type(e.value) is kind, fw.__name__


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("layout", [None, "channels_last"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_interpolate(mode, layout, dtype):
    for sizes in ({"size": (9, 4)}, {"scale_factor": (0.6, 2.3)}, {"size": (5, 7)}):
        for options in [{}] + ([{"align_corners": True}, {"antialias": True}] if mode[0] == "b" else []):
            x, y = leaves((2, 6, 5, 7), dtype, layout)
            if dtype == "bfloat16" and (layout or "antialias" in options):
                continue
            a = oneflow.nn.functional.interpolate(x, mode=mode, **sizes, **options)
            b = torch.nn.functional.interpolate(y, mode=mode, **sizes, **options)
            close(a, b, TOLERANCE[dtype])
            assert a.stride() == tuple(b.stride())
            a.sum().backward()
            b.sum().backward()
            close(x.grad, y.grad, TOLERANCE[dtype])


def test_ctc():
    probs = torch.randn(12, 3, 6, dtype=torch.float64).log_softmax(2)
    targets, lengths, times = [[1, 2, 2, 3], [4, 4, 1, 1], [5, 1, 2, 3]], [4, 2, 0], [12, 9, 3]
    for reduction in ("none", "mean", "sum"):
        out = []
        for fw in (oneflow, torch):
            x = fw.tensor(probs.tolist(), dtype=fw.float64, requires_grad=True)
            loss = fw.nn.functional.ctc_loss(
                x, fw.tensor(targets), fw.tensor(times), fw.tensor(lengths), reduction=reduction
            )
            loss.sum().backward()
            out.append((loss.detach().tolist(), x.grad.tolist()))
        np.testing.assert_allclose(out[0][0], out[1][0])
        np.testing.assert_allclose(out[0][1], out[1][1], atol=1e-12)
    impossible = [
        fw.nn.functional.ctc_loss(
            fw.zeros(2, 1, 3).log_softmax(2), fw.tensor([[1, 1]]), fw.tensor([2]), fw.tensor([2]), zero_infinity=True
        )
        for fw in (oneflow, torch)
    ]
    assert [float(t) for t in impossible] == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="input_lengths"):
        oneflow.nn.functional.ctc_loss(oneflow.zeros(2, 1, 3), oneflow.tensor([[1]]), (3,), (1,))
