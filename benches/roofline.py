"""Kernels beside what a card can do: each case says how many bytes it must move or how many operations it takes.

The first rows measure the ceilings, a copy and a product of half types, on the same card in the same run. What a case
must move is counted once, as if every operand were read or written exactly once: a share of the ceiling is a share of
what is possible, not of what the kernel happens to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benches.measure import is_small

COPY, PRODUCT = "ceiling: copy", "ceiling: bfloat16 product"
Case = tuple[str, Callable[[], object], dict[str, float]]


def roofline(torch: Any, device: str) -> Iterator[Case]:
    """Memory-bound kernels in GB/s, products and attention in TFLOP/s."""
    F = torch.nn.functional
    half = torch.bfloat16
    # Elements of a large tensor, rows of a product, width of a row, sequence and heads of an attention.
    n, m, width, time, heads, batch = (1 << 14, 64, 256, 32, 2, 1) if is_small() else (1 << 27, 8192, 4096, 4096, 16, 4)
    rows = n // width

    def moved(elements: float, dtype: Any = half) -> dict[str, float]:
        return {"bytes": elements * torch.empty(0, dtype=dtype).element_size()}

    def randn(*sizes: int, dtype: Any = half) -> Any:
        return torch.randn(*sizes, device=device).to(dtype)

    x, y = randn(n), randn(n)
    yield COPY, lambda: y.copy_(x), moved(2 * n)
    a, b = randn(m, m), randn(m, m)
    yield PRODUCT, lambda: a @ b.t(), {"flops": 2.0 * m**3}
    yield "add", lambda: x + y, moved(3 * n)
    wide = x.view(rows, width)
    bias = randn(width)
    yield "add of a row", lambda: wide + bias, moved(2 * n)
    yield "gelu", lambda: F.gelu(x), moved(2 * n)
    yield "cast to float32", lambda: x.float(), {"bytes": 6.0 * n}
    square = x.view(1 << n.bit_length() // 2, -1)
    yield "transposed copy", lambda: square.t().contiguous(), moved(2 * n)
    yield "sum of rows", lambda: wide.sum(1), moved(n)
    yield "sum of columns", lambda: wide.sum(0), moved(n)
    yield "argmax of all", lambda: x.argmax(), moved(n)
    yield "softmax", lambda: torch.softmax(wide, -1), moved(2 * n)
    weight, shift = randn(width), randn(width)
    yield "layer_norm", lambda: F.layer_norm(wide, (width,), weight, shift), moved(2 * n)
    target = torch.arange(rows, device=device) % width
    yield "cross_entropy", lambda: F.cross_entropy(wide, target), moved(n)
    index = torch.arange(rows, device=device).flip(0)
    yield "rows by index", lambda: wide.index_select(0, index), moved(2 * n)
    yield "dropout", lambda: F.dropout(x, 0.1), {"bytes": 5.0 * n}
    parameters = [torch.zeros(n // 8, device=device, requires_grad=True) for _ in range(4)]
    for p in parameters:
        p.grad = torch.ones_like(p)
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    # Reads parameter, gradient and both momenta, writes all but the gradient.
    yield "AdamW", optimizer.step, {"bytes": 4 * (n // 8) * 7 * 4.0}
    for d in (64, 128):
        q, k, v = (randn(batch, heads, time, d).requires_grad_() for _ in range(3))
        seed = torch.ones_like(q)
        # Two products forward and five backward, half of each under a causal mask.
        forward = 2.0 * batch * heads * time * time * d

        def attend(q: Any = q, k: Any = k, v: Any = v) -> Any:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        def both(q: Any = q, k: Any = k, v: Any = v, seed: Any = seed, attend: Any = attend) -> object:
            return torch.autograd.grad(attend(q, k, v), (q, k, v), seed)

        with torch.no_grad():
            yield f"causal attention, d {d}", attend, {"flops": forward}
        yield f"causal attention, d {d}, with backward", both, {"flops": 3.5 * forward}
    size, channels, images = (8, 16, 1) if is_small() else (56, 256, 64)
    image = randn(images, channels, size, size).to(memory_format=torch.channels_last)
    kernel = randn(channels, channels, 3, 3).to(memory_format=torch.channels_last)
    flops = 2.0 * images * size * size * channels * channels * 9
    yield "convolution 3x3, channels last", lambda: F.conv2d(image, kernel, padding=1), {"flops": flops}


def shares(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each row that says what it moves or computes: its rate, its share of the ceiling, beside PyTorch's."""
    good = {row["name"]: row for row in rows if "ratio" in row and ("bytes" in row or "flops" in row)}
    if not good:
        return []
    # The better of both packages is what the card can do.
    best = {
        unit: max((row[unit] / min(row["ours"], row["reference"]) for row in [good.get(name)] if row), default=None)
        for unit, name in (("bytes", COPY), ("flops", PRODUCT))
    }
    lines = [f"{'case':40} {'rate':>14} {'of the ceiling':>15} {'PyTorch':>9} {'ratio':>7}"]
    for name, row in good.items():
        unit = "bytes" if "bytes" in row else "flops"
        scale, called = (1e9, "GB/s") if unit == "bytes" else (1e12, "TFLOP/s")
        rate, ceiling = row[unit] / row["ours"], best[unit]
        own = beside = "-"
        if ceiling is not None:
            own, beside = f"{rate / ceiling:.0%}", f"{row[unit] / row['reference'] / ceiling:.0%}"
        lines.append(f"{name[:40]:40} {rate / scale:9.3f} {called:>4} {own:>11} {beside:>9} {row['ratio']:7.3f}")
    return lines
