"""save and load in PyTorch's zip format: each reads what the other wrote.

An archive holds ``data.pkl`` (the object, tensors as references), ``data/<key>`` (the bytes of one storage each, shared
by its views), ``byteorder`` and ``version``. ``_files/checkpoint_writer.py`` and ``_files/checkpoint_reader.py`` write
and read it, ``_files/old_checkpoint.py`` the format before it. Loading is restricted to tensors and plain containers
unless asked otherwise; see ``_files/unpickler.py``.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import pickletools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeAlias

import oneflow
from oneflow import Tensor
from oneflow._files import checkpoint_reader as reader
from oneflow._files import checkpoint_writer as writer
from oneflow._files.checkpoint_settings import (
    LoadEndianness,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from oneflow._files.replaced_file import replaced_file
from oneflow._files.storage_places import default_restore_location, location_tag, register_package
from oneflow._files.unpickler import (
    RestrictedUnpickler,
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    is_listed,
    safe_globals,
)
from oneflow._tensor.methods import _tensor_from_bytes  # noqa: F401 (in pickles)
from oneflow.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = [
    "LoadEndianness",
    "SourceChangeWarning",
    "add_safe_globals",
    "check_module_version_greater_or_equal",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]

# For annotations: what ``map_location`` may be.
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | oneflow.device | str | dict[str, str] | None

# What PyTorch's ``torch.load(weights_only=True)`` reads.
DEFAULT_PROTOCOL = 2


class SourceChangeWarning(Warning):
    """A module in an old checkpoint has another source now. Kept for filters of warnings: ``load`` does not compare.

    Example::

        >>> import warnings
        >>> warnings.filterwarnings("ignore", category=oneflow.serialization.SourceChangeWarning)
    """


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[int | str, ...], error_if_malformed: bool = True
) -> bool:
    """Return whether ``module.__version__`` is at least a version.

    Args:
        module: the module.
        req_version_tuple: the version's parts; the module's are read as the types of these.
        error_if_malformed: raise if its version cannot be read so; otherwise warn and return True.

    Raises:
        RuntimeError: the version cannot be read.

    Example::

        >>> import numpy
        >>> oneflow.serialization.check_module_version_greater_or_equal(numpy, (1, 20))
        True
    """
    try:
        parts = module.__version__.split(".")
        found = tuple(type(want)(part) for want, part in zip(req_version_tuple, parts, strict=False))
        return found >= tuple(req_version_tuple)
    except Exception as error:
        text = f"{getattr(module, '__name__', module)!r} has a version that cannot be compared: {error}"
        if error_if_malformed:
            raise RuntimeError(text) from error
        warnings.warn(f"{text}; it is taken to be at least {req_version_tuple}", stacklevel=2)
        return True


def save(
    obj: Any,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    *,
    global_dst_rank: int | None = None,
) -> None:
    """Write ``obj`` to a file that :func:`load` and ``torch.load`` read.

    Args:
        obj: tensors, numbers, strings and containers of them, such as a ``state_dict``; or a compiled ``nn.Graph``,
            whose program and weights go into a directory that runs without Python too.
        f: path, or a binary file open for writing. A file of that path is replaced when the new one is whole.
        pickle_module: a module with a ``Pickler``, such as dill, in place of Python's. What a compiled one writes, such
            as that of cloudpickle, is for :func:`load` alone, which then must get the module too.
        pickle_protocol: 2 is what ``torch.load(weights_only=True)`` reads.
        _use_new_zipfile_serialization: False writes what PyTorch before 1.6 reads.
        global_dst_rank: the one rank that writes. By default every rank that calls does.

    A DTensor, which is a global tensor over a ``DeviceMesh``, is written as its part on this rank and comes back as a
    DTensor on the same number of ranks; each rank writes a file of its own, which PyTorch does not read. Other global
    tensors, and with ``global_dst_rank`` all, are written whole, as local ones: all ranks call, with the same ``obj``.
    ``Module.load_state_dict`` takes them back into global modules.

    Views of one storage share it in the file and after loading.

    Raises:
        AttributeError: ``f`` is neither a path nor has a method ``write``.
        RuntimeError: the directory does not exist.
        OSError: the file cannot be written; what was there before stays.

    Example::

        >>> oneflow.save(model.state_dict(), "model.pt")
    """
    if isinstance(obj, oneflow.nn.Graph):
        if not isinstance(f, (str, os.PathLike)):
            raise TypeError(f"save(): a graph is written into a directory, got {type(f).__name__}")
        # Late: importing the package stays light.
        from oneflow._trace import saved

        if _is_rank(global_dst_rank):
            saved.save(obj, f)
        return
    if not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise AttributeError(
            "save: expected 'f' to be string, path, or a file-like object with a 'write' attribute, "
            f"got {type(f).__name__}"
        )
    pickler_class = writer.pickler_of(pickle_module)
    if not _use_new_zipfile_serialization:
        from oneflow._files import old_checkpoint

        with replaced_file(f) if isinstance(f, (str, os.PathLike)) else contextlib.nullcontext(f) as file:
            old_checkpoint.write(obj, file, pickle_protocol, pickler_class)
        return
    buffer = io.BytesIO()
    pickler = pickler_class(buffer, pickle_protocol)
    pickler.writes_wholes = global_dst_rank is not None
    pickler.dump(obj)
    if not _is_rank(global_dst_rank):
        return
    if isinstance(f, (str, os.PathLike)):
        with replaced_file(f) as file:
            writer.write_archive(file, Path(os.fspath(f)).stem, buffer.getvalue(), pickler)
    else:
        writer.write_archive(f, "archive", buffer.getvalue(), pickler)


def _is_rank(rank: int | None) -> bool:
    if rank is None:
        return True
    here, n = oneflow.env.get_rank(), oneflow.env.get_world_size()
    if not isinstance(rank, int) or not 0 <= rank < n:
        raise ValueError(f"there is no rank {rank!r}: the job has {n}")
    return rank == here


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    global_src_rank: int | None = None,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    support_pytorch_format: bool = True,
    **pickle_load_args: Any,
) -> Any:
    """Read what :func:`save` or ``torch.save`` wrote.

    Of an archive of TorchScript the weights are read, as a dictionary by name, with a warning.

    Args:
        f: path, or a binary file open for reading, seekable. A directory holds a compiled graph: it comes back as a
            function of the same arguments.
        map_location: where storages go: a device, a dictionary from saved to wanted device, or a function
            ``(UntypedStorage, saved location) -> storage``, where None leaves it to the registered packages. None
            puts them where they were.
        pickle_module: a module with an ``Unpickler``, such as dill, in place of Python's. It makes ``weights_only``
            False, and can run any code the file contains.
        global_src_rank: the one rank that reads; all ranks call. Tensors come as global ones on that rank.
        weights_only: True (the default) builds tensors and plain containers only and refuses every other name; False
            can run any code the file contains. TORCH_FORCE_WEIGHTS_ONLY_LOAD=1 in the environment makes it True
            whatever is asked, TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 makes it False where nothing is asked.
        mmap: True maps the file into memory instead of reading it, so that numbers come from the disk when they are
            first used; ``f`` must be a path. Writes to the tensors stay in memory, unless
            :class:`set_default_mmap_options` says otherwise.
        support_pytorch_format: must be True, since :func:`save` writes PyTorch's format too.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: the archive is damaged, a tensor lies outside its storage, or a device is not available.
        ValueError: ``mmap=True`` for something that is no path.
        pickle.UnpicklingError: the pickle is broken or wants a name that is not allowed.

    Example::

        >>> oneflow.save({"w": oneflow.ones(2)}, "w.pt")
        >>> oneflow.load("w.pt")
        {'w': tensor([1., 1.])}
    """
    if not support_pytorch_format:
        raise ValueError(f"Cannot load file {f}: its format is PyTorch's, and support_pytorch_format is False")
    if pickle_module is not None and weights_only:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if global_src_rank is not None:
        options = {"map_location": map_location, "weights_only": weights_only, "pickle_module": pickle_module}
        return _from_rank(global_src_rank, f, {**options, "mmap": mmap, **pickle_load_args})
    restricted = _is_restricted(weights_only) and pickle_module is None
    unpickler = None if restricted else reader.trusting_unpickler((pickle_module or pickle).Unpickler)
    if isinstance(f, (str, os.PathLike)):
        if os.path.isdir(f):
            from oneflow._trace import saved

            return saved.LoadedGraph(f)
        with open(f, "rb") as file:
            memory = reader.mapped(f, get_default_mmap_options()) if mmap else None
            return _load(file, map_location, unpickler, pickle_load_args, memory)
    if mmap:
        raise ValueError("load: f must be a string filename in order to use mmap argument")
    if not (hasattr(f, "seek") and hasattr(f, "read") and hasattr(f, "tell")):
        raise AttributeError(
            "load: you can only load from a file that is seekable. "
            "Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
        )
    if not hasattr(f, "seekable"):
        f = io.BufferedReader(reader.Seekable(f))
    return _load(f, map_location, unpickler, pickle_load_args, None)


_FORCE, _FORCE_NOT = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def _is_restricted(weights_only: bool | None) -> bool:
    """Whether only listed names are built: as asked, or as the environment decides where nothing was asked."""
    force, force_not = (os.environ.get(name, "0") in ("1", "y", "yes", "true") for name in (_FORCE, _FORCE_NOT))
    if force and force_not:
        raise RuntimeError(f"Only one of `{_FORCE}` or `{_FORCE_NOT}` should be set, but both were set.")
    if force:
        return True
    if force_not and weights_only is None:
        warnings.warn(
            f"Environment variable {_FORCE_NOT} detected, since the `weights_only` argument was not explicitly passed "
            "to `load`, forcing weights_only=False.",
            stacklevel=3,
        )
        return False
    return weights_only is not False


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | IO[bytes]) -> list[str]:
    """Return the names in a checkpoint that ``load`` refuses with ``weights_only=True``, without building anything.

    Args:
        f: path, or a binary file open for reading, seekable.

    Example::

        >>> oneflow.save({"w": oneflow.ones(2)}, "w.pt")
        >>> oneflow.serialization.get_unsafe_globals_in_checkpoint("w.pt")
        []
    """
    with open(f, "rb") if isinstance(f, (str, os.PathLike)) else contextlib.nullcontext(f) as file:
        described = reader.Archive(file).read("data.pkl")
    known = reader.names_in_files()
    strings: list[str] = []
    found = []
    for opcode, argument, _ in pickletools.genops(described):
        if opcode.name == "GLOBAL":
            module, name = str(argument).split(" ", 1)
        elif opcode.name == "STACK_GLOBAL" and len(strings) > 1:
            module, name = strings[-2:]
        else:
            if isinstance(argument, str):
                strings.append(argument)
            continue
        if not is_listed(module, name, known):
            found.append(f"{module}.{name}")
    return sorted(set(found))


def _from_rank(rank: int, f: Any, options: dict[str, Any]) -> Any:
    """What one rank reads, on all ranks: its tensors as global ones that lie there."""
    found: list[Any] = [None, None]
    own: Any = None
    if _is_rank(rank):
        try:
            own = load(f, **options)
            # Of a tensor the others need the dtype alone.
            found = [tree_map(lambda x: oneflow.empty(0, dtype=x.dtype) if isinstance(x, Tensor) else x, own), None]
        except Exception as error:  # All ranks fail alike.
            found = [
                None,
                error if type(error).__module__ in _TOLD else RuntimeError(f"{type(error).__name__}: {error}"),
            ]
    if oneflow.env.get_world_size() > 1:
        # The file was trusted by all ranks alike, or by none.
        oneflow.distributed.broadcast_object_list(found, rank, weights_only=options.get("weights_only") is not False)
    made, failure = found
    if failure is not None:
        raise failure
    place = oneflow.placement("cpu", [rank])
    leaves, form = tree_flatten(made)
    own_leaves = tree_flatten(own)[0] if _is_rank(rank) else leaves
    result = [
        mine.detach().cpu().to_global(place, oneflow.sbp.broadcast) if isinstance(leaf, Tensor) else mine
        for leaf, mine in zip(leaves, own_leaves, strict=True)
    ]
    return tree_unflatten(result, form)


# Modules of exceptions that other ranks can build again.
_TOLD = ("builtins", "pickle", "_pickle")


def _load(file: IO[bytes], map_location: Any, unpickler: Any, options: dict[str, Any], memory: Any) -> Any:
    """``unpickler``: the class for files that one trusts, None for the restricted one; ``memory``: the mapped file."""
    from oneflow._files import old_checkpoint, torchscript

    if old_checkpoint.is_old(file):
        if memory is not None:
            raise RuntimeError(
                "mmap can only be used with files saved with `save(_use_new_zipfile_serialization=True)`: "
                "save the file again to use it"
            )
        return old_checkpoint.read(file, map_location, unpickler, options)
    archive = reader.Archive(file, memory)
    data = io.BytesIO(archive.read("data.pkl"))

    def load_storage(pid: Any) -> Any:
        return archive.storage(pid, map_location)

    if torchscript.is_torchscript(archive.has):
        warnings.warn(
            "the file is an archive of TorchScript: its weights are loaded, by name, and its program is not",
            UserWarning,
            stacklevel=3,
        )
        result = torchscript.weights(data, reader.names_in_files(), load_storage)
    elif unpickler is None:
        encoding = options.get("encoding", "utf-8")
        result = reader.plain(RestrictedUnpickler(data, reader.names_in_files(), load_storage, encoding).load())
    else:
        result = unpickler(data, load_storage, **options).load()
    archive.finish()
    return result
