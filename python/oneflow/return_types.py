"""The classes of results with names, as ``torch.return_types``: ``return_types.max`` is that of ``max(x, dim)``.

A class is a tuple whose items are attributes too. It takes one sequence, and its instances can be pickled. It is made
on first use.

>>> import oneflow
>>> values, indices = oneflow.max(oneflow.tensor([[1.0, 3.0]]), 1)
>>> oneflow.return_types.max((values, indices)).values
tensor([3.])
"""

from __future__ import annotations

from typing import Any

from oneflow import _oneflow

_FIELDS = {
    "aminmax": ("min", "max"),
    "cummax": ("values", "indices"),
    "cummin": ("values", "indices"),
    "frexp": ("mantissa", "exponent"),
    "geqrf": ("a", "tau"),
    "histogram": ("hist", "bin_edges"),
    "histogramdd": ("hist", "bin_edges"),
    "kthvalue": ("values", "indices"),
    "linalg_cholesky_ex": ("L", "info"),
    "linalg_eig": ("eigenvalues", "eigenvectors"),
    "linalg_eigh": ("eigenvalues", "eigenvectors"),
    "linalg_inv_ex": ("inverse", "info"),
    "linalg_lstsq": ("solution", "residuals", "rank", "singular_values"),
    "linalg_lu": ("P", "L", "U"),
    "linalg_ldl_factor": ("LD", "pivots"),
    "linalg_ldl_factor_ex": ("LD", "pivots", "info"),
    "linalg_lu_factor": ("LU", "pivots"),
    "linalg_lu_factor_ex": ("LU", "pivots", "info"),
    "linalg_polar": ("U", "H"),
    "linalg_qr": ("Q", "R"),
    "linalg_slogdet": ("sign", "logabsdet"),
    "linalg_solve_ex": ("result", "info"),
    "linalg_svd": ("U", "S", "Vh"),
    "lu_unpack": ("P", "L", "U"),
    "max": ("values", "indices"),
    "median": ("values", "indices"),
    "min": ("values", "indices"),
    "mode": ("values", "indices"),
    "nanmedian": ("values", "indices"),
    "qr": ("Q", "R"),
    "slogdet": ("sign", "logabsdet"),
    "sort": ("values", "indices"),
    "svd": ("U", "S", "V"),
    "topk": ("values", "indices"),
    "triangular_solve": ("solution", "cloned_coefficient"),
}

__all__ = [*_FIELDS]


def __getattr__(name: str) -> Any:
    if name == "all_return_types":
        return [_class(n) for n in _FIELDS]
    # PyTorch has a class of its own for the results of a call with out=.
    if name.removesuffix("_out") in _FIELDS:
        return _class(name.removesuffix("_out"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


def _class(name: str) -> Any:
    fields = _FIELDS[name]
    found: Any = _oneflow._return_type(name, fields)
    found.__doc__ = f"""The results of ``{name.replace("linalg_", "linalg.")}``: {", ".join(fields)}.

Example::

    >>> oneflow.return_types.{name}({tuple(range(len(fields)))}).{fields[-1]}
    {len(fields) - 1}
"""
    globals()[name] = found
    return found
