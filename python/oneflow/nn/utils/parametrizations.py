"""Ready parametrizations: orthogonal matrices, weight norm, spectral norm."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn.modules.module import Module
from oneflow.nn.utils import parametrize


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Norms over all dimensions but one; over all of them for ``dim=-1``. Dimensions stay, with size one."""
    powers = v * v if pow == 2 and not v.is_complex() else v.abs() ** pow
    dims = [i for i in range(v.dim()) if dim == -1 or i != dim % v.dim()]
    if not dims:
        return v.abs()
    total = powers.sum(dims, keepdim=dim != -1)
    return total.sqrt() if pow == 2 else total ** (1 / pow)


def _unit(v: Tensor, eps: float) -> Tensor:
    return v / oneflow.linalg.vector_norm(v).clamp(min=eps)


class _WeightNorm(Module):
    """Separate length and direction. (Salimans and Kingma, 2016.)"""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Let a weight be ``g * v / norm(v)``, with norms over all dimensions but ``dim`` (None: over all).

    Example::

        >>> m = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> m(oneflow.ones(1, 2)).shape
        oneflow.Size([1, 3])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def accept_old_names(self: Module, state_dict: Any, prefix: str, *rest: Any) -> None:
        for old, new in (("_g", "original0"), ("_v", "original1")):
            if f"{prefix}{name}{old}" in state_dict:
                key = f"{prefix}parametrizations.{name}.{new}"
                state_dict[key] = state_dict.pop(f"{prefix}{name}{old}")

    if hasattr(module, "register_load_state_dict_pre_hook"):
        module.register_load_state_dict_pre_hook(accept_old_names)
    return module


class _SpectralNorm(Module):
    """Division by the largest singular value, from power iterations. (Miyato et al., 2018.)"""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.dim() <= dim < weight.dim():
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[-{weight.dim()}, {weight.dim() - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + weight.dim()
        self.eps = eps
        if weight.dim() > 1:
            self.n_power_iterations = n_power_iterations
            with oneflow.no_grad():
                matrix = self._matrix(weight)
                self.register_buffer("_u", _unit(oneflow.randn_like(matrix[:, 0]), eps))
                self.register_buffer("_v", _unit(oneflow.randn_like(matrix[0]), eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        if self.dim != 0:
            order = [self.dim, *[d for d in range(weight.dim()) if d != self.dim]]
            weight = weight.permute(order)
        return weight.flatten(1)

    @oneflow.no_grad()
    def _iterate(self, matrix: Tensor, n: int) -> None:
        for _ in range(n):
            self._u.copy_(_unit(oneflow.mv(matrix, self._v), self.eps))
            self._v.copy_(_unit(oneflow.mv(matrix.mH, self._u), self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return _unit(weight, self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # The next iteration must not change what this backward reads.
        u, v = self._u.clone(), self._v.clone()
        return weight / oneflow.vdot(u, oneflow.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value.

    Args:
        module, name: whose weight.
        n_power_iterations: in training, at each read.
        eps: smallest norm divided by.
        dim: of the outputs; 1 for transposed convolutions, else 0.

    Example::

        >>> m = nn.utils.parametrizations.spectral_norm(nn.Linear(2, 3))
        >>> m(oneflow.ones(1, 2)).shape
        oneflow.Size([1, 3])
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    parametrization = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, parametrization)


class _Orthogonal(Module):
    """Orthogonal (or semi-orthogonal) matrices, by the exponential, Cayley's map or Householder's reflections."""

    base: Any

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        n, k = x.size(-2), x.size(-1)
        is_wide = n < k
        if is_wide:
            x, n, k = x.mT, k, n
        if self.orthogonal_map == "householder":
            a = x.tril(-1) + oneflow.eye(n, k, dtype=x.dtype, device=x.device)
            tau = 2.0 / (1.0 + (x.tril(-1) ** 2).sum(-2))
            q = _householder_product(a, tau) * x.diagonal(dim1=-2, dim2=-1).detach().sign().unsqueeze(-2)
        else:
            a = x.tril()
            if n != k:
                zeros = oneflow.zeros(*x.shape[:-1], n - k, dtype=x.dtype, device=x.device)
                a = oneflow.cat([a, zeros], -1)
            a = a - a.mH
            if self.orthogonal_map == "matrix_exp":
                q = oneflow.matrix_exp(a)
            else:
                eye = oneflow.eye(n, dtype=x.dtype, device=x.device)
                q = oneflow.linalg.solve(eye - a * 0.5, eye + a * 0.5)
            q = q[..., :k]
        if getattr(self, "base", None) is not None:
            q = self.base @ q
        return q.mT if is_wide else q

    @oneflow.no_grad()
    def right_inverse(self, q: Tensor) -> Tensor:
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}."
            )
        is_wide = q.size(-2) < q.size(-1)
        x = q.mT if is_wide else q
        n, k = x.size(-2), x.size(-1)
        if hasattr(self, "base"):
            if n > k:
                # Any further columns make it square.
                more = oneflow.randn(*x.shape[:-1], n - k, dtype=x.dtype, device=x.device)
                x = oneflow.cat([x, more], -1)
            self.base = x.clone() if n == k and _is_orthogonal(x) else _orthogonal_part(x)
            # What all three maps take to the identity: the diagonal has the signs of Householder's reflections.
            result = oneflow.zeros_like(q)
            result.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return result
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        vectors, tau = oneflow.geqrf(x)
        signs = vectors.diagonal(dim1=-2, dim2=-1).sign()
        # Where no reflection was needed LAPACK gives none, and the product of this class has one.
        vectors.diagonal(dim1=-2, dim2=-1).copy_(oneflow.where(tau == 0.0, -signs, signs))
        return vectors.mT if is_wide else vectors


def _is_orthogonal(q: Tensor) -> bool:
    n = q.size(-1)
    eye = oneflow.eye(n, dtype=q.dtype, device=q.device).expand(*q.shape[:-2], n, n)
    return bool(oneflow.allclose(q.mH @ q, eye, atol=10.0 * n * oneflow.finfo(q.dtype).eps))


def _orthogonal_part(x: Tensor) -> Tensor:
    """The orthogonal factor whose triangular one has a positive diagonal: that makes it unique."""
    q, r = oneflow.linalg.qr(x)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _householder_product(vectors: Tensor, tau: Tensor, columns: int | None = None) -> Tensor:
    """The first columns of the product of reflections ``1 - tau v v'``."""
    n, k = vectors.size(-2), vectors.size(-1)
    columns = k if columns is None else columns
    q = oneflow.eye(n, columns, dtype=vectors.dtype, device=vectors.device).expand(*vectors.shape[:-1], columns)
    for i in reversed(range(k)):
        v = vectors[..., i : i + 1]
        if i > 0:
            v = oneflow.cat([oneflow.zeros_like(v[..., :i, :]), v[..., i:, :]], -2)
        q = q - tau[..., i, None, None] * (v @ (v.mT @ q))
    return q


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a weight's columns (or rows, if there are fewer) orthonormal.

    Args:
        module, name: whose weight.
        orthogonal_map: "matrix_exp", "cayley" or "householder"; the first for square and complex weights.
        use_trivialization: map around the value assigned last.

    Example::

        >>> m = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))
        >>> oneflow.allclose(m.weight @ m.weight.T, oneflow.eye(3), atol=1e-5)
        True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.dim() < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return parametrize.register_parametrization(module, name, parametrization, unsafe=True)


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
