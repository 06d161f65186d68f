"""``torch._subclasses.fake_tensor``: tensors that have sizes, strides, a dtype and a device, and no values.

A fake tensor holds a tensor of the device ``meta``, on which its ops run; the device that it seems to lie on need not
exist.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.overrides import TorchFunctionMode
from oneflow.utils import _pytree
from oneflow.utils._python_dispatch import TorchDispatchMode, _disable_current_modes, _get_current_dispatch_mode_stack

# Ops whose results' sizes depend on values.
_DYNAMIC = frozenset(
    "_unique2 argwhere bincount masked_select nonzero unique_consecutive unique_dim repeat_interleave.Tensor".split()
)
# Functions that make tensors of values, which a mode keeps beside the fakes.
_MAKERS = ("tensor", "as_tensor", "asarray", "scalar_tensor", "from_numpy")
# The most elements of a tensor whose values are kept.
_FEW = 64


class DataDependentOutputException(RuntimeError):
    """An op that reads values: fake tensors have none. ``func`` is the op."""

    def __init__(self, func: Any) -> None:
        super().__init__(str(func))
        self.func = func


class DynamicOutputShapeException(RuntimeError):
    """An op whose results' sizes depend on values. ``func`` is the op."""

    def __init__(self, func: Any) -> None:
        super().__init__(str(func))
        self.func = func


class FakeTensorDeviceMismatchError(RuntimeError):
    """Operands that lie on different devices."""


class FakeTensor(Tensor):
    """A tensor without values, made by ops under a :class:`FakeTensorMode` and by its ``from_tensor``.

    Attributes:
        fake_mode: the mode that made it.
        fake_device: the device that it seems to lie on, which ``device`` shows too.
        constant: the tensor that has its values, where these are few and known; None otherwise.
    """

    fake_mode: FakeTensorMode
    fake_device: oneflow.device
    constant: Tensor | None
    _held: Tensor

    @staticmethod
    def __new__(
        cls: Any, fake_mode: FakeTensorMode, elem: Tensor, device: Any, constant: Tensor | None = None
    ) -> FakeTensor:
        if not elem.is_meta:
            raise AssertionError(f"FakeTensor: expected a tensor of the device meta, got one of {elem.device}")
        made: Any = Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), dtype=elem.dtype, device=device, requires_grad=elem.requires_grad
        )
        made.fake_mode, made.fake_device, made.constant = fake_mode, _device(device), constant
        made._held = elem.detach()
        fake: FakeTensor = made
        return fake

    @staticmethod
    def from_tensor(t: Tensor, fake_mode: FakeTensorMode) -> FakeTensor:
        """The fake of a tensor: ``fake_mode.from_tensor(t)``."""
        return fake_mode.from_tensor(t)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        where = "" if self.fake_device.type == "cpu" else f"device='{self.fake_device}', "
        node = self.grad_fn
        grad = (
            f", grad_fn=<{node.name()}>" if node is not None else ", requires_grad=True" if self.requires_grad else ""
        )
        dtype = "" if self.dtype == oneflow.get_default_dtype() else f", dtype={self.dtype}"
        text = f"FakeTensor(..., {where}size={tuple(self.shape)}{dtype}{grad})"
        return f"Parameter({text})" if getattr(self, "_is_param", False) else text

    def __deepcopy__(self, memo: dict[int, Any]) -> FakeTensor:
        if id(self) not in memo:
            made = FakeTensor(self.fake_mode, self._held.clone(), self.fake_device, self.constant)
            memo[id(self)] = _like(made, self)
        found: FakeTensor = memo[id(self)]
        return found

    def numpy(self, *, force: bool = False) -> Any:
        """Raise: there are no values."""
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def tolist(self) -> Any:
        """The values, where they are known."""
        if self.constant is None:
            raise DataDependentOutputException(oneflow.ops.aten._local_scalar_dense.default)
        return self.constant.tolist()

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        fakes = [v for v in _pytree.tree_leaves((args, kwargs or {})) if isinstance(v, FakeTensor)]
        return fakes[0].fake_mode.dispatch(func, types, args, kwargs)


def _device(device: Any) -> oneflow.device:
    """A device with its number."""
    found = oneflow.device(device)
    return oneflow.device("cuda", 0) if found.type == "cuda" and found.index is None else found


def _like(made: FakeTensor, t: Tensor) -> FakeTensor:
    """A fake that wants a gradient, and is a parameter, as a tensor is."""
    made.requires_grad_(t.requires_grad)
    if isinstance(t, oneflow.nn.Parameter):
        made._is_param = True  # type: ignore[attr-defined]
    return made


class FakeTensorMode(TorchDispatchMode):
    """A context manager in which ops make and take tensors without values: :class:`FakeTensor`.

    Args:
        allow_fallback_kernels: accepted; ops without values never run a kernel.
        allow_non_fake_inputs: ops take tensors with values too, as fakes of them.
        shape_env: sizes as symbols are not provided: None alone.
        static_shapes: likewise true or None.
        export: accepted; nothing here depends on it.

    Example::

        >>> import oneflow.mock_torch as mock
        >>> with mock.enable():
        ...     import torch
        ...     from torch._subclasses import FakeTensorMode
        ...     with FakeTensorMode():
        ...         torch.nn.Linear(4, 5)(torch.ones(3, 4, device="cuda").cpu())
        FakeTensor(..., size=(3, 5), grad_fn=<LinearBackward0>)
    """

    def __init__(
        self,
        *,
        allow_fallback_kernels: bool = True,
        allow_non_fake_inputs: bool = False,
        shape_env: Any = None,
        static_shapes: bool | None = None,
        export: bool = False,
    ) -> None:
        if shape_env is not None or static_shapes is False:
            raise NotImplementedError("FakeTensorMode: sizes as symbols are not provided, shape_env must be None")
        super().__init__()
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env, self.static_shapes, self.export = None, True, export
        # By the tensor's identity; an entry goes with its tensor.
        self._known: dict[int, tuple[weakref.ref[Tensor], FakeTensor]] = {}
        self._makers = threading.local()

    def __enter__(self) -> Any:
        makers = _Makers(self)
        makers.__enter__()
        stack: list[_Makers] = self._makers.__dict__.setdefault("stack", [])
        stack.append(makers)
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        self._makers.stack.pop().__exit__(None, None, None)

    def from_tensor(self, tensor: Tensor, *, static_shapes: bool | None = None) -> FakeTensor:
        """The fake of a tensor, the same for each call: of its sizes, strides, dtype, device and need of a gradient.

        Raises:
            AssertionError: the tensor is a fake of another mode.
            NotImplementedError: ``static_shapes`` is false: sizes are numbers.
        """
        if static_shapes is False:
            raise NotImplementedError("FakeTensorMode.from_tensor: sizes as symbols are not provided")
        if isinstance(tensor, FakeTensor):
            if tensor.fake_mode is not self:
                raise AssertionError("Mixing fake modes NYI")
            return tensor
        key, known = id(tensor), self._known
        if (found := known.get(key)) is not None and found[0]() is tensor:
            return found[1]
        fake = _like(self._fake_of(tensor), tensor)
        known[key] = weakref.ref(tensor, lambda _: known.pop(key, None)), fake
        return fake

    def _fake_of(self, tensor: Tensor, constant: Tensor | None = None) -> FakeTensor:
        with _unheard(), oneflow.no_grad():
            sizes, strides = tuple(tensor.shape), tuple(tensor.stride())
            held = oneflow.empty_strided(sizes, strides, dtype=tensor.dtype, device="meta")
        return FakeTensor(self, held, tensor.device, constant)

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self.dispatch(func, types, args, kwargs)

    def dispatch(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The results of an op for tensors without values.

        Raises:
            DataDependentOutputException, DynamicOutputShapeException: the results depend on values.
            FakeTensorDeviceMismatchError: operands of several devices.
            AssertionError: operands with values, or fakes of another mode.
        """
        kwargs = dict(kwargs or {})
        name = str(func).removeprefix("aten.")
        fakes: list[FakeTensor] = []

        def held(t: Tensor) -> Tensor:
            if not isinstance(t, FakeTensor):
                if not self.allow_non_fake_inputs and not t.is_meta:
                    raise AssertionError(
                        "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
                        f"'allow_non_fake_inputs'. Found in {func}"
                    )
                t = self._fake_of(t)
            elif t.fake_mode is not self:
                raise AssertionError("Mixing fake modes NYI")
            fakes.append(t)
            return t._held

        plain_args, plain_kwargs = _pytree.tree_map_only(Tensor, held, (args, kwargs))
        if name.startswith("_local_scalar_dense"):
            if fakes[0].constant is not None:
                return fakes[0].constant.item()
            raise DataDependentOutputException(func)
        _check_sizes_are_known(func, name, fakes)
        device = _common_device(kwargs.get("device"), fakes)
        # Makers have none of `fakes`, and make on the device of the tensors that are held.
        if "device" in plain_kwargs or not fakes:
            plain_kwargs["device"] = "meta"
        plain_kwargs.pop("pin_memory", None)
        results = func(*plain_args, **plain_kwargs)
        # What is written keeps its fake; its values are known no more.
        written = {id(fake._held): fake for fake in fakes}

        def wrapped(t: Tensor) -> Tensor:
            if (fake := written.get(id(t))) is not None:
                fake.constant = None
                return fake
            return FakeTensor(self, t, device)

        return _pytree.tree_map_only(Tensor, wrapped, results)


def _check_sizes_are_known(func: Any, name: str, fakes: list[FakeTensor]) -> None:
    if name in _DYNAMIC or name.partition(".")[0] in _DYNAMIC:
        raise DynamicOutputShapeException(func)
    masks = name == "index.Tensor" and any(fake.dtype in (oneflow.bool, oneflow.uint8) for fake in fakes[1:])
    if masks:
        raise DynamicOutputShapeException(oneflow.ops.aten.nonzero.default)


def _common_device(given: Any, fakes: list[FakeTensor]) -> oneflow.device:
    """The device of an op's results: the one that is asked for, or its operands'; numbers may lie on the host."""
    if given is not None:
        return _device(given)
    if not fakes:
        return _device(oneflow.get_default_device())
    devices = dict.fromkeys(fake.fake_device for fake in fakes if fake.dim() or fake.fake_device.type != "cpu")
    if len(devices) > 1:
        first, second = list(devices)[:2]
        raise FakeTensorDeviceMismatchError(
            f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
        )
    return next(iter(devices), fakes[0].fake_device)


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Run ops of this module's own: modes do not hear them, and are not left either."""
    modes = _get_current_dispatch_mode_stack()
    for mode in reversed(modes):
        TorchDispatchMode.__exit__(mode, None, None, None)
    try:
        yield
    finally:
        for mode in modes:
            TorchDispatchMode.__enter__(mode)


class _Makers(TorchFunctionMode):
    """Tensors that are made of values inside a mode become its fakes."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode

    def __torch_function__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") not in _MAKERS:
            return func(*args, **kwargs)
        device = kwargs.get("device")
        if not any(isinstance(value, Tensor) for value in (*args, *kwargs.values())):
            # Of values, which lie on the host.
            device, kwargs = device or oneflow.get_default_device(), {**kwargs, "device": "cpu"}
        made = func(*args, **kwargs)
        if isinstance(made, FakeTensor) or not isinstance(made, Tensor):
            return made
        with _unheard():
            few = made.detach().clone() if made.numel() <= _FEW and made.is_cpu else None
        fake = _like(self._mode._fake_of(made, few), made)
        return fake if device is None else fake.to(_device(device))


@contextlib.contextmanager
def unset_fake_temporarily() -> Iterator[FakeTensorMode | None]:
    """Leave the modes of fake tensors inside a block."""
    modes = [mode for mode in _get_current_dispatch_mode_stack() if isinstance(mode, FakeTensorMode)]
    with _disable_current_modes():
        yield modes[-1] if modes else None


class FakeTensorConverter:
    """Makes fakes of tensors, each once."""

    def from_real_tensor(self, fake_mode: FakeTensorMode, t: Tensor) -> FakeTensor:
        """``fake_mode.from_tensor(t)``."""
        return fake_mode.from_tensor(t)


def is_fake(x: object) -> bool:
    """Return whether ``x`` is a tensor without values, or has one for its data."""
    return isinstance(x, FakeTensor)


def maybe_get_fake_mode(t: object) -> FakeTensorMode | None:
    """The mode of a fake tensor; None for anything else."""
    return t.fake_mode if isinstance(t, FakeTensor) else None
