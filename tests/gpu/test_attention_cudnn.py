"""Attention by cuDNN, or by its emulated version, beside the CPU's in float64 and this package's own kernels."""

import itertools
import warnings

import oneflow
import oneflow.nn.functional as F
import pytest
from oneflow import nn
from oneflow.backends import cuda, cudnn
from oneflow.nn.attention import SDPBackend, sdpa_kernel

pytestmark = pytest.mark.gpu
ONLY = SDPBackend.CUDNN_ATTENTION
FIRST = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
# A result is a mean of numbers below four; weights and results are rounded to the dtype.
TOLERANCE = {oneflow.bfloat16: 4e-2, oneflow.float16: 5e-3}


@pytest.fixture(autouse=True)
def with_the_library(gpu):
    if not cudnn.is_available():
        pytest.skip("cuDNN is not installed")
    if oneflow.cuda.get_device_capability(gpu) < (8, 0):
        pytest.skip("cuDNN's attention needs compute capability 8.0")


def operands(shape, layout, dtype):
    """Query, key and value on the CPU, whose numbers the dtype holds, as layers leave them."""
    b, h, g, rows, keys, width = shape
    oneflow.manual_seed(sum(shape))
    made = []
    for heads, n in ((h, rows), (g, keys), (g, keys)):
        if layout == "heads first":
            x = oneflow.randn(b, heads, n, width)
        elif layout == "rows first":
            x = oneflow.randn(b, n, heads, width).transpose(1, 2)
        else:
            # Every second row of a larger tensor, from its middle.
            x = oneflow.randn(b, heads, 2 * n, width + 1)[:, :, ::2, 1:]
        made.append(x.to(dtype))
    return made


def masked(kind, shape, dtype):
    b, h, _, rows, keys, _ = shape
    if kind is None:
        return None
    if kind == "padding":
        return (oneflow.arange(keys) < keys - 2).expand(b, 1, 1, keys)
    if kind == "hidden row":
        mask = oneflow.rand(rows, keys) > 0.3
        mask[0] = False
        return mask
    size = {"all": (b, h, rows, keys), "heads": (1, h, rows, keys), "rows": (rows, keys)}[kind]
    return oneflow.randn(size).to(dtype)


def run(device, dtype, given, mask, backends=None, needs_mask=False, **how):
    """The result and all gradients."""
    how.setdefault("enable_gqa", given[0].shape[1] != given[1].shape[1])
    q, k, v = (x.to(device=device, dtype=dtype).requires_grad_() for x in given)
    if mask is not None:
        mask = mask.to(device) if mask.dtype == oneflow.bool else mask.to(device=device, dtype=dtype)
        mask = mask.requires_grad_() if needs_mask else mask
    oneflow.manual_seed(3)
    with sdpa_kernel(backends, set_priority=True) if backends else warnings.catch_warnings():
        y = F.scaled_dot_product_attention(q, k, v, mask, **how)
    # The backward is that of the forward's library, wherever it runs.
    g = ((oneflow.arange(y.numel()) % 7 - 3) / 3).reshape(y.shape).to(device=device, dtype=dtype)
    return [y, *oneflow.autograd.grad((y * g).sum(), [q, k, v, *([mask] if needs_mask else [])])]


def compare(gpu, shape, dtype, layout="heads first", kind=None, backends=ONLY, **how):
    given, mask = operands(shape, layout, dtype), masked(kind, shape, dtype)
    ours = run(gpu, dtype, given, mask, backends, **how)
    expected = run("cpu", oneflow.float64, given, mask, **how)
    kept = 1 - how.get("dropout_p", 0.0)
    for name, a, b in zip(("result", "query", "key", "value", "mask"), ours, expected, strict=False):
        assert a.shape == b.shape and a.dtype == dtype
        difference = (a.cpu().double() - b).abs().max().item()
        assert difference <= TOLERANCE[dtype] * max(1.0, b.abs().max().item()) / kept, (name, difference)


SHAPES = {
    "heads": (2, 3, 3, 17, 17, 64),
    "wide": (1, 2, 2, 20, 33, 128),
    "grouped": (2, 4, 2, 9, 30, 64),
    "one key head": (1, 4, 1, 12, 8, 40),
    "one row": (2, 2, 2, 1, 12, 16),
}


@pytest.mark.parametrize("dtype", [oneflow.bfloat16, oneflow.float16])
@pytest.mark.parametrize("name", SHAPES)
def test_results_and_gradients_are_those_of_the_cpu(gpu, name, dtype):
    for is_causal, layout in itertools.product((False, True), ("heads first", "rows first", "between")):
        compare(gpu, SHAPES[name], dtype, layout, is_causal=is_causal)
    compare(gpu, SHAPES[name], dtype, scale=-0.2)


@pytest.mark.parametrize("kind", ["all", "heads", "rows", "padding", "hidden row"])
def test_masks(gpu, kind):
    for dtype, shape in itertools.product(TOLERANCE, (SHAPES["heads"], SHAPES["grouped"])):
        compare(gpu, shape, dtype, kind=kind)
        if kind in ("all", "heads", "rows"):
            compare(gpu, shape, dtype, kind=kind, needs_mask=True)


def test_dropout_draws_what_other_devices_draw(gpu):
    for dtype, (p, kind) in itertools.product(TOLERANCE, ((0.1, None), (0.5, "rows"), (0.5, "padding"))):
        compare(gpu, SHAPES["grouped"], dtype, kind=kind, dropout_p=p)
        compare(gpu, SHAPES["heads"], dtype, dropout_p=p, is_causal=True)


def test_the_library_does_all_of_it(gpu, issued):
    given = operands(SHAPES["heads"], "heads first", oneflow.bfloat16)

    def named(backends):
        def step():
            return run(gpu, oneflow.bfloat16, given, None, backends)

        step()
        return issued(step)

    names = named(ONLY)
    assert names.count("libcudnn") == 2 and not any("attention" in name for name in names), names
    for backends in (None, [SDPBackend.FLASH_ATTENTION], FIRST[::-1]):
        names = named(backends)
        assert "libcudnn" not in names and any("attention" in name for name in names), (backends, names)
    assert named(FIRST).count("libcudnn") == 2


def test_one_may_do_the_forward_and_the_other_the_backward(gpu):
    """Rows that see nothing, and dropout, among them."""
    shape, dtype = SHAPES["heads"], oneflow.bfloat16
    given, mask = operands(shape, "heads first", dtype), masked("hidden row", shape, dtype)
    q, k, v = (x.to(gpu) for x in given)
    mask = mask.to(gpu)
    grads = []
    for forward, backward in itertools.product((0, 2), repeat=2):
        oneflow.manual_seed(5)
        out, lse = oneflow._C.native_attention(q, k, v, mask, 0.3, False, 0.1, forward)
        oneflow.manual_seed(5)
        grads.append(
            oneflow._C.native_attention_backward(out, q, k, v, mask, out, lse, 0.3, False, 0.1, False, backward)
        )
    for other in grads[1:]:
        for a, b in zip(grads[0][:3], other[:3], strict=True):
            assert (a.float() - b.float()).abs().max() <= 4e-2 * a.float().abs().max()


def test_what_it_does_not_take_raises_where_it_alone_is_allowed(gpu):
    def attention(dtype, *shape):
        q = oneflow.ones(shape, device=gpu, dtype=dtype)
        return F.scaled_dot_product_attention(q, q, q)

    cases = {
        (oneflow.float32, 1, 2, 4, 8): "float16 and bfloat16, not of float32",
        (oneflow.bfloat16, 1, 2, 4, 12): "12 and 12 columns",
        (oneflow.bfloat16, 1, 2, 4, 136): "136 and 136 columns",
        (oneflow.bfloat16, 1, 2, 4, 264): "at most 256 columns",
    }
    for (dtype, *shape), why in cases.items():
        with sdpa_kernel(ONLY), pytest.raises(RuntimeError, match="No available kernel.*cuDNN.*" + why):
            attention(dtype, *shape)
        own = attention(dtype, *shape)
        with sdpa_kernel(FIRST, set_priority=True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert oneflow.equal(attention(dtype, *shape), own)
    with cudnn.flags(enabled=False), sdpa_kernel(ONLY), pytest.raises(RuntimeError, match="switched off"):
        attention(oneflow.bfloat16, 1, 2, 4, 8)
    # Nothing to compute is nothing to decline.
    with sdpa_kernel(ONLY):
        assert attention(oneflow.bfloat16, 1, 0, 4, 8).shape == (1, 0, 4, 8)


def test_the_switches(gpu, issued):
    q = oneflow.randn(1, 2, 8, 16, device=gpu, dtype=oneflow.bfloat16)

    def by_the_library():
        return "libcudnn" in issued(lambda: F.scaled_dot_product_attention(q, q, q))

    with sdpa_kernel(ONLY):
        F.scaled_dot_product_attention(q, q, q)
        assert by_the_library()
        with sdpa_kernel([ONLY, SDPBackend.MATH]):
            assert not by_the_library()
        assert by_the_library()
    assert not by_the_library()
    with cuda.sdp_kernel(enable_flash=False, enable_math=False, enable_mem_efficient=False):
        assert by_the_library()
    try:
        cuda.enable_flash_sdp(False)
        cuda.enable_mem_efficient_sdp(False)
        assert not by_the_library()
        cuda.enable_math_sdp(False)
        assert by_the_library()
        cuda.enable_cudnn_sdp(False)
        assert not by_the_library()
    finally:
        for enable in (
            cuda.enable_flash_sdp,
            cuda.enable_mem_efficient_sdp,
            cuda.enable_math_sdp,
            cuda.enable_cudnn_sdp,
        ):
            enable(True)
    assert not by_the_library()


def test_can_use_cudnn_attention(gpu):
    def asked(dtype=oneflow.bfloat16, width=16, device=gpu, heads=(4, 4), gqa=False, **how):
        q, k = (oneflow.zeros(1, h, 8, width, device=device, dtype=dtype) for h in heads)
        params = cuda.SDPAParams(q, k, k, None, how.get("dropout", 0.0), how.get("is_causal", False), gqa)
        return cuda.can_use_cudnn_attention(params)

    assert asked() and asked(oneflow.float16, 128, is_causal=True) and asked(heads=(4, 2), gqa=True, dropout=0.1)
    assert not asked(oneflow.float32) and not asked(width=12) and not asked(device="cpu") and not asked(heads=(4, 2))
    q = oneflow.zeros(1, 1, 8, 12, device=gpu, dtype=oneflow.bfloat16)
    with pytest.warns(UserWarning, match="12 columns"):
        cuda.can_use_cudnn_attention(cuda.SDPAParams(q, q, q, None, 0.0, False, False), debug=True)


def test_graphs_keep_the_choice_of_their_trace(gpu, issued):
    """Compiled training and evaluation, and a captured call."""

    class Attention(nn.Module):
        def forward(self, q, k, v):
            with sdpa_kernel(ONLY):
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    given = [x.to(gpu) for x in operands(SHAPES["grouped"][:2] + (4, 9, 9, 64), "heads first", oneflow.bfloat16)]
    eager = Attention()(*given)
    compiled = oneflow.compile(Attention())
    for _ in range(3):
        assert oneflow.equal(compiled(*given), eager)
    assert "libcudnn" in issued(lambda: compiled(*given))
    q, k, v = (x.clone().requires_grad_() for x in given)

    def step():
        return oneflow.autograd.grad(compiled(q, k, v).float().square().sum(), (q, k, v))

    grads = step()
    expected = oneflow.autograd.grad(Attention()(q, k, v).float().square().sum(), (q, k, v))
    for a, b in zip(grads, expected, strict=True):
        assert (a.float() - b.float()).abs().max() <= 3e-2 * b.float().abs().max()
    assert issued(step).count("libcudnn") == 2


def test_a_captured_attention(gpu):
    q = oneflow.randn(1, 2, 16, 64, device=gpu, dtype=oneflow.bfloat16)

    def attention():
        with sdpa_kernel(ONLY):
            return F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)

    with oneflow.cuda.stream(oneflow.cuda.Stream()):
        attention()
    oneflow.cuda.synchronize()
    graph = oneflow.cuda.CUDAGraph()
    with oneflow.cuda.graph(graph):
        y = attention()
    seen = []
    for _ in range(3):
        graph.replay()
        seen.append(y.cpu())
    # Each launch draws anew.
    assert not oneflow.equal(seen[0], seen[1]) and not oneflow.equal(seen[1], seen[2])


def test_deterministic_gradients(gpu):
    given = operands(SHAPES["grouped"], "heads first", oneflow.bfloat16)
    oneflow.use_deterministic_algorithms(True)
    try:
        first = run(gpu, oneflow.bfloat16, given, None, ONLY)
        for _ in range(2):
            again = run(gpu, oneflow.bfloat16, given, None, ONLY)
            assert all(oneflow.equal(a, b) for a, b in zip(first, again, strict=True))
    finally:
        oneflow.use_deterministic_algorithms(False)


PROGRAM = """
import warnings
import oneflow
import oneflow.nn.functional as F
from oneflow.nn.attention import SDPBackend, sdpa_kernel
q = oneflow.ones(1, 1, 4, 8, device="cuda", dtype=oneflow.bfloat16)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for _ in range(2):
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH], set_priority=True):
            assert F.scaled_dot_product_attention(q, q, q).float().sum().item() == 32
texts = [str(w.message) for w in said if str(w.message).startswith("attention:")]
assert len(texts) == 1 and "90600 or newer" in texts[0] and "own" in texts[0], [str(w.message) for w in said]
try:
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        F.scaled_dot_product_attention(q, q, q)
except RuntimeError as e:
    assert "90600 or newer" in str(e), e
print("well")
"""


def test_an_old_library_is_named(in_copied_libraries):
    in_copied_libraries(PROGRAM, EMULATOR_CUDNN_VERSION="90500")
