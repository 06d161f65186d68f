"""Arguments of common functions that few programs give, beside PyTorch's answers to them."""

import itertools
import re

import oneflow
import pytest
import torch


def answers(call):
    """What each framework gives: the text of the result or the kind of the exception."""
    found = []
    for fw in (oneflow, torch):
        try:
            found.append(str(call(fw)).replace("oneflow", "torch"))
        except Exception as error:
            found.append(type(error).__name__)
    return found


pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

OLD_CONSTRUCTORS = {
    "no argument": lambda fw, d: fw.Tensor(device=d),
    "sizes": lambda fw, d: fw.Tensor(2, 0, device=d),
    "data": lambda fw, d: fw.Tensor([1, 2], device=d),
    "a typed tensor": lambda fw, d: fw.FloatTensor([1, 2], device=d),
    "new": lambda fw, d: fw.ones(2).new([1.0], device=d),
}


@pytest.mark.parametrize("case", OLD_CONSTRUCTORS)
@pytest.mark.parametrize("device", [None, "cpu", "cuda", "cuda:0", "meta"])
def test_old_constructors_refuse_another_device(case, device):
    ours, theirs = answers(lambda fw: OLD_CONSTRUCTORS[case](fw, device))
    assert ours == theirs


@pytest.mark.parametrize("stable", [None, False, True])
def test_stable_may_be_none(stable):
    for call in (
        lambda fw: fw.tensor([3.0, 1.0, 2.0]).sort(stable=stable),
        lambda fw: fw.sort(fw.tensor([3.0, 1.0, 2.0]), stable=stable, dim=0, descending=True),
    ):
        ours, theirs = answers(call)
        assert ours == theirs


def test_out_of_functions_for_networks():
    x = [[-2.0, 0.3], [1.5, -0.4]]
    calls = {
        "softshrink": lambda F, t, out: F.softshrink(t, 0.5, out=out),
        "softplus": lambda F, t, out: F.softplus(t, 2, out=out),
        "gelu": lambda F, t, out: F.gelu(t, approximate="tanh", out=out),
        "logsigmoid": lambda F, t, out: F.logsigmoid(t, out=out),
        "hardshrink": lambda F, t, out: F.hardshrink(t, 0.5, out=out),
        "avg_pool2d": lambda F, t, out: F.avg_pool2d(t[None], 2, out=out),
        "avg_pool3d": lambda F, t, out: F.avg_pool3d(t[None, None], (1, 2, 2), out=out),
        "linear": lambda F, t, out: F.linear(t, t, out=out),
    }
    for name, call in calls.items():
        results = []
        for fw in (oneflow, torch):
            out = fw.empty(0)
            assert call(fw.nn.functional, fw.tensor(x), out) is out
            results.append(out.tolist())
        torch.testing.assert_close(torch.tensor(results[0]), torch.tensor(results[1]), msg=name)


HALVES = {
    "complex": lambda fw, a, b: fw.complex(a, b),
    "polar": lambda fw, a, b: fw.polar(a, b),
    "view": lambda fw, a, b: fw.view_as_complex(fw.stack([a, b], -1)),
    "and back": lambda fw, a, b: fw.view_as_real(fw.complex(a, b)),
    "real": lambda fw, a, b: fw.complex(a, b).real,
}


@pytest.mark.parametrize("case", HALVES)
def test_complex_numbers_of_half_floats(case):
    results = []
    for fw in (oneflow, torch):
        a, b = (fw.tensor(v, dtype=fw.float16) for v in ([1.5, -2.0, 0.1], [0.25, 3.0, 7.0]))
        y = HALVES[case](fw, a, b)
        wide = y.to(fw.complex64) if y.is_complex() else y.float()
        results.append((str(y.dtype).rpartition(".")[2], wide.tolist()))
    assert results[0][0] == results[1][0]
    torch.testing.assert_close(torch.tensor(results[0][1]), torch.tensor(results[1][1]))


NO_ENTRIES = {
    "zeros": lambda fw: fw.zeros((2, 3), layout=fw.sparse_coo),
    "zeros of sizes": lambda fw: fw.zeros(2, 3, layout=fw.sparse_coo, dtype=fw.float64),
    "empty": lambda fw: fw.empty((2, 0), layout=fw.sparse_coo, dtype=fw.int32),
    "zeros_like": lambda fw: fw.zeros_like(fw.ones(2, 3), layout=fw.sparse_coo),
    "new_zeros": lambda fw: fw.ones(2, dtype=fw.float64).new_zeros((4,), layout=fw.sparse_coo),
    "requires_grad": lambda fw: fw.zeros(2, 2, layout=fw.sparse_coo, requires_grad=True),
    "strided": lambda fw: fw.zeros(2, 2, layout=fw.strided),
}


@pytest.mark.parametrize("case", NO_ENTRIES)
def test_layouts_of_factories(case):
    ours, theirs = answers(NO_ENTRIES[case])
    assert ours == theirs
    assert ours.startswith("tensor(")


@pytest.mark.parametrize("name", ["ones", "rand", "full", "arange"])
def test_layouts_that_a_factory_lacks(name):
    arguments = {"full": ((2,), 1.0), "arange": (3,)}.get(name, (2,))
    with pytest.raises(NotImplementedError, match=rf"{name}\(\).*strided"):
        getattr(oneflow, name)(*arguments, layout=oneflow.sparse_coo)


SPARSE = [
    ([1.0, 2.0], "float32"),
    ([1.0, 2.0], "float64"),
    ([1.0, 2.0], "float16"),
    ([1, 2], "int64"),
    ([1, 2], "int32"),
    ([True, False], "bool"),
    ([1 + 2j, 0.5], "complex64"),
]


@pytest.mark.parametrize(("values", "dtype"), SPARSE)
@pytest.mark.parametrize("grad", [False, True])
def test_sparse_tensors_are_printed_as_in_pytorch(values, dtype, grad):
    if grad and not dtype.startswith(("float", "complex")):
        pytest.skip("integers have no gradients")

    def show(fw):
        kept = fw.tensor(values, dtype=getattr(fw, dtype))
        made = fw.sparse_coo_tensor(fw.tensor([[0, 1], [1, 0]]), kept, (2, 2), requires_grad=grad)
        return f"{made}{made * 2 if grad else made.coalesce()}"

    ours, theirs = answers(show)
    assert re.sub(r"grad_fn=<\w+>", "grad_fn", ours) == re.sub(r"grad_fn=<\w+>", "grad_fn", theirs)


def test_storages_know_the_file_that_they_share(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(40)))
    for fw, shared in itertools.product((oneflow, torch), (False, True)):
        storage = fw.UntypedStorage.from_file(str(path), shared, 16)
        assert storage.filename == (str(path) if shared else None)
        tensor = fw.from_file(str(path), shared=shared, size=4)
        assert tensor.untyped_storage().filename == (str(path) if shared else None)
        assert fw.ones(2).untyped_storage().filename is None


REFUSED = {
    "softmax of a float": (TypeError, lambda m: m.nn.Softmax(dim=1.0)),
    "softmax of a bool": (TypeError, lambda m: m.nn.Softmax(dim=True)),
    "log_softmax of a float": (TypeError, lambda m: m.nn.LogSoftmax(dim=1.0)),
    "huber of a complex number": (TypeError, lambda m: m.nn.HuberLoss(delta=1j)),
    "batch norm of zero": (ValueError, lambda m: m.nn.BatchNorm1d(3, eps=0.0)(m.ones(2, 3))),
    "batch norm below zero": (ValueError, lambda m: m.nn.BatchNorm2d(3, eps=-1.0)(m.ones(2, 3, 2, 2))),
    "evaluation below zero": (ValueError, lambda m: m.nn.BatchNorm1d(3, eps=-1.0).eval()(m.ones(2, 3))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_of_layers_that_are_refused(name):
    error, call = REFUSED[name]
    texts = []
    for m in (oneflow, torch):
        with pytest.raises(error) as caught:
            call(m)
        texts.append(str(caught.value).rstrip("0"))
    assert texts[0] == texts[1]


def test_a_batch_norm_without_eps_in_evaluation():
    for m in (oneflow, torch):
        assert m.nn.BatchNorm1d(2, eps=0.0).eval()(m.ones(1, 2)).tolist() == [[1.0, 1.0]]
        assert m.nn.Softmax(dim=None).dim is None and m.nn.Softmax(-1).dim == -1
