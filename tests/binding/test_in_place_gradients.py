"""Gradients through every method that writes in place: an op whose gradient needs what it overwrites keeps a copy."""

import warnings

import oneflow
import pytest
import torch
from torch_oracle import close

# Positional arguments; a number is that many more tensors.
ARGUMENTS = {
    "xlogy_": 1,
    "pow_": 1,
    "float_power_": 1,
    "mul_": 1,
    "div_": 1,
    "add_": 1,
    "sub_": 1,
    "atan2_": 1,
    "fmod_": 1,
    "remainder_": 1,
    "copysign_": 1,
    "hypot_": 1,
    "ldexp_": 1,
    "lerp_": 2,
    "addcmul_": 2,
    "addcdiv_": 2,
    "clamp_": (0.2, 0.55),
    "clamp_min_": (0.4,),
    "clamp_max_": (0.4,),
    "polygamma_": (1,),
    "logit_": (1e-3,),
    "mvlgamma_": (1,),
    "cumprod_": (0,),
    "cumsum_": (0,),
    "renorm_": None,
    "acosh_": None,
    "arccosh_": None,
    # PyTorch has no derivative of their in-place forms.
    "asinh_": None,
    "arcsinh_": None,
    "atanh_": None,
    "arctanh_": None,
    # Its gradient is not allocated in PyTorch.
    "sgn_": None,
}
METHODS = [
    name
    for name in sorted(set(dir(torch.Tensor)) & set(dir(oneflow.Tensor)))
    if name.endswith("_") and not name.startswith("_") and ARGUMENTS.get(name, ()) is not None
]


def _run(fw, name, others_need):
    x = fw.tensor([0.3, 0.5, 0.6], dtype=fw.float64, requires_grad=True)
    given = ARGUMENTS.get(name, ())
    others = []
    if isinstance(given, int):
        others = [fw.tensor([0.7, 0.2, 0.9], dtype=fw.float64, requires_grad=others_need) for _ in range(given)]
        given = others
    y = x.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(y, name)(*given)
    (y * fw.tensor([1.0, 2.0, 3.0], dtype=fw.float64)).sum().backward()
    return [x.grad, *(other.grad for other in others)]


def test_beside_pytorch():
    compared = []
    for name in METHODS:
        for others_need in (False, True):
            try:
                theirs = _run(torch, name, others_need)
            except Exception:  # no gradient, other arguments, no dtype: the class of an error is tested elsewhere
                continue
            if all(g is None for g in theirs) or any(n in name for n in ("uniform", "normal", "random", "cauchy")):
                continue
            close(_run(oneflow, name, others_need), theirs, 1e-9, (name, others_need))
            compared.append(name)
    assert {"xlogy_", "ldexp_", "polygamma_", "pow_", "exp_", "sin_", "mul_", "lerp_"} <= set(compared)
    assert len(set(compared)) >= 60


@pytest.mark.parametrize("name", ["xlogy_", "ldexp_", "polygamma_", "pow_"])
def test_of_a_view(name):
    def run(fw):
        x = fw.tensor([[0.3, 0.5], [0.6, 0.2]], dtype=fw.float64, requires_grad=True)
        y = x * 1.0
        getattr(y.t()[0], name)(2 if name == "polygamma_" else fw.tensor([0.4, 0.9], dtype=fw.float64))
        (y * y).sum().backward()
        return x.grad

    close(run(oneflow), run(torch), 1e-9)
