"""State dictionaries by names: what their options choose and refuse, the same as PyTorch's of the same modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oneflow
import oneflow.distributed.checkpoint.state_dict as ours
import pytest
import torch
import torch.distributed.checkpoint.state_dict as theirs

PACKAGES = ((oneflow, ours), (torch, theirs))


def trained(package: Any, named: bool = False, momentum: float | None = None) -> tuple[Any, Any]:
    """A module, and an optimizer that has made a step."""
    nn = package.nn
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)), nn.Linear(3, 1))
    with package.no_grad():
        for p in model.parameters():
            p.copy_(package.arange(p.numel(), dtype=package.float32).view(p.shape) * 0.1)
    params = model.named_parameters() if named else model.parameters()
    optim = package.optim
    made = optim.Adam(params, lr=0.1) if momentum is None else optim.SGD(params, lr=0.1, momentum=momentum)
    for p in model.parameters():
        p.grad = package.full_like(p, 0.5)
    made.step()
    return model, made


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return (list(value.shape), value.tolist()) if hasattr(value, "shape") else value


def same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected), (found, expected)
    if isinstance(found, dict):
        assert sorted(found) == sorted(expected)
        for key, value in found.items():
            same(value, expected[key])
    elif isinstance(found, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(found, float):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    else:
        assert found == expected


def both(call: Callable[[Any, Any], Any]) -> Any:
    """What a function of a package gives in both, an error by its class."""
    results = []
    for package, functions in PACKAGES:
        try:
            results.append(plain(call(package, functions)))
        except (RuntimeError, ValueError, KeyError) as error:
            results.append(type(error).__name__)
    same(*results)
    return results[0]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("path", [[0], [1], [0, 2]])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_entries_of_chosen_modules(path: list[int], keep: bool) -> None:
    def call(package: Any, functions: Any) -> Any:
        model, _ = trained(package)
        options = functions.StateDictOptions(keep_submodule_prefixes=keep)
        return functions.get_model_state_dict(model, submodules={model[i] for i in path}, options=options)

    assert len(both(call)) == (2 if path == [0, 2] and not keep else 2 * len(path) + 2 * (path == [1]))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_modules_in_place_of_names() -> None:
    def call(package: Any, functions: Any) -> Any:
        model, _ = trained(package)
        given = {model[1]: {"0.bias": package.ones(3)}}
        options = functions.StateDictOptions(strict=False)
        found = functions.set_model_state_dict(model, given, options=options)
        return sorted(found.missing_keys), list(found.unexpected_keys), model[1][0].bias

    missing, unexpected, bias = both(call)
    assert len(missing) == 7 and not unexpected and bias == ([3], [1.0] * 3)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("missing", ["state", "group", "all", "none"])
@pytest.mark.parametrize("momentum", [None, 0.9])
def test_states_of_parameters_that_are_missing(momentum: float | None, missing: str, strict: bool) -> None:
    def call(package: Any, functions: Any) -> Any:
        saved = functions.get_optimizer_state_dict(*trained(package, momentum=momentum))
        if missing in ("state", "group"):
            del saved["state"]["1.0.weight"]
        if missing == "group":
            saved["param_groups"][0]["params"].remove("1.0.weight")
        if missing == "all":
            saved["state"] = {}
        model, optimizer = trained(package, momentum=momentum)
        options = functions.StateDictOptions(strict=strict)
        functions.set_optimizer_state_dict(model, optimizer, saved, options=options)
        return sorted(optimizer.state_dict()["state"])

    assert (both(call) == "RuntimeError") == (strict and missing in ("state", "group"))


def test_optimizers_that_keep_nothing_need_nothing() -> None:
    model, optimizer = trained(oneflow, momentum=0.0)
    saved = ours.get_optimizer_state_dict(model, optimizer)
    saved["state"] = {}
    ours.set_optimizer_state_dict(model, optimizer, saved)
    model, optimizer = trained(oneflow)
    with pytest.raises(RuntimeError, match=r"the state of the Adam for parameter '0.weight' is missing"):
        ours.set_optimizer_state_dict(model, optimizer, {})


@pytest.mark.parametrize("flat", [True, False])
def test_names_that_an_optimizer_was_given(flat: bool) -> None:
    def call(package: Any, functions: Any) -> Any:
        model, optimizer = trained(package, named=True)
        options = functions.StateDictOptions(flatten_optimizer_state_dict=flat)
        saved = functions.get_optimizer_state_dict(model, optimizer, options=options)
        functions.set_optimizer_state_dict(model, optimizer, saved, options=options)
        keys = [key for key in saved if "param_names" in key] if flat else saved["param_groups"][0]["param_names"]
        return sorted(keys), optimizer.state_dict()["param_groups"][0]["param_names"]

    assert len(both(call)[0]) == 8


def test_what_is_no_part_of_a_model_is_refused() -> None:
    model, optimizer = trained(oneflow)
    other = oneflow.nn.Linear(1, 1)
    with pytest.raises(ValueError, match="a Linear is given that is no module of the Sequential"):
        ours.get_model_state_dict(model, submodules={other})
    with pytest.raises(ValueError, match="a Linear is given that is no module of the Sequential"):
        ours.set_model_state_dict(model, {other: other.state_dict()})
    with pytest.raises(NotImplementedError, match="submodules chooses entries of a model"):
        ours.get_optimizer_state_dict(model, optimizer, submodules={model[0]})
    assert ours.get_state_dict(model, [], submodules={model[0]})[0].keys() == {"0.weight", "0.bias"}
