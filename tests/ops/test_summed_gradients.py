"""Gradients of weights that are added up over several backwards, on the CPU."""

import oneflow
import pytest
from ops import summed_gradients as check


@pytest.mark.parametrize("dtype", list(check.TOLERANCES), ids=str)
@pytest.mark.parametrize("size", check.INPUTS, ids=str)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_gradients_of_weights_are_added_up(dtype, size, bias, turned):
    check.check_sums("cpu", dtype, size, bias, turned)


@pytest.mark.parametrize("threads", [1, 4])
def test_sums_of_wide_layers_are_the_same_on_any_number_of_threads(threads):
    """Sizes of several blocks in each direction, in float64 beside their definition."""
    before = oneflow.get_num_threads()
    oneflow.set_num_threads(threads)
    try:
        oneflow.manual_seed(0)
        x, g = oneflow.randn(700, 530), oneflow.randn(700, 410)
        weight = oneflow.randn(410, 530, requires_grad=True)
        weight.grad = oneflow.randn(410, 530)
        wanted = weight.grad.double() + g.double().t() @ x.double()
        check.F.linear(x, weight).backward(g)
        assert oneflow.allclose(weight.grad.double(), wanted, rtol=1e-4, atol=1e-4)
    finally:
        oneflow.set_num_threads(before)


@pytest.mark.parametrize(
    "check_of", [f for name, f in vars(check).items() if name.startswith("check_") and name != "check_sums"]
)
def test_whoever_looks_sees_what_there_was(check_of):
    check_of("cpu")
