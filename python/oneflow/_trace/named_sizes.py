"""Sizes that follow from named dimensions, without symbolic integers.

A program is traced at several sizes. Integers that differ between the traces are solved as polynomials of the named
dimensions (``batch * length + 1``) by the compiled half, and further traces confirm them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from oneflow import _oneflow

Term = tuple[str, ...]


class SizeError(ValueError):
    """A program does not follow from its named dimensions."""


class Size:
    """An integer that depends on named dimensions: coefficients by the names of a term."""

    def __init__(self, terms: dict[Term, Fraction]) -> None:
        self.terms = {t: c for t, c in terms.items() if c}

    def denominator(self) -> int:
        """What a sum of products of whole numbers is divided by."""
        return math.lcm(*(factor.denominator for factor in self.terms.values()))

    def exactly(self, dims: Mapping[str, int]) -> int:
        """The size in the arithmetic of the dimensions themselves, which may be sizes that a trace reads.

        Raises:
            SizeError: it is not whole.
        """
        by = self.denominator()
        total: int = 0
        for term, factor in self.terms.items():
            product: int = int(factor * by)
            for name in term:
                product = dims[name] * product
            total = product + total
        if by == 1:
            return total
        if total % by:
            raise SizeError(f"{self} is not whole with {', '.join(f'{k}={v}' for k, v in dims.items())}")
        return total // by

    def at(self, dims: Mapping[str, int]) -> Fraction:
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


# A polynomial as the compiled half says it: factors with the numbers of their dimensions, and the denominator.
Terms = tuple[list[tuple[int, list[int]]], int]


def of_terms(terms: Terms, names: Sequence[str]) -> int | Size:
    """A size, or an integer where it depends on no dimension."""
    found = Size({tuple(names[d] for d in dims): Fraction(factor, terms[1]) for factor, dims in terms[0]})
    constant = found.terms.get((), Fraction(0))
    return int(constant) if not found.terms.keys() - {()} else found


def points(columns: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """The sizes to trace at, of a list of sizes for each dimension.

    The first ones, then the second one for each set of one or two dimensions, and last the third ones of all, and the
    fourth ones, which confirm.
    """
    names = list(columns)
    base = {name: column[0] for name, column in columns.items()}
    made = [base]
    for n in (1, 2):
        for subset in itertools.combinations(names, n):
            made.append({k: columns[k][1] if k in subset else v for k, v in base.items()})
    made.append({name: column[2] for name, column in columns.items()})
    if names and all(len(column) > 3 for column in columns.values()):
        made.append({name: column[3] for name, column in columns.items()})
    return made


class Solver:
    """Integers that depend on named dimensions, from their values at points; what was solved helps with what follows.

    Args:
        at: the points, as :func:`points` returns them.
    """

    def __init__(self, at: Sequence[Mapping[str, int]]) -> None:
        self.at = at
        self.names = list(at[0])
        self._compiled = _oneflow._SizeSolver(compiled_dims(at), [list(sizes.values()) for sizes in at])

    def solve(self, values: Sequence[int]) -> int | Size | None:
        """The integer that takes these values at the points, or None if no such polynomial does."""
        if len(set(values)) == 1:
            return values[0]
        found = self._compiled.solve(list(values))
        return None if found is None else of_terms(found, self.names)


def compiled_dims(
    at: Sequence[Mapping[str, int]], ranges: Mapping[str, tuple[int, int | None]] | None = None
) -> list[Any]:
    """The dimensions of points as the compiled half takes them."""
    rows = [(name, *(ranges or {}).get(name, (0, None))) for name in at[0]]
    return [(name, low, _LARGEST if high is None else high, 1, at[0][name], None) for name, low, high in rows]


_LARGEST = (1 << 63) - 1


def merged(items: Sequence[Any], solver: Solver, where: str) -> Any:
    """The same structure in each trace, with the integers that differ solved."""
    first = items[0]
    if all(item == first for item in items[1:]):
        return first
    if isinstance(first, (list, tuple)) and all(len(item) == len(first) for item in items):
        return [merged(column, solver, where) for column in zip(*items, strict=True)]
    if isinstance(first, dict) and all(item.keys() == first.keys() for item in items):
        return {key: merged([item[key] for item in items], solver, where) for key in first}
    if all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        solved = solver.solve(items)
        if solved is not None:
            return solved
    shown = ", ".join(f"{item} at {dims}" for item, dims in zip(items, solver.at, strict=True))
    raise SizeError(f"{where} does not follow from the named dimensions: {shown}")
