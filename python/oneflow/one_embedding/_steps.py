"""OneFlow's functions ``_C.one_embedding_*``: the steps that a lookup and an update consist of, each by itself.

The modules do all of them in one call of the store. Programs that call these by name find their arguments, results and
padding: lists of ids are as long as what came in, and the first ``num_unique`` of them count.
"""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow._oneflow import _EmbeddingBatch
from oneflow.one_embedding._exchange import _all_to_all
from oneflow.one_embedding._modules import NAMED, Embedding


def _named(function: str, name: str) -> Embedding:
    module = NAMED.get(name)
    if module is None:
        raise ValueError(f"{function}: there is no embedding {name!r}; there are {sorted(NAMED)}")
    return module


def _padded(values: Tensor, n: int) -> Tensor:
    return oneflow.cat([values, values.new_zeros(n - len(values), *values.shape[1:])]) if len(values) < n else values


def _batch(ids: Tensor, table_ids: Tensor | None, num_tables: int) -> _EmbeddingBatch:
    if table_ids is not None:
        table_ids = table_ids.to(oneflow.int64).contiguous()
    return _EmbeddingBatch(ids.contiguous(), table_ids, num_tables, None)


def one_embedding_id_shuffle(
    ids: Tensor, table_ids: Tensor | None = None, num_tables: int = 1, embedding_name: str = ""
) -> tuple[Tensor, ...]:
    """Send each different id to the rank that owns it.

    Returns:
        How many ids each rank sends to each (ranks * ranks); for each position its number among those that were sent;
        how many different ids this rank was asked for; those ids; their tables; and for each id that arrived its number
        among them.
    """
    n_ranks, n = oneflow.env.get_world_size(), ids.numel()
    batch = _batch(ids, table_ids, num_tables)
    order, sent = batch.by_owner(n_ranks)
    tables, keys = (part[order] for part in batch.keys())
    numbers = oneflow.empty_like(order)
    numbers[order] = oneflow.arange(len(order))
    positions = numbers[batch.inverse()].reshape(ids.shape)
    matrix = oneflow.tensor(sent, dtype=oneflow.int64)
    if n_ranks > 1:
        rows = [oneflow.empty_like(matrix) for _ in range(n_ranks)]
        distributed.all_gather(rows, matrix)
        matrix = oneflow.cat(rows)
        received = matrix.reshape(n_ranks, n_ranks)[:, oneflow.env.get_rank()].tolist()
        tables, keys = _all_to_all(oneflow.stack([tables, keys], 1), sent, received).unbind(1)
        n = max(n, len(keys))
    asked = _EmbeddingBatch(keys.contiguous(), tables.contiguous(), num_tables, None)
    own_tables, own_keys = asked.keys()
    return (
        matrix.to(oneflow.int32),
        positions.to(oneflow.int32),
        oneflow.tensor([len(own_keys)], dtype=oneflow.int32),
        _padded(own_keys, n).to(ids.dtype),
        _padded(own_tables, n).to(oneflow.int32),
        _padded(asked.inverse(), n).to(oneflow.int32),
    )


def _counts(num_unique_matrix: Tensor) -> tuple[list[int], list[int]]:
    n, rank = oneflow.env.get_world_size(), oneflow.env.get_rank()
    matrix = num_unique_matrix.to(oneflow.int64).reshape(n, n)
    return matrix[rank].tolist(), matrix[:, rank].tolist()


def one_embedding_embedding_shuffle(
    cur_rank_embeddings: Tensor,
    num_unique_matrix: Tensor,
    cur_rank_inverse_indices: Tensor,
    inverse_unique_partition_indices: Tensor,
    embedding_name: str = "",
) -> Tensor:
    """Bring rows from their owners to the positions that asked: the way back of ``id_shuffle``."""
    sent, received = _counts(num_unique_matrix)
    rows = cur_rank_embeddings[cur_rank_inverse_indices[: sum(received)].to(oneflow.int64)]
    if len(sent) > 1:
        rows = _all_to_all(rows, received, sent)
    return rows[inverse_unique_partition_indices.to(oneflow.int64)]


def one_embedding_embedding_gradient_shuffle(
    embedding_grad: Tensor,
    num_unique_matrix: Tensor,
    cur_rank_inverse_indices: Tensor,
    inverse_unique_partition_indices: Tensor,
    embedding_name: str = "",
) -> Tensor:
    """Add gradients of positions up by id, send them to the owners and add them up there."""
    sent, received = _counts(num_unique_matrix)
    positions = inverse_unique_partition_indices.to(oneflow.int64).reshape(-1)
    grads = embedding_grad.reshape(len(positions), -1)
    sums = grads.new_zeros(sum(sent), grads.shape[1]).index_add(0, positions, grads)
    if len(sent) > 1:
        sums = _all_to_all(sums, sent, received)
    inverse = cur_rank_inverse_indices[: sum(received)].to(oneflow.int64)
    return grads.new_zeros(len(cur_rank_inverse_indices), grads.shape[1]).index_add(0, inverse, sums)


def one_embedding_unique_key_value_pair(
    keys: Tensor, values: Tensor | None = None, num_tables: int = 1, embedding_name: str = ""
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The different pairs of key and table: their number, keys, tables, and each position's number among them."""
    batch = _batch(keys, values, num_tables)
    tables, unique = batch.keys()
    return (
        oneflow.tensor([len(unique)], dtype=oneflow.int32),
        _padded(unique, keys.numel()).to(keys.dtype),
        _padded(tables, keys.numel()).to(oneflow.int32 if values is None else values.dtype),
        batch.inverse().to(oneflow.int32).reshape(keys.shape),
    )


def one_embedding_lookup(
    num_unique_ids: Tensor,
    unique_ids: Tensor,
    table_ids: Tensor,
    dtype: Any,
    embedding_dtype: Any,
    line_size: int,
    embedding_size: int,
    embedding_name: str,
    embedding_tables: str = "",
    state_initializer: str = "",
    seed: int = 0,
) -> Tensor:
    """Weights and state of ids of this rank: (ids, line_size)."""
    module = _named("one_embedding_lookup", embedding_name)
    n = int(num_unique_ids)
    batch = _batch(unique_ids[:n].to(module.key_type), table_ids[:n], module.num_tables)
    return _padded(module._store.read_rows(batch, [n, module.storage_dim])[:, :line_size].to(dtype), len(unique_ids))


def one_embedding_embedding_put(
    num_unique_ids: Tensor, unique_ids: Tensor, unique_embeddings: Tensor, embedding_name: str, line_size: int
) -> None:
    """Set weights and state of ids of this rank's first table."""
    module = _named("one_embedding_embedding_put", embedding_name)
    n = int(num_unique_ids)
    ids = unique_ids[:n].to(module.key_type)
    rows = unique_embeddings[:n].to(oneflow.float32).contiguous()
    if rows.shape[1] not in (module.storage_dim, module.embedding_dim):
        raise ValueError(
            f"one_embedding_embedding_put: rows of {rows.shape[1]} numbers for an embedding of {module.embedding_dim} "
            f"weights and {module.storage_dim} numbers"
        )
    module._store.write(_batch(ids, oneflow.zeros_like(ids), module.num_tables), rows)


def one_embedding_fused_lookup(
    shadow: Tensor,
    ids: Tensor,
    table_ids: Tensor | None = None,
    dtype: Any = None,
    embedding_name: str = "",
    line_size: int = 0,
    embedding_size: int = 0,
    is_full_cache: bool = False,
    num_tables: int = 1,
    embedding_tables: str = "",
    padding_idx: int | None = None,
    seed: int = 0,
) -> Tensor:
    """Look ids up by the embedding's name, with gradients."""
    rows = _named("one_embedding_fused_lookup", embedding_name)(ids, table_ids)
    return rows if dtype is None else rows.to(dtype)


def one_embedding_fused_lookup_grad(
    ids: Tensor, embedding_grad: Tensor, embedding_name: str, line_size: int, embedding_size: int
) -> None:
    """Keep gradients of a lookup for the next step of the embedding's optimizer."""
    module = _named("one_embedding_fused_lookup_grad", embedding_name)
    grad = embedding_grad.detach().to(oneflow.float32).contiguous()
    module._pending.append((module._batch(ids, None), grad, None))


def _update(
    rule: Any, num_unique_ids: Tensor, rows: Tensor, grads: Tensor, scaled: tuple[Any, ...], sizes: tuple[int, int]
) -> Tensor:
    """Apply ``rule(lr, gradient, weights, state)`` to the rows that count; it returns the new weights and states."""
    lr, down_scale_by, skip_if, lr_value, scale = scaled
    line_size, embedding_size = sizes
    if rows.shape[1] != line_size or grads.shape[1] != embedding_size:
        raise ValueError(
            f"one_embedding: rows of {rows.shape[1]} numbers and gradients of {grads.shape[1]} do not have the sizes "
            f"{line_size} and {embedding_size}"
        )
    if skip_if is not None and int(skip_if) != 0:
        return rows.clone()
    rate = float(lr_value if lr is None else lr)
    n, out = int(num_unique_ids), rows.clone()
    grad = grads[:n].to(oneflow.float32) * scale / (1.0 if down_scale_by is None else float(down_scale_by))
    parts = rows[:n].to(oneflow.float32).split(embedding_size, 1)
    updated = rule(rate, grad, parts[0], list(parts[1:]))
    for i, part in enumerate(updated):
        out[:n, i * embedding_size : (i + 1) * embedding_size] = part.to(out.dtype)
    return out


def one_embedding_sgd_update(
    num_unique_ids: Tensor,
    unique_embeddings: Tensor,
    embedding_grad: Tensor,
    learning_rate: Tensor | None = None,
    down_scale_by_tensor: Tensor | None = None,
    skip_if: Tensor | None = None,
    learning_rate_val: float = 0.0,
    scale: float = 1.0,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    line_size: int = 0,
    embedding_size: int = 0,
    embedding_name: str = "",
) -> Tensor:
    """Rows after a step of SGD."""

    def rule(lr: float, g: Tensor, w: Tensor, state: list[Tensor]) -> list[Tensor]:
        g = g + weight_decay * w
        if momentum == 0.0:
            return [w - lr * g]
        m = momentum * state[0] + g
        return [w - lr * m, m]

    scaled = learning_rate, down_scale_by_tensor, skip_if, learning_rate_val, scale
    return _update(rule, num_unique_ids, unique_embeddings, embedding_grad, scaled, (line_size, embedding_size))


def one_embedding_adam_update(
    num_unique_ids: Tensor,
    unique_embeddings: Tensor,
    embedding_grad: Tensor,
    learning_rate: Tensor | None = None,
    down_scale_by_tensor: Tensor | None = None,
    skip_if: Tensor | None = None,
    bias_correction1: Tensor | None = None,
    bias_correction2: Tensor | None = None,
    learning_rate_val: float = 0.0,
    scale: float = 1.0,
    weight_decay: float = 0.0,
    beta1: float = 0.9,
    beta2: float = 0.999,
    bias_correction1_val: float = 1.0,
    bias_correction2_val: float = 1.0,
    epsilon: float = 1e-8,
    do_bias_correction: bool = True,
    line_size: int = 0,
    embedding_size: int = 0,
    embedding_name: str = "",
) -> Tensor:
    """Rows after a step of Adam; the decay of weights is apart from the gradient."""
    c1 = float(bias_correction1_val if bias_correction1 is None else bias_correction1) if do_bias_correction else 1.0
    c2 = float(bias_correction2_val if bias_correction2 is None else bias_correction2) if do_bias_correction else 1.0

    def rule(lr: float, g: Tensor, w: Tensor, state: list[Tensor]) -> list[Tensor]:
        m = beta1 * state[0] + (1 - beta1) * g
        v = beta2 * state[1] + (1 - beta2) * g * g
        return [w - lr * (m / c1 / ((v / c2).sqrt() + epsilon) + weight_decay * w), m, v]

    scaled = learning_rate, down_scale_by_tensor, skip_if, learning_rate_val, scale
    return _update(rule, num_unique_ids, unique_embeddings, embedding_grad, scaled, (line_size, embedding_size))


def one_embedding_adagrad_update(
    num_unique_ids: Tensor,
    unique_embeddings: Tensor,
    embedding_grad: Tensor,
    learning_rate: Tensor | None = None,
    down_scale_by_tensor: Tensor | None = None,
    skip_if: Tensor | None = None,
    train_step: Tensor | None = None,
    train_step_val: int = 0,
    learning_rate_val: float = 0.0,
    scale: float = 1.0,
    weight_decay: float = 0.0,
    lr_decay: float = 0.0,
    epsilon: float = 1e-10,
    line_size: int = 0,
    embedding_size: int = 0,
    embedding_name: str = "",
) -> Tensor:
    """Rows after a step of Adagrad; steps count from zero."""
    step = int(train_step_val if train_step is None else train_step)

    def rule(lr: float, g: Tensor, w: Tensor, state: list[Tensor]) -> list[Tensor]:
        rate, total = lr / (1 + step * lr_decay), state[0] + g * g
        return [w - rate * g / (total.sqrt() + epsilon) - rate * weight_decay * w, total]

    scaled = learning_rate, down_scale_by_tensor, skip_if, learning_rate_val, scale
    return _update(rule, num_unique_ids, unique_embeddings, embedding_grad, scaled, (line_size, embedding_size))


def one_embedding_ftrl_update(
    num_unique_ids: Tensor,
    unique_embeddings: Tensor,
    embedding_grad: Tensor,
    learning_rate: Tensor | None = None,
    down_scale_by_tensor: Tensor | None = None,
    skip_if: Tensor | None = None,
    learning_rate_val: float = 0.0,
    scale: float = 1.0,
    weight_decay: float = 0.0,
    lr_power: float = -0.5,
    lambda1: float = 0.0,
    lambda2: float = 0.0,
    beta: float = 0.0,
    line_size: int = 0,
    embedding_size: int = 0,
    embedding_name: str = "",
) -> Tensor:
    """Rows after a step of FTRL, whose rule is that of :class:`oneflow.one_embedding.Ftrl` for rows."""

    def rule(lr: float, g: Tensor, w: Tensor, state: list[Tensor]) -> list[Tensor]:
        squares, z = state
        total = squares + g * g
        root = total**lr_power
        z = z + g - (root - squares**lr_power) / lr * w
        target = (z.sign() * lambda1 - z) / ((beta + root) / lr + lambda2) - lr * weight_decay * w
        return [oneflow.where(z.abs() < lambda1, oneflow.zeros_like(w), target), total, z]

    scaled = learning_rate, down_scale_by_tensor, skip_if, learning_rate_val, scale
    return _update(rule, num_unique_ids, unique_embeddings, embedding_grad, scaled, (line_size, embedding_size))
