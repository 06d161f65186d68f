"""Factors of indefinite matrices beside LAPACK's by PyTorch, and extreme eigenvalues beside whole decompositions."""

import numpy as np
import oneflow
import pytest
import torch

DTYPES = ("float32", "float64", "complex64", "complex128")


def matrices(rng, shape, dtype, hermitian):
    a = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        a = a + 1j * rng.standard_normal(shape)
    # Small diagonals ask for blocks of two rows and exchanges.
    a[..., np.arange(shape[-1]), np.arange(shape[-1])] *= rng.choice([0.0, 0.1, 3.0], size=shape[:-1])
    turned = np.swapaxes(a, -1, -2)
    return (a + (turned.conj() if hermitian else turned)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 5), (12, 12), (3, 4, 4), (2, 0, 6, 6), (2, 0, 0)])
@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl(dtype, shape, hermitian):
    rng = np.random.default_rng(sum(shape) + len(shape))
    a = matrices(rng, shape, dtype, hermitian)
    b = rng.standard_normal((*shape[:-1], 3)).astype(dtype)
    close = 2e-3 if dtype in ("float32", "complex64") else 1e-8
    for _ in range(3):
        theirs = torch.linalg.ldl_factor_ex(torch.from_numpy(a), hermitian=hermitian)
        ours = oneflow.linalg.ldl_factor_ex(oneflow.from_numpy(a), hermitian=hermitian)
        assert (ours.pivots.numpy() == theirs.pivots.numpy()).all()
        assert (ours.info.numpy() == theirs.info.numpy()).all()
        assert ours.LD.stride() == theirs.LD.stride()
        np.testing.assert_allclose(ours.LD.numpy(), theirs.LD.numpy(), rtol=close, atol=close)
        if theirs.info.any():
            with pytest.raises(RuntimeError):
                oneflow.linalg.ldl_factor(oneflow.from_numpy(a), hermitian=hermitian)
            continue
        x = oneflow.linalg.ldl_solve(ours.LD, ours.pivots, oneflow.from_numpy(b), hermitian=hermitian).numpy()
        # The residual, since these matrices may be close to singular.
        size = np.abs(a).sum(-1).max(initial=1) * np.abs(x).max(initial=1)
        np.testing.assert_allclose(a @ x / size, b / size, atol=close)


def test_ldl_of_a_zero_matrix():
    theirs = torch.linalg.ldl_factor_ex(torch.zeros(2, 2))
    ours = oneflow.linalg.ldl_factor_ex(oneflow.zeros(2, 2))
    assert ours.info.item() == theirs.info.item() == 1
    assert ours.pivots.tolist() == theirs.pivots.tolist()
    with pytest.raises(RuntimeError, match="singular"):
        oneflow.linalg.ldl_factor(oneflow.zeros(2, 2))


REFUSED = {
    "not square": lambda la, fw: la.ldl_factor(fw.ones(2, 3)),
    "a vector": lambda la, fw: la.ldl_factor(fw.ones(2)),
    "integers": lambda la, fw: la.ldl_factor(fw.ones(2, 2, dtype=fw.int32)),
    "pivots of floats": lambda la, fw: la.ldl_solve(fw.ones(2, 2), fw.ones(2), fw.ones(2, 1)),
    "sizes": lambda la, fw: la.ldl_solve(fw.ones(2, 2), fw.ones(2, dtype=fw.int32), fw.ones(3, 1)),
    "dtypes": lambda la, fw: la.ldl_solve(fw.ones(2, 2), fw.ones(2, dtype=fw.int32), fw.ones(2, 1, dtype=fw.float64)),
    "pivots' sizes": lambda la, fw: la.ldl_solve(fw.ones(2, 3, 3), fw.ones(3, dtype=fw.int32), fw.ones(2, 3, 4)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_ldl_refusals(case):
    kinds = []
    for fw in (oneflow, torch):
        with pytest.raises(RuntimeError) as caught:
            REFUSED[case](fw.linalg, fw)
        kinds.append(caught.type)
    assert kinds[0] is kinds[1]


def positive(rng, m):
    a = rng.standard_normal((m, m))
    return a @ a.T / m + np.eye(m)


@pytest.mark.parametrize(("m", "k", "n"), [(9, 1, 2), (30, 3, 4), (60, 5, 6)])
@pytest.mark.parametrize("generalised", [False, True])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_lobpcg(m, k, n, generalised, largest, sparse):
    rng = np.random.default_rng(m)
    a, b = positive(rng, m), positive(rng, m) if generalised else np.eye(m)
    A, B = oneflow.from_numpy(a), oneflow.from_numpy(b) if generalised else None
    oneflow.manual_seed(0)
    values, vectors = oneflow.lobpcg(A.to_sparse() if sparse else A, k=k, B=B, n=n, largest=largest)
    half = np.linalg.inv(np.linalg.cholesky(b))
    known = np.linalg.eigvalsh(half @ a @ half.T)
    np.testing.assert_allclose(values.numpy(), known[::-1][:k] if largest else known[:k], rtol=1e-9)
    v = vectors.numpy()
    np.testing.assert_allclose(a @ v, b @ v * values.numpy(), atol=1e-5)


def test_lobpcg_of_a_batch_with_a_start_and_a_tracker():
    rng = np.random.default_rng(1)
    A = oneflow.from_numpy(np.stack([positive(rng, 12) for _ in range(3)]))
    values, vectors = oneflow.lobpcg(A, X=oneflow.from_numpy(rng.standard_normal((3, 12, 2))))
    known = oneflow.linalg.eigvalsh(A)[:, -2:].flip(1)
    np.testing.assert_allclose(values.numpy(), known.numpy(), rtol=1e-9)
    assert vectors.shape == (3, 12, 2)
    steps = []
    oneflow.lobpcg(A[0], k=1, niter=3, tol=0.0, tracker=lambda worker: steps.append(worker.ivars["istep"]))
    assert steps == [0, 1, 2, 3]


def test_lobpcg_gradients():
    rng = np.random.default_rng(2)
    A = oneflow.from_numpy(positive(rng, 7)).requires_grad_()

    def value_and_projector(matrix):
        values, vectors = oneflow.lobpcg(matrix, k=2, largest=False)
        return values, vectors @ vectors.mT

    assert oneflow.autograd.gradcheck(value_and_projector, (A,))
    with pytest.raises(NotImplementedError, match="dense"):
        oneflow.lobpcg(A, k=1, B=A)


def test_lobpcg_refusals():
    with pytest.raises(ValueError, match="3 x"):
        oneflow.lobpcg(oneflow.eye(5), k=2)
    with pytest.raises(ValueError, match="method"):
        oneflow.lobpcg(oneflow.eye(9), method="lanczos")


@pytest.mark.parametrize("shape", [(5, 0), (0, 5), (0, 0), (2, 0, 3)])
@pytest.mark.parametrize("order", [1, -1, 2, -2, float("inf"), -float("inf"), "fro", "nuc"])
def test_norms_of_empty_matrices(shape, order):
    results = []
    for fw in (oneflow, torch):
        try:
            result = fw.linalg.matrix_norm(fw.ones(shape), order)
            results.append((tuple(result.shape), result.tolist()))
        except IndexError:
            results.append("IndexError")
    assert results[0] == results[1]
