"""Optimizers and schedules compute PyTorch's numbers, step by step."""

import copy

import numpy as np
import oneflow
import pytest
import torch
from torch_oracle import close

OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.5, "maximize": True}),
    ("AdamW", {"lr": 1e-2}),
    ("AdamW", {"lr": 1e-2, "weight_decay": 0.3, "betas": (0.8, 0.95)}),
    ("AdamW", {"lr": 1e-2, "amsgrad": True}),
    ("AdamW", {"lr": 1e-2, "maximize": True}),
    ("Adam", {"lr": 1e-2, "weight_decay": 0.1}),
    ("Adam", {"lr": 1e-2, "amsgrad": True, "weight_decay": 0.1}),
    ("NAdam", {"lr": 1e-2}),
    ("NAdam", {"lr": 1e-2, "weight_decay": 0.1, "decoupled_weight_decay": True, "momentum_decay": 6e-3}),
    ("RAdam", {"lr": 1e-1, "betas": (0.8, 0.9)}),
    ("RAdam", {"lr": 1e-1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adamax", {"lr": 1e-2, "weight_decay": 0.1}),
    ("Adadelta", {"lr": 1.0, "rho": 0.8, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 1e-1, "lr_decay": 0.1, "initial_accumulator_value": 0.2}),
    ("RMSprop", {"lr": 1e-2}),
    ("RMSprop", {"lr": 1e-2, "momentum": 0.9, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 1e-2, "centered": True, "maximize": True}),
    ("RMSprop", {"lr": 1e-2, "centered": True, "momentum": 0.9}),
    ("Rprop", {"lr": 1e-2, "etas": (0.4, 1.5)}),
    ("ASGD", {"lr": 1e-1, "lambd": 0.1, "t0": 2, "weight_decay": 0.1}),
    ("Adafactor", {"lr": 1e-1, "weight_decay": 0.1}),
]


def parameters(fw, dtype):
    values = [[0.5, -1.0, 2.0], [[1.0, 2.0], [-0.5, 0.25]]]
    return [fw.nn.Parameter(fw.tensor(v, dtype=getattr(fw, dtype))) for v in values]


def run(fw, name, options, dtype, n_steps, with_schedule=False, skip=False):
    params = parameters(fw, dtype)
    optimizer = getattr(fw.optim, name)(params, **options)
    schedule = fw.optim.lr_scheduler.ExponentialLR(optimizer, 0.9) if with_schedule else None
    for i in range(n_steps):
        optimizer.zero_grad()
        loss = (params[0] * params[0]).sum()
        if not (skip and i == 0):
            loss = loss + ((params[1] - 1.0) * params[1] * params[1]).sum()
        loss.backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
    return params, optimizer


@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-6), ("float64", 1e-12)])
@pytest.mark.parametrize("name, options", OPTIMIZERS)
@pytest.mark.parametrize("with_schedule, skip", [(False, False), (True, False), (False, True)])
def test_steps_equal_torch(name, options, dtype, tolerance, with_schedule, skip):
    ours, _ = run(oneflow, name, options, dtype, 5, with_schedule, skip)
    theirs, _ = run(torch, name, options, dtype, 5, with_schedule, skip)
    for a, b in zip(ours, theirs, strict=True):
        close(a, b, tolerance)


@pytest.mark.parametrize("name, options", OPTIMIZERS)
def test_state_dict_round_trip_continues_the_same(name, options):
    params, optimizer = run(oneflow, name, options, "float64", 3)
    saved = copy.deepcopy(optimizer.state_dict())
    twins = [oneflow.nn.Parameter(p.detach().clone()) for p in params]
    twin = getattr(oneflow.optim, name)(twins, lr=123.0)
    twin.load_state_dict(saved)
    assert twin.state_dict()["param_groups"][0]["lr"] == options["lr"]
    for group, opt in ((params, optimizer), (twins, twin)):
        for _ in range(2):
            opt.zero_grad()
            sum((p * p * p).sum() for p in group).backward()
            opt.step()
    for a, b in zip(params, twins, strict=True):
        assert a.tolist() == b.tolist()


def test_groups_keep_their_own_step_count_after_loading():
    def trained(n_steps, reload_at):
        params = parameters(oneflow, "float64")
        groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.1}]
        optimizer = oneflow.optim.AdamW(groups, lr=0.01)
        for i in range(n_steps):
            if i == reload_at:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            optimizer.zero_grad()
            sum((p * p * p).sum() for p in params).backward()
            optimizer.step()
        assert [float(s["step"]) for s in optimizer.state.values()] == [n_steps] * 2
        return [p.tolist() for p in params]

    assert trained(5, reload_at=2) == trained(5, reload_at=None)


def test_state_dict_has_torchs_form():
    _, ours = run(oneflow, "AdamW", {"lr": 1e-2}, "float32", 2)
    _, theirs = run(torch, "AdamW", {"lr": 1e-2}, "float32", 2)
    a, b = ours.state_dict(), theirs.state_dict()
    assert a["state"].keys() == b["state"].keys()
    assert set(a["state"][0]) == set(b["state"][0])
    assert float(a["state"][1]["step"]) == float(b["state"][1]["step"]) == 2
    assert a["param_groups"][0]["params"] == b["param_groups"][0]["params"]
    assert set(a["param_groups"][0]) == set(b["param_groups"][0])


def test_one_call_a_group(monkeypatch):
    calls = []
    real = oneflow._oneflow._C._fused_update_
    monkeypatch.setattr(oneflow._oneflow._C, "_fused_update_", lambda *a, **k: (calls.append(len(a[0])), real(*a, **k)))
    run(oneflow, "AdamW", {"lr": 1e-2}, "float32", 3)
    assert calls == [2, 2, 2]


@pytest.mark.parametrize("name, options", OPTIMIZERS)
def test_half_parameters_follow_the_wide_ones(name, options):
    half, _ = run(oneflow, name, options, "bfloat16", 3)
    wide, _ = run(oneflow, name, options, "float64", 3)
    for a, b in zip(half, wide, strict=True):
        # Parameters of size 2 have a resolution of 1/128, and three steps round three times.
        assert (a.double() - b).abs().max().item() < 0.06


def test_more_tensors_than_a_byte_counts():
    params = [oneflow.nn.Parameter(oneflow.full((3,), float(i))) for i in range(300)]
    optimizer = oneflow.optim.SGD(params, lr=0.5)
    for i, p in enumerate(params):
        p.grad = oneflow.full((3,), float(i))
    optimizer.step()
    assert [p[0].item() for p in params] == [i * 0.5 for i in range(300)]


def test_lbfgs_finds_the_minimum():
    for options in ({}, {"line_search_fn": "strong_wolfe"}):
        x = oneflow.nn.Parameter(oneflow.tensor([-1.2, 1.0], dtype=oneflow.float64))
        y = torch.nn.Parameter(torch.tensor([-1.2, 1.0], dtype=torch.float64))
        ends = []
        for fw, p in ((oneflow, x), (torch, y)):
            optimizer = fw.optim.LBFGS([p], lr=0.5, max_iter=8, **options)

            def closure(optimizer=optimizer, p=p):
                optimizer.zero_grad()
                loss = (1 - p[0]) ** 2 + 10 * (p[1] - p[0] ** 2) ** 2
                loss.backward()
                return loss

            first = [float(optimizer.step(closure).detach()) for _ in range(2)]
            ends.append((first, p.tolist()))
        assert ends[0][0] == pytest.approx(ends[1][0], rel=1e-9) and ends[0][1] == pytest.approx(ends[1][1], rel=1e-6)


def test_oneflows_own_rules_by_hand():
    w = oneflow.nn.Parameter(oneflow.tensor([3.0, 4.0]))
    optimizer = oneflow.optim.LAMB([w], lr=0.1, weight_decay=0.5)
    w.grad = oneflow.tensor([1.0, -1.0])
    optimizer.step()
    direction, ratio = [1.0 + 0.5 * 3.0, -1.0 + 0.5 * 4.0], 5.0 / 2**0.5
    assert w.tolist() == pytest.approx([3.0 - 0.1 * ratio * direction[0], 4.0 - 0.1 * ratio * direction[1]], rel=1e-5)


@pytest.mark.parametrize("power", [-0.5, 0.5, 0.3])
@pytest.mark.parametrize("decay, l1, l2, beta", [(0.0, 0.0, 0.0, 0.0), (0.1, 0.2, 0.3, 1.0)])
def test_ftrl_is_the_rule_that_oneflow_states(power, decay, l1, l2, beta):
    """The squares and what is left to follow in float64, by the formula; decay is part of the gradient."""
    w = oneflow.nn.Parameter(oneflow.tensor([3.0, 4.0, -0.01], dtype=oneflow.float64))
    options = {"lr_power": power, "weight_decay": decay, "lambda1": l1, "lambda2": l2, "beta": beta}
    optimizer = oneflow.optim.Ftrl([w], lr=0.5, initial_accumulator_value=0.25, **options)
    want, squares, z = np.array(w.tolist()), np.full(3, 0.25), np.zeros(3)
    for gradient in ([1.0, -0.5, 0.05], [0.25, 2.0, 0.05], [-1.0, 0.5, -0.05]):
        w.grad = oneflow.tensor(gradient, dtype=oneflow.float64)
        optimizer.step()
        g = np.array(gradient) + decay * want
        total = squares + g * g
        z += g - (total**power - squares**power) / 0.5 * want
        squares = total
        want = (np.sign(z) * l1 - z) / ((beta + squares**power) / 0.5 + l2)
        want[np.abs(z) < l1] = 0.0
        assert w.tolist() == pytest.approx(want.tolist(), rel=1e-12)
    assert (0.0 in w.tolist()) == (l1 > 0.0)


@pytest.mark.parametrize("centered", [False, True])
def test_rmsprop_adds_eps_within_the_root_under_oneflows_conventions(centered):
    w = oneflow.nn.Parameter(oneflow.tensor([3.0, 4.0], dtype=oneflow.float64))
    optimizer = oneflow.optim.RMSprop([w], lr=0.1, alpha=0.8, eps=0.5, weight_decay=0.1, centered=centered)
    want, squares, means = [3.0, 4.0], [0.0, 0.0], [0.0, 0.0]
    with oneflow.conventions("oneflow"):
        for gradient in ([1.0, -2.0], [0.5, 0.25]):
            w.grad = oneflow.tensor(gradient, dtype=oneflow.float64)
            optimizer.step()
            for i, g in enumerate(gradient):
                g += 0.1 * want[i]
                squares[i] = 0.8 * squares[i] + 0.2 * g * g
                means[i] = 0.8 * means[i] + 0.2 * g
                want[i] -= 0.1 * g / (squares[i] - centered * means[i] ** 2 + 0.5) ** 0.5
    assert w.tolist() == pytest.approx(want, rel=1e-7)


@pytest.mark.parametrize("name", ["Adam", "NAdam", "RAdam", "RMSprop", "ASGD", "Adafactor", "LAMB", "Ftrl"])
def test_a_traced_step_is_the_eager_one(name):
    def trained(traced):
        w = oneflow.nn.Linear(3, 2)
        with oneflow.no_grad():
            w.weight.copy_(oneflow.arange(6).reshape(2, 3) * 0.1)
            w.bias.fill_(0.5)
        x = oneflow.ones(4, 3)
        optimizer = getattr(oneflow.optim, name)(w.parameters(), lr=0.05)
        if not traced:
            for _ in range(4):
                optimizer.zero_grad()
                w(x).square().sum().backward()
                optimizer.step()
            return w.weight.tolist()

        class Step(oneflow.nn.Graph):
            def __init__(self):
                super().__init__()
                self.w = w
                self.add_optimizer(optimizer)

            def build(self, x):
                loss = self.w(x).square().sum()
                loss.backward()
                return loss

        step = Step()
        for _ in range(4):
            step(x)
        return w.weight.tolist()

    torch.testing.assert_close(torch.tensor(trained(True)), torch.tensor(trained(False)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name, options",
    [
        ("SGD", {"lr": -1.0}),
        ("SGD", {"momentum": -1.0}),
        ("SGD", {"nesterov": True}),
        ("Adam", {"eps": -1.0}),
        ("Adam", {"betas": (1.0, 0.9)}),
        ("Adam", {"weight_decay": -1.0}),
        ("NAdam", {"momentum_decay": -1.0}),
        ("RAdam", {"lr": -1.0}),
        ("Adamax", {"betas": (0.9, 1.0)}),
        ("Adadelta", {"rho": 1.1}),
        ("Adagrad", {"lr_decay": -0.5}),
        ("RMSprop", {"momentum": -1.0}),
        ("Rprop", {"etas": (1.0, 0.5)}),
        ("ASGD", {"lambd": -1.0}),
        ("Adafactor", {"beta2_decay": 0.8}),
        ("LBFGS", {"lr": -1.0}),
    ],
)
def test_wrong_options_raise_as_torch_does(name, options):
    texts = []
    for fw in (oneflow, torch):
        with pytest.raises(ValueError) as error:
            getattr(fw.optim, name)([fw.ones(2, requires_grad=True)], **options)
        texts.append(str(error.value))
    assert texts[0] == texts[1]


def schedules(m):
    return {
        "StepLR": lambda o: m.StepLR(o, 3, 0.5),
        "MultiStepLR": lambda o: m.MultiStepLR(o, [2, 5, 5], 0.3),
        "ExponentialLR": lambda o: m.ExponentialLR(o, 0.9),
        "ConstantLR": lambda o: m.ConstantLR(o, 0.5, 4),
        "LinearLR": lambda o: m.LinearLR(o, 0.25, 0.75, 6),
        "LinearLR from a tenth": lambda o: m.LinearLR(o, 0.1, 1.0, 7),
        "LinearLR downwards": lambda o: m.LinearLR(o, 1.0, 0.3, 9),
        "PolynomialLR": lambda o: m.PolynomialLR(o, 8, 2.0),
        "CosineAnnealingLR": lambda o: m.CosineAnnealingLR(o, 5, 0.01),
        "CosineAnnealingWarmRestarts": lambda o: m.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
        "MultiplicativeLR": lambda o: m.MultiplicativeLR(o, lambda i: 0.9 + 0.01 * i),
        "CyclicLR": lambda o: m.CyclicLR(o, 0.1, 1.0, step_size_up=4, step_size_down=3),
        "CyclicLR2": lambda o: m.CyclicLR(o, 0.1, 1.0, step_size_up=4, mode="triangular2"),
        "CyclicLRexp": lambda o: m.CyclicLR(o, 0.1, 1.0, 4, mode="exp_range", gamma=0.9, cycle_momentum=False),
        "ChainedScheduler": lambda o: m.ChainedScheduler([m.ExponentialLR(o, 0.9), m.ConstantLR(o, 0.3, 4)]),
        "LambdaLR": lambda o: m.LambdaLR(o, lambda i: 1 / (1 + i)),
        "OneCycleLR": lambda o: m.OneCycleLR(o, 0.5, total_steps=20),
        "OneCycleLR3": lambda o: m.OneCycleLR(o, 0.5, total_steps=21, three_phase=True, anneal_strategy="linear"),
        "SequentialLR": lambda o: m.SequentialLR(
            o, [m.LinearLR(o, 0.1, 1.0, 4), m.CosineAnnealingLR(o, 10)], milestones=[4]
        ),
    }


@pytest.mark.parametrize("name", list(schedules(torch.optim.lr_scheduler)))
def test_schedules_equal_torch(name):
    def lrs(fw):
        optimizer = fw.optim.SGD(parameters(fw, "float32"), lr=0.2, momentum=0.9)
        schedule = schedules(fw.optim.lr_scheduler)[name](optimizer)
        values = []
        for _ in range(15):
            optimizer.step()
            schedule.step()
            values.append((schedule.get_last_lr()[0], optimizer.param_groups[0]["momentum"]))
        return values

    assert lrs(oneflow) == lrs(torch)


@pytest.mark.parametrize("options", [{}, {"mode": "max", "patience": 2}, {"threshold_mode": "abs", "cooldown": 2}])
def test_plateau_equals_torch(options):
    def lrs(fw):
        optimizer = fw.optim.SGD(parameters(fw, "float32"), lr=1.0)
        schedule = fw.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, **{"patience": 1, **options})
        values = []
        for metric in [3, 2, 2, 2, 2, 1, 1, 1, 1, 1, 5, 6, 6, 6, 6, 6]:
            schedule.step(metric)
            values.append(optimizer.param_groups[0]["lr"])
        return values

    assert lrs(oneflow) == lrs(torch)


BAD = [
    (ValueError, lambda fw: fw.optim.SGD([], lr=0.1)),
    (TypeError, lambda fw: fw.optim.SGD(fw.ones(2), lr=0.1)),
    (TypeError, lambda fw: fw.optim.SGD([1.0], lr=0.1)),
    (ValueError, lambda fw: fw.optim.SGD(parameters(fw, "float32"), lr=-1.0)),
    (ValueError, lambda fw: fw.optim.SGD(parameters(fw, "float32"), lr=0.1, nesterov=True)),
    (ValueError, lambda fw: fw.optim.AdamW(parameters(fw, "float32"), betas=(1.0, 0.9))),
    (ValueError, lambda fw: fw.optim.AdamW([parameters(fw, "float32")[0] * 2])),
    (TypeError, lambda fw: fw.optim.lr_scheduler.StepLR(None, 1)),
]


@pytest.mark.parametrize("i", range(len(BAD)))
def test_errors_are_torchs(i):
    kind, make = BAD[i]
    for fw in (oneflow, torch):
        with pytest.raises(kind):
            make(fw)


def test_oneflows_own_schedules():
    m = oneflow.optim.lr_scheduler

    def lrs(make, n=8):
        optimizer = oneflow.optim.SGD(parameters(oneflow, "float32"), lr=0.5)
        schedule = make(optimizer)
        values = []
        for _ in range(n):
            values.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        return values

    cosine = lrs(lambda o: m.CosineDecayLR(o, 6, alpha=0.1))
    assert cosine[0] == 0.5 and cosine[6] == cosine[7] == pytest.approx(0.05)
    assert cosine[3] == pytest.approx(0.5 * (0.5 * 0.9 + 0.1))
    assert lrs(lambda o: m.WarmupLR(o, 0.1, 5, "constant")) == pytest.approx([0.05] * 5 + [0.5] * 3)
    assert lrs(lambda o: m.WarmupLR(o, 0.2, 4)) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.5, 0.5])
    along = lrs(lambda o: m.WarmupLR(m.CosineDecayLR(o, 6), 0.1, 3))
    alone = lrs(lambda o: m.CosineDecayLR(o, 6))
    assert along[3:] == pytest.approx(alone[3:]) and along[0] == pytest.approx(0.05)
    before = lrs(lambda o: m.WarmupLR(m.CosineDecayLR(o, 6), 0.1, 3, warmup_prefix=True))
    assert before[3:] == pytest.approx(alone[:5])
    fall = lrs(lambda o: m.PolynomialLR(o, decay_batch=5, end_learning_rate=0.1, power=1.0))
    assert fall == pytest.approx([0.5, 0.42, 0.34, 0.26, 0.18, 0.1, 0.1, 0.1])


@pytest.mark.parametrize("options", [{}, {"anneal_strategy": "linear"}, {"anneal_epochs": 0}])
def test_averaged_weights_equal_torch(options):
    def seen(fw):
        layer = fw.nn.Linear(2, 2)
        optimizer = fw.optim.SGD(layer.parameters(), lr=0.5)
        schedule = fw.optim.swa_utils.SWALR(optimizer, 0.05, **{"anneal_epochs": 4, **options})
        models = [
            fw.optim.swa_utils.AveragedModel(layer, multi_avg_fn=f)
            for f in (None, fw.optim.swa_utils.get_ema_multi_avg_fn(0.9))
        ]
        values = []
        for i in range(6):
            with fw.no_grad():
                for p in layer.parameters():
                    p.fill_(float(i * i))
            optimizer.step()
            schedule.step()
            for model in models:
                model.update_parameters(layer)
            values.append((schedule.get_last_lr()[0], *[model.module.weight[0, 0].item() for model in models]))
        return values, list(models[0].state_dict())

    ours, theirs = seen(oneflow), seen(torch)
    assert ours[1] == theirs[1]
    for a, b in zip(ours[0], theirs[0], strict=True):
        assert a == pytest.approx(b, rel=1e-5)


@pytest.mark.parametrize("name", ["SparseAdam", "SGD", "Adagrad"])
def test_sparse_gradients_move_their_rows_as_in_torch(name):
    def trained(fw):
        table = fw.nn.Embedding(6, 3, sparse=True)
        with fw.no_grad():
            table.weight.copy_(fw.arange(18).reshape(6, 3) * 0.1)
        optimizer = getattr(fw.optim, name)(list(table.parameters()), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            table(fw.tensor([1, 3, 1])).square().sum().backward()
            optimizer.step()
        return torch.tensor(table.weight.detach().tolist())

    torch.testing.assert_close(trained(oneflow), trained(torch), rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore:optimizer contains:UserWarning")
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_a_parameter_given_twice_is_updated_twice(name):
    results = []
    for fw in (oneflow, torch):
        p, q = (fw.nn.Parameter(fw.tensor(v)) for v in ([1.0, 2.0], [3.0]))
        optimizer = getattr(fw.optim, name)([p, q, p], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            ((p * p).sum() + (q * q).sum()).backward()
            optimizer.step()
        results.append([p.tolist(), q.tolist()])
    for ours, theirs in zip(*results, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
