"""Gradients: backward, grad, custom functions, and checks against numeric differences."""

from __future__ import annotations

from oneflow.autograd._engine import backward, grad
from oneflow.autograd.function import Function
from oneflow.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from oneflow.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = [
    "Function",
    "GradcheckError",
    "backward",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
]
