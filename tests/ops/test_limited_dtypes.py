"""The dtypes that few kernels support (uint16 and wider, float8, complex32), against PyTorch.

Casts of every bit pattern, what moves elements, what computes, what refuses, and what writes them to files.
"""

import io
import math
import pickle
import warnings
from functools import partial

import numpy as np
import oneflow
import pytest
import torch
from oneflow import _oneflow
from ops.test_table import CASES, NO_VALUES

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")

UNSIGNED = ("uint16", "uint32", "uint64")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
NEW = (*UNSIGNED, *FLOAT8, "complex32")
OLD = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
ALL = (*OLD, *NEW)


def both(name):
    return getattr(oneflow, name), getattr(torch, name)


def bytes_of(x):
    x = x.contiguous().view(-1)
    return x.view(oneflow.uint8 if isinstance(x, oneflow.Tensor) else torch.uint8).numpy().tobytes()


def to_torch(x):
    """The same bits in PyTorch."""
    x = x.detach().contiguous()
    flat = (
        torch.frombuffer(bytearray(bytes_of(x)), dtype=torch.uint8) if x.numel() else torch.empty(0, dtype=torch.uint8)
    )
    return flat.view(getattr(torch, str(x.dtype).split(".")[1])).view(tuple(x.shape))


def wide(x):
    """Values that compare: NaN equals NaN."""
    if x.dtype == torch.uint64:
        return x.view(torch.int64)
    return x.to(torch.complex128 if x.is_complex() else torch.float64 if x.is_floating_point() else torch.int64)


def same(ours, theirs, rtol=0.0):
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    torch.testing.assert_close(wide(to_torch(ours)), wide(theirs.detach()), rtol=rtol, atol=0, equal_nan=True)


def patterns(name):
    """Every bit pattern of up to 16 bits; of wider dtypes the extremes, powers of two and values between."""
    dtype = getattr(torch, name)
    if name == "bool":
        return torch.tensor([False, True])
    if dtype.itemsize <= 2:
        words = torch.from_numpy(np.arange(256**dtype.itemsize, dtype=f"uint{8 * dtype.itemsize}"))
        return words.view(dtype)
    rng = np.random.default_rng(0)
    if not (dtype.is_floating_point or dtype.is_complex):
        info = torch.iinfo(dtype)
        powers = [v for p in range(65) for v in (2**p - 1, 2**p, 2**p + 1, -(2**p)) if info.min <= v <= info.max]
        return torch.tensor([info.min, *powers, *(int(v) for v in rng.integers(0, 2**31 - 1, 1000))], dtype=dtype)
    halves = torch.from_numpy(np.arange(65536, dtype="uint16")).view(torch.float16).double()
    more = torch.from_numpy(rng.normal(size=4000) * 2.0 ** rng.integers(-140, 140, 4000))
    ties = halves[:31744] + halves[1:31745]
    real = torch.cat([halves, more, ties / 2, torch.tensor([math.inf, -math.inf, math.nan, -0.0, 448.0, 464.0, 465.0])])
    if dtype.is_complex:
        part = torch.float16 if name == "complex32" else dtype.to_real()
        return torch.view_as_complex(torch.stack([real.flip(0), real], -1)).to(dtype) if part else None
    return real.to(dtype)


@pytest.mark.parametrize("source", ALL)
def test_casts_of_every_pattern(source):
    values = patterns(source)
    mine = oneflow.frombuffer(bytearray(bytes_of(values)), dtype=getattr(oneflow, source))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for target in ALL:
            if source not in NEW and target not in NEW:
                continue
            ours, theirs = both(target)
            take, given = values, mine
            if not (theirs.is_floating_point or theirs.is_complex or target == "bool"):
                # Out of the target's range C++ leaves the result open, and PyTorch's depends on an element's place.
                real = values.real if values.is_complex() else values
                if real.is_floating_point():
                    info = torch.iinfo(theirs)
                    number = real.double()
                    low = -(2.0**31) if target in UNSIGNED else float(info.min)
                    keep = (number > low) & (number < float(info.max))
                    take, given = values[keep], mine[oneflow.from_numpy(keep.numpy())]
            same(given.to(ours), take.to(theirs))
            # As rows, and into a destination with steps.
            n = take.numel() // 2
            pair = given[: 2 * n].view(n, 2)
            out = oneflow.zeros(2, n, dtype=ours).t()
            out.copy_(pair)
            same(out, take[: 2 * n].view(n, 2).to(theirs))


def attempt(f):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(), None
        except Exception as e:
            return None, e


def compared(ours, theirs, rtol=0.0):
    """Tensors, lists of them and numbers."""
    if isinstance(theirs, torch.Tensor):
        same(ours, theirs, rtol)
    elif isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            compared(a, b, rtol)
    else:
        assert ours == theirs or (ours != ours and theirs != theirs)


USES = {
    "zeros": lambda fw, d: fw.zeros(2, 3, dtype=d),
    "ones": lambda fw, d: fw.ones(3, dtype=d),
    "full": lambda fw, d: fw.full((3,), 3, dtype=d),
    "full a fraction": lambda fw, d: fw.full((3,), 2.7, dtype=d),
    "full too much": lambda fw, d: fw.full((3,), 1e30, dtype=d),
    "fill_ negative": lambda fw, d: fw.ones(3, dtype=d).fill_(-7),
    "new_full": lambda fw, d: fw.ones(1, dtype=d).new_full((2,), 5),
    "tensor": lambda fw, d: fw.tensor([[1, 2], [3, 4]], dtype=d),
    "tensor of bools": lambda fw, d: fw.tensor([True, False], dtype=d),
    "tensor of floats": lambda fw, d: fw.tensor([0.3, 1.7, 90.0], dtype=d),
    "tensor of numpy": lambda fw, d: fw.tensor(np.arange(4.0), dtype=d),
    "tolist": lambda fw, d: fw.tensor([1, 2, 3], dtype=d).tolist(),
    "item": lambda fw, d: fw.tensor(3, dtype=d).item(),
    "int": lambda fw, d: int(fw.tensor([2], dtype=d)),
    "float": lambda fw, d: float(fw.tensor([2], dtype=d)),
    "bool": lambda fw, d: bool(fw.tensor([2], dtype=d)),
    "text": lambda fw, d: repr(fw.tensor([1, 2, 40], dtype=d)).replace("oneflow", "torch"),
    "type": lambda fw, d: fw.ones(1, dtype=d).type().replace("oneflow", "torch"),
    "view(dtype)": lambda fw, d: fw.ones(8, dtype=d).view(fw.uint8),
    "view as": lambda fw, d: fw.arange(8).view(d).view(fw.int64),
    "slices": lambda fw, d: fw.tensor([[1, 2, 3], [4, 5, 6]], dtype=d)[:, ::2],
    "transposed copy": lambda fw, d: fw.tensor([[1, 2, 3], [4, 5, 6]], dtype=d).t().contiguous(),
    "mask": lambda fw, d: fw.tensor([1, 2, 3], dtype=d)[fw.tensor([True, False, True])],
    "index": lambda fw, d: fw.tensor([1, 2, 3], dtype=d)[fw.tensor([2, 0])],
    "index_select": lambda fw, d: fw.tensor([1, 2, 3], dtype=d).index_select(0, fw.tensor([2, 0])),
    "set": lambda fw, d: _set(fw.tensor([1, 2, 3], dtype=d), 1, 4),
    "set indices": lambda fw, d: _set(fw.tensor([1, 2, 3], dtype=d), fw.tensor([2, 0]), fw.tensor([4, 8], dtype=d)),
    "cat": lambda fw, d: fw.cat([fw.ones(2, dtype=d), fw.zeros(3, dtype=d)]),
    "cat with floats": lambda fw, d: fw.cat([fw.ones(2, dtype=d), fw.zeros(3)]),
    "cat with half": lambda fw, d: fw.cat([fw.ones(2, dtype=d), fw.zeros(3, dtype=fw.float16)]),
    "stack": lambda fw, d: fw.stack([fw.ones(2, dtype=d), fw.zeros(2, dtype=d)]),
    "clone": lambda fw, d: fw.tensor([[1, 2], [4, 8]], dtype=d).t().clone(),
    "expand": lambda fw, d: fw.tensor([[1], [2]], dtype=d).expand(2, 3).contiguous(),
    "repeat": lambda fw, d: fw.tensor([1, 2], dtype=d).repeat(2, 2),
    "where": lambda fw, d: fw.where(fw.tensor([True, False]), fw.tensor([1, 2], dtype=d), fw.tensor([4, 8], dtype=d)),
    "equal": lambda fw, d: fw.equal(fw.ones(3, dtype=d), fw.ones(3, dtype=d)),
    "eq": lambda fw, d: fw.tensor([1, 2], dtype=d) == fw.tensor([1, 4], dtype=d),
    "eq a number": lambda fw, d: fw.tensor([1, 2], dtype=d) == 2,
    "eq floats": lambda fw, d: fw.tensor([1, 2], dtype=d) == fw.tensor([1.0, 4.0]),
    "lt": lambda fw, d: fw.ones(2, dtype=d) < fw.ones(2, dtype=d),
    "add": lambda fw, d: fw.ones(2, dtype=d) + fw.ones(2, dtype=d),
    "add a number": lambda fw, d: fw.ones(2, dtype=d) + 1,
    "add floats": lambda fw, d: fw.ones(2, dtype=d) + fw.ones(2),
    "add doubles in place": lambda fw, d: fw.ones(2, dtype=fw.float64).add_(fw.ones(2, dtype=d)),
    "add ints": lambda fw, d: fw.ones(2, dtype=d) + fw.ones(2, dtype=fw.int32),
    "mul": lambda fw, d: fw.tensor([1, 2], dtype=d) * fw.tensor([4, 8], dtype=d),
    "mul_": lambda fw, d: fw.tensor([1, 2], dtype=d).mul_(2),
    "neg": lambda fw, d: -fw.ones(2, dtype=d),
    "truth": lambda fw, d: fw.tensor([1, 2], dtype=d) & 1,
    "div": lambda fw, d: fw.tensor([1, 2], dtype=d) / 2,
    "sin": lambda fw, d: fw.sin(fw.ones(2, dtype=d)),
    "sum": lambda fw, d: fw.tensor([1, 2, 4], dtype=d).sum(),
    "max": lambda fw, d: fw.tensor([1, 2, 4], dtype=d).max(),
    "maximum": lambda fw, d: fw.maximum(fw.tensor([1, 8], dtype=d), fw.tensor([4, 2], dtype=d)),
    "sort": lambda fw, d: tuple(fw.tensor([4, 1, 2], dtype=d).sort()),
    "matmul": lambda fw, d: fw.ones(2, 2, dtype=d) @ fw.ones(2, 2, dtype=d),
    "mean": lambda fw, d: fw.ones(3, dtype=d).mean(),
    "requires_grad": lambda fw, d: fw.ones(2, dtype=d, requires_grad=True).requires_grad,
    "uniform_": lambda fw, d: str(fw.empty(3, dtype=d).uniform_().dtype)[-9:],
    "randn": lambda fw, d: str(fw.randn(3, dtype=d).dtype)[-9:],
    "randint": lambda fw, d: str(fw.randint(0, 5, (3,), dtype=d).dtype)[-6:],
    "arange": lambda fw, d: fw.arange(3, dtype=d),
    "as an index": lambda fw, d: fw.arange(4)[fw.ones(1, dtype=d)],
    "default": lambda fw, d: fw.set_default_dtype(d),
    "iinfo": lambda fw, d: (fw.iinfo(d).min, fw.iinfo(d).max, fw.iinfo(d).bits),
    "finfo": lambda fw, d: [getattr(fw.finfo(d), k) for k in ("bits", "eps", "max", "min", "tiny", "smallest_normal")],
    "facts": lambda fw, d: (d.itemsize, d.is_signed, d.is_floating_point, d.is_complex, str(d.to_real()).split(".")[1]),
    "to_complex": lambda fw, d: str(d.to_complex()).split(".")[1],
    "hash": lambda fw, d: hash(d) == hash(d) and len({d, fw.float32}),
    "reduced": lambda fw, d: fw.tensor([1, 2], dtype=d).view(2, 1).sum(1, dtype=fw.float64),
}


def _set(x, at, value):
    x[at] = value
    return x


# Calls that work here and not in PyTorch, with their results: kernels that only move elements serve every dtype, as do
# products with numbers.
MORE = {
    "set indices": ((*UNSIGNED, "float8_e8m0fnu"), [8, 2, 4]),
    "equal": (("complex32",), True),
    "mul_": (FLOAT8, [2, 4]),
    "tensor of floats": (("uint64",), [0, 1, 90]),
}


@pytest.mark.parametrize("name", NEW)
def test_everyday_uses(name):
    ours, theirs = both(name)
    wrong = []
    for use, f in USES.items():
        (mine, refused), (reference, raised) = (
            attempt(lambda f=f: f(oneflow, ours)),
            attempt(lambda f=f: f(torch, theirs)),
        )
        if raised is not None:
            served, expected = MORE.get(use, ((), None))
            if refused is None and name not in served:
                wrong.append(f"{use}: gave {mine!r}, PyTorch raises {raised!r}")
            elif refused is None and (mine if isinstance(mine, bool) else mine.double().tolist()) != expected:
                wrong.append(f"{use}: gave {mine!r}, not {expected!r}")
            elif refused is not None and not isinstance(refused, (type(raised), NotImplementedError)):
                wrong.append(f"{use}: raised {refused!r}, PyTorch {raised!r}")
        elif refused is not None:
            wrong.append(f"{use}: raised {refused!r}, PyTorch gives {reference!r}")
        else:
            try:
                compared(mine, reference, 1e-6 if use == "sin" else 0.0)
            except AssertionError as e:
                wrong.append(f"{use}: {mine!r} {reference!r} {str(e)[:80]!r}")
    assert not wrong, "\n".join(wrong)


def test_promotion_and_casting_rules():
    for a in ALL:
        for b in ALL:
            (a1, a2), (b1, b2) = both(a), both(b)
            mine, e1 = attempt(partial(oneflow.promote_types, a1, b1))
            theirs, e2 = attempt(partial(torch.promote_types, a2, b2))
            assert (e1 is None) == (e2 is None), (a, b, e1, e2)
            if e2 is None:
                assert str(mine).split(".")[1] == str(theirs).split(".")[1], (a, b)
            elif "Float8" in str(e2) or "uint16" in str(e2):
                assert str(e1) == str(e2)
            assert oneflow.can_cast(a1, b1) == torch.can_cast(a2, b2), (a, b)


def test_order_and_wrapping_of_uint64():
    values = [0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 7]
    x = oneflow.tensor(values, dtype=oneflow.uint64)
    t = torch.tensor(values, dtype=torch.uint64)
    assert x.tolist() == values and x[5].item() == 2**64 - 1 and "18446744073709551615" in repr(x)
    compared(tuple(x.sort(descending=True)), tuple(t.sort(descending=True)))
    compared(oneflow.maximum(x, x.flip(0)), torch.maximum(t, torch.tensor(values[::-1], dtype=torch.uint64)))
    compared(oneflow.unique(x), torch.unique(t))
    compared(x * x, t * t)
    compared(x.double(), t.double())
    compared(oneflow.sin(x), torch.sin(t), rtol=1e-6)
    compared(oneflow.from_numpy(t.numpy()), t)
    assert x.numpy().dtype == np.uint64 and x.numpy().tolist() == values


@pytest.mark.parametrize("name", NEW)
def test_files_and_memory(name, tmp_path):
    ours, theirs = both(name)
    t = patterns(name)[:252].view(84, 3).t()
    x = oneflow.frombuffer(bytearray(bytes_of(t.t())), dtype=ours).view(84, 3).t()
    oneflow.save({"x": x, "same": x[1]}, tmp_path / "ours.pt")
    read = torch.load(tmp_path / "ours.pt", weights_only=True)
    assert bytes_of(read["x"]) == bytes_of(x) and read["x"].stride() == t.stride() and read["x"].dtype == theirs
    assert read["same"].data_ptr() == read["x"][1].data_ptr()
    torch.save({"x": t}, tmp_path / "theirs.pt")
    for weights_only in (True, False):
        back = oneflow.load(tmp_path / "theirs.pt", weights_only=weights_only)["x"]
        assert bytes_of(back) == bytes_of(x) and back.dtype == ours and back.stride() == t.stride()
    assert bytes_of(pickle.loads(pickle.dumps(x))) == bytes_of(x)
    assert pickle.loads(pickle.dumps(ours)) is ours
    # DLPack, both ways, over the same memory.
    shared = torch.from_dlpack(x)
    assert shared.dtype == theirs and shared.data_ptr() == x.data_ptr() and bytes_of(shared) == bytes_of(x)
    again = oneflow.from_dlpack(t)
    assert again.dtype == ours and again.data_ptr() == t.data_ptr()
    if name in UNSIGNED:
        a = np.arange(6, dtype=name).reshape(2, 3).T
        assert oneflow.from_numpy(a).dtype == ours and np.array_equal(oneflow.from_numpy(a).numpy(), a)
    else:
        with pytest.raises(TypeError):
            x.numpy()
    if name != "complex32":
        from oneflow.models.safetensors import load_file, save_file
        from safetensors.torch import load_file as their_load

        save_file({"x": x.contiguous()}, tmp_path / "x.safetensors")
        back = load_file(tmp_path / "x.safetensors")["x"]
        assert back.dtype == ours and bytes_of(back) == bytes_of(x)
        if not name.endswith("fnuz"):
            assert bytes_of(their_load(tmp_path / "x.safetensors")["x"]) == bytes_of(x)


@pytest.mark.parametrize("name", NEW)
def test_storages_and_copies(name):
    ours, _ = both(name)
    x = oneflow.tensor([1, 2, 4], dtype=ours)
    assert bytes(x.untyped_storage().tolist()) == bytes_of(x)
    buffer = io.BytesIO()
    oneflow.save(x, buffer)
    buffer.seek(0)
    assert oneflow.load(buffer).tolist() == x.tolist()
    assert x.to("meta").dtype == ours and x.to(oneflow.float64).to(ours).tolist() == x.tolist()


def _described(name):
    """A sample of an op with a float tensor in it."""
    for described in _oneflow._C._samples(name):
        args = [*described[0], *described[1].values()]
        if any("float32" in str(a) and "tensor" in str(a) for a in args) and " 0" not in str(args).replace("(0", "( 0"):
            return described
    return None


def _built(described, name, package):
    """The sample's arguments with small positive whole numbers of this dtype in place of floats."""
    rng = np.random.default_rng(5)

    def make(a):
        if isinstance(a, tuple) and a[:1] == ("list",):
            return [make(v) for v in a[1]]
        if isinstance(a, tuple) and a[:1] == ("dtype",):
            return getattr(package, a[1])
        if not (isinstance(a, tuple) and a[:1] == ("tensor",)):
            return a
        values = rng.uniform(a[3], a[4], size=tuple(a[2]))
        dtype = name if a[1] == "float32" else a[1]
        values = np.exp2(np.floor(np.abs(values))) if a[1] == "float32" else np.floor(values)
        return package.tensor(values.tolist(), dtype=package.float64).to(getattr(package, dtype)).view(tuple(a[2]))

    args, kwargs = described
    return [make(a) for a in args], {k: make(v) for k, v in kwargs.items()}


def outcomes(name):
    """The outcome of every op with a dtype: (op, form, comparison with ours)."""
    for op, form, ours, theirs in CASES:
        described = _described(op)
        if described is None or (form == "inplace" and op in NO_VALUES):
            continue
        args, kwargs = _built(described, name, torch)
        reference, raised = attempt(partial(theirs, *args, **kwargs))
        args, kwargs = _built(described, name, oneflow)
        mine, refused = attempt(partial(ours, *args, **kwargs))
        if refused is not None and not isinstance(refused, (RuntimeError, TypeError, ValueError, IndexError)):
            yield op, form, f"broke: {refused!r}"
        elif refused is not None:
            yield op, form, "both refuse" if raised is not None else f"refused: {str(refused)[:90]}"
        elif raised is not None:
            yield op, form, "gave"
        elif op in NO_VALUES:
            yield op, form, "same"
        else:
            try:
                compared(mine, reference, rtol=TOLERANCE.get(name, 1e-5))
                yield op, form, "same"
            except AssertionError as e:
                yield op, form, f"wrong: {str(e)[:90]!r}"


TOLERANCE = {"complex32": 2e-3}


if __name__ == "__main__":
    import sys

    for name in sys.argv[1:] or NEW:
        found = {}
        for op, form, how in outcomes(name):
            found.setdefault(how.split(":")[0], []).append((op, form, how))
        print("==", name, {k: len(v) for k, v in found.items()})
        for kind in found.keys() - {"same", "both refuse"}:
            for op, form, how in found[kind]:
                print("  ", op, form, how)
