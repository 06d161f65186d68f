"""How modules change their parameters: new data, new parameters or swapped tensors, beside PyTorch."""

import gc
import itertools

import oneflow
import pytest
import torch

CHANGES = {
    "double": lambda fw, m: m.double(),
    "to": lambda fw, m: m.to(fw.float16),
    "to_empty": lambda fw, m: m.to_empty(device="cpu"),
    "load_state_dict": lambda fw, m: m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()}),
    "assigning": lambda fw, m: m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()}, assign=True),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("overwrites, swaps", itertools.product([False, True], repeat=2))
def test_identity_and_values(name, overwrites, swaps):
    def run(fw):
        fw.__future__.set_overwrite_module_params_on_conversion(overwrites)
        fw.__future__.set_swap_module_params_on_conversion(swaps)
        try:
            module = fw.nn.Sequential(fw.nn.Linear(2, 2), fw.nn.BatchNorm1d(2))
            with fw.no_grad():
                for i, parameter in enumerate(module.parameters()):
                    parameter.fill_(i + 1)
            module[0].bias.requires_grad_(False)
            module(fw.tensor([[1.0, 2.0], [3.0, 5.0]])).sum().backward()
            before = dict(module.named_parameters())
            CHANGES[name](fw, module)
            after = dict(module.named_parameters())
            same = [after[k] is before[k] for k in before]
            kinds = [(type(p).__name__, p.requires_grad, p.is_leaf, p.grad is None) for p in after.values()]
            values = None if name == "to_empty" else [p.tolist() for p in after.values()]
            dtypes = [str(p.dtype).rpartition(".")[2] for p in module.state_dict().values()]
            return same, kinds, values, dtypes
        finally:
            fw.__future__.set_overwrite_module_params_on_conversion(False)
            fw.__future__.set_swap_module_params_on_conversion(False)

    assert run(oneflow) == run(torch)


def test_module_load_must_give_something_new():
    class Own(oneflow.nn.Parameter):
        def module_load(self, other, assign=False):
            return other

    linear = oneflow.nn.Linear(2, 2, bias=False)
    linear.weight = Own(linear.weight.detach())
    oneflow.__future__.set_swap_module_params_on_conversion(True)
    try:
        with pytest.raises(RuntimeError, match="module_load returned one of self or other"):
            linear.load_state_dict({"weight": oneflow.ones(2, 2)})
    finally:
        oneflow.__future__.set_swap_module_params_on_conversion(False)


def test_loading_leaves_no_circle():
    """What was loaded is freed with its last reference, not when Python looks for circles."""
    module = oneflow.nn.LSTM(4, 4, bidirectional=True)
    state = module.state_dict()
    gc.collect()
    module.load_state_dict(state)
    assert gc.collect() == 0
