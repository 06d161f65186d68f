"""Models written in plain torch style, made from whatever package is called ``torch``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Case:
    """A model, what it is fed, its loss and its optimizer."""

    model: Callable[[], Any]
    # Numpy arrays from a random generator.
    inputs: Callable[[Any], tuple[Any, ...]]
    # From the model's output and the inputs.
    loss: Callable[..., Any]
    optimizer: Callable[[Any], Any]


def define(torch: Any) -> dict[str, Case]:
    """Every model with the layers of ``torch``."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, d, heads):
            super().__init__()
            self.heads = heads
            self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.attn, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = self.attn(self.ln_1(x)).split(c, dim=2)
            q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).contiguous().view(b, t, c))
            return x + self.mlp(self.ln_2(x))

    class NanoGPT(nn.Module):
        def __init__(self, vocab=50, d=32, layers=2, heads=4, block=16):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(block, d)
            self.blocks = nn.ModuleList([Block(d, heads) for _ in range(layers)])
            self.ln_f = nn.LayerNorm(d)
            self.lm_head = nn.Linear(d, vocab, bias=False)
            self.lm_head.weight = self.wte.weight

        def forward(self, idx):
            pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
            x = self.wte(idx) + self.wpe(pos)
            for block in self.blocks:
                x = block(x)
            return self.lm_head(self.ln_f(x))

    class Bert(nn.Module):
        def __init__(self, vocab=60, d=32):
            super().__init__()
            self.words, self.types = nn.Embedding(vocab, d, padding_idx=0), nn.Embedding(2, d)
            self.positions = nn.Parameter(torch.zeros(1, 12, d))
            layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, activation="gelu", batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.pool, self.head = nn.Linear(d, d), nn.Linear(d, 3)

        def forward(self, words, types):
            x = self.words(words) + self.types(types) + self.positions[:, : words.shape[1]]
            x = self.encoder(x, src_key_padding_mask=words.eq(0))
            return self.head(torch.tanh(self.pool(x[:, 0])))

    class ViT(nn.Module):
        def __init__(self, d=32, classes=5):
            super().__init__()
            self.patch = nn.Conv2d(3, d, kernel_size=4, stride=4)
            self.cls = nn.Parameter(torch.zeros(1, 1, d))
            self.pos = nn.Parameter(torch.zeros(1, 17, d))
            self.attn = nn.MultiheadAttention(d, 4, batch_first=True)
            self.n1, self.n2 = nn.LayerNorm(d, eps=1e-6), nn.LayerNorm(d, eps=1e-6)
            self.mlp = nn.Sequential(nn.Linear(d, 64), nn.GELU(approximate="tanh"), nn.Linear(64, d))
            self.head = nn.Linear(d, classes)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1) + self.pos
            y = self.n1(x)
            x = x + self.attn(y, y, y, need_weights=False)[0]
            x = x + self.mlp(self.n2(x))
            return self.head(x[:, 0])

    class Basic(nn.Module):
        def __init__(self, i, o, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
            self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
            self.relu = nn.ReLU(inplace=True)
            self.down = None
            if stride != 1 or i != o:
                self.down = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            y += x if self.down is None else self.down(x)
            return self.relu(y)

    class ResNet(nn.Module):
        def __init__(self, classes=4):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
            self.pool = nn.MaxPool2d(3, 2, 1)
            self.layers = nn.Sequential(Basic(8, 8, 1), Basic(8, 16, 2), Basic(16, 16, 1))
            self.avg, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(16, classes)

        def forward(self, x):
            return self.fc(torch.flatten(self.avg(self.layers(self.pool(self.stem(x)))), 1))

    class Double(nn.Sequential):
        def __init__(self, i, o):
            super().__init__(
                nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(2, o), nn.SiLU(), nn.Conv2d(o, o, 3, padding=1), nn.SiLU()
            )

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.d1, self.d2, self.mid = Double(1, 8), Double(8, 16), Double(16, 16)
            self.up2, self.u2 = nn.ConvTranspose2d(16, 16, 2, stride=2), Double(32, 8)
            self.u1, self.out = Double(16, 8), nn.Conv2d(8, 1, 1)
            self.time = nn.Linear(1, 16)

        def forward(self, x, t):
            a = self.d1(x)
            b = self.d2(F.max_pool2d(a, 2))
            m = self.mid(F.avg_pool2d(b, 2)) + self.time(t)[:, :, None, None]
            y = self.u2(torch.cat([self.up2(m), b], dim=1))
            y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
            return self.out(self.u1(torch.cat([y, a], dim=1)))

    class LSTMLM(nn.Module):
        def __init__(self, vocab=40, d=16):
            super().__init__()
            self.embed = nn.Embedding(vocab, d)
            self.lstm = nn.LSTM(d, 24, num_layers=2, batch_first=True)
            self.head = nn.Linear(24, vocab)

        def forward(self, x):
            y, _ = self.lstm(self.embed(x))
            return self.head(y)

    class DLRM(nn.Module):
        def __init__(self, tables=3, rows=30, d=8):
            super().__init__()
            self.tables = nn.ModuleList([nn.EmbeddingBag(rows, d, mode="sum") for _ in range(tables)])
            self.bottom = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, d), nn.ReLU())
            self.top = nn.Sequential(nn.Linear(d + 6, 16), nn.ReLU(), nn.Linear(16, 1))

        def forward(self, dense, sparse):
            x = self.bottom(dense)
            vectors = [x] + [table(sparse[:, i]) for i, table in enumerate(self.tables)]
            z = torch.stack(vectors, dim=1)
            inter = torch.bmm(z, z.transpose(1, 2))
            i, j = torch.tril_indices(len(vectors), len(vectors), offset=-1)
            return self.top(torch.cat([x, inter[:, i, j]], dim=1)).squeeze(1)

    def tokens(vocab, b, t):
        return lambda rng: (rng.integers(1, vocab, (b, t)), rng.integers(0, vocab, (b, t)))

    def next_token(out, x, target):
        return F.cross_entropy(out.view(-1, out.size(-1)), target.view(-1))

    def images(c, size, classes):
        return lambda rng: (rng.standard_normal((4, c, size, size)).astype("f4"), rng.integers(0, classes, (4,)))

    def classify(out, *given):
        return F.cross_entropy(out, given[-1])

    def bert_inputs(rng):
        words = rng.integers(1, 60, (3, 10))
        words[0, 6:] = 0
        return words, rng.integers(0, 2, (3, 10)), rng.integers(0, 3, (3,))

    def unet_inputs(rng):
        noise = rng.standard_normal((2, 2, 1, 16, 16)).astype("f4")
        return noise[0], rng.random((2, 1)).astype("f4"), noise[1]

    def dlrm_inputs(rng):
        return (
            rng.random((6, 5)).astype("f4"),
            rng.integers(0, 30, (6, 3, 4)),
            rng.integers(0, 2, (6,)).astype("f4"),
        )

    optim = torch.optim
    # The gradient of a key's bias is zero but for rounding, which Adam would make steps of: hence the large eps.
    return {
        "nanogpt": Case(
            NanoGPT, tokens(50, 2, 12), next_token, lambda p: optim.AdamW(p, lr=1e-3, betas=(0.9, 0.95), eps=1e-4)
        ),
        "bert": Case(Bert, bert_inputs, classify, lambda p: optim.Adam(p, lr=1e-3, eps=1e-4)),
        "vit": Case(ViT, images(3, 16, 5), classify, lambda p: optim.AdamW(p, lr=1e-3, weight_decay=0.05, eps=1e-4)),
        "resnet": Case(
            ResNet, images(3, 32, 4), classify, lambda p: optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-4)
        ),
        "unet": Case(
            UNet, unet_inputs, lambda out, x, t, noise: F.mse_loss(out, noise), lambda p: optim.RMSprop(p, lr=1e-3)
        ),
        "lstm": Case(LSTMLM, tokens(40, 3, 7), next_token, lambda p: optim.SGD(p, lr=0.5)),
        "dlrm": Case(
            DLRM,
            dlrm_inputs,
            lambda out, dense, sparse, y: F.binary_cross_entropy_with_logits(out, y),
            lambda p: optim.Adagrad(p, lr=0.05),
        ),
    }
