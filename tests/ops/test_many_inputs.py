"""Ops over lists of more tensors than a machine word has bits, of which some need gradients."""

import oneflow
import pytest
import torch

OPS = {
    "cat": lambda fw, ts: fw.cat(ts),
    "stack": lambda fw, ts: fw.stack(ts, 1),
    "hstack": lambda fw, ts: fw.hstack(ts),
    "block_diag": lambda fw, ts: fw.block_diag(*ts),
    "pad_sequence": lambda fw, ts: fw.nn.utils.rnn.pad_sequence(ts, batch_first=True),
    "foreach": lambda fw, ts: fw.stack(fw._foreach_mul(ts, 2.0)),
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("needing", ["all", "first", "last", "66th", "every third"])
def test_gradients_reach_every_input(name, needing):
    n = 131
    needs = {"all": range(n), "first": [0], "last": [n - 1], "66th": [65], "every third": range(0, n, 3)}[needing]
    found = []
    for fw in (oneflow, torch):
        tensors = [fw.tensor([float(i), 0.5 * i]) for i in range(n)]
        for i in needs:
            tensors[i].requires_grad_()
        y = OPS[name](fw, tensors)
        (y * fw.arange(float(y.numel())).reshape(y.shape)).sum().backward()
        found.append([None if t.grad is None else t.grad.tolist() for t in tensors])
    assert found[0] == found[1]
