"""Options of a store: dictionaries that the modules read. The functions here never change their arguments."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

Options = dict[str, Any]
Path = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

# The memory of a row besides its numbers, at most: its header, its flag and its shares of a queue, of what finds it in
# memory, and of what finds it on disk.
ROW_OVERHEAD = 24 + 1 + 4 + 16 + 13 + 18 + 13
# That of a store besides its rows.
STORE_OVERHEAD = 1 << 18
_FIELDS = {
    "constant": ("value",),
    "uniform": ("low", "high"),
    "normal": ("mean", "std"),
    "trunc_normal": ("mean", "std", "a", "b"),
}
_KINDS = {name: number for number, name in enumerate(_FIELDS)}


def _positive(function: str, **given: Any) -> None:
    for name, value in given.items():
        if not value > 0:
            raise ValueError(f"{function}(): {name} must be greater than 0, got {value}")


def _store(
    function: str,
    caches: list[Options],
    persistent_path: Path,
    capacity: int,
    size_factor: int,
    storage_dim: int,
    physical_block_size: int,
    direct_io: bool = False,
    pages: bool | None = None,
    bounds_disk: bool = False,
) -> Options:
    if physical_block_size not in (512, 4096):
        raise ValueError(f"{function}(): physical_block_size must be 512 or 4096, got {physical_block_size}")
    if storage_dim == -1:
        _positive(function, size_factor=size_factor)
    else:
        _positive(function, storage_dim=storage_dim)
    return {
        "kv_store": {
            "caches": caches,
            "persistent_table": {
                "path": persistent_path,
                "physical_block_size": physical_block_size,
                "capacity_hint": int(capacity),
                "direct_io": bool(direct_io),
                "pages": None if pages is None else bool(pages),
                "bounds_disk": bool(bounds_disk),
            },
        },
        "size_factor": size_factor,
        "storage_dim": storage_dim,
    }


def make_device_mem_store_options(
    persistent_path: Path,
    capacity: int,
    size_factor: int = 1,
    storage_dim: int = -1,
    physical_block_size: int = 4096,
) -> Options:
    """Options of a store with ``capacity`` rows in the memory of the module's device. Rows beyond them go to disk.

    Args:
        persistent_path: a folder, in which each rank uses its own, ``RANK-RANKS``; or a list of a folder for each rank.
        capacity: rows in memory.
        size_factor: numbers kept for each weight: 1 for SGD, 2 with momentum or for Adagrad, 3 for Adam and FTRL.
        storage_dim: numbers kept for each row; takes the place of ``size_factor``.
        physical_block_size: 512 or 4096: the blocks of direct reads; without them records are read at any offset.

    Raises:
        ValueError: a number is out of its bounds.

    Example::

        >>> options = oneflow.one_embedding.make_device_mem_store_options("rows", capacity=1000)
        >>> options["kv_store"]["caches"][0]["policy"]
        'full'
    """
    _positive("make_device_mem_store_options", capacity=capacity)
    cache = {"policy": "full", "capacity": int(capacity), "value_memory_kind": "device"}
    return _store(
        "make_device_mem_store_options",
        [cache],
        persistent_path,
        capacity,
        size_factor,
        storage_dim,
        physical_block_size,
    )


def make_cached_host_mem_store_options(
    cache_budget_mb: float,
    persistent_path: Path,
    capacity: int,
    size_factor: int = 1,
    storage_dim: int = -1,
    physical_block_size: int = 4096,
) -> Options:
    """Options of a store with ``capacity`` rows in the host's memory, and the hottest in the device's too.

    On the CPU both are one memory, so only ``capacity`` counts.

    Args:
        cache_budget_mb: memory of the device for rows, in MiB.
        persistent_path, capacity, size_factor, storage_dim, physical_block_size: as
            :func:`make_device_mem_store_options`.

    Raises:
        ValueError: a number is out of its bounds.

    Example::

        >>> options = oneflow.one_embedding.make_cached_host_mem_store_options(16, "rows", capacity=1000)
        >>> [cache["value_memory_kind"] for cache in options["kv_store"]["caches"]]
        ['device', 'host']
    """
    function = "make_cached_host_mem_store_options"
    _positive(function, cache_budget_mb=cache_budget_mb, capacity=capacity)
    caches = [
        {"policy": "lru", "cache_memory_budget_mb": cache_budget_mb, "value_memory_kind": "device"},
        {"policy": "full", "capacity": int(capacity), "value_memory_kind": "host"},
    ]
    return _store(function, caches, persistent_path, capacity, size_factor, storage_dim, physical_block_size)


def make_cached_ssd_store_options(
    cache_budget_mb: float,
    persistent_path: Path,
    capacity: int | None = None,
    size_factor: int = 1,
    storage_dim: int = -1,
    physical_block_size: int = 4096,
    host_cache_budget_mb: float = 0,
    direct_io: bool = False,
    pages: bool | None = None,
    bounds_disk: bool = False,
) -> Options:
    """Options of a store on disk with the hottest rows in memory.

    Args:
        cache_budget_mb: memory of the module's device for rows, in MiB; on the CPU this is the host's.
        persistent_path, size_factor, storage_dim, physical_block_size: as :func:`make_device_mem_store_options`.
        capacity: the number of rows expected. A store grows beyond it.
        host_cache_budget_mb: memory of the host for rows, in MiB; on the CPU the two budgets are added.
        direct_io: read past the system's cache of files, where the file system has such reads. Rows outside of the
            budget then take no memory at all; without it the system keeps what it has room for, and reads are faster.
        pages: whether rows on disk lie in pages of 4 KiB, which cost less than 2 bytes of memory a row but more writes,
            or in a log, whose index takes 25 to 30 bytes a row. None chooses pages for rows of which eight fit in one.
        bounds_disk: make an epoch, as ``commit`` does, before a call that changes rows where files could otherwise take
            more than twice the rows in use, since those of the last epoch stay. What is opened after a crash may then
            be newer than the last ``commit``.

    Raises:
        ValueError: a number is out of its bounds.

    Example::

        >>> options = oneflow.one_embedding.make_cached_ssd_store_options(64, "rows", size_factor=3)
        >>> options["size_factor"]
        3
    """
    function = "make_cached_ssd_store_options"
    if not (cache_budget_mb >= 0 and host_cache_budget_mb >= 0 and cache_budget_mb + host_cache_budget_mb > 0):
        raise ValueError(
            f"{function}(): one of cache_budget_mb and host_cache_budget_mb must be greater than 0 and none less, "
            f"got {cache_budget_mb} and {host_cache_budget_mb}"
        )
    if capacity is not None:
        _positive(function, capacity=capacity)
    budgets = {"device": cache_budget_mb, "host": host_cache_budget_mb}
    caches = [
        {"policy": "lru", "cache_memory_budget_mb": budget, "value_memory_kind": kind}
        for kind, budget in budgets.items()
        if budget > 0
    ]
    return _store(
        function,
        caches,
        persistent_path,
        capacity or 0,
        size_factor,
        storage_dim,
        physical_block_size,
        direct_io,
        pages,
        bounds_disk,
    )


def make_uniform_initializer(low: float = 0.0, high: float = 1.0) -> Options:
    """Initial weights drawn evenly from ``[low, high)``.

    Example::

        >>> oneflow.one_embedding.make_uniform_initializer(low=-0.1, high=0.1)
        {'type': 'uniform', 'low': -0.1, 'high': 0.1}
    """
    return {"type": "uniform", "low": low, "high": high}


def make_normal_initializer(mean: float = 0.0, std: float = 1.0) -> Options:
    """Initial weights drawn from a normal distribution.

    Example::

        >>> oneflow.one_embedding.make_normal_initializer(std=0.05)
        {'type': 'normal', 'mean': 0.0, 'std': 0.05}
    """
    return {"type": "normal", "mean": mean, "std": std}


def make_constant_initializer(value: float) -> Options:
    """Initial weights that are all ``value``.

    Example::

        >>> oneflow.one_embedding.make_constant_initializer(0.5)
        {'type': 'constant', 'value': 0.5}
    """
    return {"type": "constant", "value": value}


def make_trunc_normal_initializer(mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Options:
    """Initial weights drawn from a normal distribution truncated to ``[a, b]``.

    Example::

        >>> oneflow.one_embedding.make_trunc_normal_initializer(std=0.01, a=-0.02, b=0.02)
        {'type': 'trunc_normal', 'mean': 0.0, 'std': 0.01, 'a': -0.02, 'b': 0.02}
    """
    return {"type": "trunc_normal", "mean": mean, "std": std, "a": a, "b": b}


def make_table_options(param: Options | Sequence[Options], admission: Options | None = None) -> Options:
    """Options of a table: an initializer for all columns, or a list of :func:`make_column_options`, one for each.

    Args:
        param: the initializer or the columns.
        admission: which new ids get a row, by one of the ``make_*_admission``; all if None.

    Raises:
        TypeError: ``param`` is neither.

    Example::

        >>> initializer = oneflow.one_embedding.make_constant_initializer(0)
        >>> oneflow.one_embedding.make_table_options(initializer)
        {'initializer': {'type': 'constant', 'value': 0}}
    """
    extra: Options = {} if admission is None else {"admission": admission}
    if isinstance(param, dict):
        return {"initializer": param, **extra}
    if isinstance(param, (list, tuple)):
        return {"columns": list(param), **extra}
    raise TypeError(f"make_table_options(): expected an initializer or a list of columns, got {type(param).__name__}")


def make_table(param: Options | Sequence[Options], admission: Options | None = None) -> Options:
    """As :func:`make_table_options`.

    Example::

        >>> oneflow.one_embedding.make_table(oneflow.one_embedding.make_constant_initializer(0))
        {'initializer': {'type': 'constant', 'value': 0}}
    """
    return make_table_options(param, admission)


def make_count_admission(at_least: int, filter_bytes: int | None = None) -> Options:
    """Admit ids that updates have named ``at_least`` times: until then they keep their initial weights.

    Args:
        at_least: occurrences; those of the admitting update count.
        filter_bytes: count in a counting Bloom filter of this size, which sometimes counts too many; None counts
            exactly, in some 24 bytes for each id that waits.

    Raises:
        ValueError: a number is out of its bounds: a filter counts to 255.

    Example::

        >>> oneflow.one_embedding.make_count_admission(3)
        {'type': 'count', 'at_least': 3}
    """
    _positive("make_count_admission", at_least=at_least)
    if filter_bytes is None:
        return {"type": "count", "at_least": int(at_least)}
    _positive("make_count_admission", filter_bytes=filter_bytes)
    if at_least > 255:
        raise ValueError(f"make_count_admission(): a filter counts to 255, got at_least={at_least}")
    return {"type": "counting_bloom", "at_least": int(at_least), "filter_bytes": int(filter_bytes)}


def make_probability_admission(probability: float) -> Options:
    """Admit a new id with this probability at each update that names it.

    Raises:
        ValueError: it does not lie in [0, 1].

    Example::

        >>> oneflow.one_embedding.make_probability_admission(0.1)
        {'type': 'probability', 'probability': 0.1}
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"make_probability_admission(): probability must lie in [0, 1], got {probability}")
    return {"type": "probability", "probability": float(probability)}


def make_column_options(initializer: Options) -> Options:
    """Options of a column of a table.

    Example::

        >>> oneflow.one_embedding.make_column_options(oneflow.one_embedding.make_constant_initializer(0))
        {'initializer': {'type': 'constant', 'value': 0}}
    """
    return {"initializer": initializer}


# ---- what the modules read out of them


def initializer_numbers(options: Any) -> tuple[int, list[float]]:
    """An initializer as the store takes it: its number and four parameters."""
    kind = options.get("type") if isinstance(options, dict) else None
    if kind not in _FIELDS:
        raise ValueError(f"one_embedding: an initializer is made by one of the make_*_initializer, got {options!r}")
    missing = [field for field in _FIELDS[kind] if field not in options]
    if missing:
        raise ValueError(f"one_embedding: the initializer {options!r} lacks {', '.join(missing)}")
    numbers = [float(options[field]) for field in _FIELDS[kind]]
    return _KINDS[kind], numbers + [0.0] * (4 - len(numbers))


def table_numbers(table: Options, n_columns: int) -> list[tuple[int, list[float]]]:
    """The initializers of a table's columns."""
    if not isinstance(table, dict) or ("columns" in table) == ("initializer" in table):
        raise ValueError(f"one_embedding: a table is made by make_table_options, got {table!r}")
    if "initializer" in table:
        return [initializer_numbers(table["initializer"])] * n_columns
    columns = table["columns"]
    if len(columns) != n_columns:
        raise ValueError(f"one_embedding: a table has {len(columns)} columns, embedding_dim {n_columns}")
    return [initializer_numbers(column["initializer"]) for column in columns]


def admission_numbers(options: Options | None) -> tuple[int, int, float, int]:
    """How a table admits ids as the store takes it: its number, a count, a probability and the bytes of a filter."""
    match options:
        case None:
            return 0, 0, 0.0, 0
        case {"type": "count", "at_least": n}:
            return 1, n, 0.0, 0
        case {"type": "counting_bloom", "at_least": n, "filter_bytes": size}:
            return 2, n, 0.0, size
        case {"type": "probability", "probability": p}:
            return 3, 0, p, 0
    raise ValueError(f"one_embedding: an admission is made by one of the make_*_admission, got {options!r}")


def memory_budget(caches: Sequence[Options], storage_dim: int, n_ranks: int = 1) -> int:
    """Bytes of a rank: its share of what a full cache needs for rows and indexes, else the sum of the budgets."""
    full = [cache["capacity"] for cache in caches if cache["policy"] == "full"]
    if full:
        # Hashes give ranks shares that differ a little.
        share = max(full) if n_ranks == 1 else math.ceil(max(full) / n_ranks * 1.05)
        # A row's numbers may be followed by a sixteenth of them, so that the next row begins with a cache line.
        return share * (4 * storage_dim + storage_dim // 4 + ROW_OVERHEAD) + STORE_OVERHEAD
    return sum(math.ceil(cache["cache_memory_budget_mb"] * (1 << 20)) for cache in caches)


def direct_block(persistent_table: Options) -> int | None:
    """Bytes of a block of direct reads; None without them."""
    return persistent_table["physical_block_size"] if persistent_table.get("direct_io") else None


def folder(path: Path, rank: int, n_ranks: int) -> str:
    """The folder of a rank."""
    if isinstance(path, (str, os.PathLike)):
        return os.path.join(os.fspath(path), f"{rank}-{n_ranks}")
    if len(path) != n_ranks:
        raise ValueError(f"one_embedding: persistent_path lists {len(path)} folders for {n_ranks} ranks")
    return os.fspath(path[rank])


def folders_of_other_worlds(path: Path, n_ranks: int, snapshot: str) -> list[str]:
    """The folders of all ranks of another world below a path, where all of them have a snapshot; the newest such."""
    if not isinstance(path, (str, os.PathLike)) or not os.path.isdir(path) or os.path.basename(snapshot) != snapshot:
        return []
    base, found = os.fspath(path), []
    sizes = {name.partition("-")[2] for name in os.listdir(base) if name.startswith("0-")}
    for size in sizes:
        if size.isdecimal() and int(size) != n_ranks:
            folders = [folder(base, rank, int(size)) for rank in range(int(size))]
            files = [os.path.join(f, "snapshots", f"{snapshot}.manifest") for f in folders]
            if all(map(os.path.isfile, files)):
                found.append((max(map(os.path.getmtime, files)), folders))
    return max(found)[1] if found else []
