"""Gradients: backward, grad, custom functions, and checks against numeric differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneflow._base.lazy import LazyNames as _LazyNames
from oneflow.autograd import forward_ad, graph
from oneflow.autograd._engine import backward, grad
from oneflow.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from oneflow.autograd.function import Function
from oneflow.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from oneflow.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from oneflow.autograd.variable import Variable

if TYPE_CHECKING:
    from oneflow.autograd import functional, profiler

__all__ = [
    "Function",
    "GradcheckError",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "profiler",
    "set_detect_anomaly",
    "set_grad_enabled",
    "is_multithreading_enabled",
    "set_multithreading_enabled",
]

_lazy = _LazyNames(__name__, ("functional", "profiler"))


def __getattr__(name: str) -> Any:
    if name == "kineto_available":  # PyTorch has it in both places.
        return _lazy.find("profiler").kineto_available
    return _lazy.find(name)


def __dir__() -> list[str]:
    return _lazy.dir()
