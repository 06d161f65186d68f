"""Branches and loops as functions, collation by class, ranges of NVTX, beside PyTorch where it has an answer."""

from __future__ import annotations

import oneflow
import pytest
import torch


@pytest.mark.parametrize("value", [3.0, -3.0])
def test_cond_takes_one_branch_and_its_gradient(value):
    results = []
    for t in (oneflow, torch):
        x = t.tensor([value, 2.0], requires_grad=True)
        pred = x[0] > 0
        # PyTorch's own function compiles; what it runs is the branch.
        branches = lambda x: x * x, lambda x: -x
        y = t.cond(pred, *branches, (x,)) if t is oneflow else branches[0 if pred else 1](x)
        y.sum().backward()
        results.append((y.tolist(), x.grad.tolist()))
    assert results[0] == results[1]


def test_cond_and_while_loop_refuse_other_arguments():
    x = oneflow.ones(2)
    with pytest.raises(RuntimeError, match="one element, got shape"):
        oneflow.cond(x, abs, abs, (x,))
    with pytest.raises(RuntimeError, match="callable"):
        oneflow.cond(True, 1, abs, (x,))
    with pytest.raises(RuntimeError, match="operands"):
        oneflow.cond(True, abs, abs, x)
    with pytest.raises(RuntimeError, match="body_fn returned"):
        oneflow.while_loop(lambda i: i < 3, lambda i: (i, i), (oneflow.tensor(0),))


def test_while_loop_ends_and_has_gradients():
    x = oneflow.tensor(2.0, requires_grad=True)
    n, y = oneflow.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y * x), (oneflow.tensor(0), x))
    y.backward()
    assert (n.item(), y.item(), x.grad.item()) == (3, 16.0, 32.0)


def test_a_graph_takes_no_branch_on_a_value():
    class Branching(oneflow.nn.Graph):
        def build(self, x):
            return oneflow.cond(x.sum() > 0, lambda x: x, lambda x: -x, (x,))

    with pytest.raises(RuntimeError):
        Branching()(oneflow.ones(2))


def test_a_package_says_how_its_class_is_collated():
    for t in (oneflow, torch):
        from importlib import import_module

        collate = import_module(f"{t.__name__}.utils.data._utils.collate")

        class Point:
            def __init__(self, x):
                self.x = x

        collate.default_collate_fn_map[Point] = lambda batch, *, collate_fn_map=None: [p.x for p in batch]
        try:
            assert t.utils.data.default_collate([{"p": Point(1)}, {"p": Point(2)}]) == {"p": [1, 2]}
        finally:
            del collate.default_collate_fn_map[Point]
        with pytest.raises(TypeError):
            t.utils.data.default_collate([Point(1)])


@pytest.mark.parametrize("device", ["mps", "xpu", "hpu", "xla"])
def test_autocast_for_a_device_without_a_provider_changes_nothing(device):
    dtypes = []
    for t in (oneflow, torch):
        with t.autocast(device) as region, t.autocast("cpu", dtype=t.bfloat16):
            inner = (t.ones(2, 2) @ t.ones(2, 2)).dtype
        with t.autocast(device):
            outer = (t.ones(2, 2) @ t.ones(2, 2)).dtype
        dtypes.append([str(d).partition(".")[2] for d in (region.fast_dtype, inner, outer)])
        assert t.amp.is_autocast_available(device)
    assert dtypes[0] == dtypes[1]
    assert oneflow.is_autocast_enabled(device) is False


def test_classes_see_the_operands_of_einsum_one_by_one_and_modes_as_given():
    for t in (oneflow, torch):
        seen = []

        class Mode(t.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None, seen=seen):
                seen.append((func.__name__, len(args)))
                return func(*args, **(kwargs or {}))

        class Own(t.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None, seen=seen):
                seen.append((func.__name__, len(args)))
                return super().__torch_function__(func, types, args, kwargs or {})

        with Mode():
            t.einsum("ij,jk->ik", [t.ones(2, 2), t.ones(2, 2)])
        own = t.ones(2, 2).as_subclass(Own)
        t.einsum("ij,jk->ik", [own, own])
        assert [n for name, n in seen if name == "einsum"] == [2, 3]


def test_ranges_of_nvtx_are_regions_of_the_profiler():
    nvtx = oneflow.cuda.nvtx
    with oneflow.profiler.profile() as prof:
        nvtx.range_push("outer")
        with nvtx.range("step {}", 3):
            handle = nvtx.range_start("copy")
        nvtx.range_end(handle)
        assert (nvtx.range_pop(), nvtx.range_pop()) == (0, -1)
    assert {"outer", "step 3", "copy"} <= {event.key for event in prof.key_averages()}
    with pytest.raises(RuntimeError, match="no range"):
        nvtx.range_end(handle)


@pytest.mark.parametrize("name", ["eig", "lstsq", "matrix_rank", "solve", "symeig"])
def test_removed_functions_say_what_takes_their_place(name):
    for t in (oneflow, torch):
        with pytest.raises(RuntimeError, match="is now removed"):
            getattr(t, name)(t.eye(2), *([t.eye(2)] if name in ("lstsq", "solve") else []))


def test_older_names_of_sparse_tensors():
    for t in (oneflow, torch):
        with pytest.warns(UserWarning, match="deprecated"):
            x = t.sparse.FloatTensor(t.tensor([[0, 1], [1, 0]]), t.tensor([1.0, 2.0]), t.Size([2, 2]))
        assert x.to_dense().tolist() == [[0.0, 1.0], [2.0, 0.0]]
        assert isinstance(x, t.sparse.FloatTensor) and not isinstance(x, t.sparse.DoubleTensor)
        assert not isinstance(x.to_dense(), t.sparse.FloatTensor)


@pytest.mark.parametrize("seed", [5, 2**40 + 7, 123456789012345678])
def test_workers_seed_numpy_as_pytorchs_do(seed):
    from oneflow.utils.data._utils.worker import _generate_state as ours
    from torch.utils.data._utils.worker import _generate_state as theirs

    assert [list(ours(seed, i)) for i in range(3)] == [list(theirs(seed, i)) for i in range(3)]


def test_states_of_gpus_are_found_in_a_module_of_their_own():
    names = [name for name in dir(torch.cuda.random) if "seed" in name or "rng" in name]
    assert all(callable(getattr(oneflow.cuda.random, name)) for name in names if not name.startswith("_"))
