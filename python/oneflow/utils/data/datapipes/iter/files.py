"""``list_files``, ``open_files`` and ``read_from_stream``: names, open files and bytes."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from oneflow.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from oneflow.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe

__all__ = ["FileListerIterDataPipe", "FileOpenerIterDataPipe", "StreamReaderIterDataPipe"]


def _nominal(pipe: Any, length: int) -> int:
    if length == -1:
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")
    return length


@functional_datapipe("list_files")
class FileListerIterDataPipe(IterDataPipe[str]):
    """The paths of the files in folders (functional form: ``list_files``).

    Args:
        root: a folder or a file, several of them, or a stream of them.
        masks: a pattern of names, or several: ``"*.txt"``.
        recursive: also those of inner folders.
        abspath: from the root of the file system.
        non_deterministic: in the order of the file system and not of the names.
        length: what ``len`` says.

    Raises:
        OSError: when read, a folder cannot be.

    Example::

        >>> import pathlib
        >>> from oneflow.utils.data.datapipes.iter import FileLister
        >>> _ = pathlib.Path("a.txt").write_text("a"), pathlib.Path("b.csv").write_text("b")
        >>> list(FileLister(".", "*.txt"))
        ['./a.txt']
    """

    def __init__(
        self,
        root: str | Sequence[str] | IterDataPipe[Any] = ".",
        masks: str | list[str] = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
    ) -> None:
        roots = [root] if isinstance(root, str) else root
        self.datapipe = roots if isinstance(roots, IterDataPipe) else IterableWrapperIterDataPipe(roots)
        self.masks = [masks] if isinstance(masks, str) else masks
        self.recursive, self.abspath, self.non_deterministic = recursive, abspath, non_deterministic
        self.length = length

    def _is_wanted(self, name: str) -> bool:
        return not any(self.masks) or any(fnmatch.fnmatch(name, mask) for mask in self.masks)

    def __iter__(self) -> Iterator[str]:
        for root in self.datapipe:
            if os.path.isfile(root):
                if self._is_wanted(os.path.basename(root)):
                    yield os.path.abspath(root) if self.abspath else root
                continue
            for folder, inner, names in os.walk(root, onerror=_raise):
                folder = os.path.abspath(folder) if self.abspath else folder
                if not self.non_deterministic:
                    names.sort()
                    # The walk goes on in this order.
                    inner.sort()
                yield from (os.path.join(folder, name) for name in names if self._is_wanted(name))
                if not self.recursive:
                    break

    def __len__(self) -> int:
        return _nominal(self, self.length)


def _raise(error: OSError) -> None:
    raise error


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Pairs of a path and its open file (functional form: ``open_files``).

    Args:
        datapipe: paths.
        mode: ``"r"``, ``"t"`` or ``"rt"`` for text, ``"b"`` or ``"rb"`` for bytes.
        encoding: of text.
        length: what ``len`` says.

    Raises:
        ValueError: another mode, or an encoding of bytes.

    Example::

        >>> import pathlib
        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> _ = pathlib.Path("a.txt").write_text("words")
        >>> list(IterableWrapper(["a.txt"]).open_files("b").read_from_stream(3))
        [('a.txt', b'wor'), ('a.txt', b'ds')]
    """

    def __init__(self, datapipe: Iterable[str], mode: str = "r", encoding: str | None = None, length: int = -1) -> None:
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"Invalid mode {mode}")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.datapipe, self.mode, self.encoding, self.length = datapipe, mode, encoding, length

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        mode = self.mode if self.mode.startswith("r") else f"r{self.mode}"
        for path in self.datapipe:
            if not isinstance(path, str):
                raise TypeError(f"Expected string type for pathname, but got {type(path)}")
            # Whoever reads it closes it.
            yield path, open(path, mode, encoding=self.encoding)

    def __len__(self) -> int:
        return _nominal(self, self.length)


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Pairs of a name and what its stream holds, which is then closed (functional form: ``read_from_stream``).

    Args:
        datapipe: pairs of a name and a stream.
        chunk: bytes, or characters, of each pair; all by default.

    Example::

        >>> import io
        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> source = IterableWrapper([("letters", io.StringIO("abc"))], deepcopy=False)
        >>> list(source.read_from_stream(chunk=2))
        [('letters', 'ab'), ('letters', 'c')]
    """

    def __init__(self, datapipe: IterDataPipe[tuple[str, Any]], chunk: int | None = None) -> None:
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for name, stream in self.datapipe:
            while found := stream.read(self.chunk):
                yield name, found
            stream.close()
