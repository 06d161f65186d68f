"""nn.Module: registration, hooks, state dictionaries, copies, as PyTorch has them."""

import copy
import io
import pickle
from collections import OrderedDict

import oneflow
import pytest
import torch
from torch_oracle import both


def net(fw):
    class Net(fw.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = fw.nn.Linear(3, 4)
            self.blocks = fw.nn.ModuleList([fw.nn.Sequential(fw.nn.Linear(4, 4), fw.nn.GELU()) for _ in range(2)])
            self.table = fw.nn.ModuleDict({"a": fw.nn.Linear(4, 2), "b": fw.nn.Identity()})
            self.scale = fw.nn.Parameter(fw.ones(()))
            self.shared = self.first
            self.register_buffer("count", fw.zeros(2))
            self.register_buffer("scratch", fw.zeros(3), persistent=False)
            self.register_parameter("nothing", None)

        def forward(self, x):
            x = self.first(x)
            for block in self.blocks:
                x = x + block(x)
            return self.table["a"](x) * self.scale

    return Net()


QUESTIONS = {
    "parameters": lambda m: [n for n, _ in m.named_parameters()],
    "all parameters": lambda m: [n for n, _ in m.named_parameters(remove_duplicate=False)],
    "own parameters": lambda m: [n for n, _ in m.named_parameters(prefix="p", recurse=False)],
    "buffers": lambda m: [n for n, _ in m.named_buffers()],
    "modules": lambda m: [(n, type(x).__name__) for n, x in m.named_modules()],
    "children": lambda m: [n for n, _ in m.named_children()],
    "state": lambda m: list(m.state_dict(prefix="x.")),
    "metadata": lambda m: m.state_dict()._metadata,
    "repr": repr,
    "submodule": lambda m: repr(m.get_submodule("blocks.1.0")),
    "parameter": lambda m: tuple(m.get_parameter("table.a.weight").shape),
    "buffer": lambda m: tuple(m.get_buffer("count").shape),
    "dir": lambda m: [n for n in ("first", "scale", "count", "forward") if n in dir(m)],
    "train": lambda m: [x.training for x in m.eval().modules()],
    "requires_grad": lambda m: [p.requires_grad for p in m.requires_grad_(False).parameters()],
    "double": lambda m: [str(v.dtype).split(".")[1] for v in m.double().state_dict().values()],
    "to": lambda m: [str(v.dtype).split(".")[1] for v in m.to("cpu", next(iter(m.double().buffers())).dtype).buffers()],
    "deepcopy": lambda m: list(copy.deepcopy(m).state_dict()),
    "shared copy": lambda m: (lambda c: c.first is c.shared)(copy.deepcopy(m)),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_structure_equals_torchs(name):
    assert QUESTIONS[name](net(oneflow)) == QUESTIONS[name](net(torch))


def expect(fw, kind, function, match=None):
    with pytest.raises(kind, match=match) as info:
        function(fw)
    return str(info.value).replace("oneflow", "torch")


def before_init(fw):
    class Early(fw.nn.Module):
        def __init__(self):
            self.weight = fw.nn.Parameter(fw.ones(1))

    Early()


def wrong_states(change):
    def load(fw):
        m = fw.nn.Sequential(fw.nn.Linear(2, 3), fw.nn.Linear(3, 1))
        state = m.state_dict()
        change(fw, state)
        m.load_state_dict(state)

    return load


ERRORS = [
    (AttributeError, lambda fw: fw.nn.Linear(1, 1).nothing),
    (AttributeError, before_init),
    (KeyError, lambda fw: fw.nn.Module().register_parameter("a.b", None)),
    (KeyError, lambda fw: fw.nn.Module().register_parameter("", None)),
    (KeyError, lambda fw: fw.nn.Module().register_buffer("training", fw.ones(1))),
    (TypeError, lambda fw: fw.nn.Module().register_parameter("a", fw.ones(1))),
    (TypeError, lambda fw: fw.nn.Module().register_buffer("a", 1)),
    (TypeError, lambda fw: fw.nn.Module().add_module("a", 1)),
    (TypeError, lambda fw: setattr(fw.nn.Linear(1, 1), "weight", fw.ones(1))),
    (TypeError, lambda fw: setattr(fw.nn.Sequential(fw.nn.Linear(1, 1)), "0", 1)),
    (TypeError, lambda fw: fw.nn.Module(1)),
    (ValueError, lambda fw: fw.nn.Module().register_parameter("a", _not_a_leaf(fw))),
    (AttributeError, lambda fw: fw.nn.Linear(1, 1).get_submodule("a.b")),
    (AttributeError, lambda fw: fw.nn.Linear(1, 1).get_parameter("training")),
    (TypeError, lambda fw: fw.nn.Linear(1, 1).to(fw.int64)),
    (ValueError, lambda fw: fw.nn.Linear(1, 1).train(1)),
    (TypeError, lambda fw: fw.nn.Linear(1, 1).load_state_dict([])),
    (IndexError, lambda fw: fw.nn.Sequential(fw.nn.Linear(1, 1))[1]),
    (RuntimeError, wrong_states(lambda fw, s: s.pop("0.weight"))),
    (RuntimeError, wrong_states(lambda fw, s: s.update(extra=fw.ones(1)))),
    (RuntimeError, wrong_states(lambda fw, s: s.update({"1.bias": fw.ones(2), "2.x": fw.ones(1)}))),
    (RuntimeError, wrong_states(lambda fw, s: s.update({"1.bias": 3}))),
]


def _not_a_leaf(fw):
    p = fw.nn.Parameter(fw.ones(1))
    try:
        p.data = (fw.ones(1, requires_grad=True) * 2).detach()
        raise ValueError("no way to make a parameter that is no leaf")
    finally:
        pass


@pytest.mark.parametrize("i", range(len(ERRORS)))
def test_errors_are_torchs(i):
    kind, function = ERRORS[i]
    ours, theirs = expect(oneflow, kind, function), expect(torch, kind, function)
    if "Error(s) in loading" in theirs:
        assert ours == theirs


def test_call_order_of_hooks():
    def run(fw):
        seen = []
        m = fw.nn.Linear(2, 2)
        m.register_forward_pre_hook(lambda mod, args: seen.append("pre"))
        m.register_forward_pre_hook(lambda mod, args: seen.append("first"), prepend=True)
        m.register_forward_pre_hook(lambda mod, args, kwargs: seen.append(sorted(kwargs)), with_kwargs=True)
        handle = m.register_forward_hook(lambda mod, args, out: seen.append("post"))
        m.register_forward_hook(lambda mod, args, kwargs, out: seen.append(len(args)), with_kwargs=True)
        m.register_forward_hook(lambda mod, args, out: out * 0)
        output = m(input=fw.ones(1, 2))
        handle.remove()
        m(fw.ones(1, 2))
        return seen, output.tolist()

    assert run(oneflow) == run(torch)


def test_always_call_runs_after_an_error():
    def run(fw):
        seen = []
        m = fw.nn.Linear(2, 2)
        m.register_forward_hook(lambda mod, args, out: seen.append(out), always_call=True)
        with pytest.raises(RuntimeError):
            m(fw.ones(1, 3))
        return seen

    assert run(oneflow) == run(torch) == [None]


def test_pre_hook_changes_the_input():
    def run(fw):
        m = fw.nn.Identity()
        m.register_forward_pre_hook(lambda mod, args: args[0] + 1)
        return m(fw.ones(2)).tolist()

    assert run(oneflow) == run(torch) == [2, 2]


def backward_hooks(fw, input_grad):
    seen = []

    def text(values):
        return [None if v is None else v.tolist() for v in values]

    m = fw.nn.Linear(2, 1, bias=False)
    with fw.no_grad():
        m.weight.copy_(fw.tensor([[2.0, 3.0]]))
    m.register_full_backward_pre_hook(lambda mod, out: seen.append(("pre", text(out))))
    m.register_full_backward_hook(lambda mod, inp, out: seen.append((text(inp), text(out))))
    if input_grad:
        m.register_full_backward_hook(lambda mod, inp, out: (inp[0] * 10,))
    x = fw.tensor([[1.0, 1.0]], requires_grad=input_grad)
    (m(x) * 5).sum().backward()
    return seen, None if x.grad is None else x.grad.tolist(), m.weight.grad.tolist()


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("input_grad", [True, False])
def test_full_backward_hooks(input_grad):
    assert backward_hooks(oneflow, input_grad) == backward_hooks(torch, input_grad)


def test_state_dict_hooks():
    def run(fw):
        m = fw.nn.Linear(2, 2)
        m.register_state_dict_pre_hook(lambda mod, prefix, keep: mod.weight.data.fill_(7.0))
        m.register_state_dict_post_hook(lambda mod, state, prefix, meta: state.update({prefix + "more": 1}))
        state = m.state_dict()
        m.register_load_state_dict_pre_hook(lambda mod, s, *rest: s.pop("more"))
        seen = []
        m.register_load_state_dict_post_hook(lambda mod, keys: seen.append(tuple(keys)))
        m.load_state_dict(state)
        return list(state), state["weight"].tolist(), seen

    assert run(oneflow) == run(torch)


def test_extra_state():
    def run(fw):
        class Extra(fw.nn.Module):
            value = 1

            def get_extra_state(self):
                return {"value": self.value}

            def set_extra_state(self, state):
                self.value = state["value"]

        a, b = Extra(), Extra()
        a.value = 5
        b.load_state_dict(a.state_dict())
        return list(a.state_dict()), b.value

    assert run(oneflow) == run(torch)


def test_load_not_strict_and_assign():
    m = oneflow.nn.Linear(2, 2)
    result = m.load_state_dict({"weight": oneflow.ones(2, 2), "x": oneflow.ones(1)}, strict=False)
    assert result.missing_keys == ["bias"] and result.unexpected_keys == ["x"]
    given = oneflow.zeros(2)
    m.load_state_dict({"weight": oneflow.ones(2, 2), "bias": given}, assign=True)
    given.fill_(3.0)
    assert m.bias.tolist() == [3, 3] and isinstance(m.bias, oneflow.nn.Parameter)


def test_gradients_zeroing_and_conversion():
    m = oneflow.nn.Linear(2, 1)
    m(oneflow.ones(1, 2)).sum().backward()
    assert m.weight.grad.tolist() == [[1, 1]]
    weight = m.weight
    m.double()
    assert m.weight is weight and m.weight.grad.dtype == oneflow.float64
    m.zero_grad(set_to_none=False)
    assert m.weight.grad.tolist() == [[0, 0]]
    m.zero_grad()
    assert m.weight.grad is None


def test_pickle_and_checkpoint_of_a_module():
    m = oneflow.nn.Sequential(oneflow.nn.Linear(2, 3), oneflow.nn.GELU())
    twin = pickle.loads(pickle.dumps(m))
    x = oneflow.ones(1, 2)
    assert twin(x).tolist() == m(x).tolist()
    buffer = io.BytesIO()
    oneflow.save(m, buffer)
    buffer.seek(0)
    assert oneflow.load(buffer, weights_only=False)(x).tolist() == m(x).tolist()


def test_containers():
    nn = oneflow.nn
    s = nn.Sequential(OrderedDict(a=nn.Linear(1, 2), b=nn.GELU()))
    assert list(dict(s.named_children())) == ["a", "b"] and len(s[:1]) == 1 and s[-1] is s.b
    s.append(nn.Linear(2, 1))
    s.insert(0, nn.Identity())
    assert [type(m).__name__ for m in s] == ["Identity", "Linear", "GELU", "Linear"]
    del s[0]
    assert len(s) == 3
    many = nn.ModuleList([nn.Identity()]) + [nn.GELU()]
    many += [nn.ReLU()]
    assert len(many) == 3 and isinstance(many.pop(0), nn.Identity) and len(many) == 2
    params = nn.ParameterList([oneflow.ones(1), oneflow.ones(2)])
    assert len(list(params.parameters())) == 2 and params[1].shape == (2,)
    named = nn.ParameterDict({"x": oneflow.ones(1)})
    named["y"] = oneflow.ones(3)
    assert list(named.keys()) == ["x", "y"] and "x" in named
    for fw in (oneflow, torch):
        assert "2 x Linear" in repr(fw.nn.ModuleList([fw.nn.Linear(1, 1), fw.nn.Linear(1, 1)]))


DICTIONARIES = {
    "plain, sorted": lambda d, p: list(d({"b": p, "a": p})),
    "ordered": lambda d, p: list(d(OrderedDict(b=p, a=p))),
    "pairs": lambda d, p: list(d([("b", p), ("a", p)])),
    "of its own kind": lambda d, p: list(d(d([("b", p), ("a", p)]))),
    "updated": lambda d, p: [m := d({"c": p}), m.update({"b": p, "a": p}), list(m)][1:],
    "or": lambda d, p: list(d({"c": p}) | {"b": p, "a": p}),
    "or, from a dictionary": lambda d, p: list({"c": 1, "d": 2} | d({"c": p, "a": p})),
    "or, in place": lambda d, p: [m := d({"c": p}), m.__ior__({"b": p}) is m, list(m)][1:],
    "copy": lambda d, p: [m := d({"c": p}), n := m.copy(), n.__setitem__("a", p), list(m), list(n)][3:],
    "shared by the copy": lambda d, p: [m := d({"c": p}), m.copy()["c"] is m["c"]][1:],
    "setdefault": lambda d, p: [m := d({"c": 1}), m.setdefault("c", 2), m.setdefault("d", 3), list(m.items())][1:],
    "popitem": lambda d, p: [m := d([("b", 1), ("a", 2)]), m.popitem(), list(m)][1:],
    "pop": lambda d, p: [m := d({"b": 1, "a": 2}), m.pop("a"), list(m)][1:],
    "clear": lambda d, p: [m := d({"b": p, "a": 2}), m.clear(), len(m), list(m.parameters())][1:],
    "fromkeys": lambda d, p: list(d().fromkeys(["b", "a"], 1).items()),
    "reversed": lambda d, p: list(reversed(d([("b", p), ("a", p)]))),
    "parameters": lambda d, p: [name for name, _ in d({"b": p, "a": p, "c": 1}).named_parameters()],
}


@pytest.mark.parametrize("name", DICTIONARIES)
def test_dictionaries_of_parameters(name):
    ours, theirs = (DICTIONARIES[name](fw.nn.ParameterDict, fw.nn.Parameter(fw.ones(2))) for fw in (oneflow, torch))
    assert ours == theirs
    for fw in (oneflow, torch):
        with pytest.raises(KeyError):
            fw.nn.ParameterDict().popitem()


def test_a_sequence_grows_in_place():
    for fw in (oneflow, torch):
        net = same = fw.nn.Sequential(fw.nn.ReLU())
        net += fw.nn.Sequential(fw.nn.GELU(), fw.nn.Tanh())
        assert net is same and [type(m).__name__ for m in net] == ["ReLU", "GELU", "Tanh"]
        with pytest.raises(ValueError, match="only objects of Sequential class"):
            net += [fw.nn.ReLU()]


def test_parameter_keeps_its_class_and_attributes():
    p = oneflow.nn.Parameter(oneflow.ones(2))
    p.mark = "kept"
    m = oneflow.nn.Module()
    m.p = p
    del p
    assert m.p.mark == "kept" and type(m.p) is oneflow.nn.Parameter
    assert type(m.p * 2) is oneflow.Tensor
    assert copy.deepcopy(m).p.tolist() == [1, 1]


def test_buffer_class():
    m = oneflow.nn.Module()
    m.a = oneflow.nn.Buffer(oneflow.ones(1))
    m.b = oneflow.nn.Buffer(oneflow.ones(1), persistent=False)
    assert list(m.state_dict()) == ["a"] and [n for n, _ in m.named_buffers()] == ["a", "b"]
    # The one that comes in its place says whether it is saved; a tensor leaves that as it is.
    m.a, m.b = oneflow.nn.Buffer(oneflow.ones(1), persistent=False), oneflow.nn.Buffer(oneflow.ones(1))
    assert list(m.state_dict()) == ["b"]
    m.a, m.b = oneflow.zeros(1), oneflow.zeros(1)
    assert list(m.state_dict()) == ["b"]


def test_results_of_modules_with_backward_hooks_are_not_written_in_place():
    """The error names the function that guards them as PyTorch does, but for an ending."""
    said = []
    for fw in (oneflow, torch):
        layer = fw.nn.Linear(2, 2)
        layer.register_full_backward_hook(lambda *_: None)
        y = layer(fw.ones(1, 2))
        assert y.grad_fn.name() == "BackwardHookFunctionBackward"
        with pytest.raises(RuntimeError, match="being modified inplace") as error:
            y.add_(1)
        said.append(str(error.value).replace("FunctionBackward", "Function"))
    assert said[0] == said[1]


def test_older_and_full_backward_hooks_do_not_mix():
    layer = oneflow.nn.Linear(1, 1)
    layer.register_full_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks"):
        layer.register_backward_hook(lambda *_: None)


def test_a_sequence_times_a_number_repeats_its_modules():
    one = oneflow.nn.Sequential(oneflow.nn.ReLU())
    assert len(one * 3) == len(3 * one) == 3
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
        one * 0
    many = oneflow.nn.Sequential(oneflow.nn.ReLU())
    many *= 2
    assert len(many) == 2


def test_loading_into_meta_tensors_says_that_nothing_happens():
    with oneflow.device("meta"):
        layer = oneflow.nn.Linear(1, 1, bias=False)
    with pytest.warns(UserWarning, match="which is a no-op"):
        layer.load_state_dict({"weight": oneflow.ones(1, 1)})
    with pytest.raises(NotImplementedError, match="to_empty"):
        layer.to("cpu")


def test_buffers_keep_the_class_of_their_data():
    def run(fw):
        class Mine(fw.Tensor):
            pass

        m = fw.nn.Module()
        m.a = fw.nn.Buffer(fw.ones(2))
        twin = copy.deepcopy(m)
        m.b = fw.nn.Buffer(fw.ones(2).as_subclass(Mine), persistent=False)
        seen = []
        for module in (m, twin):
            for name, buffer in module.named_buffers():
                seen.append(
                    [
                        name,
                        type(buffer).__name__,
                        isinstance(buffer, fw.nn.Buffer),
                        isinstance(buffer, fw.nn.Parameter),
                        isinstance(buffer + 1, fw.nn.Buffer),
                        buffer.persistent,
                    ]
                )
            seen.append(list(module.state_dict()))
        return seen, isinstance(fw.ones(2), fw.nn.Buffer), tuple(fw.nn.Buffer().shape)

    both(run)
