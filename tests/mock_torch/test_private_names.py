"""Private modules of PyTorch that packages use: what they compute, beside PyTorch's own."""

import importlib

import oneflow
import pytest
import torch
import torch._prims_common
from oneflow.mock_torch.private import absent, find

SHAPES = [(), (3,), (0,), (2, 3, 4), (2, 0, 4), (5, 1, 0), (2, 1, 3, 4), (2, 3, 1, 1), (1, 3, 4, 5), (2, 3, 2, 4, 5)]


def private(name):
    return importlib.import_module(find(name))


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape):
    ours, theirs = private("torch._prims_common"), torch._prims_common
    for row_major in (True, False):
        assert ours.make_contiguous_strides_for(shape, row_major) == theirs.make_contiguous_strides_for(
            shape, row_major
        )

    def layouts(fw):
        x = fw.zeros(shape)
        yield x
        yield x.flip(0) if shape else x
        if len(shape) > 3:
            last = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
            yield fw.empty_strided(shape, torch.zeros(shape).to(memory_format=last).stride())
            yield x.transpose(1, 2)
            yield x[:, ::2]
            yield x[:1].expand(shape)

    for a, b in zip(layouts(oneflow), layouts(torch), strict=True):
        formats = [str(module.suggest_memory_format(t)).partition(".")[2] for module, t in ((ours, a), (theirs, b))]
        assert formats[0] == formats[1], (shape, a.stride())


def test_dtypes():
    ours, theirs = private("torch._prims_common"), torch._prims_common
    for dtype in "bool uint8 int8 int64 float16 bfloat16 float32 float64 complex64 complex128".split():
        for name in ("is_boolean_dtype", "is_float_dtype", "is_complex_dtype", "is_integer_dtype"):
            assert getattr(ours, name)(getattr(oneflow, dtype)) == getattr(theirs, name)(getattr(torch, dtype))


@pytest.mark.parametrize(
    "op, shapes, dtypes", [("mm", [(2, 3), (3, 4)], ("int8", "int32")), ("mul", [(3,)] * 2, ("int8", "int32"))]
)
def test_results_of_another_dtype(op, shapes, dtypes):
    results = []
    for fw, module in (
        (oneflow, private("torch._higher_order_ops.out_dtype")),
        (torch, importlib.import_module("torch._higher_order_ops.out_dtype")),
    ):
        ops = fw.ops.aten
        call = ops.mm.default if op == "mm" else ops.mul.Tensor
        operands = [fw.full(shape, 100, dtype=getattr(fw, dtypes[0])) for shape in shapes]
        result = module.out_dtype(call, getattr(fw, dtypes[1]), *operands)
        results.append((str(result.dtype).partition(".")[2], result.tolist()))
    assert results[0] == results[1]


def test_decompositions_are_kept():
    module = private("torch._inductor.decomposition")
    op = oneflow.ops.aten.mm.default

    @module.register_decomposition([op])
    def product(a, b):
        return (a.unsqueeze(-1) * b).sum(1)

    assert module.decompositions.pop(op) is product and product(oneflow.ones(1, 2), oneflow.ones(2, 1)).tolist() == [
        [2.0]
    ]


def test_the_processor_is_the_one_that_pytorch_sees():
    assert oneflow.cpu.get_capabilities() == dict(torch.cpu.get_capabilities())
    ours = private("torch._C._cpu")
    assert ours._is_avx512_supported() == torch.cpu._is_avx512_supported()
    assert ours._is_amx_tile_supported() == torch.cpu._is_amx_tile_supported()


def test_what_may_take_the_place_of_what():
    ours = importlib.import_module("oneflow.mock_torch.private.top")
    for kinds in (("ones", "ones"), ("ones", "sparse"), ("sparse", "sparse")):
        made = []
        for fw in (oneflow, torch):
            tensors = {"ones": fw.ones(2, 2), "sparse": fw.eye(2).to_sparse()}
            call = ours._has_compatible_shallow_copy_type if fw is oneflow else torch._has_compatible_shallow_copy_type
            made.append(call(*(tensors[kind] for kind in kinds)))
        assert made[0] == made[1]


def test_names_that_packages_import_alone():
    """What is imported by packages that never use it, or use it for `isinstance`."""
    for module in ("torch.ao.quantization", "torch.quantization"):
        for name in ("FakeQuantizeBase", "ObserverBase"):
            assert not isinstance(oneflow.nn.Linear(1, 1), getattr(absent.module(module), name))
    assert private("torch.hub").tqdm is oneflow.utils.model_zoo.tqdm
    assert issubclass(oneflow.nn.ConvTranspose2d, oneflow.nn.modules.conv._ConvTransposeMixin)
    x, w = oneflow.randn(1, 2, 5), oneflow.randn(3, 2, 2)
    given = (x, w, None, [1], [0], [1], False, [0], 1)
    assert oneflow.ops.aten._convolution(*given, False, False, True).equal(oneflow.convolution(*given))


@pytest.mark.parametrize("limit", [1, 20, 40, 1000])
def test_groups_of_tensors_for_one_message(limit):
    sizes = [(3, "float32"), (2, "float64"), (4, "float32"), (1, "float32"), (9, "float64"), (2, "float32")]
    groups = []
    for fw in (oneflow, torch):
        tensors = [fw.ones(n, dtype=getattr(fw, dtype)) for n, dtype in sizes]
        groups.append([[t.numel() for t in group] for group in fw._utils._take_tensors(tensors, limit)])
    assert groups[0] == groups[1]
