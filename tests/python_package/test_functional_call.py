"""``functional_call``: which names it takes, what the module holds during the call and after it, beside PyTorch."""

import oneflow
import pytest
import torch


def make(fw, kind):
    class Module(fw.nn.Module):
        def __init__(self):
            super().__init__()
            self.l1 = fw.nn.Linear(1, 1)
            self.register_buffer("count", fw.tensor([4.0]))
            self.plain = fw.tensor([0.5])
            self.number = 3
            if kind == "tied":
                self.l2 = fw.nn.Linear(1, 1)
                self.l2.weight = self.l1.weight
            if kind == "circular":
                self.l1._modules["m"] = self

        def forward(self, x, scale=1.0):
            if kind == "assigns":
                self.count = self.count + 1
                self.plain = self.plain * 2
            y = self.l1(x) * scale + self.count + self.plain
            if hasattr(self, "extra"):
                y = y + self.extra
            if kind == "tied":
                y = self.l2(y)
            names = [name for name, _ in self.named_parameters()] if kind != "circular" else []
            return y, names

    module = Module()
    with fw.no_grad():
        for i, parameter in enumerate(
            [module.l1.weight, module.l1.bias, *([module.l2.bias] if kind == "tied" else [])]
        ):
            parameter.fill_(i + 2.0)
    return module


def t(fw, value):
    return fw.tensor(value)


CALLS = {
    "nothing": ("", lambda fw: {}, {}),
    "all": ("", lambda fw: {"l1.weight": t(fw, [[7.0]]), "l1.bias": t(fw, [8.0]), "count": t(fw, [9.0])}, {}),
    "a part": ("", lambda fw: {"l1.weight": t(fw, [[7.0]])}, {}),
    "a plain attribute": ("", lambda fw: {"plain": t(fw, [6.0])}, {}),
    "one that is not there": ("", lambda fw: {"extra": t(fw, [6.0])}, {}),
    "a parameter that is not there": ("", lambda fw: {"l1.extra": fw.nn.Parameter(t(fw, [6.0]))}, {}),
    "a number": ("", lambda fw: {"number": t(fw, [6.0])}, {}),
    "no tensor": ("", lambda fw: {"l1.weight": "words"}, {}),
    "a module that is not there": ("", lambda fw: {"l3.weight": t(fw, [6.0])}, {}),
    "strict and all": (
        "",
        lambda fw: {"l1.weight": t(fw, [[7.0]]), "l1.bias": t(fw, [8.0]), "count": t(fw, [9.0])},
        {"strict": True},
    ),
    "strict and a part": ("", lambda fw: {"l1.weight": t(fw, [[7.0]])}, {"strict": True}),
    "strict and too many": ("", lambda fw: {"extra": t(fw, [[7.0]])}, {"strict": True}),
    "what is assigned": ("assigns", lambda fw: {"count": t(fw, [9.0]), "plain": t(fw, [1.0])}, {}),
    "what is assigned elsewhere": ("assigns", lambda fw: {"plain": t(fw, [1.0])}, {}),
    "two dictionaries": ("assigns", lambda fw: ({"count": t(fw, [9.0])}, {"plain": t(fw, [1.0])}), {}),
    "a name twice": ("", lambda fw: ({"count": t(fw, [9.0])}, {"count": t(fw, [1.0])}), {}),
    "one of two names": ("tied", lambda fw: {"l1.weight": t(fw, [[7.0]])}, {}),
    "one of two names alone": ("tied", lambda fw: {"l2.weight": t(fw, [[7.0]])}, {"tie_weights": False}),
    "two tensors for two names": ("tied", lambda fw: {"l1.weight": t(fw, [[7.0]]), "l2.weight": t(fw, [[8.0]])}, {}),
    "two names untied": (
        "tied",
        lambda fw: {"l1.weight": t(fw, [[7.0]]), "l2.weight": t(fw, [[8.0]])},
        {"tie_weights": False},
    ),
    "around a circle": (
        "circular",
        lambda fw: {"l1.m.l1.weight": t(fw, [[7.0]]), "l1.m.count": t(fw, [1.0]), "l1.bias": t(fw, [0.0])},
        {"tie_weights": False},
    ),
    "by two paths": (
        "circular",
        lambda fw: {"l1.m.l1.weight": t(fw, [[7.0]]), "l1.weight": t(fw, [[5.0]])},
        {"tie_weights": False},
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_and_what_is_left(name):
    kind, tensors_of, options = CALLS[name]

    def run(fw):
        module, tensors = make(fw, kind), tensors_of(fw)
        try:
            y, names = fw.func.functional_call(module, tensors, (t(fw, [[2.0]]),), {"scale": 0.5}, **options)
            found = y.tolist(), sorted(names)
        except Exception as error:
            found = type(error).__name__
        dictionaries = tensors if isinstance(tensors, tuple) else (tensors,)
        given = [{k: v if isinstance(v, str) else v.tolist() for k, v in part.items()} for part in dictionaries]
        left = [module.l1.weight.tolist(), module.l1.bias.tolist(), module.count.tolist(), module.plain.tolist()]
        return found, given, left, module.number, hasattr(module, "extra"), hasattr(module.l1, "extra")

    ours, theirs = run(oneflow), run(torch)
    if name == "by two paths":
        # PyTorch takes these back in the order in which it put them in, and leaves one behind.
        assert ours[2] == run(oneflow)[2] == [[[2.0]], [3.0], [4.0], [0.5]]
        ours, theirs = ours[0], theirs[0]
    assert ours == theirs


def test_a_failing_call_gives_back():
    module = make(oneflow, "")
    with pytest.raises(RuntimeError):
        oneflow.func.functional_call(
            module, {"l1.weight": oneflow.ones(3, 5), "extra": oneflow.ones(1)}, (oneflow.ones(1, 1),)
        )
    assert module.l1.weight.tolist() == [[2.0]] and not hasattr(module, "extra")
