"""Python's decisions by sizes: programs for many sizes are right at sizes that were not traced, or not used there."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import random
import warnings

import numpy as np
import oneflow as torch
import pytest
from oneflow import export, nn
from oneflow._trace import size_guards
from oneflow._trace.size_guards import TracedSize

SIZES = [8, 9, 7, 10, 3, 5, 4, 12, 2, 1, 21, 14, 6, 33, 64, 8, 7, 9]


def equals(x):
    n = x.shape[0]
    return x * 2 if n == 7 else x * 3


def either(x):
    return x + 1 if x.size(0) in (3, 12) else x - 1


def parity(x):
    return x * x.shape[0] if x.shape[0] % 2 else x + 1


def thirds(x):
    y = x
    for _ in range(x.shape[0] // 3):
        y = y + 1
    return y


def at_most(x):
    return x[: min(x.shape[0], 5)] * 2


def large(x):
    return x * 2 if x.shape[0] > 10 else x + 1


def between(x):
    return x.exp() if 4 <= x.shape[0] < 11 else x.neg()


def product(x):
    return x * 2 if x.numel() >= 30 else x * 5


def hidden(x):
    """The size of a later value."""
    y = torch.cat([x, x[1:]], 0)
    return y.sum(0) if y.shape[0] > 15 else y.sum(0) * 2


def halves(x):
    n = x.shape[0]
    q, r = divmod(n, 4)
    return x[: q * 4] * (r + 1)


def padded(x):
    lack = -x.shape[0] % 8
    return torch.nn.functional.pad(x, (0, 0, 0, lack)).reshape(-1, 8, 3).sum(0)


def bits(x):
    return x * 2 if x.shape[0] & 3 == 1 else x + 2


def truth(x):
    return x * 2 if x.shape[0] - 9 else x


def as_float(x):
    return x * 2 if x.shape[0] > 8.5 else x + 1


def as_numpy(x):
    return x * 2 if x.shape[0] >= np.int64(9) else x + 1


def length(x):
    return x * 2 if len(x) == 9 else x + 1


def plain(x):
    return x * 2 if int(x.shape[0]) == 14 else x + 1


def quotient(x):
    return x * 2 if x.shape[0] / 7 == 2 else x + 1


def rounded_up(x):
    return x[: math.ceil(x.shape[0] / 2)]


def keyed(x):
    return x * {7: 2, 9: 3}.get(x.shape[0], 4)


def written(x):
    return x * 2 if f"{x.shape[0]}" == "21" else x + 1


def root(x):
    return x * 2 if math.sqrt(x.shape[0]) == 3 else x + 1


def looped(x):
    for i in range(x.shape[0]):
        if i == 5:
            x = x * 2
    return x


def shifted(x):
    return x[: x.shape[0] >> 1] + 1


def several(x):
    n = x.shape[0]
    if n > 6 and n % 2 == 0:
        return x * 2
    return x.sin() if n < 4 or n == 9 else x.cos()


def strided(x):
    return x * 2 if x.t().stride(1) * x.shape[0] > 24 else x + 1


FUNCTIONS = [
    equals, either, parity, thirds, at_most, large, between, product, hidden, halves, padded, bits, truth, as_float,
    as_numpy, length, plain, quotient, rounded_up, keyed, written, root, looped, shifted, several, strided,
]  # fmt: skip


def rows(n):
    return torch.arange(n * 3, dtype=torch.float32).reshape(n, 3) / 7


def same(one, other):
    assert one.shape == other.shape
    np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-6)


class Run(nn.Graph):
    def __init__(self, function, shapes=({0: "n"},)):
        super().__init__()
        self.function = function
        self.config.set_dynamic_shapes(list(shapes))

    def build(self, x):
        return self.function(x)


class Module(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_compiled_functions_do_what_eager_execution_does(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(function, dynamic=True)
        for n in SIZES:
            same(compiled(rows(n)), function(rows(n)))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_compiled_gradients_do_too(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(function, dynamic=True)
        for n in SIZES[:8]:
            found = []
            for f in (compiled, function):
                x = rows(n).requires_grad_()
                (f(x) ** 2).sum().backward()
                found.append(x.grad)
            same(*found)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_graphs_do_what_eager_execution_does_or_refuse_the_function(function):
    graph = Run(function)
    try:
        graph(rows(8))
    except ValueError as error:
        # Loops over a size that Python cannot be seen to decide by.
        assert function in (thirds, looped), error
        return
    for n in SIZES:
        same(graph(rows(n)), function(rows(n)))


# What leaves Python's sight is checked by a trace in this process; files have no guard for it, and a warning says so.
UNSEEN = (length, plain, quotient, rounded_up, keyed, written, root)


def exported(function, args, shapes):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = export.export(Module(function), args, dynamic_shapes=shapes)
    return program, [str(w.message) for w in caught]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_exported_programs_are_right_or_refuse_by_the_line(function, tmp_path):
    try:
        program, told = exported(function, (rows(8),), ({0: "n"},))
    except ValueError as error:
        assert function in (thirds, looped), error
        assert "test_size_guards.py" in str(error)
        return
    assert bool(told) == (function in UNSEEN), told
    if told:
        assert "test_size_guards.py" in told[0]
        return
    export.save(program, tmp_path / "program.pt2")
    export.save_program(program, tmp_path / "program")
    forms = [program.module(), export.load(tmp_path / "program.pt2").module(), torch.load(tmp_path / "program")]
    served = [0] * len(forms)
    for n, (k, form) in itertools.product(SIZES, enumerate(forms)):
        try:
            y = form(rows(n))
        except (AssertionError, ValueError) as error:
            assert "test_size_guards.py" in str(error) or n < 3, error
            continue
        same(y, function(rows(n)))
        served[k] += 1
    # The example's own size is there twice.
    assert min(served) >= 2 and len(set(served)) == 1, served


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_onnx_models_are_right_or_refused_by_the_line(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            program = torch.onnx.export(Module(function), (rows(8),), dynamic_shapes=({0: "n"},))
        except ValueError as error:
            assert "test_size_guards.py" in str(error), error
            return
    if caught:
        assert function in UNSEEN, [str(w.message) for w in caught]
        return
    for n in SIZES:
        if n > 1:
            same(program(rows(n))[0], function(rows(n)))


def test_a_range_settles_what_python_asks():
    batch = export.Dim("n", min=11)
    model = Module(large)
    program = torch.onnx.export(model, (rows(12),), dynamic_shapes=({0: batch},))
    for n in (11, 12, 40):
        same(program(rows(n))[0], large(rows(n)))
    assert export.export(model, (rows(12),), dynamic_shapes=({0: batch},)).guards == []
    with pytest.raises(ValueError, match=r"only where n > 10 \(.*test_size_guards.py:\d+"):
        torch.onnx.export(model, (rows(12),), dynamic_shapes=({0: "n"},))


def test_a_refusal_names_question_line_and_size(tmp_path):
    program = export.export(Module(equals), (rows(4),), dynamic_shapes=({0: "n"},))
    line = equals.__code__.co_firstlineno + 2
    assert [str(g) for g in program.guards] == [f"n != 7 ({__file__}:{line}, module Module)"]
    with pytest.raises(AssertionError, match=rf"n != 7 .*test_size_guards.py:{line}.*n is 7"):
        program.module()(rows(7))
    export.save_program(program, tmp_path)
    with pytest.raises(ValueError, match=rf"n=7: it was traced where n != 7, .*test_size_guards.py:{line}"):
        torch.load(tmp_path)(rows(7))


def test_an_example_that_python_decides_by_alone_is_refused():
    for make in (
        lambda: export.export(Module(equals), (rows(7),), dynamic_shapes=({0: "n"},)),
        lambda: torch.onnx.export(Module(equals), (rows(7),), dynamic_shapes=({0: "n"},)),
        lambda: Run(equals)(rows(7)),
    ):
        with pytest.raises(ValueError, match=r"Python decides by a size at .*test_size_guards.py:\d+"):
            make()


def n_programs(compiled):
    return (
        len(compiled.__wrapped__._programs) if hasattr(compiled, "_programs") else len(_function_of(compiled)._programs)
    )


def _function_of(compiled):
    cells = [cell.cell_contents for cell in compiled.__closure__]
    return next(c for c in cells if hasattr(c, "_programs"))


def test_sizes_that_are_decided_alike_share_a_program():
    compiled = torch.compile(parity, dynamic=True)
    for n in (8, 10, 4, 64, 22, 9, 11, 5, 101):
        same(compiled(rows(n)), parity(rows(n)))
    assert len(_function_of(compiled)._programs) == 2
    compiled = torch.compile(equals, dynamic=True)
    for n in (8, 10, 4, 7, 22, 9, 7, 5, 101):
        same(compiled(rows(n)), equals(rows(n)))
    assert len(_function_of(compiled)._programs) == 2
    graph = Run(large)
    for n in (8, 5, 12, 7, 50, 11, 10):
        same(graph(rows(n)), large(rows(n)))
    assert len(graph._compiled) == 2


def test_a_function_that_asks_nothing_has_one_program_without_guards():
    def plainly(x):
        n = x.shape[0]
        return x.reshape(n * 3)[: n * 2].sum() / n

    compiled = torch.compile(plainly, dynamic=True)
    for n in (8, 5, 12, 7):
        same(compiled(rows(n)), plainly(rows(n)))
    (programs,) = _function_of(compiled)._programs.values()
    assert not programs.fitting.is_restricted


def test_decisions_about_several_dimensions():
    def f(x, y):
        if x.shape[0] == y.shape[0]:
            return (x + y).sum(0)
        if x.shape[0] > y.shape[0] + 3:
            return x.sum(0) * 2
        return y.sum(0) - x.shape[0]

    pairs = [(8, 5), (5, 8), (6, 6), (9, 5), (20, 3), (3, 20), (7, 7), (12, 12), (4, 5), (8, 4)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The first call with equal sizes takes them for one dimension.
        for k in (0, 2):
            compiled = torch.compile(f, dynamic=True)
            for a, b in pairs[k:] + pairs[:k]:
                same(compiled(rows(a), rows(b)), f(rows(a), rows(b)))
    program = export.export(Module(f), (rows(5), rows(8)), dynamic_shapes=({0: "a"}, {0: "b"}))
    for a, b in pairs:
        try:
            y = program.module()(rows(a), rows(b))
        except AssertionError as error:
            assert "test_size_guards.py" in str(error)
            assert a == b or a > b + 3
        else:
            same(y, f(rows(a), rows(b)))


def test_attributes_and_training_steps_follow_the_sizes():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x) if x.shape[0] < 6 else self.linear(x).relu()

    class Train(nn.Graph):
        def __init__(self, model):
            super().__init__()
            self.model = model
            self.add_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
            self.config.set_dynamic_shapes({"x": {0: "n"}})

        def build(self, x):
            loss = self.model(x).square().mean()
            loss.backward()
            return loss

    torch.manual_seed(0)
    model = Model()
    other = copy.deepcopy(model)
    graph, optimizer = Train(model), torch.optim.SGD(other.parameters(), lr=0.1)
    for n in (4, 8, 3, 5, 6, 9, 2, 33):
        optimizer.zero_grad()
        loss = other(rows(n)).square().mean()
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(graph(rows(n)).item(), loss.item(), rtol=1e-5)


# ---- generated functions


class Written:
    """A function of two tensors that decides by their sizes in ways drawn at random, as text."""

    def __init__(self, seed):
        self.draw = random.Random(seed)

    def number(self, depth=2):
        d = self.draw
        if depth == 0 or d.random() < 0.3:
            return d.choice(["a", "b", "a", "b", str(d.randint(1, 12))])
        x, k = self.number(depth - 1), d.randint(2, 5)
        return d.choice(
            [
                f"({x} + {self.number(depth - 1)})",
                f"({x} - {self.number(depth - 1)})",
                f"({x} * {k})",
                f"({x} // {k})",
                f"({x} % {k})",
                f"min({x}, {self.number(depth - 1)})",
                f"max({x}, {k})",
                f"abs({x} - {d.randint(1, 9)})",
                f"-(-{x} // {k})",
            ]
        )

    def question(self, depth=2):
        d = self.draw
        kind = d.randrange(7)
        if depth and kind == 0:
            return f"({self.question(depth - 1)} and {self.question(depth - 1)})"
        if depth and kind == 1:
            return f"({self.question(depth - 1)} or not {self.question(depth - 1)})"
        if kind == 2:
            return f"{self.number()} in ({d.randint(1, 9)}, {d.randint(1, 20)})"
        if kind == 3:
            return f"bool({self.number()})"
        return f"{self.number()} {d.choice(['==', '!=', '<', '<=', '>', '>='])} {self.number()}"

    def text(self):
        lines = ["def f(x, y):", "    a, b = x.shape[0], y.size(0)", "    z = x.sum(0) + y.sum(0)"]
        for k in range(self.draw.randint(1, 3)):
            lines += [f"    if {self.question()}:", f"        z = z * {k + 2}"]
            lines += ["    else:", f"        z = z + {self.draw.choice(['a', 'b', '1', 'y.shape[0] - a'])}"]
        return "\n".join([*lines, "    return z"])


def function_of(text):
    made = {}
    exec(text, made)
    return made["f"]


@pytest.mark.parametrize("seed", range(24))
def test_generated_decisions(seed):
    text = Written(seed).text()
    f = function_of(text)
    d = random.Random(seed)
    pairs = [(d.randint(2, 24), d.randint(2, 24)) for _ in range(14)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(f, dynamic=True)
        for a, b in pairs:
            np.testing.assert_allclose(compiled(rows(a), rows(b)), f(rows(a), rows(b)), rtol=1e-5, err_msg=text)
    try:
        program = export.export(Module(f), (rows(pairs[0][0]), rows(pairs[0][1])), dynamic_shapes=({0: "a"}, {0: "b"}))
    except ValueError as error:
        assert "decide" in str(error), (text, error)
        return
    run = program.module()
    for a, b in pairs:
        try:
            z = run(rows(a), rows(b))
        except AssertionError:
            assert (a, b) != pairs[0]
            continue
        np.testing.assert_allclose(z, f(rows(a), rows(b)), rtol=1e-5, err_msg=text)


# ---- the ints themselves


def test_sizes_of_a_trace_are_ints_in_all_they_say():
    operators = "add sub mul floordiv mod divmod truediv pow and_ or_ xor lshift rshift eq ne lt le gt ge".split()
    import operator

    values = [1, 2, 3, 7, 12, 0, -5]
    with size_guards.recorded(lambda: "here") as found:
        for a, b in itertools.product(values, [1, 2, 3, 5, -4, 2.0, 2.5, np.int64(3), True]):
            for name in operators:
                f = divmod if name == "divmod" else getattr(operator, name)
                for x, y in ((TracedSize(a), b), (b, TracedSize(a))):
                    plain = (a, b) if isinstance(x, TracedSize) else (b, a)
                    if isinstance(b, np.generic) and plain[1] == 0:
                        continue
                    try:
                        want = f(*plain)
                    except (ZeroDivisionError, TypeError, ValueError) as error:
                        with pytest.raises(type(error)):
                            f(x, y)
                        continue
                    have = f(x, y)
                    assert have == want and isinstance(have, type(want) if not isinstance(want, np.generic) else object)
        for a in values:
            n = TracedSize(a)
            for f in (abs, int, float, bool, str, repr, hash, round, math.floor, math.ceil, math.trunc, range, complex):
                assert f(n) == f(a), f
            assert (-n, +n, ~n, n.bit_length(), f"{n:>4}") == (-a, a, ~a, a.bit_length(), f"{a:>4}")
            assert [1, 2, 3][: max(a, 0)] == [1, 2, 3][: max(n, 0)]
            assert np.zeros(abs(n)).shape == (abs(a),)
    assert found
    for made in (
        pickle.loads(pickle.dumps(TracedSize(5))),
        copy.copy(TracedSize(5)) + 0,
        copy.deepcopy({1: TracedSize(5)})[1],
    ):
        assert made == 5
    assert type(pickle.loads(pickle.dumps(TracedSize(5)))) is int
    assert type(TracedSize(5) + 1) is int


def test_answers_are_noted_only_while_a_trace_asks():
    n = TracedSize(5)
    with size_guards.recorded(lambda: "here") as found:
        assert n > 3 and 3 < n and n % 2 == 1
    assert [d[:5] for d in found] == [("gt", 5, 3, 1, "here"), ("gt", 5, 3, 1, "here"), ("mod", 5, 2, 1, "here")]
    assert {d[5].rpartition(":")[0] for d in found} == {__file__}
    assert n > 3
    assert len(found) == 3
