"""What workers send each other: a header of fixed size, and behind it an object as bytes.

Objects are pickles that name functions and classes, which is what a call is made of. Whoever may send them may have
this process run anything, so :mod:`oneflow.distributed.rpc._meeting` lets nobody in without proof. References and
tensors of a context travel as persistent ids, since what they are on the other side depends on who takes them.
"""

from __future__ import annotations

import enum
import io
import pickle
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor
from oneflow.distributed import _pickling
from oneflow.distributed.autograd import _contexts

_HEADER = struct.Struct("<B7xQQQQQ")
HEADER_BYTES = _HEADER.size
# Longer ones are a fault of the sender: nobody has so much memory.
MAX_BYTES = 1 << 42


class Kind(enum.IntEnum):
    """What a message says."""

    # Run a function; `number` is that of the call.
    CALL = 1
    # What a call has given, or the exception that it raised.
    RESULT = 2
    ERROR = 3
    # A reference has one holder more, or less: `number` is the reference's, `context` the holder's. There is no body.
    HOLD = 4
    DROP = 5


class Header(NamedTuple):
    """The first bytes of a message. ``message`` and ``clock`` are those of the context, 0 without one."""

    kind: Kind
    number: int
    n_bytes: int = 0
    context: int = 0
    message: int = 0
    clock: int = 0

    def pack(self) -> bytearray:
        return bytearray(_HEADER.pack(*self))

    @staticmethod
    def unpack(data: bytes) -> Header:
        """Read a header.

        Raises:
            ValueError: no worker of this release sends such bytes.
        """
        kind, *rest = _HEADER.unpack(data)
        found = Header(Kind(kind), *rest)
        if found.n_bytes > MAX_BYTES or (found.n_bytes == 0) != (found.kind in (Kind.HOLD, Kind.DROP)):
            raise ValueError(f"a message of {found.n_bytes} bytes")
        return found


class Packed(NamedTuple):
    """An object as bytes, and the tensors in it whose gradients come back."""

    data: bytearray
    tensors: list[Tensor]


class _Pickler(_pickling._Pickler):
    def __init__(
        self, file: Any, is_recorded: bool, hold: Callable[[Any], Any], place: Callable[[Tensor], str]
    ) -> None:
        super().__init__(file, protocol=5)
        self._is_recorded, self._hold, self._place = is_recorded, hold, place
        self.tensors: list[Tensor] = []
        self._seen: dict[int, int] = {}

    def place(self, tensor: Tensor) -> str:
        return self._place(tensor)

    def persistent_id(self, obj: Any) -> Any:
        from oneflow.distributed.rpc._references import RRef

        if isinstance(obj, RRef):
            return ("reference", self._hold(obj))
        if self._is_recorded and isinstance(obj, Tensor) and obj.requires_grad and _pickling._is_plain(obj):
            if id(obj) in self._seen:
                return ("tensor", self._seen[id(obj)])
            self._seen[id(obj)] = len(self.tensors)
            self.tensors.append(obj)
            # The parts of the values alone.
            return ("tensor", len(self.tensors) - 1, self.reducer_override(obj.detach())[1])
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, take: Callable[[Any], Any]) -> None:
        super().__init__(file)
        self._take = take
        self.leaves: list[Tensor] = []
        self._tensors: list[Tensor] = []

    def persistent_load(self, pid: Any) -> Any:
        kind, what, *parts = pid
        if kind == "reference":
            return self._take(what)
        if parts:
            # Not a leaf to the user, who may write into it.
            leaf = _pickling._tensor(*parts[0]).requires_grad_()
            self.leaves.append(leaf)
            self._tensors.append(_Alias.apply(leaf))
        return self._tensors[what]


class _Alias(oneflow.autograd.Function):
    """The values of a tensor in the same memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


def pack(value: Any, is_recorded: bool, hold: Callable[[Any], Any], place: Callable[[Tensor], str]) -> Packed:
    """Return an object as bytes.

    Args:
        is_recorded: the tensors that require gradients are those of a context.
        hold: makes the receiver a holder of a reference and says what it gets.
        place: the device that a tensor arrives on.
    """
    file = io.BytesIO()
    pickler = _Pickler(file, is_recorded, hold, place)
    pickler.dump(value)
    return Packed(bytearray(file.getbuffer()), pickler.tensors)


def unpack(
    data: bytes, context: _contexts.Context | None, sender: int, header: Header, take: Callable[[Any], Any]
) -> Any:
    """Build the object that a worker has sent.

    Args:
        context: where tensors that require gradients are noted.
        take: makes a reference of what ``hold`` said.
    """
    unpickler = _Unpickler(io.BytesIO(data), take)
    with oneflow.enable_grad():
        try:
            value = unpickler.load()
        except AttributeError as error:
            raise AttributeError(
                f"{error}. Functions travel by their names: they must be defined on the caller and on the callee, in a "
                "module of the same name"
            ) from error
    if context is not None:
        context.receiving(sender, header.message, header.clock, unpickler.leaves)
    return value
