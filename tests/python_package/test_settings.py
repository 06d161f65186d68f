"""Switches, default devices and dtypes, and names whose error suggests an alternative."""

import threading

import oneflow
import pytest
import torch


def test_typed_tensors():
    for kind in ("Float", "Long", "Bool", "Half", "Byte", "Int", "Short", "Char", "Double", "BFloat16"):
        ours, theirs = getattr(oneflow, f"{kind}Tensor"), getattr(torch, f"{kind}Tensor")
        a, b = ours([1, 0]), theirs([1, 0])
        assert str(a.dtype).partition(".")[2] == str(b.dtype).partition(".")[2] and a.tolist() == b.tolist()
        assert tuple(ours(2, 3).shape) == tuple(theirs(2, 3).shape) and tuple(ours().shape) == tuple(theirs().shape)
        assert isinstance(a, ours) and not isinstance(a.to(oneflow.complex64), ours) and not isinstance(1, ours)
        assert oneflow.zeros(2).type(ours).dtype == a.dtype
        assert oneflow.typename(a) == a.type() == f"oneflow.{kind}Tensor"
    with pytest.raises(TypeError, match="expected LongTensor"):
        oneflow.LongTensor(oneflow.zeros(2))


def test_default_device_nests_and_belongs_to_the_thread():
    assert str(oneflow.get_default_device()) == "cpu"
    seen = []
    with oneflow.device("meta"):
        made = [oneflow.zeros(2), oneflow.tensor([1]), oneflow.randn(2), oneflow.arange(3), oneflow.full((2,), 1.0)]
        made += [oneflow.as_tensor([1.0]), oneflow.eye(2), oneflow.nn.Linear(2, 2).weight]
        assert all(t.is_meta for t in made)
        assert str(oneflow.zeros(2, device="cpu").device) == "cpu"
        assert str(oneflow.from_numpy(torch.zeros(2).numpy()).device) == "cpu"
        with oneflow.device("cpu"):
            assert str(oneflow.zeros(2).device) == "cpu"
        thread = threading.Thread(target=lambda: seen.append(str(oneflow.zeros(2).device)))
        thread.start()
        thread.join()
    assert seen == ["cpu"] and str(oneflow.zeros(2).device) == "cpu"
    oneflow.set_default_device("meta")
    try:
        assert oneflow.ones(2).is_meta and str(oneflow.get_default_device()) == "meta"
        assert oneflow.ones(2, device="cpu").add(1).sum().item() == 4.0
    finally:
        oneflow.set_default_device(None)


def test_default_tensor_type():
    try:
        oneflow.set_default_tensor_type(oneflow.DoubleTensor)
        assert oneflow.ones(1).dtype == oneflow.float64
        oneflow.set_default_tensor_type("torch.FloatTensor")
        assert oneflow.ones(1).dtype == oneflow.float32
    finally:
        oneflow.set_default_tensor_type("oneflow.FloatTensor")
    for wrong in ("Float", 3, oneflow.LongTensor):
        with pytest.raises(TypeError):
            oneflow.set_default_tensor_type(wrong)


def test_switches_are_read_back():
    try:
        oneflow.use_deterministic_algorithms(True, warn_only=True)
        assert oneflow.are_deterministic_algorithms_enabled() and oneflow.get_deterministic_debug_mode() == 1
        assert oneflow.is_deterministic_algorithms_warn_only_enabled()
    finally:
        oneflow.set_deterministic_debug_mode("default")
    assert not oneflow.are_deterministic_algorithms_enabled()
    oneflow.set_float32_matmul_precision("high")
    assert oneflow.get_float32_matmul_precision() == "high"
    oneflow.set_float32_matmul_precision("highest")
    with pytest.raises(RuntimeError, match="Unknown precision"):
        oneflow.set_float32_matmul_precision("low")
    oneflow.backends.cudnn.benchmark = True
    with oneflow.backends.cudnn.flags(benchmark=False):
        assert not oneflow.backends.cudnn.benchmark
    assert oneflow.backends.cudnn.benchmark
    oneflow.backends.cudnn.benchmark = False
    assert oneflow.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
    assert not oneflow.backends.mps.is_available() and not oneflow.xpu.is_available()
    assert oneflow.version.__version__ == oneflow.__version__


REFUSED = [
    lambda: oneflow.jit.CompilationUnit(),
    lambda: oneflow.export.draft_export(None),
    lambda: oneflow.onnx.dynamo_export(None),
    lambda: oneflow.xpu.current_device(),
]


@pytest.mark.parametrize("call", REFUSED)
def test_refusals_say_what_to_use(call):
    with pytest.raises(NotImplementedError, match=r"oneflow\.\w+\.\w+ is not provided: "):
        call()


@pytest.mark.filterwarnings("ignore:oneflow.jit.script leaves Python as it is")
def test_script_decorators_change_nothing():
    def f(x):
        return x + 1

    jit = oneflow.jit
    assert jit.script(f) is f and jit.ignore(f) is f and jit.ignore(drop=True)(f) is f and jit.unused(f) is f
    assert jit.export(f) is f and jit.script_if_tracing(f) is f
    assert not jit.is_scripting() and not jit.is_tracing()
    assert not isinstance(oneflow.nn.Linear(1, 1), (oneflow.fx.GraphModule, jit.ScriptModule))
    assert jit.wait(jit.fork(f, 1)) == 2 and jit.annotate(int, 1) == 1


@pytest.mark.skipif(oneflow.cuda.is_available(), reason="there is a GPU")
def test_typed_tensors_of_a_gpu_say_that_there_is_none():
    with pytest.raises(RuntimeError, match="cuda"):
        oneflow.cuda.FloatTensor(2)
    assert not oneflow.cuda.is_bf16_supported() and oneflow.cuda.get_rng_state_all() == []
    assert oneflow.accelerator.current_accelerator() is None


def test_symbolic_numbers_are_numbers():
    assert not isinstance(3, oneflow.SymInt) and oneflow.sym_max(1, 2) == 2 and oneflow.sym_int(2.7) == 2
    assert oneflow.sym_ite(True, 1, 2) == 1 and oneflow.sym_not(False) and oneflow.sym_float(1) == 1.0
    with pytest.raises(NotImplementedError, match="plain numbers"):
        oneflow.SymInt(3)


def test_futures():
    future, other = oneflow.futures.Future(), oneflow.futures.Future()
    together = oneflow.futures.collect_all([future, other])
    following = future.then(lambda f: f.wait() + 1)
    threading.Timer(0.01, future.set_result, (3,)).start()
    assert following.wait() == 4 and future.done() and future.value() == 3 and not together.done()
    other.set_exception(ValueError("no"))
    assert together.wait() == [future, other]
    for call in (other.wait, lambda: oneflow.futures.wait_all([future, other])):
        with pytest.raises(ValueError, match="no"):
            call()
    with pytest.raises(RuntimeError, match="completed once"):
        future.set_result(4)
    assert future.then(lambda f: 1 / 0).then(lambda f: "caught").wait() == "caught"


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int64", "bool", "uint8", "complex64"])
def test_tensors_for_tests(name):
    dtype = getattr(oneflow, name)
    x = oneflow.testing.make_tensor(4, 6, dtype=dtype, device="cpu")
    assert x.shape == (4, 6) and x.dtype == dtype
    gaps = oneflow.testing.make_tensor((4, 6), dtype=dtype, device="cpu", noncontiguous=True)
    assert gaps.shape == (4, 6) and not gaps.is_contiguous()
    if name in ("float32", "int64"):
        low = oneflow.testing.make_tensor(99, dtype=dtype, device="cpu", low=2, high=5)
        assert low.min().item() >= 2 and low.max().item() < 5
    with pytest.raises(ValueError, match="less than"):
        oneflow.testing.make_tensor(2, dtype=dtype, device="cpu", low=3, high=1)


def test_the_older_comparison():
    with pytest.warns(FutureWarning):
        oneflow.testing.assert_allclose(oneflow.ones(2), [1.0, 1.00001])
    with pytest.raises(AssertionError), pytest.warns(FutureWarning):
        oneflow.testing.assert_allclose(oneflow.ones(2), [1.0, 1.1])


DTYPES = [
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_deterministic_algorithms_fill_memory(dtype):
    def found(fw):
        fw.use_deterministic_algorithms(True)
        try:
            like, options = fw.zeros(3, dtype=getattr(fw, dtype)), {"dtype": getattr(fw, dtype)}
            made = [fw.empty(4, **options), fw.empty(2, 2, memory_format=fw.contiguous_format, **options)]
            made += [fw.empty_like(like), like.new_empty(2), fw.empty_strided((2, 3), (1, 2), **options)]
            made += [fw.empty_permuted((2, 3), (1, 0), **options), like.resize_(6), fw.empty(0, **options)]
            fw.utils.deterministic.fill_uninitialized_memory = False
            made.append(fw.zeros(2, **options).resize_(2))
        finally:
            fw.utils.deterministic.fill_uninitialized_memory = True
            fw.use_deterministic_algorithms(False)
        return [[str(value) for value in t.flatten().tolist()] for t in made]

    assert oneflow.utils.deterministic.fill_uninitialized_memory is torch.utils.deterministic.fill_uninitialized_memory
    assert found(oneflow) == found(torch)
