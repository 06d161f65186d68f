"""The file in which a rank leaves the exception that ended it, as torchrun's workers do."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from types import TracebackType
from typing import Any

_FILE = "TORCHELASTIC_ERROR_FILE"
_installed = False


def install() -> None:
    """From now on write the exception that ends this process, if a launcher has named a file for it."""
    global _installed
    if _installed or not os.environ.get(_FILE):
        return
    _installed = True
    before, owner = sys.excepthook, os.getpid()

    def hook(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        # Processes that a rank has started are no ranks.
        if issubclass(kind, Exception) and os.getpid() == owner:
            write(error, where)
        before(kind, error, where)

    sys.excepthook = hook


def write(error: BaseException, where: TracebackType | None = None) -> None:
    """Leave an exception in the launcher's file, if there is one and nobody has written it yet."""
    path = os.environ.get(_FILE)
    if not path or os.path.exists(path):
        return
    text = "".join(traceback.format_exception(type(error), error, where or error.__traceback__))
    extra = {"py_callstack": text, "timestamp": str(int(time.time()))}
    replace({"message": {"message": f"{type(error).__name__}: {error}", "extraInfo": extra}})


def replace(said: dict[str, Any]) -> None:
    """Write what a process has to say to the launcher's file, if there is one."""
    path = os.environ.get(_FILE)
    if not path:
        return
    draft = f"{path}.{os.getpid()}"
    try:
        with open(draft, "w") as file:
            json.dump(said, file)
        os.replace(draft, path)
    except OSError as failure:
        sys.stderr.write(f"oneflow.distributed: cannot write {path}: {failure}\n")


def forget(path: str) -> None:
    """Remove what a rank of an earlier job has left there: the first exception is never replaced."""
    if os.path.isfile(path):
        os.unlink(path)


def read(path: str) -> dict[str, Any] | None:
    """What a rank has left, with the keys ``message`` and ``timestamp``; ``None`` if it has left nothing."""
    try:
        with open(path) as file:
            said = json.load(file)["message"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if isinstance(said, str):
        return {"message": said, "timestamp": 0}
    return {"message": str(said.get("message")), "timestamp": int(said.get("extraInfo", {}).get("timestamp", 0))}
