"""Results with names: one class for each function, as ``torch.return_types`` has them."""

import copy
import pickle

import oneflow
import pytest
import torch
from oneflow.utils import _pytree as pytree

A = [[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 5.0]]
CALLS = {
    "aminmax": lambda fw, a: fw.aminmax(a),
    "cummax": lambda fw, a: fw.cummax(a, 0),
    "cummin": lambda fw, a: fw.cummin(a, 0),
    "frexp": lambda fw, a: fw.frexp(a),
    "geqrf": lambda fw, a: fw.geqrf(a),
    "histogram": lambda fw, a: fw.histogram(a, 3),
    "histogramdd": lambda fw, a: fw.histogramdd(a, 2),
    "kthvalue": lambda fw, a: fw.kthvalue(a, 1),
    "linalg_cholesky_ex": lambda fw, a: fw.linalg.cholesky_ex(a),
    "linalg_eig": lambda fw, a: fw.linalg.eig(a),
    "linalg_eigh": lambda fw, a: fw.linalg.eigh(a),
    "linalg_inv_ex": lambda fw, a: fw.linalg.inv_ex(a),
    "linalg_lstsq": lambda fw, a: fw.linalg.lstsq(a, a),
    "linalg_lu": lambda fw, a: fw.linalg.lu(a),
    "linalg_lu_factor": lambda fw, a: fw.linalg.lu_factor(a),
    "linalg_ldl_factor": lambda fw, a: fw.linalg.ldl_factor(a),
    "linalg_ldl_factor_ex": lambda fw, a: fw.linalg.ldl_factor_ex(a),
    "linalg_lu_factor_ex": lambda fw, a: fw.linalg.lu_factor_ex(a),
    "linalg_polar": lambda fw, a: fw.linalg.polar(a),
    "linalg_qr": lambda fw, a: fw.linalg.qr(a),
    "linalg_slogdet": lambda fw, a: fw.linalg.slogdet(a),
    "linalg_solve_ex": lambda fw, a: fw.linalg.solve_ex(a, a),
    "linalg_svd": lambda fw, a: fw.linalg.svd(a),
    "lu_unpack": lambda fw, a: fw.lu_unpack(*fw.linalg.lu_factor(a)),
    "max": lambda fw, a: fw.max(a, 0),
    "median": lambda fw, a: fw.median(a, 0),
    "min": lambda fw, a: fw.min(a, 0),
    "mode": lambda fw, a: fw.mode(a, 0),
    "nanmedian": lambda fw, a: fw.nanmedian(a, 0),
    "qr": lambda fw, a: fw.qr(a),
    "slogdet": lambda fw, a: fw.slogdet(a),
    "sort": lambda fw, a: fw.sort(a, stable=True),
    "svd": lambda fw, a: fw.svd(a),
    "topk": lambda fw, a: fw.topk(a, 2),
    "triangular_solve": lambda fw, a: fw.triangular_solve(a, a),
}


def test_every_class_is_called():
    assert set(CALLS) == set(oneflow.return_types.__all__)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_results(name):
    kind = getattr(oneflow.return_types, name)
    results = CALLS[name](oneflow, oneflow.tensor(A))
    assert type(results) is kind is getattr(oneflow.return_types, f"{name}_out")
    # PyTorch has taken away the older form.
    theirs = CALLS["linalg_qr" if name == "qr" else name](torch, torch.tensor(A))
    fields = [n for n in dir(type(theirs)) if not n.startswith(("_", "n_")) and n not in ("count", "index")]
    assert sorted(kind.__match_args__) == fields
    for i, field in enumerate(kind.__match_args__):
        assert getattr(results, field) is results[i]
    assert repr(results).startswith(f"oneflow.return_types.{name}(\n{kind.__match_args__[0]}=")
    for again in (pickle.loads(pickle.dumps(results)), copy.copy(results), kind(list(results))):
        assert type(again) is kind and len(again) == len(results)
    leaves, spec = pytree.tree_flatten(results)
    assert type(pytree.tree_unflatten(leaves, spec)) is kind


def test_a_name_that_is_no_class():
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = oneflow.return_types.nothing_of_the_kind
    with pytest.raises(TypeError):
        oneflow.return_types.max((1, 2, 3))
