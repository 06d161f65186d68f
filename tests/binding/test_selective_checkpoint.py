"""Selective checkpoints: which ops run again, that gradients are those without a checkpoint, and what is refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import oneflow as flow
import pytest
import torch
from oneflow.utils import checkpoint as ours
from torch.utils import checkpoint as theirs
from torch_oracle import close

Policy = Callable[..., Any]


def _contexts(lib: Any, policy: Any, **options: Any) -> Any:
    module = ours if lib is flow else theirs
    return functools.partial(module.create_selective_checkpoint_contexts, policy, **options)


def _checkpoint(lib: Any, function: Any, *args: Any, policy: Any, **options: Any) -> Any:
    module = ours if lib is flow else theirs
    return module.checkpoint(function, *args, use_reentrant=False, context_fn=_contexts(lib, policy, **options))


def _mlp(lib: Any) -> Any:
    lib.manual_seed(0)
    return lib.nn.Sequential(
        lib.nn.Linear(4, 8), lib.nn.GELU(), lib.nn.Linear(8, 8, bias=False), lib.nn.Tanh(), lib.nn.Linear(8, 2)
    )


def _asked(lib: Any, function: Any, *args: Any) -> list[tuple[bool, str]]:
    """What a policy that keeps nothing is asked about products, convolutions and activations."""
    heard: list[tuple[bool, str]] = []

    def policy(ctx: Any, op: Any, *given: Any, **options: Any) -> Any:
        heard.append((ctx.is_recompute, str(op)))
        return False

    _checkpoint(lib, function, *args, policy=policy).sum().backward()
    named = ("addmm", "mm.", "bmm", "convolution", "gelu", "tanh", "sin", "_softmax", "native_layer_norm", "var_mean")
    return [(again, op) for again, op in heard if op.removeprefix("aten.").startswith(named)]


def test_ops_have_pytorchs_names() -> None:
    def steps(lib: Any) -> list[tuple[bool, str]]:
        model, conv = _mlp(lib), lib.nn.Conv2d(1, 2, 3)
        norm = lib.nn.LayerNorm(2)

        def function(x: Any) -> Any:
            y = norm(model(x))
            batch = y.reshape(1, 5, 2)
            product = lib.matmul(batch, batch.transpose(1, 2)).softmax(-1)
            return product.sum() + (conv(product[None]).sin().sum() + lib.var_mean(y)[0])

        return _asked(lib, function, lib.ones(5, 4, requires_grad=True))

    assert [op for again, op in steps(flow) if not again] == [op for again, op in steps(torch) if not again]


@pytest.mark.parametrize("kept", ["none", "products", "all"])
def test_gradients_are_those_of_an_ordinary_call(kept: str) -> None:
    model = _mlp(flow)
    x = flow.randn(3, 4, requires_grad=True)

    def policy(ctx: Any, op: Any, *args: Any, **options: Any) -> Any:
        keep = kept == "all" or (kept == "products" and op in (flow.ops.aten.mm.default, flow.ops.aten.addmm.default))
        return ours.CheckpointPolicy.MUST_SAVE if keep else ours.CheckpointPolicy.PREFER_RECOMPUTE

    inputs = [x, *model.parameters()]
    made = flow.autograd.grad(_checkpoint(flow, model, x, policy=policy).sum(), inputs)
    close(list(made), list(flow.autograd.grad(model(x).sum(), inputs)), 0)


def test_attention_is_kept_by_its_name() -> None:
    """The lists that training scripts have name attention of every kind, whatever the device."""
    aten = flow.ops.aten
    names = ("_flash_attention", "_flash_attention_for_cpu", "_efficient_attention")
    policy = [aten.mm.default, *(getattr(aten, f"_scaled_dot_product{name}").default for name in names)]
    contexts = []

    def context_fn() -> Any:
        contexts.append(ours.create_selective_checkpoint_contexts(policy))
        return contexts[-1]

    q = flow.randn(1, 2, 3, 4, requires_grad=True)
    attend = flow.nn.functional.scaled_dot_product_attention
    y = ours.checkpoint(lambda q: attend(q * 2, q, q).sin(), q, use_reentrant=False, context_fn=context_fn)
    assert list(contexts[0][0].storage) == [aten._scaled_dot_product_flash_attention_for_cpu.default]
    (made,) = flow.autograd.grad(y.sum(), q)
    close(made, flow.autograd.grad(attend(q * 2, q, q).sin().sum(), q)[0], 1e-6)


def test_a_kept_op_does_not_run_again() -> None:
    """A result that was kept is read from memory: what would be drawn again is the same without the random state."""
    runs = []

    @flow.library.custom_op("selective::noted", mutates_args=())
    def noted(x: flow.Tensor) -> flow.Tensor:
        runs.append(1)
        return x.sin()

    flow.library.register_autograd(
        "selective::noted",
        lambda ctx, grad: grad * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    for keep, n_runs in ((True, 1), (False, 2)):
        runs.clear()
        x = flow.randn(3, requires_grad=True)
        kept = [flow.ops.selective.noted.default] if keep else [flow.ops.aten.mm.default]
        y = _checkpoint(flow, lambda x: (flow.ops.selective.noted(x) * x.exp()).cos(), x, policy=kept)
        (made,) = flow.autograd.grad(y.sum(), x)
        assert len(runs) == n_runs
        (expected,) = flow.autograd.grad((x.sin() * x.exp()).cos().sum(), x)
        close(made, expected, 0)


def test_results_of_products_are_read_from_memory() -> None:
    """The kept result is changed behind the checkpoint's back; only a result that is read again can differ."""
    x = flow.ones(2, 2, requires_grad=True)
    contexts = []

    def context_fn() -> Any:
        contexts.append(ours.create_selective_checkpoint_contexts([flow.ops.aten.mm.default]))
        return contexts[-1]

    y = ours.checkpoint(lambda x: (x @ x).exp(), x, use_reentrant=False, context_fn=context_fn)
    ((kept,),) = contexts[0][0].storage[flow.ops.aten.mm.default]
    kept.value.data.fill_(0.0)
    (grad,) = flow.autograd.grad(y.sum(), x)
    # exp(0) = 1 stands for exp(2).
    close(grad, torch.full((2, 2), 4.0), 1e-6)


def _refused(lib: Any) -> list[tuple[str, str]]:
    def keep_sin(ctx: Any, op: Any, *args: Any, **options: Any) -> bool:
        return op == lib.ops.aten.sin.default

    def mutated() -> None:
        x = lib.ones(3, requires_grad=True)
        _checkpoint(lib, lambda x: x.sin().mul_(2).cos().exp(), x, policy=keep_sin).sum().backward()

    def twice() -> None:
        x = lib.ones(3, requires_grad=True)
        y = _checkpoint(lib, lambda x: x.sin().cos().exp(), x, policy=keep_sin).sum()
        y.backward(retain_graph=True)
        y.backward(retain_graph=True)

    def appears() -> None:
        x = lib.ones(3, requires_grad=True)
        runs = []

        def function(x: Any) -> Any:
            runs.append(1)
            return (x.sin() if len(runs) > 1 else x.cos()).exp()

        _checkpoint(lib, function, x, policy=keep_sin).sum().backward()

    calls = [
        mutated,
        twice,
        appears,
        lambda: _contexts(lib, [2])(),
        lambda: _contexts(lib, [lib.ops.aten.sin])(),
        lambda: _contexts(lib, 2)(),
    ]
    found = []
    for call in calls:
        with pytest.raises(Exception) as caught:
            call()
        found.append((type(caught.value).__name__, " ".join(str(caught.value).split()[:6])))
    return found


def test_refusals_are_pytorchs() -> None:
    mine, expected = _refused(flow), _refused(torch)
    assert [kind for kind, _ in mine] == [kind for kind, _ in expected]
    assert [text for _, text in mine[:2] + mine[3:]] == [text for _, text in expected[:2] + expected[3:]]


def test_a_mutation_may_be_allowed_and_a_policy_may_err() -> None:
    x = flow.ones(3, requires_grad=True)
    policy = [flow.ops.aten.sin.default]
    function = lambda x: x.sin().mul_(2).cos().exp()  # noqa: E731
    _checkpoint(flow, function, x, policy=policy, allow_cache_entry_mutation=True).sum().backward()
    with pytest.raises(TypeError, match="CheckpointPolicy or a bool, not 'yes'"):
        _checkpoint(flow, lambda x: x.sin(), x, policy=lambda *_, **__: "yes")


def test_checkpoints_nest() -> None:
    model = _mlp(flow)
    x = flow.randn(3, 4, requires_grad=True)
    policy = [flow.ops.aten.addmm.default]

    def inner(x: Any) -> Any:
        return _checkpoint(flow, model, x, policy=policy).sin()

    (made,) = flow.autograd.grad(_checkpoint(flow, inner, x, policy=policy).sum(), x)
    close(made, flow.autograd.grad(model(x).sin().sum(), x)[0], 0)


def test_a_graph_may_hold_one() -> None:
    model = _mlp(flow)

    class Step(flow.nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.add_optimizer(flow.optim.SGD(model.parameters(), lr=0.0))

        def build(self, x: flow.Tensor) -> flow.Tensor:
            y = _checkpoint(flow, self.model, x, policy=[flow.ops.aten.mm.default]).sum()
            y.backward()
            return y

    x = flow.randn(3, 4)
    close(Step()(x).detach(), model(x).sum().detach(), 1e-6)
