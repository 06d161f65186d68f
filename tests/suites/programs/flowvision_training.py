"""flowvision imports whole, and its models train: `make suites SOURCE=DIR ARGS=training` with its checkout."""

import importlib
import pkgutil

import flowvision
import oneflow
import pytest

MODULES = sorted(m.name for m in pkgutil.walk_packages(flowvision.__path__, "flowvision."))
# Arguments that make a model small.
MODELS = {
    "alexnet": {},
    "resnet18": {},
    "mobilenet_v2": {},
    "mobilenet_v3_small": {},
    "shufflenet_v2_x0_5": {},
    "squeezenet1_1": {},
    "densenet121": {},
    "mnasnet0_5": {},
    "ghostnet": {},
}


@pytest.mark.parametrize("name", MODULES)
def test_module_imports(name):
    importlib.import_module(name)


@pytest.mark.parametrize("name", MODELS)
def test_model_learns_a_batch(name):
    oneflow.manual_seed(0)
    model = getattr(flowvision.models, name)(num_classes=4, **MODELS[name])
    for layer in model.modules():
        if isinstance(layer, oneflow.nn.Dropout):
            layer.p = 0.0
    optimizer = oneflow.optim.AdamW(model.parameters(), lr=1e-3)
    images, labels = oneflow.randn(4, 3, 96, 96), oneflow.tensor([0, 1, 2, 3])
    losses = []
    for _ in range(6):
        loss = oneflow.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    assert min(losses[1:]) < losses[0]
