"""Optimizers and learning-rate schedules."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from oneflow.optim import adam as _adam
from oneflow.optim import adam_variants as _adam_variants
from oneflow.optim import adaptive as _adaptive
from oneflow.optim import lr_scheduler, swa_utils
from oneflow.optim.adafactor import Adafactor
from oneflow.optim.adam import Adam, AdamW
from oneflow.optim.adam_variants import Adamax, NAdam, RAdam
from oneflow.optim.adaptive import ASGD, Adadelta, Adagrad, RMSprop, Rprop
from oneflow.optim.lbfgs import LBFGS
from oneflow.optim.muon import Muon
from oneflow.optim.oneflow_rules import LAMB, Ftrl
from oneflow.optim.optimizer import Optimizer
from oneflow.optim.sgd import SGD
from oneflow.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LAMB",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Ftrl",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]

# PyTorch has a module for each of those that share a file here.
for _module, _names in (
    (_adam, ("adamw",)),
    (_adam_variants, ("adamax", "nadam", "radam")),
    (_adaptive, ("adadelta", "adagrad", "asgd", "rmsprop", "rprop")),
):
    for _name in _names:
        globals()[_name] = sys.modules[f"{__name__}.{_name}"] = _module


def __getattr__(name: str) -> Any:
    # Few programs import it.
    if name == "functional":
        return importlib.import_module("oneflow.optim.functional")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
