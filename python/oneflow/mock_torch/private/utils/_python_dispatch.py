"""``torch.utils._python_dispatch``: modes that see ATen's ops, which oneflow does not have."""

from __future__ import annotations

from typing import Any

from oneflow._base.refusals import refuse_class

TorchDispatchMode: Any = refuse_class(
    "torch.utils._python_dispatch.TorchDispatchMode", "oneflow.overrides.TorchFunctionMode sees every call"
)


def is_traceable_wrapper_subclass(t: object) -> bool:
    """False: every tensor has memory of its own."""
    return False
