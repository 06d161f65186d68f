"""Ctrl-C during a loop of kernels, in backward and in a compiled step; each in a child process with a deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

PRELUDE = """
import signal
# Started in the background a process inherits that interrupts are ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
import oneflow as flow
from oneflow import nn
model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)])
optimizer = flow.optim.AdamW(model.parameters())
x = flow.randn(512, 512)

class Step(nn.Graph):
    def __init__(self):
        super().__init__()
        self.model = model
        self.add_optimizer(optimizer)
    def build(self, x):
        loss = (self.model(x) ** 2).mean()
        loss.backward()
        return loss

step = Step()

def work():
    BODY

work()
try:
    # Inside: the interrupt may come right after the word.
    print("ready", flush=True)
    while True:
        work()
except KeyboardInterrupt:
    # An interrupt leaves everything usable. An interrupt within no_grad's own __enter__ leaves the mode
    # switched, as in PyTorch: Python gives a context manager no way to prevent it.
    flow.set_grad_enabled(True)
    assert flow.isfinite(model(x).sum()).item() and flow.isfinite(step(x)).item()
    print("interrupted", flush=True)
"""

BODIES = {
    "kernels": "return model(x)",
    "backward": "(model(x) ** 2).mean().backward()",
    "graph": "return step(x)",
    "graph results left": "return [step(x) for _ in range(4)]",
}


@pytest.mark.parametrize("kind", BODIES)
def test_interrupt_stops_the_work_and_leaves_it_usable(kind: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PRELUDE.replace("BODY", BODIES[kind])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"ONEFLOW_NUM_THREADS": "2"},
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert out == "interrupted\n", err
    assert child.returncode == 0, err
