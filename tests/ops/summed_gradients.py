"""Gradients of weights that are added up over several backwards, on any device.

Where nobody looks at a gradient before it is added to ``.grad``, the product that makes it adds it. A hook on the leaf
looks: with one, gradients are made on their own and added by an op, which is what the others are compared with.
"""

import warnings

import oneflow
import pytest
from oneflow import nn

F = nn.functional
TOLERANCES = {oneflow.float64: 1e-13, oneflow.float32: 2e-6, oneflow.float16: 4e-3, oneflow.bfloat16: 3e-2}
# The input's sizes; how it lies is said below.
INPUTS = [(6, 5), (2, 3, 5), (1, 5), (0, 5), (2, 0, 5), (3, 1, 2, 5)]


def seen(_grad):
    """A hook that only looks."""


def near(ours, wanted, dtype):
    scale = max(1.0, wanted.abs().max().item())
    assert ours.dtype == wanted.dtype == dtype and ours.shape == wanted.shape
    assert (ours.double() - wanted.double()).abs().max().item() <= TOLERANCES[dtype] * scale


def check_sums(device, dtype, size, bias, turned):
    """Three backwards give what they give a weight with a hook."""
    oneflow.manual_seed(0)
    layers = [nn.Linear(size[-1], 7, bias=bias, device=device, dtype=dtype) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    for p in layers[1].parameters():
        p.register_hook(seen)
    batches = [oneflow.randn(*size, dtype=oneflow.float64).to(dtype).to(device) for _ in range(3)]
    if turned:
        batches = [x.transpose(0, -1).contiguous().transpose(0, -1) for x in batches]
    places = set()
    for k, x in enumerate(batches):
        for layer in layers:
            (layer(x) * (k + 1)).sum().backward()
        places.add((id(layers[0].weight.grad), layers[0].weight.grad.data_ptr()))
    for ours, wanted in zip(layers[0].parameters(), layers[1].parameters(), strict=True):
        near(ours.grad, wanted.grad, dtype)
    assert len(places) == 1


class Weight:
    """A weight, and how often its gradient of one has been added."""

    def __init__(self, device):
        oneflow.manual_seed(0)
        self.weight = oneflow.randn(3, 4, device=device, requires_grad=True)
        self.x = oneflow.randn(5, 4, device=device)
        self.one = oneflow.autograd.grad(self.loss(), self.weight)[0]

    def loss(self):
        return F.linear(self.x, self.weight).sum()

    def backward(self, **options):
        self.loss().backward(**options)

    def holds(self, n):
        assert oneflow.allclose(self.weight.grad, n * self.one, rtol=1e-5, atol=1e-5)


def check_hooks(device):
    """Hooks of a leaf, of its accumulator and behind it see each gradient, or the sum, once."""
    w = Weight(device)
    w.backward()
    watched, ends = [], []
    handle = w.weight.register_hook(watched.append)
    w.backward()
    handle.remove()
    assert len(watched) == 1 and oneflow.allclose(watched[0], w.one)
    handle = w.weight.register_hook(lambda g: g * 3)
    w.backward()
    handle.remove()
    w.holds(5)
    handle = w.weight.register_post_accumulate_grad_hook(lambda p: ends.append(p.grad.clone()))
    w.backward()
    handle.remove()
    w.holds(6)
    assert len(ends) == 1 and oneflow.equal(ends[0], w.weight.grad)
    loss = w.loss()
    accumulator = loss.grad_fn.next_functions[0][0].next_functions[1][0]
    assert accumulator.variable is w.weight
    before = [accumulator.register_prehook(lambda grads: watched.append(grads[0]))]
    before.append(accumulator.register_hook(lambda _none, grads: watched.append(grads[0])))
    loss.backward()
    w.holds(7)
    assert len(watched) == 3 and all(oneflow.allclose(g, w.one) for g in watched)
    for handle in before:
        handle.remove()
    w.backward()
    w.holds(8)
    # An optimizer within the backward, which takes the gradient away.
    handle = w.weight.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
    w.backward()
    assert w.weight.grad is None
    handle.remove()
    w.backward()
    w.holds(1)


def check_backwards(device):
    """Recorded, kept, asked for, restricted, repeated and nested backwards."""
    w = Weight(device)
    w.backward()
    first = w.weight.grad
    w.backward()
    assert w.weight.grad is first
    w.holds(2)
    assert oneflow.allclose(oneflow.autograd.grad(w.loss(), w.weight)[0], w.one)
    w.holds(2)
    loss = w.loss()
    loss.backward(retain_graph=True)
    loss.backward()
    w.holds(4)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    w.holds(4)
    w.backward(inputs=[w.weight])
    w.holds(5)
    other = oneflow.zeros(2, device=device, requires_grad=True)
    (w.loss() + other.sum()).backward(inputs=[other])
    w.holds(5)
    y = oneflow.utils.checkpoint.checkpoint(F.linear, w.x.clone().requires_grad_(), w.weight, use_reentrant=True)
    y.sum().backward()
    w.holds(6)
    # A gradient that is recorded is another tensor, which has a history.
    held = w.weight.grad
    (w.loss() * w.weight.sum()).backward(create_graph=True)
    assert w.weight.grad is not held and w.weight.grad.requires_grad
    second = oneflow.autograd.grad(w.weight.grad.sum(), w.weight)[0]
    # The product's rule, twice: each entry is differentiated by either factor.
    assert oneflow.allclose(second, 3 * 4 * w.one + w.one.sum(), rtol=1e-4)
    # To one with a history is added on the record's side, as before.
    w.weight.grad = w.weight.grad.detach().clone()
    held = w.weight.grad.clone()
    w.backward()
    assert oneflow.allclose(w.weight.grad, held + w.one, rtol=1e-5, atol=1e-4)


def check_shared(device):
    """A weight that is used twice, beside other uses of it, and one that is also the input."""
    w = Weight(device)
    for _ in range(2):
        w.weight.grad = None
        for n in (1, 2):
            (w.loss() + 2 * w.loss()).backward()
            w.holds(3 * n)
        (w.loss() + (w.weight * w.one).sum()).backward()
        w.holds(8)
    square = oneflow.randn(4, 4, device=device, requires_grad=True)
    wanted = oneflow.autograd.grad(F.linear(square, square).sum(), square)[0]
    for n in (1, 2):
        F.linear(square, square).sum().backward()
        assert oneflow.allclose(square.grad, n * wanted, rtol=1e-5, atol=1e-5)
    # One input's gradient is added where the other's is on its way.
    table = oneflow.randn(6, 4, device=device, requires_grad=True)
    ids = oneflow.tensor([1, 1, 5], device=device)

    def tied():
        return F.linear(F.embedding(ids, table), table).square().sum()

    wanted = oneflow.autograd.grad(tied(), table)[0]
    for n in (1, 2):
        tied().backward()
        assert oneflow.allclose(table.grad, n * wanted, rtol=1e-4, atol=1e-4)


def check_gradients_that_lie_elsewhere(device):
    """Buckets, other layouts, tensors that the product reads, and what cannot be added to."""
    w = Weight(device)
    bucket = oneflow.zeros(50, device=device)
    w.weight.grad = bucket[3:15].view(3, 4)
    for n in (1, 2):
        w.backward()
        assert oneflow.allclose(bucket[3:15].view(3, 4), n * w.one, rtol=1e-5, atol=1e-5)
    assert bucket[:3].abs().sum().item() == bucket[15:].abs().sum().item() == 0.0
    w.weight.grad = (8 * w.one).t().contiguous().t()
    w.backward()
    assert w.weight.grad.stride() == (1, 3)
    w.holds(9)
    w.weight.grad = oneflow.zeros(3, 8, device=device)[:, ::2]
    w.backward()
    w.holds(1)
    # Several elements that are one in memory are refused, as by any op in place.
    w.weight.grad = oneflow.zeros(1, 4, device=device).expand(3, 4)
    with pytest.raises(RuntimeError, match="single memory location"):
        w.backward()
    # The sum is what the product reads: each read comes before the write.
    for reads in ("input", "gradient"):
        square, x, g = (oneflow.randn(4, 4, device=device) for _ in range(3))
        square.requires_grad_()
        F.linear(x, square).backward(g)
        wanted = square.grad + (x if reads == "input" else g)
        square.grad = x if reads == "input" else g
        F.linear(x, square).backward(g)
        assert oneflow.allclose(square.grad, wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(RuntimeError, match="different type"):
        w.weight.grad = oneflow.zeros(3, 4, device=device, dtype=oneflow.float64)
    # A leaf whose data are another's by now.
    w.weight.grad = None
    w.backward()
    loss = w.loss()
    w.weight.data = w.weight.detach().clone()
    loss.backward()
    w.holds(2)


def check_versions(device):
    """A sum counts as one write of ``.grad``, and whoever kept it for a backward hears of it."""
    w, hooked = Weight(device), Weight(device)
    hooked.weight.register_hook(seen)
    for each in (w, hooked):
        for _ in range(3):
            each.backward()
    assert w.weight.grad._version == hooked.weight.grad._version
    scale = oneflow.ones(3, 4, device=device, requires_grad=True)
    kept = (scale * w.weight.grad).sum()
    w.backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.backward()


def check_anomalies(device):
    """The check for what is no number sees each gradient, not the sum."""
    w = Weight(device)
    w.backward()
    w.x[2, 1] = float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with oneflow.autograd.detect_anomaly(check_nan=True), pytest.raises(RuntimeError, match="nan"):
            w.backward()
    w.holds(1)
