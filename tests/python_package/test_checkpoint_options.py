"""Options of save and load: memory maps, byte orders, checksums, left-out numbers, other pickle modules, places.

Where PyTorch has the option, both packages read the same file.
"""

import gzip
import io
import mmap
import pickle
import warnings
import zipfile

import oneflow
import pytest
import torch
from oneflow import serialization


def _values():
    return {"a": oneflow.arange(6.0).reshape(2, 3), "b": oneflow.tensor([1, 2], dtype=oneflow.int16), "n": [1, "x"]}


def _check(loaded, expected=None):
    expected = expected or _values()
    assert sorted(loaded) == sorted(expected)
    for key in ("a", "b"):
        assert loaded[key].tolist() == expected[key].tolist()
        assert str(loaded[key].dtype).rpartition(".")[2] == str(expected[key].dtype).rpartition(".")[2]


# ---- mmap


def test_a_mapped_file_keeps_writes_in_memory(tmp_path):
    path = tmp_path / "m.pt"
    oneflow.save(_values(), path)
    loaded = oneflow.load(path, mmap=True)
    _check(loaded)
    before = path.read_bytes()
    loaded["a"].fill_(9)
    assert path.read_bytes() == before
    _check(oneflow.load(path))


def test_a_mapped_file_of_pytorch(tmp_path):
    path = tmp_path / "m.pt"
    torch.save({"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, 2], dtype=torch.int16)}, path)
    expected = {"a": _values()["a"], "b": _values()["b"]}
    _check(oneflow.load(path, mmap=True), expected)


def test_a_shared_map_writes_to_the_file(tmp_path):
    path = tmp_path / "m.pt"
    oneflow.save(_values(), path)
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        oneflow.load(path, mmap=True)["a"].fill_(7)
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    for loaded in (oneflow.load(path)["a"], torch.load(path)["a"]):
        assert loaded.tolist() == [[7.0] * 3] * 2


def test_what_cannot_be_mapped(tmp_path):
    with pytest.raises(ValueError, match="string filename"):
        oneflow.load(io.BytesIO(), mmap=True)
    path = tmp_path / "old.pt"
    oneflow.save(_values(), path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used"):
        oneflow.load(path, mmap=True)
    with pytest.raises(ValueError, match="MAP_PRIVATE"):
        serialization.set_default_mmap_options(-1)


# ---- byte order


def _without_order(data: bytes) -> bytes:
    """The archive without its record ``byteorder``."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(result, "w") as new:
        for name in old.namelist():
            if not name.endswith("byteorder"):
                new.writestr(name, old.read(name))
    return result.getvalue()


@pytest.mark.parametrize("order", ["NATIVE", "LITTLE", "BIG"])
def test_the_byte_order_of_a_file_that_names_none(order):
    values = torch.tensor([1.5, -2.0, 3e5])
    buffer = io.BytesIO()
    torch.save(values, buffer)
    bare = _without_order(buffer.getvalue())
    before = torch.serialization.get_default_load_endianness()
    try:
        torch.serialization.set_default_load_endianness(torch.serialization.LoadEndianness[order])
        serialization.set_default_load_endianness(serialization.LoadEndianness[order])
        assert serialization.get_default_load_endianness().name == order
        assert oneflow.load(io.BytesIO(bare)).tolist() == torch.load(io.BytesIO(bare)).tolist()
        # A file that names its order is read by it.
        assert oneflow.load(io.BytesIO(buffer.getvalue())).tolist() == values.tolist()
    finally:
        torch.serialization.set_default_load_endianness(before)
        serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="set_default_load_endianness"):
        serialization.set_default_load_endianness("little")


# ---- checksums, and numbers that are left out


@pytest.mark.parametrize("package", [oneflow, torch])
def test_without_checksums(package):
    buffer = io.BytesIO()
    package.serialization.set_crc32_options(False)
    try:
        package.save(package.arange(5.0), buffer)
    finally:
        package.serialization.set_crc32_options(True)
    with zipfile.ZipFile(io.BytesIO(buffer.getvalue())) as archive:
        assert {record.CRC for record in archive.infolist()} == {0}
    for other in (oneflow, torch):
        assert other.load(io.BytesIO(buffer.getvalue())).tolist() == [0, 1, 2, 3, 4]


def test_a_damaged_record_is_noticed(tmp_path):
    path = tmp_path / "d.pt"
    oneflow.save({"a": oneflow.full((4,), 3.0)}, path)
    data = path.read_bytes()
    at = data.index(b"\x00\x00\x40\x40" * 4)
    path.write_bytes(data[:at] + b"\x01" + data[at + 1 :])
    with pytest.raises(RuntimeError, match="checksum"):
        oneflow.load(path)


def test_left_out_numbers(tmp_path):
    path = tmp_path / "s.pt"
    with serialization.skip_data():
        oneflow.save(_values(), path)
    whole = tmp_path / "w.pt"
    oneflow.save(_values(), whole)
    assert oneflow.load(path)["a"].tolist() == torch.load(path)["a"].tolist() == [[0.0] * 3] * 2
    assert oneflow.load(path)["n"] == [1, "x"]
    # The room is where the numbers would be.
    with zipfile.ZipFile(path) as ours, zipfile.ZipFile(whole) as full:
        offsets = [[(r.filename.split("/", 1)[1], r.header_offset) for r in z.infolist()] for z in (ours, full)]
    assert offsets[0] == offsets[1]
    with pytest.raises(NotImplementedError, match="materialize_fake_tensors"):
        serialization.skip_data(materialize_fake_tensors=True)


# ---- pickle modules


class _InPython:
    Pickler, Unpickler = pickle._Pickler, pickle._Unpickler


class _Compiled:
    class Pickler(pickle.Pickler):
        pass

    Unpickler = pickle.Unpickler


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("module", [_InPython, _Compiled])
def test_another_pickle_module(module, zipped):
    layer = oneflow.nn.Linear(2, 3)
    values = {**_values(), "size": oneflow.Size([2, 3]), "weight": layer.weight, "t": oneflow.float16}
    buffer = io.BytesIO()
    oneflow.save(values, buffer, pickle_module=module, _use_new_zipfile_serialization=zipped)
    buffer.seek(0)
    loaded = oneflow.load(buffer, pickle_module=module)
    assert loaded["t"] is oneflow.float16
    assert loaded["size"] == oneflow.Size([2, 3])
    assert isinstance(loaded["weight"], oneflow.nn.Parameter)
    assert loaded["weight"].tolist() == layer.weight.tolist()
    assert loaded["a"].tolist() == values["a"].tolist()
    if module is _InPython:
        buffer.seek(0)
        assert torch.load(buffer)["weight"].tolist() == layer.weight.tolist()


def test_the_unpickler_of_the_module_is_used():
    class Refusing(pickle.Unpickler):
        def load(self):
            raise RuntimeError("it is mine")

    class Module:
        Unpickler = Refusing

    buffer = io.BytesIO()
    oneflow.save(oneflow.ones(2), buffer)
    buffer.seek(0)
    with pytest.raises(RuntimeError, match="it is mine"):
        oneflow.load(buffer, pickle_module=Module)
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        oneflow.load(buffer, pickle_module=Module, weights_only=True)


# ---- places


def test_map_location_gets_storages():
    buffer = io.BytesIO()
    oneflow.save(_values(), buffer)
    seen = []

    def place(storage, location):
        seen.append((type(storage).__name__, storage.nbytes(), location))
        return None if storage.nbytes() == 4 else storage

    buffer.seek(0)
    _check(oneflow.load(buffer, map_location=place))
    assert sorted(seen) == [("UntypedStorage", 4, "cpu"), ("UntypedStorage", 24, "cpu")]
    buffer.seek(0)
    elsewhere = oneflow.load(buffer, map_location=lambda storage, location: storage.clone())
    _check(elsewhere)
    buffer.seek(0)
    assert oneflow.load(buffer, map_location="meta")["a"].is_meta


def test_registered_places(monkeypatch):
    from oneflow._files import storage_places

    monkeypatch.setattr(storage_places, "_packages", list(storage_places._packages))

    def restore(storage, location):
        return storage.clone() if location.startswith("shelf") else None

    serialization.register_package(
        5, lambda storage: f"shelf:{storage.nbytes()}" if storage.nbytes() == 24 else None, restore
    )
    values = _values()
    assert serialization.location_tag(values["a"].untyped_storage()) == "shelf:24"
    assert serialization.location_tag(values["b"].untyped_storage()) == "cpu"
    buffer = io.BytesIO()
    oneflow.save(values, buffer)
    assert b"shelf:24" in buffer.getvalue()
    buffer.seek(0)
    _check(oneflow.load(buffer))
    with pytest.raises(RuntimeError, match="tagged with nowhere"):
        serialization.default_restore_location(values["b"].untyped_storage(), "nowhere")


@pytest.mark.skipif(oneflow.cuda.is_available(), reason="tests the error of a machine without a GPU")
def test_a_device_that_is_not_there():
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        serialization.default_restore_location(oneflow.ones(2).untyped_storage(), "cuda:0")


# ---- files


class _Reads:
    """Has what ``load`` needs of a file, and notes what was called."""

    def __init__(self, data, *names):
        self.calls = set()
        for name in names:
            setattr(
                self, name, self._noting(name, getattr(io.BytesIO(data) if not hasattr(self, "of") else self.of, name))
            )

    def _noting(self, name, method):
        self.of = method.__self__

        def call(*args):
            self.calls.add(name)
            return method(*args)

        return call


@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_few_methods(zipped):
    buffer = io.BytesIO()
    oneflow.save(_values(), buffer, _use_new_zipfile_serialization=zipped)
    _check(oneflow.load(_Reads(buffer.getvalue(), "read", "readline", "seek", "tell")))
    reader = _Reads(buffer.getvalue(), "read", "readline", "seek", "tell", "readinto")
    _check(oneflow.load(reader))
    assert "readinto" in reader.calls
    with pytest.raises(AttributeError, match="seekable"):
        oneflow.load(_Reads(buffer.getvalue(), "read", "readline"))
    with pytest.raises(AttributeError, match="'write' attribute"):
        oneflow.save(_values(), [])


@pytest.mark.parametrize("zipped", [True, False])
def test_storages_outlive_the_file(tmp_path, zipped):
    """A storage that no tensor uses is read before the file is closed."""
    path, values = tmp_path / "s.pt", oneflow.arange(4.0)
    oneflow.save([values.storage(), values.int().untyped_storage()] if zipped else [values.storage()], path)
    for weights_only in (True, False):
        assert oneflow.load(path, weights_only=weights_only)[0].tolist() == [0, 1, 2, 3]
    with gzip.open(tmp_path / "s.gz", "wb") as packed:
        packed.write(path.read_bytes())
    with gzip.open(tmp_path / "s.gz", "rb") as packed:
        loaded = oneflow.load(packed)
    assert loaded[0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("zipped", [True, False])
def test_an_open_file_can_be_read_by_its_name(tmp_path, zipped):
    with open(tmp_path / "open.pt", "wb") as file:
        oneflow.save(_values(), file, _use_new_zipfile_serialization=zipped)
        _check(oneflow.load(tmp_path / "open.pt"))


@pytest.mark.parametrize("encoding", ["utf-8", "bytes"])
@pytest.mark.parametrize("weights_only", [True, False])
def test_strings_of_python_2(encoding, weights_only):
    text = "\u017c\u0105"
    # A list of a Python 2 string and a tensor, as PyTorch wrote them under Python 2.
    data = (
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x01("
        b"U\x10protocol_versionq\x02M\xe9\x03U\n"
        b"type_sizesq\x03}q\x04(U\x03intq\x05K\x04U\x05shortq\x06K\x02U\x04longq\x07K\x04uU\rlittle_endianq\x08\x88u."
        b"\x80\x02]q\x01(U\x04" + text.encode() + b"q\x02ctorch._utils\n_rebuild_tensor_v2\nq\x03((U\x07storageq\x04"
        b"ctorch\nFloatStorage\nq\x05U\x0845640624q\x06U\x03cpuq\x07\x8a\x01\x01NtQK\x00K\x01\x85K\x01\x85\x89NtRq\x08"
        b"K\x02e.\x80\x02]q\x01U\x0845640624q\x02a.\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80?"
    )
    with warnings.catch_warnings():
        # PyTorch warns that it takes no options of pickle, and takes this one.
        warnings.simplefilter("ignore")
        theirs = torch.load(io.BytesIO(data), weights_only=weights_only, encoding=encoding)
    ours = oneflow.load(io.BytesIO(data), weights_only=weights_only, encoding=encoding)
    assert ours[0] == theirs[0] == (text if encoding == "utf-8" else text.encode())
    assert ours[1].tolist() == theirs[1].tolist() == [1.0]


# ---- names that a file may call


def test_refused_names_are_told_apart():
    import os

    buffer = io.BytesIO()
    oneflow.save(os.getpid, buffer)
    buffer.seek(0)
    with serialization.safe_globals([os.getpid]), pytest.raises(pickle.UnpicklingError, match=r"posix.* is blocked"):
        oneflow.load(buffer)
    buffer = io.BytesIO()
    oneflow.save(print, buffer)
    buffer.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=r"Unsupported global: GLOBAL builtins.print .*add_safe_globals"):
        oneflow.load(buffer)


def test_versions_of_modules():
    class Module:
        __version__ = "1.10.3"

    check = serialization.check_module_version_greater_or_equal
    assert check(Module, (1, 9)) and check(Module, (1, 10, 3)) and not check(Module, (1, 11))
    Module.__version__ = "one"
    with pytest.raises(RuntimeError, match="cannot be compared"):
        check(Module, (1, 0))
    with pytest.warns(UserWarning, match="cannot be compared"):
        assert check(Module, (1, 0), error_if_malformed=False)
