"""Methods of Tensor that are functions of OneFlow and of ``nn.functional``, and those that few programs still call."""

from __future__ import annotations

import warnings
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._functions import older_names


def _method(name: str) -> Any:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return getattr(oneflow, name)(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"See :func:`oneflow.{name}`."
    return method


def fill_diagonal_(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Write a number to the main diagonal, in place.

    Args:
        fill_value: the number.
        wrap: of a matrix with more rows than columns, begin again after each block of columns, one row left out.

    Raises:
        RuntimeError: fewer than two dimensions, or more than two of different sizes.

    Example::

        >>> oneflow.zeros(2, 2).fill_diagonal_(3.0)
        tensor([[3., 0.],
                [0., 3.]])
    """
    if self.dim() < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.dim() > 2:
        if len(set(self.shape)) > 1:
            raise RuntimeError("all dimensions of input must be of equal length")
        step = sum(self.stride())
        self.as_strided((self.shape[0],), (step,), self.storage_offset()).fill_(fill_value)
        return self
    height, width = self.shape
    for top in range(0, height if wrap else 1, width + 1):
        self[top:].diagonal().fill_(fill_value)
    return self


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """The same elements with other sizes. Deprecated: use ``reshape`` or ``resize_``.

    Example::

        >>> oneflow.ones(4).resize_(2, 2).shape  # instead
        oneflow.Size([2, 2])
    """
    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    wanted = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    count = 1
    for n in wanted:
        count *= n
    if count != self.numel():
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, wanted))} ({count} elements in total), but the given tensor has "
            f"a size of {'x'.join(map(str, self.shape))} ({self.numel()} elements). autograd's resize can only change "
            "the shape of a given tensor, while preserving the number of elements. "
        )
    return self.reshape(tuple(wanted))


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """The same elements with the sizes of another tensor. Deprecated: use ``reshape_as``.

    Example::

        >>> oneflow.ones(4).resize_as_(oneflow.ones(2, 2)).shape  # instead
        oneflow.Size([2, 2])
    """
    return resize(self, *tensor.shape)


def index(self: Tensor, indices: Any) -> Tensor:
    """``self[indices]``: one index, or None, for each dimension.

    Example::

        >>> oneflow.arange(4).reshape(2, 2).index([None, oneflow.tensor([1])])
        tensor([[1],
                [3]])
    """
    return self[tuple(slice(None) if i is None else i for i in indices)]


def is_offloaded(self: Tensor) -> bool:
    """False: memory stays on the tensor's device.

    Example::

        >>> oneflow.ones(1).is_offloaded
        False
    """
    return False


def offload(self: Tensor) -> None:
    """Move the memory from a GPU to the host. A tensor of the CPU is there: it says so and does nothing.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.ones(1).offload()
    """
    if self.device.type != "cpu":
        raise NotImplementedError("Tensor.offload: memory of a GPU stays there; use Tensor.cpu()")
    warnings.warn("offload: the tensor is in host memory already", stacklevel=2)


def load(self: Tensor) -> None:
    """Move offloaded memory back to its GPU. Nothing is offloaded: it says so and does nothing."""
    warnings.warn("load: the tensor is not offloaded", stacklevel=2)


def contiguous_(self: Tensor) -> Tensor:
    """Give the tensor row-major strides in place: OneFlow's. It leaves the memory that it shared with others.

    Example::

        >>> oneflow.ones(2, 3).t().contiguous_().stride()
        (2, 1)
    """
    return self if self.is_contiguous() else self.set_(self.contiguous())


def ipu(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Raises RuntimeError: there is no provider for such devices.

    Example::

        >>> oneflow.ones(1).ipu()
        Traceback (most recent call last):
            ...
        RuntimeError: there is no provider for ...
    """
    raise RuntimeError("there is no provider for IPUs")


def xpu(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Raises RuntimeError: there is no provider for such devices.

    Example::

        >>> oneflow.ones(1).xpu()
        Traceback (most recent call last):
            ...
        RuntimeError: there is no provider for ...
    """
    raise RuntimeError("there is no provider for Intel's GPUs")


_OWN = (
    older_names.dequantize,
    older_names.ger,
    contiguous_,
    fill_diagonal_,
    index,
    ipu,
    load,
    offload,
    resize,
    resize_as,
    xpu,
)
# Functions of the package that are methods too.
_FUNCTIONS = (
    "cast",
    "in_top_k",
    "mish",
    "nms",
    "quick_gelu",
    "selu",
    "silu",
    "smm",
    "softplus",
    "softsign",
    "sspaddmm",
)


def _hooks(self: Tensor) -> Any:
    """What old code keeps under this name: registered hooks are not among it."""
    return self.__dict__.get("_backward_hooks")


def _set_hooks(self: Tensor, hooks: Any) -> None:
    self.__dict__["_backward_hooks"] = hooks


def _delete_hooks(self: Tensor) -> None:
    raise RuntimeError("Deletion of _backwards_hooks not allowed!")


METHODS: dict[str, Any] = {
    **{method.__name__: method for method in _OWN},
    **{name: _method(name) for name in _FUNCTIONS},
    "is_offloaded": property(is_offloaded),
    "_backward_hooks": property(_hooks, _set_hooks, _delete_hooks),
}
