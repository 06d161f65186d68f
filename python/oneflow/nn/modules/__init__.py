"""All layers, by name."""

from __future__ import annotations

from oneflow.nn.modules.activation import GELU, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Tanh
from oneflow.nn.modules.container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from oneflow.nn.modules.dropout import Dropout
from oneflow.nn.modules.flatten import Flatten
from oneflow.nn.modules.linear import Identity, Linear
from oneflow.nn.modules.loss import CrossEntropyLoss, L1Loss, MSELoss, NLLLoss
from oneflow.nn.modules.module import Module
from oneflow.nn.modules.normalization import LayerNorm, RMSNorm
from oneflow.nn.modules.sparse import Embedding

__all__ = [
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "GELU",
    "Identity",
    "L1Loss",
    "LayerNorm",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "NLLLoss",
    "ParameterDict",
    "ParameterList",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
]
