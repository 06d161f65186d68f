"""Modules that hold modules or parameters: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from oneflow import Tensor
from oneflow.nn.modules.module import Module
from oneflow.nn.parameter import Parameter

L = TypeVar("L", bound="_IndexedModules")


def _position(index: Any, length: int) -> int:
    i = operator.index(index)
    if not -length <= i < length:
        raise IndexError(f"index {i} is out of range")
    return i % length


class _IndexedModules(Module):
    """Child modules named "0", "1", ...: what Sequential and ModuleList share."""

    def _set_all(self, modules: Iterable[Any]) -> None:
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._sliced(index)
        return list(self._modules.values())[_position(index, len(self))]

    def _sliced(self, index: slice) -> Any:
        return type(self)(list(self._modules.values())[index])

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, list(self._modules)[_position(index, len(self))], module)

    def __delitem__(self, index: Any) -> None:
        keys = list(self._modules)
        doomed = keys[index] if isinstance(index, slice) else [keys[_position(index, len(self))]]
        self._set_all(module for key, module in self._modules.items() if key not in doomed)

    def __dir__(self) -> list[str]:
        return [key for key in super().__dir__() if not key.isdigit()]

    def append(self: L, module: Any) -> L:
        """Add ``module`` at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self: L, modules: Iterable[Any]) -> L:
        """Add all of ``modules`` at the end."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Any) -> Any:
        """Put ``module`` before position ``index``."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._set_all(modules)
        return self

    def pop(self, key: Any) -> Any:
        """Remove and return the module at ``key``."""
        module = self[key]
        del self[key]
        return module


class Sequential(_IndexedModules):
    """Call modules one after another, each on the result of the one before.

    Args:
        args: modules, or one ordered dictionary of them.

    Example::

        >>> net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
        >>> net(oneflow.zeros(3, 4)).shape
        oneflow.Size([3, 2])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def _sliced(self, index: slice) -> Sequential:
        return type(self)(OrderedDict(list(self._modules.items())[index]))

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        """The modules ``times`` times over, in one sequence; the modules themselves are shared."""
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return Sequential(*(list(self) * times))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Sequential:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return self.extend(list(self) * (times - 1))

    def insert(self, index: int, module: Any) -> Sequential:
        """Put ``module`` before position ``index``."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        super().insert(index + n if index < 0 else index, module)
        return self

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_IndexedModules):
    """A list of modules whose parameters are registered. It has no forward.

    Args:
        modules: the first members.

    Example::

        >>> m = nn.ModuleList([nn.Linear(2, 3), nn.ReLU()])
        >>> m.append(nn.Linear(3, 1))
        ModuleList(
          (0): Linear(in_features=2, out_features=3, bias=True)
          (1): ReLU()
          (2): Linear(in_features=3, out_features=1, bias=True)
        )
        >>> len(m)
        3
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def extend(self, modules: Iterable[Any]) -> ModuleList:
        """Add all of ``modules`` at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        return super().extend(modules)

    def insert(self, index: int, module: Module) -> None:
        """Put ``module`` before position ``index``."""
        super().insert(index, module)

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """Show runs of equal modules once, as ``(0-3): 4 x Block(...)``."""
        runs: list[tuple[int, int, str]] = []
        for i, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        if not runs:
            return self._get_name() + "()"
        lines = [f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}" for a, b, text in runs]
        body = "\n".join(lines).replace("\n", "\n  ")
        return f"{self._get_name()}(\n  {body}\n)"


class ModuleDict(Module):
    """A dictionary of modules, in order of insertion.

    Args:
        modules: a mapping, or an iterable of (name, module).

    Example::

        >>> m = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
        >>> list(m)
        ['a', 'b']
        >>> m["a"]
        ReLU()
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove everything."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove and return one module."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def items(self) -> Any:
        """Pairs of name and module."""
        return self._modules.items()

    def update(self, modules: Any) -> None:
        """Add or replace from a mapping or an iterable of pairs."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, "
                f"but got {type(modules).__name__}"
            )
        for name, module in _pairs(modules):
            self[name] = module


class ParameterList(Module):
    """A list of parameters; tensors put into it become parameters.

    Args:
        values: the first members.

    Example::

        >>> m = nn.ParameterList([nn.Parameter(oneflow.ones(2)), nn.Parameter(oneflow.ones(3))])
        >>> len(m)
        2
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return ParameterList([getattr(self, str(i)) for i in range(len(self))[index]])
        return getattr(self, str(_position(index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_position(index, len(self))), _as_parameter(value))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def append(self, value: Any) -> ParameterList:
        """Add one at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add several at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_describe(value)}" for i, value in enumerate(self))


class ParameterDict(Module):
    """A dictionary of parameters, in order of insertion; tensors put into it become parameters.

    Args:
        parameters: a mapping, or an iterable of (name, tensor). As in PyTorch, names of a plain mapping (of neither
            ``OrderedDict`` nor this class) are taken in sorted order.

    Example::

        >>> m = nn.ParameterDict({"w": nn.Parameter(oneflow.ones(2))})
        >>> [name for name, _ in m.named_parameters()]
        ['w']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self) -> Any:
        """The names."""
        return self._keys.keys()

    def values(self) -> Iterator[Any]:
        """The parameters."""
        return (self[key] for key in self._keys)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Pairs of name and parameter."""
        return ((key, self[key]) for key in self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter under ``key``, else ``default``."""
        return self[key] if key in self else default

    def pop(self, key: str) -> Any:
        """Remove and return one."""
        value = self[key]
        del self[key]
        return value

    def update(self, parameters: Any) -> None:
        """Add or replace from a mapping or an iterable of pairs."""
        if not isinstance(parameters, Iterable):
            raise TypeError(
                "ParametersDict.update should be called with an iterable of key/value pairs, "
                f"but got {type(parameters).__name__}"
            )
        pairs = _pairs(parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs = sorted(pairs)
        for name, value in pairs:
            self[name] = value

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The parameter under ``key``; ``default`` is put there first where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last pair of name and parameter."""
        key = next(reversed(self._keys), None)
        if key is None:
            raise KeyError("popitem(): dictionary is empty")
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove everything."""
        for key in list(self._keys):
            del self[key]

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dictionary with ``default`` under each of ``keys``."""
        return ParameterDict((key, default) for key in keys)

    def copy(self) -> ParameterDict:
        """A new dictionary of the same parameters."""
        return ParameterDict(self.items())

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __or__(self, other: Any) -> ParameterDict:
        copied = self.copy()
        copied.update(other)
        return copied

    def __ror__(self, other: Any) -> ParameterDict:
        copied = ParameterDict(_pairs(other))
        copied.update(self)
        return copied

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_describe(value, by_type=True)}" for key, value in self.items())


def _pairs(source: Any) -> Any:
    return source.items() if isinstance(source, (Mapping, ModuleDict, ParameterDict)) else source


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _describe(value: Any, by_type: bool = False) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    size = "x".join(map(str, value.size()))
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    where = "" if value.device.type == "cpu" else f" ({value.device})"
    return f"{kind} containing: [{value.type() if by_type else value.dtype} of size {size}{where}]"
