"""Gradients of many parameters: norms in few launches, clipping, and gradients that are taken over as they are.

And autocast's weights: cast together, with the values, gradients and lifetimes of casts of each alone.
"""

import math
from pathlib import Path

import oneflow
import pytest
import summed_gradients
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


class Two(nn.Module):
    """Two layers and a tied weight."""

    def __init__(self, device):
        super().__init__()
        self.one, self.two = nn.Linear(8, 8, device=device), nn.Linear(8, 8, device=device)
        self.norm = nn.LayerNorm(8, device=device)

    def forward(self, x):
        x = self.two(nn.functional.gelu(self.norm(self.one(x))))
        return nn.functional.linear(x, self.one.weight, self.two.bias)


def step_of(model, x):
    with oneflow.autocast(x.device.type, oneflow.bfloat16):
        y = model(x)
    model.zero_grad()
    y.float().pow(2).sum().backward()
    return [y, *(p.grad for p in model.parameters())]


def test_weights_are_cast_together(gpu, launches):
    oneflow.manual_seed(0)
    reference, model = Two("cpu"), Two(gpu)
    model.load_state_dict(reference.state_dict())
    x = oneflow.randn(3, 8)
    optimizers = [oneflow.optim.SGD(m.parameters(), lr=0.1) for m in (reference, model)]
    counts = []
    for _ in range(4):
        ours = []
        counts.append(launches(lambda: ours.extend(step_of(model, x.to(gpu)))))  # noqa: B023
        for a, b in zip(ours, step_of(reference, x), strict=True):
            assert a.dtype == b.dtype and oneflow.allclose(a.cpu(), b, rtol=5e-2, atol=2e-2)
        for optimizer in optimizers:
            optimizer.step()
        # Later steps start from the same weights, and see what the optimizer wrote.
        model.load_state_dict(reference.state_dict())
    # The second step knows from the first which weights there are.
    assert counts[1] < counts[0] and counts[1] == counts[2] == counts[3], counts


def test_weights_cast_ahead_are_those_of_their_use(gpu):
    """Writes between the cast and the use count; weights that are gone are forgotten; other regions cast their own."""
    layers = [nn.Linear(4, 4, bias=False, device=gpu) for _ in range(2)]
    x = oneflow.eye(4, device=gpu)

    def run(between=lambda: None):
        with oneflow.autocast("cuda", oneflow.bfloat16):
            first = layers[0](x)
            between()
            return first, layers[1](x)

    run()
    with oneflow.no_grad():
        _, after = run(lambda: layers[1].weight.fill_(3.0))
    assert after.tolist() == [[3.0] * 4] * 4
    stream = oneflow.cuda.Stream()

    def elsewhere():
        with oneflow.no_grad():
            layers[1].weight.add_(1.0)
        stream.wait_stream(oneflow.cuda.current_stream())

    run()
    with oneflow.autocast("cuda", oneflow.bfloat16):
        layers[0](x)
        elsewhere()
        with oneflow.cuda.stream(stream):
            after = layers[1](x)
    oneflow.cuda.synchronize()
    assert after.tolist() == [[4.0] * 4] * 4
    # Written elsewhere before the region, and waited for within it.
    for value in (7.0, 8.0, 9.0):
        stream.wait_stream(oneflow.cuda.current_stream())
        with oneflow.cuda.stream(stream), oneflow.no_grad():
            for _ in range(20):
                layers[1].weight.add_(0.0)
            layers[1].weight.fill_(value)
        with oneflow.autocast("cuda", oneflow.bfloat16):
            layers[0](x)
            oneflow.cuda.current_stream().wait_stream(stream)
            after = layers[1](x)
        assert after.tolist() == [[value] * 4] * 4
        run()
    # The results' history holds the weights.
    del after
    held, n_bytes = oneflow.cuda.memory_allocated(), layers[1].weight.nbytes
    del layers[1]
    assert oneflow.cuda.memory_allocated() <= held - n_bytes
    with oneflow.autocast("cuda", oneflow.bfloat16):
        assert layers[0](x).dtype == oneflow.bfloat16


def test_gradients_through_casts_together(gpu):
    """A gradient of one weight alone, and gradients of gradients."""
    oneflow.manual_seed(0)
    layer = nn.Linear(4, 3, device=gpu)
    x = oneflow.randn(2, 4, device=gpu)

    def loss():
        with oneflow.autocast("cuda", oneflow.bfloat16):
            return layer(x).float().pow(2).sum()

    bias = oneflow.autograd.grad(loss(), layer.bias)[0]
    both = oneflow.autograd.grad(loss(), (layer.weight, layer.bias), create_graph=True)
    assert bias.dtype == both[0].dtype == oneflow.float32 and bias.tolist() == pytest.approx(both[1].tolist(), rel=1e-2)
    again = oneflow.autograd.grad(both[1].sum(), layer.bias)[0]
    assert again.tolist() == [4.0] * 3


@pytest.mark.parametrize("autocast", [False, True])
def test_a_step_of_a_deep_gpt_is_few_launches(gpu, launches, monkeypatch, autocast):
    """Kernels of an eager step: calls of cuBLASLt are not counted here, `python -m benches.launches` counts them."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from benches.models import gpt

    oneflow.manual_seed(0)
    layers = 6
    model = gpt(oneflow, vocabulary=32, layers=layers, width=16, heads=2, length=8).to(gpu)
    optimizer = oneflow.optim.AdamW(model.parameters(), lr=1e-3)
    ids = oneflow.randint(0, 32, (2, 8)).to(gpu)

    def step():
        with oneflow.autocast("cuda", oneflow.bfloat16, enabled=autocast):
            loss = model(ids, ids)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    step()
    # Of a layer: two norms, two sums, GELU, attention; then two for norms, which add the other branch's gradient,
    # three for attention, one for the heads, GELU. And some forty for embeddings, loss, clipping and the optimizer.
    # Autocast casts what two norms give, the gradients of two sums, and those of four weights with their biases; all
    # weights in one or two.
    assert launches(step) <= (21 if autocast else 13) * layers + (50 if autocast else 45)


def seen(_grad):
    """A hook: what it sees is made on its own."""


@pytest.mark.parametrize("dtype", [oneflow.bfloat16, oneflow.float16])
@pytest.mark.parametrize("width", [32, 768, 33, 9000])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_norms_read_narrow_gradients_and_add_what_waits(gpu, launches, norm, width, dtype):
    """To the bit what casts and sums of their own give, in fewer launches."""
    oneflow.manual_seed(0)
    layer = nn.LayerNorm(width) if norm == "layer" else nn.RMSNorm(width)
    layer, linear = layer.to(gpu), nn.Linear(width, 16, bias=False, device=gpu)
    x = oneflow.randn(5, 3, width).to(gpu)
    with oneflow.no_grad():
        layer.weight.uniform_(0.5, 1.5)

    def run(hooked):
        leaf = x.clone().requires_grad_()
        stream = leaf * 1.5
        with oneflow.autocast("cuda", dtype):
            y = layer(stream)
            if hooked:
                y.register_hook(seen)
            z = linear(y)
        # The sum of both branches arrives at `stream`, and that of the second first.
        loss = (z.float() * 3).sum() + (stream * stream).sum()
        for p in (*layer.parameters(), *linear.parameters()):
            p.grad = None
        n = launches(loss.backward)
        return n, [leaf.grad, *(p.grad for p in layer.parameters()), linear.weight.grad]

    run(True)
    (n_apart, apart), (n, together) = run(True), run(False)
    for a, b in zip(apart, together, strict=True):
        assert b.dtype == oneflow.float32 and oneflow.equal(a, b)
    # A cast and a sum.
    assert n == n_apart - 2


def test_a_norm_that_is_read_twice_has_no_narrow_sum(gpu):
    """Of two gradients in half types the second is cast: their sum is one in float32."""
    oneflow.manual_seed(0)
    norm, linears = nn.LayerNorm(32, device=gpu), [nn.Linear(32, 8, device=gpu) for _ in range(3)]
    x = oneflow.randn(6, 32).to(gpu)

    def run(hooked):
        leaf = x.clone().requires_grad_()
        with oneflow.autocast("cuda", oneflow.bfloat16):
            y = norm(leaf)
            if hooked:
                y.register_hook(seen)
            z = [linear(y) for linear in linears]
        sum((k + 1) * part.float().square().sum() for k, part in enumerate(z)).backward()
        return leaf.grad

    assert oneflow.equal(run(True), run(False))


@pytest.mark.parametrize("dtype", list(summed_gradients.TOLERANCES), ids=str)
@pytest.mark.parametrize("size", summed_gradients.INPUTS, ids=str)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_gradients_of_weights_are_added_up(gpu, dtype, size, bias, turned):
    summed_gradients.check_sums(gpu, dtype, size, bias, turned)


@pytest.mark.parametrize(
    "check_of", [f for name, f in vars(summed_gradients).items() if name.startswith("check_") and name != "check_sums"]
)
def test_whoever_looks_at_a_gradient_sees_what_there_was(gpu, check_of):
    check_of(gpu)


@pytest.mark.parametrize("dtype", [oneflow.float32, oneflow.bfloat16, oneflow.float64])
@pytest.mark.parametrize("bias", [False, True])
def test_gradients_of_weights_are_added_by_the_product(gpu, launches, bias, dtype):
    layer = nn.Linear(24, 16, bias=bias, device=gpu, dtype=dtype)
    x = oneflow.randn(4, 5, 24, dtype=dtype, device=gpu)
    grad = oneflow.ones(4, 5, 16, dtype=dtype, device=gpu)
    counts = []
    for _ in range(3):
        y = layer(x)
        counts.append(launches(lambda: y.backward(grad)))  # noqa: B023
    # Of a bias the second gradient is a sum of its own. Calls of the library are not counted.
    assert counts[1] == counts[2] == counts[0] + bias, counts


def test_a_second_micro_batch_adds_no_launch_for_its_weights(gpu, launches, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from benches.models import gpt

    layers, counts = 3, {}
    ids = oneflow.randint(0, 32, (2, 8)).to(gpu)
    for hooked in (False, True):
        oneflow.manual_seed(0)
        model = gpt(oneflow, vocabulary=32, layers=layers, width=16, heads=2, length=8).to(gpu)
        weights = {m.weight for m in model.modules() if isinstance(m, nn.Linear)}
        assert len(weights) == 4 * layers + 1
        for weight in weights:
            if hooked:
                weight.register_hook(seen)
        model(ids, ids).backward()
        counts[hooked] = launches(model(ids, ids).backward)
    assert counts[False] == counts[True] - len(weights), counts


def test_a_library_without_this_epilogue_adds_all_the_same(in_copied_libraries):
    """A library that adds and one that sums rows need not do both in one call."""
    in_copied_libraries(NO_ROW_SUMS, EMULATOR_NO_ROW_SUMS="1")


NO_ROW_SUMS = """
import ctypes, oneflow
layer = oneflow.nn.Linear(24, 16, device="cuda")
x, grad = oneflow.randn(4, 5, 24, device="cuda"), oneflow.ones(4, 5, 16, device="cuda")
count = ctypes.CDLL("libcuda.so.1").emulator_launches
count.restype = ctypes.c_long
counts = []
for _ in range(3):
    y = layer(x)
    before = count()
    y.backward(grad)
    counts.append(count() - before)
assert oneflow.allclose(layer.weight.grad, 3 * x.sum((0, 1)).expand(16, 24), rtol=1e-5)
assert layer.bias.grad.tolist() == [60.0] * 16
# The sum of rows, and from the second on that of the biases.
assert counts[1] == counts[2] == counts[0] + 1, counts
print("well")
"""
