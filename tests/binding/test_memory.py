"""Memory shared with NumPy, DLPack and buffers; views, versions and numbers out of tensors."""

import gc
import subprocess
import sys
import warnings
import weakref

import numpy as np
import oneflow as flow
import pytest
import torch
from torch_oracle import both, same

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2), (1, 1)])
def test_numpy_there_and_back_shares_memory(dtype, shape):
    a = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    t = flow.from_numpy(a)
    assert t.dtype is getattr(flow, dtype) and t.shape == shape and t.tolist() == a.tolist()
    b = t.numpy()
    assert b.dtype == a.dtype and b.shape == a.shape and b.tolist() == a.tolist()
    if a.size:
        assert b.ctypes.data == a.ctypes.data == t.data_ptr()
        t.fill_(1)
        assert a.reshape(-1)[0] == 1 and b.reshape(-1)[0] == 1


def test_strided_arrays():
    a = np.arange(24.0).reshape(2, 3, 4)
    t = flow.from_numpy(a.transpose(2, 0, 1)[1::2])
    assert t.tolist() == a.transpose(2, 0, 1)[1::2].tolist()
    assert t.stride() == torch.from_numpy(a.transpose(2, 0, 1)[1::2]).stride()
    v = flow.arange(12).view(3, 4).t()[1:]
    assert v.numpy().tolist() == v.tolist() and v.numpy().strides == (8, 32)


def test_the_owner_outlives_every_view():
    a = np.arange(4.0)
    alive = weakref.ref(a)
    t = flow.from_numpy(a)[1:]
    del a
    gc.collect()
    assert alive() is not None and t.tolist() == [1, 2, 3]
    del t
    gc.collect()
    assert alive() is None
    b = flow.arange(5.0).numpy()
    gc.collect()
    assert b.tolist() == [0, 1, 2, 3, 4]


def test_read_only_arrays_warn():
    a = np.arange(3.0)
    a.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        flow.from_numpy(a)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert flow.tensor(a).tolist() == [0, 1, 2]


def test_array_protocol():
    t = flow.arange(3.0)
    assert np.asarray(t).ctypes.data == t.data_ptr()
    assert np.array(t, dtype=np.int32).tolist() == [0, 1, 2]
    assert np.array(t).ctypes.data != t.data_ptr()
    assert np.add(np.ones(3), np.asarray(t)).tolist() == [1, 2, 3]
    assert flow.ones(2, requires_grad=True).numpy(force=True).tolist() == [1, 1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_both_ways(dtype):
    a = np.arange(6).reshape(2, 3).astype(dtype)
    if dtype != "bool":
        t = flow.from_dlpack(a)
        assert t.data_ptr() == a.ctypes.data and t.tolist() == a.tolist()
    t = flow.from_numpy(a).t()
    b = torch.from_dlpack(t)
    assert b.data_ptr() == t.data_ptr() and b.tolist() == t.tolist() and b.stride() == t.stride()
    c = flow.from_dlpack(torch.from_numpy(a))
    assert c.data_ptr() == a.ctypes.data and c.tolist() == a.tolist()


def test_dlpack_bfloat16_and_scalars():
    a = torch.arange(4, dtype=torch.bfloat16)
    b = flow.from_dlpack(a)
    assert b.dtype is flow.bfloat16 and b.tolist() == a.tolist() and b.data_ptr() == a.data_ptr()
    assert torch.from_dlpack(flow.tensor(2.5)).item() == 2.5
    assert flow.ones(1).__dlpack_device__() == (1, 0)


def test_a_capsule_is_used_once_and_freed_unused():
    t = flow.arange(3)
    c = t.__dlpack__()
    assert flow.from_dlpack(c).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError):
        flow.from_dlpack(c)
    s = t.untyped_storage()
    t.__dlpack__()
    t.__dlpack__(max_version=(1, 0))
    gc.collect()
    assert s.nbytes() == 24
    with pytest.raises((RuntimeError, AttributeError)):
        flow.from_dlpack(3)


BUFFERS = {
    "bytes": lambda a: bytes(a.tobytes()),
    "bytearray": lambda a: bytearray(a.tobytes()),
    "memoryview of bytes": lambda a: memoryview(a.tobytes()),
    "memoryview of an array": memoryview,
    "array": lambda a: a,
}


@pytest.mark.filterwarnings("ignore:The given (buffer|NumPy array) is not writable")
@pytest.mark.parametrize("kind", BUFFERS)
@pytest.mark.parametrize("dtype", [*DTYPES, "float16", "complex64", "complex128"])
def test_asarray_shares_the_memory_of_a_buffer(dtype, kind):
    a = np.arange(1, 7).astype(dtype)
    source = BUFFERS[kind](a)
    for copy in (None, False, True):
        ours = flow.asarray(source, dtype=getattr(flow, dtype), copy=copy)
        theirs = torch.asarray(source, dtype=getattr(torch, dtype), copy=copy)
        same(ours, theirs)
        memory = np.frombuffer(source, dtype=dtype).ctypes.data if kind != "array" else a.ctypes.data
        assert (ours.data_ptr() == memory) == (theirs.data_ptr() == memory) == (copy is not True)


def test_asarray_takes_numbers_of_numpy_as_numbers_although_they_have_buffers():
    assert both(lambda fw: fw.asarray(np.float64(2.5), dtype=fw.float32).tolist()) == 2.5
    assert both(lambda fw: (str(fw.asarray(np.float64(2.5)).dtype)[-7:], fw.asarray(np.int16(3)).tolist()))[1] == 3


def test_asarray_uses_a_capsule_once():
    def run(fw):
        capsule = fw.arange(3).__dlpack__()
        t = fw.asarray(capsule, dtype=fw.int64, copy=False)
        with pytest.raises((RuntimeError, ValueError, TypeError)):
            fw.asarray(capsule, copy=False)
        return t.tolist()

    assert both(run) == [0, 1, 2]


def test_the_consumer_of_dlpack_may_free_memory_without_the_interpreter():
    # PyTorch frees tensors while other threads run Python: NumPy's array behind ours must wait for the next call.
    for _ in range(100):
        held = torch.from_dlpack(flow.frombuffer(bytearray(64), dtype=flow.float32))
        del held
    assert flow.ones(1).item() == 1


def test_dlpack_keeps_the_producer_alive():
    class Producer:
        def __init__(self, a):
            self.a = a

        def __dlpack__(self, **kwargs):
            return self.a.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return self.a.__dlpack_device__()

    t = flow.from_dlpack(Producer(np.arange(100000)))
    gc.collect()
    junk = [np.zeros(100000) for _ in range(3)]
    assert t.sum().item() == 4999950000 and junk


def test_frombuffer():
    b = bytearray(range(16))
    t = flow.frombuffer(b, dtype=flow.int16, count=3, offset=2)
    assert t.tolist() == torch.frombuffer(b, dtype=torch.int16, count=3, offset=2).tolist()
    t[0] = 0
    assert b[2] == 0 and b[3] == 0


def test_numbers_out():
    for value, dtype in [
        (3, flow.int64),
        (2.5, flow.float32),
        (True, flow.bool),
        (-1, flow.int8),
        (1.5, flow.bfloat16),
    ]:
        t = flow.tensor(value, dtype=dtype)
        assert t.item() == value and type(t.item()) is type(value)
        assert float(t) == float(value) and int(t) == int(value) and bool(t) is True
    assert flow.tensor([[1, 2], [3, 4]]).t().tolist() == [[1, 3], [2, 4]]
    assert flow.ones(0, 3).tolist() == [] and flow.ones(2, 0).tolist() == [[], []]
    assert complex(flow.tensor(2.0)) == 2 + 0j
    assert f"{flow.tensor(3.14159):.2f}" == "3.14"
    assert round(flow.tensor(2.5).item()) == 2


def test_views_share_and_versions_count():
    x = flow.zeros(2, 3)
    y = x.view(6)
    y += 1
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]] and x._version == y._version == 1
    x.data.add_(1)
    assert x._version == 1 and x.tolist()[0][0] == 2
    assert x.detach()._version == 1
    x.detach().mul_(2)
    assert x._version == 2
    assert y.storage_offset() == 0 and x[1].storage_offset() == 3
    assert x[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert x.untyped_storage().nbytes() == 24 and len(x.untyped_storage()) == 24


def test_data_assignment():
    p = flow.nn.Parameter(flow.ones(2))
    same = p
    p.data = flow.zeros(3)
    assert p is same and p.tolist() == [0, 0, 0] and p.requires_grad
    p.data = p.data.double()
    assert p.dtype is flow.float64


def test_questions():
    x = flow.zeros(2, 3, 4).transpose(0, 1)
    y = torch.zeros(2, 3, 4).transpose(0, 1)
    for q in ("dim", "numel", "nelement", "element_size", "storage_offset", "is_contiguous", "is_floating_point"):
        assert getattr(x, q)() == getattr(y, q)()
    assert x.stride() == y.stride() and x.stride(1) == y.stride(1) and x.size(-1) == y.size(-1)
    assert x.ndim == 3 and x.nbytes == 96 and x.itemsize == 4 and x.get_device() == -1
    assert x.is_cpu and not x.is_cuda and not x.is_meta and not x.is_global
    assert flow.zeros(1, 2, 3, 4).is_contiguous(memory_format=flow.contiguous_format)
    assert not flow.zeros(1, 2, 3, 4).is_contiguous(memory_format=flow.channels_last)
    assert x.mT.shape == (3, 4, 2) and x.T.shape == (4, 2, 3)
    assert x.type() == "oneflow.FloatTensor"


def test_default_dtype():
    try:
        flow.set_default_dtype(flow.float64)
        assert flow.tensor(1.0).dtype is flow.float64 and flow.zeros(1).dtype is flow.float64
    finally:
        flow.set_default_dtype(flow.float32)
    assert flow.get_default_dtype() is flow.float32


def test_meta_tensors_have_no_data():
    t = flow.zeros(3, device="meta")
    assert t.is_meta and (t + t).is_meta and (t + t).shape == (3,)
    for f in (t.tolist, t.numpy, t.sum().item, lambda: bool(t.sum())):
        with pytest.raises((NotImplementedError, RuntimeError)):
            f()


def test_resize_set_and_new_tensor():
    x, y = flow.arange(6.0), torch.arange(6.0)
    assert x.resize_(2, 2) is x and x.tolist() == y.resize_(2, 2).tolist()
    x.resize_((4, 3))
    assert x.shape == (4, 3) and x.view(-1)[:6].tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(RuntimeError):
        flow.ones(2, requires_grad=True).resize_(3)
    with pytest.raises(RuntimeError):
        x.resize_(2**62)
    z = flow.ones(2)
    assert z.set_(x) is z and z.data_ptr() == x.data_ptr() and z.shape == (4, 3)
    n = flow.ones(1, dtype=flow.float64).new_tensor([1, 2])
    assert n.dtype is flow.float64 and n.tolist() == [1, 2]


def exports():
    yield "numpy", lambda t: t.numpy()
    yield "__array__", np.asarray
    yield "dlpack", lambda t: np.from_dlpack(t)
    yield "storage", lambda t: t.untyped_storage()[:4]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("export", [f for _, f in exports()], ids=[n for n, _ in exports()])
def test_memory_that_others_see_is_not_resized(export):
    t = flow.arange(4.0)
    seen = export(t)
    with pytest.raises(RuntimeError, match="not resizable"):
        t.resize_(1000)
    with pytest.raises(RuntimeError, match="not resizable"):
        t.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="not resizable"):
        flow.ones(1000, out=t)
    with pytest.raises(RuntimeError, match=r"not resizable|out of bounds"):
        t.set_(t.untyped_storage(), 0, (1000,))
    assert t.resize_(2).tolist() == [0, 1] and len(seen) == 4
    t.share_memory_()
    assert bytes(np.asarray(seen).tobytes())[4:] != b"" and t.tolist() == [0, 1]


USES = {
    "elementwise": lambda t: t + 1,
    "in-place": lambda t: t.fill_(1.0),
    "out": lambda t: flow.ones(4, out=t),
    "reduction": lambda t: t.sum(),
    "product": lambda t: t @ t,
    "copy": lambda t: t.clone(),
    "cast": lambda t: t.double(),
    "numbers": lambda t: t.tolist(),
    "item": lambda t: t[3].item(),
    "numpy": lambda t: t.numpy(),
    "dlpack": lambda t: np.from_dlpack(t),
    "index": lambda t: t[flow.tensor([3])],
    "random": lambda t: t.normal_(),
    "cat": lambda t: flow.cat([t, t]),
    "print": repr,
    "backward": lambda t: (flow.ones(4, requires_grad=True) * t).sum().backward(),
}


@pytest.mark.parametrize("left", [0, 8])
@pytest.mark.parametrize("use", USES)
def test_a_storage_made_smaller_than_its_tensors(use, left):
    t = flow.arange(4.0)
    t.untyped_storage().resize_(left)
    with pytest.raises(RuntimeError, match=r"not allocated|out of bounds"):
        USES[use](t)
    assert t.shape == (4,) and t.view(2, 2).shape == (2, 2)
    # Tensors that still have their memory work, and all do after the storage grows again.
    assert t[: left // 4].tolist() == [0, 1][: left // 4]
    t.untyped_storage().resize_(16)
    assert t.fill_(3).tolist() == [3] * 4


@pytest.mark.parametrize("make", ["empty_strided", "new_empty_strided", "as_strided", "set_", "resize_", "meta"])
@pytest.mark.parametrize(
    "size, stride", [((3,), (2**60,)), ((3, 3), (2**62, 2**62)), ((2,), (2**63 - 1,)), ((2**62,), (4,))]
)
def test_sizes_beyond_the_address_space(make, size, stride):
    t = flow.zeros(4, dtype=flow.float64)
    calls = {
        "empty_strided": lambda: flow.empty_strided(size, stride, dtype=flow.float64),
        "new_empty_strided": lambda: t.new_empty_strided(size, stride),
        "as_strided": lambda: t.as_strided(size, stride),
        "set_": lambda: t.set_(t.untyped_storage(), 0, size, stride),
        "resize_": lambda: t.resize_(2**62, 4),
        "meta": lambda: flow.empty_strided(size, stride, dtype=flow.float64, device="meta").resize_(2**62, 4),
    }
    with pytest.raises(RuntimeError, match=r"overflow|too large|out of bounds|memory"):
        calls[make]()
    assert t.tolist() == [0] * 4


FOREIGN = [f"{name}(numpy.ones(8, 'f4'))" for name in ("from_numpy", "from_dlpack", "asarray")]
FOREIGN.append("frombuffer(bytearray(32), dtype=oneflow.float32)")


@pytest.mark.parametrize("call", FOREIGN)
def test_foreign_memory_may_be_kept_until_the_process_ends(call):
    program = f"""
import numpy, oneflow
class Holder: pass
holder = Holder()
holder.itself = holder  # Freed when the interpreter has ended already.
holder.tensor = oneflow.{call}
holder.part, holder.grad = holder.tensor[1:], holder.tensor.clone().requires_grad_().exp()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_memory_at_odd_addresses_is_refused_or_copied():
    """Elements lie at multiples of their size: kernels read them as slices."""
    data = bytearray(33)
    array = np.frombuffer(data, dtype=np.int64, offset=1, count=4)
    calls = (
        lambda: flow.from_numpy(array),
        lambda: flow.as_tensor(array),
        lambda: flow.frombuffer(data, dtype=flow.int64, offset=1, count=4),
        lambda: flow.from_numpy(array.view(np.uint8)).view(flow.int64),
        lambda: flow.from_numpy(array.view(np.uint8)).view(flow.float32),
        lambda: flow.frombuffer(data, dtype=flow.complex64, offset=2, count=1),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"is not aligned to .* copy it"):
            call()
    assert flow.tensor(array).tolist() == [0] * 4
    # A complex number is two floats, at addresses of floats.
    assert flow.frombuffer(data[:12], dtype=flow.complex64, offset=4, count=1).tolist() == [0j]
    assert flow.arange(5)[flow.tensor(array)].tolist() == [0] * 4


def test_shared_memory_of_no_bytes_has_an_address():
    empty = flow.from_dlpack(torch.empty(0, dtype=torch.int64))
    assert flow.arange(5)[empty].shape == (0,) and flow.ones(3).index_select(0, empty).shape == (0,)
    assert empty.numpy().shape == (0,) and (empty + 1).shape == (0,)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "float32"])
def test_a_view_of_wider_elements_names_the_size_that_does_not_fit(dtype):
    """Sizes, strides and offset are looked at before the address, as in PyTorch."""
    for part in (lambda x: x[1:9], lambda x: x[:7], lambda x: x[0], lambda x: x[::2]):
        for wider in ("int32", "float64"):
            texts = []
            for fw in (flow, torch):
                x = part(fw.zeros(16, dtype=getattr(fw, dtype)))
                try:
                    texts.append(("", tuple(x.view(getattr(fw, wider)).shape)))
                except Exception as e:
                    texts.append((type(e), str(e).partition(",")[0]))
            assert texts[0] == texts[1]
