"""Prints the shell commands that switch the mock on or off, for ``eval``.

::

    eval $(python -m oneflow.mock_torch [enable | disable] [--lazy] [--verbose])
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys

from oneflow.mock_torch._metadata import SHELL


def main(arguments: list[str] | None = None) -> None:
    """Print ``export`` commands for a POSIX shell."""
    parser = argparse.ArgumentParser("oneflow-mock-torch", description=__doc__.partition("\n")[0])
    parser.add_argument("command", nargs="?", choices=("enable", "disable"), default="enable")
    parser.add_argument("--lazy", action="store_true", help="placeholders for missing names instead of errors")
    parser.add_argument("--verbose", action="store_true", help="print each missing name")
    options = parser.parse_args(arguments)
    on = options.command == "enable"
    path = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != str(SHELL)]
    values = {
        "PYTHONPATH": os.pathsep.join([*([str(SHELL)] if on else []), *path]),
        "ONEFLOW_MOCK_TORCH_LAZY": "1" if on and options.lazy else "0",
        "ONEFLOW_MOCK_TORCH_VERBOSE": "1" if on and options.verbose else "0",
    }
    for name, value in values.items():
        sys.stdout.write(f"export {name}={shlex.quote(value)};\n")


if __name__ == "__main__":
    main()
