"""OneFlow's modules of optimizers and schedules, one a class: the classes are defined in ``oneflow.optim``."""

from __future__ import annotations

import sys
from types import ModuleType

from oneflow import optim
from oneflow.optim import lr_scheduler as _schedules

_CLASSES = {
    "adadelta": "Adadelta",
    "adagrad": "Adagrad",
    "adam": "Adam",
    "adamw": "AdamW",
    "chained_scheduler": "ChainedScheduler",
    "constant_lr": "ConstantLR",
    "cosine_annealing_lr": "CosineAnnealingLR",
    "cosine_annealing_warm_restarts": "CosineAnnealingWarmRestarts",
    "cosine_decay_lr": "CosineDecayLR",
    "exponential_lr": "ExponentialLR",
    "lamb": "LAMB",
    "lambda_lr": "LambdaLR",
    "lbfgs": "LBFGS",
    "linear_lr": "LinearLR",
    "lr_scheduler": "LRScheduler",
    "multiplicative_lr": "MultiplicativeLR",
    "multistep_lr": "MultiStepLR",
    "polynomial_lr": "PolynomialLR",
    "reduce_lr_on_plateau": "ReduceLROnPlateau",
    "rmsprop": "RMSprop",
    "sequential_lr": "SequentialLR",
    "sgd": "SGD",
    "step_lr": "StepLR",
    "warmup_lr": "WarmupLR",
}

for _name, _class in _CLASSES.items():
    _module = ModuleType(f"{__name__}.{_name}", f"Holds ``{_class}``, as OneFlow has it.")
    setattr(_module, _class, getattr(optim, _class, None) or getattr(_schedules, _class))
    sys.modules[_module.__name__] = _module
    globals()[_name] = _module

swa_utils = optim.swa_utils
sys.modules[f"{__name__}.swa_utils"] = swa_utils
