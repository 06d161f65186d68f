"""Quasirandom points: sequences that fill a cube more evenly than random points do.

The direction numbers are those of Joe and Kuo; they and their licence are in ``direction_numbers.bin``.
"""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import oneflow
from oneflow import Tensor

__all__ = ["SobolEngine"]

_ROW = 23  # Bytes of a dimension in the table: three for the polynomial, twenty for the initial numbers.
_MAX_DEGREE = 18


class SobolEngine:
    """Draws the points of a Sobol sequence in ``[0, 1) ** dimension``, one after the other.

    They are those of :class:`torch.quasirandom.SobolEngine`, bit by bit. Scrambled points are so too where the
    generator draws PyTorch's numbers, see :func:`oneflow.random.use`.

    Args:
        dimension: coordinates of a point, 1 to 21201.
        scramble: shift the digits of the points and mix them with a random triangular matrix, which keeps how
            evenly the points are distributed. Without, the first point is 0.
        seed: seed of the scrambling; the default generator draws it if None.

    Raises:
        ValueError: the dimension is out of range.

    Example::

        >>> engine = oneflow.quasirandom.SobolEngine(dimension=2)
        >>> engine.draw(3)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500]])

    Source: S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional projections", 2008;
    scrambling: J. Matousek, "On the L2-discrepancy for anchored boxes", 1998.
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension < 1 or dimension > self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], got {dimension}"
            )
        self.dimension = operator.index(dimension)
        self.scramble = scramble
        self.seed = seed
        with oneflow.device("cpu"):
            self.sobolstate = _directions(self.dimension, self.MAXBIT)
            self.shift = oneflow.zeros(self.dimension, dtype=oneflow.int64)
            if scramble:
                self._scramble()
        self.quasi = self.shift.clone()
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next ``n`` points.

        Args:
            n: how many.
            out: where they go; it is resized to (n, dimension).
            dtype: float32 or float64; the default dtype if None.

        Returns:
            Shape (n, dimension).

        Raises:
            ValueError: ``n`` is negative, or the sequence has no more points.
            NotImplementedError: the dtype is another.

        Example::

            >>> oneflow.quasirandom.SobolEngine(1).draw(4)
            tensor([[0.0000],
                    [0.5000],
                    [0.7500],
                    [0.2500]])
        """
        n = _count(n)
        dtype = dtype or oneflow.get_default_dtype()
        if dtype not in (oneflow.float32, oneflow.float64):
            raise NotImplementedError(f"SobolEngine.draw: dtype must be float32 or float64, got {dtype}")
        self._check_left(n)
        # A point is the sum over GF(2) of the columns that its Gray code names; `quasi` is the last one drawn.
        first = max(self.num_generated - 1, 0)
        offsets = oneflow.arange(n, device="cpu") + self.num_generated
        gray = offsets ^ (offsets >> 1)
        change = gray ^ (first ^ (first >> 1))
        points = self.quasi.expand(n, -1).clone()
        for bit in range((first + n).bit_length()):
            points ^= ((change >> bit) & 1)[:, None] * self.sobolstate[:, bit]
        if n > 0:
            self.quasi = points[-1].clone()
        self.num_generated += n
        result = points.to(dtype) * 2.0**-self.MAXBIT
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next ``2 ** m`` points, which must bring the number of all points to a power of two.

        Args:
            m: the logarithm of how many.
            out: where they go; it is resized to (2 ** m, dimension).
            dtype: float32 or float64; the default dtype if None.

        Returns:
            Shape (2 ** m, dimension).

        Raises:
            ValueError: the points drawn would be no power of two.

        Example::

            >>> oneflow.quasirandom.SobolEngine(3).draw_base2(2).shape
            oneflow.Size([4, 3])
        """
        n, before = 2**m, self.num_generated
        total = before + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{before} points have been previously generated, then: n={before}+2**{m}={total}. "
                "If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Go back to the first point; the scrambling stays. Returns the engine.

        Example::

            >>> engine = oneflow.quasirandom.SobolEngine(2)
            >>> first = engine.draw(5)
            >>> engine.reset().draw(5).equal(first)
            True
        """
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip ``n`` points without making them. Returns the engine.

        Raises:
            ValueError: ``n`` is negative, or the sequence has no more points.

        Example::

            >>> oneflow.quasirandom.SobolEngine(2).fast_forward(2).draw(1)
            tensor([[0.7500, 0.2500]])
        """
        n = _count(n)
        self._check_left(n)
        if n == 0:
            return self
        first, last = max(self.num_generated - 1, 0), self.num_generated + n - 1
        change = first ^ (first >> 1) ^ last ^ (last >> 1)
        quasi = self.quasi.clone()
        for bit in range(change.bit_length()):
            if change >> bit & 1:
                quasi ^= self.sobolstate[:, bit]
        self.quasi = quasi
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _check_left(self, n: int) -> None:
        if self.num_generated + n > 2**self.MAXBIT:
            raise ValueError(f"SobolEngine can generate at most {2**self.MAXBIT} points")

    def _scramble(self) -> None:
        generator = None
        if self.seed is not None:
            generator = oneflow.Generator()
            generator.manual_seed(self.seed)
        n, bits = self.dimension, self.MAXBIT
        weights = 1 << oneflow.arange(bits)
        digits = oneflow.randint(2, (n, bits), generator=generator)
        self.shift = (digits * weights).sum(1)
        # Lower triangular matrices with ones on the diagonal act on the columns' digits, the highest first.
        mixing = oneflow.randint(2, (n, bits, bits), generator=generator).tril(-1).float()
        mixing += oneflow.eye(bits)
        columns = (self.sobolstate[:, :, None] // weights.flip(0)) % 2
        mixed = (mixing @ columns.float().mT).long() % 2
        self.sobolstate = (mixed * weights.flip(0)[:, None]).sum(1)


def _count(n: int) -> int:
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"n must be non-negative, but got {n}")
    return n


def _directions(dimension: int, bits: int) -> Tensor:
    """The direction numbers, of shape (dimension, bits): column ``j`` holds ``m_(j+1) * 2 ** (bits - 1 - j)``."""
    arange = oneflow.arange
    table = bytearray((Path(__file__).parent / "direction_numbers.bin").read_bytes()[: _ROW * (dimension - 1)])
    rows = oneflow.frombuffer(table, dtype=oneflow.uint8).view(-1, _ROW).long() if table else None
    numbers = oneflow.ones(dimension, bits, dtype=oneflow.int64)
    if rows is not None:
        polynomials = (rows[:, :3] << 8 * arange(3)).sum(1)
        digits = (rows[:, 3:, None] >> arange(8) & 1).flatten(1)
        start = 0
        for i in range(1, _MAX_DEGREE):
            numbers[1:, i] += (digits[:, start : start + i] << arange(1, i + 1)).sum(1)
            start += i
        begin = 0
        for degree in range(1, _MAX_DEGREE + 1):
            # The rows are in the order of their polynomials.
            end = begin + int((polynomials[begin:] < 2 << degree).sum())
            if end > begin:
                _extend(numbers[1 + begin : 1 + end], polynomials[begin:end], degree)
            begin = end
    return numbers << arange(bits - 1, -1, -1)


def _extend(numbers: Tensor, polynomials: Tensor, degree: int) -> None:
    """Continue the initial numbers by the recurrence that each row's polynomial states."""
    for j in range(degree, numbers.shape[1]):
        value = numbers[:, j - degree].clone()
        for k in range(1, degree + 1):
            value ^= (polynomials >> (degree - k) & 1) * (numbers[:, j - k] << k)
        numbers[:, j] = value
