"""Compiled programs on a GPU: after two runs their launches are captured, and a step is issued as one graph."""

import sys
from pathlib import Path

import oneflow
import oneflow.nn.functional as F
import pytest
from oneflow import nn

pytestmark = pytest.mark.gpu
EXAMPLE = Path(__file__).parents[2] / "examples" / "gpt"


@pytest.fixture
def gpt(gpu, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    sys.modules.pop("model", None)

    def make(device, **own):
        from model import GPT, GPTConfig

        oneflow.manual_seed(0)
        sizes = {"block_size": 16, "n_layers": 2, "n_heads": 2, "width": 32, "dropout": 0.0, **own}
        model = GPT(GPTConfig(**sizes)).to(device)
        text = oneflow.tensor([[(i * i + 7 * j) % 97 for i in range(17)] for j in range(4)])
        return model, text[:, :-1].to(device), text[:, 1:].to(device)

    return make


class Step(nn.Graph):
    def __init__(self, model, optimizer):
        super().__init__()
        self.model = model
        self.add_optimizer(optimizer)

    def build(self, x, y):
        loss = self.model(x, y)
        loss.backward()
        return loss


def test_a_training_step_is_one_launch(gpt, gpu, launches):
    losses = {}
    for device in ("cpu", gpu):
        model, x, y = gpt(device)
        step = Step(model, oneflow.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95)))
        losses[device] = [step(x, y).item() for _ in range(3)]
        if device != "cpu":
            counts = [launches(lambda: losses[device].append(step(x, y).item())) for _ in range(6)]  # noqa: B023
            assert counts[-1] == 1, counts
        else:
            losses[device] += [step(x, y).item() for _ in range(6)]
    assert losses[gpu] == pytest.approx(losses["cpu"], rel=2e-4)


def test_a_compiled_model_is_one_launch_each_way(gpt, gpu, launches):
    model, x, y = gpt(gpu)
    plain, _, _ = gpt(gpu)
    compiled = oneflow.compile(model)

    def step(run, net):
        loss = run(x, y)
        loss.backward()
        grads = [p.grad.clone() for p in net.parameters()]
        net.zero_grad()
        return loss, grads

    counts = []
    for _ in range(8):
        loss, grads = step(compiled, model)
        expected, wanted = step(plain, plain)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
        for a, b in zip(grads, wanted, strict=True):
            assert oneflow.allclose(a, b, rtol=1e-3, atol=1e-5)
        del loss, expected
        counts.append(launches(lambda: compiled(x, y).backward()))
        model.zero_grad()
    # The gradient of the loss is filled, and each gradient that is kept is a copy: neither is of the programs.
    assert counts[-1] <= 3 + len(list(model.parameters())), counts
    with oneflow.no_grad():
        for _ in range(3):
            compiled(x, y)
        assert launches(lambda: compiled(x, y)) == 1


def test_random_numbers_are_those_of_eager_runs(gpu, launches):
    drop = nn.Dropout(0.5)
    compiled = oneflow.compile(lambda t: drop(t * 2).relu() + oneflow.rand(64, device=gpu))
    x = oneflow.ones(64, device=gpu)
    for _ in range(3):
        compiled(x)
    for seed in (3, 4):
        oneflow.manual_seed(seed)
        expected = [(drop(x * 2).relu() + oneflow.rand(64, device=gpu)).tolist() for _ in range(3)]
        oneflow.manual_seed(seed)
        assert [compiled(x).tolist() for _ in range(3)] == expected
        assert expected[0] != expected[1]
    assert launches(lambda: compiled(x)) == 1


@pytest.mark.filterwarnings("ignore:matrix_exp")
def test_what_needs_the_host_runs_between_graphs(gpu, launches):
    def run(x):
        y = (x * 2).relu() + 1
        y = y @ y.T / 9
        # On the host.
        y = oneflow.linalg.matrix_exp(y * 0.01)
        return ((y + 1).sin() * 2).softmax(-1), y.sum()

    compiled = oneflow.compile(run)
    x = oneflow.randn(8, 8, device=gpu)
    counts = []
    for k in range(5):
        x.fill_(0.1 * k)
        a, b = run(x)
        c = []
        counts.append(launches(lambda: c.extend(compiled(x))))  # noqa: B023
        assert oneflow.allclose(a, c[0], rtol=1e-5, atol=1e-6) and oneflow.allclose(b, c[1], rtol=1e-5)
    assert counts[-1] < counts[0] and counts[-1] <= 3, counts


def test_inputs_and_results_that_move(gpu, launches):
    """Kept results and fresh inputs lie elsewhere in every run: they are copied, and the graph stays one."""
    compiled = oneflow.compile(lambda t: (t * 2).relu().cumsum(0) + 1)
    kept, counts = [], []
    for k in range(40):
        x = oneflow.full((16,), float(k), device=gpu)
        kept.append((x, k))
        counts.append(launches(lambda: kept.append((compiled(x), k))))  # noqa: B023
    assert counts[-1] == 1, counts
    for t, k in kept[1::2]:
        assert t.tolist() == [2.0 * k * (i + 1) + 1 for i in range(16)]


def test_sizes_have_graphs_of_their_own(gpu, launches):
    compiled = oneflow.compile(lambda t: (t * 2).relu().sum(0) + 1, dynamic=True)
    inputs = {n: oneflow.randn(n, 4, device=gpu) for n in (3, 5, 8)}
    for _ in range(4):
        for x in inputs.values():
            assert oneflow.allclose(compiled(x), (x * 2).relu().sum(0) + 1)
    assert all(launches(lambda: compiled(x)) == 1 for x in inputs.values())  # noqa: B023


def test_faults_of_kernels_are_raised(gpu):
    table = oneflow.randn(8, 4, device=gpu)
    compiled = oneflow.compile(lambda i: F.embedding(i, table).relu() * 2)
    index = oneflow.tensor([1, 2, 3], device=gpu)
    for _ in range(3):
        compiled(index)
    index.fill_(9)
    compiled(index)
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        oneflow.cuda.synchronize()
    index.fill_(3)
    assert oneflow.allclose(compiled(index), table[3].relu().expand(3, 4) * 2)


def test_runs_on_other_streams_and_threads(gpu):
    import threading

    compiled = oneflow.compile(lambda t: (t * 2).relu().cumsum(0) + 1)
    xs = [oneflow.full((16,), float(k), device=gpu) for k in range(6)]
    failures = []

    def work(x, k):
        try:
            with oneflow.cuda.stream(oneflow.cuda.Stream()):
                for _ in range(5):
                    assert compiled(x).tolist() == [2.0 * k * (i + 1) + 1 for i in range(16)]
        except BaseException as e:
            failures.append(e)

    oneflow.cuda.synchronize()
    threads = [threading.Thread(target=work, args=(x, k)) for k, x in enumerate(xs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures


def numbers(dtype, *sizes):
    n = 1
    for size in sizes:
        n *= size
    return (oneflow.arange(n) % 5).view(*sizes).to(dtype).to("cuda")


# Ops of which a kernel declines these dtypes, so that eager calls compose them or run them on the host.
DECLINED = {
    "convolution of integers": lambda x: F.conv2d(x, x[:, :, :3, :3]),
    "product": lambda x: x @ x.mT,
    "distances": lambda x: oneflow.cdist(x, x),
    "bags": lambda x: F.embedding_bag(oneflow.zeros(2, 3, dtype=oneflow.int64, device="cuda"), x, mode="sum"),
    "sum without NaN": lambda x: x.nansum(0),
    "logarithms of sums": lambda x: x.logcumsumexp(1),
    "average of places": lambda x: F.avg_pool2d(x, 2),
    "cumulative product": lambda x: x.cumprod(0),
    "spectrum": lambda x: oneflow.fft.rfft(x).abs(),
}
FLAT, IMAGES = (4, 6), (2, 2, 6, 6)
CASES = [
    ("convolution of integers", oneflow.int32, IMAGES),
    ("convolution of integers", oneflow.int8, IMAGES),
    ("convolution of integers", oneflow.complex64, IMAGES),
    ("product", oneflow.complex64, FLAT),
    ("product", oneflow.int16, FLAT),
    ("distances", oneflow.float64, FLAT),
    ("bags", oneflow.float64, FLAT),
    ("sum without NaN", oneflow.float32, FLAT),
    ("sum without NaN", oneflow.bfloat16, FLAT),
    ("logarithms of sums", oneflow.complex64, FLAT),
    ("average of places", oneflow.int64, IMAGES),
    ("cumulative product", oneflow.complex64, FLAT),
    ("spectrum", oneflow.float64, FLAT),
]


@pytest.mark.filterwarnings("ignore:.*it runs on the host")
@pytest.mark.parametrize(("name", "dtype", "sizes"), CASES, ids=str)
def test_what_a_kernel_declines_is_composed_as_in_eager(name, dtype, sizes, gpu):
    run, x = DECLINED[name], numbers(dtype, *sizes)
    expected = run(x)

    class Whole(nn.Graph):
        def build(self, x):
            return run(x + x - x)

    for compiled in (Whole(), oneflow.compile(run)):
        for _ in range(4):
            found = compiled(x)
            assert found.dtype == expected.dtype
            oneflow.testing.assert_close(found, expected)


def test_gradients_of_what_a_kernel_declines(gpu):
    """Products of complex numbers, forward and backward in one program."""
    weights = {}
    for way in ("eager", "graph"):
        weight = nn.Parameter(numbers(oneflow.complex64, 6, 6) * (0.1 + 0.2j))
        x = numbers(oneflow.complex64, 4, 6)

        class Net(nn.Module):
            def __init__(self, weight):
                super().__init__()
                self.weight = weight

            def forward(self, x):
                return (x @ self.weight).abs().sum()

        net = Net(weight)
        loss = (net if way == "eager" else oneflow.compile(net))(x)
        loss.backward()
        weights[way] = loss.detach(), weight.grad
    for a, b in zip(weights["graph"], weights["eager"], strict=True):
        oneflow.testing.assert_close(a, b)
