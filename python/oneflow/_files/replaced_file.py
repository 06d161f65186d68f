"""Files that are either written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces ``path`` when the block ends without an error.

    Until then, and after an error (a full disk, an interrupt), ``path`` is what it was. Pipes and devices are written
    to directly.

    Raises:
        RuntimeError: the directory does not exist.
        OSError: the file cannot be written.
    """
    target = os.path.realpath(os.fspath(path))
    directory = os.path.dirname(target)
    if not os.path.isdir(directory):
        raise RuntimeError(f"Parent directory {os.path.dirname(os.fspath(path))} does not exist.")
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        with open(target, "wb") as file:
            yield file
        return
    number, name = tempfile.mkstemp(prefix=f".{os.path.basename(target)}.", dir=directory)
    try:
        with os.fdopen(number, "wb") as file:
            os.fchmod(file.fileno(), stat.S_IMODE(mode) if mode is not None else 0o666 & ~_umask())
            yield file
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _umask() -> int:
    # It can only be read by setting it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
