"""Small models of many kinds in PyTorch, with example arguments and open dimensions."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim


class Block(nn.Module):
    def __init__(self, c, k=1):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(c, c * k, 3, 2 if k > 1 else 1, 1, bias=False), nn.BatchNorm2d(c * k)
        self.c2, self.b2 = nn.Conv2d(c * k, c * k, 3, 1, 1, bias=False), nn.BatchNorm2d(c * k)
        self.d = nn.Conv2d(c, c * k, 1, 2) if k > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.b2(self.c2(F.relu(self.b1(self.c1(x)), inplace=True))) + self.d(x))


def resnet():
    stem = [nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(16, 5)]
    return nn.Sequential(*stem, Block(8), Block(8, 2), *head).eval()


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.p, self.q, self.o = (
            nn.Embedding(50, 16),
            nn.Embedding(32, 16),
            nn.Linear(16, 48),
            nn.Linear(16, 16),
        )
        self.norm, self.m = nn.LayerNorm(16), nn.Sequential(nn.Linear(16, 64), nn.GELU("tanh"), nn.Linear(64, 16))
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.e.weight
        self.register_buffer("mask", torch.ones(32, 32, dtype=torch.bool).tril(), persistent=False)

    def forward(self, ids):
        b, n = ids.shape
        x = self.e(ids) + self.p(torch.arange(n, device=ids.device))
        q, k, v = (a.view(b, n, 4, 4).transpose(1, 2) for a in self.q(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y + (q @ k.transpose(-2, -1)).masked_fill(~self.mask[:n, :n], -1e9).softmax(-1) @ v
        x = x + self.o(y.transpose(1, 2).reshape(b, n, 16))
        return self.head(x + self.m(self.norm(x)))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.r, self.head = kind(5, 7, 2, batch_first=True, bidirectional=True), nn.Linear(14, 3)

    def forward(self, x):
        y, _ = self.r(x)
        return self.head(y[:, -1]), y.mean(1)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1, self.d2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.u, self.norm, self.o = nn.ConvTranspose2d(16, 8, 2, 2), nn.GroupNorm(2, 16), nn.Conv2d(16, 1, 1)

    def forward(self, x):
        a = F.silu(self.d1(x))
        b = F.leaky_relu(self.norm(self.d2(F.avg_pool2d(a, 2))))
        c = torch.cat([self.u(b), a], 1)
        return torch.sigmoid(self.o(c)), F.interpolate(c, scale_factor=2.0, mode="bilinear", align_corners=False)


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.Hardswish(),
            nn.Conv2d(8, 8, 3, 1, 1, groups=8),
            nn.ReLU6(),
            nn.Conv2d(8, 16, 1),
        )
        self.se = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.ReLU(), nn.Conv2d(4, 16, 1), nn.Hardsigmoid()
        )
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = self.f(x)
        return F.log_softmax(self.head((x * self.se(x)).mean((2, 3))), 1)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.b = nn.EmbeddingBag(20, 8, mode="sum"), nn.Linear(4, 8)
        self.top = nn.Sequential(nn.Linear(11, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, dense, ids):
        a, b = self.e(ids), self.b(dense)
        z = torch.stack([a, b, a * b], 1)
        w = torch.bmm(z, z.transpose(1, 2))
        i, j = torch.tril_indices(3, 3, -1).unbind()
        return torch.sigmoid(self.top(torch.cat([b, w[:, i, j]], 1))).squeeze(-1)


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.norm = nn.Embedding(40, 16), nn.RMSNorm(16)
        self.q, self.k, self.v = nn.Linear(16, 16, False), nn.Linear(16, 8, False), nn.Linear(16, 8, False)
        self.g, self.u, self.d = nn.Linear(16, 32, False), nn.Linear(16, 32, False), nn.Linear(32, 16, False)

    def turned(self, x):
        angles = torch.outer(torch.arange(x.shape[-2]).float(), 1 / (10000 ** (torch.arange(0, 4, 2).float() / 4)))
        c, s, x1, x2 = angles.cos(), angles.sin(), x[..., ::2], x[..., 1::2]
        return torch.stack([x1 * c - x2 * s, x1 * s + x2 * c], -1).flatten(-2)

    def forward(self, ids):
        b, n = ids.shape
        x = self.e(ids)
        h = self.norm(x)
        q, k, v = (f(h).view(b, n, -1, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True, enable_gqa=True)
        x = x + y.transpose(1, 2).flatten(2)
        return x + self.d(F.silu(self.g(x)) * self.u(x))


class Mixture(nn.Module):
    def forward(self, x, y):
        a = torch.where(x > 0, x, y).clamp(-1, 1)
        v, i = a.topk(2, -1)
        b = torch.einsum("bij,bkj->bik", a, y)
        z = x.clone()
        z[:, 0] = 1
        z[:, 1:] += y[:, 1:]
        return {
            "sums": (a.cumsum(1), torch.logsumexp(x, 1), x.amax((1, 2)), b.std(-1), torch.linalg.norm(b, dim=-1)),
            "picked": (v, torch.gather(a, -1, i), a.sort(-1, descending=True)[0], torch.diagonal(b, 0, 1, 2)),
            "moved": (
                F.pad(x, (1, 2), value=3.0),
                x.repeat(1, 2, 1).roll(1, 0),
                z,
                x.to(torch.float64).to(torch.int32),
            ),
            "made": [F.one_hot(i, 5).float(), torch.full_like(x, 2) / torch.zeros_like(y).add(3)],
        }


_B = Dim("b", max=64)
MODELS = {
    "resnet": lambda: (resnet(), (torch.randn(2, 3, 32, 32),), ({0: _B},)),
    "resnet in training": lambda: (nn.Sequential(Block(3, 2)).train(), (torch.randn(2, 3, 8, 8),), None),
    "words": lambda: (Words().eval(), (torch.randint(0, 50, (2, 8)),), ({0: _B},)),
    "encoder": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval(),
        (torch.randn(2, 5, 16),),
        ({0: _B},),
    ),
    "lstm": lambda: (Recurrent(nn.LSTM), (torch.randn(2, 5, 5),), None),
    "gru": lambda: (Recurrent(nn.GRU), (torch.randn(2, 5, 5),), None),
    "unet": lambda: (UNet().eval(), (torch.randn(1, 3, 16, 16),), None),
    "mobilenet": lambda: (MobileNet().eval(), (torch.randn(2, 3, 16, 16),), ({0: _B},)),
    "recommender": lambda: (Recommender(), (torch.randn(3, 4), torch.randint(0, 20, (3, 5))), ({0: _B}, {0: _B})),
    "llama": lambda: (Llama(), (torch.randint(0, 40, (2, 6)),), None),
    "mixture": lambda: (Mixture(), (torch.randn(2, 3, 4), torch.randn(2, 3, 4)), None),
}
