"""Models written in plain torch style, from whatever package is called ``torch``."""

from __future__ import annotations

import math
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


def define(torch: Any, dropout: float = 0.0) -> dict[str, Case]:
    """Every model with the layers of ``torch``; each drops out with the probability ``dropout`` where its kind does."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, d, heads):
            super().__init__()
            self.heads = heads
            self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.attn, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Dropout(dropout))

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = self.attn(self.ln_1(x)).split(c, dim=2)
            q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout if self.training else 0.0, is_causal=True)
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
            layer = nn.TransformerEncoderLayer(d, 4, 64, dropout, activation="gelu", batch_first=True)
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
            self.attn = nn.MultiheadAttention(d, 4, dropout, batch_first=True)
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
            x = torch.flatten(self.avg(self.layers(self.pool(self.stem(x)))), 1)
            return self.fc(F.dropout(x, dropout, self.training))

    class Double(nn.Sequential):
        def __init__(self, i, o):
            super().__init__(
                nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(2, o), nn.SiLU(), nn.Conv2d(o, o, 3, padding=1), nn.SiLU()
            )

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.d1, self.d2, self.mid = Double(1, 8), Double(8, 16), Double(16, 16)
            self.drop = nn.Dropout2d(dropout)
            self.up2, self.u2 = nn.ConvTranspose2d(16, 16, 2, stride=2), Double(32, 8)
            self.u1, self.out = Double(16, 8), nn.Conv2d(8, 1, 1)
            self.time = nn.Linear(1, 16)

        def forward(self, x, t):
            a = self.d1(x)
            b = self.d2(F.max_pool2d(a, 2))
            m = self.mid(self.drop(F.avg_pool2d(b, 2))) + self.time(t)[:, :, None, None]
            y = self.u2(torch.cat([self.up2(m), b], dim=1))
            y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
            return self.out(self.u1(torch.cat([y, a], dim=1)))

    class LSTMLM(nn.Module):
        def __init__(self, vocab=40, d=16):
            super().__init__()
            self.embed = nn.Embedding(vocab, d)
            self.lstm = nn.LSTM(d, 24, num_layers=2, batch_first=True, dropout=dropout)
            self.head = nn.Linear(24, vocab)

        def forward(self, x):
            y, _ = self.lstm(self.embed(x))
            return self.head(y)

    class DLRM(nn.Module):
        def __init__(self, tables=3, rows=30, d=8):
            super().__init__()
            self.tables = nn.ModuleList([nn.EmbeddingBag(rows, d, mode="sum") for _ in range(tables)])
            self.bottom = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, d), nn.ReLU())
            self.top = nn.Sequential(nn.Linear(d + 6, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 1))

        def forward(self, dense, sparse):
            x = self.bottom(dense)
            vectors = [x] + [table(sparse[:, i]) for i, table in enumerate(self.tables)]
            z = torch.stack(vectors, dim=1)
            inter = torch.bmm(z, z.transpose(1, 2))
            i, j = torch.tril_indices(len(vectors), len(vectors), offset=-1)
            return self.top(torch.cat([x, inter[:, i, j]], dim=1)).squeeze(1)

    class NewGELU(nn.Module):
        def forward(self, x):
            return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))

    class MaskedAttention(nn.Module):
        def __init__(self, d, heads, block):
            super().__init__()
            self.heads = heads
            self.c_attn, self.c_proj, self.drop = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Dropout(dropout)
            self.register_buffer("bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

        def forward(self, x):
            b, t, c = x.size()
            q, k, v = self.c_attn(x).split(c, dim=2)
            k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
            y = self.drop(F.softmax(att, dim=-1)) @ v
            return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))

    class MinGPT(nn.Module):
        """Attention spelled out with a mask that is a buffer, weights drawn by hand, decay for matrices only."""

        def __init__(self, vocab=48, d=32, layers=2, heads=4, block=16):
            super().__init__()
            blocks = [
                nn.ModuleDict(
                    {
                        "ln_1": nn.LayerNorm(d),
                        "attn": MaskedAttention(d, heads, block),
                        "ln_2": nn.LayerNorm(d),
                        "mlp": nn.Sequential(nn.Linear(d, 4 * d), NewGELU(), nn.Linear(4 * d, d), nn.Dropout(dropout)),
                    }
                )
                for _ in range(layers)
            ]
            self.transformer = nn.ModuleDict(
                {
                    "wte": nn.Embedding(vocab, d),
                    "wpe": nn.Embedding(block, d),
                    "h": nn.ModuleList(blocks),
                    "ln_f": nn.LayerNorm(d),
                }
            )
            self.lm_head = nn.Linear(d, vocab, bias=False)
            self.apply(self._init_weights)

        def _init_weights(self, module):
            if isinstance(module, (nn.Linear, nn.Embedding)):
                torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                torch.nn.init.zeros_(module.bias)

        def forward(self, idx):
            pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device).unsqueeze(0)
            x = self.transformer.wte(idx) + self.transformer.wpe(pos)
            for block in self.transformer.h:
                x = x + block.attn(block.ln_1(x))
                x = x + block.mlp(block.ln_2(x))
            return self.lm_head(self.transformer.ln_f(x))

    def decayed(parameters):
        parameters = list(parameters)
        groups = [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ]
        return optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-4)

    class WindowAttention(nn.Module):
        def __init__(self, d, window, heads):
            super().__init__()
            self.heads, self.scale = heads, (d // heads) ** -0.5
            self.table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
            nn.init.trunc_normal_(self.table, std=0.02)
            coords = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
            relative = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0) + window - 1
            self.register_buffer("index", relative[:, :, 0] * (2 * window - 1) + relative[:, :, 1])
            self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

        def forward(self, x, mask=None):
            b, n, c = x.shape
            q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            attn = (q * self.scale) @ k.transpose(-2, -1)
            bias = self.table[self.index.view(-1)].view(n, n, -1).permute(2, 0, 1).contiguous()
            attn = attn + bias.unsqueeze(0)
            if mask is not None:
                windows = mask.shape[0]
                attn = attn.view(b // windows, windows, self.heads, n, n) + mask.unsqueeze(1).unsqueeze(0)
                attn = attn.view(-1, self.heads, n, n)
            return self.proj((attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, c))

    def windows_of(x, size):
        b, h, w, c = x.shape
        x = x.view(b, h // size, size, w // size, size, c)
        return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, size * size, c)

    class SwinBlock(nn.Module):
        def __init__(self, d, size, heads, window, shift):
            super().__init__()
            self.size, self.window, self.shift = size, window, shift
            self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.attn = WindowAttention(d, window, heads)
            self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * d, d))
            mask = None
            if shift:
                regions, count = torch.zeros(1, size, size, 1), 0
                slices = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
                for rows in slices:
                    for columns in slices:
                        regions[:, rows, columns, :] = count
                        count += 1
                flat = windows_of(regions, window).squeeze(-1)
                apart = flat.unsqueeze(1) - flat.unsqueeze(2)
                mask = apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)
            self.register_buffer("mask", mask)

        def forward(self, x):
            b, n, c = x.shape
            s, w = self.size, self.window
            y = self.norm1(x).view(b, s, s, c)
            if self.shift:
                y = torch.roll(y, shifts=(-self.shift, -self.shift), dims=(1, 2))
            y = self.attn(windows_of(y, w), self.mask).view(b, s // w, s // w, w, w, c)
            y = y.permute(0, 1, 3, 2, 4, 5).contiguous().view(b, s, s, c)
            if self.shift:
                y = torch.roll(y, shifts=(self.shift, self.shift), dims=(1, 2))
            x = x + y.view(b, n, c)
            return x + self.mlp(self.norm2(x))

    class Swin(nn.Module):
        def __init__(self, d=16, classes=5):
            super().__init__()
            self.embed, self.norm = nn.Conv2d(3, d, 2, 2), nn.LayerNorm(2 * d)
            self.first = nn.Sequential(SwinBlock(d, 8, 2, 4, 0), SwinBlock(d, 8, 2, 4, 2))
            self.merge_norm, self.merge = nn.LayerNorm(4 * d), nn.Linear(4 * d, 2 * d, bias=False)
            self.second = SwinBlock(2 * d, 4, 4, 4, 0)
            self.head = nn.Linear(2 * d, classes)

        def forward(self, x):
            x = self.first(self.embed(x).flatten(2).transpose(1, 2))
            y = x.view(x.shape[0], 8, 8, -1)
            parts = [y[:, i::2, j::2, :] for i, j in ((0, 0), (1, 0), (0, 1), (1, 1))]
            x = self.merge(self.merge_norm(torch.cat(parts, -1).flatten(1, 2)))
            return self.head(self.norm(self.second(x)).mean(dim=1))

    class TimeBlock(nn.Module):
        def __init__(self, i, o, time):
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(4, i), nn.Conv2d(i, o, 3, padding=1)
            self.norm2, self.conv2 = nn.GroupNorm(4, o), nn.Conv2d(o, o, 3, padding=1)
            self.time = nn.Linear(time, 2 * o)
            self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

        def forward(self, x, t):
            scale, shift = self.time(F.silu(t))[:, :, None, None].chunk(2, dim=1)
            y = self.conv1(F.silu(self.norm1(x)))
            y = self.norm2(y) * (1 + scale) + shift
            return self.skip(x) + self.conv2(F.dropout(F.silu(y), dropout, self.training))

    class SpatialAttention(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.norm, self.qkv, self.proj = nn.GroupNorm(4, c), nn.Conv1d(c, 3 * c, 1), nn.Conv1d(c, c, 1)

        def forward(self, x):
            b, c, h, w = x.shape
            q, k, v = self.qkv(self.norm(x).reshape(b, c, h * w)).chunk(3, dim=1)
            weight = torch.einsum("bct,bcs->bts", q * c**-0.5, k).softmax(dim=-1)
            return x + self.proj(torch.einsum("bts,bcs->bct", weight, v)).reshape(b, c, h, w)

    class Diffusion(nn.Module):
        """Predicts the noise of noised images: the schedule is a buffer, steps become sines and cosines."""

        def __init__(self, c=8, time=16, steps=100):
            super().__init__()
            betas = torch.linspace(1e-4, 0.02, steps)
            self.register_buffer("kept", torch.cumprod(1.0 - betas, dim=0))
            self.width = time
            self.embed = nn.Sequential(nn.Linear(time, 2 * time), nn.SiLU(), nn.Linear(2 * time, time))
            self.inp, self.out = nn.Conv2d(1, c, 3, padding=1), nn.Conv2d(c, 1, 3, padding=1)
            self.down1, self.shrink = TimeBlock(c, c, time), nn.Conv2d(c, 2 * c, 3, stride=2, padding=1)
            self.down2, self.attn, self.mid = (
                TimeBlock(2 * c, 2 * c, time),
                SpatialAttention(2 * c),
                TimeBlock(2 * c, 2 * c, time),
            )
            self.up2, self.up1 = TimeBlock(4 * c, 2 * c, time), TimeBlock(3 * c, c, time)

        def forward(self, x, t, noise):
            kept = self.kept.gather(0, t).view(-1, 1, 1, 1)
            x = kept.sqrt() * x + (1 - kept).sqrt() * noise
            half = self.width // 2
            freqs = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32, device=x.device) / half)
            angles = t[:, None].float() * freqs[None]
            t = self.embed(torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1))
            a = self.down1(self.inp(x), t)
            b = self.down2(self.shrink(a), t)
            y = self.up2(torch.cat([self.mid(self.attn(b), t), b], dim=1), t)
            y = F.interpolate(y, scale_factor=2, mode="nearest")
            return self.out(F.silu(self.up1(torch.cat([y, a], dim=1), t)))

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

    def diffusion_inputs(rng):
        pictures = rng.standard_normal((2, 3, 1, 16, 16)).astype("f4")
        return pictures[0], rng.integers(0, 100, (3,)), pictures[1], pictures[1]

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
        "mingpt": Case(MinGPT, tokens(48, 2, 12), next_token, decayed),
        "swin": Case(Swin, images(3, 16, 5), classify, lambda p: optim.AdamW(p, lr=1e-3, weight_decay=0.05, eps=1e-4)),
        "diffusion": Case(
            Diffusion,
            diffusion_inputs,
            lambda out, *given: F.mse_loss(out, given[-1]),
            lambda p: optim.Adam(p, lr=1e-3, eps=1e-4),
        ),
        "lstm": Case(LSTMLM, tokens(40, 3, 7), next_token, lambda p: optim.SGD(p, lr=0.5)),
        "dlrm": Case(
            DLRM,
            dlrm_inputs,
            lambda out, dense, sparse, y: F.binary_cross_entropy_with_logits(out, y),
            lambda p: optim.Adagrad(p, lr=0.05),
        ),
    }
