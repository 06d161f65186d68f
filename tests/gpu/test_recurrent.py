"""Recurrent networks by cuDNN 9, or by its emulated version, beside the CPU's and beside this package's own kernels."""

import oneflow
import pytest
from oneflow import nn
from oneflow.backends import cudnn
from oneflow.nn.utils.rnn import PackedSequence, pack_padded_sequence

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def with_the_library():
    if not cudnn.is_available():
        pytest.skip("cuDNN is not installed")


def made(kind, *sizes, **options):
    oneflow.manual_seed(0)
    return getattr(nn, kind)(*sizes, **options)


def inputs(kind, net, batch=3, steps=4, lengths=None):
    oneflow.manual_seed(1)
    x = oneflow.randn(batch, steps, net.input_size)
    if lengths:
        x = pack_padded_sequence(x, oneflow.tensor(lengths), batch_first=True, enforce_sorted=False)
    elif not net.batch_first:
        x = x.transpose(0, 1).contiguous()
    n = net.num_layers * (1 + net.bidirectional)
    h = oneflow.randn(n, batch, net.proj_size or net.hidden_size)
    return x, (h, oneflow.randn(n, batch, net.hidden_size)) if kind == "LSTM" else h


def moved(value, device, dtype):
    if isinstance(value, PackedSequence):
        return value.to(device=device, dtype=dtype)
    if isinstance(value, tuple):
        return tuple(moved(v, device, dtype) for v in value)
    return value.to(device=device, dtype=dtype).detach().requires_grad_()


def flat(value):
    if isinstance(value, PackedSequence):
        return [value.data]
    return [t for v in value for t in flat(v)] if isinstance(value, tuple) else [value]


def run(net, device, dtype, x, hx):
    """Results, and gradients of the weights, the input and the states by all of them."""
    net = net.to(device=device, dtype=dtype)
    net.zero_grad()
    x, hx = moved(x, device, dtype), moved(hx, device, dtype)
    results = flat(net(x, hx))
    loss = sum(
        (r * (oneflow.arange(r.numel(), device=device) % 5 - 2).reshape(r.shape).to(dtype)).sum() for r in results
    )
    wanted = [*net.parameters(), *(t for t in (*flat(x), *flat(hx)) if t.requires_grad)]
    return [*results, *oneflow.autograd.grad(loss, wanted)]


def compare(ours, reference, tolerance):
    for a, expected in zip(ours, reference, strict=True):
        scale = max(expected.abs().max().item(), 1e-3)
        assert a.shape == expected.shape
        assert (a.cpu().double() - expected).abs().max().item() <= tolerance * scale


OPTIONS = {
    "plain": {},
    "no bias": {"bias": False},
    "batch first": {"batch_first": True},
    "both directions": {"bidirectional": True},
    "three layers": {"num_layers": 3},
    "all": {"num_layers": 2, "bidirectional": True, "batch_first": True},
    "projected": {"proj_size": 3, "num_layers": 2, "bidirectional": True},
}
# Projections are those of LSTM.
NETWORKS = [
    (kind, name) for kind in ("LSTM", "GRU", "RNN") for name in OPTIONS if kind == "LSTM" or name != "projected"
]
EXACT = {oneflow.float32: 2e-5, oneflow.float64: 1e-12}
HALVES = {oneflow.bfloat16: 6e-2, oneflow.float16: 8e-3}


@pytest.mark.parametrize("lengths", [None, [2, 4, 3]], ids=["", "packed"])
@pytest.mark.parametrize("kind, options", NETWORKS)
def test_networks_are_those_of_the_cpu(gpu, issued, kind, options, lengths):
    options = OPTIONS[options]
    net = made(kind, 5, 6, **options)
    x, hx = inputs(kind, net, lengths=lengths)
    reference = run(net, "cpu", oneflow.float64, x, hx)
    for dtype, tolerance in EXACT.items():
        for enabled in (True, False):
            with cudnn.flags(enabled=enabled, allow_tf32=False):
                results = []
                names = issued(lambda dtype=dtype, results=results: results.extend(run(net, gpu, dtype, x, hx)))
            assert names.count("libcudnn") == (3 if enabled else 0)
            compare(results, reference, tolerance)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_halves_stay_halves(gpu, kind):
    net = made(kind, 5, 6, num_layers=2, bidirectional=True)
    x, hx = inputs(kind, net)
    reference = run(net, "cpu", oneflow.float64, x, hx)
    for dtype, tolerance in HALVES.items():
        ours = run(net, gpu, dtype, x, hx)
        assert {t.dtype for t in ours} == {dtype}
        compare(ours, reference, tolerance)


def test_relu(gpu):
    net = made("RNN", 5, 6, num_layers=2, nonlinearity="relu")
    x, hx = inputs("RNN", net)
    reference = run(net, "cpu", oneflow.float64, x, hx)
    compare(run(net, gpu, oneflow.float64, x, hx), reference, 1e-12)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_hundred_steps_are_one_call(gpu, issued, kind):
    net = made(kind, 4, 8, batch_first=True).to(gpu)
    x = oneflow.randn(2, 100, 4, device=gpu)

    def forward():
        return net(x)[0]

    def step():
        forward().sum().backward()

    step()
    with oneflow.no_grad():
        names = issued(forward)
    assert names.count("libcudnn") == 1 and len(names) < 12, names
    names = issued(step)
    assert names.count("libcudnn") == 3 and len(names) < 40, names
    with cudnn.flags(enabled=False):
        step()
        names = issued(step)
    assert "libcudnn" not in names and len(names) > 400


@pytest.mark.parametrize("options", [{}, {"batch_first": True, "bidirectional": True}])
def test_dropout_draws_as_on_the_cpu(gpu, issued, options):
    net = made("LSTM", 5, 6, num_layers=3, dropout=0.5, **options)
    x, hx = inputs("LSTM", net)
    results = []

    def step(device):
        oneflow.manual_seed(5)
        results.append(run(net, device, oneflow.float64, x, hx))

    step("cpu")
    # A call a layer, two for its gradients.
    assert issued(lambda: step(gpu)).count("libcudnn") == 9
    compare(results[1], results[0], 1e-12)


def test_float32_is_rounded_where_a_program_allows_it(gpu):
    net = made("LSTM", 16, 16)
    x, hx = inputs("LSTM", net)
    exact = run(net, "cpu", oneflow.float64, x, hx)[0]

    def error():
        ours = run(net, gpu, oneflow.float32, x, hx)[0].cpu().double()
        return (ours - exact).abs().max().item()

    assert error() < 1e-6
    with cudnn.flags(enabled=True, allow_tf32=True):
        assert error() < 2e-3
        if oneflow.cuda.get_device_name(gpu) == "emulated device":
            assert error() > 1e-5


def test_the_same_in_every_run_by_own_kernels(gpu, issued):
    net = made("GRU", 4, 4).to(gpu)
    x = oneflow.randn(3, 2, 4, device=gpu)
    for chosen in (False, True):
        with cudnn.flags(enabled=True, deterministic=chosen):
            assert ("libcudnn" in issued(lambda: net(x))) != chosen
        oneflow.use_deterministic_algorithms(chosen)
        try:
            assert ("libcudnn" in issued(lambda: net(x))) != chosen
        finally:
            oneflow.use_deterministic_algorithms(False)


@pytest.mark.parametrize("hidden", [77, 78])
def test_what_the_library_refuses_runs_by_layer(gpu, hidden):
    """The emulated library has no networks of 77 units, and refuses those of 78 when they run."""
    net = made("LSTM", 2, hidden, num_layers=2)
    x, hx = inputs("LSTM", net, steps=2)
    reference = run(net, "cpu", oneflow.float64, x, hx)
    for _ in range(2):
        compare(run(net, gpu, oneflow.float64, x, hx), reference, 1e-12)


def test_gradients_again_and_of_gradients(gpu):
    net = made("LSTM", 3, 4, num_layers=2, bidirectional=True).double()
    x, hx = inputs("LSTM", net)

    def grads(device):
        ours = net.to(device)
        at = moved(x, device, oneflow.float64)
        y = ours(at, moved(hx, device, oneflow.float64))[0]
        # Twice from one forward, then through the gradient.
        once, again = (oneflow.autograd.grad(y.pow(2).sum(), at, retain_graph=True)[0] for _ in range(2))
        (first,) = oneflow.autograd.grad(y.pow(2).sum(), at, create_graph=True)
        return [once, again, *oneflow.autograd.grad(first.pow(2).sum(), [at, *ours.parameters()])]

    compare(grads(gpu), grads("cpu"), 1e-10)


def test_autocast(gpu, issued):
    net = made("GRU", 5, 6, num_layers=2).to(gpu)
    x = oneflow.randn(4, 3, 5, device=gpu)

    def step():
        with oneflow.autocast("cuda", dtype=oneflow.bfloat16):
            y, h = net(x)
        assert y.dtype == h.dtype == oneflow.bfloat16
        y.float().sum().backward()

    assert issued(step).count("libcudnn") == 3
    assert net.weight_hh_l0.grad.dtype == oneflow.float32


def test_a_compiled_network(gpu):
    net = made("LSTM", 4, 6, num_layers=2, batch_first=True)
    twin = made("LSTM", 4, 6, num_layers=2, batch_first=True)
    x = oneflow.randn(3, 5, 4)

    class Step(nn.Graph):
        def __init__(self, net):
            super().__init__()
            self.net = net
            self.add_optimizer(oneflow.optim.SGD(net.parameters(), lr=0.1))

        def build(self, x):
            loss = self.net(x)[0].pow(2).sum()
            loss.backward()
            return loss

    ours, reference = Step(net.to(gpu)), Step(twin)
    for _ in range(3):
        assert abs(ours(x.to(gpu)).item() - reference(x).item()) < 1e-4
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        assert oneflow.allclose(a.cpu(), b, rtol=1e-4, atol=1e-5)


def test_a_captured_network(gpu):
    net = made("GRU", 4, 6, bidirectional=True).to(gpu)
    x = oneflow.randn(5, 2, 4, device=gpu)
    with oneflow.no_grad():
        with oneflow.cuda.stream(oneflow.cuda.Stream()):
            net(x)
        oneflow.cuda.synchronize()
        graph = oneflow.cuda.CUDAGraph()
        with oneflow.cuda.graph(graph):
            y, _ = net(x)
        for k in range(3):
            x.fill_(0.5 * k)
            graph.replay()
            assert oneflow.allclose(y, net(x)[0], rtol=1e-4, atol=1e-5)


def test_operands_without_an_order_of_the_library(gpu):
    """Parts of sequences, weights in another order, and a single sequence."""
    net = made("LSTM", 3, 4).double()
    x = oneflow.randn(6, 5, 7, dtype=oneflow.float64)
    net.weight_hh_l0 = nn.Parameter(net.weight_hh_l0.detach().t().contiguous().t())
    for part in (lambda t: t[::2, 1:4, 2:5], lambda t: t[:, :1, :3], lambda t: t.permute(2, 1, 0)[:, :, :3]):
        y, states = net.cpu()(part(x))
        ours = net.to(gpu)(part(x.to(gpu)))
        compare(flat(ours), [y, *states], 1e-12)


PROGRAM = """
import sys, warnings
import oneflow
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    net = oneflow.nn.LSTM(3, 4).to("cuda")
    for _ in range(2):
        assert net(oneflow.ones(2, 2, 3, device="cuda"))[0].shape == (2, 2, 4)
texts = [str(w.message) for w in said if str(w.message).startswith("recurrent networks:")]
assert len(texts) == 1 and sys.argv[1] in texts[0] and "own" in texts[0], [str(w.message) for w in said]
print("well")
"""


def test_without_the_library_own_kernels_do_it(in_copied_libraries):
    in_copied_libraries(PROGRAM, "cuDNN 80907", EMULATOR_CUDNN_VERSION="80907")
