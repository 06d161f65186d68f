"""Nodes as objects, collected with the circles that their hooks close; edges as outputs; packed tensors."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import oneflow as flow
import pytest
import torch
from torch_oracle import both, close, outcome


class _Held:
    pass


@pytest.mark.parametrize("custom", [False, True])
@pytest.mark.parametrize("on_tensor", [False, True])
@pytest.mark.parametrize("through", ["hook", "metadata"])
def test_a_circle_through_a_node_is_collected_once_nothing_else_holds_the_node(
    custom: bool, on_tensor: bool, through: str
) -> None:
    class Same(flow.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: flow.Tensor) -> flow.Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, g: flow.Tensor) -> flow.Tensor:
            return g

    runs = []

    def scope() -> tuple[flow.Tensor, weakref.ref[Any]]:
        a = flow.tensor(1.0, requires_grad=True)
        b = Same.apply(a) if custom else a.clone()
        node, held = b.grad_fn, _Held()

        def hook(*grads: Any) -> None:
            runs.append((node, held))

        (b.register_hook if on_tensor else node.register_hook)(hook)
        if through == "metadata":
            node.metadata["itself"] = (node, held)
        return b.clone(), weakref.ref(held)

    gc.disable()
    try:
        out, held = scope()
        out.backward(retain_graph=True)
        gc.collect()
        # The rest of the graph holds the node: its hooks stay.
        out.backward(retain_graph=True)
        assert len(runs) == 2 and held() is not None
        runs.clear()
        del out
        gc.collect()
        assert held() is None
    finally:
        gc.enable()


def test_a_node_has_one_object_at_a_time() -> None:
    y = flow.ones(2, requires_grad=True) * 2
    z = y.sum()
    assert y.grad_fn is y.grad_fn and z.grad_fn.next_functions[0][0] is y.grad_fn
    first = y.grad_fn
    first.metadata["note"] = 1
    del first
    gc.collect()
    assert y.grad_fn.metadata == {"note": 1}


def _edge_gradient(lib: Any, reduce: bool, gradient: Any) -> Any:
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    y = x.sin().cos()
    y = y.sum() if reduce else y
    edge = lib.autograd.graph.get_gradient_edge(y)
    return lib.autograd.grad(edge, (x,), None if gradient is None else gradient(lib))


def _rounded(gradients: Any) -> list[list[float]]:
    return [[round(number, 5) for number in g.tolist()] for g in gradients]


@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize(
    "gradient",
    [
        None,
        lambda lib: lib.tensor(2.0),
        lambda lib: lib.tensor([1.0, 3.0]),
        lambda lib: lib.ones(3),
        lambda lib: lib.tensor(1j),
    ],
)
def test_an_edge_is_an_output_like_its_tensor(reduce: bool, gradient: Any) -> None:
    assert both(lambda lib: outcome(lambda: _rounded(_edge_gradient(lib, reduce, gradient))))


def test_a_leaf_and_a_custom_function_have_edges_too() -> None:
    def gradients(lib: Any) -> Any:
        class Double(lib.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * 2

        x = lib.tensor(3.0, requires_grad=True)
        edge = lib.autograd.graph.get_gradient_edge
        return lib.autograd.grad(edge(x), (x,)) + lib.autograd.grad(edge(Double.apply(x)), (x,))

    close(gradients(flow), gradients(torch), 1e-6)


def test_edges_may_be_materialized_where_they_are_reached() -> None:
    def gradients(lib: Any) -> Any:
        x, y = (lib.ones(2, requires_grad=True).clone() for _ in range(2))
        edge_x, edge_y = (lib.autograd.graph.get_gradient_edge(t) for t in (x, y))
        out = x.clone().sum()
        found = lib.autograd.grad(out, (edge_x, y), allow_unused=True, materialize_grads=True, retain_graph=True)
        with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input"):
            lib.autograd.grad(out, (x, edge_y), allow_unused=True, materialize_grads=True)
        return found

    close(gradients(flow), gradients(torch), 0)


def test_hooks_that_a_backward_enters_or_leaves_end_with_it() -> None:
    entered = []

    def unpack(x: flow.Tensor) -> flow.Tensor:
        context.__enter__()
        return x

    def pack(x: flow.Tensor) -> flow.Tensor:
        entered.append(1)
        return x

    context = flow.autograd.graph.saved_tensors_hooks(pack, unpack)
    x = flow.ones(3, requires_grad=True)
    with context:
        y = x.sin().sum()
    y.backward()
    n_packed = len(entered)
    x.exp().sum().backward()
    assert len(entered) == n_packed
    # One that leaves the context of others: it is entered again when the backward ends.
    outer = flow.autograd.graph.saved_tensors_hooks(pack, lambda x: x)
    leaving = flow.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: (outer.__exit__(), x)[1])
    with outer:
        with leaving:
            y = x.sin().sum()
        y.backward()
        entered.clear()
        x.exp()
        assert entered


def test_what_has_no_history_is_packed_and_unpacked_as_itself() -> None:
    def same(lib: Any) -> list[bool]:
        seen = []

        class Keep(lib.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, y: Any) -> Any:
                ctx.save_for_backward(y)
                return x.clone()

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                seen.append(ctx.saved_tensors[0])
                return g, None

        x, y = lib.tensor(1.0, requires_grad=True), lib.tensor(2.0)
        packed = []
        with lib.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
            Keep.apply(x, y).backward()
        lib.utils.checkpoint.checkpoint(Keep.apply, x, y, use_reentrant=False).backward()
        return [packed[0] is y, *(t is y for t in seen)]

    import torch.utils.checkpoint

    assert same(flow) == same(torch) == [True, True, True]


def test_out_is_refused_where_a_gradient_is_wanted_of_the_other_operand() -> None:
    def attempt(lib: Any) -> Any:
        x, out = lib.ones(2, requires_grad=True), lib.ones(2)
        return lib.add(x, out, out=out)

    assert both(lambda lib: outcome(lambda: attempt(lib)) == "RuntimeError")


def test_hooks_of_an_accumulator_see_what_the_leaf_gets() -> None:
    def gradient(lib: Any) -> Any:
        x = lib.ones(3, requires_grad=True)
        node = x.view_as(x).grad_fn.next_functions[0][0]
        x.register_hook(lambda g: g - 2.0)
        node.register_prehook(lambda grads: (grads[0] / 5.0,))
        x.register_post_accumulate_grad_hook(lambda t: t.grad.add_(0.5) is None or None)

        def after(ins: Any, outs: Any) -> None:
            x.grad = outs[0] * 10

        node.register_hook(after)
        x.sum().backward()
        return x.grad

    close(gradient(flow), gradient(torch), 1e-6)


def test_a_view_whose_history_is_gone_prints() -> None:
    def text(lib: Any) -> str:
        a = lib.ones(1, requires_grad=True)
        with lib.no_grad():
            b = a[:]
            b *= 2
        return repr(b)

    assert both(text) == "tensor([2.], grad_fn=<Invalid>)"


def test_an_input_that_a_function_returns_keeps_its_class() -> None:
    def kept(lib: Any) -> bool:
        class Labelled(lib.Tensor):
            @classmethod
            def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return super().__torch_function__(func, types, args, kwargs or {})

        class Same(lib.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g

        x = lib.ones(2).as_subclass(Labelled)
        return type(Same.apply(x)) is Labelled

    assert both(kept)


def test_the_version_of_what_inference_made_is_not_counted() -> None:
    with flow.inference_mode():
        x = flow.ones(2)
    flow.autograd.graph.increment_version(x)
    y = flow.ones(2)
    flow.autograd.graph.increment_version([y, x])
    assert y._version == 1
