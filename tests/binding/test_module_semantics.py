"""Hooks, registration, state dictionaries and moves of modules, compared with PyTorch."""

import copy
import pickle
import warnings
from collections import OrderedDict

import oneflow as flow
import pytest
import torch
from torch_oracle import both


def error(f, *args, **kwargs):
    with pytest.raises(Exception) as e:
        f(*args, **kwargs)
    return type(e.value).__name__


def message(f, *args, **kwargs):
    with pytest.raises(Exception) as e:
        f(*args, **kwargs)
    return type(e.value).__name__, str(e.value)


def net(fw):
    class Net(fw.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = fw.nn.Linear(2, 3)
            self.b = fw.nn.Sequential(fw.nn.Tanh(), fw.nn.Linear(3, 1))
            self.register_buffer("seen", fw.zeros(2))
            self.register_buffer("scratch", fw.zeros(1), persistent=False)

        def forward(self, x, scale=1.0):
            return self.b(self.a(x)) * scale

    made = Net()
    with fw.no_grad():
        for p in made.parameters():
            p.copy_(fw.arange(p.numel()).view(p.shape) / 10)
    return made


def test_forward_hooks():
    def run(fw):
        log = []
        n = net(fw)
        x = fw.ones(1, 2)
        n.register_forward_pre_hook(lambda m, args: log.append(("pre", len(args))))
        n.register_forward_pre_hook(
            lambda m, args, kwargs: (args, {"scale": kwargs.get("scale", 1.0) * 2}), with_kwargs=True, prepend=True
        )
        n.register_forward_hook(lambda m, args, out: log.append(("post", tuple(out.shape))))
        n.register_forward_hook(lambda m, args, kwargs, out: out + kwargs["scale"], with_kwargs=True)
        h = n.register_forward_hook(lambda m, args, out: out * 0, prepend=True)
        first = n(x, scale=3.0).item()
        h.remove()
        return log, first, round(n(x, scale=3.0).item(), 4)

    both(run)


def test_always_called_hooks():
    def run(fw):
        log = []

        class Bad(fw.nn.Module):
            def forward(self, x):
                raise ValueError("no")

        m = Bad()
        m.register_forward_hook(lambda m, args, out: log.append(out), always_call=True)
        m.register_forward_hook(lambda m, args, out: log.append("never"))
        return error(m, 1), log

    both(run)


def test_bad_pre_hooks():
    def run(fw):
        n = net(fw)
        n.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
        return error(n, fw.ones(1, 2))

    both(run)


def test_backward_hooks():
    def run(fw):
        log = []
        n = net(fw)
        rounded = lambda g: None if g is None else [round(v, 4) for v in g.flatten().tolist()]  # noqa: E731
        n.a.register_full_backward_pre_hook(lambda m, go: log.append(("pre", rounded(go[0]))))
        n.a.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
        n.a.register_full_backward_hook(lambda m, gi, go: log.append(("post", rounded(gi[0]), rounded(go[0]))))
        n.b.register_full_backward_hook(lambda m, gi, go: (gi[0] * 3,))
        x = fw.ones(1, 2, requires_grad=True)
        n(x).sum().backward()
        return log, rounded(x.grad), rounded(n.a.weight.grad)

    both(run)


def test_global_hooks():
    def run(fw):
        log = []
        m = fw.nn.modules.module
        handles = [
            m.register_module_forward_pre_hook(lambda mod, args: log.append(("pre", type(mod).__name__))),
            m.register_module_forward_hook(lambda mod, args, out: log.append(("post", type(mod).__name__))),
            m.register_module_full_backward_hook(lambda mod, gi, go: log.append(("back", type(mod).__name__))),
            m.register_module_full_backward_pre_hook(lambda mod, go: log.append(("backpre", type(mod).__name__))),
            m.register_module_module_registration_hook(lambda mod, name, child: log.append(("module", name))),
            m.register_module_parameter_registration_hook(lambda mod, name, p: log.append(("parameter", name))),
            m.register_module_buffer_registration_hook(lambda mod, name, b: log.append(("buffer", name))),
        ]
        try:
            n = net(fw)
            n(fw.ones(1, 2, requires_grad=True)).sum().backward()
        finally:
            for h in handles:
                h.remove()
        before = len(log)
        n(fw.ones(1, 2))
        return log, len(log) == before

    both(run)


def test_state_dict_hooks():
    def run(fw):
        log = []
        n = net(fw)
        n.register_state_dict_pre_hook(lambda m, prefix, keep: log.append(("save pre", prefix, keep)))
        n.register_state_dict_post_hook(lambda m, sd, prefix, meta: log.append(("saved", sorted(sd), dict(meta))))
        n.register_load_state_dict_pre_hook(lambda m, sd, prefix, *rest: log.append(("load pre", prefix, len(rest))))
        n.register_load_state_dict_post_hook(
            lambda m, keys: (log.append(("loaded", list(keys.missing_keys))), keys.missing_keys.clear())[1]
        )
        sd = n.state_dict()
        sd.pop("seen")
        result = n.load_state_dict(sd)
        return log, repr(result), {k: dict(v) for k, v in sd._metadata.items()}

    both(run)


def test_load_messages():
    def run(fw):
        n = net(fw)
        sd = n.state_dict()
        sd.pop("a.bias")
        sd["extra.weight"] = fw.ones(1)
        sd["a.weight"] = fw.ones(5, 2)
        wrong = OrderedDict(n.state_dict())
        wrong["seen"] = 3
        loose = n.state_dict()
        loose.pop("a.bias")
        loose["other"] = fw.ones(1)
        keys = n.load_state_dict(loose, strict=False)
        return (
            [t.replace("oneflow.Size", "torch.Size") for t in message(n.load_state_dict, sd)],
            message(n.load_state_dict, wrong)[0],
            list(keys.missing_keys),
            list(keys.unexpected_keys),
            error(n.load_state_dict, 3),
        )

    both(run)


def test_assign():
    def run(fw):
        n = net(fw)
        sd = {k: v.double() for k, v in n.state_dict().items()}
        n.load_state_dict(sd, assign=True)
        return (
            str(n.a.weight.dtype).split(".")[-1],
            type(n.a.weight).__name__,
            n.a.weight.requires_grad,
            n.a.weight.data_ptr() == sd["a.weight"].data_ptr(),
            n.seen is sd["seen"],
        )

    both(run)


REGISTRATION = [
    lambda fw, n: n.register_buffer("a", fw.ones(1)),
    lambda fw, n: n.register_buffer("x.y", fw.ones(1)),
    lambda fw, n: n.register_buffer("", fw.ones(1)),
    lambda fw, n: n.register_buffer(3, fw.ones(1)),
    lambda fw, n: n.register_buffer("q", 3),
    lambda fw, n: n.register_parameter("p", fw.ones(1)),
    lambda fw, n: n.register_parameter("p", fw.nn.Parameter(fw.ones(1)) * 2),
    lambda fw, n: n.register_parameter("a", None),
    lambda fw, n: n.add_module("m", 3),
    lambda fw, n: n.register_module("seen", fw.nn.Tanh()),
    lambda fw, n: setattr(n.a, "weight", fw.ones(1)),
    lambda fw, n: setattr(n, "a", 3),
    lambda fw, n: setattr(n, "seen", 3),
    lambda fw, n: n.missing,
    lambda fw, n: delattr(n, "missing"),
    lambda fw, n: n.get_submodule("a.weight"),
    lambda fw, n: n.get_submodule("c"),
    lambda fw, n: n.get_parameter("seen"),
    lambda fw, n: n.get_buffer("a.weight"),
    lambda fw, n: n.set_submodule("", fw.nn.Tanh()),
    lambda fw, n: n.to(fw.int64),
    lambda fw, n: n.to(bad=1),
    lambda fw, n: n.train(3),
    lambda fw, n: fw.nn.Module(3),
    lambda fw, n: fw.nn.Module().forward(1),
    lambda fw, n: fw.nn.Module()(1),
    lambda fw, n: n.get_extra_state(),
]


@pytest.mark.parametrize("f", REGISTRATION)
def test_refused(f):
    def run(fw):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return error(f, fw, net(fw))

    both(run)


def test_names():
    def run(fw):
        n = net(fw)
        n.tied = n.a
        n.b[1].weight2 = n.a.weight
        return (
            [k for k, _ in n.named_parameters()],
            [k for k, _ in n.named_parameters(remove_duplicate=False)],
            [k for k, _ in n.named_modules()],
            [k for k, _ in n.named_modules(remove_duplicate=False)],
            [k for k, _ in n.named_buffers(prefix="p")],
            [k for k, _ in n.named_children()],
            [k for k, _ in n.named_parameters(recurse=False)],
            sorted(n.state_dict(prefix="x.")),
            len(list(n.modules())),
            n.get_submodule("b.1") is n.b[1],
            n.get_parameter("b.1.bias") is n.b[1].bias,
            "seen" in dir(n) and "a" in dir(n),
        )

    both(run)


def test_moves():
    def run(fw):
        n = net(fw)
        p = n.a.weight
        (n(fw.ones(1, 2)).sum()).backward()
        n.half()
        kinds = [str(t.dtype).split(".")[-1] for t in (n.a.weight, n.seen, n.a.weight.grad)]
        same = n.a.weight is p
        n.bfloat16().double().float()
        n.to("cpu", fw.float64).to(fw.ones(1, dtype=fw.float32))
        conv = fw.nn.Sequential(fw.nn.Linear(2, 2))
        conv.register_buffer("image", fw.ones(1, 2, 3, 4))
        conv.to(memory_format=fw.channels_last)
        empty = net(fw).to("meta").to_empty(device="cpu")
        shared = net(fw).share_memory()
        return (
            kinds,
            same,
            str(n.a.weight.dtype).split(".")[-1],
            conv.image.is_contiguous(memory_format=fw.channels_last),
            empty.a.weight.device.type,
            tuple(empty.a.weight.shape),
            shared.a.weight.is_shared(),
            n.type(fw.float64).a.weight.dtype == fw.float64,
        )

    both(run)


def test_zero_grad():
    def run(fw):
        n = net(fw)
        n(fw.ones(1, 2)).sum().backward()
        n.zero_grad(set_to_none=False)
        zero = n.a.weight.grad.abs().sum().item()
        n.zero_grad()
        return zero, n.a.weight.grad

    both(run)


class Flow(flow.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = flow.nn.Parameter(flow.ones(2))
        self.other = [1]


class Torch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(2))
        self.other = [1]


def test_pickles():
    def run(fw, cls):
        n = cls()
        n.extra = {"a": fw.ones(1)}
        m = pickle.loads(pickle.dumps(n))
        d = copy.deepcopy(n)
        s = copy.copy(n)
        return (
            type(m).__name__,
            type(m.w).__name__,
            m.w.requires_grad,
            m.extra["a"].tolist(),
            d.other == n.other,
            d.other is n.other,
            s.other is n.other,
            d.w is n.w,
            s.w is n.w,
        )

    ours, theirs = run(flow, Flow), run(torch, Torch)
    assert ours[1:] == theirs[1:]


def test_whole_modules_are_saved(tmp_path):
    n = Flow()
    with flow.no_grad():
        n.w.fill_(3)
    flow.save(n, tmp_path / "n.pt")
    m = flow.load(tmp_path / "n.pt", weights_only=False)
    assert type(m) is Flow and m.w.tolist() == [3, 3] and isinstance(m.w, flow.nn.Parameter)


def test_non_module_parameters_of_subclasses():
    def run(fw):
        class Mine(fw.Tensor):
            pass

        p = fw.nn.Parameter(fw.ones(2).as_subclass(Mine))
        m = fw.nn.Module()
        m.p = p
        return isinstance(p, fw.nn.Parameter), type(p).__name__, [k for k, _ in m.named_parameters()], p.requires_grad

    both(run)
