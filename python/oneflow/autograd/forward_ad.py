"""Forward-mode differentiation by PyTorch's interface: dual tensors carry a tangent beside their value.

There is no second set of derivative rules. A dual tensor records as any tensor that wants a gradient does, and a
tangent is read by differentiating a backward, which is linear in what it is given (Townsend, "A new trick for
calculating Jacobian vector products", 2017). So a tangent costs about two backwards, and whatever is computed under
``no_grad`` has none. :meth:`~oneflow.autograd.Function.jvp` of one's own functions is called where they are applied.
"""

from __future__ import annotations

import threading
import weakref
from types import TracebackType
from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.autograd._engine import grad
from oneflow.autograd.function import Function

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A value and its tangent, which is None where the value depends on no dual tensor.

    Example::

        >>> oneflow.autograd.forward_ad.UnpackedDualTensor(oneflow.ones(1), None).tangent is None
        True
    """

    primal: Tensor
    tangent: Tensor | None


class _Dual(NamedTuple):
    source: Tensor
    tangent: Tensor
    # What make_dual returned, and the node that made it: another one after a write.
    made: weakref.ref[Tensor]
    node: Any
    # Whether the results are to be differentiable themselves.
    differentiable: bool


class _Level(threading.local):
    duals: list[_Dual] | None = None


_level = _Level()


def _is_open() -> bool:
    """Whether dual tensors may be made on this thread."""
    return _level.duals is not None


def __getattr__(name: str) -> int:
    # A thread's own: the name is read where PyTorch keeps a number.
    if name == "_current_level":
        return 0 if _is_open() else -1
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def enter_dual_level() -> int:
    """Begin a level: dual tensors made from here on belong to it.

    Raises:
        RuntimeError: a level is open already.

    Example::

        >>> level = oneflow.autograd.forward_ad.enter_dual_level()
        >>> oneflow.autograd.forward_ad.exit_dual_level(level=level)
    """
    if _level.duals is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _level.duals = []
    _oneflow._forward_mode(True)
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: its tangents are gone.

    Raises:
        RuntimeError: no level is open.

    Example::

        >>> level = oneflow.autograd.forward_ad.enter_dual_level()
        >>> oneflow.autograd.forward_ad.exit_dual_level(level=level)
    """
    if _level.duals is None or level not in (None, 0):
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created.")
    _level.duals = None
    _oneflow._forward_mode(False)


class dual_level:
    """Context manager of a level.

    Example::

        >>> import oneflow.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(oneflow.tensor([1.0, 3.0]), oneflow.ones(2))
        ...     fwAD.unpack_dual(x**2).tangent
        tensor([2., 6.])
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a tensor over the memory of ``tensor`` that carries ``tangent``, of the same shape and dtype.

    A tensor that requires a gradient itself is copied. ``tangent`` is copied where its layout is another one.

    Raises:
        RuntimeError: no level is open, gradients are switched off, or the two do not fit together.
        ValueError: one of them has no floating or complex dtype.

    Example::

        >>> import oneflow.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     fwAD.unpack_dual(fwAD.make_dual(oneflow.zeros(1), oneflow.ones(1)).exp())
        UnpackedDualTensor(primal=tensor([1.]), tangent=tensor([1.]))
    """
    if _level.duals is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, t in (("primal", tensor), ("tangent", tangent)):
        if not (t.is_floating_point() or t.is_complex()):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {t.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    if tensor.dtype != tangent.dtype:
        raise RuntimeError(f"make_dual(): a tangent of {tangent.dtype} does not fit a tensor of {tensor.dtype}")
    if unpack_dual(tangent).tangent is not None:
        raise RuntimeError(
            "make_dual(): the tangent has a forward gradient at the same level as the one that is being set; use its "
            "detach()"
        )
    if not oneflow.is_grad_enabled():
        raise RuntimeError("make_dual(): tangents are read from what is recorded, and nothing is under no_grad")
    if not _same_layout(tensor, tangent):
        tangent = tangent.clone()
    # Where the way back to this dual ends: neither other uses of ``tensor`` nor writes to the result belong to it.
    source = tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()
    made = source.clone() if tensor.requires_grad or tensor.is_sparse else SameMemory.apply(source)
    differentiable = tensor.requires_grad or tangent.requires_grad
    _level.duals.append(_Dual(source, tangent, weakref.ref(made), made.grad_fn, differentiable))
    return made


class SameMemory(Function):
    """Another tensor over the same memory, which may be written: to autograd it is no view."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.detach()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


def _same_layout(a: Tensor, b: Tensor) -> bool:
    """Whether a view of the one can be taken of the other as well."""
    if a.is_sparse or b.is_sparse:
        return a.is_sparse == b.is_sparse
    if a.numel() == 0:
        return True
    try:
        whole = a.untyped_storage().nbytes() == b.untyped_storage().nbytes()
    except NotImplementedError:
        # One of them has no memory of its own: a value of a graph, a global tensor, a sample of a batch.
        return True
    return whole and a.stride() == b.stride() and a.storage_offset() == b.storage_offset()


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the value of ``tensor`` and its tangent.

    Example::

        >>> import oneflow.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     fwAD.unpack_dual(oneflow.ones(1)).tangent is None
        True
    """
    duals = _level.duals
    if not duals or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    differentiable = any(dual.differentiable for dual in duals)
    primal = tensor if differentiable else tensor.detach()
    for dual in duals:
        if dual.made() is tensor and tensor.grad_fn == dual.node:
            return UnpackedDualTensor(primal, dual.tangent)
    with oneflow.enable_grad():
        weights = oneflow.zeros_like(tensor, requires_grad=True)
        products = grad(tensor, [dual.source for dual in duals], weights, create_graph=True, allow_unused=True)
        used = [(p, dual.tangent) for p, dual in zip(products, duals, strict=True) if p is not None]
        if not used:
            return UnpackedDualTensor(primal, None)
        linear = [(product, tangent) for product, tangent in used if product.requires_grad]
        if not linear:
            return UnpackedDualTensor(primal, oneflow.zeros_like(primal))
        pulled: tuple[Tensor | None, ...] = grad(
            [product for product, _ in linear],
            weights,
            [tangent for _, tangent in linear],
            create_graph=differentiable,
            retain_graph=True,
            allow_unused=True,
        )
    found = pulled[0]
    if found is None:
        return UnpackedDualTensor(primal, oneflow.zeros_like(primal))
    if any(found is dual.tangent for dual in duals):
        # It belongs to another tensor, which may be written.
        found = found.clone()
    return UnpackedDualTensor(primal, found)
