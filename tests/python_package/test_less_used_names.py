"""Names that few programs use, and what common ones are besides: classes, hooks, tables, draws. Beside PyTorch."""

import oneflow
import pytest
import torch


def test_lazy_layers_draw_what_they_keep_and_nothing_else():
    for make in (
        lambda fw: fw.nn.LazyLinear(5)(fw.zeros(1, 7)),
        lambda fw: fw.nn.LazyConv2d(4, 3)(fw.zeros(1, 3, 5, 5)),
        lambda fw: fw.nn.LazyConvTranspose1d(4, 3)(fw.zeros(1, 2, 5)),
    ):
        oneflow.random.use("mt19937")
        try:
            results = []
            for fw in (oneflow, torch):
                fw.manual_seed(3)
                results.append((make(fw).flatten().tolist(), fw.rand(3).tolist()))
        finally:
            oneflow.random.use("philox")
        torch.testing.assert_close(torch.tensor(results[0][0]), torch.tensor(results[1][0]))
        assert results[0][1] == results[1][1]


def test_constraints_have_the_names_of_their_classes():
    names = oneflow.distributions.constraints.__all__
    for name in names:
        ours = getattr(oneflow.distributions.constraints, name)
        theirs = getattr(torch.distributions.constraints, name, None)
        if isinstance(ours, type) and isinstance(theirs, type):
            assert ours.__name__ == theirs.__name__


def test_backends_of_attention_are_no_integers():
    for fw in (oneflow, torch):
        backend = fw.nn.attention.SDPBackend.FLASH_ATTENTION
        assert not isinstance(backend, int)
        assert int(backend) == 1
        assert backend.name == "FLASH_ATTENTION"


def running(fw):
    """Modules that run when values and gradients are seen inside of nested ones."""
    from importlib import import_module

    tracker = import_module(f"{fw.__name__}.utils.module_tracker").ModuleTracker()
    seen = []

    class Inner(fw.nn.Module):
        def forward(self, x):
            y = x["a"].relu()
            seen.append((sorted(tracker.parents), tracker.is_bw))
            y.register_hook(lambda grad: seen.append((sorted(tracker.parents), tracker.is_bw)))
            return {"a": y @ y}

    class Outer(fw.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.rest = Inner(), fw.nn.ModuleDict({"nest": Inner()})

        def forward(self, x):
            return self.rest["nest"](self.first(x))

    model = Outer()
    with tracker:
        for _ in range(2):
            x = fw.ones(3, 3, requires_grad=True) * 1.0
            model({"a": x})["a"].sum().backward()
    seen.append((sorted(tracker.parents), tracker.is_bw))
    return seen


def test_module_tracker():
    assert running(oneflow) == running(torch)


def test_every_overridable_function_has_a_test_double():
    doubles = oneflow.overrides.get_testing_overrides()
    for place, functions in oneflow.overrides.get_overridable_functions().items():
        for function in functions:
            assert doubles[function] is not None, (place, function)
    assert doubles[oneflow.add](1, 2) == -1
    assert not set(doubles) & oneflow.overrides.get_ignored_functions()


def test_a_disabled_block_asks_neither_classes_nor_modes():
    from oneflow.overrides import DisableTorchFunction, TorchFunctionMode, _get_current_function_mode_stack

    seen = []

    class Names(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Names() as mode:
        with DisableTorchFunction():
            oneflow.ones(2) + 1
        assert seen == []
        oneflow.ones(2)
        assert _get_current_function_mode_stack() == [mode]
    assert seen == ["ones"]


RANGES = [(None, None), (0, 1), (1, 0), (2, 2), (-1e40, 1e40), (float("nan"), 1), (None, float("nan")), (-300, 300)]
RANGES += [(300, 400), (0.5, 3.2), (-1, 1), (5, None), (0, float("inf"))]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize(("low", "high"), RANGES)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_ranges_of_made_tensors(dtype, low, high):
    found = []
    for fw in (oneflow, torch):
        try:
            made = fw.testing.make_tensor((500,), dtype=getattr(fw, dtype), device="cpu", low=low, high=high)
        except ValueError:
            found.append("ValueError")
            continue
        numbers = (fw.view_as_real(made) if made.is_complex() else made).double()
        # Of integers all values of these ranges come.
        whole = sorted(set(numbers.tolist())) if dtype in ("bool", "uint8") and numbers.max() < 12 else None
        found.append((made.dtype.is_complex, bool(numbers.isfinite().all()), whole))
    assert found[0] == found[1]


def test_hooks_may_say_that_they_are_not_written_to_files():
    def hook(grad):
        return grad

    assert oneflow.utils.hooks.unserializable_hook(hook) is hook
    assert hook.__torch_unserializable__


def test_a_differentiable_step_keeps_the_rate_that_it_used():
    slopes = []
    for fw in (oneflow, torch):
        start = fw.tensor([1.0, 2.0], dtype=fw.float64, requires_grad=True)
        slope = fw.tensor([0.5, -1.0], dtype=fw.float64, requires_grad=True)
        param = start.clone()
        optimizer = fw.optim.ASGD([param], lr=0.9, differentiable=True)
        ones = {name: fw.ones((), dtype=fw.float64) for name in ("step", "eta", "mu")}
        optimizer.state[param].update(**ones, ax=fw.zeros(2, dtype=fw.float64))
        param.grad = slope * slope
        optimizer.step()
        (param * fw.tensor([1.0, 3.0], dtype=fw.float64)).sum().backward()
        slopes.append((start.grad.tolist(), slope.grad.tolist()))
    torch.testing.assert_close(torch.tensor(slopes[0]), torch.tensor(slopes[1]))
