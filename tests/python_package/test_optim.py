"""Optimizers and schedules give PyTorch's numbers, step by step."""

import copy

import oneflow
import pytest
import torch

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
        assert a.tolist() == pytest.approx(b.tolist(), rel=tolerance, abs=tolerance) if a.dim() == 1 else True
        torch.testing.assert_close(torch.tensor(a.tolist(), dtype=b.dtype), b.detach(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name, options", OPTIMIZERS)
def test_state_dict_round_trip_continues_the_same(name, options):
    params, optimizer = run(oneflow, name, options, "float64", 3)
    saved = copy.deepcopy(optimizer.state_dict())
    twins = [oneflow.nn.Parameter(p.detach().clone()) for p in params]
    twin = getattr(oneflow.optim, name)(twins, lr=123.0)
    twin.load_state_dict(saved)
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
    real = oneflow._oneflow._C._fused_adamw_
    monkeypatch.setattr(oneflow._oneflow._C, "_fused_adamw_", lambda *a, **k: (calls.append(len(a[0])), real(*a, **k)))
    run(oneflow, "AdamW", {"lr": 1e-2}, "float32", 3)
    assert calls == [2, 2, 2]


def schedules(m):
    return {
        "StepLR": lambda o: m.StepLR(o, 3, 0.5),
        "MultiStepLR": lambda o: m.MultiStepLR(o, [2, 5, 5], 0.3),
        "ExponentialLR": lambda o: m.ExponentialLR(o, 0.9),
        "ConstantLR": lambda o: m.ConstantLR(o, 0.5, 4),
        "LinearLR": lambda o: m.LinearLR(o, 0.25, 0.75, 6),
        "PolynomialLR": lambda o: m.PolynomialLR(o, 8, 2.0),
        "CosineAnnealingLR": lambda o: m.CosineAnnealingLR(o, 5, 0.01),
        "CosineAnnealingWarmRestarts": lambda o: m.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
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

    for ours, theirs in zip(lrs(oneflow), lrs(torch), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)


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
