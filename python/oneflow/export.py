"""Exported programs are not provided: :class:`oneflow.nn.Graph` compiles, ``oneflow.save`` writes what Rust runs."""

from __future__ import annotations

from typing import Any

from oneflow._base.refusals import refuse, refuse_class

__all__ = ["Dim", "ExportedProgram", "export", "load", "save"]

_INSTEAD = "use oneflow.nn.Graph, and oneflow.save of a graph to run without Python"

export = refuse("oneflow.export.export", _INSTEAD)
save = refuse("oneflow.export.save", _INSTEAD)
load = refuse("oneflow.export.load", _INSTEAD)
Dim: Any = refuse_class("oneflow.export.Dim", _INSTEAD)
ExportedProgram: Any = refuse_class("oneflow.export.ExportedProgram", _INSTEAD)
