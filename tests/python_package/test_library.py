"""Ops that programs define, and the ops of the package by PyTorch's names."""

from __future__ import annotations

import oneflow
import pytest
import torch
from oneflow import Tensor, library


@pytest.fixture
def twice():
    @library.custom_op("check::twice", mutates_args=())
    def twice(x: Tensor, times: float = 2.0) -> Tensor:
        return x.detach() * times

    return twice


def test_a_custom_op_is_called_by_its_name(twice):
    x = oneflow.ones(3)
    for call in (twice, oneflow.ops.check.twice, oneflow.ops.check.twice.default):
        assert call(x).tolist() == [2, 2, 2] and call(x, times=3.0).tolist() == [3, 3, 3]
    assert oneflow.ops.check.twice._schema == "check::twice(Tensor x, float times=2.0) -> Tensor"
    assert "twice" in dir(oneflow.ops.check)


def test_a_custom_op_has_the_backward_it_was_given(twice):
    saved = []

    def setup_context(ctx, inputs, output):
        ctx.times = inputs[1]
        ctx.save_for_backward(inputs[0])
        saved.append(output)

    twice.register_autograd(
        lambda ctx, grad: (grad * ctx.times + 0 * ctx.saved_tensors[0], None), setup_context=setup_context
    )
    x = oneflow.ones(3, requires_grad=True)
    (twice(x, 5.0) + twice(x, times=3.0) + twice(x)).sum().backward()
    assert x.grad.tolist() == [10, 10, 10] and len(saved) == 3


def test_a_custom_op_has_kernels_by_device():
    library.define("check::shifted", "(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match=r"check::shifted has no kernel for device cpu \(it has: none\)"):
        oneflow.ops.check.shifted(oneflow.ones(1))
    library.impl("check::shifted", "cpu", lambda x: x + 1)
    library.register_fake("check::shifted", lambda x: oneflow.empty_like(x))
    assert oneflow.ops.check.shifted(oneflow.ones(1)).item() == 2
    assert oneflow.ops.check.shifted(oneflow.ones(1, device="meta")).is_meta


def test_a_library_defines_and_forgets():
    lib = library.Library("check_library", "DEF")
    lib.define("plus(Tensor a, Tensor b) -> Tensor")
    lib.impl("plus", lambda a, b: a + b, "CompositeImplicitAutograd")
    assert oneflow.ops.check_library.plus(oneflow.ones(1), oneflow.ones(1)).item() == 2
    lib._destroy()
    with pytest.raises(AttributeError, match="no such op is defined"):
        oneflow.ops.check_library.plus
    with pytest.raises(ValueError, match="Unsupported kind"):
        library.Library("check", "OTHER")


def test_ops_of_the_package_are_found_under_aten():
    x = oneflow.tensor([-1.0, 2.0])
    assert oneflow.ops.aten.relu.default(x).tolist() == [0, 2]
    assert oneflow.ops.aten.add.Tensor(x, x).tolist() == [-2, 4]
    assert oneflow.ops.aten.add.Tensor.overloadpacket is oneflow.ops.aten.add
    assert (
        oneflow.ops.aten.add.Tensor is oneflow.ops.aten.add.Tensor
        and oneflow.ops.aten.add.Tensor.name() == "aten::add.Tensor"
    )
    with pytest.raises(AttributeError, match="no_such_op"):
        oneflow.ops.aten.no_such_op


def test_compiled_libraries_are_refused():
    with pytest.raises(OSError, match="do not load into oneflow"):
        oneflow.ops.load_library("libanything.so")


def test_schemas_are_read_from_annotations():
    def f(x: Tensor, sizes: list[int], y: Tensor | None = None, *, scale: float = 1.0) -> tuple[Tensor, Tensor]: ...

    schema = library.infer_schema(f, mutates_args={"x"})
    assert schema == "(Tensor(a0!) x, SymInt[] sizes, Tensor? y=None, *, float scale=1.0) -> (Tensor, Tensor)"


def test_a_rule_for_batches_sees_all_samples_at_once():
    shapes = []

    @library.custom_op("check::scaled", mutates_args=())
    def scaled(x: Tensor, y: Tensor, by: float) -> Tensor:
        # Reads values, which a sample has not.
        return oneflow.tensor(x.detach().numpy() * y.detach().numpy() * by)

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:2])
        ctx.by = inputs[2]

    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y * ctx.by, grad * x * ctx.by, None

    scaled.register_autograd(backward, setup_context=setup_context)
    x, y = oneflow.arange(6.0).reshape(2, 3), oneflow.tensor([1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match="vmap"):
        oneflow.func.vmap(scaled, in_dims=(0, None, None))(x, y, 2.0)

    @scaled.register_vmap
    def rule(info, in_dims, x, y, by):
        shapes.append((info.batch_size, in_dims, tuple(x.shape)))
        assert in_dims[1:] == (None, None)
        return scaled(x.movedim(in_dims[0], 0), y.unsqueeze(0).expand_as(x), by), 0

    batched = oneflow.func.vmap(scaled, in_dims=(1, None, None))
    assert batched(x.t(), y, 2.0).tolist() == (x * y * 2).tolist()
    assert shapes == [(2, (0, None, None), (2, 3))]
    grad = oneflow.func.vmap(oneflow.func.grad(lambda x, y: scaled(x, y, 2.0).sum()), in_dims=(0, None))(x, y)
    assert grad.tolist() == (y * 2).expand(2, 3).tolist()
    # Without samples the kernel runs.
    assert scaled(x, y.expand(2, 3), 1.0).tolist() == (x * y).tolist()


def test_older_decorators_name_a_library():
    results = []
    for fw in (oneflow, torch):
        library = fw.library.Library("older_forms", "DEF")
        library.define("scaled(Tensor x, int n) -> Tensor")

        @fw.library.impl(library, "scaled", "CPU")
        def scaled(x, n):
            return x * n

        @fw.library.define(library, "shifted(Tensor x) -> Tensor")
        def shifted(x):
            return x + 1

        x = fw.ones(2)
        results.append((fw.ops.older_forms.scaled(x, 3).tolist(), fw.ops.older_forms.shifted(x).tolist()))
        assert scaled(x, 2).tolist() == [2.0, 2.0]
    assert results[0] == results[1]


def test_tags_of_ops_are_kept():
    tag = library.Tag
    assert {t.name for t in tag} == set(torch.Tag.__members__)
    library.define("tagged::a", "(Tensor x) -> Tensor", tags=tag.pointwise)
    own = library.Library("tagged", "FRAGMENT")
    own.define("b(Tensor x) -> Tensor", tags=[tag.core, tag.reduction])

    @library.custom_op("tagged::c", mutates_args=(), tags=(tag.core,))
    def c(x: Tensor) -> Tensor:
        return x + 1

    ops = oneflow.ops.tagged
    assert [op.default.tags for op in (ops.a, ops.b, ops.c)] == [
        (tag.pointwise,),
        (tag.core, tag.reduction),
        (tag.core,),
    ]
    assert oneflow.ops.aten.add.Tensor.tags == ()
