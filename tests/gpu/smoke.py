"""The first thing that runs on a GPU: what is there, then a copy, a kernel, a product, a gradient and a draw."""

import sys
import time

import oneflow

started = time.monotonic()
reason = oneflow.cuda.unavailable_reason()
if reason is not None:
    sys.exit(f"no GPU: {reason}")
properties = oneflow.cuda.get_device_properties(0)
print(
    f"{properties.name}, compute capability {properties.major}.{properties.minor}, "
    f"{properties.total_memory / 2**30:.0f} GiB, {oneflow.cuda.device_count()} device(s); oneflow {oneflow.__version__}"
)


def step(name: str, passed: object) -> None:
    """Report progress; stop at the first step with a wrong result."""
    oneflow.cuda.synchronize()
    print(f"{name}: {'ok' if passed else 'WRONG'} ({time.monotonic() - started:.1f} s)", flush=True)
    if not passed:
        sys.exit(1)


x = oneflow.arange(12.0).reshape(3, 4)
there = x.cuda()
step("copy", (there.cpu() == x).all())
step("kernel", ((there + 1).cpu() == x + 1).all())
step("reduction", there.sum().item() == 66)
step("product", oneflow.allclose((there @ there.t()).cpu(), x @ x.t()))
half = there.bfloat16()
step("product, bfloat16", oneflow.allclose((half @ half.t()).float().cpu(), x @ x.t(), rtol=1e-2))
weight = there.clone().requires_grad_()
oneflow.softmax(weight, -1).square().sum().backward()
step("gradient", weight.grad is not None and weight.grad.cpu().isfinite().all())
oneflow.manual_seed(1)
step("draw", oneflow.rand(1000, device="cuda").mean().item() < 1)
