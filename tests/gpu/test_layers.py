"""Networks of every kind of layer train on a GPU as they do on the CPU, in float32 and in half types."""

import oneflow
import oneflow.nn as nn
import oneflow.nn.functional as F
import pytest

pytestmark = pytest.mark.gpu


class Images(nn.Module):
    """Convolutions (strided, grouped, depthwise, dilated, transposed), poolings, norms over channels, resampling."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.depthwise = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.Conv2d(16, 32, 1), nn.GroupNorm(4, 32))
        self.grouped = nn.Conv2d(32, 32, 3, 1, 2, dilation=2, groups=4)
        self.up = nn.ConvTranspose2d(32, 8, 2, 2)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.pool(self.stem(x))
        x = F.gelu(self.depthwise(x))
        x = F.avg_pool2d(F.relu(self.grouped(x)), 3, 1, 1)
        x = F.interpolate(self.up(x), scale_factor=1.5, mode="bilinear")
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Volumes(nn.Module):
    """One and three spatial dimensions."""

    def __init__(self):
        super().__init__()
        self.three = nn.Sequential(nn.Conv3d(1, 4, 3, 2, 1), nn.BatchNorm3d(4), nn.ReLU(), nn.AdaptiveMaxPool3d(2))
        self.one = nn.Sequential(nn.Conv1d(4, 8, 3, padding=1), nn.MaxPool1d(2), nn.Tanh())
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        x = self.three(x.reshape(x.shape[0], 1, 12, 16, 16)).flatten(2)
        return self.head(self.one(x).flatten(1))


class Sequences(nn.Module):
    """Attention (causal, and masked with more heads of the query than of key and value) and recurrent layers."""

    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(16, 24, mode="mean")
        self.lstm = nn.LSTM(24, 24, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(48, 24, batch_first=True)
        self.qkv = nn.Linear(24, 24 + 2 * 12)
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        tokens = (x.flatten(1)[:, :64] * 4).abs().long().clamp(0, 15).reshape(-1, 4)
        x = self.table(tokens).reshape(x.shape[0], 16, 24)
        x = self.gru(self.lstm(x)[0])[0]
        q, k, v = self.qkv(x).split([24, 12, 12], -1)
        q, k, v = (t.unflatten(-1, (-1, 6)).transpose(1, 2) for t in (q, k, v))
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        mask = oneflow.arange(16, device=x.device)[None, :] % 3 != oneflow.arange(16, device=x.device)[:, None] % 2 + 1
        x = x + F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.head(x.transpose(1, 2).flatten(2).mean(1))


def losses(kind, device, channels_last=False, amp=None, n_steps=4):
    oneflow.manual_seed(0)
    model = kind().to(device)
    x = oneflow.randn(6, 3, 32, 32).to(device)
    y = oneflow.tensor([0, 1, 2, 3, 4, 1]).to(device)
    if channels_last:
        model, x = model.to(memory_format=oneflow.channels_last), x.to(memory_format=oneflow.channels_last)
    optimizer = oneflow.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    history = []
    for _ in range(n_steps):
        with oneflow.autocast(oneflow.device(device).type, dtype=amp, enabled=amp is not None):
            loss = F.cross_entropy(model(x).float(), y, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history


@pytest.mark.parametrize("kind", [Images, Volumes, Sequences])
def test_losses_are_the_cpus(kind, gpu):
    # Sums in other orders, which steps carry on.
    assert losses(kind, gpu) == pytest.approx(losses(kind, "cpu"), rel=1e-3)


def test_channels_last(gpu):
    assert losses(Images, gpu, channels_last=True) == pytest.approx(losses(Images, "cpu"), rel=1e-3)


@pytest.mark.parametrize("kind", [Images, Volumes, Sequences])
def test_half_types(kind, gpu):
    there = losses(kind, gpu, amp=oneflow.bfloat16)
    assert there == pytest.approx(losses(kind, "cpu"), rel=0.1)


@pytest.mark.parametrize("kind", [Images, Sequences])
def test_a_run_repeats_bit_by_bit(kind, gpu):
    assert losses(kind, gpu) == losses(kind, gpu)


def test_large_attention(gpu):
    """Many tiles of rows and keys; the backward against the composition in float64."""
    oneflow.manual_seed(1)
    q, k, v = (oneflow.randn(2, 4, 300, 64, device=gpu, requires_grad=True) for _ in range(3))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    got = oneflow.autograd.grad((out * out).sum(), (q, k, v))
    wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
    scores = wide[0] @ wide[1].transpose(-1, -2) / 8
    hidden = oneflow.ones(300, 300, dtype=oneflow.bool, device=gpu).triu(1)
    expected = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ wide[2]
    assert oneflow.allclose(out.double(), expected, rtol=1e-4, atol=1e-5)
    for g, e in zip(got, oneflow.autograd.grad((expected * expected).sum(), wide), strict=True):
        assert oneflow.allclose(g.double(), e, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [oneflow.bfloat16, oneflow.float16])
def test_attention_of_halves(dtype, gpu):
    """Heads side by side, as a projection leaves them; fewer heads of key and value."""
    oneflow.manual_seed(1)
    make = lambda heads, n: oneflow.randn(2, n, heads, 64, dtype=dtype, device=gpu).transpose(1, 2).requires_grad_()  # noqa: E731
    q, k, v = make(4, 150), make(2, 150), make(2, 150)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    got = oneflow.autograd.grad((out.float() * out.float()).sum(), (q, k, v))
    wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
    scores = wide[0] @ wide[1].repeat_interleave(2, 1).transpose(-1, -2) / 8
    hidden = oneflow.ones(150, 150, dtype=oneflow.bool, device=gpu).triu(1)
    expected = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ wide[2].repeat_interleave(2, 1)
    unit = 2.0**-8 if dtype == oneflow.bfloat16 else 2.0**-11
    assert oneflow.allclose(out.double(), expected, rtol=4 * unit, atol=4 * unit)
    for g, e in zip(got, oneflow.autograd.grad((expected * expected).sum(), wide), strict=True):
        # Sums of many rounded terms.
        assert oneflow.allclose(g.double(), e, rtol=8 * unit, atol=4 * unit * e.abs().max().item())


@pytest.mark.parametrize("channels_last", [False, True])
def test_convolutions_of_halves(channels_last, gpu):
    oneflow.manual_seed(2)
    layer = oneflow.nn.Conv2d(3, 20, 3, stride=2, padding=1).to(gpu, oneflow.bfloat16)
    x = oneflow.randn(2, 3, 17, 15, dtype=oneflow.bfloat16, device=gpu)
    if channels_last:
        layer, x = layer.to(memory_format=oneflow.channels_last), x.contiguous(memory_format=oneflow.channels_last)
    x.requires_grad_()
    y = layer(x)
    grad = oneflow.randn(y.shape, dtype=oneflow.bfloat16, device=gpu)
    got = [y, *oneflow.autograd.grad(y, (x, layer.weight, layer.bias), grad)]
    wide = [t.detach().cpu().double().requires_grad_() for t in (x, layer.weight, layer.bias)]
    z = F.conv2d(*wide, stride=2, padding=1)
    expected = [z, *oneflow.autograd.grad(z, wide, grad.cpu().double())]
    for a, b in zip(got, expected, strict=True):
        assert oneflow.allclose(a.cpu().double(), b, rtol=2.0**-6, atol=2.0**-8 * b.abs().max().item())


def test_gradients_are_clipped_together(gpu):
    oneflow.manual_seed(3)
    sizes = [(3,), (70, 130), (1,), (5, 4)]
    here = [oneflow.nn.Parameter(oneflow.randn(*size)) for size in sizes]
    there = [oneflow.nn.Parameter(p.detach().to(gpu)) for p in here]
    for p, q in zip(here, there, strict=True):
        p.grad = oneflow.randn(p.shape) * 3
        q.grad = p.grad.to(gpu)
    norms = [oneflow.nn.utils.clip_grad_norm_(parameters, 1.0) for parameters in (here, there)]
    assert oneflow.allclose(norms[0], norms[1].cpu(), rtol=1e-5)
    for p, q in zip(here, there, strict=True):
        assert oneflow.allclose(p.grad, q.grad.cpu(), rtol=1e-5, atol=1e-7)


def test_what_has_no_kernel_runs_on_the_host(gpu):
    x = oneflow.randn(4, 4, dtype=oneflow.float64)
    with pytest.warns(UserWarning, match="runs on the host"):
        # Whatever ran before, one of these is new.
        there = [f(x.to(gpu)) for f in (oneflow.linalg.matrix_exp, oneflow.linalg.eigvals)]
    for f, t in zip((oneflow.linalg.matrix_exp, oneflow.linalg.eigvals), there, strict=True):
        assert t.is_cuda and oneflow.allclose(t.cpu(), f(x))


@pytest.mark.parametrize("concatenated", [False, True])
def test_temporal_classification(gpu, issued, concatenated):
    """Values and gradients are the CPU's, by three kernels; lengths that do not fit are reported afterwards."""
    x = oneflow.randn(12, 3, 5)
    targets = oneflow.tensor([[1, 2, 2], [3, 0, 0], [4, 1, 4]])
    lengths = oneflow.tensor([3, 1, 3])
    if concatenated:
        targets = oneflow.cat([row[:n] for row, n in zip(targets, lengths.tolist(), strict=True)])
    steps = oneflow.tensor([12, 9, 5])

    def run(device, steps=steps):
        a = x.to(device).requires_grad_()
        given = [t.to(device) for t in (targets, steps, lengths)]
        loss = F.ctc_loss(a.log_softmax(-1), *given, reduction="sum")
        return loss, *oneflow.autograd.grad(loss, a)

    names = issued(lambda: run(gpu))
    assert [n for n in names if n.startswith("ctc")] == [f"ctc float32 PART={part}" for part in range(3)], names
    for ours, expected in zip(run(gpu), run("cpu"), strict=True):
        assert oneflow.allclose(ours.cpu(), expected, rtol=1e-4, atol=1e-5)
    run(gpu, oneflow.tensor([12, 13, 5]))
    with pytest.raises(RuntimeError, match="input_lengths to have value at most 12, but got value 13"):
        oneflow.cuda.synchronize()


@pytest.mark.parametrize("blank", [0, 3])
@pytest.mark.parametrize("dtype", [oneflow.float32, oneflow.float64])
def test_temporal_classification_of_unusual_samples(gpu, dtype, blank):
    """Repeated labels, none, more states than a block has threads, and targets that are too long."""
    labels = [[1, 1, 2], [], [2, 1] * 75, [1]]
    targets = oneflow.tensor([row + [0] * (150 - len(row)) for row in labels])
    steps, lengths = oneflow.tensor([6, 7, 160, 0]), oneflow.tensor([len(row) for row in labels])
    x = oneflow.randn(4, 160, 5, dtype=dtype).log_softmax(-1)

    def run(device):
        a = x.to(device).requires_grad_()
        given = [t.to(device) for t in (targets, steps, lengths)]
        loss = F.ctc_loss(a.transpose(0, 1), *given, blank=blank, reduction="none", zero_infinity=True)
        return loss, *oneflow.autograd.grad((loss * oneflow.arange(4, device=device)).sum(), a)

    # Logarithms of some hundreds have seven digits in float32, and their differences are what counts.
    tolerance = 2e-3 if dtype == oneflow.float32 else 1e-10
    for ours, expected in zip(run(gpu), run("cpu"), strict=True):
        assert oneflow.allclose(ours.cpu(), expected, rtol=tolerance, atol=tolerance)
