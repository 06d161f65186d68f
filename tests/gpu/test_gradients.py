"""Gradients of many parameters: norms in few launches, clipping, and gradients that are taken over as they are."""

import math
from pathlib import Path

import oneflow
import pytest
from oneflow import nn

pytestmark = pytest.mark.gpu


# Empty ones, a number, chunks and more, and more tensors than a launch takes.
SIZES = [(3, 5), (), (20_001,), (7, 1, 2), (8192,), *[(k % 7 + 1,) for k in range(70)]]


@pytest.mark.parametrize("dtype", [oneflow.float32, oneflow.float64, oneflow.bfloat16, oneflow.float16])
@pytest.mark.parametrize("order", [2.0, 1.0, math.inf, 3.0])
def test_norms_of_many_tensors(gpu, dtype, order):
    oneflow.manual_seed(0)
    tensors = [oneflow.randn(size).to(dtype) for size in SIZES]
    # Turned, with gaps, and one whose first element lies in the middle of an access.
    tensors += [
        oneflow.randn(6, 4).to(dtype).t(),
        oneflow.randn(6, 4).to(dtype)[:, ::2],
        oneflow.randn(9).to(dtype)[1:],
    ]
    on_device = [t.to(gpu) if t.is_contiguous() else t.t().contiguous().to(gpu).t() for t in tensors[:-2]]
    on_device += [oneflow.cat([t.to(gpu).reshape(-1, 1)] * 2, 1)[:, :1] for t in tensors[-2:-1]]
    on_device += [oneflow.cat([tensors[-1][:1], tensors[-1]]).to(gpu)[1:]]
    ours = oneflow._oneflow._C._stacked_norms(on_device, order)
    expected = [oneflow.linalg.vector_norm(t.double(), order).item() for t in tensors]
    tolerance = {oneflow.float64: 1e-12, oneflow.float32: 1e-5}.get(dtype, 1e-2)
    assert ours.dtype == dtype and ours.cpu().tolist() == pytest.approx(expected, rel=tolerance)
    total = nn.utils.get_total_norm(on_device, order).item()
    wanted = oneflow.linalg.vector_norm(oneflow.tensor(expected, dtype=oneflow.float64), order).item()
    assert total == pytest.approx(wanted, rel=tolerance)


def test_numbers_that_are_not_finite_show(gpu):
    for bad in (math.nan, math.inf):
        tensors = [oneflow.ones(20_000, device=gpu), oneflow.ones(3, device=gpu)]
        tensors[0][17_000] = bad
        for order in (1.0, 2.0, math.inf):
            norms = oneflow._oneflow._C._stacked_norms(tensors, order).tolist()
            assert math.isnan(norms[0]) if math.isnan(bad) else norms[0] == math.inf
            assert math.isfinite(norms[1])
        with pytest.raises(RuntimeError, match="non-finite"):
            nn.utils.get_total_norm(tensors, error_if_nonfinite=True)


def test_norms_name_what_does_not_fit(gpu):
    norms = oneflow._oneflow._C._stacked_norms
    with pytest.raises(RuntimeError, match="at least one tensor"):
        norms([], 2.0)
    with pytest.raises(RuntimeError, match="float32 on cuda:0 and float64"):
        norms([oneflow.ones(1, device=gpu), oneflow.ones(1, device=gpu, dtype=oneflow.float64)], 2.0)
    with pytest.raises(NotImplementedError, match="_stacked_norms"):
        norms([oneflow.ones(1, device=gpu, dtype=oneflow.int64)], 2.0)
    # Nothing to walk: composed.
    empty = [oneflow.ones(0, device=gpu), oneflow.ones(4, device=gpu)]
    assert norms(empty, 2.0).tolist() == [0.0, 2.0]


def test_clipping_is_a_few_launches(gpu, launches):
    oneflow.manual_seed(0)
    parameters = {}
    for device in ("cpu", gpu):
        parameters[device] = [nn.Parameter(oneflow.zeros(n % 5 + 1, 3, device=device)) for n in range(130)]
    for ours, theirs in zip(parameters[gpu], parameters["cpu"], strict=True):
        theirs.grad = oneflow.randn(*theirs.shape)
        ours.grad = theirs.grad.to(gpu)
    norm = nn.utils.clip_grad_norm_(parameters["cpu"], 1.0)
    found = []
    # Three for the norms, three for their norm, four for the coefficient and the flag, three to multiply.
    assert launches(lambda: found.append(nn.utils.clip_grad_norm_(parameters[gpu], 1.0))) <= 13
    assert found[0].item() == pytest.approx(norm.item(), rel=1e-5)
    for ours, theirs in zip(parameters[gpu], parameters["cpu"], strict=True):
        assert oneflow.allclose(ours.grad.cpu(), theirs.grad, rtol=1e-5)


def test_gradients_of_broadcast_operands_are_not_copied(gpu, launches):
    """What a sum over the leading dimensions gives is the gradient itself."""
    x = oneflow.randn(4, 5, 6, device=gpu)

    def backward(w):
        loss = (x + w).sum()
        grad = oneflow.ones((), device=gpu)
        return launches(lambda: loss.backward(grad))

    w = nn.Parameter(oneflow.randn(6, device=gpu))
    oneflow.cuda.synchronize()
    assert backward(w) == 1
    assert w.grad.tolist() == [20.0] * 6
    held = nn.Parameter(oneflow.randn(1, 6, device=gpu))
    backward(held)
    assert held.grad.shape == (1, 6) and held.grad.tolist() == [[20.0] * 6]


@pytest.mark.parametrize("dtype", [oneflow.float32, oneflow.float64, oneflow.bfloat16, oneflow.float16])
@pytest.mark.parametrize("shape", [(6, 5), (2, 3, 5), (0, 5), (1, 5)])
def test_gradients_of_weight_and_bias(gpu, dtype, shape):
    """By one launch where the library has that, by two otherwise; and gradients of those gradients."""
    oneflow.manual_seed(0)
    results = {}
    drawn = [oneflow.randn(*size, dtype=oneflow.float64) for size in (shape, (7, 5), (7,), (*shape[:-1], 7))]
    for device, of in (("cpu", oneflow.float64), (gpu, dtype)):
        x, w, b, g = (t.to(dtype).to(of).to(device) for t in drawn)
        for t in (x, w, b):
            t.requires_grad_()
        y = nn.functional.linear(x, w, b)
        first = oneflow.autograd.grad((y * g).sum(), (x, w, b), create_graph=True)
        second = oneflow.autograd.grad(first[1].pow(2).sum() + first[2].pow(3).sum(), x, allow_unused=True)
        assert first[1].dtype == of and first[2].shape == (7,)
        results[device] = [t.detach().cpu().double() for t in (y, *first, *second)]
    tolerance = {oneflow.float64: 1e-12, oneflow.float32: 1e-5, oneflow.float16: 1e-2, oneflow.bfloat16: 6e-2}[dtype]
    for ours, expected in zip(results[gpu], results["cpu"], strict=True):
        scale = max(1.0, expected.abs().max().item() if expected.numel() else 0.0)
        assert (ours - expected).abs().max().item() <= tolerance * scale if expected.numel() else True


def test_a_bias_costs_no_launch_backward(gpu, launches):
    layer = nn.Linear(8, 16, device=gpu, dtype=oneflow.bfloat16)
    x = oneflow.randn(4, 6, 8, device=gpu, dtype=oneflow.bfloat16)

    def backward():
        y = layer(x)
        grad = oneflow.ones_like(y)
        layer.zero_grad()
        return launches(lambda: y.backward(grad))

    backward()
    # The library's products are not counted; there is nothing else.
    assert backward() == 0
    assert layer.bias.grad.tolist() == [24.0] * 16


def test_a_step_of_a_deep_gpt_is_few_launches(gpu, launches, monkeypatch):
    """Kernels of an eager step: calls of cuBLASLt are not counted here, `python -m benches.launches` counts them."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from benches.models import gpt

    oneflow.manual_seed(0)
    layers = 6
    model = gpt(oneflow, vocabulary=32, layers=layers, width=16, heads=2, length=8).to(gpu)
    optimizer = oneflow.optim.AdamW(model.parameters(), lr=1e-3)
    ids = oneflow.randint(0, 32, (2, 8)).to(gpu)

    def step():
        model(ids, ids).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    step()
    # Of a layer: two norms, two sums, GELU, attention; then four for norms, three for attention, one for the heads,
    # four sums of biases, GELU, two sums of branches. And some forty for embeddings, loss, clipping and the optimizer.
    assert launches(step) <= 21 * layers + 45
