"""A GPU's memory, streams, copies and errors."""

import oneflow
import pytest

pytestmark = pytest.mark.gpu


def test_there_is_one(gpu):
    assert oneflow.cuda.is_available() and oneflow.cuda.unavailable_reason() is None
    properties = oneflow.cuda.get_device_properties(gpu)
    assert properties.name == oneflow.cuda.get_device_name() and properties.total_memory > 0
    assert (properties.major, properties.minor) == oneflow.cuda.get_device_capability()
    assert 0 <= oneflow.cuda.current_device() < oneflow.cuda.device_count()


def test_memory_is_counted(gpu):
    before = oneflow.cuda.memory_allocated()
    oneflow.cuda.reset_peak_memory_stats()
    x = oneflow.ones(1 << 18, device=gpu)
    assert oneflow.cuda.memory_allocated() - before >= x.nbytes
    assert oneflow.cuda.memory_reserved() >= oneflow.cuda.memory_allocated()
    del x
    assert oneflow.cuda.memory_allocated() == before
    assert oneflow.cuda.max_memory_allocated() - before >= 1 << 20
    oneflow.cuda.empty_cache()


def test_too_much_memory_is_an_error(gpu):
    with pytest.raises(oneflow.cuda.OutOfMemoryError):
        oneflow.empty(1 << 50, device=gpu)
    assert oneflow.ones(3, device=gpu).sum().item() == 3


def test_copies_in_both_directions(gpu):
    x = oneflow.arange(12.0).reshape(3, 4)
    turned = x.t()
    there = turned.to(gpu)
    assert there.device == gpu and (there.cpu() == turned).all()
    there[1:, ::2].copy_(oneflow.full((3,), 5.0)[:2])
    assert (there.cpu()[1:, ::2] == 5).all() and (there.cpu()[0] == turned[0]).all()
    x.copy_(there.t())
    assert (x == there.cpu().t()).all()
    assert there.tolist() == there.cpu().tolist() and there[0, 1].item() == x[1, 0].item()
    with pytest.raises(TypeError, match="cpu"):
        there.numpy()


def test_numbers_of_the_host_go_along(gpu):
    x = oneflow.ones(2, device=gpu)
    assert (x * oneflow.tensor(3.0)).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="same device"):
        x + oneflow.ones(2)


def test_wrong_index_is_an_error_at_the_next_synchronisation(gpu):
    table = oneflow.ones(4, 2, device=gpu)
    with pytest.raises((IndexError, RuntimeError), match="index"):
        oneflow.nn.functional.embedding(oneflow.tensor([9], device=gpu), table)
        oneflow.cuda.synchronize()
    assert table.sum().item() == 8


def test_streams_are_ordered_by_events(gpu):
    side = oneflow.cuda.Stream()
    own = oneflow.cuda.current_stream()
    assert own == oneflow.cuda.default_stream() and side != own
    x = oneflow.ones(1 << 16, device=gpu)
    side.wait_stream(own)
    with oneflow.cuda.stream(side):
        assert oneflow.cuda.current_stream() == side
        y = x * 2
        done = side.record_event()
    assert oneflow.cuda.current_stream() == own
    own.wait_event(done)
    assert (y + 1).sum().item() == 3 << 16
    done.synchronize()
    side.synchronize()
    assert done.query() and side.query()


def test_events_with_times(gpu):
    start, end = oneflow.cuda.Event(enable_timing=True), oneflow.cuda.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    x = oneflow.ones(1 << 16, device=gpu)
    for _ in range(10):
        x = x * 2
    end.record()
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 60_000
    assert end.elapsed_time(start) == pytest.approx(-start.elapsed_time(end), abs=0.1)
    plain = oneflow.cuda.Event()
    plain.record()
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(plain)


def test_the_driver_knows_its_memory(gpu):
    oneflow.cuda.empty_cache()
    free, total = oneflow.cuda.mem_get_info(gpu)
    x = oneflow.empty(64 << 20, dtype=oneflow.uint8, device=gpu)
    assert total == oneflow.cuda.get_device_properties(gpu).total_memory
    assert free - oneflow.cuda.mem_get_info()[0] >= x.nbytes
    with pytest.raises(RuntimeError, match="ordinal"):
        oneflow.cuda.mem_get_info(oneflow.cuda.device_count())


def test_the_current_device(gpu):
    with oneflow.cuda.device(0):
        assert oneflow.zeros(1, device="cuda").device == gpu
    with pytest.raises(RuntimeError, match="ordinal"):
        oneflow.cuda.set_device(oneflow.cuda.device_count())
    with pytest.raises(RuntimeError, match="ordinal"):
        oneflow.zeros(1, device=f"cuda:{oneflow.cuda.device_count()}")
