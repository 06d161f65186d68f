"""Comparisons with PyTorch that many test files share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import oneflow
import pytest
import torch

TENSORS = (oneflow.Tensor, torch.Tensor)
SCALARS = (int, float, complex, bool, str, bytes, type(None))


def both(f: Callable[[Any], Any]) -> Any:
    """Check that `f(oneflow) == f(torch)` and return the value. `f` returns values without tensors, see `plain`."""
    ours, theirs = f(oneflow), f(torch)
    assert ours == theirs
    return ours


def close(ours: Any, theirs: Any, tolerance: float = 1e-5, what: Any = "") -> None:
    """Check that two nests of tensors have the same structure, shapes and dtypes, and elements within `tolerance`."""
    if isinstance(theirs, TENSORS):
        assert isinstance(ours, TENSORS), what
        assert tuple(ours.shape) == tuple(theirs.shape), what
        assert dtype_name(ours) == dtype_name(theirs), what
        a, b = (elements(t) for t in (ours, theirs))
        text = (lambda message: f"{what}: {message}") if what else None
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True, msg=text)
    elif isinstance(theirs, dict):
        assert set(ours) == set(theirs), what
        for key in theirs:
            close(ours[key], theirs[key], tolerance, what)
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs), what
        for a, b in zip(ours, theirs, strict=True):
            close(a, b, tolerance, what)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=tolerance, abs=tolerance, nan_ok=True), what
    else:
        assert ours == theirs, what


def same(ours: Any, theirs: Any, what: Any = "") -> None:
    """Check as `close` does that all elements are equal; NaN equals NaN."""
    close(ours, theirs, 0.0, what)


def close_at_scale(ours: Any, theirs: Any, tolerance: float, what: Any = "", smallest: float = 1e-3) -> None:
    """Check that no element differs by more than `tolerance` times the largest element, or times `smallest` if that is
    larger. For results of many layers, whose small elements are differences of large ones."""
    a, b = ours.detach().numpy(), theirs.detach().numpy()
    assert a.shape == b.shape, what
    difference = float(np.abs(a - b).max(initial=0.0))
    assert difference <= tolerance * max(smallest, float(np.abs(b).max(initial=0.0))), f"{what}: {difference}"


def outcome(f: Callable[[], Any]) -> Any:
    """Return the result of a call: its value as `described`, or the name of its exception's class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return described(f())
        except Exception as e:
            return type(e).__name__


def plain(value: Any) -> Any:
    """A nest of tensors as values that `==` compares: a tensor as its elements, another object as its class's name."""
    if isinstance(value, TENSORS):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(v) for v in value)
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value if isinstance(value, SCALARS) else type(value).__name__


def described(value: Any) -> Any:
    """As `plain`, with the shape and dtype of each tensor."""
    if isinstance(value, TENSORS):
        return tuple(value.shape), dtype_name(value), value.tolist()
    if isinstance(value, (list, tuple)):
        return [described(v) for v in value]
    return plain(value)


def dtype_name(t: Any) -> str:
    """`float32` for `torch.float32` and for `oneflow.float32`."""
    return str(t.dtype).rpartition(".")[2]


def elements(t: Any) -> torch.Tensor:
    """The elements of a tensor of either package, in a tensor of PyTorch that holds them exactly."""
    wide = torch.complex128 if t.is_complex() else torch.float64 if t.is_floating_point() else None
    return torch.tensor(t.detach().tolist(), dtype=wide)
