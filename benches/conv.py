"""Convolutions, poolings and batch norms of image models: forward, and each gradient by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Case = tuple[str, Callable[[], object]]

# What: batch, channels, outputs, size, kernel, stride, groups.
SHAPES = {
    "3x3 64 at 32": (32, 64, 64, 32, 3, 1, 1),
    "3x3 128 at 16": (32, 128, 128, 16, 3, 1, 1),
    "3x3 256 at 14": (8, 256, 256, 14, 3, 1, 1),
    "3x3 512 at 7": (8, 512, 512, 7, 3, 1, 1),
    "3x3 512 at 4": (64, 512, 512, 4, 3, 1, 1),
    "3x3 64-128 at 56, stride 2": (4, 64, 128, 56, 3, 2, 1),
    "3x3 256-512 at 14, stride 2": (8, 256, 512, 14, 3, 2, 1),
    "1x1 256-64 at 56": (2, 256, 64, 56, 1, 1, 1),
    "1x1 256-1024 at 14": (8, 256, 1024, 14, 1, 1, 1),
    "1x1 64-128 at 56, stride 2": (4, 64, 128, 56, 1, 2, 1),
    "7x7 3-64 at 224, stride 2": (4, 3, 64, 224, 7, 2, 1),
    "3x3 3-64 at 32": (64, 3, 64, 32, 3, 1, 1),
    "16x16 3-384 at 224, stride 16": (4, 3, 384, 224, 16, 16, 1),
    "5x5 64-64 at 28": (8, 64, 64, 28, 5, 1, 1),
    "depthwise 3x3 96 at 56": (8, 96, 96, 56, 3, 1, 96),
    "depthwise 3x3 144 at 56, stride 2": (8, 144, 144, 56, 3, 2, 144),
    "depthwise 7x7 96 at 56": (4, 96, 96, 56, 7, 1, 96),
    "3x3 128 at 28, 32 groups": (8, 128, 128, 28, 3, 1, 32),
}


def tensors(torch: Any, device: str, dtype: str, last: bool, *sizes: tuple[int, ...]) -> list[Any]:
    layout = torch.channels_last if last else torch.contiguous_format
    made = (torch.randn(*s, device=device).to(getattr(torch, dtype)) for s in sizes)
    return [t.contiguous(memory_format=layout) if t.dim() == 4 else t for t in made]


def both(torch: Any, name: str, forward: Callable[..., Any], **inputs: Any) -> Iterator[Case]:
    """A case for the forward without gradients and one for the gradient of each input alone."""

    def plain() -> object:
        with torch.no_grad():
            return forward(*inputs.values())

    yield f"{name}: forward", plain
    for what in inputs:
        leaves = {k: t.detach().requires_grad_(k == what) for k, t in inputs.items()}
        y = forward(*leaves.values())
        g = torch.randn(*y.shape, device=y.device).to(y.dtype)
        if y.dim() == 4 and y.is_contiguous(memory_format=torch.channels_last):
            g = g.contiguous(memory_format=torch.channels_last)
        yield f"{name}: {what}", lambda y=y, t=leaves[what], g=g: torch.autograd.grad(y, (t,), g, retain_graph=True)


def conv(torch: Any, device: str, dtype: str = "float32", last: bool = False) -> Iterator[Case]:
    for name, (n, c, o, size, k, stride, groups) in SHAPES.items():
        x, w = tensors(torch, device, dtype, last, (n, c, size, size), (o, c // groups, k, k))
        padding = 0 if stride == k else k // 2
        yield from both(
            torch,
            name,
            lambda x, w, s=stride, p=padding, g=groups: torch.nn.functional.conv2d(x, w, None, s, p, 1, g),
            input=x,
            weight=w,
        )


def conv_last(torch: Any, device: str) -> Iterator[Case]:
    """Channels side by side."""
    return conv(torch, device, last=True)


def conv_bf16(torch: Any, device: str) -> Iterator[Case]:
    return conv(torch, device, "bfloat16")


def pool(torch: Any, device: str) -> Iterator[Case]:
    """Batch norms in training and poolings, in both layouts."""
    F = torch.nn.functional
    for last in (False, True):
        layout = ", channels last" if last else ""
        for n, c, size in ((32, 64, 32), (32, 256, 8), (4, 64, 112), (8, 512, 7)):
            x, w, b, mean, var = tensors(torch, device, "float32", last, (n, c, size, size), *[(c,)] * 4)
            var.abs_()
            yield from both(
                torch,
                f"batch_norm {n}x{c} at {size}{layout}",
                lambda x, w=w, b=b, m=mean, v=var: F.batch_norm(x, m, v, w, b, True, 0.1, 1e-5),
                input=x,
            )
        (x,) = tensors(torch, device, "float32", last, (4, 64, 112, 112))
        pools = {
            "max_pool 3, stride 2": lambda x: F.max_pool2d(x, 3, 2, 1),
            "max_pool 2": lambda x: F.max_pool2d(x, 2),
            "avg_pool 2": lambda x: F.avg_pool2d(x, 2),
            "avg_pool 3, stride 1": lambda x: F.avg_pool2d(x, 3, 1, 1),
            "mean over positions": lambda x: F.adaptive_avg_pool2d(x, 1),
            "adaptive 7x7": lambda x: F.adaptive_avg_pool2d(x, 7),
        }
        for name, f in pools.items():
            yield from both(torch, name + layout, f, input=x)


SECTIONS = {"conv": conv, "conv_last": conv_last, "conv_bf16": conv_bf16, "pool": pool}
