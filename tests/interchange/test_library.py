"""The model library and the zoo of the tests: ONNX Runtime at the traced and at two other sizes."""

import numpy as np
import oneflow as flow
import pytest
from interchange.exporting import check
from models.zoo import define
from models_library.cases import CASES

ZOO = define(flow)
# Models of sequences of any length, and the inputs that are sequences.
LENGTHS = {"gpt2": (0,), "llama": (0,), "bert": (0, 1, 2), "bert pretraining": (0, 1, 2), "bert classifier": (0, 1, 2)}
LENGTHS |= {"t5": (0, 1, 2), "t5 1.1": (0, 1, 2), "lstm": (0,), "moe llama": (0,)}
ZOO_LENGTHS = {"nanogpt": (0,), "mingpt": (0,), "bert": (0, 1), "lstm": (0,)}


def compare(session, call, arrays, sequences):
    """Exports with an open batch and, where there are sequences, open lengths: one for each different length."""
    names = {arrays[i].shape[1]: f"length_{i}" for i in sequences}
    shapes = [{0: "batch"} | ({1: names[a.shape[1]]} if i in sequences else {}) for i, a in enumerate(arrays)]
    feeds = []
    for rows, shorter in ((None, 4), ([0, 1, 0, 1, 1], 0), ([1, 0, 0], 2)):
        feed = [a if rows is None else a[rows] for a in arrays]
        feed = [a[:, : a.shape[1] - shorter] if i in sequences else a for i, a in enumerate(feed)]
        feeds.append(tuple(flow.tensor(np.ascontiguousarray(a)) for a in feed))
    check(session, call, feeds[0], feeds[1:], tolerance=1e-4, dynamic_shapes=tuple(shapes))


class Called(flow.nn.Module):
    """A model that is called in a way of its own."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model, call

    def forward(self, *given):
        return self.call(self.model, *given)


@pytest.mark.parametrize("name", CASES)
def test_models_of_the_library(session, name, tmp_path):
    import torch

    torch.manual_seed(0)
    case = CASES[name]
    model = Called(case.load(case.save(case.reference().eval(), tmp_path)).float().eval(), case.our_call)
    compare(session, model, case.inputs(np.random.default_rng(0)), LENGTHS.get(name, ()))


@pytest.mark.parametrize("name", ZOO)
def test_models_of_the_zoo(session, name):
    flow.manual_seed(0)
    *arrays, _ = ZOO[name].inputs(np.random.default_rng(0))
    compare(session, ZOO[name].model().eval(), arrays, ZOO_LENGTHS.get(name, ()))


@pytest.mark.parametrize("name", ZOO)
def test_an_exported_and_imported_model_trains_to_the_same_losses(name):
    flow.manual_seed(0)
    case, rng = ZOO[name], np.random.default_rng(0)
    model = case.model().eval()
    feeds = [[flow.tensor(np.ascontiguousarray(a)) for a in case.inputs(rng)] for _ in range(4)]
    again = flow.onnx.load(flow.onnx.export(model, tuple(feeds[0][:-1])).to_bytes()).eval()
    names = [name for name, _ in model.named_parameters()]
    theirs = dict(again.named_parameters())
    assert set(names) <= set(theirs)

    def losses(module, parameters):
        optimizer = flow.optim.SGD(parameters, lr=0.05, momentum=0.9)
        found = []
        for given in feeds:
            optimizer.zero_grad()
            loss = case.loss(module(*given[:-1]), *given)
            loss.backward()
            optimizer.step()
            found.append(float(loss.detach()))
        return found

    assert np.allclose(losses(model, model.parameters()), losses(again, [theirs[n] for n in names]), rtol=1e-5)
    for key, parameter in model.named_parameters():
        assert flow.allclose(parameter, theirs[key], rtol=1e-4, atol=1e-5), key
