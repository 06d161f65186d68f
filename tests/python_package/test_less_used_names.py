"""Names that few programs use, and what common ones are besides: classes, hooks, tables, draws. Beside PyTorch."""

import oneflow
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
