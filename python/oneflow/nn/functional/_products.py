"""Products of groups of matrices, as mixtures of experts have them, and of eight-bit floats with their factors."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor

_EIGHT_BITS = (oneflow.float8_e4m3fn, oneflow.float8_e5m2)


def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """Products of groups of matrices: those of a batch, or runs of rows, columns or inner indices that end at ``offs``.

    Args:
        mat_a: (groups, M, K), or (M, K).
        mat_b: (groups, K, N), or (K, N).
        offs: int32 (groups,), the end of each run; given if a matrix has no dimension of groups.
        bias: not provided, as in PyTorch.
        out_dtype: of the result.

    Raises:
        RuntimeError: offsets are given for two batches of matrices, are missing, or are not int32.

    Example::

        >>> ends = oneflow.tensor([1, 3], dtype=oneflow.int32)
        >>> F.grouped_mm(oneflow.ones(3, 2), oneflow.ones(2, 2, 4), offs=ends).shape
        oneflow.Size([3, 4])
    """
    if bias is not None:
        raise RuntimeError("grouped_mm(): Bias is not supported yet")
    if offs is None and mat_a.dim() == mat_b.dim() == 3:
        y = mat_a.matmul(mat_b)
    else:
        y = _by_groups("grouped_mm", mat_a, mat_b, offs, lambda a, b, group, run: a.matmul(b))
    return y if out_dtype is None else y.to(out_dtype)


def _by_groups(
    name: str,
    mat_a: Tensor,
    mat_b: Tensor,
    offs: Tensor | None,
    product: Callable[[Tensor, Tensor, int, slice], Tensor],
) -> Tensor:
    """The products of all groups in one tensor: ``product(a, b, group, run)``, with the run of rows or columns."""
    if (offs is None) != (mat_a.dim() == mat_b.dim() == 3):
        raise RuntimeError(f"{name}(): Have to provide offsets if there is a 2d matrix, or no offset if both are 3d")
    if offs is None:
        pairs = zip(mat_a, mat_b, strict=True)
        return oneflow.stack([product(a, b, group, slice(None)) for group, (a, b) in enumerate(pairs)])
    if offs.dtype != oneflow.int32:
        raise RuntimeError(f"{name}(): Offsets have to be int32")
    ends = offs.tolist()
    runs = list(enumerate(slice(start, end) for start, end in zip([0, *ends], ends, strict=False)))
    if mat_a.dim() == mat_b.dim() == 2:
        return oneflow.stack([product(mat_a[:, run], mat_b[run], group, run) for group, run in runs])
    # Rows or columns after the last run belong to no group.
    if mat_a.dim() == 2:
        parts = [product(mat_a[run], b, group, run) for (group, run), b in zip(runs, mat_b, strict=True)]
        return oneflow.cat([*parts, parts[0].new_zeros((mat_a.shape[0] - ends[-1], mat_b.shape[-1]))])
    parts = [product(a, mat_b[:, run], group, run) for (group, run), a in zip(runs, mat_a, strict=True)]
    return oneflow.cat([*parts, parts[0].new_zeros((mat_a.shape[-2], mat_b.shape[-1] - ends[-1]))], -1)


class ScalingType(enum.IntEnum):
    """Which elements of a matrix share a factor.

    Example::

        >>> oneflow.nn.functional.ScalingType.RowWise.value
        1
    """

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.IntEnum):
    """In which order the factors of blocks lie.

    Example::

        >>> oneflow.nn.functional.SwizzleType.NO_SWIZZLE.value
        0
    """

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1
    SWIZZLE_32_8 = 2


def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: ScalingType | list[ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: ScalingType | list[ScalingType],
    swizzle_a: SwizzleType | list[SwizzleType] | None = None,
    swizzle_b: SwizzleType | list[SwizzleType] | None = None,
    bias: Tensor | None = None,
    output_dtype: oneflow.dtype | None = oneflow.bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """Return ``(mat_a * scale_a) @ (mat_b * scale_b) + bias``, of matrices of eight-bit floats, summed in float32.

    Args:
        mat_a, mat_b: of shapes (m, k) and (k, n), of dtype float8_e4m3fn or float8_e5m2.
        scale_a, scale_b: float32 factors: of one element (``TensorWise``), or of shapes (m, 1) and (1, n)
            (``RowWise``).
        scale_recipe_a, scale_recipe_b: which of the two; blocks are not supported.
        swizzle_a, swizzle_b: None or ``NO_SWIZZLE``.
        bias: of shape (n,).
        output_dtype: of the result; that of ``mat_a`` if None.
        contraction_dim: empty, or (1, 0).
        use_fast_accum: sums on GPUs may be less precise; here they are float32 sums.

    Raises:
        ValueError: scales that do not fit the recipes.

    Example::

        >>> from oneflow.nn.functional import ScalingType, scaled_mm
        >>> a = oneflow.ones(2, 4).to(oneflow.float8_e4m3fn)
        >>> half, whole = oneflow.tensor(0.5), ScalingType.TensorWise
        >>> scaled_mm(a, a.t(), half, whole, half, whole, output_dtype=oneflow.float32)
        tensor([[1., 1.],
                [1., 1.]])
    """
    if tuple(contraction_dim) not in ((), (1, 0), (-1, -2)):
        raise NotImplementedError(f"scaled_mm(): contraction_dim is empty or (1, 0), got {tuple(contraction_dim)}")
    for swizzle in (swizzle_a, swizzle_b):
        if _single("swizzle", swizzle) not in (None, SwizzleType.NO_SWIZZLE):
            raise NotImplementedError("scaled_mm(): factors that are swizzled are read by GPUs only")
    factors = _single("scale_a", scale_a), _single("scale_b", scale_b)
    recipes = _single("scale_recipe_a", scale_recipe_a), _single("scale_recipe_b", scale_recipe_b)
    if any(recipe not in (ScalingType.TensorWise, ScalingType.RowWise) for recipe in recipes):
        raise NotImplementedError(f"scaled_mm(): factors are of the whole matrix or of its rows, got {recipes}")
    wanted = ((mat_a.shape[0], 1), (1, mat_b.shape[-1]))
    for factor, recipe, shape in zip(factors, recipes, wanted, strict=True):
        fits = factor.numel() == 1 if recipe == ScalingType.TensorWise else factor.shape == shape
        if not fits:
            raise ValueError(f"scaled_mm(): {recipe!r} needs another factor than one of shape {tuple(factor.shape)}")
    return oneflow._scaled_mm(mat_a, mat_b, *factors, bias, None, output_dtype, use_fast_accum)


def scaled_grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: ScalingType | list[ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: ScalingType | list[ScalingType],
    swizzle_a: SwizzleType | list[SwizzleType] | None = None,
    swizzle_b: SwizzleType | list[SwizzleType] | None = None,
    bias: Tensor | None = None,
    offs: Tensor | None = None,
    output_dtype: oneflow.dtype | None = oneflow.bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """Products of groups of matrices of eight-bit floats, with a factor for each row and column, summed in float32.

    Args:
        mat_a, mat_b: as of :func:`grouped_mm`, of dtype float8_e4m3fn or float8_e5m2.
        scale_a: float32, a factor for each row of the groups: (rows,) of a matrix that is cut by rows, (groups, rows)
            of a batch, (groups * rows,) of one that is cut by inner indices.
        scale_b: likewise for each column.
        scale_recipe_a, scale_recipe_b: ``RowWise``.
        swizzle_a, swizzle_b: None or ``NO_SWIZZLE``.
        bias: not provided, as in PyTorch.
        offs: as of :func:`grouped_mm`.
        output_dtype: of the result; that of ``mat_a`` if None.
        contraction_dim: empty.
        use_fast_accum: sums on GPUs may be less precise; here they are float32 sums.

    Raises:
        RuntimeError: a bias, or offsets that do not fit the matrices.
        ValueError: other dtypes, or as many factors as there are no rows or columns.

    Example::

        >>> from oneflow.nn.functional import ScalingType, scaled_grouped_mm
        >>> a, b = (oneflow.ones(2, n, n).to(oneflow.float8_e4m3fn) for n in (4, 4))
        >>> factors, rows = oneflow.full((2, 4), 0.5), ScalingType.RowWise
        >>> scaled_grouped_mm(a, b, factors, rows, factors, rows, output_dtype=oneflow.float32)[0, 0]
        tensor([1., 1., 1., 1.])
    """
    name = "scaled_grouped_mm"
    if bias is not None:
        raise RuntimeError(f"{name}(): Bias is not supported yet")
    if tuple(contraction_dim):
        raise NotImplementedError(f"{name}(): contraction_dim is empty, got {tuple(contraction_dim)}")
    for swizzle in (swizzle_a, swizzle_b):
        if _single("swizzle", swizzle) not in (None, SwizzleType.NO_SWIZZLE):
            raise NotImplementedError(f"{name}(): factors that are swizzled are read by GPUs only")
    recipes = _single("scale_recipe_a", scale_recipe_a), _single("scale_recipe_b", scale_recipe_b)
    if recipes != (ScalingType.RowWise, ScalingType.RowWise):
        raise NotImplementedError(f"{name}(): factors are of rows and of columns, got {recipes}")
    for which, matrix in (("mat_a", mat_a), ("mat_b", mat_b)):
        if matrix.dtype not in _EIGHT_BITS:
            raise ValueError(f"{name}(): {which} is a matrix of float8, got {matrix.dtype}")
    of_rows, of_columns = _single("scale_a", scale_a), _single("scale_b", scale_b)
    both_flat = mat_a.dim() == mat_b.dim() == 2

    def product(a: Tensor, b: Tensor, group: int, run: slice) -> Tensor:
        # Both flat, inner indices are cut: each group has all rows and columns, one group after the other.
        m, n = a.shape[0], b.shape[1]
        of_a, of_b = (slice(group * size, (group + 1) * size) if both_flat else run for size in (m, n))
        rows = _factors(name, "scale_a", of_rows, m, group if mat_a.dim() == 3 else of_a)
        columns = _factors(name, "scale_b", of_columns, n, group if mat_b.dim() == 3 else of_b)
        return (a.float() @ b.float()) * rows.reshape(-1, 1) * columns

    return _by_groups(name, mat_a, mat_b, offs, product).to(mat_a.dtype if output_dtype is None else output_dtype)


def _factors(name: str, which: str, factors: Tensor, n: int, place: int | slice) -> Tensor:
    """The factors of a group's ``n`` rows or columns, at their place among all of them."""
    if factors.dtype != oneflow.float32 or factors.dim() != (2 if isinstance(place, int) else 1):
        own = None
    else:
        own = factors[place]
    if own is None or own.shape != (n,):
        raise ValueError(
            f"{name}(): {which} has a float32 factor for each of the {n} rows or columns of a group, got "
            f"{factors.dtype} of shape {tuple(factors.shape)}"
        )
    return own


def _single(name: str, given: Any) -> Any:
    if not isinstance(given, (list, tuple)):
        return given
    if len(given) != 1:
        raise NotImplementedError(f"scaled_mm(): one {name} is supported, got {len(given)}")
    return given[0]


def multiplied(
    a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None, out_dtype: oneflow.dtype | None
) -> Tensor:
    """Return the product, once its operands and factors have been checked."""
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise RuntimeError(f"_scaled_mm: mat1 and mat2 shapes cannot be multiplied ({_by(a.shape)} and {_by(b.shape)})")
    if a.dtype not in _EIGHT_BITS or b.dtype not in _EIGHT_BITS or not _fit(scale_a, scale_b, a.shape[0], b.shape[1]):
        raise ValueError(
            "_scaled_mm: Invalid scaling configuration: two matrices of float8, with float32 factors of one element "
            f"each, or of shapes ({a.shape[0]}, 1) and (1, {b.shape[1]}); got {a.dtype} and {b.dtype}, factors "
            f"{scale_a.dtype} of {tuple(scale_a.shape)} and {scale_b.dtype} of {tuple(scale_b.shape)}"
        )
    if bias is not None and bias.shape != (b.shape[1],):
        raise RuntimeError(f"_scaled_mm: bias has shape ({b.shape[1]},), got {tuple(bias.shape)}")
    product = (a.float() @ b.float()) * (scale_a.reshape(-1, 1) * scale_b.reshape(1, -1))
    if bias is not None:
        product = product + bias.float()
    return product.to(a.dtype if out_dtype is None else out_dtype)


def _fit(scale_a: Tensor, scale_b: Tensor, m: int, n: int) -> bool:
    if scale_a.dtype != oneflow.float32 or scale_b.dtype != oneflow.float32:
        return False
    whole = scale_a.numel() == scale_b.numel() == 1
    return whole or (tuple(scale_a.shape), tuple(scale_b.shape)) == ((m, 1), (1, n))


def _by(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
