"""Storages by dtype, as older programs name them; storages of meta tensors; storages as data."""

import io
import itertools

import numpy as np
import oneflow
import pytest
import torch
from oneflow._tensor.typed_storages import DTYPES

pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")


@pytest.mark.parametrize("kind", DTYPES)
def test_the_class_of_a_dtype(kind):
    ours, theirs = getattr(oneflow, f"{kind}Storage"), getattr(torch, f"{kind}Storage")
    dtype = getattr(oneflow, DTYPES[kind])
    assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
    assert ours(4).size() == 4 and ours().size() == 0 and ours([1, 0]).tolist() == theirs([1, 0]).tolist()
    storage = oneflow.ones(3, dtype=dtype).storage()
    assert isinstance(storage, ours) and oneflow.ones(3, dtype=dtype).storage_type() is ours
    assert [k for k in DTYPES if isinstance(storage, getattr(oneflow, f"{k}Storage"))] == [kind]
    assert storage.pickle_storage_type() == f"{kind}Storage"
    assert ours(wrap_storage=storage.untyped()).data_ptr() == storage.data_ptr()
    with pytest.raises(RuntimeError):
        ours(1, 2)


@pytest.mark.parametrize(
    "name", ["float", "double", "half", "int", "long", "bool", "byte", "complex_float", "bfloat16"]
)
def test_casts(name):
    ours, theirs = oneflow.FloatStorage([0, 1, 2.5]), torch.FloatStorage([0, 1, 2.5])
    assert getattr(ours, name)().tolist() == getattr(theirs, name)().tolist()
    assert str(getattr(ours, name)().dtype)[8:] == str(getattr(theirs, name)().dtype)[6:]


def test_bytes_of_untyped_storages():
    bytes_ = oneflow.UntypedStorage([1, 2, 3, 4])
    assert bytes_.tolist() == [1, 2, 3, 4] and bytes_.resizable()
    bytes_.byteswap(oneflow.int16)
    assert bytes_.tolist() == [2, 1, 4, 3]


@pytest.mark.parametrize("dtype", ["float32", "int16", "complex64", "bool"])
def test_tensors_of_storages(dtype):
    x = oneflow.tensor([[1, 0, 1], [0, 1, 1]], dtype=getattr(oneflow, dtype))
    assert oneflow.tensor(x.storage()).equal(x.reshape(-1))
    assert oneflow.tensor(x.untyped_storage(), dtype=x.dtype).equal(x.reshape(-1))
    with pytest.raises(RuntimeError, match="Expected a Storage of type"):
        oneflow.tensor(x.storage(), dtype=oneflow.float64)


@pytest.mark.parametrize("args", [[], [0], [100], [[1, 2, 3]]])
def test_storages_without_memory(args):
    for make in (
        lambda **o: oneflow.TypedStorage(*args, dtype=oneflow.int16, **o),
        lambda **o: oneflow.UntypedStorage(*args, **o),
    ):
        meta, real = make(device="meta"), make()
        assert (meta.nbytes(), meta.size(), meta.data_ptr()) == (real.nbytes(), real.size(), 0)
        assert meta.device.type == "meta"
        with pytest.raises(NotImplementedError, match="Not available"):
            meta[0]


def test_the_storage_of_a_meta_tensor():
    x = oneflow.empty(4, 3, device="meta")
    assert x[1:].untyped_storage().nbytes() == torch.empty(4, 3, device="meta")[1:].untyped_storage().nbytes() == 48
    assert x.storage().size() == 12 and x.untyped_storage().data_ptr() == 0
    y = oneflow.empty(0, device="meta").set_(x.untyped_storage(), 0, (2, 3), (3, 1))
    assert y.shape == (2, 3) and y.is_meta
    with pytest.raises(NotImplementedError):
        y.tolist()


def test_checkpoints_of_storages():
    file = io.BytesIO()
    oneflow.save({"x": oneflow.ones(3)}, file)
    file.seek(0)
    assert oneflow.load(file)["x"].storage().tolist() == [1, 1, 1]


def test_arrays_and_capsules():
    import numpy as np

    x = oneflow.arange(3.0)
    for array in (np.arange(3.0), np.arange(3.0)[::-1], np.zeros(3)):
        got = x == array
        assert isinstance(got, oneflow.Tensor) and got.tolist() == (np.arange(3.0) == array).tolist()
        assert (x <= array).tolist() == (np.arange(3.0) <= array).tolist()
    assert oneflow.asarray(x.__dlpack__()).data_ptr() == x.data_ptr()
    assert list(oneflow.empty(0)) == list(oneflow.empty(0, 3)) == list(oneflow.empty(2, 0).unbind(1)) == []


def test_a_vector_on_a_file(tmp_path):
    path = tmp_path / "numbers"
    first = oneflow.from_file(path, True, 5, dtype=oneflow.float32)
    first.copy_(oneflow.arange(5.0))
    second = oneflow.from_file(str(path), True, 5, dtype=oneflow.float32)
    second[0] = 7.0
    assert first.tolist() == [7.0, 1.0, 2.0, 3.0, 4.0] and path.stat().st_size == 20
    apart = oneflow.from_file(path, False, 5)
    apart.zero_()
    assert second.tolist() == first.tolist() == torch.from_file(str(path), False, 5).tolist()
    for wrong in (
        lambda: oneflow.from_file(path, False, 6),
        lambda: oneflow.from_file(tmp_path / "none", False, 1),
        lambda: oneflow.from_file(path, True, -1),
        lambda: oneflow.from_file(path, True, 2**62, dtype=oneflow.float64),
    ):
        with pytest.raises((RuntimeError, OSError, OverflowError)):
            wrong()


def test_copies_of_parts():
    for fw in (oneflow, torch):
        x = fw.arange(6.0).reshape(2, 3)
        parts = fw.split_copy(x, 2, 1)
        assert [p.tolist() for p in parts] == [[[0, 1], [3, 4]], [[2], [5]]]
        parts[0].zero_()
        assert x.sum() == 15
        out = [fw.zeros(2, 2), fw.zeros(2, 1)]
        assert fw.split_copy(x, 2, 1, out=out) is None and [p.tolist() for p in out] == [[[0, 1], [3, 4]], [[2], [5]]]
        with pytest.raises(RuntimeError):
            fw.split_copy(x, 2, 1, out=out[:1])


@pytest.mark.parametrize("sizes", [(2, 3, 5, 7), (2, 3, 4), (3,), (), (2, 3, 2, 2, 4)])
def test_the_order_of_dimensions(sizes):
    formats = [None, True, ("contiguous_format", "channels_last")]
    for order in itertools.permutations(range(len(sizes))):
        for check in formats:
            results = []
            for fw in (oneflow, torch):
                given = [getattr(fw, f) for f in check] if isinstance(check, tuple) else bool(check)
                results.append(fw.empty(sizes).permute(order).dim_order(ambiguity_check=given))
            assert results[0] == results[1], (sizes, order, check)


def test_an_order_that_is_not_the_only_one():
    for fw in (oneflow, torch):
        x = fw.empty(2, 2, 1, 2).to(memory_format=fw.channels_last)
        with pytest.raises(RuntimeError, match="unique"):
            x.dim_order(ambiguity_check=True)
        assert x.dim_order(ambiguity_check=[fw.contiguous_format, fw.channels_last]) == (0, 2, 3, 1)
        with pytest.raises(TypeError):
            x.dim_order(ambiguity_check="all")


def test_the_storage_type_of_the_default_dtype():
    """``Storage`` follows the default dtype; a size may be any integer, a number of NumPy too."""
    before = oneflow.get_default_dtype()
    try:
        for dtype, name in ((oneflow.float64, "DoubleStorage"), (oneflow.float16, "HalfStorage")):
            oneflow.set_default_dtype(dtype)
            assert oneflow.Storage is getattr(oneflow, name)
    finally:
        oneflow.set_default_dtype(before)
    assert oneflow.Storage is oneflow.FloatStorage
    for size in (3, np.int64(3), np.uint8(3)):
        assert len(oneflow.Storage(size)) == 3
    assert oneflow.Storage([5.0]).tolist() == oneflow.Storage(np.array([5.0])).tolist() == [5.0]
