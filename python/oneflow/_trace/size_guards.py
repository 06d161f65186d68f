"""What Python asks of sizes while a step is traced at several sizes: ints that note each question and its answer.

A program for many sizes is the one that Python writes at the sizes it was traced at. Where Python decides by a size
(``if n == 7``, ``n % 2``, ``min(n, 5)``), it may write another one at others. So the sizes of traced tensors are a
subclass of int here. It notes comparisons, remainders and truth, with the line that asked; sums and products stay of
the class. The compiled half solves the numbers that were asked about, and the questions become the program's guards.

An int that leaves the class in sight (``int(n)``, ``n / 2``, ``len(x)``, a key of a dictionary) is noted too, as a size
that Python used unseen: what is decided by it has no guard. Code in C that takes the value without a call
(``range(n)``, slices of lists, NumPy, ``math.gcd``) cannot be noted.
"""

from __future__ import annotations

import contextlib
import math
import numbers
import operator
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oneflow import Tensor, _oneflow
from oneflow._trace.named_sizes import Size, SizeError, compiled_dims, of_terms
from oneflow._trace.source_locations import PACKAGE, user_depth

# The operator's name, the two integers, the answer, the user's line, and the line of code that asked, which may be the
# package's. UNSEEN has one integer, the size.
Decision = tuple[str, int, int, int, str, str]
UNSEEN = "unseen"
_LARGEST = 1 << 62


class Decided(SizeError):
    """Python decides by a size, and there are no other sizes around the example's at which it decides so."""


class _Local(threading.local):
    note: Callable[[str, int, int, int], None] | None = None
    # Takes the place of the user's line.
    place: str | None = None


_local = _Local()


def _ask(asked: str, a: int, b: int, answer: int) -> None:
    note = _local.note
    if note is not None:
        if max(abs(int.__int__(a)), abs(int.__int__(b))) > _LARGEST:
            asked, a, b, answer = UNSEEN, 0, 0, 0
        note(asked, int.__int__(a), int.__int__(b), int.__int__(answer))


def _unseen(size: int) -> None:
    if _local.note is not None:
        _ask(UNSEEN, size, 0, 0)


def _made(value: Any) -> Any:
    """A result of arithmetic on sizes, as a size."""
    return TracedSize(value) if _local.note is not None and isinstance(value, int) else value


def _compared(name: str) -> Any:
    plain = getattr(int, f"__{name}__")
    ask = getattr(operator, name)

    def compare(self: TracedSize, other: Any) -> Any:
        answer = plain(self, other)
        if answer is not NotImplemented:
            _ask(name, self, other, answer)
            return answer
        if isinstance(other, numbers.Integral):
            # An integer of NumPy.
            return compare(self, int(other))
        if isinstance(other, float):
            answer = ask(int.__int__(self), other)
            if math.isfinite(other) and (name not in ("eq", "ne") or other == math.floor(other)):
                # n < 2.5 asks whether n < 3, and n <= 2.5 whether n <= 2.
                bound = math.ceil(other) if name in ("lt", "ge") else math.floor(other)
                _ask(name, self, bound, answer)
            return answer
        if isinstance(other, numbers.Number):
            _unseen(self)
        return answer

    return compare


def _combined(name: str) -> Any:
    """A sum, a difference or a product: a size again."""
    plain = getattr(int, name)

    def combine(self: TracedSize, other: Any) -> Any:
        value = plain(self, other)
        if value is not NotImplemented:
            return _made(value)
        if isinstance(other, numbers.Integral):
            return combine(self, int(other))
        if not isinstance(other, Tensor):
            # A float, or a list that is repeated.
            _unseen(self)
        return value

    return combine


def _divided(name: str) -> Any:
    """A whole quotient, a remainder, or both. The remainder is noted: under it the quotient follows from its sizes."""
    plain = getattr(int, name)
    reflected, asks_rest, asks_both = name.startswith("__r"), name.endswith("mod__"), "divmod" in name

    def divide(self: TracedSize, other: Any) -> Any:
        value = plain(self, other)
        if value is NotImplemented:
            if isinstance(other, numbers.Integral):
                return divide(self, int(other))
            if not isinstance(other, Tensor):
                _unseen(self)
            return value
        a, b = (other, self) if reflected else (self, other)
        rest = int.__mod__(a, b)
        _ask("mod", a, b, rest)
        if asks_both:
            return _made(value[0]), rest
        return rest if asks_rest else _made(value)

    return divide


def _noted(name: str) -> Any:
    """What gives up the class: its result is an ordinary object."""
    plain = getattr(int, name)

    def call(self: TracedSize, *args: Any) -> Any:
        _unseen(self)
        return plain(self, *args)

    return call


def _text(name: str) -> Any:
    """Text of a size. The package makes it for messages alone, others may decide by it."""
    plain = getattr(int, name)

    def call(self: TracedSize, *args: Any) -> Any:
        if _local.note is not None and not _asking().startswith(PACKAGE):
            _unseen(self)
        return plain(self, *args)

    return call


def _bits(name: str, asked: str) -> Any:
    plain = getattr(int, name)

    def combine(self: TracedSize, other: Any) -> Any:
        value = plain(self, other)
        if value is not NotImplemented:
            _ask(asked, self, other, value)
        return value

    return combine


class TracedSize(int):
    """A size that a trace has read. Once the trace has ended, it is as any int."""

    __slots__ = ()

    __eq__ = _compared("eq")
    __ne__ = _compared("ne")
    __lt__ = _compared("lt")
    __le__ = _compared("le")
    __gt__ = _compared("gt")
    __ge__ = _compared("ge")

    __add__, __radd__ = _combined("__add__"), _combined("__radd__")
    __sub__, __rsub__ = _combined("__sub__"), _combined("__rsub__")
    __mul__, __rmul__ = _combined("__mul__"), _combined("__rmul__")

    __floordiv__, __rfloordiv__ = _divided("__floordiv__"), _divided("__rfloordiv__")
    __mod__, __rmod__ = _divided("__mod__"), _divided("__rmod__")
    __divmod__, __rdivmod__ = _divided("__divmod__"), _divided("__rdivmod__")

    __and__, __rand__ = _bits("__and__", "and"), _bits("__rand__", "and")
    __or__, __ror__ = _bits("__or__", "or"), _bits("__ror__", "or")
    __xor__, __rxor__ = _bits("__xor__", "xor"), _bits("__rxor__", "xor")

    __truediv__, __rtruediv__ = _noted("__truediv__"), _noted("__rtruediv__")
    __int__, __float__, __index__ = _noted("__int__"), _noted("__float__"), _noted("__index__")
    __hash__ = _noted("__hash__")
    __str__, __repr__, __format__ = _text("__str__"), _text("__repr__"), _text("__format__")
    __rpow__, __rlshift__, __rrshift__ = _noted("__rpow__"), _noted("__rlshift__"), _noted("__rrshift__")
    bit_length = _noted("bit_length")

    def __bool__(self) -> bool:
        answer = int.__bool__(self)
        _ask("ne", self, 0, answer)
        return answer

    def __neg__(self) -> int:
        return _made(int.__neg__(self))

    def __invert__(self) -> int:
        return _made(int.__invert__(self))

    def __abs__(self) -> int:
        return -self if self < 0 else self

    def __pos__(self) -> int:
        return self

    def __floor__(self) -> int:
        return self

    def __ceil__(self) -> int:
        return self

    def __trunc__(self) -> int:
        return self

    def __round__(self, ndigits: Any = None) -> int:
        if ndigits is None or ndigits >= 0:
            return self
        _unseen(self)
        return int.__round__(self, ndigits)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is None and type(other) is int and other >= 0:
            return _made(int.__pow__(self, other))
        _unseen(self)
        return int.__pow__(self, other, modulus)

    def __lshift__(self, other: Any) -> Any:
        if type(other) is int:
            return _made(int.__lshift__(self, other))
        _unseen(self)
        return int.__lshift__(self, other)

    def __rshift__(self, other: Any) -> Any:
        if type(other) is int and 0 <= other < 62:
            return self // (1 << other)
        _unseen(self)
        return int.__rshift__(self, other)

    def __reduce__(self) -> Any:
        return int, (int.__int__(self),)

    def __copy__(self) -> TracedSize:
        return self

    def __deepcopy__(self, memo: Any) -> TracedSize:
        return self


def _asking() -> str:
    """The line of code that asks, which is not in this file."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@contextlib.contextmanager
def recorded(place: Callable[[], str | None]) -> Iterator[list[Decision]]:
    """Inside, sizes of tensors that this thread traces note what is asked of them; yields the list of it.

    Args:
        place: returns the user's line.
    """
    found: list[Decision] = []

    def note(asked: str, a: int, b: int, answer: int) -> None:
        # The line may be looked for by code that compares sizes itself.
        this, _local.note = _local.note, None
        try:
            where = _local.place or place() or "an unknown line"
            found.append((asked, a, b, answer, where, _local.place or _asking()))
        finally:
            _local.note = this

    before, _local.note = _local.note, note
    _oneflow._record_sizes(TracedSize)
    try:
        yield found
    finally:
        _local.note = before
        _oneflow._record_sizes(None if before is None else TracedSize)


@contextlib.contextmanager
def asked_at(place: str) -> Iterator[None]:
    """Inside, what this thread asks of sizes is said to be asked at a line."""
    before, _local.place = _local.place, place
    try:
        yield
    finally:
        _local.place = before


def answers(decisions: list[Decision]) -> list[tuple[str, int, str]]:
    """What has to be the same in all traces of one program: the questions, their answers and their lines."""
    return [(question, answer, line) for question, _, _, answer, _, line in decisions]


def agree(one: list[Decision], other: list[Decision]) -> bool:
    """Return whether Python asked the same questions of sizes in two traces, and got the same answers."""
    return answers(one) == answers(other)


def difference(one: list[Decision], other: list[Decision]) -> str:
    """Where Python decides otherwise, in words."""
    pairs = zip(answers(one), answers(other), strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    question, a, b, answer, place, _ = (one[at : at + 1] or other[at : at + 1])[0]
    sign = _SIGNS.get(question)
    if sign is None:
        return f"Python goes on otherwise at {place}"
    shown = answer if question in ("mod", "and", "or", "xor") else bool(answer)
    return f"Python decides by a size at {place}: {a} {sign} {b} is {shown}, and not so at other sizes"


_SIGNS = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "mod": "%",
    "and": "&",
    "or": "|",
    "xor": "^",
}


def asked(traced: Sequence[list[Decision]]) -> list[list[tuple[Any, ...]]]:
    """The questions of each trace that become guards, as the compiled half takes them."""
    return [[d[:5] for d in decisions if d[0] != UNSEEN] for decisions in traced]


def unseen(traced: list[list[Decision]]) -> list[str]:
    """The lines at which a size that depends on a named dimension left the class."""
    columns = zip(*traced, strict=True)
    found = [column[0][4] for column in columns if column[0][0] == UNSEEN and len({d[1] for d in column}) > 1]
    return list(dict.fromkeys(found))


def warn_of_unseen(of: str, places: Sequence[str]) -> None:
    """Warn of what has no guard, where there is some."""
    if places:
        more = f" and {len(places) - 3} more lines" if len(places) > 3 else ""
        text = (
            f"{of}: an open size is used as a plain number at {', '.join(places[:3])}{more}. What Python decides by it "
            "is not checked when the program runs at other sizes."
        )
        warnings.warn(text, stacklevel=user_depth())


def modulus(decisions: list[Decision], limit: int = 1 << 12) -> int:
    """What sizes may differ by without changing the remainders that were asked for."""
    found = 1
    for question, _, b, *_ in decisions:
        if question == "mod" and b not in (0, 1, -1) and abs(b) <= limit:
            found = min(math.lcm(found, abs(b)), limit)
    return found


# Multiples of a step, around an example.
_MORE = (0, -1, -2, -3, -4, 1, 2, 3, 4, 5, 6, 7, 8)


def candidates(size: int, first: Sequence[int], step: int, modulus: int, low: int, high: int | None) -> list[int]:
    """Sizes in a range around one, to trace at: ``first`` steps away, other steps, and steps that keep remainders."""
    tries = [size + step * n for n in (*first, *_MORE)]
    if modulus > 1:
        tries += [size + step * modulus * n for n in (1, 2, 3, 4, -1, -2, -3)]
    return list(dict.fromkeys(n for n in tries if low <= n and (high is None or n <= high)))


_ANSWERS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "mod", "xor")},
    "and": operator.and_,
    "or": operator.or_,
}
_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


@dataclass(frozen=True)
class Guard:
    """What named dimensions must meet for a program: a question about two sizes, its answer, and the line."""

    asked: str
    a: int | Size
    b: int | Size
    answer: int
    place: str

    def answer_at(self, sizes: Mapping[str, int]) -> int | None:
        """The answer at these sizes, if there is one. Sizes that a trace reads note the question again."""
        with asked_at(self.place):
            try:
                a, b = (n.exactly(sizes) if isinstance(n, Size) else n for n in (self.a, self.b))
                return int(_ANSWERS[self.asked](a, b))
            except (SizeError, ZeroDivisionError):
                return None

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Return whether these sizes give the answer that the program was traced with."""
        return self.answer_at(sizes) == self.answer

    def breaking(
        self, sizes: Mapping[str, int], ranges: Mapping[str, tuple[int, int | None]]
    ) -> dict[int | None, dict[str, int]]:
        """Sizes that break the guard, near these and within the ranges: some for each other answer that was found."""
        numbers = {0, *(abs(n) for n in (self.a, self.b) if isinstance(n, int))}
        for n in (self.a, self.b):
            numbers.update(abs(int(factor)) for factor in (n.terms.values() if isinstance(n, Size) else ()))
        near = sorted({m + k for m in numbers for k in (-1, 0, 1)} | set(range(65)) | {*sizes.values()})
        made: dict[int | None, dict[str, int]] = {}
        for name in sizes:
            low, high = ranges.get(name, (0, None))
            for size in near:
                found = {**sizes, name: size}
                answer = self.answer_at(found) if low <= size and (high is None or size <= high) else self.answer
                if answer != self.answer:
                    made.setdefault(answer, found)
        return made

    def check(self) -> None:
        """Check a guard that was read from a file.

        Raises:
            ValueError: no such question is asked.
        """
        if self.asked not in _ANSWERS:
            raise ValueError(f"a guard asks {self.asked!r} of sizes")

    def __str__(self) -> str:
        sign = _SIGNS[self.asked]
        if self.asked in _OPPOSITE:
            return f"{self.a} {sign if self.answer else _SIGNS[_OPPOSITE[self.asked]]} {self.b} ({self.place})"
        a = str(self.a)
        a = f"({a})" if " " in a or "*" in a else a
        return f"{a} {sign} {self.b} == {self.answer} ({self.place})"


def guards_of(
    traced: Sequence[list[Decision]],
    at: Sequence[Mapping[str, int]],
    ranges: Mapping[str, tuple[int, int | None]],
    known: Sequence[list[int]],
) -> list[Guard]:
    """The guards of traces at several sizes, but those that the ranges of the dimensions settle.

    ``known``: numbers of each trace that help to solve those that were asked about.

    Raises:
        SizeError: a size that Python decides by does not follow from the named dimensions.
    """
    names = list(at[0])
    if not names:
        return []
    try:
        found = _oneflow._guards_of(
            asked(traced), compiled_dims(at, ranges), [list(p.values()) for p in at], list(known)
        )
    except ValueError as error:
        raise SizeError(str(error)) from None
    return [
        Guard(question, of_terms(a, names), of_terms(b, names), answer, place)
        for question, a, b, answer, place in found
    ]
