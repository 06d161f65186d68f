"""Parameter and Buffer: tensors that a Module recognises when they are assigned to it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.overrides import DisableTorchFunctionSubclass


class _ParameterMeta(type(Tensor)):  # type: ignore[misc]
    """``isinstance(x, Parameter)`` holds for subclasses of Tensor that ``Parameter(x)`` returned too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a :class:`~oneflow.nn.Module` lists among its parameters.

    Args:
        data: a tensor of any shape; its memory is shared. None creates an empty one.
        requires_grad: whether backward fills ``.grad``.

    Example::

        >>> weight = oneflow.nn.Parameter(oneflow.zeros(2, 3))
        >>> weight.requires_grad
        True
    """

    __torch_function__ = _oneflow._C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = oneflow.empty(0)
        if type(data) is Tensor or type(data) is Parameter or isinstance(data, cls):
            return Tensor._make_subclass(cls, data.detach(), requires_grad)
        # A subclass with its own behaviour keeps its class, and counts as a parameter.
        own = data.detach().requires_grad_(requires_grad)
        if type(own) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns "
                f"an instance of the same type, but return type {type(own).__name__} was found instead. To use the "
                "type as a Parameter, please correct what its __torch_function__ makes of detach()."
            )
        own._is_param = True  # type: ignore[attr-defined]
        return own  # type: ignore[return-value]

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        copy = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = copy
        return copy

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        state = dict(self.__dict__)
        if state:
            return _rebuild_parameter_with_state, (self.data, self.requires_grad, OrderedDict(), state)
        return _rebuild_parameter, (self.data, self.requires_grad, OrderedDict())


class _BufferType(type(Tensor)):  # type: ignore[misc]
    """``isinstance(x, Buffer)`` holds for what ``Buffer(x)`` returned, which keeps the class of ``x``."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is Buffer:
            return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)
        return super().__instancecheck__(instance)


class Buffer(Tensor, metaclass=_BufferType):
    """A tensor that a Module lists among its buffers when it is assigned. It has the class of ``data`` and its memory.

    Args:
        data: a tensor of any shape. None creates an empty one.
        persistent: whether ``state_dict`` holds it.

    Example::

        >>> m = nn.Module()
        >>> m.mean = nn.Buffer(oneflow.zeros(2))
        >>> [name for name, _ in m.named_buffers()]
        ['mean']
    """

    __torch_function__ = _oneflow._C._disabled_torch_function_impl
    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = oneflow.empty(0)
        buffer = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent  # type: ignore[attr-defined]
        buffer._is_buffer = True  # type: ignore[attr-defined]
        return buffer  # type: ignore[return-value]


# What a placeholder answers: attributes, and conversions that need no shape.
_WITHOUT_SHAPE = frozenset(
    "__get__ __set__ __hash__ __reduce_ex__ __deepcopy__ __repr__ size copy_ is_complex is_floating_point half float "
    "double bfloat16 char short int long cuda cpu to get_device requires_grad_ retain_grad share_memory_ "
    "register_hook register_post_accumulate_grad_hook materialize".split()
)


class UninitializedTensorMixin:
    """A placeholder of a tensor whose shape is not known yet.

    Example::

        >>> isinstance(oneflow.nn.UninitializedParameter(), oneflow.nn.parameter.UninitializedTensorMixin)
        True
    """

    _becomes: Any
    data: Any

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", str(func))
        if name not in _WITHOUT_SHAPE:
            raise ValueError(
                f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a "
                "`LazyModule` or explicitly manipulating `UninitializedParameter` objects. When using LazyModules call "
                "`forward` with a dummy batch to initialize the parameters before calling functions on them"
            )
        with DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        if type(result) is not Tensor or name.startswith("__"):
            return result
        # Converted, it still has no shape.
        kind: Any = cls
        made = Tensor._make_subclass(kind, result.detach(), result.requires_grad)
        made.__dict__.update(args[0].__dict__)
        return made

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary tensor of this shape, with arbitrary content."""
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data = oneflow.empty(shape if isinstance(shape, int) else tuple(shape), device=device, dtype=dtype)
        self.__class__ = self._becomes

    @property
    def shape(self) -> Any:
        """Raises RuntimeError: there is none yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild_uninitialized, (type(self), self.requires_grad)  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(  # type: ignore[call-arg]
                self.requires_grad,  # type: ignore[attr-defined]
                device=self.data.device,
                dtype=self.data.dtype,
            )
        return memo[id(self)]


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A parameter without shape, for lazy modules.

    Example::

        >>> p = nn.UninitializedParameter()
        >>> p.materialize((2, 3))
        >>> p.shape
        oneflow.Size([2, 3])
    """

    _becomes = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        return Tensor._make_subclass(cls, oneflow.empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer without shape, for lazy modules.

    Example::

        >>> b = nn.UninitializedBuffer()
        >>> b.materialize((2,))
        >>> b.shape
        oneflow.Size([2])
    """

    _becomes = Tensor
    persistent: bool

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        buffer = Tensor._make_subclass(cls, oneflow.empty(0, device=device, dtype=dtype), requires_grad)
        buffer.persistent = persistent
        return buffer


def is_lazy(tensor: Any) -> bool:
    """Return whether it is a placeholder without shape.

    Example::

        >>> oneflow.nn.parameter.is_lazy(oneflow.nn.UninitializedParameter())
        True
    """
    return isinstance(tensor, UninitializedTensorMixin)


def _check_not_lazy(tensor: Any, what: str) -> None:
    """Raise ValueError for a placeholder: ``what`` needs a shape."""
    if is_lazy(tensor):
        raise ValueError(
            f"The module passed to `{what}` can't have uninitialized parameters. Make sure to run the dummy "
            "forward before"
        )


def _rebuild_uninitialized(cls: Any, requires_grad: bool) -> Any:
    return cls(requires_grad)


_oneflow._C._plain_class(Parameter)
_oneflow._C._plain_class(Buffer)
_oneflow._C._plain_class(UninitializedParameter)
_oneflow._C._plain_class(UninitializedBuffer)


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Parameter:
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any) -> Parameter:
    parameter = Parameter(data, requires_grad)
    for key, value in state.items():
        setattr(parameter, key, value)
    return parameter
