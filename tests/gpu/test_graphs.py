"""Captured graphs. The emulated device refuses what a capture forbids and runs nodes in any order that they allow."""

import oneflow
import oneflow.nn.functional as F
import pytest
from oneflow import nn

pytestmark = pytest.mark.gpu


def test_a_graph_replays_on_the_same_memory(gpu):
    x = oneflow.arange(8.0, device=gpu)
    weight = oneflow.eye(8, device=gpu) * 3
    g = oneflow.cuda.CUDAGraph()
    assert not oneflow.cuda.is_current_stream_capturing()
    x @ weight  # The library's plan and the kernels are made before.
    (x * 2).relu()
    with oneflow.cuda.graph(g):
        assert oneflow.cuda.is_current_stream_capturing()
        y = (x @ weight * 2).relu()
    assert not oneflow.cuda.is_current_stream_capturing()
    for k in range(3):
        x.fill_(k + 1)
        g.replay()
        assert y.tolist() == [6.0 * (k + 1)] * 8
    # The capture's temporaries are overwritten by nobody else.
    others = [oneflow.full((8,), -1.0, device=gpu) for _ in range(32)]
    g.replay()
    assert y.tolist() == [18.0] * 8 and all((o == -1).all() for o in others)
    with pytest.raises(RuntimeError, match="already owns a captured graph"), oneflow.cuda.graph(g):
        pass
    g.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()


def test_what_cannot_be_captured_is_named(gpu):
    x = oneflow.ones(4, device=gpu)
    x.sum()
    for call, name in (
        (lambda: x.sum().item(), "copy DeviceToHost"),
        (lambda: x.cpu(), "copy DeviceToHost"),
        (lambda: oneflow.cuda.synchronize(), "synchronize"),
        (lambda: oneflow.cuda.current_stream().synchronize(), "synchronize"),
        (lambda: oneflow.ones(4).to(gpu), "copy HostToDevice"),
    ):
        with pytest.raises(RuntimeError, match=name), oneflow.cuda.graph(oneflow.cuda.CUDAGraph()):
            call()
        # All goes on, and another capture succeeds.
        assert x.sum().item() == 4
        g = oneflow.cuda.CUDAGraph()
        with oneflow.cuda.graph(g):
            y = x + 1
        g.replay()
        assert y.tolist() == [2.0] * 4
    # An error that the program handles still ends the capture, whose end says what happened.
    with pytest.raises(RuntimeError, match=r"end capture.*ended by: copy DeviceToHost"):
        with oneflow.cuda.graph(oneflow.cuda.CUDAGraph()):
            try:
                x.cpu()
            except RuntimeError:
                pass
    with pytest.raises(RuntimeError, match="non-default stream"):
        oneflow.cuda.CUDAGraph().capture_begin()
    with pytest.raises(RuntimeError, match="Unknown capture error mode"):
        with oneflow.cuda.graph(oneflow.cuda.CUDAGraph(), capture_error_mode="other"):
            pass
    with pytest.raises(RuntimeError, match="no capture is under way"):
        oneflow.cuda.CUDAGraph().capture_end()
    assert x.sum().item() == 4


def test_random_numbers_go_on_with_each_replay(gpu):
    x = oneflow.ones(1 << 10, device=gpu)
    oneflow.manual_seed(5)
    F.dropout(x, 0.5), oneflow.rand(16, device=gpu)
    eager = [(F.dropout(x, 0.5).tolist(), oneflow.rand(16, device=gpu).tolist()) for _ in range(3)]
    for _ in range(2):
        oneflow.manual_seed(5)
        g = oneflow.cuda.CUDAGraph()
        with oneflow.cuda.graph(g):
            y, z = F.dropout(x, 0.5), oneflow.rand(16, device=gpu)
        # A capture draws nothing.
        g.replay()
        for expected in eager:
            g.replay()
            assert (y.tolist(), z.tolist()) == expected
    # Eager draws go on behind the replays, and another seed counts.
    after = oneflow.rand(16, device=gpu).tolist()
    assert after not in [numbers for _, numbers in eager]
    oneflow.manual_seed(6)
    g.replay()
    other = (y.tolist(), z.tolist())
    oneflow.manual_seed(6)
    assert other == (F.dropout(x, 0.5).tolist(), oneflow.rand(16, device=gpu).tolist())


def test_a_training_step_as_one_graph(gpu):
    def make():
        oneflow.manual_seed(1)
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).to(gpu)
        return model, oneflow.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    data = [(oneflow.randn(6, 8, device=gpu), oneflow.randint(0, 4, (6,), device=gpu)) for _ in range(4)]

    def step(model, optimizer, x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    model, optimizer = make()
    expected = [step(model, optimizer, x, y).item() for x, y in data[:1] * 3 + data]
    model, optimizer = make()
    x, y = data[0][0].clone(), data[0][1].clone()
    side = oneflow.cuda.Stream()
    side.wait_stream(oneflow.cuda.current_stream())
    with oneflow.cuda.stream(side):
        for k in range(3):
            assert step(model, optimizer, x, y).item() == pytest.approx(expected[k], rel=1e-5)
    oneflow.cuda.current_stream().wait_stream(side)
    g = oneflow.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with oneflow.cuda.graph(g):
        loss = step(model, optimizer, x, y)
    for k, (new_x, new_y) in enumerate(data):
        x.copy_(new_x), y.copy_(new_y)
        g.replay()
        assert loss.item() == pytest.approx(expected[3 + k], rel=1e-5), k


def test_graphed_callables_train_as_eager_ones(gpu):
    def make():
        oneflow.manual_seed(2)
        first = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.0)).to(gpu)
        return first, nn.Linear(16, 4).to(gpu)

    x = oneflow.randn(6, 8, device=gpu, requires_grad=True)
    results = []
    for graphed in (False, True):
        parts = make()
        if graphed:
            samples = (
                (oneflow.randn(6, 8, device=gpu, requires_grad=True),),
                (oneflow.randn(6, 16, device=gpu, requires_grad=True),),
            )
            parts = oneflow.cuda.make_graphed_callables(parts, samples)
        losses, grads = [], []
        for k in range(3):
            x.grad = None
            out = parts[1](parts[0](x * (k + 1)).tanh())
            loss = out.square().sum()
            loss.backward()
            losses.append(loss.item())
            grads.append(x.grad.tolist())
            for p in [p for part in parts for p in part.parameters()]:
                p.data -= 0.01 * p.grad
                p.grad = None
        results.append((losses, grads))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-4)
    assert oneflow.allclose(oneflow.tensor(results[0][1]), oneflow.tensor(results[1][1]), rtol=1e-3, atol=1e-4)
    parts[1].eval()
    assert parts[1](oneflow.ones(2, 16, device=gpu)).shape == (2, 4)
    double = oneflow.cuda.make_graphed_callables(lambda t: t * 2, (oneflow.ones(3, device=gpu),))
    assert double(oneflow.arange(3.0, device=gpu)).tolist() == [0, 2, 4]
    with pytest.raises(RuntimeError, match=r"captured for a oneflow.float32 tensor \(3,\) on cuda:0"):
        double(oneflow.ones(4, device=gpu))
    with pytest.raises(TypeError, match="takes 1 tensors, got 2"):
        double(oneflow.ones(3, device=gpu), oneflow.ones(3, device=gpu))


def test_attention_dropout_is_one_in_forward_and_backward(gpu):
    q = oneflow.randn(1, 2, 16, 16, device=gpu, requires_grad=True)

    def attend(t):
        return F.scaled_dot_product_attention(t, t, t, dropout_p=0.5)

    attend(q).square().sum().backward()
    graphed = oneflow.cuda.make_graphed_callables(attend, (q.detach().requires_grad_(),))
    for seed in (3, 4):
        oneflow.manual_seed(seed)
        expected = oneflow.autograd.grad(attend(q).square().sum(), q)[0]
        oneflow.manual_seed(seed)
        out = graphed(q)
        # Another draw between the two.
        oneflow.rand(3, device=gpu)
        actual = oneflow.autograd.grad(out.square().sum(), q)[0]
        assert oneflow.allclose(actual, expected, rtol=1e-4, atol=1e-5), seed


def test_compiled_programs_can_be_captured(gpu):
    class Net(nn.Graph):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8).to(gpu)

        def build(self, x):
            return self.layer(x).relu() * 2

    net, x = Net(), oneflow.randn(4, 8, device=gpu)
    net(x)
    g = oneflow.cuda.CUDAGraph()
    with oneflow.cuda.graph(g):
        y = net(x)
    x.copy_(oneflow.randn(4, 8, device=gpu))
    g.replay()
    assert oneflow.allclose(y, net.layer(x).relu() * 2, rtol=1e-5, atol=1e-6)
