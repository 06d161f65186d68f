"""Parameters and buffers without a shape: what they answer, what refuses them, and how a module gets real ones."""

import copy
import io

import oneflow
import pytest
import torch
from torch_oracle import both


class Lazy:
    """A lazy module with a placeholder of each kind, in either package."""

    @staticmethod
    def of(fw):
        lazy = fw.nn.modules.lazy

        class Module(lazy.LazyModuleMixin, fw.nn.Module):
            def initialize_parameters(self, x):
                with fw.no_grad():
                    self.weight.materialize((x.shape[-1],))
                    self.weight.fill_(2)
                    self.mean.materialize((2,))
                    self.mean.zero_()
                    self.hidden.materialize((1,))

            def forward(self, x):
                return x * self.weight + self.mean.sum()

        module = Module()
        module.weight = fw.nn.UninitializedParameter()
        module.mean = fw.nn.parameter.UninitializedBuffer()
        module.hidden = fw.nn.parameter.UninitializedBuffer(persistent=False)
        return module


def test_assignment_registers_them():
    def run(fw):
        module = Lazy.of(fw)
        names = [name for name, _ in module.named_buffers()], [name for name, _ in module.named_parameters()]
        return names, list(module.state_dict()), module.has_uninitialized_params()

    both(run)


REFUSED = {
    "empty_like": lambda fw, p: fw.empty_like(p),
    "add": lambda fw, p: fw.add(p, p),
    "operator": lambda fw, p: p + p,
    "reflected": lambda fw, p: 2 * p,
    "method": lambda fw, p: p.sum(),
    "in place": lambda fw, p: p.zero_(),
    "init": lambda fw, p: fw.nn.init.normal_(p),
    "linear": lambda fw, p: fw.nn.functional.linear(fw.ones(2, 3), p),
    "index": lambda fw, p: p[0],
    "clone": lambda fw, p: p.clone(),
    "shape": lambda fw, p: p.shape,
    "share_memory_": lambda fw, p: p.share_memory_(),
    "adagrad": lambda fw, p: fw.optim.Adagrad([p]),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("kind", ["UninitializedParameter", "UninitializedBuffer"])
def test_what_needs_a_shape_is_refused(name, kind):
    classes = []
    for fw in (oneflow, torch):
        with pytest.raises(Exception) as raised:
            REFUSED[name](fw, getattr(fw.nn.parameter, kind)())
        classes.append(raised.type)
    assert classes[0] is classes[1]
    if classes[0] is ValueError:
        with pytest.raises(ValueError, match="uninitialized parameter"):
            REFUSED[name](oneflow, getattr(oneflow.nn.parameter, kind)())


def test_what_needs_none_works():
    p = oneflow.nn.UninitializedParameter()
    assert p.requires_grad and p.grad is None and p.dtype is oneflow.float32 and p.device.type == "cpu"
    assert p.is_floating_point() and not p.is_complex() and {p: 1}[p] == 1
    assert isinstance(copy.deepcopy(p), oneflow.nn.UninitializedParameter)
    assert isinstance(repr(p), str)
    module = Lazy.of(oneflow).double().to("cpu")
    assert module.weight.dtype is oneflow.float64
    optimizer = oneflow.optim.SGD(module.parameters(), lr=0.1)
    optimizer.step()
    module(oneflow.ones(3, dtype=oneflow.float64)).sum().backward()
    optimizer.step()
    assert module.weight.shape == (3,) and module.weight.tolist() == [1.9] * 3
    assert not module.has_uninitialized_params() and type(module.mean) is oneflow.Tensor


def test_checkpoints_of_placeholders():
    def run(fw):
        buffer = io.BytesIO()
        fw.save(Lazy.of(fw).state_dict(), buffer)
        buffer.seek(0)
        loaded = fw.load(buffer, weights_only=False)
        return {name: type(value).__name__ for name, value in loaded.items()}

    both(run)
