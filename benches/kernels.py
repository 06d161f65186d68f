"""The kernels that training and data work lean on, one by one, at sizes where memory or arithmetic bounds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Case = tuple[str, Callable[[], object]]


def products(torch: Any, device: str) -> Iterator[Case]:
    """Matrix products: the shapes of transformers, small and odd ones, vectors, batches, every float type, bytes."""
    shapes = [(n, n, n, False) for n in (64, 65, 128, 256, 512, 1024)] + [
        (2048, 384, 1152, True),
        (2048, 1536, 384, True),
        (768, 128, 512, True),
        (768, 128, 65, True),
        (128, 784, 512, True),
        (1, 768, 3072, True),
        (1, 1024, 1024, False),
    ]
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for m, k, n, transposed in shapes:
            if dtype == torch.float16 and m * k * n > 2**21:
                continue  # PyTorch needs seconds where the machine has no instructions for it.
            a = torch.randn(m, k, device=device).to(dtype)
            b = torch.randn(*((n, k) if transposed else (k, n)), device=device).to(dtype)
            b = b.t() if transposed else b
            name = f"{str(dtype).split('.')[-1]} {m}x{k}x{n}{' NT' if transposed else ''}"
            yield name, lambda a=a, b=b: a @ b
    for m, k, n, transposed in shapes:
        if device != "cpu" and (m <= 16 or k % 8 or n % 8):
            continue  # PyTorch's product of bytes takes no such sizes there.
        a = torch.randint(-128, 128, (m, k), dtype=torch.int8, device=device)
        b = torch.randint(-128, 128, (n, k) if transposed else (k, n), dtype=torch.int8, device=device)
        b = b.t() if transposed else b
        yield f"int8 {m}x{k}x{n}{' NT' if transposed else ''}", lambda a=a, b=b: torch._int_mm(a, b)
    q, k = (torch.randn(48, 256, 64, device=device) for _ in range(2))
    p = torch.randn(48, 256, 256, device=device)
    yield "float32 batch 48 x 256x64x256 NT", lambda: q @ k.transpose(1, 2)
    yield "float32 batch 48 x 256x256x64", lambda: p @ k


def kernels(torch: Any, device: str) -> Iterator[Case]:
    """Everything else: what surrounds the products."""
    F = torch.nn.functional

    def randn(*sizes: int) -> Any:
        return torch.randn(*sizes, device=device)

    def trained(*sizes: int) -> Any:
        return randn(*sizes).requires_grad_()

    def both(f: Callable[[], Any], *leaves: Any) -> Callable[[], object]:
        """Forward and backward."""
        seed = torch.ones_like(f())

        def run() -> None:
            for leaf in leaves:
                leaf.grad = None
            f().backward(seed)

        return run

    small, big, other = randn(512, 512), randn(4096, 4096), randn(4096, 4096)
    mask, out = other > 0, torch.empty_like(big)
    yield "add, 64 MB, fresh result", lambda: big + other
    yield "add, 64 MB, out=", lambda: torch.add(big, other, out=out)
    yield "copy, 64 MB, out=", lambda: out.copy_(big)
    yield "transposed copy, 64 MB", lambda: big.t().contiguous()
    for name in ("exp", "tanh", "erf", "sigmoid", "log"):
        x = small.abs() + 0.1 if name == "log" else small
        f = getattr(torch, name)
        yield f"{name}, 1 MB", lambda f=f, x=x: f(x)
    yield "gelu, 1 MB", lambda: F.gelu(small)
    yield "where, 64 MB", lambda: torch.where(mask, big, other)
    yield "sum, 64 MB", lambda: big.sum()
    yield "sum of columns, 64 MB", lambda: big.sum(0)
    yield "var, 64 MB", lambda: big.var()
    yield "max of rows, 64 MB", lambda: big.max(1)
    yield "cumsum, 64 MB", lambda: big.cumsum(1)
    yield "dropout, 64 MB", lambda: F.dropout(big, 0.1)
    rows = randn(16384, 1024)
    yield "softmax, 64 MB", lambda: torch.softmax(rows, -1)
    yield "rms_norm, 64 MB", lambda: F.rms_norm(rows, (1024,))
    few = randn(512, 512)
    w, b = torch.ones(512, device=device), torch.zeros(512, device=device)
    yield "layer_norm, 1 MB", lambda: F.layer_norm(few, (512,), w, b)
    x, g, z = trained(4096, 768), trained(768), trained(768)
    yield "layer_norm, forward and backward, 12 MB", both(lambda: F.layer_norm(x, (768,), g, z), x, g, z)
    h = trained(4096, 768)
    yield "gelu, forward and backward, 12 MB", both(lambda: F.gelu(h), h)
    logits, target = trained(2048, 50304), torch.randint(0, 50304, (2048,), device=device)
    yield "cross entropy 2048 x 50304, forward and backward", both(lambda: F.cross_entropy(logits, target), logits)
    q, k, v = (trained(8, 6, 256, 64) for _ in range(3))
    attend = both(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v)
    yield "causal attention 8x6x256x64, forward and backward", attend
    images = randn(8, 64, 112, 112)
    yield "max_pool2d 8x64x112x112", lambda: F.max_pool2d(images, 3, 2, 1)
    ones, zeros = torch.ones(64, device=device), torch.zeros(64, device=device)
    bn_w, bn_b, mean, var = ones, zeros, zeros.clone(), ones.clone()
    yield "batch_norm 8x64x112x112", lambda: F.batch_norm(images, mean, var, bn_w, bn_b, True)
    cell, hx = torch.nn.LSTMCell(256, 256).to(device), (randn(32, 256), randn(32, 256))
    step = randn(32, 256)
    yield "LSTM cell 32x256", lambda: cell(step, hx)
    for batch in (32, 4):
        lstm, sequence = torch.nn.LSTM(256, 256).to(device), trained(64, batch, 256)
        yield f"LSTM 256, 64 steps of {batch}, forward and backward", both(lambda f=lstm, s=sequence: f(s)[0], sequence)
    gru, notes = torch.nn.GRU(256, 256).to(device), trained(64, 32, 256)
    yield "GRU 256, 64 steps of 32, forward and backward", both(lambda: gru(notes)[0], notes)
    table, ids = trained(50304, 384), torch.randint(0, 50304, (2048,), device=device)
    yield "embedding 2048 of 50304x384", lambda: F.embedding(ids, table.detach())
    yield "embedding, gradient of the table", both(lambda: F.embedding(ids, table), table)
    rows_of, picked = randn(20000, 16), torch.randint(0, 20000, (1024,), device=device)
    grads = randn(1024, 16)
    yield "index_add_ 1024 rows of 16", lambda: rows_of.index_add_(0, picked, grads)
    bags = torch.randint(0, 20000, (512, 2), device=device)
    yield "embedding_bag 512 of 2", lambda: F.embedding_bag(bags, rows_of, mode="sum")
    numbers = randn(1 << 20)
    yield "sort 1 M", lambda: torch.sort(numbers)
    yield "sort 4096 rows of 256", lambda: torch.sort(numbers.view(4096, 256))
    yield "topk 50 of 1 M", lambda: torch.topk(numbers, 50)
    yield "topk 5 of 1024 rows", lambda: torch.topk(numbers.view(1024, 1024), 5)
    index = torch.randint(0, 4096, (4096,), device=device)
    yield "index_select 4096 rows of 16 KB", lambda: big.index_select(0, index)
    at = torch.randint(0, 1024, (1024, 1024), device=device)
    yield "gather 1 M", lambda: numbers.view(1024, 1024).gather(1, at)
    yield "scatter_add 1 M", lambda: torch.zeros(1024, 1024, device=device).scatter_add(1, at, numbers.view(1024, 1024))
    parts = [randn(512, 16) for _ in range(27)]
    yield "stack 27 of 512x16", lambda: torch.stack(parts, 1)
    yield "cat 4 of 16 MB", lambda: torch.cat([rows[:4096]] * 4, 1)
    for name, arguments in (
        ("AdamW", {"fused": True}),
        ("AdamW", {"foreach": True}),
        ("Adam", {}),
        ("SGD", {"momentum": 0.9}),
    ):
        p = trained(10_600_000)
        p.grad = randn(10_600_000)
        update = getattr(torch.optim, name)([p], lr=1e-4, **arguments)
        yield f"{name} {arguments or 'default'}, 10.6 M", update.step


def elementwise(torch: Any, device: str) -> Iterator[Case]:
    """What programs call now and then: sequences, draws, running and counting ops, bytes and half types."""
    F = torch.nn.functional
    x = torch.randn(1 << 20, device=device)
    square = x.view(1024, 1024)
    for name in ("lgamma", "digamma", "erfinv", "erfc"):
        f, y = getattr(torch, name), x.clamp(-0.99, 0.99) if name == "erfinv" else x
        yield f"{name}, 1 M", lambda f=f, y=y: f(y)
    yield "linspace, 1 M", lambda: torch.linspace(0, 1, 1 << 20, device=device)
    yield "arange, 1 M", lambda: torch.arange(float(1 << 20), device=device)
    yield "eye 1000", lambda: torch.eye(1000, device=device)
    for n in (1000, 100_000):
        yield f"randperm {n}", lambda n=n: torch.randperm(n, device=device)
    weights = torch.rand(64, 1000, device=device)
    for replacement in (True, False):
        yield (
            f"multinomial 100 of 64x1000{', with replacement' if replacement else ''}",
            lambda r=replacement: torch.multinomial(weights, 100, replacement=r),
        )
    holes = torch.where(x > 2, float("nan"), x)
    yield "nansum, 1 M", lambda: torch.nansum(holes)
    yield "nansum of rows, 1 M", lambda: torch.nansum(holes.view(1024, 1024), 1)
    for dim in (1, 0):
        yield f"cummax along {dim}, 1 M", lambda d=dim: torch.cummax(square, d)
    ids = torch.randint(0, 1000, (100_000,), device=device)
    for n, span in ((4, 1000), (1000, 2000), (1000, 1 << 40)):
        others = torch.randint(0, span, (n,), device=device)
        yield f"isin 100 K of {n} below {span}", lambda o=others: torch.isin(ids, o)
    images, grid = torch.randn(4, 16, 64, 64, device=device), torch.rand(4, 64, 64, 2, device=device) * 2 - 1
    for mode in ("bilinear", "nearest", "bicubic"):
        yield (
            f"grid_sample {mode} 4x16x64x64",
            lambda m=mode: F.grid_sample(images, grid, mode=m, align_corners=False),
        )
    leaves = [t.clone().requires_grad_() for t in (images, grid)]
    yield (
        "grid_sample bilinear 4x16x64x64, forward and backward",
        lambda: torch.autograd.grad(F.grid_sample(*leaves, align_corners=False).sum(), leaves),
    )
    rising, sought = x.flatten()[:256].sort().values, x.flatten()[: 100 * 1000]
    yield "searchsorted 100 K in 256", lambda: torch.searchsorted(rising, sought)
    half, other = x.bfloat16(), (x.abs() + 0.1).bfloat16()
    for f in (torch.neg, torch.abs, torch.sqrt):
        yield f"bfloat16 {f.__name__}, 1 M", lambda f=f: f(half)
    for f in (torch.add, torch.div):
        yield f"bfloat16 {f.__name__}, 1 M", lambda f=f: f(half, other)
    truths = [torch.rand(1 << 20, device=device) > 0.5 for _ in range(2)]
    data = [torch.randint(0, 255, (1 << 20,), dtype=torch.uint8, device=device) for _ in range(2)]
    for kind, pair in (("bool", truths), ("uint8", data)):
        for f in (torch.logical_and, torch.logical_xor, torch.bitwise_and, torch.eq, torch.lt):
            yield f"{kind} {f.__name__}, 1 M", lambda f=f, p=pair: f(*p)
        yield f"{kind} logical_not, 1 M", lambda p=pair: torch.logical_not(p[0])
