"""Signatures that PyTorch has deprecated: a factor that comes before what it multiplies."""

import itertools
import warnings

import oneflow
import pytest
import torch
from ops.op_samples import check_equal

SHAPES = {
    "add": [(2, 2)],
    "sub": [(2, 2)],
    "addcmul": [(2, 2), (2, 2)],
    "addcdiv": [(2, 2), (2, 2)],
    "addmm": [(2, 3), (3, 2)],
    "addmv": [(2, 3), (3,)],
    "addr": [(2,), (2,)],
    "baddbmm": [(2, 2, 3), (2, 3, 2)],
    "addbmm": [(2, 2, 3), (2, 3, 2)],
}
OWN = {"addmv": (2,), "baddbmm": (2, 2, 2)}
FACTORS = (2, 0.5, 3)


def _calls(fw, name):
    """Every placing of at most two factors among the operands."""

    def filled(shape, start):
        n = int(torch.Size(shape).numel())
        return (fw.arange(n, dtype=fw.float32) + start).reshape(shape)

    own = filled(OWN.get(name, (2, 2)), 1)
    operands = [own, *(filled(s, i + 2) for i, s in enumerate(SHAPES[name]))]
    places = range(len(operands) + 1)
    for at in itertools.chain([()], ((i,) for i in places), itertools.combinations_with_replacement(places, 2)):
        args = list(operands)
        for k, i in enumerate(at):
            args.insert(i + k, FACTORS[k])
        yield at, args


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["function", "method", "inplace"])
@pytest.mark.parametrize("name", SHAPES)
def test_old_order(name, form):
    served = 0
    for (at, ours), (_, theirs) in zip(_calls(oneflow, name), _calls(torch, name), strict=True):
        outcomes = []
        for fw, args in ((oneflow, ours), (torch, theirs)):
            try:
                if form == "function":
                    outcomes.append(getattr(fw, name)(*args))
                elif isinstance(args[0], fw.Tensor):
                    outcomes.append(getattr(args[0], name + ("_" if form == "inplace" else ""))(*args[1:]))
            except Exception as e:
                outcomes.append(e)
        if not outcomes or isinstance(outcomes[1], Exception):
            continue  # Calls that only we accept are covered by another test.
        assert not isinstance(outcomes[0], Exception), f"factors at {at}: {outcomes[0]!r}"
        check_equal(*outcomes)
        served += 1
    assert served >= 2


@pytest.mark.parametrize("name", SHAPES)
def test_old_order_warns(name):
    calls = [c for c in _calls(oneflow, name) if c[0] in ((), (1,), (0, 1))]
    for at, args in calls:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                getattr(oneflow, name)(*args)
        except TypeError:
            continue
        assert [str(w.message).startswith(f"This overload of {name} is deprecated") for w in caught] == [True] * bool(
            at
        )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["bool", "int64", "float32"])
def test_a_zero_dim_tensor_is_accepted_as_a_factor(dtype):
    for args in ((2, 5, 2), (2, 0, 3)):
        ours, theirs = (
            fw.add(fw.tensor(args[0], dtype=d), fw.tensor(args[1], dtype=d), d == fw.bool or args[2])
            for fw in (oneflow, torch)
            for d in [getattr(fw, dtype)]
        )
        check_equal(ours, theirs)


def test_a_tensor_overload_comes_before_a_number():
    """A 0-dim tensor takes the overload of tensors, with its gradient and its dtype."""
    for fw in (oneflow, torch):
        low = fw.tensor(0.5, requires_grad=True)
        fw.clamp(fw.tensor([0.0, 1.0]), min=low).sum().backward()
        assert low.grad.item() == 1.0
    x, low = oneflow.tensor([1, 2], dtype=oneflow.int8), oneflow.tensor(1.5, dtype=oneflow.bfloat16)
    assert oneflow.clamp(x, min=low).dtype == oneflow.bfloat16
    assert oneflow.clamp(x, low, 5).tolist() == [1.5, 2.0]
