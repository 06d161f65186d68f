"""Convolutions by cuDNN 9, or by its emulated version, beside the CPU's and beside this package's own kernels."""

import oneflow
import oneflow.nn.functional as F
import pytest
from oneflow.backends import cudnn

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def with_the_library():
    if not cudnn.is_available():
        pytest.skip("cuDNN is not installed")


def run(device, dtype, last, functional, x, w, b, **how):
    layout = oneflow.channels_last if last else oneflow.contiguous_format
    x, w, b = (t.to(device=device, dtype=dtype) for t in (x, w, b))
    if x.ndim == 4:
        x, w = x.to(memory_format=layout), w.to(memory_format=layout)
    x, w, b = (t.requires_grad_() for t in (x, w, b))
    y = functional(x, w, b, **how)
    g = (oneflow.arange(y.numel()) % 7 - 3).reshape(y.shape).to(device=device, dtype=dtype)
    return [y, *oneflow.autograd.grad((y * g).sum(), (x, w, b))]


CASES = {
    "3x3": (F.conv2d, (2, 6, 9, 8), (8, 6, 3, 3), 8, {"padding": 1}),
    "strided, dilated, grouped": (
        F.conv2d,
        (2, 8, 11, 10),
        (12, 4, 3, 2),
        12,
        {"stride": (2, 1), "dilation": 2, "groups": 2},
    ),
    "depthwise": (F.conv2d, (2, 8, 7, 7), (8, 1, 3, 3), 8, {"padding": 1, "groups": 8}),
    "one channel": (F.conv2d, (2, 1, 7, 7), (4, 1, 3, 3), 4, {}),
    "strided 1x1": (F.conv2d, (2, 8, 7, 7), (4, 8, 1, 1), 4, {"stride": 2}),
    "one dimension": (F.conv1d, (2, 6, 15), (8, 6, 4), 8, {"padding": 2, "stride": 2}),
    "three dimensions": (F.conv3d, (1, 4, 5, 6, 4), (6, 4, 2, 3, 2), 6, {"padding": (0, 1, 1)}),
    "transposed": (F.conv_transpose2d, (2, 6, 5, 4), (6, 8, 3, 3), 8, {"stride": 2, "padding": 1, "output_padding": 1}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("last", [False, True])
def test_convolutions_are_those_of_the_cpu(gpu, name, last):
    functional, x, w, b, how = CASES[name]
    oneflow.manual_seed(0)
    x, w, b = oneflow.randn(*x), oneflow.randn(*w), oneflow.randn(b)
    for dtype, tolerance in ((oneflow.float32, 2e-5), (oneflow.float64, 1e-12), (oneflow.bfloat16, 2e-2)):
        reference = run("cpu", oneflow.float64, last, functional, *(t.to(dtype) for t in (x, w, b)), **how)
        for enabled in (True, False):
            with cudnn.flags(enabled=enabled, allow_tf32=False):
                ours = run(gpu, dtype, last, functional, x, w, b, **how)
            for a, expected in zip(ours, reference, strict=True):
                scale = expected.abs().max().item()
                assert (a.cpu().double() - expected).abs().max().item() <= tolerance * scale, (dtype, enabled)
            assert ours[0].stride() == reference[0].stride()


@pytest.mark.parametrize("last", [False, True])
def test_the_library_does_all_three_products(gpu, issued, last):
    functional, x, w, b, how = CASES["3x3"]
    x, w, b = oneflow.randn(*x), oneflow.randn(*w), oneflow.randn(b)

    def step():
        return run(gpu, oneflow.float32, last, functional, x, w, b, **how)

    step()
    names = issued(step)
    assert names.count("libcudnn") == 3 and not any(name.startswith("conv") for name in names), names
    with cudnn.flags(enabled=False):
        names = issued(step)
    assert "libcudnn" not in names and any(name.startswith("conv") for name in names), names


def test_float32_is_rounded_where_a_program_allows_it(gpu):
    oneflow.manual_seed(0)
    x, w = oneflow.randn(2, 16, 9, 9), oneflow.randn(16, 16, 3, 3)
    exact = F.conv2d(x.double(), w.double())

    def error():
        ours = F.conv2d(x.to(gpu), w.to(gpu)).cpu().double()
        return ((ours - exact).abs().max() / exact.abs().max()).item()

    assert error() < 1e-6
    with cudnn.flags(enabled=True, allow_tf32=True):
        assert error() < 2e-3
        if oneflow.cuda.get_device_name(gpu) == "emulated device":
            assert error() > 1e-5
    assert error() < 1e-6


def test_results_are_the_same_in_every_run(gpu):
    x = oneflow.randn(2, 8, 9, 9, device=gpu)
    w = oneflow.randn(8, 8, 3, 3, device=gpu, requires_grad=True)
    grads = [oneflow.autograd.grad(F.conv2d(x, w).sum(), w)[0].tolist() for _ in range(4)]
    assert grads.count(grads[0]) == 4


def test_operands_without_an_order_of_the_library(gpu):
    """Parts of images, and addresses in the middle of an access."""
    x = oneflow.randn(2, 8, 20, 21)
    w = oneflow.randn(4, 3, 3, 8).permute(0, 3, 1, 2)
    expected = F.conv2d(x[:, :, 1::2, 1:], w)
    assert oneflow.allclose(F.conv2d(x.to(gpu)[:, :, 1::2, 1:], w.to(gpu)).cpu(), expected, rtol=1e-4, atol=1e-4)


def test_a_captured_convolution(gpu):
    x, w = oneflow.randn(2, 4, 8, 8, device=gpu), oneflow.randn(4, 4, 3, 3, device=gpu)
    with oneflow.cuda.stream(oneflow.cuda.Stream()):
        F.conv2d(x, w, padding=1).relu()
    oneflow.cuda.synchronize()
    graph = oneflow.cuda.CUDAGraph()
    with oneflow.cuda.graph(graph):
        y = F.conv2d(x, w, padding=1).relu()
    for k in range(3):
        x.fill_(0.5 * k)
        graph.replay()
        assert oneflow.allclose(y.cpu(), F.conv2d(x.cpu(), w.cpu(), padding=1).relu(), rtol=1e-4, atol=1e-5)


def test_what_the_settings_say(gpu):
    assert 90000 <= cudnn.version() < 100000
    assert cudnn.is_acceptable(oneflow.ones(1, device=gpu)) and not cudnn.is_acceptable(oneflow.ones(1))
    with cudnn.flags(enabled=False):
        assert not cudnn.is_acceptable(oneflow.ones(1, device=gpu))


PROGRAM = """
import os, sys, warnings
import numpy
if "WITHOUT_PACKAGES" in os.environ:
    # Libraries of pip's packages are not found: they lie beside NumPy.
    sys.path[:] = [path for path in sys.path if not os.path.exists(os.path.join(path, "numpy"))]
import oneflow
from oneflow.backends import cudnn
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for _ in range(2):
        x, w = oneflow.ones(1, 4, 5, 5, device="cuda"), oneflow.ones(4, 4, 3, 3, device="cuda")
        assert oneflow.nn.functional.conv2d(x, w).sum().item() == 36 * 36
texts = [str(w.message) for w in said if str(w.message).startswith("convolution:")]
assert len(texts) == 1 and sys.argv[1] in texts[0] and "own" in texts[0], [str(w.message) for w in said]
assert cudnn.version() is None and not cudnn.is_available()
print("well")
"""


def test_without_the_library_own_kernels_do_it(in_copied_libraries, tmp_path):
    in_copied_libraries(PROGRAM, "cuDNN 80907", EMULATOR_CUDNN_VERSION="80907")
    in_copied_libraries(PROGRAM, "cuDNN 100000", EMULATOR_CUDNN_VERSION="100000")
    # An empty file in its place.
    (tmp_path / "libcudnn.so.9").write_bytes(b"")
    in_copied_libraries(PROGRAM, "libcudnn", WITHOUT_PACKAGES="1")
