"""An unpickler that builds only what is on its list: the reason why loading a checkpoint cannot run foreign code.

It keeps to the few opcodes that checkpoints need, calls only listed functions, and never touches attributes of shared
objects. It reads the pickle of a checkpoint; the archive around it is read in ``serialization.py``.
"""

from __future__ import annotations

import pickle
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, ClassVar

_OPCODES = (
    "PROTO STOP FRAME MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 LONG4 BINFLOAT "
    "BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINSTRING SHORT_BINSTRING EMPTY_LIST EMPTY_TUPLE "
    "EMPTY_DICT EMPTY_SET TUPLE TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS SETITEM SETITEMS ADDITEMS BINGET LONG_BINGET "
    "BINPUT LONG_BINPUT MEMOIZE GLOBAL STACK_GLOBAL REDUCE NEWOBJ BUILD BINPERSID"
).split()
_user_globals: dict[str, Any] = {}


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Let ``load`` build these classes and call these functions; an entry may be (object, "module.name").

    Example::

        >>> import collections
        >>> oneflow.serialization.add_safe_globals([collections.deque])
        >>> collections.deque in oneflow.serialization.get_safe_globals()
        True
        >>> oneflow.serialization.clear_safe_globals()
    """
    for entry in safe_globals:
        if isinstance(entry, tuple):
            _user_globals[entry[1]] = entry[0]
        else:
            _user_globals[f"{entry.__module__}.{entry.__qualname__}"] = entry


def clear_safe_globals() -> None:
    """Forget everything that was added.

    Example::

        >>> oneflow.serialization.clear_safe_globals()
        >>> oneflow.serialization.get_safe_globals()
        []
    """
    _user_globals.clear()


def get_safe_globals() -> list[Any]:
    """Return what was added.

    Example::

        >>> oneflow.serialization.get_safe_globals()
        []
    """
    return list(_user_globals.values())


class safe_globals:
    """Context manager: ``add_safe_globals`` for the time of a block.

    Example::

        >>> import collections
        >>> with oneflow.serialization.safe_globals([collections.deque]):
        ...     len(oneflow.serialization.get_safe_globals())
        1
    """

    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self.added = list(safe_globals)

    def __enter__(self) -> safe_globals:
        self.before = dict(_user_globals)
        add_safe_globals(self.added)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _user_globals.clear()
        _user_globals.update(self.before)


class Listed:
    """One function that a file may call by name, wrapped so that a file never reaches the function's attributes."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name
        self.call = call


def check_key(key: Any) -> Any:
    """Return ``key`` if it may be a dictionary key.

    Hashing deep nests of tuples would overflow the C stack; where tuples hold one tuple several times, it visits every
    path, so that a few bytes of a file could keep it busy for ever.
    """
    visits, level = 0, [key] if isinstance(key, tuple) else []
    for _ in range(8):
        if not level:
            return key
        visits += sum(map(len, level))
        if visits > 10_000:
            raise pickle.UnpicklingError("a dictionary key in the file has too many parts")
        level = [item for part in level for item in part if isinstance(item, tuple)]
    if level:
        raise pickle.UnpicklingError("a dictionary key in the file is nested too deeply")
    return key


def as_text(value: Any) -> Any:
    """Names in a persistent id that were read as bytes, which ``encoding="bytes"`` makes of Python 2's strings."""
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value


def _ordered_dict(items: Any = ()) -> OrderedDict[Any, Any]:
    result: OrderedDict[Any, Any] = OrderedDict()
    for key, value in items:
        result[check_key(key)] = value
    return result


def _set(items: Any = ()) -> set[Any]:
    return {check_key(item) for item in items}


def _counter(items: Any = ()) -> Counter[Any]:
    if not isinstance(items, dict):
        raise pickle.UnpicklingError("a Counter in the file has no dictionary")
    return Counter(items)


def _encode(text: str, encoding: str = "latin1") -> bytes:
    # How protocol 2 spells a bytes object.
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"encoding {encoding!r} is not allowed")
    return text.encode("latin1")


def _numpy_dtype(name: Any, *flags: Any) -> Any:
    import numpy

    result = numpy.dtype(str(name))
    if result.hasobject:
        raise pickle.UnpicklingError("numpy object arrays are not allowed")
    return result


def _numpy_scalar(dtype: Any, data: Any = b"") -> Any:
    import numpy

    if not isinstance(dtype, numpy.dtype) or not isinstance(data, bytes) or len(data) != dtype.itemsize:
        raise pickle.UnpicklingError("a numpy scalar in the file has the wrong length")
    return numpy.frombuffer(data, dtype)[0]


_BASIC: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _ordered_dict,
    "collections.Counter": _counter,
    "builtins.set": _set,
    "builtins.bytearray": lambda data=b"": bytearray(data if isinstance(data, bytes) else b""),
    "builtins.complex": lambda real=0.0, imag=0.0: complex(real, imag),
    "_codecs.encode": _encode,
    "numpy.dtype": _numpy_dtype,
    "numpy.core.multiarray.scalar": _numpy_scalar,
    "numpy._core.multiarray.scalar": _numpy_scalar,
}


# Modules that reach the system: no list allows their functions.
_BLOCKED = ("sys", "os", "posix", "nt")


def _set_state(target: Any, state: Any) -> None:
    """Applies ``pickle``'s rules for the state of an object."""
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        target.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(target, name, value)


def _full_name(module: str, name: str) -> str:
    """The name in this Python: protocol 2 writes names as Python 2 had them."""
    module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
    return f"{module}.{name}"


def is_listed(module: str, name: str, functions: dict[str, Any]) -> bool:
    """Return whether the restricted unpickler builds this name."""
    full = _full_name(module, name)
    return full in _user_globals or full in functions or full in _BASIC


# The implementation in Python: its opcodes are methods that can be replaced one by one. Its type stub is incomplete.
_Unpickler: Any = pickle._Unpickler


class RestrictedUnpickler(_Unpickler):
    """Unpickler over a list of names.

    Args:
        file: binary file with the pickle.
        functions: name to function, besides the basic containers; a value that is no function is an object itself.
        load_storage: called with the tuple of every persistent id.
    """

    def __init__(
        self, file: Any, functions: dict[str, Any], load_storage: Callable[[Any], Any], encoding: str = "utf-8"
    ) -> None:
        super().__init__(file, encoding=encoding)
        self.functions = functions
        self.load_storage = load_storage

    dispatch: ClassVar[dict[int, Any]] = {
        getattr(pickle, name)[0]: _Unpickler.dispatch[getattr(pickle, name)[0]] for name in _OPCODES
    }

    def load(self) -> Any:
        """Read one object.

        Raises:
            pickle.UnpicklingError: the pickle is broken, or wants something that is not on the list.
        """
        try:
            return super().load()
        except (pickle.UnpicklingError, RuntimeError, MemoryError):
            raise
        except KeyError as error:
            code = error.args[0] if error.args else None
            raise pickle.UnpicklingError(f"opcode or memo entry {code!r} is not allowed or missing") from error
        except Exception as error:
            raise pickle.UnpicklingError(f"the pickle is broken: {type(error).__name__}: {error}") from error

    def find_class(self, module: str, name: str) -> Any:
        full = _full_name(module, name)
        if full.partition(".")[0] in _BLOCKED:
            raise pickle.UnpicklingError(
                f"Weights only load failed. Trying to load unsupported GLOBAL {full} whose module "
                f"{full.partition('.')[0]} is blocked: it cannot be allowed"
            )
        if full in _user_globals:
            return _user_globals[full]
        found = self.functions.get(full, _BASIC.get(full))
        if found is None:
            short = full.rpartition(".")[2]
            raise pickle.UnpicklingError(
                f"Weights only load failed. Unsupported global: GLOBAL {full} was not an allowed global by default: "
                "weights_only=True refuses the name. If you trust the file, use "
                f"`oneflow.serialization.add_safe_globals([{short}])` or the "
                f"`oneflow.serialization.safe_globals([{short}])` context manager to allowlist this global, or pass "
                "weights_only=False, which can run any code in the file"
            )
        return Listed(full, found) if callable(found) and not isinstance(found, type(None)) else found

    def persistent_load(self, pid: Any) -> Any:
        return self.load_storage(pid)

    def _load_reduce(self) -> None:
        args = self.stack.pop()
        function = self.stack[-1]
        self.stack[-1] = self._build(function, args)

    def _build(self, function: Any, args: Any) -> Any:
        if not isinstance(args, tuple):
            raise pickle.UnpicklingError("the arguments of a call are no tuple")
        if isinstance(function, Listed):
            return function.call(*args)
        if any(function is allowed for allowed in _user_globals.values()):
            return function(*args)
        raise pickle.UnpicklingError(f"the pickle calls an object of type {type(function).__name__}")

    def _load_newobj(self) -> None:
        args = self.stack.pop()
        cls = self.stack.pop()
        if isinstance(cls, type) and any(cls is allowed for allowed in _user_globals.values()):
            self.append(cls.__new__(cls, *args))
        else:
            self.append(self._build(cls, args))

    def _load_build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if type(target) is OrderedDict:
            # A state dictionary carries its metadata as an attribute.
            if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
                raise pickle.UnpicklingError("the attributes of an OrderedDict are no dictionary")
            target.__dict__.update(state)
        elif type(target).__module__.startswith("numpy") and hasattr(target, "byteorder"):
            if not isinstance(state, tuple) or len(state) < 2 or state[1] not in ("<", "|", "="):
                raise pickle.UnpicklingError("a numpy dtype in the file has an unknown byte order")
        elif any(type(target) is allowed for allowed in _user_globals.values()):
            _set_state(target, state)
        else:
            raise pickle.UnpicklingError(f"the pickle sets attributes of a {type(target).__name__}")

    def _load_setitem(self) -> None:
        value = self.stack.pop()
        key = self.stack.pop()
        self._put(self.stack[-1], key, value)

    def _load_setitems(self) -> None:
        items = self.pop_mark()
        for key, value in zip(items[::2], items[1::2], strict=True):
            self._put(self.stack[-1], key, value)

    def _put(self, target: Any, key: Any, value: Any) -> None:
        if not isinstance(target, dict):
            raise pickle.UnpicklingError(f"the pickle sets items of a {type(target).__name__}")
        target[check_key(key)] = value

    def _load_append(self) -> None:
        value = self.stack.pop()
        self._extend([value])

    def _load_appends(self) -> None:
        self._extend(self.pop_mark())

    def _extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise pickle.UnpicklingError(f"the pickle appends to a {type(self.stack[-1]).__name__}")
        self.stack[-1].extend(items)

    def _load_additems(self) -> None:
        items = self.pop_mark()
        if not isinstance(self.stack[-1], set):
            raise pickle.UnpicklingError(f"the pickle adds to a {type(self.stack[-1]).__name__}")
        self.stack[-1].update(check_key(item) for item in items)

    dispatch[pickle.REDUCE[0]] = _load_reduce
    dispatch[pickle.NEWOBJ[0]] = _load_newobj
    dispatch[pickle.BUILD[0]] = _load_build
    dispatch[pickle.SETITEM[0]] = _load_setitem
    dispatch[pickle.SETITEMS[0]] = _load_setitems
    dispatch[pickle.APPEND[0]] = _load_append
    dispatch[pickle.APPENDS[0]] = _load_appends
    dispatch[pickle.ADDITEMS[0]] = _load_additems
