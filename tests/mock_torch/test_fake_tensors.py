"""Tensors without values (``torch._subclasses.fake_tensor``) beside PyTorch's: what they show, ops, models, errors."""

import copy
import importlib
import re

import numpy as np
import oneflow
import pytest
import torch
import torch._subclasses.fake_tensor
from oneflow.mock_torch.private import find

pytestmark = pytest.mark.filterwarnings("ignore")
OURS = importlib.import_module(find("torch._subclasses.fake_tensor"))
THEIRS = torch._subclasses.fake_tensor
BOTH = ((oneflow, OURS), (torch, THEIRS))


def shown(value):
    """What a result shows; nodes of gradients have other names."""
    if isinstance(value, (list, tuple)):
        return [shown(v) for v in value]
    if isinstance(value, (OURS.FakeTensor, THEIRS.FakeTensor)):
        name = re.sub("grad_fn=<.*?>", "grad_fn", re.sub(r"\s+", " ", repr(value))).replace("oneflow.", "torch.")
        return name, tuple(value.shape), value.stride(), str(value.dtype).partition(".")[2], str(value.device)
    return type(value).__name__ if isinstance(value, (oneflow.Tensor, torch.Tensor)) else value


def outcome(fw, fake, function, *args):
    try:
        return shown(function(fw, *args))
    except (RuntimeError, AssertionError) as e:
        return type(e).__name__, str(e).partition(". Found in")[0]


CALLS = {
    "makers": lambda fw, x: [
        fw.zeros(2, 3),
        fw.randn(4, device="cuda"),
        fw.arange(5),
        fw.full((2,), 1.5, dtype=fw.half),
    ],
    "arithmetic": lambda fw, x: [x + 1, x * x, x / 2, x @ x.t(), x.sum(), x.mean(0), x > 0],
    "views": lambda fw, x: [x.t(), x[0], x[:, 1:], x.view(-1), x.unsqueeze(0).expand(2, 3, 4), x.permute(1, 0)],
    "in place": lambda fw, x: [x.add_(1) is x, x.mul_(2).zero_(), x[0].fill_(1.0)],
    "other devices": lambda fw, x: [x.cuda(), x.to("cuda"), x.to("cuda:1"), x.to("cuda").cpu(), x.to("meta")],
    "dtypes": lambda fw, x: [x.double(), x.to(fw.bfloat16), x.int(), x.to("cuda", fw.half)],
    "values": lambda fw, x: [fw.tensor([1.0, 2.0]), fw.tensor(3).item(), x + fw.tensor(1.0), fw.as_tensor([1, 2])],
    "numbers beside a device": lambda fw, x: x.cuda() * fw.tensor(2.0),
    "two devices": lambda fw, x: x + x.cuda(),
    "item": lambda fw, x: x.sum().item(),
    "truth": lambda fw, x: bool(x.sum() > 0),
    "list": lambda fw, x: x.tolist(),
    "numpy": lambda fw, x: x.numpy(),
    "nonzero": lambda fw, x: x.nonzero(),
    "mask": lambda fw, x: x[x > 0],
    "masked_select": lambda fw, x: fw.masked_select(x, x > 0),
    "gradient": lambda fw, x: fw.autograd.grad((x.requires_grad_() ** 2).sum(), x),
    "indexed": lambda fw, x: [
        x[fw.tensor([0, 1])],
        x.gather(1, fw.zeros(3, 2, dtype=fw.long)),
        x.index_select(0, fw.tensor([1])),
    ],
    "joined": lambda fw, x: [fw.cat([x, x]), fw.stack([x, x], 1), *x.split(2, 1), *x.chunk(2), fw.where(x > 0, x, 0.0)],
    "sorted": lambda fw, x: [*x.sort(), *x.topk(2), x.argmax(1), x.cumsum(0)],
    "copied": lambda fw, x: [copy.deepcopy(x), x.clone(), x.detach(), fw.empty_like(x), x.new_zeros(2)],
    "a real operand": lambda fw, x: x.add(fw.nn.Parameter(fw.ones(3, 4)).data) is not None,
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    results = []
    for fw, module in BOTH:
        with module.FakeTensorMode():
            results.append(outcome(fw, module, CALLS[name], fw.randn(3, 4)))
    assert results[0] == results[1]


MODELS = {
    "convolutions": lambda nn: (
        nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2)
        ),
        (2, 3, 8, 8),
    ),
    "attention": lambda nn: (nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), (2, 5, 16)),
    "norms": lambda nn: (
        nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.1), nn.RMSNorm(8)),
        (3, 8),
    ),
    "transposed": lambda nn: (
        nn.Sequential(nn.ConvTranspose1d(2, 3, 2), nn.GroupNorm(3, 3), nn.ReflectionPad1d(1)),
        (2, 2, 6),
    ),
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", MODELS)
def test_models_train_without_values(name, device):
    results = []
    for fw, module in BOTH:
        with module.FakeTensorMode(), fw.device(device):
            model, sizes = MODELS[name](fw.nn)
            optimizer = fw.optim.AdamW(model.parameters())
            y = model(fw.randn(*sizes, device=device))
            # PyTorch asks the driver for the device in backward.
            if fw is oneflow or device == "cpu":
                y.pow(2).mean().backward()
                optimizer.step()
            gradients = [p.grad for p in model.parameters() if device == "cpu"]
            results.append(shown([y, *model.parameters(), *gradients]))
    assert results[0] == results[1]


def test_fakes_of_tensors():
    results = []
    for fw, module in BOTH:
        mode, real = module.FakeTensorMode(), fw.ones(4, 5).t()
        fake, parameter = mode.from_tensor(real), mode.from_tensor(fw.nn.Parameter(fw.ones(2)))
        found = [
            fake,
            mode.from_tensor(real) is fake,
            fake @ fake.t(),
            parameter,
            isinstance(parameter, fw.nn.Parameter),
        ]
        found += [module.is_fake(fake), module.is_fake(real), fake.fake_mode is mode, str(fake.fake_device)]
        found.append(outcome(fw, module, lambda fw, a=fake, b=real: a + b))
        with mode, module.unset_fake_temporarily():
            found.append(type(fw.ones(2)) is fw.Tensor)
        with module.FakeTensorMode(allow_non_fake_inputs=True):
            found += [real + 1, fw.ones(5) * real.sum()]
        results.append(shown(found))
    assert results[0] == results[1]


def test_modes_do_not_mix():
    for _, module in BOTH:
        with module.FakeTensorMode():
            x = oneflow.ones(2) if module is OURS else torch.ones(2)
        with module.FakeTensorMode(), pytest.raises(AssertionError, match="Mixing fake modes"):
            x + 1


def test_sizes_as_symbols_are_refused():
    for settings in ({"shape_env": object()}, {"static_shapes": False}):
        with pytest.raises(NotImplementedError, match="symbols"):
            OURS.FakeTensorMode(**settings)
    with pytest.raises(NotImplementedError, match="symbols"):
        OURS.FakeTensorMode().from_tensor(oneflow.ones(2), static_shapes=False)


def test_modes_of_functions_hear_what_makes_tensors_of_values():
    for fw in (oneflow, torch):
        heard = []

        class Names(fw.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None, heard=heard):
                heard.append(func.__name__)
                return func(*args, **(kwargs or {}))

        with Names():
            fw.tensor([1.0]), fw.as_tensor(np.ones(2)), fw.asarray([1]), fw.ones(2)
        assert heard == ["tensor", "as_tensor", "asarray", "ones"]
