"""Modules exported as programs of ops, independent of their Python code: traced, saved, loaded and run.

:func:`export` traces a module into an :class:`ExportedProgram`, a graph of calls (:mod:`oneflow.fx`) with a signature,
in which dimensions may stay open (:class:`Dim`). :func:`save` and :func:`load` write and read ``.pt2`` archives; those
that PyTorch writes are read too. :func:`save_program` compiles a program for Rust, which runs it at all sizes.
"""

from __future__ import annotations

from oneflow._base.refusals import refuse
from oneflow._trace.open_dims import Dim, dims
from oneflow.export import graph_signature
from oneflow.export._archive import load, save
from oneflow.export._dataclasses import register_dataclass
from oneflow.export._directory import save_program
from oneflow.export._exporting import export
from oneflow.export._unflattening import UnflattenedModule, unflatten
from oneflow.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from oneflow.export.graph_signature import ExportBackwardSignature, ExportGraphSignature

__all__ = [
    "Dim",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "ExportedProgram",
    "ModuleCallEntry",
    "ModuleCallSignature",
    "UnflattenedModule",
    "dims",
    "draft_export",
    "export",
    "graph_signature",
    "load",
    "register_dataclass",
    "save",
    "save_program",
    "unflatten",
]

draft_export = refuse("oneflow.export.draft_export", "use oneflow.export.export, whose errors have the place")
