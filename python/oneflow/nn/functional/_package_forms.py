"""Functions that the package has too, with their arguments in another order than in ``nn.functional``."""

from __future__ import annotations

from oneflow import Tensor
from oneflow.nn.functional import _norms
from oneflow.nn.functional._embeddings import renormalise_rows


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scale the rows of a table that ``indices`` names down to ``max_norm``, in place.

    Example::

        >>> oneflow.embedding_renorm_(oneflow.tensor([[3.0, 4.0]]), oneflow.tensor([0]), 1.0, 2.0)
        tensor([[0.6000, 0.8000]])
    """
    renormalise_rows(input, indices, max_norm, norm_type)
    return input


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """:func:`oneflow.nn.functional.batch_norm` with its arguments in another order.

    Example::

        >>> oneflow.batch_norm(oneflow.ones(2, 1), None, None, None, None, True, 0.1, 1e-5, False).shape
        oneflow.Size([2, 1])
    """
    return _norms.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """:func:`oneflow.nn.functional.instance_norm` with its arguments in another order.

    Example::

        >>> oneflow.instance_norm(oneflow.ones(1, 2, 3), None, None, None, None, True, 0.1, 1e-5, False).shape
        oneflow.Size([1, 2, 3])
    """
    return _norms.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
