"""Rows of a snapshot as files: whole exports, and what changed since an older snapshot."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

import oneflow
from oneflow import Tensor
from oneflow._oneflow import _EmbeddingBatch, _EmbeddingSaved, _EmbeddingStore
from oneflow.models.safetensors import SafetensorsFile, save_file

FORMATS = (".npz", ".safetensors", ".parquet")
COLUMNS = ("tables", "ids", "steps", "counts", "values")
_KIND = "oneflow.one_embedding delta 1"
# Rows that are read or written at once.
AT_ONCE = 1 << 16
# Memory for rows of a store that a command opens.
BUDGET = 256 << 20


def columns(saved: _EmbeddingSaved, entries: list[int] | None = None) -> dict[str, Tensor]:
    """All rows, or those at these places, as tensors by ``COLUMNS``."""
    n = len(saved) if entries is None else len(entries)
    parts = []
    for first in range(0, max(n, 1), AT_ONCE):
        end = min(first + AT_ONCE, n)
        parts.append(saved.records(first, end) if entries is None else saved.select(entries[first:end]))
    return {name: oneflow.cat(list(part)) for name, part in zip(COLUMNS, zip(*parts, strict=True), strict=True)}


def save_delta(folder: str, since: str, snapshot: str | None, out: str) -> dict[str, int]:
    """Write what became of the snapshot ``since``: rows that may have changed, and ids that are gone."""
    older, newer = _EmbeddingSaved(folder, since), _EmbeddingSaved(folder, snapshot)
    changed, gone_tables, gone_ids = newer.since(older)
    config = json.dumps(newer.config(), sort_keys=True)
    rows = {**columns(newer, changed), "gone_tables": gone_tables, "gone_ids": gone_ids}
    save_file(rows, out, {"kind": _KIND, "config": config, "since": str(older.epoch), "epoch": str(newer.epoch)})
    return {"changed": len(changed), "gone": len(gone_ids)}


def _checked(path: str, config: dict[str, Any]) -> dict[str, Tensor]:
    file = SafetensorsFile(path)
    if file.metadata.get("kind") != _KIND:
        raise ValueError(f"{path} is no delta of an embedding")
    if json.loads(file.metadata.get("config", "null")) != config:
        raise ValueError(f"{path} is a delta of a store with {file.metadata.get('config')}, this one has {config}")
    missing = {*COLUMNS, "gone_tables", "gone_ids"} - set(file)
    if missing:
        raise ValueError(f"{path} lacks {', '.join(sorted(missing))}")
    rows = {name: file[name] for name in file}
    for name in (*COLUMNS[:-1], "gone_tables", "gone_ids"):
        if rows[name].dtype is not oneflow.int64 or rows[name].dim() != 1:
            raise ValueError(
                f"{path}: {name} must be a list of int64, got {rows[name].dtype} {tuple(rows[name].shape)}"
            )
    if rows["values"].dtype is not oneflow.float32:
        raise ValueError(f"{path}: values must be float32, got {rows['values'].dtype}")
    return rows


def merge_deltas(folder: str, deltas: list[str]) -> dict[str, int]:
    """Apply deltas to a store, one after the other, and commit once: all of them or none."""
    store = _EmbeddingStore.existing(folder, BUDGET)
    try:
        config, changed, gone = store.config(), 0, 0
        # All files are checked before the first is applied.
        checked = [_checked(path, config) for path in deltas]
        for rows in checked:
            n = len(rows["ids"])
            for first in range(0, n, AT_ONCE):
                store.put(*[rows[name][first : first + AT_ONCE].contiguous() for name in COLUMNS])
            batch = _EmbeddingBatch(
                rows["gone_ids"].contiguous(), rows["gone_tables"].contiguous(), int(config["n_tables"]), None
            )
            gone += store.remove(batch)
            changed += n
        store.commit()
    finally:
        store.close()
    return {"changed": changed, "gone": gone}


def export(folder: str, snapshot: str | None, out: str, weights_only: bool) -> int:
    """Write all rows to a file of one of ``FORMATS``; returns how many there are."""
    ending = Path(out).suffix
    if ending not in FORMATS:
        raise ValueError(f"an export ends with {', '.join(FORMATS)}, got {out!r}")
    saved = _EmbeddingSaved(folder, snapshot)
    config = saved.config()
    rows = columns(saved)
    if weights_only:
        rows = {"tables": rows["tables"], "ids": rows["ids"], "values": rows["values"][:, : sum(config["column_dims"])]}
    if ending == ".safetensors":
        save_file(rows, out, {"config": json.dumps(config)})
    elif ending == ".npz":
        scratch = f"{out}.tmp"
        with open(scratch, "wb") as file:
            np.savez(file, **{name: column.numpy() for name, column in rows.items()})
        os.replace(scratch, out)
    else:
        _write_parquet(rows, out)
    return len(saved)


def _write_parquet(rows: dict[str, Tensor], out: str) -> None:
    try:
        import pyarrow  # type: ignore[import-not-found]
        from pyarrow import parquet
    except ImportError as error:
        raise NotImplementedError("exporting to Parquet needs pyarrow: pip install pyarrow") from error
    arrays = {}
    for name, column in rows.items():
        values = column.contiguous().numpy()
        if values.ndim == 2:
            arrays[name] = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.reshape(-1)), values.shape[1])
        else:
            arrays[name] = pyarrow.array(values)
    parquet.write_table(pyarrow.table(arrays), out)
