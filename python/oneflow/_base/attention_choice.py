"""Which library computes scaled dot-product attention on a GPU: what programs allow and prefer.

:mod:`oneflow.backends.cuda` says what the names mean.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneflow import _oneflow

enabled = {"flash": True, "math": True, "mem_efficient": True, "cudnn": True}
# Backends by preference, where a program says it; else this package's own come first.
priority: Sequence[str] = ()
_OWN = ("flash", "mem_efficient", "math")


def choose(allowed: dict[str, bool], preferred: Sequence[str] | None = None) -> None:
    """Change what attention may use, and tell the kernels.

    Args:
        allowed: backends to switch on or off.
        preferred: backends in the order of preference; None leaves the order.
    """
    global priority
    enabled.update(allowed)
    if preferred is not None:
        priority = preferred
    own = [name for name in _OWN if enabled[name]]
    library = 0
    if enabled["cudnn"] and not own:
        library = 2
    elif enabled["cudnn"] and "cudnn" in priority:
        first = priority.index("cudnn")
        library = int(not any(name in own for name in priority[:first]))
    _oneflow._cuda_attention_library(library)
