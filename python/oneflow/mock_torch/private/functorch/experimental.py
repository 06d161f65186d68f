"""``functorch.experimental``: names that are public elsewhere by now."""

from __future__ import annotations

from typing import Any

from oneflow.func import functionalize, replace_all_batch_norm_modules_, vmap

__all__ = ["chunk_vmap", "functionalize", "replace_all_batch_norm_modules_"]


def chunk_vmap(func: Any, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2) -> Any:
    """``vmap`` in so many pieces, one after the other."""
    if chunks == 1:
        return vmap(func, in_dims, out_dims, randomness)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from oneflow.utils._pytree import tree_flatten

        dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
        first, dim = next((a, d) for a, d in zip(args, dims, strict=True) if d is not None)
        size = next(iter(tree_flatten(first)[0])).shape[dim if isinstance(dim, int) else 0]
        return vmap(func, in_dims, out_dims, randomness, chunk_size=-(-size // chunks))(*args, **kwargs)

    return wrapped
