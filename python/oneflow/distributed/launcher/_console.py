"""Output of ranks that goes to files and is shown, too: a thread follows each file and prefixes its lines."""

from __future__ import annotations

import os
import socket
import string
import threading
from typing import Any, TextIO


def prefix(template: str | None, role: str, rank: int, local_rank: int) -> str:
    """What stands before each line of a rank: ``[role0]:``, or the template with its variables replaced."""
    if not template:
        return f"[{role}{local_rank}]:"
    names = {"role_name": role, "rank": rank, "local_rank": local_rank, "hostname": socket.gethostname()}
    return string.Template(template).safe_substitute(names)


class Console:
    """Shows what is written to files until :meth:`close`, whole lines at a time.

    Args:
        interval: seconds between two looks at a file.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def follow(self, path: str, prefix: str, stream: TextIO) -> None:
        """Show the lines of a file, which need not exist yet, on ``stream``."""
        thread = threading.Thread(target=self._follow, args=(path, prefix, stream), daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Show what is left once nobody writes any more."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _follow(self, path: str, prefix: str, stream: TextIO) -> None:
        # Asked before a look: what was written before the end is there to be read.
        ended = self._ended.is_set()
        while not os.path.exists(path):
            if ended:
                return
            self._ended.wait(self._interval)
            ended = self._ended.is_set()
        pending = b""
        with open(path, "rb") as file:
            while True:
                ended = self._ended.is_set()
                found = file.read()
                *lines, pending = (pending + found).split(b"\n")
                _show(lines, prefix, stream)
                if ended and not found:
                    break
                if not found:
                    self._ended.wait(self._interval)
        if pending:
            _show([pending], prefix, stream)


def _show(lines: list[bytes], prefix: str, stream: Any) -> None:
    if lines:
        # One write, so that lines of two ranks do not mix.
        stream.write("".join(f"{prefix}{line.decode(errors='replace')}\n" for line in lines))
        stream.flush()
