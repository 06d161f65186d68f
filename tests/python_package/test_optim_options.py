"""Every optimizer and schedule with every option, compared with PyTorch: numbers, groups, states, errors."""

import copy
import inspect
import math

import oneflow
import pytest
import torch
from torch_oracle import close

SPARSE = "SparseAdam"
CLASSES = [
    name
    for name in dir(torch.optim)
    if inspect.isclass(getattr(torch.optim, name)) and name not in ("Optimizer", SPARSE)
]
VALUES = {
    "lr": [0.0, 0.03],
    "weight_decay": [0.1],
    "betas": [(0.8, 0.95)],
    "eps": [1e-3],
    "momentum": [0.7],
    "dampening": [0.2],
    "rho": [0.7],
    "lr_decay": [0.1],
    "initial_accumulator_value": [0.3],
    "alpha": [0.6],
    "etas": [(0.3, 1.4)],
    "step_sizes": [(1e-3, 0.02)],
    "lambd": [0.01],
    "t0": [2.0],
    "momentum_decay": [0.02],
    "beta2_decay": [-0.5],
    "d": [0.5],
    "ns_steps": [3],
    "ns_coefficients": [(3.0, -4.0, 2.0)],
    "adjust_lr_fn": ["original", "match_rms_adamw"],
    "max_iter": [3],
    "max_eval": [4],
    "history_size": [2],
    "line_search_fn": ["strong_wolfe"],
    "tolerance_grad": [0.1],
    "tolerance_change": [0.1],
}
FLAGS = ("amsgrad", "nesterov", "centered", "decoupled_weight_decay", "maximize", "foreach", "fused", "capturable")
# Options that only mean something together.
TOGETHER = [
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "dampening": 0.4, "maximize": True, "foreach": True}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.2, "decoupled_weight_decay": True, "maximize": True}),
    ("AdamW", {"amsgrad": True, "foreach": True, "maximize": True}),
    ("AdamW", {"fused": True, "amsgrad": True}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RMSprop", {"centered": True, "momentum": 0.9, "weight_decay": 0.1}),
    ("Adafactor", {"eps": (1e-3, 1e-2)}),
    ("Muon", {"nesterov": False, "momentum": 0.5}),
    ("LBFGS", {"line_search_fn": "strong_wolfe", "max_iter": 6, "max_eval": 7, "history_size": 3}),
]


def options_of(name):
    known = inspect.signature(getattr(torch.optim, name).__init__).parameters
    yield {}
    for key in known:
        if key == "eps" and name == "Adafactor":
            continue
        for value in VALUES.get(key, []):
            yield {key: value}
        if key in FLAGS:
            yield {key: not known[key].default}
    yield from (options for other, options in TOGETHER if other == name)


CASES = [(name, options) for name in CLASSES for options in options_of(name)]


def parameters(fw, name, dtype):
    shapes = [(3, 4), (6, 3)] if name == "Muon" else [(3, 4), (5,), (6, 3)]
    flat = [math.sin(1.0 + 0.7 * i) for i in range(sum(math.prod(s) for s in shapes))]
    at = 0
    for shape in shapes:
        n = math.prod(shape)
        yield fw.nn.Parameter(fw.tensor(flat[at : at + n], dtype=getattr(fw, dtype)).reshape(shape))
        at += n


def loss_of(params):
    total = params[0].square().sum()
    for i, p in enumerate(params):
        total = total + ((p - 0.3 * i) ** 2 * (1.0 + 0.1 * i)).sum() + (p.cos() * 0.5).sum()
    return total


def trained(fw, name, options, dtype, n_steps=5, groups=False, reload_at=None):
    params = list(parameters(fw, name, dtype))
    given = [{"params": params[:1]}, {"params": params[1:], "lr": 0.02, "weight_decay": 0.05}] if groups else params
    optimizer = getattr(fw.optim, name)(given, **options)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(params)
        loss.backward()
        return loss

    losses = []
    for i in range(n_steps):
        if i == reload_at:
            saved = copy.deepcopy(optimizer.state_dict())
            optimizer = getattr(fw.optim, name)(given, lr=0.5)
            optimizer.load_state_dict(saved)
        losses.append(float(optimizer.step(closure).detach()))
    return params, optimizer, losses


def outcome(fw, *args, **kwargs):
    try:
        return trained(fw, *args, **kwargs)
    except Exception as error:
        return error


# Single precision rounds at 6e-8; five steps and square roots of small numbers add some. L-BFGS takes up to twenty
# inner iterations a step, each of which multiplies a rounding error, so that it is held in double precision alone.
TOLERANCE = {"float64": 1e-9, "float32": 5e-5}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name, options", CASES, ids=str)
def test_option(name, options, dtype):
    if name == "LBFGS" and dtype == "float32":
        dtype = "float64"
    n_steps = 2 if name == "LBFGS" else 5
    # PyTorch has the flag for steps without the host, and refuses it on a CPU; here it only travels with its group.
    plain_options = {key: value for key, value in options.items() if key != "capturable"}
    ours = outcome(oneflow, name, options, dtype, n_steps)
    theirs = outcome(torch, name, plain_options, dtype, n_steps)
    if isinstance(theirs, Exception):
        assert type(ours) is type(theirs) and str(ours) == str(theirs)
        return
    if isinstance(ours, Exception):
        raise ours
    tolerance = TOLERANCE[dtype]
    if name == "ASGD" and options.get("foreach"):
        tolerance = 5e-5  # PyTorch's lists round eta to single precision
    close(ours[0], theirs[0], tolerance)
    close(ours[2], theirs[2], tolerance)
    a, b = ours[1].state_dict(), theirs[1].state_dict()
    if plain_options != options:
        assert a["param_groups"][0].pop("capturable") and not b["param_groups"][0].pop("capturable")
    close(a["param_groups"], b["param_groups"], tolerance)
    if name != "LBFGS":
        close(a["state"], b["state"], tolerance)
    else:
        assert set(a["state"][0]) == set(b["state"][0])


@pytest.mark.parametrize("name", [c for c in CLASSES if c != "LBFGS"])
@pytest.mark.parametrize("tensor_lr", [False, True])
def test_groups_and_reloading(name, tensor_lr):
    def run(fw, reload_at):
        options = {"lr": 0.05}
        if tensor_lr:
            options["lr"] = fw.tensor(0.05, dtype=fw.float64)
            if "foreach" in inspect.signature(getattr(torch.optim, name).__init__).parameters:
                options["foreach"] = False
        return outcome(fw, name, options, "float64", groups=True, reload_at=reload_at)

    theirs = run(torch, None)
    for reload_at in (None, 2):
        ours = run(oneflow, reload_at)
        if isinstance(theirs, Exception):
            assert type(ours) is type(theirs) and str(ours) == str(theirs)
            continue
        if isinstance(ours, Exception):
            raise ours
        close(ours[0], theirs[0], 1e-9)


# Before 1.12 PyTorch's files counted steps in plain numbers.
@pytest.mark.parametrize("counts", ["tensors", "numbers"])
@pytest.mark.parametrize("name", CLASSES)
def test_a_state_survives_a_round_trip_through_pytorch(name, counts):
    n_steps = 2 if name == "LBFGS" else 3
    params, optimizer, _ = trained(torch, name, {"lr": 0.05}, "float64", n_steps)

    def translated(value, fw):
        if isinstance(value, (torch.Tensor, oneflow.Tensor)):
            return fw.tensor(value.tolist(), dtype=getattr(fw, str(value.dtype).split(".")[-1]))
        if isinstance(value, dict):
            return {k: translated(v, fw) for k, v in value.items()}
        return [translated(v, fw) for v in value] if isinstance(value, list) else value

    twins = [oneflow.nn.Parameter(translated(p.detach(), oneflow)) for p in params]
    twin = getattr(oneflow.optim, name)(twins, lr=1.0)
    saved = translated(optimizer.state_dict(), oneflow)
    if counts == "numbers":
        for state in saved["state"].values():
            state.update({key: value.item() for key, value in state.items() if key == "step"})
    twin.load_state_dict(saved)
    for ours, opt in ((twins, twin), (params, optimizer)):

        def closure(ours=ours, opt=opt):
            opt.zero_grad()
            loss = loss_of(ours)
            loss.backward()
            return loss

        opt.step(closure)
    close(twins, params, 1e-8)
    back = translated(twin.state_dict(), torch)
    getattr(torch.optim, name)(params, lr=1.0).load_state_dict(back)
    close(twin.state_dict()["param_groups"], optimizer.state_dict()["param_groups"], 1e-12)


def test_counts_of_rows_stay_numbers():
    def run(fw):
        params = [fw.nn.Parameter(fw.ones(3, 2)) for _ in range(2)]
        optimizer = fw.optim.SparseAdam(params)
        for _ in range(3):
            for p in params:
                p.grad = fw.tensor([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]).to_sparse(1)
            optimizer.step()
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        return [p.tolist() for p in params], [s["step"] for s in optimizer.state_dict()["state"].values()]

    close(run(oneflow), run(torch), 1e-6)


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
@pytest.mark.parametrize("kinds", [("number", "tensor"), ("tensor", "number"), ("tensor", "tensor")])
def test_betas_are_both_numbers_or_both_tensors(name, kinds):
    def run(fw):
        betas = tuple(
            fw.tensor(beta) if kind == "tensor" else beta for kind, beta in zip(kinds, (0.9, 0.99), strict=True)
        )
        try:
            return len(getattr(fw.optim, name)([fw.nn.Parameter(fw.ones(2))], betas=betas).param_groups)
        except ValueError as error:
            return str(error)

    assert run(oneflow) == run(torch)


@pytest.mark.parametrize("name", [c for c in CLASSES if c not in ("Muon",)])
def test_complex_parameters(name):
    def run(fw):
        p = fw.nn.Parameter(fw.tensor([1.0 + 2.0j, -0.5j, 0.3], dtype=fw.complex128))
        try:
            optimizer = getattr(fw.optim, name)([p], lr=0.05)

            def closure():
                optimizer.zero_grad()
                loss = ((p - (0.2 + 0.1j)).abs() ** 2).sum()
                loss.backward()
                return loss

            for _ in range(3):
                optimizer.step(closure)
        except Exception as error:
            return error
        return fw.view_as_real(p.detach())

    ours, theirs = run(oneflow), run(torch)
    if isinstance(theirs, Exception):
        assert type(ours) is type(theirs)
    else:
        if isinstance(ours, Exception):
            raise ours
        close(ours, theirs, 1e-9)


@pytest.mark.parametrize("name", CLASSES)
def test_named_parameters_and_repr(name):
    def made(fw):
        params = list(parameters(fw, name, "float32"))
        return getattr(fw.optim, name)([(f"layer.{i}", p) for i, p in enumerate(params)], lr=0.1)

    ours, theirs = made(oneflow), made(torch)
    assert ours.param_groups[0]["param_names"] == theirs.param_groups[0]["param_names"]
    assert repr(ours) == repr(theirs)
    close(ours.state_dict(), theirs.state_dict(), 0)


def test_hooks_change_what_a_step_gets():
    def run(fw):
        seen = []
        params = list(parameters(fw, "SGD", "float64"))
        optimizer = fw.optim.SGD(params, lr=0.1)
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append((len(args), sorted(kwargs))))
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append((len(args), sorted(kwargs))))
        optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: loss_of(params)), {}))
        value = optimizer.step()
        optimizer.step(lambda: loss_of(params))
        return float(value.detach()), seen

    ours, theirs = run(oneflow), run(torch)
    assert ours[0] == pytest.approx(theirs[0]) and ours[1] == theirs[1]
    optimizer = oneflow.optim.SGD(list(parameters(oneflow, "SGD", "float64")), lr=0.1)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        optimizer.step()


def schedules(m, fw):
    def warm(o):
        return m.SequentialLR(o, [m.LinearLR(o, 0.1, 1.0, 4), m.CosineAnnealingLR(o, 10)], milestones=[4])

    def three(o):
        parts = [m.ConstantLR(o, 0.1, 3), m.ExponentialLR(o, 0.9), m.StepLR(o, 4, 0.5)]
        return m.SequentialLR(o, parts, milestones=[3, 11])

    def nested(o):
        chain = m.ChainedScheduler([m.LinearLR(o, 0.1, 1.0, 5), m.ConstantLR(o, 0.1, 5)])
        return m.SequentialLR(o, [chain, m.ConstantLR(o, 0.5, 5)], milestones=[5])

    def chained(o):
        parts = [m.ExponentialLR(o, 0.95), m.ConstantLR(o, 0.3, 4), m.CosineAnnealingLR(o, 12)]
        return m.ChainedScheduler(parts)

    return {
        "StepLR": lambda o: m.StepLR(o, 3, 0.5),
        "MultiStepLR": lambda o: m.MultiStepLR(o, [2, 5, 5, 17], 0.3),
        "ExponentialLR": lambda o: m.ExponentialLR(o, 0.9),
        "ConstantLR": lambda o: m.ConstantLR(o, 0.5, 4),
        "LinearLR": lambda o: m.LinearLR(o, 0.25, 0.75, 6),
        "PolynomialLR": lambda o: m.PolynomialLR(o, 8, 2.0),
        "CosineAnnealingLR": lambda o: m.CosineAnnealingLR(o, 5, 0.01),
        "CosineAnnealingWarmRestarts": lambda o: m.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
        "MultiplicativeLR": lambda o: m.MultiplicativeLR(o, lambda i: 0.9 + 0.001 * i),
        "MultiplicativeLR list": lambda o: m.MultiplicativeLR(o, [lambda i: 0.9, lambda i: 0.8]),
        "LambdaLR": lambda o: m.LambdaLR(o, lambda i: 1 / (1 + i)),
        "LambdaLR list": lambda o: m.LambdaLR(o, [lambda i: 1 / (1 + i), lambda i: 0.9**i]),
        "CyclicLR": lambda o: m.CyclicLR(o, 0.1, 1.0, step_size_up=4, step_size_down=3),
        "CyclicLR triangular2": lambda o: m.CyclicLR(o, [0.1, 0.2], [1.0, 2.0], step_size_up=4, mode="triangular2"),
        "CyclicLR exp_range": lambda o: m.CyclicLR(o, 0.1, 1.0, 4, mode="exp_range", gamma=0.9, cycle_momentum=False),
        "CyclicLR by hand": lambda o: m.CyclicLR(
            o, 0.1, 1.0, 4, scale_fn=lambda x: 1 / (1 + x), scale_mode="iterations"
        ),
        "OneCycleLR": lambda o: m.OneCycleLR(o, [0.5, 1.0], total_steps=40),
        "OneCycleLR three phases": lambda o: m.OneCycleLR(
            o, 0.5, epochs=8, steps_per_epoch=5, three_phase=True, anneal_strategy="linear", div_factor=10.0
        ),
        "SequentialLR": warm,
        "SequentialLR of three": three,
        "SequentialLR of a chain": nested,
        "ChainedScheduler": chained,
        "SWALR": lambda o: fw.optim.swa_utils.SWALR(o, 0.01, anneal_epochs=6),
        "SWALR linear": lambda o: fw.optim.swa_utils.SWALR(o, [0.01, 0.02], 5, "linear"),
        "StepLR from the middle": lambda o: m.StepLR(initial(o), 3, 0.5, last_epoch=4),
        "LinearLR from the middle": lambda o: m.LinearLR(initial(o), 0.25, 0.75, 6, last_epoch=2),
        "ExponentialLR from the middle": lambda o: m.ExponentialLR(initial(o), 0.9, last_epoch=2),
        "PolynomialLR from the middle": lambda o: m.PolynomialLR(initial(o), 40, 2.0, last_epoch=2),
        "MultiplicativeLR from the middle": lambda o: m.MultiplicativeLR(initial(o), lambda i: 0.9, last_epoch=2),
        "LambdaLR from the middle": lambda o: m.LambdaLR(initial(o), lambda i: 0.9**i, last_epoch=2),
        "CosineAnnealingLR from the middle": lambda o: m.CosineAnnealingLR(initial(o), 7, last_epoch=3),
    }


def initial(optimizer):
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    return optimizer


def test_every_schedule_of_pytorch_is_tried():
    m = torch.optim.lr_scheduler
    tried = {name.split()[0] for name in schedules(m, torch)} | {"ReduceLROnPlateau"}
    public = {n for n in dir(m) if n.endswith("LR") or n in ("ChainedScheduler", "CosineAnnealingWarmRestarts")}
    assert {n for n in public if not n.startswith("_")} <= tried | {"LRScheduler"}


# PyTorch's schedules inside a chain warn of their order, which the chain keeps.
@pytest.mark.filterwarnings("ignore:Detected call of")
@pytest.mark.parametrize("tensor_lr", [False, True])
@pytest.mark.parametrize("name", list(schedules(torch.optim.lr_scheduler, torch)))
def test_thirty_steps_of_a_schedule(name, tensor_lr):
    def run(fw, reload_at=None):
        a, b, c = parameters(fw, "SGD", "float64")
        number = (lambda x: fw.tensor(x, dtype=fw.float64)) if tensor_lr else float
        groups = [{"params": [a]}, {"params": [b, c], "lr": number(0.05)}]
        optimizer = fw.optim.SGD(groups, lr=number(0.2), momentum=0.9, foreach=False)
        make = schedules(fw.optim.lr_scheduler, fw)[name]
        schedule = make(optimizer)
        seen = [[(float(g["lr"]), g["momentum"]) for g in optimizer.param_groups]]
        for i in range(30):
            if i == reload_at:
                saved = copy.deepcopy((optimizer.state_dict(), schedule.state_dict()))
                schedule = make(optimizer)
                optimizer.load_state_dict(saved[0])
                schedule.load_state_dict(saved[1])
            optimizer.step()
            schedule.step()
            seen.append([(float(g["lr"]), g["momentum"]) for g in optimizer.param_groups])
            seen.append([(float(lr), 0) for lr in schedule.get_last_lr()])
        return seen

    theirs = run(torch)
    close(run(oneflow), theirs, 1e-9)
    close(run(oneflow, 13), theirs, 1e-9)


@pytest.mark.filterwarnings("ignore:Detected call of")
@pytest.mark.parametrize("name", list(schedules(torch.optim.lr_scheduler, torch)))
def test_a_schedules_state_survives_a_round_trip_through_pytorch(name):
    def start(fw):
        a, b, c = parameters(fw, "SGD", "float64")
        optimizer = fw.optim.SGD([{"params": [a]}, {"params": [b, c], "lr": 0.05}], lr=0.2, momentum=0.9)
        return optimizer, schedules(fw.optim.lr_scheduler, fw)[name](optimizer)

    def walk(optimizer, schedule, n):
        for _ in range(n):
            optimizer.step()
            schedule.step()
            yield [(g["lr"], g["momentum"]) for g in optimizer.param_groups]

    pairs = {fw: start(fw) for fw in (torch, oneflow)}
    for fw in pairs:
        list(walk(*pairs[fw], 7))
    states = {fw: copy.deepcopy([part.state_dict() for part in pairs[fw]]) for fw in pairs}
    expected = list(walk(*pairs[torch], 9))
    for source, target in ((torch, oneflow), (oneflow, torch)):
        twins = start(target)
        for twin, state in zip(twins, states[source], strict=True):
            twin.load_state_dict(state)
        close(list(walk(*twins, 9)), expected, 1e-9)


LAZY = [
    ("LazyLinear", (5,), (2, 3)),
    ("LazyConv1d", (4, 3), (2, 3, 9)),
    ("LazyConv2d", (4, 3), (2, 3, 9, 9)),
    ("LazyConv3d", (4, 3), (2, 3, 5, 5, 5)),
    ("LazyConvTranspose1d", (4, 3), (2, 3, 9)),
    ("LazyConvTranspose2d", (4, 3), (2, 3, 5, 5)),
    ("LazyConvTranspose3d", (4, 3), (2, 3, 4, 4, 4)),
    ("LazyBatchNorm1d", (), (4, 3, 5)),
    ("LazyBatchNorm2d", (), (4, 3, 5, 5)),
    ("LazyBatchNorm3d", (), (4, 3, 2, 3, 3)),
    ("LazyInstanceNorm1d", (), (4, 3, 5)),
    ("LazyInstanceNorm2d", (), (4, 3, 5, 5)),
    ("LazyInstanceNorm3d", (), (4, 3, 2, 3, 3)),
]


def test_every_lazy_module_is_tried():
    assert {n for n in dir(torch.nn) if n.startswith("Lazy")} == {name for name, _, _ in LAZY}


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("name, args, shape", LAZY)
def test_lazy_module(name, args, shape, affine):
    kwargs = {"affine": affine} if "Norm" in name else {"bias": affine}
    x = torch.linspace(-1, 2, math.prod(shape)).reshape(shape)
    theirs = getattr(torch.nn, name)(*args, **kwargs)
    ours = getattr(oneflow.nn, name)(*args, **kwargs)
    for module in (ours, theirs):
        for p in module.parameters():
            with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
                p.shape
    assert sorted(ours.state_dict()) == sorted(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    for module in (ours, theirs):
        assert module.has_uninitialized_params()
    theirs(x)
    lazy_state = {k: oneflow.tensor(v.tolist()) for k, v in theirs.state_dict().items()}
    ours.load_state_dict(lazy_state)
    assert not ours.has_uninitialized_params()
    fresh = oneflow.tensor(x.tolist())
    got = ours(fresh)
    assert type(ours).__name__ == type(theirs).__name__
    ours.load_state_dict(lazy_state)
    theirs.eval(), ours.eval()
    torch.testing.assert_close(torch.tensor(ours(fresh).tolist()), theirs(x).detach(), rtol=1e-4, atol=1e-5)
    assert list(got.shape) == list(theirs(x).shape)
    assert repr(ours) == repr(theirs)
