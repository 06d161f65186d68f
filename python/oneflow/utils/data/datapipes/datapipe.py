"""The classes of all pipes: methods that make further pipes, and one valid iterator for each stream."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

from oneflow.utils.data.dataset import Dataset, IterableDataset

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class DataChunk(list[T]):
    """A batch of samples: a list.

    Example::

        >>> from oneflow.utils.data.datapipes.datapipe import DataChunk
        >>> DataChunk([1, 2]).as_str("> ")
        '> [1, 2]'
    """

    def __init__(self, items: Any) -> None:
        super().__init__(items)
        self.items = list(self)

    def as_str(self, indent: str = "") -> str:
        """The items in words."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def raw_iterator(self) -> Iterator[T]:
        """The items one by one."""
        yield from self.items


class _Functional:
    """What both kinds of pipes have: functional forms by name."""

    functions: ClassVar[dict[str, Callable[..., Any]]]
    # Of all pipes of a kind: what is made of a pipe's state, and what pickles a pipe in its own way.
    getstate_hook: ClassVar[Callable[[Any], Any] | None] = None
    reduce_ex_hook: ClassVar[Callable[[Any], Any] | None] = None

    def __getattr__(self, name: str) -> Any:
        if name in type(self).functions:
            made = type(self).functions[name]
            return functools.update_wrapper(functools.partial(made, self), made, assigned=("__doc__",))
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __getstate__(self) -> Any:
        return self._hooked(self.__dict__)

    def _hooked(self, state: Any) -> Any:
        hook = _kind(type(self)).getstate_hook
        return state if hook is None else hook(state)

    def __reduce_ex__(self, protocol: Any) -> Any:
        hook = _kind(type(self)).reduce_ex_hook
        if hook is not None:
            with contextlib.suppress(NotImplementedError):
                return hook(self)
        return super().__reduce_ex__(protocol)

    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None:
        """Let a function make what is pickled of the state of all pipes of this kind; None takes it away.

        Raises:
            RuntimeError: there is one already.
        """
        if _kind(cls).getstate_hook is not None and hook_fn is not None:
            raise RuntimeError("Attempt to override existing getstate_hook")
        _kind(cls).getstate_hook = hook_fn

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None:
        """Let a function pickle all pipes of this kind, as ``__reduce_ex__`` does; None takes it away.

        It raises NotImplementedError of pipes that it leaves to pickle.

        Raises:
            RuntimeError: there is one already.
        """
        if _kind(cls).reduce_ex_hook is not None and hook_fn is not None:
            raise RuntimeError("Attempt to override existing reduce_ex_hook")
        _kind(cls).reduce_ex_hook = hook_fn

    def __repr__(self) -> str:
        return type(self).__qualname__

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).functions]

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Add a method to all pipes of this kind."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: Any, *_: Any, **__: Any) -> None:
        """Add a class as a method of this name, whose first argument is the pipe.

        Raises:
            Exception: the name is taken.
        """
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")

        def make(source: Any, *args: Any, **kwargs: Any) -> Any:
            return cls_to_register(source, *args, **kwargs)

        cls.functions[function_name] = functools.update_wrapper(make, cls_to_register, assigned=("__doc__",))


class IterDataPipe(_Functional, IterableDataset[T_co]):
    """Base class of streams: define ``__iter__``, and ``reset`` where there is something to forget before a new pass.

    A stream has one valid iterator: a new one ends the one before, since both would share what is buffered.

    Example::

        >>> from oneflow.utils.data import IterDataPipe
        >>> class Count(IterDataPipe):
        ...     def __iter__(self):
        ...         yield from range(4)
        >>> list(Count().map(str).batch(3))
        [['0', '1', '2'], ['3']]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    _valid_iterator_id: int | None = None
    _number_of_samples_yielded: int = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = vars(cls).get("__iter__")
        if own is not None:
            cls.__iter__ = _tracked(own)  # type: ignore[method-assign]

    def __iter__(self) -> Iterator[T_co]:
        return self

    def reset(self) -> None:
        """Forget what a pass has left; called before each."""

    def _begin(self) -> int:
        """Begin a pass; the number of its iterator."""
        self._valid_iterator_id = 0 if self._valid_iterator_id is None else self._valid_iterator_id + 1
        self._number_of_samples_yielded = 0
        self.reset()
        return self._valid_iterator_id

    def _check(self, number: int) -> None:
        """Refuse an iterator that is no longer the valid one."""
        if self._valid_iterator_id != number:
            raise RuntimeError(
                "This iterator has been invalidated because another iterator has been created from the same "
                f"IterDataPipe: {type(self).__name__}\nThis may be caused multiple references to the same "
                "IterDataPipe. We recommend using `.fork()` if that is necessary."
            )


class _Iterator:
    """An iterator that is valid until the stream gets another."""

    def __init__(self, source: Any, pipe: IterDataPipe[Any], number: int) -> None:
        self._source, self._pipe, self._number = source, pipe, number

    def __iter__(self) -> _Iterator:
        return self

    def __next__(self) -> Any:
        self._pipe._check(self._number)
        value = next(self._source)
        self._pipe._number_of_samples_yielded += 1
        return value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._source, name)


def _tracked(own: Callable[..., Any]) -> Callable[..., Any]:
    """An ``__iter__`` whose iterators know whether they are valid."""
    if not inspect.isgeneratorfunction(own):

        @functools.wraps(own)
        def start(self: Any) -> Any:
            source = own(self)
            return _Iterator(source, self, self._begin())

        return start

    # The pass begins with its first sample, as a generator's does.
    @functools.wraps(own)
    def generate(self: Any) -> Any:
        number, source = self._begin(), own(self)
        try:
            while True:
                self._check(number)
                try:
                    value = next(source)
                except StopIteration:
                    return
                self._number_of_samples_yielded += 1
                yield value
        except Exception as error:
            _say_where(error, self)
            raise
        finally:
            source.close()

    return generate


def _say_where(error: Exception, pipe: Any) -> None:
    """Add the class whose ``__iter__`` has raised to the text of an error, once."""
    words = "thrown by __iter__ of"
    text = error.args[0] if error.args and isinstance(error.args[0], str) else None
    if text is None:
        error.args = (f"\nThis exception is {words} {type(pipe).__name__}()",)
    elif words not in text and "This iterator has been invalidated" not in text:
        error.args = (f"{text}\nThis exception is {words} {type(pipe).__name__}()", *error.args[1:])


class DFIterDataPipe(IterDataPipe[T_co]):
    """A stream of data frames, for ``isinstance``: there are none here.

    Example::

        >>> from oneflow.utils.data import DFIterDataPipe, IterDataPipe
        >>> issubclass(DFIterDataPipe, IterDataPipe)
        True
    """


class MapDataPipe(_Functional, Dataset[T_co]):
    """Base class of tables: define ``__getitem__``, and ``__len__`` where there is one.

    Example::

        >>> from oneflow.utils.data import MapDataPipe
        >>> class Squares(MapDataPipe):
        ...     def __getitem__(self, i):
        ...         return i * i
        ...     def __len__(self):
        ...         return 4
        >>> Squares().map(str)[3]
        '9'
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


def _kind(cls: type) -> Any:
    return IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe


class functional_datapipe:
    """A decorator of pipes: a class becomes a method of all pipes of its kind.

    Args:
        name: the method's name.

    Raises:
        TypeError: the class is no pipe.

    Example::

        >>> from oneflow.utils.data import IterDataPipe, functional_datapipe
        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> @functional_datapipe("twice")
        ... class Twice(IterDataPipe):
        ...     def __init__(self, source):
        ...         self.source = source
        ...     def __iter__(self):
        ...         for x in self.source:
        ...             yield x
        ...             yield x
        >>> list(IterableWrapper([1, 2]).twice())
        [1, 1, 2, 2]
        >>> del IterDataPipe.functions["twice"]
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        if enable_df_api_tracing:
            raise NotImplementedError("functional_datapipe: there are no pipes of data frames")
        self.name = name

    def __call__(self, cls: Any) -> Any:
        if not isinstance(cls, type) or not issubclass(cls, (IterDataPipe, MapDataPipe)):
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")
        _kind(cls).register_datapipe_as_function(self.name, cls)
        return cls
