"""Optimizers and learning-rate schedules."""

from __future__ import annotations

from oneflow.optim import lr_scheduler
from oneflow.optim.adam import Adam, AdamW
from oneflow.optim.optimizer import Optimizer
from oneflow.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
