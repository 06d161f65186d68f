"""Sizes that follow from named dimensions, without symbolic integers.

A program is traced at several sizes. Integers that differ between the traces are solved as polynomials of the named
dimensions (each of which occurs once in a term: ``batch * length + 1``), and a further trace confirms them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

Term = tuple[str, ...]


class SizeError(ValueError):
    """A program does not follow from its named dimensions."""


class Size:
    """An integer that depends on named dimensions: coefficients by the names of a term."""

    def __init__(self, terms: dict[Term, Fraction]) -> None:
        self.terms = {t: c for t, c in terms.items() if c}

    def at(self, dims: dict[str, int]) -> Fraction:
        total = Fraction(0)
        for term, factor in self.terms.items():
            for name in term:
                factor = factor * dims[name]
            total += factor
        return total

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __str__(self) -> str:
        parts = []
        for term, factor in self.terms.items():
            name = "*".join(term)
            parts.append(str(factor) if not term else name if factor == 1 else f"{factor}*{name}")
        return " + ".join(parts)

    __repr__ = __str__

    def root(self) -> str:
        """The one dimension that a size such as ``2*batch + 1`` is made of.

        Raises:
            SizeError: it is made of several, or of products.
        """
        names = {term for term in self.terms if term}
        if len(names) != 1 or len(next(iter(names))) != 1:
            raise SizeError(f"a dimension is to be a multiple of one other and a constant, and is {self}")
        return next(iter(names))[0]

    def solved(self, size: int) -> int:
        """The size of the root at which this is ``size``."""
        found = (size - self.terms.get((), Fraction(0))) / self.terms[(self.root(),)]
        if found.denominator != 1:
            raise SizeError(f"no size of {self.root()} gives {self} = {size}")
        return int(found)


# What a dimension is called: by its name, or by what it is in terms of another.
Named = str | Size


def points(base: dict[str, int], steps: dict[str, int]) -> list[dict[str, int]]:
    """The sizes to trace at: each subset of the dimensions grown by its step, of one or two; last all, twice as far."""
    names = list(base)
    made = [dict(base)]
    for n in (1, 2):
        for subset in itertools.combinations(names, n):
            made.append({k: v + (steps[k] if k in subset else 0) for k, v in base.items()})
    made.append({k: v + (2 + i) * steps[k] for i, (k, v) in enumerate(base.items())})
    return made


def solve(values: Sequence[int], at: list[dict[str, int]], steps: dict[str, int]) -> int | Size | None:
    """The integer that takes these values at these points, or None if no such polynomial does."""
    if len(set(values)) == 1:
        return values[0]
    names = list(at[0])
    base = Fraction(values[0])
    slopes = {name: (values[1 + i] - base) / steps[name] for i, name in enumerate(names)}
    terms: dict[Term, Fraction] = {(name,): slope for name, slope in slopes.items()}
    constant = base - sum((slope * at[0][name] for name, slope in slopes.items()), Fraction(0))
    for i, (a, b) in enumerate(itertools.combinations(names, 2)):
        mixed = values[1 + len(names) + i] - base - slopes[a] * steps[a] - slopes[b] * steps[b]
        mixed = mixed / (steps[a] * steps[b])
        terms[a, b] = mixed
        # (a - a0) * (b - b0), multiplied out.
        terms[(a,)] -= mixed * at[0][b]
        terms[(b,)] -= mixed * at[0][a]
        constant += mixed * at[0][a] * at[0][b]
    terms[()] = constant
    size = Size(terms)
    fits = all(size.at(dims) == value for dims, value in zip(at, values, strict=True))
    return size if fits else None


def merged(items: Sequence[Any], at: list[dict[str, int]], steps: dict[str, int], where: str) -> Any:
    """The same structure in each trace, with the integers that differ solved."""
    first = items[0]
    if all(item == first for item in items[1:]):
        return first
    if isinstance(first, (list, tuple)) and all(len(item) == len(first) for item in items):
        return [merged(column, at, steps, where) for column in zip(*items, strict=True)]
    if isinstance(first, dict) and all(item.keys() == first.keys() for item in items):
        return {key: merged([item[key] for item in items], at, steps, where) for key in first}
    if all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        solved = solve(items, at, steps)
        if solved is not None:
            return solved
    shown = ", ".join(f"{item} at {dims}" for item, dims in zip(items, at, strict=True))
    raise SizeError(f"{where} does not follow from the named dimensions: {shown}")
