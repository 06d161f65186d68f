"""Parametrizations: a parameter computed from others each time it is read.

The class of a parametrized module is replaced by a subclass, whose property of that name runs modules over the
originals. ``state_dict`` holds the originals, as ``parametrizations.<name>.original``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn.modules.container import ModuleDict, ModuleList
from oneflow.nn.modules.module import Module
from oneflow.nn.parameter import Parameter

_cache_depth = 0
_cache: dict[tuple[int, str], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once inside.

    Example::

        >>> m = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> with nn.utils.parametrize.cached():
        ...     m.weight is m.weight
        True
    """
    global _cache_depth
    _cache_depth += 1
    try:
        yield
    finally:
        _cache_depth -= 1
        if _cache_depth == 0:
            _cache.clear()


def _put(module: Module, name: str, tensor: Tensor) -> None:
    """Set a parameter or a buffer, by what the tensor is."""
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in order, and what they are computed from: ``original``, or several.

    Args:
        modules: the parametrizations.
        original: the tensor.
        unsafe: skip the checks that shape and dtype stay.

    Example::

        >>> m = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> type(m.parametrizations.weight).__bases__[0].__name__
        'ModuleList'
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before_shape, before_dtype = original.shape, original.dtype
        with oneflow.no_grad():
            new: Any = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass
        if not isinstance(new, Tensor) and not isinstance(new, Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            if original.dtype != new.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            if isinstance(original, Parameter):
                # Optimizers keep the same object.
                with oneflow.no_grad():
                    original.data = new.detach() if new is not original else original.data
                self.original = original
            else:
                self.register_buffer("original", new)
        else:
            for i, part in enumerate(new):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                        f"Got element {i} of the sequence with type {type(part).__name__}."
                    )
                if isinstance(original, Parameter):
                    part = Parameter(part.detach(), original.requires_grad)
                _put(self, f"original{i}", part)
        if not unsafe:
            result = self()
            if not isinstance(result, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
            if result.dtype != before_dtype:
                raise ValueError(
                    "Registering a parametrization may not change the dtype of the tensor, unless `unsafe` flag is "
                    f"enabled.\nunparametrized dtype: {before_dtype}\nparametrized dtype: {result.dtype}"
                )
            if result.shape != before_shape:
                raise ValueError(
                    "Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is "
                    f"enabled.\nunparametrized shape: {before_shape}\nparametrized shape: {result.shape}"
                )

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrized tensor becomes ``value``."""
        with oneflow.no_grad():
            new: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                new = module.right_inverse(new)
            parts = [new] if self.is_tensor else list(new)
            for original, part in zip(self._originals(), parts, strict=True):
                if original.dtype != part.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {part.dtype} while `original` has dtype "
                        f"{original.dtype}"
                    )
                original.data = part.detach()

    def forward(self) -> Tensor:
        """The parametrized tensor."""
        modules = list(self)
        value = modules[0](*self._originals())
        for module in modules[1:]:
            value = module(value)
        return value


def _inject_class(module: Module) -> None:
    """Give the module its own class, to which properties can be added."""
    base = type(module)

    def deepcopy(self: Module, memo: dict[int, Any]) -> Module:
        found = memo.get(id(self))
        if found is not None:
            return found
        replica = self.__new__(type(self))
        memo[id(self)] = replica
        replica.__dict__ = copy.deepcopy(self.__dict__, memo)
        return replica

    def getstate(self: Module) -> Any:
        raise RuntimeError("Serialization of parametrized modules is only supported through state_dict().")

    members: dict[str, Any] = {"__getstate__": getstate}
    if not hasattr(base, "__deepcopy__"):
        members["__deepcopy__"] = deepcopy
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), members)


def _inject_property(module: Module, name: str) -> None:
    def get(self: Module) -> Tensor:
        made = self.parametrizations[name]
        if _cache_depth == 0:
            return made()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = made()
        return _cache[key]

    def put(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether the module, or its tensor of this name, is parametrized.

    Example::

        >>> nn.utils.parametrize.is_parametrized(nn.utils.parametrizations.weight_norm(nn.Linear(2, 3)), "weight")
        True
    """
    lists = getattr(module, "parametrizations", None)
    if not isinstance(lists, ModuleDict):
        return False
    return len(lists) > 0 if tensor_name is None else tensor_name in lists


def _check_inverse(parametrization: Module, value: Tensor, name: str) -> None:
    """The inverse of a further parametrization returns what the one before it takes: a tensor like its result."""
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        inverse = parametrization.right_inverse(value)
    except NotImplementedError:
        return
    if not isinstance(inverse, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(inverse).__name__}")
    for what in ("dtype", "shape"):
        if getattr(inverse, what) != getattr(value, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as {name}, unless the "
                f"`unsafe` flag is enabled.\n{name}.{what}: {getattr(value, what)}\n"
                f"returned {what}: {getattr(inverse, what)}"
            )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let a parameter or buffer be computed by ``parametrization``, after those it has.

    A ``right_inverse`` of the parametrization computes the original from a value, now and on assignment.

    Args:
        module: has the tensor.
        tensor_name: its name.
        parametrization: a module from a tensor (or several) to the tensor.
        unsafe: allow that shape or dtype change.

    Raises:
        ValueError: there is no such tensor, or shape or dtype change.

    Example::

        >>> class Symmetric(nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> m = nn.utils.parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
        >>> oneflow.equal(m.weight, m.weight.T)
        True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        lists = module.parametrizations[tensor_name]
        if not unsafe:
            value = getattr(module, tensor_name)
            result = parametrization(value)
            if not isinstance(result, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
            if result.dtype != value.dtype:
                raise ValueError(
                    "Registering a parametrization may not change the dtype of the tensor, unless the `unsafe` flag "
                    f"is enabled.\nmodule.{tensor_name}.dtype: {value.dtype}\n"
                    f"parametrization(module.{tensor_name}).dtype: {result.dtype}"
                )
            if result.shape != value.shape:
                raise ValueError(
                    "Registering a parametrization may not change the shape of the tensor, unless the `unsafe` flag "
                    f"is enabled.\nmodule.{tensor_name}.shape: {value.shape}\n"
                    f"parametrization(module.{tensor_name}).shape: {result.shape}"
                )
            _check_inverse(parametrization, result, f"module.{tensor_name}")
        lists.append(parametrization)
        lists.unsafe |= unsafe
        return module
    if tensor_name not in module._buffers and tensor_name not in module._parameters:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    made = ParametrizationList([parametrization], original, unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _inject_class(module)
        if "parametrizations" not in module._modules:
            module.parametrizations = ModuleDict()
    _inject_property(module, tensor_name)
    module.parametrizations[tensor_name] = made
    return module


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make the tensor a plain one again: of its present value, or of its original.

    Raises:
        ValueError: it is not parametrized, or has several originals and ``leave_parametrized`` is False.

    Example::

        >>> m = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> nn.utils.parametrize.remove_parametrizations(m, "weight")
        Linear(in_features=2, out_features=3, bias=True)
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    made = module.parametrizations[tensor_name]
    if made.is_tensor:
        original = made.original
        if leave_parametrized:
            with oneflow.no_grad():
                value = getattr(module, tensor_name)
                # Optimizers keep the same object.
                if isinstance(original, Parameter):
                    original.data = value.detach()
                else:
                    original = value
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        grads = any(t.requires_grad for t in made._originals())
        original = Parameter(value.detach()) if grads else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _put(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The module's class without parametrizations.

    Example::

        >>> m = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> nn.utils.parametrize.type_before_parametrizations(m).__name__
        'Linear'
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Copy parametrizations with their originals from one module to another.

    Args:
        from_module, to_module: source and target.
        tensor_name: only this tensor's.

    Example::

        >>> source = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> target = nn.utils.parametrize.transfer_parametrizations_and_params(source, nn.Linear(2, 3))
        >>> oneflow.allclose(target.weight, source.weight)
        True
    """
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        if not is_parametrized(from_module, name):
            raise AssertionError(f"{name} is not parametrized in the source module")
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            _put(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization, unsafe=True)
        target = to_module.parametrizations[name]
        for mine, theirs in zip(target._originals(), source._originals(), strict=True):
            mine.data = theirs.detach().clone()
    return to_module


__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]
