"""The launcher under the name of torchrun's module: ``python -m oneflow.distributed.run train.py``."""

from __future__ import annotations

import sys

from oneflow.distributed.launch import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
