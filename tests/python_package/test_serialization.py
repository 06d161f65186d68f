"""Checkpoints: PyTorch and we read each other's files, and a hostile file ends in an exception."""

import errno
import importlib
import io
import pickle
import random
import struct
import types
import zipfile
from collections import OrderedDict

import numpy
import oneflow
import pytest
import torch
from oneflow._files import checkpoint_writer

DTYPES = ["float32", "float64", "bfloat16", "int64", "bool"]


def objects(fw):
    base = fw.arange(12, dtype=fw.float32).reshape(3, 4)
    return OrderedDict(
        numbers=[1, 2.5, True, None, "text", b"bytes", (1, 2), 2**70],
        size=fw.Size([1, 2]),
        dtype=fw.float32,
        device=fw.device("cpu"),
        empty=fw.zeros(0, 3),
        scalar=fw.tensor(2.5),
        base=base,
        transposed=base.t(),
        part=base[1:, ::2],
        parameter=fw.nn.Parameter(fw.tensor([1.0, 2.0])),
        wants_grad=fw.tensor([3.0], requires_grad=True),
        **{f"t_{name}": fw.tensor([[1, 0], [1, 1]]).to(getattr(fw, name)) for name in DTYPES},
        nested={"a": [{"b": fw.tensor([1])}], 3: "three"},
    )


def same(ours, theirs):
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, oneflow.Tensor)
        assert tuple(ours.shape) == tuple(theirs.shape) and tuple(ours.stride()) == tuple(theirs.stride())
        assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
        assert ours.requires_grad == theirs.requires_grad
        assert ours.tolist() == theirs.tolist()
        assert isinstance(ours, oneflow.nn.Parameter) == isinstance(theirs, torch.nn.Parameter)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            same(ours[key], theirs[key])
    elif isinstance(theirs, (list, tuple)) and not isinstance(theirs, torch.Size):
        assert type(ours) is type(theirs) and len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    else:
        assert repr(ours).replace("oneflow", "torch") == repr(theirs)


def saved(fw, obj, **options):
    buffer = io.BytesIO()
    fw.save(obj, buffer, **options)
    return buffer.getvalue()


OLD = {"_use_new_zipfile_serialization": False}


@pytest.mark.parametrize("options", [{}, OLD], ids=["zip", "old"])
def test_torch_reads_ours(options):
    same(objects(oneflow), torch.load(io.BytesIO(saved(oneflow, objects(oneflow), **options)), weights_only=True))


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("options", [{}, OLD], ids=["zip", "old"])
def test_we_read_torchs(options, weights_only):
    same(oneflow.load(io.BytesIO(saved(torch, objects(torch), **options)), weights_only=weights_only), objects(torch))


def test_objects_of_the_old_format_one_after_the_other(tmp_path):
    base = oneflow.zeros(10)
    with open(tmp_path / "x.pt", "wb") as file:
        oneflow.save([base, base[2:4]], file, **OLD)
        oneflow.save("second", file, **OLD)
    with open(tmp_path / "x.pt", "rb") as file:
        whole, part = oneflow.load(file, map_location="cpu")
        assert oneflow.load(file) == "second"
    whole[2] = 5.0
    assert part.tolist() == [5.0, 0.0]


def test_storages_of_the_oldest_files_may_be_parts():
    described = saved(torch, torch.arange(6.0), **OLD)
    # The last entry of the reference: a view's key, start and length instead of None.
    at = described.index(b"Ntq")
    view = described[:at] + b"X\x01\x00\x00\x00vK\x02K\x03\x87" + described[at + 1 :]
    view = view.replace(b"K\x00K\x06\x85", b"K\x00K\x03\x85")
    assert oneflow.load(io.BytesIO(view)).tolist() == [2.0, 3.0, 4.0]


@pytest.mark.parametrize("weights_only", [True, False])
def test_round_trip(weights_only, tmp_path):
    oneflow.save(objects(oneflow), tmp_path / "x.pt")
    same(oneflow.load(tmp_path / "x.pt", weights_only=weights_only), objects(torch))


def test_views_share_their_storage_after_loading():
    base = oneflow.zeros(1000)
    data = saved(oneflow, {"a": base, "b": base[10:20]})
    assert len(data) < 6000
    loaded = oneflow.load(io.BytesIO(data))
    loaded["a"][10] = 5.0
    assert loaded["b"][0].item() == 5.0


def test_state_dict_keeps_its_metadata():
    state = oneflow.nn.Linear(2, 2).state_dict()
    assert oneflow.load(io.BytesIO(saved(oneflow, state)))._metadata == state._metadata
    assert torch.load(io.BytesIO(saved(oneflow, state)))._metadata == state._metadata


def test_records_are_aligned():
    data = saved(oneflow, [oneflow.ones(3), oneflow.ones(5)])
    for info in zipfile.ZipFile(io.BytesIO(data)).infolist():
        name_length, extra_length = struct.unpack("<HH", data[info.header_offset + 26 : info.header_offset + 30])
        if "/data/" in info.filename:
            assert (info.header_offset + 30 + name_length + extra_length) % 64 == 0


def test_byte_order_is_honoured():
    source = zipfile.ZipFile(io.BytesIO(saved(oneflow, oneflow.tensor([1.0, -2.5]))))
    swapped = io.BytesIO()
    with zipfile.ZipFile(swapped, "w") as archive:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("byteorder"):
                data = b"big"
            elif "/data/" in name:
                data = struct.pack(">2f", *struct.unpack("<2f", data))
            archive.writestr(name, data)
    assert oneflow.load(swapped).tolist() == [1.0, -2.5]


def test_numpy_scalars():
    data = saved(oneflow, {"x": numpy.float64(2.5), "y": numpy.int32(7)})
    loaded = oneflow.load(io.BytesIO(data))
    assert loaded == {"x": 2.5, "y": 7}


class Custom:
    def __init__(self):
        self.value = 3


def test_foreign_classes_need_to_be_allowed():
    data = saved(oneflow, {"x": Custom()})
    with pytest.raises(pickle.UnpicklingError, match="Custom"):
        oneflow.load(io.BytesIO(data))
    with oneflow.serialization.safe_globals([Custom]):
        assert oneflow.load(io.BytesIO(data))["x"].value == 3
    with pytest.raises(pickle.UnpicklingError):
        oneflow.load(io.BytesIO(data))
    assert oneflow.load(io.BytesIO(data), weights_only=False)["x"].value == 3


class Evil:
    def __init__(self, function, args):
        self.function, self.args = function, args

    def __reduce__(self):
        return self.function, self.args


@pytest.mark.parametrize("function, args", [(eval, ("1+1",)), (open, ("/etc/passwd",)), (getattr, ([], "append"))])
def test_code_is_refused(function, args):
    with pytest.raises(pickle.UnpicklingError):
        oneflow.load(io.BytesIO(saved(oneflow, {"x": Evil(function, args)})))


def rewritten(change, obj=None):
    """A file whose records went through ``change(name, data)``."""
    source = zipfile.ZipFile(io.BytesIO(saved(oneflow, oneflow.ones(4, 5) if obj is None else obj)))
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as archive:
        for name in source.namelist():
            data = change(name, source.read(name))
            if data is not None:
                archive.writestr(name, data)
    return result


def with_pickle(data):
    """A file with another pickle in it."""
    return lambda: rewritten(lambda name, old: data if name.endswith("pkl") else old)


def in_pickle(old, new):
    def change(name, data):
        if not name.endswith("data.pkl"):
            return data
        assert old in data
        return data.replace(old, new)

    return lambda: rewritten(change)


HOSTILE = {
    "not a zip": lambda: io.BytesIO(b"hello"),
    "empty": lambda: io.BytesIO(b""),
    "zip of something else": lambda: rewritten(lambda name, data: None if name.endswith("pkl") else data),
    "storage cut short": lambda: rewritten(lambda name, data: data[:-4] if "/data/" in name else data),
    "storage missing": lambda: rewritten(lambda name, data: None if "/data/" in name else data),
    "larger size": in_pickle(b"K\x04K\x05\x86", b"K\x40K\x05\x86"),
    "huge size": in_pickle(b"K\x04K\x05\x86", b"\x8a\x07\xff\xff\xff\xff\xff\xff\x7fK\x05\x86"),
    "size above 63 bits": in_pickle(b"K\x04K\x05\x86", b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x7fK\x05\x86"),
    "negative size": in_pickle(b"K\x04K\x05\x86", b"J\xff\xff\xff\xffK\x05\x86"),
    "negative stride": in_pickle(b"K\x05K\x01\x86", b"J\xfb\xff\xff\xffK\x01\x86"),
    "ranks differ": in_pickle(b"K\x04K\x05\x86", b"K\x14\x85"),
    "more elements": in_pickle(b"K\x14", b"K\x15"),
    "strings as sizes": in_pickle(b"K\x04K\x05\x86", b"\x8c\x01aK\x05\x86"),
    "other storage type": in_pickle(b"FloatStorage", b"DoubleStorage"),
    "unknown storage type": in_pickle(b"FloatStorage", b"WaterStorage"),
    "pickle cut short": lambda: rewritten(lambda name, data: data[:-5] if name.endswith("pkl") else data),
    "pickle empty": with_pickle(b""),
    "huge memo index": with_pickle(b"\x80\x02Nr\xff\xff\xff\x7fj\x01\x00\x00\x00."),
    "huge byte string": with_pickle(b"\x80\x02B\xff\xff\xff\x7fx."),
    "deep key": with_pickle(b"\x80\x02}N" + b"\x85" * 1_000_000 + b"Ns."),
    "unhashable key": with_pickle(b"\x80\x02}]Ns."),
    "attributes of a list": with_pickle(b"\x80\x02]}U\x01aK\x01sb."),
    "attributes of a function": lambda: rewritten(
        lambda name, data: b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}U\x01aK\x01sb."
        if name.endswith("pkl")
        else data
    ),
    "a bare name": with_pickle(b"\x80\x02ctorch\nFloatStorage\n."),
    "strange byte order": lambda: rewritten(lambda name, data: b"middle" if name.endswith("byteorder") else data),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_raise(name):
    with pytest.raises((RuntimeError, pickle.UnpicklingError, EOFError)):
        oneflow.load(HOSTILE[name]())


@pytest.mark.parametrize("options", [{}, OLD], ids=["zip", "old"])
def test_any_damage_raises_or_loads(options):
    data = bytearray(saved(oneflow, {"a": oneflow.ones(4, 5), "b": [1, 2]}, **options))
    draw = random.Random(0)
    n_raised = 0
    for _ in range(400):
        broken = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        if draw.random() < 0.2:
            del broken[draw.randrange(len(broken)) :]
        try:
            oneflow.load(io.BytesIO(bytes(broken)))
        except (RuntimeError, pickle.UnpicklingError):
            n_raised += 1
    assert n_raised > 100


@pytest.mark.parametrize("n_bytes", range(1, 80, 7))
def test_an_old_file_that_is_cut_short_raises(n_bytes):
    data = saved(torch, {"a": torch.ones(4, 5)}, **OLD)
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        oneflow.load(io.BytesIO(data[:-n_bytes]))


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        oneflow.load(tmp_path / "nothing.pt")


def test_pickle_of_tensors():
    x = oneflow.arange(6).reshape(2, 3)
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()
    p = pickle.loads(pickle.dumps(oneflow.nn.Parameter(oneflow.ones(2))))
    assert isinstance(p, oneflow.nn.Parameter) and p.requires_grad


def test_functions_are_pickled_under_their_public_name():
    package = oneflow.nn.functional
    functions = [getattr(package, name) for name in package.__all__]
    own = [f for f in functions if isinstance(f, types.FunctionType) and "_extra" not in f.__code__.co_filename]
    assert len(own) > 80
    for function in own:
        assert pickle.dumps(function, 0).startswith(b"coneflow.nn.functional\n"), function
        assert pickle.loads(pickle.dumps(function)) is function


# A private file of an earlier version, and where its functions are public.
EARLIER = [("oneflow.nn._activations", "oneflow.nn.functional", "selu")]


@pytest.mark.parametrize(("module", "public", "name"), EARLIER)
def test_functions_of_files_that_moved_are_found(module, public, name):
    function = getattr(importlib.import_module(public), name)
    earlier = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(saved(oneflow, {"a": function}))) as source,
        zipfile.ZipFile(earlier, "w") as target,
    ):
        for entry in source.namelist():
            target.writestr(entry, source.read(entry).replace(f"c{public}\n".encode(), f"c{module}\n".encode()))
    assert f"c{module}\n{name}\n".encode() in earlier.getvalue()
    assert oneflow.load(io.BytesIO(earlier.getvalue()), weights_only=False)["a"] is function


def test_map_location():
    data = saved(oneflow, oneflow.ones(2))
    assert oneflow.load(io.BytesIO(data), map_location="cpu").tolist() == [1, 1]

    def halved(storage, where):
        assert where == "cpu"
        storage._tensor().view(oneflow.float32).mul_(0.5)
        return storage

    assert oneflow.load(io.BytesIO(data), map_location=halved).tolist() == [0.5, 0.5]


def test_a_file_is_replaced_when_the_new_one_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "model.pt"
    oneflow.save({"a": oneflow.ones(3)}, path)
    path.chmod(0o640)
    monkeypatch.setattr(checkpoint_writer, "_write", _full_disk)
    with pytest.raises(OSError, match="No space left"):
        oneflow.save({"a": oneflow.zeros(3)}, path)
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == ["model.pt"]
    assert (oneflow.load(path)["a"] == 1).all()
    link = tmp_path / "link.pt"
    link.symlink_to(path)
    oneflow.save({"a": oneflow.zeros(3)}, link)
    assert link.is_symlink() and (oneflow.load(path)["a"] == 0).all()
    assert path.stat().st_mode & 0o777 == 0o640
    oneflow.save({"a": 1}, "/dev/null")
    with pytest.raises(RuntimeError, match="Parent directory"):
        oneflow.save({}, tmp_path / "no" / "x.pt")


def _full_disk(archive, name, data):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("width, depth", [(2, 60), (40, 7), (2, 9)])
def test_a_key_that_would_be_hashed_for_ever(width, depth):
    # A tuple that holds one tuple several times, and so on: small in the file, without an end to hash.
    nest = b")" + (b"q\x000(" + b"h\x00" * width + b"t") * depth
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}" + nest + b"K\x01s.")
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="a dictionary key in the file"):
        oneflow.load(file)


def storages(fw):
    x = fw.arange(6.0)
    return [x, x.storage(), x[2:].storage(), {"again": x.storage()}, x.view(2, 3)]


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("writer", [oneflow, torch], ids=["ours", "theirs"])
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_are_saved_as_such_and_share_their_memory(writer, new, weights_only):
    file = io.BytesIO()
    writer.save(storages(writer), file, _use_new_zipfile_serialization=new)
    for reader in (oneflow, torch):
        file.seek(0)
        x, *found, matrix = reader.load(file, weights_only=weights_only)
        x[1] = 9.0
        assert matrix[0, 1] == 9.0
        for storage in (found[0], found[1], found[2]["again"]):
            assert isinstance(storage, reader.TypedStorage)
            assert storage.dtype is reader.float32
            assert storage.data_ptr() == x.data_ptr()
            assert storage[1] == 9.0


def test_one_memory_as_two_dtypes_is_refused():
    x = oneflow.ones(2)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        oneflow.save([x, x.view(oneflow.int32)], io.BytesIO())


def test_files_that_only_read_seek_and_tell():
    class File:
        def __init__(self, data):
            self.of = io.BytesIO(data)
            self.read, self.seek, self.tell, self.readline = self.of.read, self.of.seek, self.of.tell, self.of.readline

    file = io.BytesIO()
    oneflow.save({"x": oneflow.arange(3)}, file)
    assert oneflow.load(File(file.getvalue()))["x"].tolist() == [0, 1, 2]
