"""``.pt2`` archives: what a program is on disk, written as PyTorch lays it out, and read from PyTorch too.

A zip file: ``models/model.json`` has the graph and its signature, ``data/weights`` and ``data/constants`` the bytes of
tensors with a list of their metas, ``data/sample_inputs`` the example. Nothing in it is code: nodes name ops, and those
that are neither ops nor functions of numbers are refused. Sizes are compared with the file's before memory is taken.
"""

from __future__ import annotations

import io
import json
import os
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.export import _schema
from oneflow.export.exported_program import ExportedProgram
from oneflow.export.graph_signature import ConstantArgument, InputKind, OutputKind
from oneflow.nn import Parameter

__all__ = ["load", "of_bytes", "save", "to_bytes"]

_WEIGHTS, _CONSTANTS = "data/weights/", "data/constants/"
_LARGEST_TEXT = 1 << 30


def save(
    ep: ExportedProgram,
    f: Any,
    *,
    extra_files: Mapping[str, Any] | None = None,
    opset_version: Mapping[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Write a program to a path or an open file.

    Args:
        ep: the program.
        f: a path, which should end in ``.pt2``, or a file that is open for writing bytes.
        extra_files: texts or bytes to store beside the program, by name.
        opset_version: has to be None.

    Example::

        >>> import io
        >>> file = io.BytesIO()
        >>> oneflow.export.save(oneflow.export.export(oneflow.nn.ReLU(), (oneflow.ones(2),)), file)
        >>> oneflow.export.load(io.BytesIO(file.getvalue())).module()(oneflow.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    if opset_version is not None:
        raise NotImplementedError("export.save: opset_version is not provided")
    if not hasattr(f, "write"):
        path = os.fspath(f)
        if not str(path).endswith(".pt2"):
            warnings.warn(f"Expect archive file to be a file ending in .pt2, but is {path}", UserWarning, stacklevel=2)
    elif not isinstance(f, io.IOBase) and not hasattr(f, "seek"):
        raise TypeError("export.save: the file has to be open for writing bytes")
    stem = "program" if hasattr(f, "write") else PurePath(os.fspath(f)).stem
    with zipfile.ZipFile(f if hasattr(f, "write") else os.fspath(f), "w", zipfile.ZIP_STORED) as archive:
        _write(archive, stem, ep, extra_files or {})


def to_bytes(ep: ExportedProgram) -> bytes:
    """Return the bytes of a program's archive."""
    file = io.BytesIO()
    save(ep, file)
    return file.getvalue()


def of_bytes(data: bytes) -> ExportedProgram:
    """Return the program in the bytes of an archive."""
    return load(io.BytesIO(data))


def _write(archive: zipfile.ZipFile, stem: str, ep: ExportedProgram, extra: Mapping[str, Any]) -> None:
    def put(name: str, data: bytes | str) -> None:
        archive.writestr(zipfile.ZipInfo(f"{stem}/{name}"), data)

    put("archive_format", "pt2")
    put("archive_version", "0")
    put("byteorder", "little")
    put("models/model.json", json.dumps(_schema.program_to_json(ep)))
    unsaved = set(ep.graph_signature.non_persistent_buffers)
    weights = {name: value for name, value in ep.state_dict.items() if name not in unsaved}
    for folder, prefix, tensors in ((_WEIGHTS, "weight", weights), (_CONSTANTS, "tensor", ep.constants)):
        listed = {}
        for i, (name, value) in enumerate(tensors.items()):
            if not isinstance(value, Tensor):
                raise TypeError(f"export.save: {name} is a {type(value).__name__}; tensors are saved")
            plain = value.detach().cpu().contiguous()
            listed[name] = {
                "path_name": f"{prefix}_{i}",
                "is_param": isinstance(value, Parameter),
                "use_pickle": False,
                "tensor_meta": _schema.meta_to_json(plain, value.requires_grad),
            }
            put(f"{folder}{prefix}_{i}", bytes(plain.flatten().view(oneflow.uint8).numpy()) if plain.numel() else b"")
        kind = "weights" if folder == _WEIGHTS else "constants"
        put(f"{folder}model_{kind}_config.json", json.dumps({"config": listed}))
    if ep.example_inputs is not None:
        file = io.BytesIO()
        oneflow.save(ep.example_inputs, file)
        put("data/sample_inputs/model.pt", file.getvalue())
    for name, data in extra.items():
        put(f"extra/{name}", data if isinstance(data, (str, bytes)) else str(data))


def load(
    f: Any, *, extra_files: dict[str, Any] | None = None, expected_opset_version: Mapping[str, int] | None = None
) -> ExportedProgram:
    """Read a program that :func:`save`, or PyTorch's ``torch.export.save``, has written.

    Args:
        f: a path, or a file that is open for reading bytes.
        extra_files: a dictionary whose values are set to what the archive has under its keys.
        expected_opset_version: has to be None.

    Raises:
        ValueError: the file is not such an archive, is damaged, or calls something that is not an op.

    Example::

        >>> import io
        >>> file = io.BytesIO()
        >>> oneflow.export.save(oneflow.export.export(oneflow.nn.Tanh(), (oneflow.ones(2),)), file)
        >>> oneflow.export.load(io.BytesIO(file.getvalue())).graph_signature.user_outputs
        ('tanh',)
    """
    if expected_opset_version is not None:
        raise NotImplementedError("export.load: expected_opset_version is not provided")
    source = f if hasattr(f, "read") else os.fspath(f)
    try:
        archive = zipfile.ZipFile(source)
    except (zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"export.load: {_shown(f)} is not a .pt2 archive: {error}") from None
    with archive:
        return _Reader(archive, _shown(f)).program(extra_files)


def _shown(f: Any) -> str:
    return "the file" if hasattr(f, "read") else str(f)


class _Reader:
    """One archive."""

    def __init__(self, archive: zipfile.ZipFile, shown: str) -> None:
        self.archive, self.shown = archive, shown
        self._read: dict[str, bytes] = {}
        self.entries = {name.partition("/")[2]: name for name in archive.namelist()}
        if self._text("archive_format", "") != "pt2" or "models/model.json" not in self.entries:
            hint = ""
            if "constants.pkl" in self.entries:
                hint = "; it is a TorchScript archive, whose programs are not read (oneflow.load reads its weights)"
            raise ValueError(f"export.load: {shown} has no models/model.json, as a .pt2 archive has{hint}")
        if self._text("byteorder", "little") != "little":
            raise ValueError(f"export.load: {shown} has big-endian numbers")

    def _bytes(self, name: str) -> bytes:
        if name not in self.entries:
            raise ValueError(f"export.load: {self.shown} lacks {name}")
        info = self.archive.getinfo(self.entries[name])
        if info.compress_type != zipfile.ZIP_STORED and info.file_size > _LARGEST_TEXT:
            raise ValueError(f"export.load: {name} of {self.shown} unpacks to {info.file_size} bytes")
        try:
            return self.archive.read(info)
        except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise ValueError(f"export.load: {name} of {self.shown} is damaged: {error}") from None

    def _text(self, name: str, absent: str) -> str:
        return self._bytes(name).decode("utf-8", "replace").strip() if name in self.entries else absent

    def _json(self, name: str) -> Any:
        try:
            return json.loads(self._bytes(name))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"export.load: {name} of {self.shown} is damaged: {error}") from None

    def program(self, extra_files: dict[str, Any] | None) -> ExportedProgram:
        described = self._json("models/model.json")
        state = self._tensors(_WEIGHTS, "model_weights_config.json")
        constants = self._tensors(_CONSTANTS, "model_constants_config.json")
        example = None
        if "data/sample_inputs/model.pt" in self.entries:
            try:
                example = oneflow.load(io.BytesIO(self._bytes("data/sample_inputs/model.pt")), weights_only=True)
            except EOFError as error:
                raise ValueError(f"export.load: the example inputs of {self.shown} are damaged: {error}") from None
        for name in extra_files or ():
            assert extra_files is not None
            extra_files[name] = self._text(f"extra/{name}", "")
        try:
            made = _schema.program_of_json(described, state, constants, example)
        except (KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError, StopIteration) as error:
            raise ValueError(
                f"export.load: models/model.json of {self.shown} is damaged: {type(error).__name__} {error}"
            ) from None
        except ValueError as error:
            raise ValueError(f"export.load: {self.shown}: {error}") from None
        self._complete(made)
        return made

    def _complete(self, program: ExportedProgram) -> None:
        held = {**program.constants, **program.state_dict}
        signature = program.graph_signature
        targets = [str(s.target) for s in signature.input_specs if s.kind is not InputKind.USER_INPUT]
        written = {*targets, *(s.arg.name for s in signature.input_specs if s.kind is InputKind.USER_INPUT)}
        if len(set(targets)) < len(targets):
            twice = next(name for name in targets if targets.count(name) > 1)
            raise ValueError(f"export.load: {self.shown} has two inputs for the tensor {twice!r}")
        for output in signature.output_specs:
            if output.kind is not OutputKind.USER_OUTPUT and str(output.target) not in written:
                raise ValueError(f"export.load: {self.shown} writes {output.target!r}, which is no input of it")
        for node, spec in zip(program.graph.find_nodes(op="placeholder"), signature.input_specs, strict=True):
            is_tensor = spec.kind is InputKind.USER_INPUT and not isinstance(spec.arg, ConstantArgument)
            if is_tensor and "sizes" not in node.meta:
                raise ValueError(f"export.load: {self.shown} does not say what tensor its input {node.name!r} is")
            if spec.kind is not InputKind.USER_INPUT and spec.target not in held:
                raise ValueError(f"export.load: {self.shown} lacks the tensor {spec.target!r}")
            if spec.kind is InputKind.BUFFER and isinstance(held[str(spec.target)], Parameter):
                raise ValueError(f"export.load: {self.shown} has the buffer {spec.target!r} as a parameter")

    def _tensors(self, folder: str, listing: str) -> dict[str, Any]:
        if folder + listing not in self.entries:
            return {}
        listed = self._json(folder + listing)
        try:
            return {name: self._tensor(folder, name, entry) for name, entry in listed["config"].items()}
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
            what = f"{type(error).__name__} {error}"
            raise ValueError(f"export.load: {folder}{listing} of {self.shown} is damaged: {what}") from None

    def _tensor(self, folder: str, name: str, entry: Any) -> Any:
        path = folder + entry["path_name"]
        if entry.get("use_pickle"):
            return oneflow.load(io.BytesIO(self._bytes(path)), weights_only=True)
        # Bytes that several names share are read once.
        if path not in self._read:
            self._read[path] = self._bytes(path)
        try:
            value = _schema.tensor_of(self._read[path], entry["tensor_meta"])
        except (ValueError, RuntimeError, KeyError, TypeError) as error:
            raise ValueError(f"export.load: the tensor {name!r} of {self.shown} is damaged: {error}") from None
        return Parameter(value, entry["tensor_meta"]["requires_grad"]) if entry["is_param"] else value
