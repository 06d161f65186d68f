"""``__torch_function__``: lets classes override calls of the library's functions.

A class with that method is called for any of its objects in a tensor's place. The compiled module finds such
objects; this file calls their classes.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from oneflow import _oneflow
from oneflow._base.nests import mapped
from oneflow._oneflow import Tensor

__all__ = [
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

_C = _oneflow._C
_disabled_torch_function_impl = _C._disabled_torch_function_impl
# Who hears the calls of a thread, if not classes and modes.
_SUBCLASSES_DISABLED, _ALL_DISABLED = 1, 2


def _disabled_torch_dispatch_impl(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The ``__torch_dispatch__`` of classes that answer no op: the op runs as it is."""
    before = _C._enable_dispatch(False)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        _C._enable_dispatch(before)


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether one of the arguments wants to answer the call it is part of.

    Example::

        >>> oneflow.overrides.has_torch_function((oneflow.ones(1), 2))
        False
    """
    if not isinstance(relevant_args, Iterable):
        raise TypeError(f"expected a sequence, got {type(relevant_args).__name__}")
    return _C._has_torch_function(*relevant_args)


def has_torch_function_unary(arg: Any) -> bool:
    """As :func:`has_torch_function`, of one argument.

    Example::

        >>> oneflow.overrides.has_torch_function_unary(oneflow.ones(1))
        False
    """
    return _C._has_torch_function(arg)


has_torch_function_variadic: Callable[..., bool] = _C._has_torch_function


def is_tensor_like(inp: Any) -> bool:
    """Return whether ``inp`` is a Tensor or has ``__torch_function__``.

    Example::

        >>> oneflow.overrides.is_tensor_like(oneflow.ones(1))
        True
    """
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Let the classes of ``relevant_args`` handle ``public_api(*args, **kwargs)``.

    Raises:
        TypeError: all of them returned NotImplemented.

    Example::

        >>> class Twice:
        ...     @classmethod
        ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
        ...         return "asked"
        >>> oneflow.overrides.handle_torch_function(oneflow.add, (Twice(),), Twice())
        'asked'
    """
    who = [arg for arg in relevant_args if _C._has_torch_function(arg)]
    return _ask(public_api, args, kwargs, who)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function to honour ``__torch_function__``; ``dispatcher`` maps its arguments to the relevant ones.

    Example::

        >>> first = oneflow.overrides.wrap_torch_function(lambda x: (x,))(lambda x: x + 1)
        >>> first(oneflow.ones(1))
        tensor([2.])
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def _ask(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], who: Iterable[Any]) -> Any:
    """Ask the active mode and then each class, subclasses before the classes they derive from."""
    order: list[Any] = []
    for arg in who:
        if any(type(arg) is type(other) for other in order):
            continue
        place = next((i for i, other in enumerate(order) if issubclass(type(arg), type(other))), len(order))
        order.insert(place, arg)
    types = tuple(type(arg) for arg in order)
    if modes := _modes():
        mode = modes.pop()
        _C._count_torch_function_modes(False)
        try:
            result = mode.__torch_function__(function, types, args, kwargs)
        finally:
            modes.append(mode)
            _C._count_torch_function_modes(True)
        if result is not NotImplemented:
            return result
    elif not order:
        # A mode of another thread does not count here.
        was = _C._set_torch_function_state(_ALL_DISABLED)
        try:
            return function(*args, **kwargs)
        finally:
            _C._set_torch_function_state(was)
    for arg in order:
        result = type(arg).__torch_function__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = resolve_name(function) or getattr(function, "__name__", repr(function))
    kinds = "".join(f"\n\n  - tensor subclass {type(arg)}" for arg in order)
    raise TypeError(
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented:{kinds}"
    )


# ---- the implementation of Tensor itself, which its subclasses inherit


def _torch_function(
    cls: type, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """Run ``func`` on the plain tensors and make what it returns a ``cls``."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    was = _C._set_torch_function_state(_SUBCLASSES_DISABLED)
    outer = getattr(_local, "function", None)
    if was and outer is func:
        # Our functions call no class while this runs, but another library's function would recurse forever.
        name = getattr(func, "__name__", repr(func))
        raise TypeError(
            f"{name}() is no function of oneflow and takes no oneflow.Tensor; convert it, "
            "for example by numpy() or through oneflow.utils.dlpack"
        )
    _local.function = func
    try:
        result = func(*args, **(kwargs or {}))
        return result if func in _kept_as_they_are() else _converted(result, cls)
    finally:
        _local.function = outer
        _C._set_torch_function_state(was)


def _converted(value: Any, cls: type) -> Any:
    if isinstance(value, Tensor):
        return value if cls is Tensor or isinstance(value, cls) else value.as_subclass(cls)
    if isinstance(value, (tuple, list)):
        return mapped(lambda item: _converted(item, cls), value)
    return value


@functools.cache
def _kept_as_they_are() -> set[Any]:
    """Functions whose result is somebody's own tensor, not a new one."""
    return {vars(Tensor)["_base"].__get__, vars(Tensor)["grad"].__get__}


class DisableTorchFunctionSubclass:
    """Context manager: no class's ``__torch_function__`` is called inside; modes hear calls still."""

    _state = _SUBCLASSES_DISABLED

    def __enter__(self) -> None:
        self._was = _C._get_torch_function_state()
        _C._set_torch_function_state(max(self._was, self._state))

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _C._set_torch_function_state(self._was)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Context manager: neither a class nor a mode receives calls inside."""

    _state = _ALL_DISABLED


# ---- modes

_local = threading.local()


def _modes() -> list[TorchFunctionMode]:
    try:
        return _local.modes
    except AttributeError:
        _local.modes = []
        return _local.modes


def _n_modes() -> int:
    return len(_modes())


def _get_current_function_mode() -> TorchFunctionMode | None:
    return _modes()[-1] if _modes() else None


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    return list(_modes())


class TorchFunctionMode:
    """A context manager whose ``__torch_function__`` receives every call made inside, whatever its arguments.

    Inside the method the mode itself is off; the modes entered before it are called in turn.

    Example::

        >>> class Names(TorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         print(func.__name__)
        ...         return func(*args, **(kwargs or {}))
        >>> with Names():
        ...     _ = oneflow.ones(2) + 1
        ones
        add
    """

    def __torch_function__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> TorchFunctionMode:
        _modes().append(self)
        _C._count_torch_function_modes(True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _modes().pop()
        _C._count_torch_function_modes(False)


BaseTorchFunctionMode = TorchFunctionMode


# ---- names


# Functions that make tensors, or ask and set what belongs to the process, by namespace: they take no tensor that could
# answer.
_IGNORED = {
    "": """
        arange are_deterministic_algorithms_enabled as_strided as_tensor asarray autocast_decrement_nesting
        autocast_increment_nesting bartlett_window blackman_window broadcast_shapes can_cast clear_autocast_cache
        compile device dtype empty empty_permuted empty_strided enable_grad eye fill finfo from_dlpack from_file
        from_numpy frombuffer full get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype
        get_default_device get_default_dtype get_deterministic_debug_mode get_device_module
        get_float32_matmul_precision get_num_interop_threads get_num_threads get_rng_state hamming_window
        hann_window iinfo inference_mode initial_seed is_anomaly_check_nan_enabled is_anomaly_enabled
        is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled
        is_deterministic_algorithms_warn_only_enabled is_grad_enabled is_inference_mode_enabled is_storage is_tensor
        is_warn_always_enabled kaiser_window layout linspace load logspace manual_seed memory_format no_grad normal
        ones promote_types rand rand_like randint randint_like randn randn_like randperm range result_type save
        scalar_tensor seed set_anomaly_enabled set_autocast_cache_enabled set_autocast_cpu_dtype
        set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype set_default_device
        set_default_dtype set_default_tensor_type set_deterministic_debug_mode set_float32_matmul_precision
        set_flush_denormal set_grad_enabled set_num_interop_threads set_num_threads set_printoptions set_rng_state
        set_warn_always sparse_coo_tensor tensor tril_indices triu_indices typename use_deterministic_algorithms
        vander vmap zeros
    """,
    "functional": "broadcast_shapes",
    "nn.functional": "hardsigmoid hardswish sigmoid tanh upsample upsample_bilinear upsample_nearest",
    "nn.init": """
        calculate_gain constant dirac eye kaiming_normal kaiming_uniform normal orthogonal sparse uniform
        xavier_normal xavier_uniform
    """,
    "Tensor": """
        __class__ __delattr__ __delitem__ __dir__ __getattribute__ __hash__ __init__ __init_subclass__ __iter__
        __new__ __setattr__ __subclasshook__ __torch_function__ _make_subclass _typed_storage as_subclass new
        new_empty new_empty_strided new_full new_ones new_tensor new_zeros stride to_sparse_coo unflatten
    """,
    "fft": "fftfreq rfftfreq",
}
_NAMESPACES = ("", "functional", "nn.functional", "nn.init", "Tensor", "linalg", "fft", "special")


def _namespace(name: str) -> Any:
    import oneflow

    return functools.reduce(getattr, filter(None, name.split(".")), oneflow)


def _asks(function: Any) -> bool:
    """Whether an attribute of a namespace is a function, and neither a class nor a module nor a constant."""
    return callable(function) and not isinstance(function, type)


@functools.cache
def get_overridable_functions() -> dict[Any, list[Any]]:
    """Return the functions that honour ``__torch_function__``, by the namespace they are in; of properties the getters.

    Example::

        >>> oneflow.add in oneflow.overrides.get_overridable_functions()[oneflow]
        True
    """
    ignored = get_ignored_functions()
    found: dict[Any, list[Any]] = {}
    for name in _NAMESPACES:
        place = _namespace(name)
        for leaf in dir(place):
            if place is not Tensor and (leaf.startswith("_") or leaf.endswith("_") or not leaf[0].islower()):
                continue
            value: Any = inspect.getattr_static(place, leaf, None) if place is Tensor else None
            if place is Tensor and (getattr(object, leaf, None) is value or leaf in ("__weakref__", "__dict__")):
                continue
            if not callable(value) and hasattr(value, "__get__") and hasattr(value, "__set__"):
                found.setdefault(value, []).append(value.__get__)
            elif _asks(value := getattr(place, leaf, None)) and value not in ignored:
                found.setdefault(place, []).append(value)
    return found


@functools.cache
def get_testing_overrides() -> dict[Any, Callable[..., int]]:
    """Map each overridable function to one with the same parameters that returns -1.

    Example::

        >>> oneflow.overrides.get_testing_overrides()[oneflow.add](1, 2)
        -1
    """
    functions = dict.fromkeys(f for group in get_overridable_functions().values() for f in group)
    return {function: _dummy(function) for function in functions}


def _dummy(function: Any) -> Callable[..., int]:
    def override(*args: Any, **kwargs: Any) -> int:
        return -1

    if getattr(function, "__name__", None) == "__get__":
        only = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        override.__signature__ = inspect.Signature(only)  # type: ignore[attr-defined]
        return override
    with contextlib.suppress(TypeError, ValueError):
        signature = inspect.signature(function)
        bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        override.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=bare, return_annotation=signature.empty
        )
    return override


def get_default_nowrap_functions() -> set[Any]:
    """Return the functions whose result is not converted to the class of their argument.

    Example::

        >>> oneflow.Tensor.grad.__get__ in oneflow.overrides.get_default_nowrap_functions()
        True
    """
    return set(_kept_as_they_are())


@functools.cache
def get_ignored_functions() -> set[Any]:
    """Return the functions that ignore ``__torch_function__``.

    Example::

        >>> oneflow.zeros in oneflow.overrides.get_ignored_functions()
        True
    """
    places = ((_namespace(place), names.split()) for place, names in _IGNORED.items())
    return {f for place, names in places for name in names if (f := getattr(place, name, None)) is not None}


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Return whether ``func`` is a method of Tensor, or the getter of one of its properties.

    Example::

        >>> oneflow.overrides.is_tensor_method_or_property(oneflow.Tensor.add)
        True
    """
    name = getattr(func, "__name__", None)
    return name == "__get__" or (name is not None and getattr(Tensor, name, None) is func)


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The public name of a function, such as "oneflow.Tensor.add"; None where it has none.

    Example::

        >>> oneflow.overrides.resolve_name(oneflow.add)
        'oneflow.add'
    """
    name = getattr(f, "__name__", None)
    if name is None:
        return None
    if name == "__get__":
        owner = getattr(f, "__self__", None)
        return f"oneflow.Tensor.{getattr(owner, '__name__', '?')}.__get__"
    if getattr(Tensor, name, None) is f:
        return f"oneflow.Tensor.{name}"
    import oneflow

    for place, module in (("oneflow", oneflow), ("oneflow.nn.functional", oneflow.nn.functional)):
        if getattr(module, name, None) is f:
            return f"{place}.{name}"
    return f"{getattr(f, '__module__', None) or 'oneflow'}.{name}"
