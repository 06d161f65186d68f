"""A GPU's memory, streams, copies and errors."""

import os
import subprocess
import sys

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


def _alone(program, tmp_path):
    """Run a program in a process of its own; return what it prints."""
    file = tmp_path / "program.py"
    file.write_text(program)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


FORKS = """
import os
import oneflow
x = oneflow.ones(4, device="cuda")
assert x.sum().item() == 4
child = os.fork()
if child == 0:
    for use in (lambda: (x + 1).sum().item(), lambda: oneflow.zeros(2, device="cuda")):
        try:
            use()
            os._exit(1)
        except RuntimeError as error:
            if "forked subprocess" not in str(error):
                os._exit(2)
    os._exit(3 if oneflow.ones(2).sum().item() != 2 else 0)
print(os.waitpid(child, 0)[1])
print((x + 1).tolist())
"""


def test_a_forked_process_says_that_it_has_no_gpu(gpu, tmp_path):
    assert _alone(FORKS, tmp_path) == ["0", "[2.0, 2.0, 2.0, 2.0]"]


def test_a_process_ends_with_work_in_flight(gpu, tmp_path):
    program = """
import oneflow
x = oneflow.randn(64, 64, device="cuda")
for _ in range(50):
    x = x @ x * 0.01
y = x.to("cpu", non_blocking=True)
print("end")
"""
    assert _alone(program, tmp_path) == ["end"]


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: a + b,
        lambda a, b: a @ b.t(),
        lambda a, b: a.add_(b),
        lambda a, b: oneflow.cat([a, b]),
        lambda a, b: oneflow.where(a > 0, b, a),
        lambda a, b: oneflow.addmm(a, a, b),
        lambda a, b: a.index_select(0, b[0].long()),
        lambda a, b: oneflow.nn.functional.linear(a, b),
        lambda a, b: oneflow.nn.functional.layer_norm(a, (3,), b[0], b[1]),
        lambda a, b: oneflow.nn.functional.conv1d(a[None], b[None]),
        lambda a, b: oneflow.nn.functional.cross_entropy(a, b[0].long()),
        lambda a, b: oneflow.nn.functional.embedding(b.long(), a),
        lambda a, b: oneflow.nn.functional.scaled_dot_product_attention(a[None], b[None], a[None]),
    ],
)
def test_operands_on_several_devices_are_named(gpu, call):
    a, b = oneflow.ones(3, 3, device=gpu), oneflow.ones(3, 3)
    with pytest.raises(RuntimeError, match=r"\w+\(\): .*same device.*(cuda:0 and cpu|cpu and cuda:0)"):
        call(a, b)
