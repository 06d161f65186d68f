"""Regions that contain parameters and samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor

__all__ = [
    "Constraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A region: :meth:`check` returns whether each event lies inside.

    Example::

        >>> oneflow.distributions.constraints.positive.check(oneflow.tensor([-1.0, 2.0]))
        tensor([False,  True])
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Booleans, one an event: of ``value.shape`` without its last ``event_dim`` dimensions."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self._name()}()"

    @classmethod
    def _name(cls) -> str:
        """The name as messages have it: ``GreaterThan`` for ``_GreaterThan``."""
        return "".join(part[0].upper() + part[1:] for part in cls.__name__.split("_") if part)


class _Dependent(Constraint):
    """A region that depends on other values.

    Example::

        >>> oneflow.distributions.constraints.is_dependent(oneflow.distributions.constraints.dependent)
        True
    """

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether the events are discrete."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """Dimensions of an event."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        """Raise ValueError: the region must be constructed from values first."""
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Return whether a region depends on other values.

    Example::

        >>> oneflow.distributions.constraints.is_dependent(oneflow.distributions.constraints.positive)
        False
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property whose value is a region; accessed on the class, it is a region that depends on other values.

    Example::

        >>> from oneflow.distributions import constraints
        >>> class Box:
        ...     @constraints.dependent_property(is_discrete=False, event_dim=0)
        ...     def support(self):
        ...         return constraints.interval(0, 2)
        >>> Box().support, constraints.is_dependent(Box.support)
        (Interval(lower_bound=0, upper_bound=2), True)
    """

    def __init__(self, fn: Any = None, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> Any:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """Another region over several dimensions at once.

    Example::

        >>> oneflow.distributions.constraints.independent(oneflow.distributions.constraints.positive,
        ...     1).check(oneflow.tensor([-1.0, 2.0]))
        tensor(False)
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        n = self.reinterpreted_batch_ndims
        inside = self.base_constraint.check(value)
        if inside.dim() < n:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return inside.reshape(*inside.shape[: inside.dim() - n], -1).all(-1)

    def __repr__(self) -> str:
        return f"{self._name()}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The region of a mixture's components, for values without the components' dimension."""

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise TypeError(f"Expected a Constraint, got {type(base_constraint).__name__}")
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        n = value.dim() - self.event_dim
        return inside.reshape(*inside.shape[:n], -1).all(-1)


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value


class _Bounds(Constraint):
    """Numbers between two bounds; ``closed`` names the bounds that belong to the region."""

    def __init__(
        self,
        lower_bound: Any = None,
        upper_bound: Any = None,
        closed: tuple[bool, bool] = (True, True),
        discrete: bool = False,
    ) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        self._closed = closed
        self.is_discrete = discrete

    def check(self, value: Tensor) -> Tensor:
        inside = value % 1 == 0 if self.is_discrete else value == value
        low, high = self.lower_bound, self.upper_bound
        if low is not None:
            inside = inside & (value >= low if self._closed[0] else value > low)
        if high is not None:
            inside = inside & (value <= high if self._closed[1] else value < high)
        return inside

    def __repr__(self) -> str:
        bounds = [f"lower_bound={self.lower_bound}"] if self.lower_bound is not None else []
        bounds += [f"upper_bound={self.upper_bound}"] if self.upper_bound is not None else []
        return f"{self._name()}({', '.join(bounds)})"


class _IntegerInterval(_Bounds):
    """Whole numbers from ``lower_bound`` to ``upper_bound``, both counted.

    Example::

        >>> oneflow.distributions.constraints.integer_interval(0, 2).check(oneflow.tensor([0.5, 2.0]))
        tensor([False,  True])
    """

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound, upper_bound, discrete=True)


class _IntegerGreaterThan(_Bounds):
    """Whole numbers from ``lower_bound`` on."""

    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound, discrete=True)


class _GreaterThan(_Bounds):
    """Numbers above ``lower_bound``.

    Example::

        >>> oneflow.distributions.constraints.greater_than(1.0).check(oneflow.tensor([0.0, 2.0]))
        tensor([False,  True])
    """

    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound, closed=(False, True))


class _GreaterThanEq(_Bounds):
    """Numbers from ``lower_bound`` on.

    Example::

        >>> oneflow.distributions.constraints.greater_than_eq(1.0).check(oneflow.tensor([0.0, 1.0]))
        tensor([False,  True])
    """

    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound)


class _LessThan(_Bounds):
    """Numbers below ``upper_bound``.

    Example::

        >>> oneflow.distributions.constraints.less_than(1.0).check(oneflow.tensor([0.0, 2.0]))
        tensor([ True, False])
    """

    def __init__(self, upper_bound: Any) -> None:
        super().__init__(None, upper_bound, closed=(True, False))


class _Interval(_Bounds):
    """Numbers from ``lower_bound`` to ``upper_bound``.

    Example::

        >>> oneflow.distributions.constraints.interval(0.0, 1.0).check(oneflow.tensor([0.5, 2.0]))
        tensor([ True, False])
    """

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound, upper_bound)


class _HalfOpenInterval(_Bounds):
    """Numbers from ``lower_bound`` to below ``upper_bound``.

    Example::

        >>> oneflow.distributions.constraints.half_open_interval(0.0, 1.0).check(oneflow.tensor([0.0, 1.0]))
        tensor([ True, False])
    """

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound, upper_bound, closed=(True, False))


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Counts of at most ``upper_bound`` altogether.

    Example::

        >>> oneflow.distributions.constraints.multinomial(3).check(oneflow.tensor([1.0, 2.0]))
        tensor(True)
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Tensor) -> Tensor:
        tolerance = oneflow.finfo(value.dtype).eps * value.shape[-1] * 10
        unit = ((value.square().sum(-1) - 1).abs() <= tolerance).all(-1)
        return super().check(value) & unit


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return oneflow.full(
            value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=oneflow.bool, device=value.device
        )


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        return square if not bool(square.all()) else value.isclose(value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        return symmetric if not bool(symmetric.all()) else (oneflow.linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        return symmetric if not bool(symmetric.all()) else oneflow.linalg.cholesky_ex(value).info == 0


class _Cat(Constraint):
    """Regions side by side along a dimension.

    Example::

        >>> oneflow.distributions.constraints.cat([oneflow.distributions.constraints.positive,
        ...     oneflow.distributions.constraints.real], lengths=[1, 1]).check(oneflow.tensor([-1.0, 2.0]))
        tensor([False,  True])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self.cseq = list(cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        parts = value.split(self.lengths, self.dim)
        return oneflow.cat([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Cat):
    """Regions one above the other along a dimension.

    Example::

        >>> oneflow.distributions.constraints.stack([oneflow.distributions.constraints.positive,
        ...     oneflow.distributions.constraints.real]).check(oneflow.tensor([-1.0, 2.0]))
        tensor([False,  True])
    """

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        dim = super().event_dim
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        parts = value.unbind(self.dim)
        return oneflow.stack([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


dependent = _Dependent()
dependent_property: Callable[..., Any] = _DependentProperty
independent = _IndependentConstraint
integer_interval = _IntegerInterval
integer_greater_than_eq = _IntegerGreaterThan
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
interval = _Interval
half_open_interval = _HalfOpenInterval
multinomial = _Multinomial
cat = _Cat
stack = _Stack
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = integer_greater_than_eq(0)
positive_integer = integer_greater_than_eq(1)
real = _Real()
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
