"""Pinned host memory and what the caching allocator counts. The emulated device copies from pinned memory late."""

import oneflow
import pytest

pytestmark = pytest.mark.gpu
N = 1 << 12


def _is_emulated(gpu):
    return oneflow.cuda.get_device_name(gpu) == "emulated device"


def test_tensors_in_pinned_memory(gpu):
    x = oneflow.arange(6.0).reshape(2, 3)
    y = x.pin_memory()
    assert not x.is_pinned() and y.is_pinned() and y.pin_memory() is y and (x == y).all()
    assert y[1].is_pinned() and y.untyped_storage().is_pinned() and not y.clone().is_pinned()
    assert x.T.pin_memory().tolist() == x.T.tolist()
    for made in (
        oneflow.empty(3, pin_memory=True),
        oneflow.zeros(2, 2, pin_memory=True),
        oneflow.tensor([1, 2], pin_memory=True),
        oneflow.empty_like(x, pin_memory=True),
        x.new_zeros(3, pin_memory=True),
        oneflow.empty(0, pin_memory=True).resize_(1000),
        oneflow.hann_window(4, pin_memory=True),
        oneflow.ones(2, device=gpu).to("cpu", non_blocking=True),
    ):
        oneflow.cuda.synchronize()
        assert made.is_pinned(), made
    assert not oneflow.empty(3, pin_memory=False).is_pinned()
    assert made.is_pinned("cuda") and made.is_pinned(device=oneflow.device("cuda:0")) and not made.is_pinned("cpu")
    with pytest.raises(TypeError, match="is_pinned"):
        made.is_pinned(1.5)
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        oneflow.ones(2, device=gpu).pin_memory()
    with pytest.raises(RuntimeError, match=r"zeros\(\): only dense CPU tensors can be pinned, not one on cuda:0"):
        oneflow.zeros(2, device=gpu, pin_memory=True)


def test_copies_from_pinned_memory_return_at_once(gpu):
    early = 0
    for k in range(20):
        x = oneflow.full((N,), float(k)).pin_memory()
        y = x.to(gpu, non_blocking=True)
        # Nobody may write now: what is seen says whether the copy was done already.
        x.fill_(-1)
        early += (y.cpu() != k).any().item()
    assert early > 0 or not _is_emulated(gpu)
    for k in range(20):
        x = oneflow.full((N,), float(k)).pin_memory()
        y = x.cuda(non_blocking=True)
        z = oneflow.empty(N, device=gpu).copy_(x, non_blocking=True)
        # The memory goes back to the pool, and is written again once the copies are done.
        del x
        again = oneflow.full((N,), -1.0).pin_memory()
        assert again.is_pinned() and (y.cpu() == k).all() and (z.cpu() == k).all(), k


def test_copies_that_are_waited_for(gpu):
    for k in range(12):
        pageable, pinned = oneflow.full((N,), float(k)), oneflow.full((N,), float(k)).pin_memory()
        made = [pageable.to(gpu, non_blocking=True), pinned.to(gpu), pinned.to(gpu, oneflow.float64)]
        pageable.fill_(-1), pinned.fill_(-1)
        assert all((y.cpu() == k).all() for y in made), k
        # A cast on the host reads what came, at once.
        assert (made[0].to("cpu", oneflow.float64, non_blocking=True) == k).all(), k


def test_copies_to_pinned_memory_are_there_after_a_wait(gpu):
    early = 0
    for k in range(20):
        x = oneflow.full((N,), float(k), device=gpu)
        y = x.to("cpu", non_blocking=True)
        early += (y != k).any().item()
        oneflow.cuda.current_stream().synchronize()
        assert (y == k).all(), k
    assert early > 0 or not _is_emulated(gpu)


def test_batches_come_in_pinned_memory(gpu):
    data = oneflow.utils.data.TensorDataset(oneflow.arange(8.0), oneflow.arange(8))
    for workers in (0, 1):
        loader = oneflow.utils.data.DataLoader(data, batch_size=4, pin_memory=True, num_workers=workers)
        batches = list(loader)
        assert [x.tolist() for x, _ in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert all(x.is_pinned() and y.is_pinned() for x, y in batches)
    pin = oneflow.utils.data._utils.pin_memory.pin_memory
    packed = pin({"a": (oneflow.ones(1), "text"), "b": [oneflow.ones(2)]})
    assert packed["a"][0].is_pinned() and packed["a"][1] == "text" and packed["b"][0].is_pinned()


def test_saved_tensors_in_pinned_memory(gpu):
    x = oneflow.ones(N, device=gpu, requires_grad=True)
    with oneflow.autograd.graph.save_on_cpu(pin_memory=True):
        y = (x * 2).exp()
    y.sum().backward()
    assert oneflow.allclose(x.grad.cpu(), 2 * oneflow.full((N,), 2.0).exp())


def test_what_the_allocator_counts(gpu):
    oneflow.cuda.synchronize()
    oneflow.cuda.empty_cache()
    oneflow.cuda.reset_peak_memory_stats()
    oneflow.cuda.reset_accumulated_memory_stats()
    before = oneflow.cuda.memory_stats()
    small, large = oneflow.empty(100, device=gpu), oneflow.empty(3 << 20, dtype=oneflow.uint8, device=gpu)
    after = oneflow.cuda.memory_stats()

    def grown(key):
        return after[key] - before[key]

    assert grown("allocation.all.current") == grown("allocation.all.allocated") == 2
    assert grown("allocated_bytes.small_pool.current") == 512 and grown("requested_bytes.small_pool.current") == 400
    assert grown("allocated_bytes.large_pool.current") == 3 << 20
    assert after["allocated_bytes.all.current"] == oneflow.cuda.memory_allocated()
    assert after["reserved_bytes.all.current"] == oneflow.cuda.memory_reserved()
    assert oneflow.cuda.memory_stats_as_nested_dict()["active"]["all"]["current"] == after["active.all.current"]
    del small, large
    now = oneflow.cuda.memory_stats()
    assert now["allocation.all.freed"] - before["allocation.all.freed"] == 2
    assert now["allocated_bytes.all.current"] == before["allocated_bytes.all.current"]
    assert oneflow.cuda.max_memory_allocated() == after["allocated_bytes.all.current"]
    assert oneflow.cuda.max_memory_reserved() >= oneflow.cuda.memory_reserved()
    segments = oneflow.cuda.memory_snapshot()
    assert sum(s["total_size"] for s in segments if s["device"] == 0) == oneflow.cuda.memory_reserved(0)
    for s in segments:
        assert s["total_size"] == sum(b["size"] for b in s["blocks"])
        states = [b["size"] for b in s["blocks"] if b["state"] == "active_allocated"]
        assert s["allocated_size"] == sum(states) and s["segment_type"] in ("small", "large")
    text = oneflow.cuda.memory_summary()
    assert (
        "| Allocated memory" in text and "device ID 0" in text and len({len(line) for line in text.splitlines()}) == 1
    )
    assert "small pool" not in oneflow.cuda.memory_summary(abbreviated=True)
    held = oneflow.cuda.memory_reserved()
    oneflow.cuda.empty_cache()
    free, total = oneflow.cuda.mem_get_info()
    assert oneflow.cuda.memory_reserved() < held and 0 < free <= total
    assert set(oneflow.cuda.host_memory_stats()) == {"reserved_bytes.current", "allocated_bytes.current"}


def test_keys_are_those_of_pytorch(gpu):
    keys = oneflow.cuda.memory_stats()
    kinds = "allocation segment active inactive_split allocated_bytes reserved_bytes active_bytes".split()
    kinds += "inactive_split_bytes requested_bytes".split()
    expected = {
        f"{kind}.{pool}.{count}"
        for kind in kinds
        for pool in ("all", "small_pool", "large_pool")
        for count in ("current", "peak", "allocated", "freed")
    }
    assert expected <= set(keys)
    assert {"num_alloc_retries", "num_ooms", "max_split_size", "oversize_segments.current"} <= set(keys)


def test_out_of_memory_says_sizes_and_the_process_goes_on(gpu):
    total = oneflow.cuda.get_device_properties(gpu).total_memory
    n_refused = oneflow.cuda.memory_stats()["num_ooms"]
    with pytest.raises(
        oneflow.cuda.OutOfMemoryError, match=r"Tried to allocate .* GiB on cuda:0; .* in total .* are free"
    ) as e:
        oneflow.empty(2 * total, dtype=oneflow.uint8, device=gpu)
    assert f"{2 * total / 2**30:.2f} GiB" in str(e.value)
    assert oneflow.cuda.memory_stats()["num_ooms"] == n_refused + 1
    assert (oneflow.ones(4, device=gpu).sum().item()) == 4
    oneflow.cuda.empty_cache()
    oneflow.cuda.set_per_process_memory_fraction(0.25)
    try:
        assert oneflow.cuda.get_per_process_memory_fraction() == 0.25
        with pytest.raises(oneflow.cuda.OutOfMemoryError, match="set_per_process_memory_fraction"):
            oneflow.empty(total // 2, dtype=oneflow.uint8, device=gpu)
        assert (oneflow.ones(4, device=gpu).sum().item()) == 4
    finally:
        oneflow.cuda.set_per_process_memory_fraction(1.0)
    for wrong, kind in ((2.0, ValueError), (-0.1, ValueError), (1, TypeError)):
        with pytest.raises(kind, match="fraction"):
            oneflow.cuda.set_per_process_memory_fraction(wrong)
