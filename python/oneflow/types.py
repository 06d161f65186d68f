"""Types of annotations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias, Union

from oneflow import Size, Tensor, device, dtype, layout
from oneflow.storage import TypedStorage, UntypedStorage

__all__ = ["Device", "FileLike", "IntLikeType", "Number", "Storage"]

# bool first: it is an int too.
_bool, _int, _float, _complex = bool, int, float, complex
_dtype, _device, _layout = dtype, device, layout
Number: TypeAlias = int | float | bool
IntLikeType: TypeAlias = int
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = Union[str, "os.PathLike[str]", IO[bytes]]
Storage: TypeAlias = UntypedStorage | TypedStorage
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_dispatchkey: TypeAlias = Any
