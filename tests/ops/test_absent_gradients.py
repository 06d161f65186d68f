"""Gradients that are zeros, not None: of values that a write overwrites, and of ops with many inputs."""

import oneflow
import pytest
import torch

# Names of in-place methods of which the result does not depend on what was there, and their arguments.
WRITES = {
    "bernoulli_": (0.5,),
    "cauchy_": (),
    "copy_": ("other",),
    "exponential_": (),
    "fill_": (2.0,),
    "geometric_": (0.5,),
    "log_normal_": (),
    "normal_": (),
    "random_": (),
    "uniform_": (),
    "zero_": (),
}


@pytest.mark.parametrize("part", ["all", "row", "column", "transposed"])
@pytest.mark.parametrize("name", WRITES)
def test_a_forgotten_value_has_a_gradient_of_zeros(name, part):
    def program(torch):
        x = torch.ones(3, 4, requires_grad=True)
        other = torch.full((4,), 2.0, requires_grad=True)
        y = x * 3
        target = {"all": y, "row": y[1], "column": y[:, 1:2], "transposed": y.t()}[part]
        args = [other[: target.shape[-1]] if a == "other" else a for a in WRITES[name]]
        getattr(target, name)(*args)
        (y * torch.arange(12.0).reshape(3, 4)).sum().backward()
        return [None if t.grad is None else t.grad.tolist() for t in (x, other)]

    assert program(oneflow) == program(torch)

    class Graph(oneflow.nn.Graph):
        def build(self):
            x = oneflow.ones(3, 4, requires_grad=True)
            y = x * 3
            getattr(y, name)(*[oneflow.ones(4) if a == "other" else a for a in WRITES[name]])
            y.sum().backward()
            return x.grad

    assert Graph()().tolist() == [[0.0] * 4] * 3


@pytest.mark.parametrize("name", ["stack", "cat"])
@pytest.mark.parametrize("n", [64, 65, 130])
def test_every_one_of_many_inputs_gets_its_gradient(name, n):
    """Which inputs want a gradient is kept in the bits of a word."""

    def program(torch, wanted):
        inputs = [torch.full((2,), float(i), requires_grad=i in wanted) for i in range(n)]
        (getattr(torch, name)(inputs) ** 2).sum().backward()
        return [None if x.grad is None else x.grad.tolist() for x in inputs]

    for wanted in (range(n), [n - 1], [0], [62, n - 2]):
        assert program(oneflow, wanted) == program(torch, wanted)
