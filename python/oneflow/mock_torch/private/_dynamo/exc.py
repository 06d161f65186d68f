"""``torch._dynamo.exc``: errors of PyTorch's compiler, for programs that catch them. Nothing here raises them."""

from __future__ import annotations


class TorchDynamoException(RuntimeError):
    """An error of the compiler that reads bytecode."""


class InternalTorchDynamoError(TorchDynamoException):
    """The compiler failed."""


class Unsupported(TorchDynamoException):
    """The compiler met something it does not know."""


class BackendCompilerFailed(TorchDynamoException):
    """A backend failed."""


class UserError(Unsupported):
    """The program asks for something that the compiler refuses."""


class TensorifyScalarRestartAnalysis(TorchDynamoException):
    """The compiler begins again."""
