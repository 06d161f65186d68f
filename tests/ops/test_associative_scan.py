"""Scans of associative functions: PyTorch's values, gradients and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oneflow
import pytest
import torch
from oneflow._higher_order_ops import associative_scan
from torch._higher_order_ops import associative_scan as reference


def add(x: Any, y: Any) -> Any:
    return x + y


def product(x: Any, y: Any) -> Any:
    return x * y


def recurrence(x: Any, y: Any) -> Any:
    """Of ``h = a * h + b``: what a state space model scans."""
    return {"a": x["a"] * y["a"], "b": x["b"] * y["a"] + y["b"]}


def later(x: Any, y: Any) -> Any:
    """Neither commutative nor of both."""
    return y


def matrices(x: Any, y: Any) -> Any:
    return y @ x


def numbers(package: Any, *shape: int, shift: float = 0.0) -> Any:
    n = 1
    for size in shape:
        n *= size
    x = package.sin(package.arange(n, dtype=package.float64) * 1.7 + shift).reshape(shape)
    return x.requires_grad_()


def outcome(scan: Callable[..., Any], package: Any, function: Any, shape: tuple[int, ...], **given: Any) -> Any:
    a, b = numbers(package, *shape), numbers(package, *shape, shift=0.5)
    xs = {"a": a, "b": b} if function is recurrence else a
    out = scan(function, xs, **given)
    values = list(out.values()) if isinstance(out, dict) else [out]
    total = sum((v * v.detach().cos()).sum() for v in values)
    grads = []
    if total.requires_grad:
        total.backward()
        grads = [x.grad for x in (a, b) if x.grad is not None]
    return [v.detach().numpy() for v in values] + [g.numpy() for g in grads]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 7, 8, 13])
@pytest.mark.parametrize("function", [add, product, recurrence, later])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(function: Any, n: int, reverse: bool) -> None:
    for shape, dim in (((n,), 0), ((2, n, 3), 1), ((2, n), -1)):
        for mode in ("pointwise", "generic"):
            found = outcome(associative_scan, oneflow, function, shape, dim=dim, reverse=reverse, combine_mode=mode)
            # Steps one by one, in the place of a mode of PyTorch that compiles.
            wanted = outcome(by_steps, torch, function, shape, dim=dim, reverse=reverse)
            assert len(found) == len(wanted)
            for x, y in zip(found, wanted, strict=True):
                assert x.shape == y.shape
                assert abs(x - y).max(initial=0) < 1e-12


def by_steps(function: Any, xs: Any, dim: int, reverse: bool) -> Any:
    """The definition, by PyTorch's ops."""
    tensors = xs if isinstance(xs, dict) else {"": xs}
    n = next(iter(tensors.values())).shape[dim]
    order = range(n - 1, -1, -1) if reverse else range(n)
    steps: list[Any] = []
    for i in order:
        now = {k: x.select(dim, i) for k, x in tensors.items()}
        value = now if isinstance(xs, dict) else now[""]
        steps.append(function(steps[-1], value) if steps else value)
    if not steps:
        return xs
    steps = steps[::-1] if reverse else steps
    if isinstance(xs, dict):
        return {k: torch.stack([step[k] for step in steps], dim) for k in xs}
    return torch.stack(steps, dim)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_generic_scans_are_pytorch_s(n: int, reverse: bool) -> None:
    for function, shape, dim in ((matrices, (n, 3, 3), 0), (matrices, (3, n, 3), 1), (recurrence, (2, n), 1)):
        given = {"dim": dim, "reverse": reverse, "combine_mode": "generic"}
        found = outcome(associative_scan, oneflow, function, shape, **given)
        wanted = outcome(reference, torch, function, shape, **given)
        for x, y in zip(found, wanted, strict=True):
            assert abs(x - y).max(initial=0) < 1e-12


def test_a_scan_in_a_compiled_function_and_a_batch() -> None:
    x = numbers(oneflow, 3, 6).detach()
    wanted = x.cumsum(1)
    assert oneflow.allclose(oneflow.compile(lambda x: associative_scan(add, x, 1))(x), wanted)
    assert oneflow.allclose(oneflow.vmap(lambda x: associative_scan(add, x, 0))(x), wanted)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (ValueError, {"combine_fn": 3}),
        (ValueError, {"combine_mode": "other"}),
        (RuntimeError, {"reverse": 1}),
        (IndexError, {"dim": 2}),
        (IndexError, {"dim": -3}),
        (ValueError, {"xs": lambda p: [p.ones(2, 3), p.ones(2)], "dim": 1}),
        (AssertionError, {"combine_fn": lambda x, y: (x, y), "combine_mode": "generic"}),
    ],
)
def test_refusals(kind: type[Exception], given: dict[str, Any]) -> None:
    for package, scan in ((oneflow, associative_scan), (torch, reference)):
        asked = {"combine_fn": add, "xs": package.ones(3, 2), "dim": 0, "combine_mode": "generic", **given}
        if callable(asked["xs"]) and not isinstance(asked["xs"], package.Tensor):
            asked["xs"] = asked["xs"](package)
        with pytest.raises(kind):
            scan(**asked)


def test_what_is_no_tensor_is_refused() -> None:
    for xs in ([], [1, 2]):
        with pytest.raises(ValueError, match=r"xs leaf|must be a Tensor"):
            associative_scan(add, xs, dim=0)
