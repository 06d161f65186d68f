"""`oneflow.jit.trace`: modules and functions as programs, their files, and the weights of TorchScript's archives."""

import copy
import io
import pickle
import warnings

import oneflow
import pytest
import torch
from oneflow import jit, nn


def _net():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 5),
    )


def test_a_traced_module_shares_its_parameters_and_runs_at_other_sizes():
    model = _net().eval()
    traced = jit.trace(model, oneflow.randn(2, 3, 8, 8))
    assert isinstance(traced, jit.ScriptModule) and not traced.training and not isinstance(model, jit.ScriptModule)
    assert "linear" in traced.code and traced.graph.find_nodes(op="placeholder")[-1].name == "input_1"
    assert list(traced.state_dict()) == list(model.state_dict())
    x = oneflow.randn(5, 3, 10, 12)
    file = io.BytesIO()
    traced.save(file, _extra_files={"labels": "a b"})
    extra = {"labels": ""}
    loaded = jit.load(io.BytesIO(file.getvalue()), _extra_files=extra)
    assert extra == {"labels": "a b"}
    for made in (traced, loaded, copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        assert oneflow.allclose(made(x), model(x), atol=1e-6)
    model[0].weight.data.mul_(2)
    assert oneflow.allclose(traced(x), model(x), atol=1e-5) and not oneflow.allclose(loaded(x), model(x), atol=1e-5)
    loaded.load_state_dict(model.state_dict())
    assert oneflow.allclose(loaded(x), model(x), atol=1e-5)
    traced(x).sum().backward()
    assert model[5].weight.grad is not None
    with pytest.raises(AssertionError, match=r"size\(\)\[1\] == 3"):
        traced(oneflow.randn(2, 4, 8, 8))


def test_a_traced_module_trains_as_the_module_does():
    oneflow.manual_seed(0)
    model = _net().train()
    twin = copy.deepcopy(model)
    traced = jit.trace(model, oneflow.randn(2, 3, 8, 8))
    assert oneflow.equal(model[1].running_mean, twin[1].running_mean), (
        "tracing and its check leave buffers as they were"
    )
    ours, theirs = (oneflow.optim.SGD(m.parameters(), 0.1) for m in (traced, twin))
    for step in range(4):
        x, y = oneflow.randn(6, 3, 8, 8), oneflow.randint(0, 5, (6,))
        losses = [nn.functional.cross_entropy(m(x), y) for m in (traced, twin)]
        assert oneflow.allclose(*losses, atol=1e-6), step
        for optimizer, loss in zip((ours, theirs), losses, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert oneflow.allclose(model[1].running_var, twin[1].running_var, atol=1e-6)
    assert int(model[1].num_batches_tracked) == 4


def test_traced_functions_and_what_is_checked():
    traced = jit.trace(lambda a, b: ((a @ b).relu(), [a.sum()]), (oneflow.randn(2, 3), oneflow.randn(3, 4)))
    assert isinstance(traced, jit.ScriptFunction)
    product, (total,) = traced(oneflow.ones(7, 5), oneflow.ones(5, 1))
    assert product.shape == (7, 1) and float(total) == 35
    calls = []

    def counts(x):
        calls.append(1)
        return x + len(calls)

    with pytest.warns(jit.TracerWarning, match="does not match"):
        jit.trace(counts, oneflow.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        noisy = jit.trace(lambda x: x * oneflow.rand(3), oneflow.ones(3))
    assert not oneflow.equal(noisy(oneflow.ones(3)), noisy(oneflow.ones(3)))
    with pytest.raises(RuntimeError, match="trac"):
        jit.trace(lambda x: x if x.sum() > 0 else -x, oneflow.ones(2))
    with pytest.raises(NotImplementedError, match="forward alone"):
        jit.trace_module(nn.ReLU(), {"extra_repr": oneflow.ones(1)})
    with pytest.raises(TypeError, match="trace it with example inputs"):
        jit.save(nn.ReLU(), io.BytesIO())
    with pytest.raises(ValueError, match="does not exist"):
        jit.load("/nothing/here.pt")


def test_script_leaves_python_as_it_is_and_says_so_once():
    jit._said.clear()
    with pytest.warns(UserWarning, match="leaves Python as it is"):
        assert jit.script(len) is len
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jit.script(len) is len


@pytest.mark.filterwarnings("ignore:.*is deprecated", "ignore:.*is not supported in Python 3.1")
@pytest.mark.parametrize("kind", ["trace", "script"])
def test_weights_of_torchscript_archives(kind, tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.LSTM(2, 3)).eval()
    path = str(tmp_path / "m.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = torch.jit.trace(model, torch.ones(2, 3)) if kind == "trace" else torch.jit.script(model)
        made.save(path)
    with pytest.warns(UserWarning, match="its program is not"):
        weights = oneflow.load(path)
    expected = model.state_dict()
    assert set(weights) >= set(expected)
    assert all(torch.equal(torch.from_numpy(weights[k].numpy()), v) for k, v in expected.items())
    with pytest.raises(ValueError, match="TorchScript archive, whose programs are not read"):
        jit.load(path)
