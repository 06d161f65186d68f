"""Values of many kinds in checkpoints: written by either package and read by the other, restricted or trusted."""

import collections
import copy
import datetime
import fractions
import io
import pickle
import zipfile

import oneflow
import pytest
import torch


class Own:
    def __init__(self, a=1):
        self.a = a

    def __eq__(self, other):
        return type(other) is Own and self.a == other.a


class Slotted:
    __slots__ = ("a", "b")

    def __eq__(self, other):
        return type(other) is Slotted and self.a == other.a


def slotted():
    made = Slotted()
    made.a = 3
    return made


VALUES = {
    "counter": collections.Counter("abca"),
    "ordered": collections.OrderedDict(a=1),
    "default": collections.defaultdict(list, a=[1]),
    "deque": collections.deque([1, 2]),
    "set": {1, 2},
    "frozenset": frozenset([1]),
    "complex": 1 + 2j,
    "bytes": b"abc",
    "bytearray": bytearray(b"abc"),
    "long": 2**70,
    "text": "wörld",
    "nested": {"a": [(1, None), {"b": (True, 2.5)}]},
    "range": range(3),
    "slice": slice(1, 2),
    "date": datetime.date(2020, 1, 1),
    "fraction": fractions.Fraction(1, 3),
    "own": Own(4),
    "slotted": slotted(),
}


def through(writer, reader, value, **options):
    buffer = io.BytesIO()
    writer.save(value, buffer)
    buffer.seek(0)
    try:
        return reader.load(buffer, **options)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", VALUES)
def test_values_pass_between_the_packages(name):
    value = VALUES[name]
    wanted = through(torch, torch, value)
    for writer, reader in [(oneflow, oneflow), (torch, oneflow), (oneflow, torch)]:
        found = through(writer, reader, value)
        assert found == wanted and type(found) is type(wanted)
        assert through(writer, reader, value, weights_only=False) == value
    if isinstance(wanted, type):
        found = []
        for package in (oneflow, torch):
            with package.serialization.safe_globals([type(value), list]):
                found.append(through(package, package, value))
        # Objects that torch builds from allowed names are built here too.
        assert found[0] == value or isinstance(found[1], type)


def test_names_are_allowed_by_alias():
    for package in (oneflow, torch):
        with package.serialization.safe_globals([(Own, f"{__name__}.Own")]):
            assert through(package, package, Own(2)) == Own(2)
        assert through(package, package, Own(2)) is pickle.UnpicklingError


@pytest.mark.parametrize("asked", [None, True, False])
@pytest.mark.parametrize("force, force_not", [("0", "0"), ("1", "0"), ("0", "1"), ("1", "1"), ("true", "no")])
def test_the_environment_decides_as_in_torch(monkeypatch, recwarn, asked, force, force_not):
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", force)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", force_not)
    found = []
    for package in (oneflow, torch):
        recwarn.clear()
        found.append((through(package, package, Own(), weights_only=asked), bool(recwarn)))
    assert found[0] == found[1]


def test_names_that_are_refused_are_listed():
    for value in (Own(), collections.Counter(a=1), {"a": oneflow.ones(2)}, [Own(), fractions.Fraction(1, 2)]):
        buffers = {protocol: io.BytesIO() for protocol in (2, 4)}
        for protocol, buffer in buffers.items():
            oneflow.save(value, buffer, pickle_protocol=protocol)
        listed = [oneflow.serialization.get_unsafe_globals_in_checkpoint(buffer) for buffer in buffers.values()]
        buffers[2].seek(0)
        assert listed[0] == listed[1] == sorted(torch.serialization.get_unsafe_globals_in_checkpoint(buffers[2]))


LAZY = {
    "linear": lambda nn: nn.LazyLinear(3),
    "conv": lambda nn: nn.LazyConv2d(3, 3),
    "norm": lambda nn: nn.LazyBatchNorm1d(),
    "sequence": lambda nn: nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2)),
}


@pytest.mark.parametrize("name", LAZY)
@pytest.mark.parametrize("way", ["pickle", "save", "deepcopy"])
def test_lazy_modules_wait_after_they_travelled(name, way):
    module = LAZY[name](oneflow.nn)
    if way == "pickle":
        again = pickle.loads(pickle.dumps(module))
    elif way == "deepcopy":
        again = copy.deepcopy(module)
    else:
        again = through(oneflow, oneflow, module, weights_only=False)
    assert all(type(a) is type(b) for a, b in zip(again.parameters(), module.parameters(), strict=True))
    x = oneflow.randn(2, 5, 6, 6) if name == "conv" else oneflow.randn(4, 5)
    assert again(x).shape == module(x).shape
    assert not any(isinstance(p, oneflow.nn.UninitializedParameter) for p in again.parameters())


def test_lazy_states_stay_lazy():
    state = oneflow.nn.LazyLinear(3).state_dict()
    assert isinstance(through(oneflow, oneflow, state), type)
    again = through(oneflow, oneflow, state, weights_only=False)
    assert isinstance(again["weight"], oneflow.nn.UninitializedParameter)


def test_buffers_are_tensors_in_a_file():
    for reader in (oneflow, torch):
        assert through(oneflow, reader, oneflow.nn.Buffer(oneflow.ones(2))).tolist() == [1.0, 1.0]


def test_hook_handles_work_after_they_travelled():
    module = oneflow.nn.ReLU()
    handle = module.register_forward_hook(_double)
    again, handle_again = pickle.loads(pickle.dumps((module, handle)))
    new = again.register_forward_hook(_double)
    assert again(oneflow.ones(1)).item() == 4.0
    handle_again.remove()
    assert again(oneflow.ones(1)).item() == 2.0 and module(oneflow.ones(1)).item() == 2.0
    new.remove()
    assert again(oneflow.ones(1)).item() == 1.0


def _double(module, args, output):
    return output * 2


def test_records_beyond_two_gibibytes(monkeypatch, tmp_path):
    """Headers of records with sizes of eight bytes: the limit is lowered, as two gibibytes are too many for a test."""
    file = tmp_path / "long.pt"
    value = {"a": oneflow.arange(50_000), "b": oneflow.ones(3), "c": oneflow.arange(20_000.0)}
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1 << 16)
    oneflow.save(value, file)
    monkeypatch.undo()
    for reader in (oneflow, torch):
        for options in ({}, {"mmap": True}):
            found = reader.load(file, **options)
            assert all(found[key].tolist() == value[key].tolist() for key in value)
    with zipfile.ZipFile(file) as archive:
        data = file.read_bytes()
        for record in archive.infolist():
            name, extra = (
                data[record.header_offset + 26],
                int.from_bytes(data[record.header_offset + 28 :][:2], "little"),
            )
            assert (record.header_offset + 30 + name + extra) % 64 == 0
