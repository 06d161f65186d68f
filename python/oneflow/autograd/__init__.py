"""Gradients: backward, grad, custom functions, and checks against numeric differences."""

from __future__ import annotations

from oneflow.autograd import forward_ad, functional, graph, profiler
from oneflow.autograd._engine import backward, grad
from oneflow.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from oneflow.autograd.function import Function
from oneflow.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from oneflow.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from oneflow.autograd.variable import Variable

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
    "set_multithreading_enabled",
]
