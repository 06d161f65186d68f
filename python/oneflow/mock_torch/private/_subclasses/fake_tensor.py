"""``torch._subclasses.fake_tensor``: the class of tensors without values, which has no instance here."""

from __future__ import annotations

from typing import Any

from oneflow._base.refusals import refuse_class

_INSTEAD = 'tensors of device="meta" have shapes and no values'
FakeTensor: Any = refuse_class("torch._subclasses.fake_tensor.FakeTensor", _INSTEAD)
FakeTensorConverter: Any = refuse_class("torch._subclasses.fake_tensor.FakeTensorConverter", _INSTEAD)
FakeTensorMode: Any = refuse_class("torch._subclasses.fake_tensor.FakeTensorMode", _INSTEAD)


def is_fake(x: object) -> bool:
    """False: no tensor is one of these."""
    return False
