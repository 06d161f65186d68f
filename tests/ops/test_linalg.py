"""Linear algebra, einsum and Fourier transforms compared with PyTorch: values, gradients and exception classes."""

import numpy as np
import oneflow
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)


def matrix(*shape):
    return RNG.standard_normal(shape)


def positive(*shape):
    a = RNG.standard_normal(shape)
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])


def both(f, *arrays, grad=True):
    """f(framework, *tensors) of both frameworks, and the gradients of a weighted sum of its real results."""
    results = []
    for fw in (oneflow, torch):
        tensors = [fw.tensor(a, dtype=fw.float64, requires_grad=grad) for a in arrays]
        out = f(fw, *tensors)
        out = out if isinstance(out, (tuple, list)) else (out,)
        grads = []
        if grad:
            total = 0
            for o in out:
                if o.dtype in (fw.complex64, fw.complex128):
                    o = fw.view_as_real(o.resolve_conj())
                if o.requires_grad:
                    weights = fw.arange(1, o.numel() + 1, dtype=fw.float64).reshape(tuple(o.shape)).cos()
                    total = total + (o * weights).sum()
            total.backward()
            grads = [t.grad.numpy() for t in tensors]
        results.append(([o.detach().resolve_conj().numpy() for o in out], grads))
    (ours, our_grads), (theirs, their_grads) = results
    assert len(ours) == len(theirs)
    for a, b in [*zip(ours, theirs, strict=True), *zip(our_grads, their_grads, strict=True)]:
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


A, B, SPD = matrix(4, 4), matrix(4, 3), positive(4, 4)
BATCH, TALL, WIDE = matrix(2, 3, 4, 4), matrix(2, 5, 3), matrix(3, 5)

FUNCTIONS = {
    "cholesky": (lambda fw, a: fw.linalg.cholesky((a + a.mT) / 2), SPD),
    "cholesky upper": (lambda fw, a: fw.linalg.cholesky((a + a.mT) / 2, upper=True), SPD),
    "cholesky_solve": (
        lambda fw, b, a: fw.cholesky_solve(b, fw.linalg.cholesky(a @ a.mT + 9 * fw.eye(4).double())),
        B,
        A,
    ),
    "cholesky_inverse": (lambda fw, a: fw.cholesky_inverse(fw.linalg.cholesky(a)), SPD),
    "inv": (lambda fw, a: fw.linalg.inv(a), BATCH),
    "solve": (lambda fw, a, b: fw.linalg.solve(a, b), A, B),
    "solve vectors": (lambda fw, a, b: fw.linalg.solve(a, b), BATCH, matrix(2, 3, 4)),
    "solve right": (lambda fw, a, b: fw.linalg.solve(a, b, left=False), A, matrix(2, 4)),
    "solve_triangular": (lambda fw, a, b: fw.linalg.solve_triangular(a, b, upper=True), A, B),
    "solve_triangular right": (
        lambda fw, a, b: fw.linalg.solve_triangular(a, b, upper=False, left=False, unitriangular=True),
        A,
        matrix(2, 4),
    ),
    "lu": (lambda fw, a: fw.linalg.lu(a)[1:], A),
    "lu tall": (lambda fw, a: fw.linalg.lu(a)[1:], TALL),
    "lu wide": (lambda fw, a: fw.linalg.lu(a)[1:], WIDE),
    "lu_solve": (lambda fw, a, b: fw.linalg.lu_solve(*fw.linalg.lu_factor(a), b), A, B),
    "lu_solve adjoint": (lambda fw, a, b: fw.linalg.lu_solve(*fw.linalg.lu_factor(a), b, adjoint=True), A, B),
    "qr": (lambda fw, a: fw.linalg.qr(a), TALL),
    "qr wide": (lambda fw, a: fw.linalg.qr(a), WIDE),
    "qr blocks": (lambda fw, a: fw.linalg.qr(a), matrix(70, 40)),
    "householder_product": (lambda fw, a, t: fw.linalg.householder_product(a, t), TALL, matrix(2, 3)),
    "eigvalsh": (lambda fw, a: fw.linalg.eigvalsh((a + a.mT) / 2), BATCH),
    "eigh projection": (
        lambda fw, a: (lambda w, v: (v * w.exp().unsqueeze(-2)) @ v.mT)(*fw.linalg.eigh((a + a.mT) / 2)),
        A,
    ),
    "svdvals": (lambda fw, a: fw.linalg.svdvals(a), TALL),
    "svd projection": (
        lambda fw, a: (lambda u, s, vh: (u * (s * s).unsqueeze(-2)) @ vh)(*fw.linalg.svd(a, full_matrices=False)),
        TALL,
    ),
    "det": (lambda fw, a: fw.linalg.det(a), BATCH),
    "slogdet": (lambda fw, a: fw.linalg.slogdet(a), BATCH),
    "logdet": (lambda fw, a: fw.logdet(a), SPD),
    "pinv": (lambda fw, a: fw.linalg.pinv(a), TALL),
    "pinv wide": (lambda fw, a: fw.linalg.pinv(a), WIDE),
    "lstsq": (lambda fw, a, b: fw.linalg.lstsq(a, b)[0], TALL, matrix(2, 5, 2)),
    "matrix_exp": (lambda fw, a: fw.linalg.matrix_exp(a), BATCH),
    "matrix_sqrth": (lambda fw, a: fw.linalg.matrix_sqrth((a + a.mT) / 2), SPD),
    "polar": (lambda fw, a: fw.linalg.polar(a), TALL),
    "polar square": (lambda fw, a: fw.linalg.polar(a)[1], A),
    "matrix_power": (lambda fw, a: fw.linalg.matrix_power(a, -3), A),
    "multi_dot": (lambda fw, *t: fw.linalg.multi_dot(t), matrix(3, 7), matrix(7, 2), matrix(2, 5), matrix(5, 4)),
    "cond": (lambda fw, a: fw.linalg.cond(a), A),
    "cross": (lambda fw, a, b: fw.linalg.cross(a, b), matrix(4, 3), matrix(4, 3)),
    "vecdot": (lambda fw, a, b: fw.linalg.vecdot(a, b), TALL, TALL + 1),
    "tensordot": (lambda fw, a, b: fw.tensordot(a, b, dims=([1, 0], [0, 1])), matrix(3, 4, 2), matrix(4, 3, 5)),
    "kron": (lambda fw, a, b: fw.kron(a, b), matrix(2, 3), matrix(3, 2)),
    "addr": (lambda fw, x, a, b: fw.addr(x, a, b, beta=2, alpha=0.5), matrix(3, 2), matrix(3), matrix(2)),
    "bilinear": (lambda fw, a, b, w: fw.nn.functional.bilinear(a, b, w), matrix(4, 3), matrix(4, 2), matrix(5, 3, 2)),
}
for p in (None, 0.5, 1, 1.5, 2, 3, float("inf"), -float("inf")):
    FUNCTIONS[f"vector norm {p}"] = (lambda fw, a, p=p: fw.linalg.norm(a, p, dim=1), TALL)
for p in ("fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")):
    FUNCTIONS[f"matrix norm {p}"] = (lambda fw, a, p=p: fw.linalg.norm(a, p, dim=(0, 2), keepdim=True), TALL)
for p in ("fro", 1, 3):
    FUNCTIONS[f"norm {p}"] = (lambda fw, a, p=p: a.norm(p), TALL)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    f, *arrays = FUNCTIONS[name]
    both(f, *arrays)


EQUATIONS = {
    "ij,jk->ik": [(3, 4), (4, 5)],
    "ij,jk": [(3, 4), (4, 5)],
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)],
    "bhqd,bhkd->bhqk": [(2, 2, 3, 4), (2, 2, 5, 4)],
    "ii->i": [(3, 3)],
    "ii": [(3, 3)],
    "ij->ji": [(3, 4)],
    "ij->": [(3, 4)],
    "i,j->ij": [(3,), (4,)],
    "...ij,...jk->...ik": [(2, 3, 4), (4, 5)],
    "b...,b...->...": [(2, 3, 4), (2, 3, 4)],
    "ij,jk,kl->il": [(2, 3), (3, 4), (4, 2)],
    "ij,ij,ij->": [(2, 3), (2, 3), (2, 3)],
    "ij,kj->ik": [(3, 1), (4, 5)],
    "abc,cd,eb->aed": [(2, 3, 4), (4, 5), (6, 3)],
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation):
    both(lambda fw, *t: fw.einsum(equation, *t), *(matrix(*s) for s in EQUATIONS[equation]))


def test_einsum_of_lists():
    both(lambda fw, a, b: fw.einsum(a, [0, 1], b, [1, 2], [0, 2]), matrix(2, 3), matrix(3, 4))
    both(lambda fw, a, b: fw.einsum(a, [..., 0], b, [..., 0], [...]), matrix(2, 3), matrix(2, 3))


TRANSFORMS = {
    "fft": {}, "ifft": {"norm": "ortho"}, "rfft": {"n": 7}, "irfft": {"n": 5}, "hfft": {}, "ihfft": {"norm": "forward"},
    "fft2": {}, "ifft2": {"s": (3, 6)}, "rfft2": {}, "irfft2": {"norm": "ortho"}, "hfft2": {}, "ihfft2": {},
    "fftn": {"dim": (0, 2)}, "ifftn": {}, "rfftn": {"s": (4, 4)}, "irfftn": {}, "hfftn": {}, "ihfftn": {},
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transform(name):
    both(lambda fw, x: getattr(fw.fft, name)(x, **TRANSFORMS[name]), matrix(3, 4, 5))
    if not name.startswith(("r", "ih")):
        both(
            lambda fw, x, y: getattr(fw.fft, name)(fw.complex(x, y), **TRANSFORMS[name]),
            matrix(3, 4, 5),
            matrix(3, 4, 5),
        )


@pytest.mark.parametrize("n", [1, 2, 5, 8, 97, 120])
def test_lengths(n):
    both(lambda fw, x: fw.fft.fft(x, dim=0), matrix(n, 2))
    both(lambda fw, x: fw.fft.irfft(fw.fft.rfft(x), n=n), matrix(2, n))


def test_shifts():
    for fw_name in ("fftshift", "ifftshift"):
        both(lambda fw, x, f=fw_name: getattr(fw.fft, f)(x, dim=(0,)), matrix(5, 4))
        both(lambda fw, x, f=fw_name: getattr(fw.fft, f)(x), matrix(5, 4))
    both(lambda fw: fw.fft.fftfreq(5, 0.5, dtype=fw.float64), grad=False)
    both(lambda fw: fw.fft.rfftfreq(6, dtype=fw.float64), grad=False)


ERRORS = {
    "singular": lambda fw: fw.linalg.solve(fw.zeros(2, 2), fw.ones(2)),
    "not invertible": lambda fw: fw.linalg.inv(fw.zeros(3, 2, 2)),
    "not positive": lambda fw: fw.linalg.cholesky(-fw.eye(2)),
    "not finite": lambda fw: fw.linalg.svd(fw.full((2, 2), float("nan"))),
    "not square": lambda fw: fw.linalg.det(fw.ones(2, 3)),
    "a vector": lambda fw: fw.linalg.inv(fw.ones(2)),
    "integers": lambda fw: fw.linalg.inv(fw.ones(2, 2, dtype=fw.int64)),
    "order": lambda fw: fw.linalg.matrix_norm(fw.ones(2, 2), 3),
    "einsum sizes": lambda fw: fw.einsum("ij,jk", fw.ones(2, 3), fw.ones(2, 3)),
    "einsum letters": lambda fw: fw.einsum("i1->i", fw.ones(2, 3)),
    "norm mode": lambda fw: fw.fft.fft(fw.ones(3), norm="foo"),
    "no points": lambda fw: fw.fft.fft(fw.ones(3), n=0),
    "complex input": lambda fw: fw.fft.rfft(fw.ones(3, dtype=fw.complex64)),
    "repeated dims": lambda fw: fw.fft.fftn(fw.ones(3, 3), dim=(0, 0)),
    "contracted": lambda fw: fw.tensordot(fw.ones(2, 3), fw.ones(2, 3), dims=1),
    "inner": lambda fw: fw.inner(fw.ones(2, 3), fw.ones(2, 4)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(name):
    with pytest.raises(Exception) as theirs:
        ERRORS[name](torch)
    with pytest.raises(Exception) as ours:
        ERRORS[name](oneflow)
    assert ours.type.__name__.lstrip("_") == theirs.type.__name__.lstrip("_"), ours.value


def test_linalg_error_is_a_runtime_error():
    assert issubclass(oneflow.linalg.LinAlgError, RuntimeError)
    _, info = oneflow.linalg.inv_ex(oneflow.zeros(2, 2))
    assert info.item() == 1


def test_norms_refuse_complex_orders():
    for fw in (oneflow, torch):
        for call in (fw.linalg.vector_norm, fw.linalg.matrix_norm):
            with pytest.raises(RuntimeError, match="Expected a non-complex scalar"):
                call(fw.ones(2, 2), 1 + 2j)


WITH_OUT = {
    "cholesky": lambda L, A, o: L.cholesky(A, out=o()),
    "inv": lambda L, A, o: L.inv(A, out=o()),
    "eigh": lambda L, A, o: L.eigh(A, out=(o(), o())),
    "eigvalsh": lambda L, A, o: L.eigvalsh(A, out=o()),
    "eig": lambda L, A, o: L.eig(A, out=(o(), o())),
    "eigvals": lambda L, A, o: L.eigvals(A, out=o()),
    "pinv": lambda L, A, o: L.pinv(A, out=o()),
    "solve": lambda L, A, o: L.solve(A, A, out=o()),
    "svdvals": lambda L, A, o: L.svdvals(A, out=o()),
    "qr": lambda L, A, o: L.qr(A, out=(o(), o())),
    "slogdet": lambda L, A, o: L.slogdet(A, out=(o(), o())),
    "cond": lambda L, A, o: L.cond(A, out=o()),
    "matrix_power": lambda L, A, o: L.matrix_power(A, 3, out=o()),
    "householder_product": lambda L, A, o: L.householder_product(A, A[0].contiguous(), out=o()),
}


@pytest.mark.parametrize("name", WITH_OUT)
def test_out_of_a_wrong_dtype_or_device(name):
    """The errors name the dtypes as PyTorch's do, and the function, not one that it is made of."""
    texts = []
    for fw in (oneflow, torch):
        with pytest.raises(RuntimeError) as error:
            WITH_OUT[name](fw.linalg, fw.eye(3) * 2, lambda fw=fw: fw.empty(0, dtype=fw.int32))
        texts.append(str(error.value))
    # The last words, and the dtypes, are those of the patterns in other people's tests.
    ours, theirs = (text.partition("xpected ")[2].split(" ") for text in texts)
    assert ours == theirs, texts
    with pytest.raises(RuntimeError, match="device") as error:
        WITH_OUT[name](oneflow.linalg, oneflow.eye(3) * 2, lambda: oneflow.empty(0, device="meta"))
    assert "alias_copy" not in str(error.value)


@pytest.mark.parametrize("driver", [None, "gels", "gelsd"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(
    "sizes", [((7, 4), (7, 2)), ((2, 6, 3), (2, 6, 1)), ((3, 5), (3, 2)), ((4, 4), (4, 1)), ((6, 3), (6,))]
)
def test_least_squares(sizes, dtype, driver):
    """Every driver on tall, square and wide matrices: all results, and both gradients."""
    rng = np.random.default_rng(0)
    given = [rng.normal(size=s) + (1j * rng.normal(size=s) if dtype == "complex128" else 0) for s in sizes]
    results = []
    for fw in (oneflow, torch):
        a, b = (fw.tensor(x).requires_grad_() for x in given)
        found = fw.linalg.lstsq(a, b, driver=driver)
        (found.solution.abs() ** 2).sum().backward()
        results.append([t.detach().numpy() for t in (*found, a.grad, b.grad)])
    for ours, theirs in zip(*results, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_least_squares_of_dependent_columns():
    a = np.random.default_rng(0).normal(size=(6, 3))
    a[:, 2] = 2 * a[:, 0]
    ours, theirs = (fw.linalg.lstsq(fw.tensor(a), fw.ones(6, 2, dtype=fw.float64)) for fw in (oneflow, torch))
    assert ours.rank.item() == theirs.rank.item() == 2
    np.testing.assert_allclose(ours.solution.numpy(), theirs.solution.numpy(), rtol=1e-9, atol=1e-12)
