"""`optim.functional` beside PyTorch: every function and setting, several steps over parameters of several shapes."""

import inspect
import itertools

import numpy as np
import oneflow
import oneflow.optim.functional
import pytest
import torch
import torch.optim.functional

SHAPES = [(3,), (2, 4), (1, 2, 3)]
# States by their names in a signature, and what they hold at first; the others hold zeros.
FIRST = {"mus": 1.0, "mu_products": 1.0, "etas": 0.01, "step_sizes": 0.01}
SCALARS = ("mus", "etas", "mu_products")
SETTINGS = {
    "adadelta": {"lr": [1.0], "rho": [0.9], "eps": [1e-6]},
    "adafactor": {"d": [1.0], "lr": [0.01], "beta2_decay": [-0.8], "eps1": [None], "eps2": [1e-3]},
    "adagrad": {"lr": [0.01], "lr_decay": [0.0, 0.1], "eps": [1e-10]},
    "adam": {
        "amsgrad": [False, True],
        "beta1": [0.9],
        "beta2": [0.99],
        "lr": [0.01],
        "eps": [1e-8],
        "decoupled_weight_decay": [False, True],
    },
    "adamax": {"beta1": [0.9], "beta2": [0.99], "lr": [0.01], "eps": [1e-8]},
    "adamw": {"amsgrad": [False, True], "beta1": [0.9], "beta2": [0.99], "lr": [0.01], "eps": [1e-8]},
    "asgd": {"lambd": [1e-2], "lr": [0.01], "t0": [1.0, 1e6], "alpha": [0.75]},
    "muon": {
        "lr": [0.01],
        "momentum": [0.9],
        "nesterov": [False, True],
        "ns_coefficients": [(3.4445, -4.775, 2.0315)],
        "ns_steps": [5],
        "eps": [1e-7],
        "adjust_lr_fn": [None, "match_rms_adamw"],
        "has_complex": [False],
    },
    "nadam": {
        "beta1": [0.9],
        "beta2": [0.99],
        "lr": [0.01],
        "momentum_decay": [4e-3],
        "eps": [1e-8],
        "decoupled_weight_decay": [False, True],
    },
    "radam": {"beta1": [0.9], "beta2": [0.99], "lr": [0.01], "eps": [1e-8], "decoupled_weight_decay": [False, True]},
    "rmsprop": {"lr": [0.01], "alpha": [0.9], "eps": [1e-8], "momentum": [0.0, 0.9], "centered": [False, True]},
    "rprop": {"step_size_min": [1e-6], "step_size_max": [0.5], "etaminus": [0.5], "etaplus": [1.2]},
    "sgd": {"momentum": [0.0, 0.9], "lr": [0.01], "dampening": [0.0, 0.3], "nesterov": [False]},
    "sparse_adam": {"beta1": [0.9], "beta2": [0.99], "lr": [0.01], "eps": [1e-8]},
}


def lists(fw, name, settings, values):
    """Parameters and the lists of states that the function takes, in its order."""
    f = getattr(torch.optim.functional, name)
    names = [n for n, p in inspect.signature(f).parameters.items() if "ist[" in str(p.annotation)]
    params = [fw.tensor(v) for v in values]
    made = {}
    for state in names[2:]:
        if state == "state_steps":
            made[state] = [fw.tensor(0.0) for _ in params]
        elif state == "momentum_buffer_list" and name == "sgd":
            made[state] = [None] * len(params)
        elif (
            (state == "momentum_buffer_list" and not settings.get("momentum"))
            or (state == "grad_avgs" and not settings["centered"])
            or (state == "max_exp_avg_sqs" and not settings["amsgrad"])
        ):
            made[state] = []
        elif state in ("row_vars", "col_vars"):
            dim = -1 if state == "row_vars" else -2
            made[state] = [p.mean(dim, keepdim=True) * 0 if p.ndim > 1 else None for p in params]
        elif state == "variances":
            made[state] = [p * 0 if p.ndim == 1 else None for p in params]
        elif state in SCALARS:
            made[state] = [fw.tensor(FIRST[state]) for _ in params]
        else:
            made[state] = [p * 0 + FIRST.get(state, 0.0) for p in params]
    return params, made


def steps(fw, name, settings, values, gradients):
    params, states = lists(fw, name, settings, values)
    for n, row in enumerate(gradients):
        grads = [fw.tensor(g) for g in row]
        if name == "sparse_adam":
            grads = [g.to_sparse(1) for g in grads]
            states["state_steps"] = [n + 1] * len(params)
        getattr(fw.optim.functional, name)(params, grads, *states.values(), **settings)
    return params, states


def cases():
    for name, table in SETTINGS.items():
        keys = inspect.signature(getattr(torch.optim.functional, name)).parameters
        table = dict(table)
        if "weight_decay" in keys:
            table["weight_decay"] = [0.0, 0.1]
        if "maximize" in keys:
            table["maximize"] = [False, True]
        for values in itertools.product(*table.values()):
            yield name, dict(zip(table, values, strict=True))
    yield (
        "sgd",
        {
            **{k: v[-1] for k, v in SETTINGS["sgd"].items()},
            "dampening": 0.0,
            "nesterov": True,
            "weight_decay": 0.1,
            "maximize": False,
        },
    )


@pytest.mark.parametrize(("name", "settings"), cases())
def test_steps_are_torchs(name, settings):
    rng = np.random.default_rng(0)
    shapes = {"muon": [(3, 4), (5, 2)], "sparse_adam": [(4, 2), (3, 3)]}.get(name, SHAPES)
    values = [rng.standard_normal(s).astype("f") for s in shapes]
    gradients = [[rng.standard_normal(s).astype("f") for s in shapes] for _ in range(4)]
    ours, theirs = (steps(fw, name, settings, values, gradients) for fw in (oneflow, torch))
    loose = {"rtol": 2e-2, "atol": 2e-3} if name == "muon" else {"rtol": 2e-5, "atol": 2e-6}
    for a, b in zip(ours[0], theirs[0], strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), **loose)
    for state, kept in theirs[1].items():
        for a, b in zip(ours[1][state], kept, strict=True):
            assert (a is None) == (b is None)
            if b is not None:
                np.testing.assert_allclose(np.asarray(a), np.asarray(b), err_msg=state, **loose)


def test_functions_stand_in_their_modules():
    for name in ("adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop", "rprop", "sgd"):
        module = __import__(f"oneflow.optim.{name}", fromlist=[name])
        assert getattr(module, name) is getattr(oneflow.optim.functional, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = oneflow.optim.adam.nothing


def test_errors():
    w, settings = (
        oneflow.ones(2),
        {"weight_decay": 0, "momentum": 0, "dampening": 0, "nesterov": False, "maximize": False},
    )
    sgd, radam = oneflow.optim.functional.sgd, oneflow.optim.functional.radam
    with pytest.raises(ValueError, match="1 parameters and 0 grads"):
        sgd([w], [], [], lr=0.1, **settings)
    with pytest.raises(ValueError, match="2 parameters and 1 momentum_buffer"):
        sgd([w, w.clone()], [w, w], [w], lr=0.1, **settings)
    with pytest.raises(ValueError, match="learning rate"):
        sgd([w], [w], [], lr=-1.0, **settings)
    betas = {"beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0, "eps": 1e-8}
    with pytest.raises(RuntimeError, match="singleton tensors"):
        radam([w], [w], [w * 0], [w * 0], [0], **betas)
    with pytest.raises(NotImplementedError, match="differentiable=True"):
        radam([w], [w], [w * 0], [w * 0], [oneflow.tensor(0.0)], differentiable=True, **betas)
    assert w.tolist() == [1.0, 1.0]
    sgd([], [], [], lr=0.1, **settings)
