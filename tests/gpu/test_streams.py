"""Work on several streams: what must wait does. The emulated device runs streams late and in the order of a seed."""

import oneflow
import pytest

pytestmark = pytest.mark.gpu
N = 1 << 10


def _times(gpu):
    """More tries on the emulated device, which orders streams differently every time."""
    return 12 if oneflow.cuda.get_device_name(gpu) == "emulated device" else 3


def test_an_order_that_nobody_asked_for_shows(gpu):
    if oneflow.cuda.get_device_name(gpu) != "emulated device":
        pytest.skip("a GPU may do the right thing by luck")
    side, n_wrong = oneflow.cuda.Stream(), 0
    for k in range(20):
        x = oneflow.full((N,), float(k), device=gpu)
        with oneflow.cuda.stream(side):
            y = x + 1
        side.synchronize()
        n_wrong += (y.cpu() != k + 1).any().item()
        oneflow.cuda.synchronize()
    assert n_wrong > 0


def test_backward_runs_on_the_streams_of_its_forward(gpu):
    side = oneflow.cuda.Stream()
    for k in range(_times(gpu)):
        x = oneflow.full((N,), k / 8, device=gpu, requires_grad=True)
        side.wait_stream(oneflow.cuda.current_stream())
        with oneflow.cuda.stream(side):
            # The backward reads a result that only this stream knows to be there.
            loss = (x * 2).exp().sum()
        loss.backward()
        assert oneflow.cuda.current_stream() == oneflow.cuda.default_stream()
        expected = 2 * oneflow.full((N,), k / 4).exp()
        assert oneflow.allclose(x.grad.cpu(), expected, rtol=1e-5), k


def test_backward_comes_back_to_the_caller_s_stream(gpu):
    side = oneflow.cuda.Stream()
    for k in range(_times(gpu)):
        with oneflow.cuda.stream(side):
            x = oneflow.full((N,), float(k), device=gpu, requires_grad=True)
        own = oneflow.cuda.current_stream()
        own.wait_stream(side)
        y = x * x
        with oneflow.cuda.stream(side):
            side.wait_stream(own)
            z = y * 3
            z.sum().backward()
            assert oneflow.cuda.current_stream() == side
            assert (x.grad.cpu() == 6 * k).all(), k
        y = z = None
        own.wait_stream(side)


def test_an_error_in_backward_leaves_the_stream_as_it_was(gpu):
    class Fails(oneflow.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("planted")

    side = oneflow.cuda.Stream()
    x = oneflow.ones(N, device=gpu, requires_grad=True)
    side.wait_stream(oneflow.cuda.current_stream())
    with oneflow.cuda.stream(side):
        loss = Fails.apply(x).sum()
    with pytest.raises(ValueError, match="planted"):
        loss.backward()
    assert oneflow.cuda.current_stream() == oneflow.cuda.default_stream()


def test_recorded_memory_waits_for_its_streams(gpu):
    side = oneflow.cuda.Stream()
    for k in range(_times(gpu)):
        x = oneflow.full((N,), float(k), device=gpu)
        side.wait_stream(oneflow.cuda.current_stream())
        with oneflow.cuda.stream(side):
            y = x + 1
        x.record_stream(side)
        del x
        # Whatever gets the memory next writes to it.
        others = [oneflow.full((N,), -1.0, device=gpu) for _ in range(4)]
        oneflow.cuda.current_stream().synchronize()
        side.synchronize()
        assert (y.cpu() == k + 1).all(), k
        del others
    with pytest.raises(TypeError, match=r"record_stream\(\): expected a oneflow.cuda.Stream, got int"):
        y.record_stream(3)
    if oneflow.cuda.device_count() > 1:
        with pytest.raises(RuntimeError, match=r"on cuda:0, the stream is one of cuda:1"):
            y.record_stream(oneflow.cuda.Stream(1))


def test_compiled_runs_follow_the_caller_s_stream(gpu):
    side = oneflow.cuda.Stream()

    @oneflow.compile
    def f(x):
        return (x * 2).exp() + x

    f(oneflow.ones(N, device=gpu))
    for k in range(_times(gpu)):
        with oneflow.cuda.stream(side):
            x = oneflow.full((N,), k / 8, device=gpu)
            y = f(x)
            z = y * 2
        side.synchronize()
        expected = 2 * ((oneflow.full((N,), k / 4)).exp() + k / 8)
        assert oneflow.allclose(z.cpu(), expected, rtol=1e-5), k


def test_exported_tensors_are_there_for_the_consumer_s_stream(gpu):
    side = oneflow.cuda.Stream()
    for k in range(_times(gpu)):
        x = oneflow.full((N,), float(k), device=gpu) + 1
        capsule = (x * 3).__dlpack__(stream=side.cuda_stream)
        with oneflow.cuda.stream(side):
            y = oneflow.from_dlpack(capsule) * 2
        side.synchronize()
        assert (y.cpu() == 6 * k + 6).all(), k
        oneflow.cuda.synchronize()
    x.__dlpack__(stream=-1), x.__dlpack__(stream=1), x.__dlpack__()
    with pytest.raises(BufferError, match="per-thread"):
        x.__dlpack__(stream=2)
    with pytest.raises(TypeError, match="stream must be"):
        x.__dlpack__(stream=1.5)
    with pytest.raises(ValueError, match="unsupported stream on CUDA: 0"):
        x.__dlpack__(stream=0)


def test_producers_learn_the_stream_that_reads(gpu):
    class Producer:
        """Another library's tensor, whose work is on its own stream."""

        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, *, stream, max_version=None):
            self.stream = stream
            return x.__dlpack__(stream=stream, max_version=max_version)

    side, producer = oneflow.cuda.Stream(), Producer()
    x = oneflow.ones(N, device=gpu)
    assert (oneflow.from_dlpack(producer) == 1).all().item()
    assert producer.stream == oneflow.cuda.default_stream().cuda_stream
    with oneflow.cuda.stream(side):
        oneflow.from_dlpack(producer)
    assert producer.stream == side.cuda_stream


def test_copies_between_gpus_wait_for_both(gpu):
    if oneflow.cuda.device_count() < 2:
        pytest.skip("one GPU")
    for k in range(_times(gpu)):
        x = oneflow.full((N,), float(k), device=gpu) + 1
        y = x.to("cuda:1")
        x.fill_(-1)
        z = (y * 2).to("cuda:0") + 1
        assert (z.cpu() == 2 * k + 3).all() and (y.cpu() == k + 1).all(), k


def test_events_say_when_their_work_is_done(gpu):
    x = oneflow.zeros(N, device=gpu)
    event = oneflow.cuda.Event()
    for _ in range(4):
        x.add_(1)
    event.record()
    while not event.query():
        pass
    assert oneflow.cuda.current_stream().query() and (x.cpu() == 4).all()


def test_a_stream_without_work_says_so_at_once(gpu):
    """Whatever other streams have to do, and however often it is asked."""
    side = oneflow.cuda.Stream()
    x, y = oneflow.zeros(N, device=gpu), oneflow.zeros(N, device=gpu)
    for _ in range(4 * _times(gpu)):
        with oneflow.cuda.stream(side):
            y.add_(1)
        x.add_(1)
        oneflow.cuda.current_stream().synchronize()
        assert oneflow.cuda.current_stream().query()
        side.synchronize()
        assert side.query()
