"""Objects between ranks: what is read without trust, what is refused, and when code may run."""

from __future__ import annotations

import datetime
import io
import os
import pathlib
import pickle
import re
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import oneflow
import oneflow.distributed as dist
import pytest
from oneflow.distributed import _pickling
from oneflow.testing import run_ranks

RAN: list[str] = []


def runs(word: str) -> None:
    RAN.append(word)


class Code:
    """An object whose reading runs a function."""

    def __reduce__(self) -> Any:
        return runs, ("ran",)


class Config:
    lr = 0.1


PLAIN: dict[str, Any] = {
    "nest": {"a": [1, 2.5, None, True, ("x", b"y")], 3: {4, 5}, "n": 2**80},
    "frozen": frozenset([1, 2]),
    "slice": slice(1, None, 2),
    "range": range(1, 9, 2),
    "time": [datetime.timedelta(seconds=3), datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3, 4)],
    "decimal": Decimal("1.50"),
    "path": pathlib.Path("a/b"),
    "complex": 1 + 2j,
    "dtype": [oneflow.float32, oneflow.bfloat16],
    "size": oneflow.Size([2, 3]),
    "device": oneflow.device("cpu"),
}
TENSORS: dict[str, Any] = {
    "float": oneflow.arange(6.0).view(2, 3),
    "strided": oneflow.arange(6).view(2, 3).t(),
    "scalar": oneflow.tensor(7),
    "empty": oneflow.zeros(0, 3),
    "bool": oneflow.tensor([True, False]),
    "half": oneflow.ones(3, dtype=oneflow.bfloat16),
    "complex": oneflow.tensor([1 + 2j]),
    "grad": oneflow.ones(2, requires_grad=True),
    "parameter": oneflow.nn.Parameter(oneflow.ones(2)),
}


def through(value: Any, sender: bool | None = None, receiver: bool | None = None) -> Any:
    return _pickling.unpack(bytes(_pickling.pack(value, sender)), "test", 0, receiver)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_objects_arrive_as_they_are(name: str) -> None:
    assert through(PLAIN[name]) == PLAIN[name]


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_arrive_as_they_are(name: str) -> None:
    sent, got = TENSORS[name], through({"t": [TENSORS[name]]})["t"][0]
    assert (type(got), got.dtype, got.shape, got.requires_grad) == (
        type(sent),
        sent.dtype,
        sent.shape,
        sent.requires_grad,
    )
    assert got.tolist() == sent.tolist()


def test_arrays_and_exceptions_arrive() -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert np.array_equal(through(array), array) and through(array).dtype == array.dtype
    error = through(FileNotFoundError(2, "no such file", "x"))
    assert type(error) is FileNotFoundError and error.filename == "x"


@pytest.mark.parametrize(
    ("sender", "receiver", "words"),
    [
        (None, None, "neither rank has opted in"),
        (False, None, "this rank has not opted in"),
        (None, False, "rank 0 has not opted in"),
        (True, True, "neither rank has opted in"),
    ],
)
@pytest.mark.parametrize(
    "value", [Code(), Config(), [Code], np.array([Code()], dtype=object)], ids=lambda v: type(v).__name__
)
def test_code_runs_only_where_both_ranks_opt_in(
    value: Any, sender: bool | None, receiver: bool | None, words: str
) -> None:
    RAN.clear()
    with pytest.raises(pickle.UnpicklingError, match=re.escape("test: cannot take the object of rank 0")) as caught:
        through(value, sender, receiver)
    assert words in str(caught.value) and "ONEFLOW_TRUST_RANKS=1" in str(caught.value) and RAN == []


def test_both_ranks_may_opt_in(monkeypatch: pytest.MonkeyPatch) -> None:
    RAN.clear()
    through(Code(), sender=False, receiver=False)
    assert RAN == ["ran"]
    monkeypatch.setenv("ONEFLOW_TRUST_RANKS", "1")
    assert type(through(Config())) is Config
    with pytest.raises(pickle.UnpicklingError, match="this rank has not"):
        through(Config(), receiver=True)
    monkeypatch.setenv("ONEFLOW_TRUST_RANKS", "perhaps")
    with pytest.raises(ValueError, match="expected 0 or 1"):
        through(1)
    monkeypatch.delenv("ONEFLOW_TRUST_RANKS")
    with oneflow.serialization.safe_globals([Config]):
        assert type(through(Config())) is Config


def calls(function: Any, *args: Any) -> bytes:
    """A hostile rank's bytes: a call of a function that is on the list."""

    class Call:
        def __reduce__(self) -> Any:
            return function, args

    file = io.BytesIO()
    pickle.Pickler(file, protocol=4).dump(Call())
    return b"\x00" + file.getvalue()


HOSTILE = {
    "nothing": b"",
    "garbage": b"\x00\xff\xfe\xfd",
    "cut": bytes(_pickling.pack({"a": oneflow.ones(4)}))[:-20],
    "claims trust": b"\x01" + pickle.dumps(Code()),
    "os.system": calls(os.system, "true"),
    "long bytes": b"\x00\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"x.",
    "short tensor": calls(_pickling._tensor, "Tensor", "oneflow.float32", (2**40,), False, "cpu", b"1234"),
    "huge shape": calls(_pickling._tensor, "Tensor", "oneflow.float32", (2**61, 2**61, 0), False, "cpu", b"1"),
    "negative shape": calls(_pickling._tensor, "Tensor", "oneflow.float32", (-1,), False, "cpu", b"1234"),
    "no dtype": calls(_pickling._tensor, "Tensor", "oneflow.nn", (1,), False, "cpu", b"1234"),
    "no kind": calls(_pickling._tensor, "Module", "oneflow.int8", (1,), False, "cpu", b"1"),
    "object array": calls(_pickling._array, "O", (1,), b"12345678"),
    "array length": calls(_pickling._array, "<f4", (2**40,), b"1234"),
    "date": calls(datetime.date, "x"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_end_in_an_error(name: str) -> None:
    RAN.clear()
    with pytest.raises((pickle.UnpicklingError, MemoryError)):
        _pickling.unpack(HOSTILE[name], "test", 0)
    assert RAN == []


FUNCTIONS = {
    "all_gather_object": lambda value, **k: dist.all_gather_object([None] * 2, value, **k),
    "gather_object": lambda value, **k: dist.gather_object(value, [None] * 2 if dist.get_rank() == 0 else None, **k),
    "broadcast_object_list": lambda value, **k: dist.broadcast_object_list([value], **k),
    "scatter_object_list": lambda value, **k: dist.scatter_object_list([None], [value] * 2, **k),
    "send_object_list": lambda value, **k: (
        dist.send_object_list([value], 1, **k) if dist.get_rank() == 0 else dist.recv_object_list([None], **k)
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_of_objects_refuses_and_may_be_told_to_trust(name: str) -> None:
    def rank() -> bool:
        # Threads trust each other unless told otherwise.
        FUNCTIONS[name](Config(), weights_only=False)
        FUNCTIONS[name](Config())
        try:
            FUNCTIONS[name](Config(), weights_only=True)
        except pickle.UnpicklingError as error:
            assert re.search(f"{name.replace('send', '(send|recv)')}: cannot take .*Config", str(error)), error
            return True
        return False

    refused = run_ranks(2, rank)
    # Whoever reads nothing refuses nothing.
    assert refused == {
        "gather_object": [True, False],
        "scatter_object_list": [True, True],
        "all_gather_object": [True, True],
    }.get(name, [False, True])


def test_lists_of_objects_have_places_for_what_comes() -> None:
    def rank() -> Any:
        got: list[Any] = [None] * 2
        if dist.get_rank() == 0:
            dist.send_object_list(["a", oneflow.ones(2)], group_dst=1)
            dist.send_object_list([1, 2, 3], dst=1)
            return None
        assert dist.recv_object_list(got, group_src=0) == 0
        with pytest.raises(ValueError, match="object_list has 2 places here, but 3 objects were sent"):
            dist.recv_object_list([None, None], 0)
        return got[0], got[1].tolist()

    assert run_ranks(2, rank)[1] == ("a", [1.0, 1.0])
    with pytest.raises(ValueError, match="needs a scatter_object_input_list of 1 objects"):
        dist.scatter_object_list([None], [])
