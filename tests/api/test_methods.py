"""Public classes have the public methods and operators of PyTorch's classes of that name."""

import importlib
import inspect

import oneflow
import pytest
import torch

PLACES = ["nn", "optim", "optim.lr_scheduler", "utils.data", "distributions", "nn.utils.rnn", "nn.utils.parametrize"]
# What classes lack and why.
LEFT_OUT = {
    "ipu": "moves a module to a device that PyTorch itself has given up",
    "mtia": "moves a module to a device that this package does not have",
    "xpu": "moves a module to a device that this package does not have",
    "profile_hook_step": "the decorator by which PyTorch's optimizers are profiled",
    "OptimizerPreHook": "the annotation of a hook",
    "OptimizerPostHook": "the annotation of a hook",
    "cummulative_sizes": "a misspelt name that PyTorch warns of",
    "check_worker_number_rationality": "a helper of the constructor",
    "cumsum": "a helper of the constructor",
    "recursive_undo": "a helper of the constructor",
    "gather": "a step of forward on several GPUs",
    "parallel_apply": "a step of forward on several GPUs",
    "replicate": "a step of forward on several GPUs",
    "scatter": "a step of forward on several GPUs",
    "multiprocessing_context": "an attribute of each object here",
    "scale": "an attribute of each object here",
}
OPERATORS = [
    f"__{name}__"
    for name in (
        "add radd iadd mul rmul imul or ror ior and getitem setitem delitem contains iter reversed len call eq ne "
        "lt le enter exit bool int float index"
    ).split()
]


def classes():
    for place in PLACES:
        theirs, ours = (importlib.import_module(f"{package.__name__}.{place}") for package in (torch, oneflow))
        for name, found in vars(theirs).items():
            is_public = not name.startswith("_") and inspect.isclass(found) and hasattr(ours, name)
            # Tensors are held by tests/api/test_names.py.
            if is_public and found.__module__.startswith("torch.") and not issubclass(found, torch.Tensor):
                yield pytest.param(found, getattr(ours, name), id=f"{place}.{name}")


@pytest.mark.parametrize("theirs, ours", classes())
def test_a_class_has_the_methods(theirs, ours):
    methods = {
        name
        for name, value in inspect.getmembers(theirs)
        if (callable(value) and not inspect.isclass(value)) or isinstance(value, property)
        if name in OPERATORS or not name.startswith("_")
    }
    assert sorted(name for name in methods - set(LEFT_OUT) if not hasattr(ours, name)) == []
    # What is read without a call there is read without one here.
    read = {name for name in methods if isinstance(getattr(theirs, name), property)} & set(dir(ours))
    assert sorted(name for name in read if inspect.isfunction(getattr(ours, name))) == []
