"""Choice of the kernel of scaled dot-product attention.

Kernels of this package's own serve every backend but cuDNN's, on every device, and run unless cuDNN alone is allowed,
or preferred: see :mod:`oneflow.backends.cuda`. On a CPU the choice is kept and checked, and changes nothing.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Sequence

from oneflow._base import attention_choice

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.Enum):
    """The backends that scripts name; ``int`` gives their number.

    Example::

        >>> nn.attention.SDPBackend.MATH.name
        'MATH'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return int(self.value)


_allowed: list[SDPBackend] = [backend for backend in SDPBackend if backend is not SDPBackend.ERROR]
_NAMES = {
    SDPBackend.MATH: "math",
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "mem_efficient",
    SDPBackend.CUDNN_ATTENTION: "cudnn",
}


@contextlib.contextmanager
def sdpa_kernel(backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Within the context attention may use these backends only.

    Args:
        backends: one or several.
        set_priority: their order is the order of preference.

    Raises:
        AssertionError: an argument is not a backend.
        RuntimeError: from attention inside on a GPU, where cuDNN alone is allowed and does not take it; says why.

    Example::

        >>> q = oneflow.ones(1, 1, 2, 4)
        >>> with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        ...     y = F.scaled_dot_product_attention(q, q, q)
    """
    global _allowed
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not all(isinstance(backend, SDPBackend) for backend in chosen):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    before, _allowed = _allowed, chosen
    switches, priority = dict(attention_choice.enabled), attention_choice.priority
    names = [_NAMES[backend] for backend in chosen if backend in _NAMES]
    attention_choice.choose({name: name in names for name in switches}, names if set_priority else ())
    try:
        yield
    finally:
        _allowed = before
        attention_choice.choose(switches, priority)


def _cur_sdpa_kernel_backends() -> list[SDPBackend]:
    return list(_allowed)
