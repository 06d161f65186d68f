"""Fourier transforms by cuFFT and decompositions by cuSOLVER, or by their emulated versions, beside the CPU's."""

import warnings

import oneflow
import pytest

pytestmark = pytest.mark.gpu
REALS = [oneflow.float32, oneflow.float64]
ALL = [*REALS, oneflow.complex64, oneflow.complex128]


def tolerance(dtype):
    wide = dtype in (oneflow.float64, oneflow.complex128)
    return {"rtol": 1e-9, "atol": 1e-9} if wide else {"rtol": 2e-4, "atol": 2e-4}


def numbers(dtype, *shape):
    oneflow.manual_seed(len(shape) + sum(shape))
    x = oneflow.randn(*shape, dtype=oneflow.float64)
    if dtype.is_complex:
        x = oneflow.complex(x, oneflow.randn(*shape, dtype=oneflow.float64))
    return x.to(dtype)


def is_near(a, b, dtype):
    a = a.cpu()
    assert a.shape == b.shape and a.dtype == b.dtype
    pairs = [(a.real, b.real), (a.imag, b.imag)] if a.is_complex() else [(a, b)]
    return all(oneflow.allclose(x, y, **tolerance(dtype)) for x, y in pairs)


@pytest.fixture(autouse=True)
def by_libraries():
    """Nothing here may go to the host."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*runs on the host")
        names = "fft|cholesky|lu_factor|lu_permutation|triangular_solve|geqrf|householder_product|eigh|svd"
        warnings.filterwarnings("error", message=f"({names}):.*runs on the host")
        yield


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_transforms_are_the_cpus(dtype, gpu):
    fft = oneflow.fft
    cases = [
        (lambda t: fft.fft(t), (6,)),
        (lambda t: fft.fft(t, norm="ortho"), (3, 5)),
        (lambda t: fft.ifft(t, dim=0), (4, 3)),
        (lambda t: fft.fft2(t), (2, 4, 6)),
        (lambda t: fft.fftn(t, dim=(0, 2, 1)), (3, 4, 5)),
        (lambda t: fft.ifftn(t, norm="forward"), (2, 3, 4)),
        (lambda t: fft.fft(t.mT, n=7), (5, 3)),
        (lambda t: fft.fft(t), (4, 1)),
    ]
    if not dtype.is_complex:
        cases += [
            (lambda t: fft.rfft(t), (7,)),
            (lambda t: fft.rfft(t, dim=0, norm="ortho"), (6, 3)),
            (lambda t: fft.rfft2(t), (2, 4, 5)),
            (lambda t: fft.rfftn(t), (3, 4, 6)),
            (lambda t: fft.ihfft(t), (2, 6)),
        ]
    else:
        cases += [
            (lambda t: fft.hfft(t), (3, 5)),
            (lambda t: fft.irfft(fft.rfft(t.real)), (3, 8)),
            (lambda t: fft.irfft(fft.rfft(t.real), n=7), (3, 7)),
            (lambda t: fft.irfft2(fft.rfft2(t.real), s=(4, 6), norm="ortho"), (2, 4, 6)),
            (lambda t: fft.irfftn(fft.rfftn(t.real, dim=(2, 0)), dim=(2, 0), s=(4, 6)), (6, 3, 4)),
        ]
    for k, (run, shape) in enumerate(cases):
        x = numbers(dtype, *shape)
        assert is_near(run(x.to(gpu)), run(x), dtype), k


def test_gradients_of_transforms(gpu):
    x = numbers(oneflow.float64, 3, 8)
    grads = []
    for device in ("cpu", gpu):
        t = x.detach().to(device, copy=True).requires_grad_()
        (oneflow.fft.rfft(t).abs().square().sum() + oneflow.fft.fft2(t).real.sin().sum()).backward()
        grads.append(t.grad)
    assert is_near(grads[1], grads[0], oneflow.float64)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5, 5), (3, 1, 1)], ids=str)
def test_factorisations_of_square_matrices(dtype, shape, gpu):
    x = numbers(dtype, *shape)
    spd = x @ x.mH + oneflow.eye(shape[-1], dtype=dtype)
    for upper in (False, True):
        assert is_near(
            oneflow.linalg.cholesky(spd.to(gpu), upper=upper), oneflow.linalg.cholesky(spd, upper=upper), dtype
        )
    near = lambda a, b: is_near(a, b, dtype)  # noqa: E731
    for ours, theirs in zip(oneflow.linalg.lu_factor(x.to(gpu)), oneflow.linalg.lu_factor(x), strict=True):
        assert near(ours, theirs)
    p, low, up = oneflow.linalg.lu(x.to(gpu))
    assert near(p @ low @ up, x)
    b = numbers(dtype, *shape[:-1], 3)
    assert near(oneflow.linalg.solve(x.to(gpu), b.to(gpu)), oneflow.linalg.solve(x, b))
    assert near(oneflow.linalg.inv(spd.to(gpu)), oneflow.linalg.inv(spd))
    assert near(oneflow.linalg.det(x.to(gpu)), oneflow.linalg.det(x))
    for upper in (False, True):
        a = x + 4 * oneflow.eye(shape[-1], dtype=dtype)
        run = lambda a, b: oneflow.linalg.solve_triangular(a, b, upper=upper)  # noqa: B023, E731
        assert near(run(a.to(gpu), b.to(gpu)), run(a, b))
    w, v = oneflow.linalg.eigh(spd.to(gpu))
    assert near(w, oneflow.linalg.eigvalsh(spd)) and near(v @ (w.to(dtype).unsqueeze(-1) * v.mH), spd)
    assert near(oneflow.linalg.eigvalsh(spd.to(gpu), UPLO="U"), oneflow.linalg.eigvalsh(spd))


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4), (2, 2, 6, 3)], ids=str)
def test_factorisations_of_rectangles(dtype, shape, gpu):
    x = numbers(dtype, *shape)
    near = lambda a, b: is_near(a, b, dtype)  # noqa: E731
    for mode in ("reduced", "complete"):
        for ours, theirs in zip(oneflow.linalg.qr(x.to(gpu), mode), oneflow.linalg.qr(x, mode), strict=True):
            assert near(ours, theirs), mode
    for ours, theirs in zip(oneflow.linalg.lu_factor(x.to(gpu)), oneflow.linalg.lu_factor(x), strict=True):
        assert near(ours, theirs)
    k = min(shape[-2:])
    for full in (False, True):
        u, s, vh = oneflow.linalg.svd(x.to(gpu), full_matrices=full)
        assert near(s, oneflow.linalg.svdvals(x))
        assert near((u[..., :k] * s.to(dtype).unsqueeze(-2)) @ vh[..., :k, :], x)
        for q in (u, vh.mH):
            assert near(q.mH @ q, oneflow.eye(q.shape[-1], dtype=dtype).expand(*shape[:-2], -1, -1))
    assert near(oneflow.linalg.svdvals(x.to(gpu)), oneflow.linalg.svdvals(x))
    # Layouts of all kinds.
    t = x.to(gpu).mT
    assert near(oneflow.linalg.qr(t)[1], oneflow.linalg.qr(x.mT)[1])


def test_failures_have_the_cpus_words(gpu):
    bad = oneflow.stack([oneflow.eye(3), -oneflow.eye(3)])
    for run in (oneflow.linalg.cholesky, oneflow.linalg.inv, lambda t: oneflow.linalg.solve(t, t)):
        x = bad if run is oneflow.linalg.cholesky else bad * oneflow.tensor([1.0, 1.0, 0.0])
        with pytest.raises(oneflow.linalg.LinAlgError) as here:
            run(x)
        with pytest.raises(oneflow.linalg.LinAlgError) as there:
            run(x.to(gpu))
        assert str(here.value) == str(there.value)
    assert oneflow.linalg.cholesky_ex(bad.to(gpu))[1].tolist() == [0, 1]
    # Found without waiting, said at the next wait.
    x = oneflow.eye(3, device=gpu)
    x[1, 1] = float("nan")
    for run, name in ((oneflow.linalg.eigvalsh, "eigh"), (oneflow.linalg.svdvals, "svd")):
        run(x)
        with pytest.raises(oneflow.linalg.LinAlgError, match=f"linalg.{name}: The algorithm failed to converge"):
            oneflow.cuda.synchronize()
    assert oneflow.linalg.eigvalsh(oneflow.eye(2, device=gpu)).tolist() == [1, 1]


def test_gradients_of_decompositions(gpu):
    x = numbers(oneflow.float64, 4, 4)
    grads = []
    for device in ("cpu", gpu):
        t = x.detach().to(device, copy=True).requires_grad_()
        spd = t @ t.mT + oneflow.eye(4, dtype=t.dtype, device=device)
        value = oneflow.linalg.cholesky(spd).sum() + oneflow.linalg.eigvalsh(spd).log().sum()
        value = (
            value + oneflow.linalg.svdvals(t).sum() + oneflow.linalg.solve(spd, t).sum() + oneflow.linalg.qr(t)[1].sum()
        )
        value.backward()
        grads.append(t.grad)
    assert is_near(grads[1], grads[0], oneflow.float64)


def test_streams_order_library_calls(gpu):
    x = numbers(oneflow.float64, 6, 6)
    spd = (x @ x.mT + oneflow.eye(6, dtype=x.dtype)).to(gpu)
    expected = oneflow.linalg.cholesky(spd.cpu())
    for _ in range(10):
        side = oneflow.cuda.Stream()
        side.wait_stream(oneflow.cuda.current_stream())
        with oneflow.cuda.stream(side):
            y = oneflow.linalg.cholesky_ex(spd * 4)[0] / 2
            z = oneflow.fft.ifft(oneflow.fft.fft(y)).real
        oneflow.cuda.current_stream().wait_stream(side)
        assert is_near(z, expected, oneflow.float64)


def test_library_calls_are_captured(gpu):
    x = numbers(oneflow.float64, 4, 4).to(gpu)
    run = lambda t: oneflow.fft.irfft(oneflow.fft.rfft(t)) + oneflow.linalg.cholesky_ex(t @ t.mT + 1)[0].sum()  # noqa: E731
    run(x)
    graph = oneflow.cuda.CUDAGraph()
    with oneflow.cuda.graph(graph):
        y = run(x)
    for k in range(3):
        x.copy_(numbers(oneflow.float64, 4, 4) + k * oneflow.eye(4, dtype=x.dtype))
        graph.replay()
        assert is_near(y, run(x.cpu()), oneflow.float64)


PROGRAM = """
import os, sys, warnings
import numpy
if "WITHOUT_PACKAGES" in os.environ:
    # Libraries of pip's packages are not found: they lie beside NumPy.
    sys.path[:] = [path for path in sys.path if not os.path.exists(os.path.join(path, "numpy"))]
import oneflow
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for _ in range(2):
        x = oneflow.eye(3, device="cuda")
        assert oneflow.allclose(oneflow.linalg.cholesky(x).cpu(), oneflow.eye(3))
        assert oneflow.allclose(oneflow.fft.fft(x).real.sum().cpu(), oneflow.tensor(3.0))
texts = [str(w.message) for w in said]
for name, word in (("cholesky", sys.argv[1]), ("fft", sys.argv[2])):
    found = [t for t in texts if t.startswith(name + ":")]
    assert len(found) == 1 and word in found[0] and "runs on the host" in found[0], texts
print("well")
"""


def test_without_the_libraries_the_host_does_it(in_copied_libraries, tmp_path):
    old = {"EMULATOR_CUSOLVER_VERSION": "11200", "EMULATOR_CUFFT_VERSION": "10900"}
    in_copied_libraries(PROGRAM, "cuSOLVER 11200 is too old", "cuFFT 10900 is too old", **old)
    # Empty files in their place.
    for name in ("libcusolver.so.12", "libcufft.so.12"):
        (tmp_path / name).write_bytes(b"")
    in_copied_libraries(PROGRAM, "libcusolver", "libcufft", WITHOUT_PACKAGES="1")
