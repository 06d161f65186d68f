"""``oneflow.foreach``: PyTorch's names, signatures and results."""

import inspect

import oneflow
import pytest
import torch

EXTRA = {
    "add": [(2.5,), ([1.0, 2.0],), ("lists",), ("lists", {"alpha": 3}), ("shared", {"alpha": 3})],
    "sub": [(2.5,), ([1.0, 2.0],), ("lists",), ("lists", {"alpha": 3})],
    "mul": [(2.5,), ([1.0, 2.0],), ("lists",), ("shared",)],
    "addcdiv": [("lists", "lists"), ("lists", "lists", {"value": 2.0}), ("lists", "lists", {"value": [2.0, 3.0]})],
    "clamp_max": [(0.5,), ([0.4, 0.5],), ("lists",)],
    "maximum": [(0.5,), ([0.4, 0.5],), ("lists",)],
    "lerp": [("lists", 0.25), ("lists", [0.25, 0.5]), ("lists", "lists")],
    "norm": [(), ({"ord": 1},), ({"dtype": "float64"},)],
    "clone": [(), ({"memory_format": "contiguous_format"},)],
    "copy_": [("lists",), ("lists", {"non_blocking": True})],
    "pow": [(2,), ([2, 3],), ("lists",)],
    "mm": [("lists",)],
}
ALIKE = {"div": "mul", "addcmul": "addcdiv", "clamp_min": "clamp_max", "minimum": "maximum"}


def calls(name):
    base = name.removesuffix("_")
    return EXTRA.get(name) or EXTRA.get(ALIKE.get(base, base), [()])


def test_names():
    assert sorted(oneflow.foreach.__all__) == sorted(torch.foreach.__all__)


@pytest.mark.parametrize("name", torch.foreach.__all__)
def test_signatures_and_results_equal_torch(name):
    def run(fw, arguments):
        function = getattr(fw.foreach, name)

        def lists():
            return [fw.full((2, 2), 0.75, dtype=fw.float32), fw.arange(1.0, 10.0).reshape(3, 3) / 10]

        positional, named = [], {}
        for a in arguments:
            if isinstance(a, dict):
                named = {k: getattr(fw, v) if isinstance(v, str) else v for k, v in a.items()}
            else:
                positional.append({"lists": lists, "shared": lambda: fw.tensor(2.0)}[a]() if isinstance(a, str) else a)
        inputs = lists()
        found = function(inputs, *positional, **named)
        assert type(found) is (list if name.endswith("_") else tuple)
        assert not name.endswith("_") or found is inputs
        parameters = [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]
        return [(str(t.dtype).split(".")[-1], t.tolist()) for t in found], parameters

    for arguments in calls(name):
        (ours, parameters), (theirs, expected) = run(oneflow, arguments), run(torch, arguments)
        assert parameters == expected
        for (dtype, mine), (their_dtype, wanted) in zip(ours, theirs, strict=True):
            assert dtype == their_dtype
            torch.testing.assert_close(torch.tensor(mine), torch.tensor(wanted), rtol=1e-5, atol=1e-6)


def test_tensors_in_lists_answer_themselves():
    class Told(oneflow.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return function.__name__

    assert oneflow.foreach.add([oneflow.ones(2), oneflow.ones(2).as_subclass(Told)], 1) == "add"
    with pytest.raises(RuntimeError, match="must have at least one tensor"):
        oneflow.foreach.sin([])
