"""Methods of Tensor that are better written in Python. They are attached to the compiled class at import."""

from __future__ import annotations

import copy
import copyreg
import io
from collections import OrderedDict
from functools import partial
from typing import Any

from oneflow import _oneflow, overrides
from oneflow._base import conventions
from oneflow._base.overridable import overridable_method
from oneflow._functions import compressed, queries
from oneflow._oneflow import Tensor
from oneflow._tensor import printing


def __repr__(self: Tensor, *, tensor_contents: Any = None) -> str:
    with overrides.DisableTorchFunctionSubclass():
        return printing.tensor_str(self, tensor_contents)


def __format__(self: Tensor, format_spec: str) -> str:
    if self.dim() == 0 and not self.is_meta and issubclass(type(self), Tensor):
        return self.item().__format__(format_spec)
    return object.__format__(self, format_spec)


def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf and not conventions.are_oneflows():
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. "
            + conventions.HINT
        )
    from oneflow import no_grad

    with no_grad(), overrides.DisableTorchFunctionSubclass():
        is_sparse = compressed.is_compressed(self) or self.is_sparse
        without_memory = _oneflow._C._is_without_memory(self)
        plain = self.is_local and not (is_sparse or self.is_meta or self.is_lazy or without_memory)
        if without_memory:
            result = self.clone()
        elif plain:
            # Tensors that share memory share it after the copy too.
            storage = self.untyped_storage().__deepcopy__(memo)
            result = self.new_empty(())
            result.set_(storage, self.storage_offset(), self.size(), self.stride())
        else:
            result = self.detach().clone()
        if type(self) is not Tensor and type(result) is not type(self):
            result = Tensor._make_subclass(type(self), result, False)
        memo[id(self)] = result
        result.requires_grad_(self.requires_grad)
        if self.is_leaf and self.grad is not None:
            result.grad = self.grad.__deepcopy__(memo)
        _copy_attributes(self, result, memo)
    return result


def _copy_attributes(source: Tensor, target: Tensor, memo: dict[int, Any]) -> None:
    for name, value in (getattr(source, "__dict__", None) or {}).items():
        target.__dict__[name] = copy.deepcopy(value, memo)
    if type(source) is not Tensor:
        for name in copyreg._slotnames(type(source)):  # type: ignore[attr-defined]
            if hasattr(source, name):
                setattr(target, name, copy.deepcopy(getattr(source, name), memo))


def __reduce_ex__(self: Tensor, protocol: Any) -> Any:
    """Plain ``pickle`` and ``copy.copy``: the memory as a storage, which tensors share, and a layout over it."""
    with overrides.DisableTorchFunctionSubclass():
        if compressed.is_compressed(self):
            parts = compressed.parts_by_name(self)
            rebuilt: tuple[Any, ...] = (_rebuild_compressed, (*parts.values(), tuple(self.shape), self.layout))
        elif self.is_sparse:
            args: tuple[Any, ...] = (self._indices(), self._values(), tuple(self.shape), self.is_coalesced())
            rebuilt = (_rebuild_sparse, args)
        elif _oneflow._C._is_without_memory(self):
            rebuilt = (_rebuild_wrapper_subclass, wrapper_description(self))
        elif self.is_meta:
            rebuilt = (_rebuild_meta, (self.dtype, tuple(self.shape), tuple(self.stride()), self.requires_grad))
        elif not self.is_local:
            import oneflow

            buffer = io.BytesIO()
            oneflow.save(self, buffer)
            return _tensor_from_bytes, (buffer.getvalue(),)
        else:
            layout = (self.storage_offset(), tuple(self.shape), tuple(self.stride()))
            storage = _storage_of(self)
            rebuilt = (_rebuild_tensor, (storage, self.dtype, *layout, self.requires_grad, OrderedDict()))
        state = _attributes(self)
    if type(self) is Tensor and not state:
        return rebuilt
    return _rebuild_from_type, (rebuilt[0], type(self), rebuilt[1], state)


def _storage_of(tensor: Tensor) -> Any:
    """One object a storage for as long as somebody pickles it: pickle keeps what is shared by identity."""
    storage = tensor.untyped_storage()
    found = _storages.get(storage._cdata)
    kept = found() if found is not None else None
    if kept is None or kept != storage:
        import weakref

        key = storage._cdata
        _storages[key] = weakref.ref(storage, lambda _: _storages.pop(key, None))
        return storage
    return kept


_storages: dict[int, Any] = {}


def _attributes(tensor: Tensor) -> Any:
    if type(tensor) is Tensor or type(tensor).__getstate__ is object.__getstate__:  # type: ignore[attr-defined]
        slots = [] if type(tensor) is Tensor else copyreg._slotnames(type(tensor))  # type: ignore[attr-defined]
        state = getattr(tensor, "__dict__", None) or {}
        held = {name: getattr(tensor, name) for name in slots if hasattr(tensor, name)}
        return (state, held) if held else state
    return tensor.__getstate__()  # type: ignore[attr-defined]


def _tensor_from_bytes(data: bytes) -> Tensor:
    import oneflow

    return oneflow.load(io.BytesIO(data))


# Pickles name it so.
_tensor_from_bytes.__module__ = "oneflow.serialization"


def _rebuild_tensor(
    storage: Any, dtype: Any, offset: int, size: Any, stride: Any, requires_grad: bool, hooks: Any
) -> Tensor:
    import oneflow

    tensor = oneflow.empty((0,), dtype=dtype, device=storage.device).set_(storage, offset, size, stride)
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_meta(dtype: Any, size: Any, stride: Any, requires_grad: bool) -> Tensor:
    import oneflow

    tensor = oneflow.empty_strided(size, stride, dtype=dtype, device="meta")
    return tensor.requires_grad_() if requires_grad else tensor


def wrapper_description(tensor: Tensor) -> tuple[Any, ...]:
    """Of what pickles make a tensor without memory again; its attributes follow."""
    layout = (tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset(), tensor.layout)
    return (type(tensor), tensor.dtype, *layout, tensor.device, tensor.requires_grad)


def _rebuild_wrapper_subclass(
    cls: Any, dtype: Any, size: Any, stride: Any, offset: Any, layout: Any, device: Any, requires_grad: Any
) -> Tensor:
    return _make_wrapper_subclass(
        cls, size, stride, offset, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def _rebuild_sparse(indices: Tensor, values: Tensor, size: Any, is_coalesced: bool) -> Tensor:
    import oneflow

    return oneflow.sparse_coo_tensor(indices, values, size, is_coalesced=is_coalesced)


def _rebuild_compressed(starts: Tensor, plain: Tensor, values: Tensor, size: Any, layout: Any) -> Tensor:
    return compressed.sparse_compressed_tensor(starts, plain, values, size, layout=layout)


def _rebuild_from_type(function: Any, cls: type, args: tuple[Any, ...], state: Any) -> Tensor:
    with overrides.DisableTorchFunctionSubclass():
        tensor = function(*args)
        if type(tensor) is not cls:
            requires_grad = tensor.requires_grad
            tensor = Tensor._make_subclass(cls, tensor, requires_grad)
    _set_attributes(tensor, state)
    return tensor


def _set_attributes(tensor: Tensor, state: Any) -> None:
    if hasattr(type(tensor), "__setstate__"):
        tensor.__setstate__(state)  # type: ignore[attr-defined]
        return
    set_state(tensor, state)


def set_state(target: Any, state: Any) -> Any:
    """Give an object the attributes of a pickled state: a dictionary, or one and that of its slots; return it."""
    held: dict[str, Any] = {}
    if isinstance(state, tuple):
        state, held = state
    for name, value in {**(state or {}), **(held or {})}.items():
        setattr(target, name, value)
    return target


def __dir__(self: Tensor) -> list[str]:
    return sorted({*dir(type(self)), *(getattr(self, "__dict__", None) or {})})


_nonzero_indices = Tensor.nonzero


def nonzero(self: Tensor, *, as_tuple: bool = False) -> Any:
    """Indices of the non-zero elements: one row each, or with ``as_tuple`` one tensor a dimension.

    Example::

        >>> oneflow.tensor([0, 3]).nonzero()
        tensor([[1]])
    """
    return _oneflow._C.nonzero_tuple(self) if as_tuple else _nonzero_indices(self)


def storage(self: Tensor) -> Any:
    """The memory behind the tensor, as elements of its dtype.

    Example::

        >>> oneflow.ones(2).storage().size()
        2
    """
    from oneflow.storage import TypedStorage

    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


def storage_type(self: Tensor) -> type:
    """Return the class of ``storage()``: by dtype in host memory, ``TypedStorage`` elsewhere.

    Example::

        >>> oneflow.ones(2).storage_type().__name__
        'FloatStorage'
    """
    import oneflow
    from oneflow.storage import TypedStorage, _dtype_to_storage_type_map

    if self.device.type != "cpu":
        return TypedStorage
    return getattr(oneflow, _dtype_to_storage_type_map()[self.dtype])


def share_memory_(self: Tensor) -> Tensor:
    """Move the memory where forked processes share it; views move with it.

    Example::

        >>> oneflow.ones(1).share_memory_().is_shared()
        True
    """
    self.untyped_storage().share_memory_()
    return self


def is_shared(self: Tensor) -> bool:
    """Return whether forked processes share the memory.

    Example::

        >>> oneflow.ones(1).is_shared()
        False
    """
    return self.untyped_storage().is_shared()


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Return a copy in pinned host memory, which a GPU copies by itself; the tensor where it lies there already.

    Copies from it with ``non_blocking=True`` return when they are issued: until they are done, nobody may write to it.

    Args:
        device: accepted for compatibility; memory is pinned for all GPUs.

    Raises:
        RuntimeError: there is no GPU that pinned memory would serve, or the tensor is not in host memory.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     batch = oneflow.ones(4).pin_memory().to("cuda", non_blocking=True)
    """
    import oneflow

    if self.device.type != "cpu":
        raise RuntimeError(f"cannot pin '{self.type()}': only dense CPU tensors can be pinned")
    if not oneflow.cuda.is_available():
        raise RuntimeError("pin_memory(): found no GPU: memory is pinned for copies to one")
    if self.is_pinned():
        return self
    like: Any = oneflow.empty_like
    dense: Tensor = like(self, pin_memory=True, requires_grad=False)
    return dense.copy_(self)


def __array_wrap__(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
    """Convert the result of a NumPy function of tensors; NumPy calls it."""
    import oneflow

    return oneflow.from_numpy(array) if getattr(array, "shape", None) is not None else oneflow.tensor(array)


def new(self: Tensor, *args: Any, size: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of this dtype: of the given sizes, uninitialised, or with the given data or storage.

    That of a global tensor is global, with its placement and sbp.

    Example::

        >>> oneflow.ones(1).new(2).shape
        oneflow.Size([2])
    """
    import oneflow

    if device is not None and oneflow.device(device).type != self.device.type:
        raise RuntimeError(
            f"legacy constructor expects device type: {self.device.type} but device type: "
            f"{oneflow.device(device).type} was passed"
        )
    where: Any
    if self.is_global and device is None:
        where = {"placement": self.placement, "sbp": self.sbp}
    else:
        where = {"device": self.device if device is None else device}
    if size is not None:
        args = (*args, oneflow.Size(size))
    if len(args) == 1 and isinstance(args[0], (oneflow.UntypedStorage, oneflow.TypedStorage)):
        if isinstance(args[0], oneflow.TypedStorage) and args[0].dtype != self.dtype:
            raise RuntimeError(f"new(): expected a storage of {self.dtype}, but got one of {args[0].dtype}")
        return oneflow.empty((0,), dtype=self.dtype, device=args[0].device).set_(args[0])
    if len(args) == 1 and isinstance(args[0], (list, tuple)) and not isinstance(args[0], oneflow.Size):
        return oneflow.tensor(args[0], dtype=self.dtype, **where)
    if len(args) == 1 and isinstance(args[0], Tensor):
        if args[0].dtype != self.dtype:
            raise TypeError(f"new(): expected a tensor of {self.dtype}, but got one of {args[0].dtype}")
        return args[0].detach()
    if len(args) == 1 and hasattr(args[0], "__array__"):
        return oneflow.tensor(args[0], dtype=self.dtype, **where)
    sizes = args[0] if len(args) == 1 and isinstance(args[0], oneflow.Size) else args or (0,)
    return oneflow.empty(tuple(sizes), dtype=self.dtype, **where)


def apply_(self: Tensor, callable: Any) -> Tensor:
    """Replace each element by ``callable`` of it. One Python call an element: slow.

    Example::

        >>> oneflow.tensor([1.0, 2.0]).apply_(lambda v: v + 1)
        tensor([2., 3.])
    """
    if self.device.type != "cpu":
        raise TypeError("apply_ is only implemented on CPU tensors")
    return _filled(self, [callable(value) for value in self.detach().flatten().tolist()])


def map_(self: Tensor, tensor: Tensor, callable: Any) -> Tensor:
    """Replace each element by ``callable`` of it and of the other tensor's. One Python call an element: slow.

    Example::

        >>> oneflow.tensor([1.0, 2.0]).map_(oneflow.tensor([3.0, 4.0]), lambda a, b: a * b)
        tensor([3., 8.])
    """
    return _mapped(self, (tensor,), callable)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """Replace each element by ``callable`` of it and of those of two other tensors. One Python call an element: slow.

    Example::

        >>> oneflow.tensor([1.0]).map2_(oneflow.tensor([2.0]), oneflow.tensor([3.0]), lambda a, b, c: a + b * c)
        tensor([7.])
    """
    return _mapped(self, (x, y), callable)


def _mapped(self: Tensor, others: tuple[Tensor, ...], callable: Any) -> Tensor:
    if any(tensor.requires_grad for tensor in (self, *others)):
        raise RuntimeError("Can't call map_() or map2_() on a Variable that requires grad. Use var.detach() instead.")
    columns = [self.flatten().tolist(), *(tensor.expand_as(self).flatten().tolist() for tensor in others)]
    return _filled(self, [callable(*row) for row in zip(*columns, strict=True)])


def _filled(self: Tensor, values: list[Any]) -> Tensor:
    import oneflow

    return self.copy_(oneflow.tensor(values, dtype=self.dtype).view(self.shape))


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """Return the tensor that a module keeps when ``other`` is loaded into this parameter or buffer.

    Example::

        >>> oneflow.nn.Parameter(oneflow.zeros(2)).module_load(oneflow.ones(2))
        tensor([1., 1.])
    """
    return other.detach() if assign else self.detach().copy_(other)


def record_stream(self: Tensor, stream: Any) -> None:
    """Note that work of a stream uses the tensor: its memory is handed out again only when that work is done, too.

    A tensor is made on the stream that is current then, and its memory goes back to that stream. Other streams that use
    it must be named. Tensors on the CPU need no stream.

    Args:
        stream: a :class:`oneflow.cuda.Stream` of the tensor's device.

    Raises:
        TypeError: the tensor is on a GPU and ``stream`` is not one of its streams.
        RuntimeError: the stream belongs to another GPU.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     side = oneflow.cuda.Stream()
        ...     x = oneflow.ones(2, device="cuda")
        ...     x.record_stream(side)
        >>> oneflow.ones(1).record_stream(None)
    """
    if not self.is_cuda:
        return
    raw = getattr(stream, "_raw", None)
    if not isinstance(raw, _oneflow._CudaStream):
        raise TypeError(f"record_stream(): expected a oneflow.cuda.Stream, got {type(stream).__name__}")
    _oneflow._cuda_record_stream(self, raw)


def is_view(self: Tensor) -> bool:
    """Return whether the tensor is a view of another one, as OneFlow asks.

    Example::

        >>> oneflow.ones(2, 3).t().is_view()
        True
    """
    return self._base is not None


def _is_view(self: Tensor) -> bool:
    """Return whether the tensor is a view of another one that autograd follows."""
    return self._base is not None


def is_distributed(self: Tensor) -> bool:
    """Return False: the attribute ``is_global`` marks tensors of several ranks.

    Example::

        >>> oneflow.ones(1).is_distributed()
        False
    """
    return False


def _part(name: str, index: int) -> property:
    def part(self: Tensor) -> Tensor:
        import oneflow

        if not self.is_complex():
            if index == 0:
                return self
            raise TypeError("imag is not implemented for tensors with non-complex dtypes.")
        return oneflow.view_as_real(self).select(-1, index)

    def get(self: Tensor) -> Any:
        # A method in OneFlow.
        return partial(part, self) if conventions.are_oneflows() else part(self)

    def put(self: Tensor, value: Any) -> None:
        part(self).copy_(value)

    return property(get, put, doc=f"The {name} parts, as a view.")


def _never(name: str) -> property:
    """A property that is False for every tensor there is."""

    def no(self: Tensor) -> bool:
        return False

    no.__doc__ = f"False: no provider has such tensors.\n\nExample::\n\n    >>> oneflow.ones(1).{name}\n    False\n"
    return property(no)


# Attributes that other devices and formats have, and no tensor here.
_NEVER = (
    "is_ipu",
    "is_maia",
    "is_mkldnn",
    "is_mps",
    "is_mtia",
    "is_nested",
    "is_quantized",
    "is_vulkan",
    "is_xla",
    "is_xpu",
    "volatile",
)


def __reversed__(self: Tensor) -> Tensor:
    return self if self.dim() == 0 else self.flip(0)


def __rdiv__(self: Tensor, other: Any) -> Tensor:
    """The old name of ``other / self``."""
    return self.reciprocal() * other


def _make_wrapper_subclass(
    cls: type,
    size: Any,
    strides: Any = None,
    storage_offset: int | None = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
) -> Any:
    """A tensor without memory, of a class whose ``__torch_dispatch__`` answers every op on it.

    Args:
        cls: the class, a subclass of Tensor that defines ``__torch_dispatch__``.
        size: the shape that the tensor shows.
        strides, storage_offset: what it shows of a layout, in elements; contiguous by default.
        memory_format: contiguous, channels_last or channels_last_3d in place of ``strides``.
        dtype: what it shows; the default dtype by default.
        layout: ``oneflow.strided``.
        device: what it shows; the CPU by default.
        requires_grad: whether backward fills ``.grad``.
        pin_memory, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout: as by default, nothing else.

    Raises:
        TypeError: the class does not define ``__torch_dispatch__``.
        NotImplementedError: another layout, pinned memory, or shapes or devices that the class computes.

    Example::

        >>> class Doubled(oneflow.Tensor):
        ...     @staticmethod
        ...     def __new__(cls, half):
        ...         made = oneflow.Tensor._make_wrapper_subclass(cls, half.shape, dtype=half.dtype)
        ...         made.half = half
        ...         return made
        ...     __torch_function__ = oneflow._C._disabled_torch_function_impl
        ...     @classmethod
        ...     def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        ...         whole = [x.half * 2 if isinstance(x, Doubled) else x for x in args]
        ...         return func(*whole, **(kwargs or {}))
        >>> Doubled(oneflow.ones(2)) + 1
        tensor([3., 3.])
    """
    import oneflow

    if layout not in (None, oneflow.strided):
        raise NotImplementedError(f"_make_wrapper_subclass(): only layout=strided is supported, got {layout}")
    computed = {
        "pin_memory": pin_memory,
        "dispatch_sizes_strides_policy": dispatch_sizes_strides_policy,
        "dispatch_device": dispatch_device,
        "dispatch_layout": dispatch_layout,
    }
    for name, value in computed.items():
        if value:
            raise NotImplementedError(f"_make_wrapper_subclass(): {name}={value!r} is not supported")
    size = [size] if isinstance(size, int) else [int(n) for n in size]
    if strides is None and memory_format not in (None, oneflow.contiguous_format, oneflow.preserve_format):
        strides = oneflow.empty(size, device="meta", memory_format=memory_format).stride()
    return _oneflow._C._wrapper_subclass(
        cls,
        size,
        None if strides is None else [int(n) for n in strides],
        int(storage_offset or 0),
        oneflow.get_default_dtype() if dtype is None else dtype,
        "cpu" if device is None else device,
        bool(requires_grad),
    )


METHODS: dict[str, Any] = {
    "_make_wrapper_subclass": staticmethod(_make_wrapper_subclass),
    "__torch_dispatch__": overrides._disabled_torch_dispatch_impl,
    "__rdiv__": __rdiv__,
    "allclose": queries.allclose,
    "equal": queries.equal,
    "is_nonzero": queries.is_nonzero,
    "is_same_size": queries.is_same_size,
    "nonzero": overridable_method(nonzero),
    "__repr__": overridable_method(__repr__, special=True),
    "__format__": overridable_method(__format__, special=True),
    "__deepcopy__": overridable_method(__deepcopy__, special=True),
    "__reduce_ex__": __reduce_ex__,
    "__dir__": __dir__,
    "__reversed__": overridable_method(__reversed__, special=True),
    "__array_wrap__": overridable_method(__array_wrap__, special=True),
    "storage": overridable_method(storage),
    "_typed_storage": storage,
    "storage_type": storage_type,
    "share_memory_": overridable_method(share_memory_),
    "is_shared": overridable_method(is_shared),
    "pin_memory": overridable_method(pin_memory),
    "__torch_function__": classmethod(overrides._torch_function),
    "new": overridable_method(new),
    "apply_": overridable_method(apply_),
    "map_": overridable_method(map_),
    "map2_": overridable_method(map2_),
    "module_load": overridable_method(module_load),
    "record_stream": record_stream,
    "is_distributed": is_distributed,
    "_is_view": _is_view,
    # Older programs assign it.
    "_grad": property(lambda self: self.grad, lambda self, value: setattr(self, "grad", value)),
    "is_view": is_view,
    "is_conj": queries.is_conj,
    "is_neg": queries.is_neg,
    "resolve_conj": queries.resolve_conj,
    "resolve_neg": queries.resolve_neg,
    "real": _part("real", 0),
    "imag": _part("imaginary", 1),
    **{name: _never(name) for name in _NEVER},
}
