"""Names that few programs use do what PyTorch's do: grouped products, blocked masks, wrappers, swaps, objects."""

import importlib
import subprocess
import sys
from typing import Any

import oneflow
import pytest
import torch
from oneflow.nn.attention import flex_attention as ours_flex
from oneflow.testing import run_ranks
from torch.nn.attention import flex_attention as torch_flex
from torch_oracle import close


def pair_of_tensors(*shape):
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))
    return oneflow.tensor(x.tolist()), x


@pytest.mark.parametrize(
    "a, b, ends",
    [
        ((8, 16), (2, 16, 24), [3, 8]),
        ((2, 8, 16), (2, 16, 24), None),
        ((8, 16), (16, 24), [8, 16]),
        ((2, 8, 16), (16, 24), [8, 24]),
        ((8, 16), (2, 16, 24), [0, 8]),
    ],
)
def test_grouped_products(a, b, ends):
    (x, tx), (w, tw) = pair_of_tensors(*a), pair_of_tensors(*b)
    offs = None if ends is None else oneflow.tensor(ends, dtype=oneflow.int32)
    toffs = None if ends is None else torch.tensor(ends, dtype=torch.int32)
    expected = torch._grouped_mm(tx, tw, offs=toffs)
    close(oneflow._grouped_mm(x, w, offs=offs), expected, 1e-4)
    close(oneflow.ops.aten._grouped_mm(x, w, offs=offs), expected, 1e-4)


@pytest.mark.parametrize("offs", [None, [3, 8]])
def test_grouped_products_say_what_is_wrong(offs):
    for fw in (oneflow, torch):
        given = None if offs is None else fw.tensor(offs)
        with pytest.raises(RuntimeError, match=r"Have to provide offsets|Offsets have to be int32"):
            fw._grouped_mm(fw.ones(8, 16), fw.ones(2, 16, 24), offs=given)


def test_functions_of_aten():
    x, tx = pair_of_tensors(2, 3, 6, 6)
    y = oneflow.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)
    ty = torch.nn.functional.max_pool2d(tx, 3, 2, 1, return_indices=True)
    g, tg = pair_of_tensors(*ty[0].shape)
    args = ([3, 3], [2, 2], [1, 1], [1, 1], False)
    close(
        oneflow.ops.aten.max_pool2d_with_indices_backward(g, x, *args, y[1]),
        torch.ops.aten.max_pool2d_with_indices_backward(tg, tx, *args, ty[1]),
    )
    for fw, t in ((oneflow, x), (torch, tx)):
        aten = fw.ops.aten
        assert aten.sym_size(t, 1) == 3 and aten._local_scalar_dense(t[0, 0, 0, 0]) == pytest.approx(
            float(tx[0, 0, 0, 0])
        )
        assert aten._to_copy(t, dtype=fw.float64).dtype == fw.float64
        copied = aten._to_copy(t)
        assert copied.data_ptr() != t.data_ptr() and list(aten._unsafe_view(t, [6, 36]).shape) == [6, 36]
        fw._assert_async(fw.tensor(True))
        with pytest.raises(RuntimeError, match="no"):
            fw._assert_async(fw.tensor(False), "no")
        with pytest.raises(RuntimeError, match="wrong"):
            aten._assert_scalar(False, "wrong")
    assert oneflow.ones(2, dtype=oneflow.float64).dequantize().dtype == oneflow.float32


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("lengths", [None, (5, 7)])
def test_masks_of_blocks(full, lengths):
    counts, places = [[[1, 2, 0]]], [[[[1, 0, 2, 3], [3, 0, 1, 2], [0, 1, 2, 3]]]]
    more = ([[[1, 0, 1]]], [[[[0, 1, 2, 3], [0, 1, 2, 3], [2, 1, 0, 3]]]]) if full else ()

    def made(fw, flex):
        tensors = [fw.tensor(v, dtype=fw.int32) for v in (counts, places, *more)]
        return flex.BlockMask.from_kv_blocks(
            *tensors, BLOCK_SIZE=2, mask_mod=lambda b, h, q, kv: q >= kv - 4, seq_lengths=lengths
        )

    ours, theirs = made(oneflow, ours_flex), made(torch, torch_flex)
    rows, columns = lengths or (6, 8)
    # PyTorch's own path without a compiler calls the function for all blocks; its kernels, and we, for these alone.
    q, kv = torch.arange(rows)[:, None], torch.arange(columns)
    partial = torch.zeros(3, 4, dtype=torch.bool)
    partial[0, 1] = partial[1, 3] = partial[1, 0] = True
    whole = torch.zeros(3, 4, dtype=torch.bool)
    if full:
        whole[0, 0] = whole[2, 2] = True
    expected = (partial[q // 2, kv // 2] & (q >= kv - 4)) | whole[q // 2, kv // 2]
    assert ours.mask[0, 0].tolist() == expected.tolist()
    assert torch.equal(theirs.to_dense()[0, 0] > 0, partial | whole)
    assert tuple(ours.shape) == tuple(theirs.shape) and ours.BLOCK_SIZE == theirs.BLOCK_SIZE


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_further_results_of_attention():
    (q, tq), (k, tk) = pair_of_tensors(1, 2, 5, 4), pair_of_tensors(1, 2, 6, 4)
    out, aux = ours_flex.flex_attention(q, k, k, return_aux=ours_flex.AuxRequest(lse=True, max_scores=True))
    tout, taux = torch_flex.flex_attention(tq, tk, tk, return_aux=torch_flex.AuxRequest(lse=True))
    close(out, tout)
    close(aux.lse, taux.lse)
    close(aux.max_scores, (tq @ tk.mT / 2).amax(-1))
    assert ours_flex.flex_attention(q, k, k, return_aux=ours_flex.AuxRequest())[1] == (None, None)


def test_swapped_tensors():
    def outcome(fw):
        a = fw.nn.Parameter(fw.zeros(2))
        a.mark, a.grad = "a", fw.ones(2)
        b = fw.nn.Parameter(fw.ones(3, dtype=fw.float64), requires_grad=False)
        c = fw.ones(1)
        fw.utils.swap_tensors(a, b)
        swapped = a.tolist(), a.requires_grad, a.grad, b.tolist(), b.requires_grad, b.grad.tolist(), b.mark
        fw.utils.swap_tensors(b, c)
        return *swapped, type(c).__name__, type(b).__name__, c.mark, b.tolist(), hasattr(b, "mark"), hasattr(a, "mark")

    assert outcome(oneflow) == outcome(torch)
    x = oneflow.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Cannot swap"):
        oneflow.utils.swap_tensors(x * 2, x)


def test_checkpointed_modules():
    from oneflow.distributed.algorithms._checkpoint import checkpoint_wrapper as ours_wrapper
    from torch.distributed.algorithms._checkpoint import checkpoint_wrapper as torch_wrapper

    def outcome(fw, wrapper, impl):
        model = fw.nn.Sequential(
            fw.nn.Linear(3, 4), fw.nn.Sequential(fw.nn.Linear(4, 4), fw.nn.Tanh()), fw.nn.Linear(4, 1)
        )
        with fw.no_grad():
            for i, p in enumerate(model.parameters()):
                p.copy_((fw.arange(p.numel()).reshape(p.shape) * 0.1 - 0.3 * i).to(fw.float32))
        plain = list(model.state_dict())
        wrapper.apply_activation_checkpointing(
            model,
            checkpoint_wrapper_fn=lambda m: wrapper.checkpoint_wrapper(m, checkpoint_impl=wrapper.CheckpointImpl[impl]),
            check_fn=lambda m: isinstance(m, fw.nn.Sequential),
        )
        assert list(model.state_dict()) == plain and [n for n, _ in model[1].named_parameters()] == [
            "0.weight",
            "0.bias",
        ]
        model.load_state_dict(model.state_dict())
        loss = model(fw.ones(2, 3, requires_grad=True)).square().sum()
        loss.backward()
        return [p.grad for p in model.parameters()], type(model[1]).__name__, type(model[1][1]).__name__

    for impl in ("REENTRANT", "NO_REENTRANT"):
        ours, theirs = outcome(oneflow, ours_wrapper, impl), outcome(torch, torch_wrapper, impl)
        for a, b in zip(ours[0], theirs[0], strict=True):
            close(a, b)
        assert ours[1:] == theirs[1:]


def test_objects_between_ranks():
    dist = oneflow.distributed

    def rank():
        me, n = dist.get_rank(), dist.get_world_size()
        gathered = [None] * n
        dist.all_gather_object(gathered, {"rank": me, "text": "x" * (100 * me)})
        assert [(g["rank"], len(g["text"])) for g in gathered] == [(i, 100 * i) for i in range(n)]
        last = [None] * n if me == n - 1 else None
        dist.gather_object((me, [me]), last, dst=n - 1)
        assert last == ([(i, [i]) for i in range(n)] if me == n - 1 else None)
        shared = [me, "mine"] if me else [{"a": 1}, None]
        dist.broadcast_object_list(shared, src=0)
        assert shared == [{"a": 1}, None]
        mine = [None]
        dist.scatter_object_list(mine, [f"for {i}" for i in range(n)] if me == 1 else None, src=1)
        assert mine == [f"for {me}"]
        out = oneflow.zeros(2)
        dist.reduce_scatter(out, [oneflow.full((2,), float(i + me)) for i in range(n)])
        assert out.tolist() == [float(sum(me + r for r in range(n)))] * 2
        got = [oneflow.zeros(1) for _ in range(n)]
        dist.all_to_all(got, [oneflow.full((1,), 10.0 * me + i) for i in range(n)])
        assert [t.item() for t in got] == [10.0 * r + me for r in range(n)]
        group = dist.new_group([2, 0])
        if me != 1:
            assert dist.get_process_group_ranks(group) == [0, 2] and dist.get_global_rank(group, 1) == 2
            assert dist.get_group_rank(group, 2) == 1
            parts = [None, None]
            dist.all_gather_object(parts, me, group)
            assert parts == [0, 2]
            with pytest.raises(ValueError, match="not part of"):
                dist.get_group_rank(group, 1)
        dist.monitored_barrier()
        return True

    assert run_ranks(3, rank) == [True] * 3


def test_settings_and_questions_of_compilers():
    from oneflow.fx.experimental import symbolic_shapes

    oneflow._inductor.config.coordinate_descent_tuning = True
    assert oneflow._inductor.config.coordinate_descent_tuning is True
    oneflow._inductor.config.coordinate_descent_tuning = False
    assert symbolic_shapes.guard_or_false(3 == 3) and not symbolic_shapes.statically_known_true(2 > 3)
    assert symbolic_shapes.free_symbols((1, 2)) == set()
    assert isinstance(oneflow.compile(oneflow.nn.Linear(1, 1)), oneflow._dynamo.OptimizedModule)
    assert isinstance(iter(oneflow.utils.data.DataLoader([1])), oneflow.utils.data.dataloader._BaseDataLoaderIter)
    assert not oneflow.xpu.is_bf16_supported() and oneflow.xpu.memory_allocated() == 0


def test_packages_import_them_under_the_mock():
    lines = """
        import oneflow
        oneflow.mock_torch.enable()
        import torch, torch._inductor.config, torch.distributed as dist
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
        from torch.fx.experimental.symbolic_shapes import guard_or_false, free_symbols
        from torch.fx.node import map_arg, Target
        from torch.optim.optimizer import ParamsT
        from torch.nn.modules.module import _IncompatibleKeys
        from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter
        from torch.utils import swap_tensors
        from torch._dynamo.eval_frame import OptimizedModule
        from torch.nn.attention.flex_attention import AuxRequest
        assert torch._C._nn._parse_to("cpu", torch.float64)[:2] == (torch.device("cpu"), torch.float64)
        assert dist.get_process_group_ranks(dist.group.WORLD) == [0] and not dist.is_nccl_available()
        assert checkpoint_wrapper(torch.nn.Linear(2, 1))(torch.ones(1, 2)).shape == (1, 1)
    """
    program = "\n".join(line.strip() for line in lines.splitlines())
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_names_of_annotations_and_formats():
    for package in (torch, oneflow):
        assert package.legacy_contiguous_format == package.contiguous_format
        kept = importlib.import_module(f"{package.__name__}.optim.optimizer")
        assert kept.StateDict == dict[str, Any] == kept.Kwargs and kept.Args == tuple[Any, ...]
        for name in ("ParamsT", "DeviceDict", "DeviceDtypeDict", "GlobalOptimizerPreHook", "GlobalOptimizerPostHook"):
            assert hasattr(kept, name)
