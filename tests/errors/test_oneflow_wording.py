"""Errors under OneFlow's conventions: PyTorch's text, and OneFlow's sentence on a separate line."""

import pickle

import oneflow as flow
import pytest
from oneflow._base import wording

F = flow.nn.functional
P = flow.placement("cpu", [0])

# A call that raises, and a part of OneFlow's sentence.
CASES = {
    "leaf": (lambda: flow.ones(2, requires_grad=True).mul_(2), "a leaf Tensor that requires grad is being used"),
    "in place": (lambda: flow.ones(2, 3).add_(flow.ones(2, 4)), "Tensor with shape (2,3) doesn't match the broadcast"),
    "expand": (lambda: flow.ones(3, 3).mul_(flow.ones(2, 3, 3)), "Can not expand origin shape (2,3,3) to (3,3)"),
    "broadcast": (lambda: flow.ones(2, 3) + flow.ones(4, 3), "input and other can't be broadcasted to a single shape."),
    "broadcast_shapes": (lambda: flow.broadcast_shapes((2,), (3, 3)), "can't be broadcasted to a single shape."),
    "no gradient": (lambda: flow.ones(2).sum().backward(), "\nRuntimeError: element 0 of tensors does not require"),
    "gather": (lambda: flow.ones(2, 2).gather(1, flow.ones(4, 2).long()), "Size does not match at dimension 0"),
    "gather dtype": (lambda: flow.ones(2).gather(0, flow.ones(2)), "gather(): Expected dtype int32 or int64 for index"),
    "meshgrid": (lambda: flow.meshgrid(flow.ones(1, 2)), "Expected scalar or 1D tensor in the tensor list"),
    "prelu": (lambda: flow.nn.PReLU(5)(flow.ones(4, 4)), "num_parameters in prelu must be 1 or 4"),
    "softshrink": (
        lambda: F.softshrink(flow.ones(2), -0.5),
        "alpha must be greater or equal to 0, but found to be -0.5.",
    ),
    "bmm": (
        lambda: flow.bmm(flow.ones(2), flow.ones(2)),
        "Expected 3-dimensional tensor, but got 1-dimensional tensor",
    ),
    "mm": (lambda: flow.mm(flow.ones(2, 3), flow.ones(3, 3, 2)), "mat2 must be a matrix"),
    "mm sizes": (lambda: flow.mm(flow.ones(2, 3), flow.ones(4, 3)), "shapes cannot be multiplied (2x3 and 4x3)"),
    "mv": (lambda: flow.mv(flow.ones(2, 3), flow.ones(3, 1)), "vector + matrix @ vector expected, got 1, 2, 2"),
    "mv sizes": (lambda: flow.mv(flow.ones(2, 3), flow.ones(4)), "size mismatch, got 1, 2x3, 4"),
    "dot": (lambda: flow.dot(flow.ones(2, 2), flow.ones(2, 2)), "1D tensors expected, but got 2D and 2D tensors"),
    "dot sizes": (lambda: flow.dot(flow.ones(2), flow.ones(3)), "inconsistent tensor size"),
    "matmul": (lambda: flow.ones(()) @ flow.ones(2, 2), "Tensor a's dim should >= 1"),
    "grid_sample": (
        lambda: F.grid_sample(flow.ones(1, 1, 2, 2), flow.ones(1, 2, 2), align_corners=True),
        "same dimention",
    ),
    "inv": (lambda: flow.linalg.inv(flow.ones(2)), "linalg.inv: The input tensor must be at least 2 dimensions."),
    "layer_norm": (
        lambda: F.layer_norm(flow.ones(2, 3), (2,)),
        "normalized_shape=(2,), expected input with shape [*, 2,]",
    ),
    "median": (lambda: flow.ones(2, 0).median(1), "IndexError: Expected reduction dim 1 to have non-zero size."),
    "reshape": (lambda: flow.ones(4).reshape(-2, 2), "Invalid shape dimension -2"),
    "randperm": (lambda: flow.randperm(-1), "Trying to create tensor with negative dimension -1"),
    "repeats": (
        lambda: flow.repeat_interleave(flow.ones(2, 2), flow.ones(2, 2).long(), 1),
        "repeat_interleave only accept 1D vector as repeat",
    ),
    "index": (lambda: flow.ones(2, 3)[3], "Index out of range (expected to be in range of [-2, 1], but got 3)"),
    "step": (lambda: flow.ones(4)[0:2:-1], "ValueError: Step must be greater than zero"),
    "number": (lambda: flow.tensor(5)[0], "select() cannot be applied to a 0-dim tensor."),
    "indices": (lambda: flow.ones(2)[0, 0], "Too many indices for tensor of dimension 1"),
    "narrow": (lambda: flow.ones(3).narrow(0, 4, 0), "Dimension out of range"),
    "stft": (
        lambda: flow.stft(flow.ones(8), 4, hop_length=-1, window=flow.ones(4), return_complex=True),
        "Expected hop_length > 0, but got",
    ),
    "pad": (lambda: F.pad(flow.ones(2, 2), (1, 1, 1)), "Length of pad must be even but instead it equals 3"),
    "pad mode": (lambda: F.pad(flow.ones(1, 1, 2, 2), (1, 1), mode="x"), "Pad mode is x, but only constant"),
    "to_local": (lambda: flow.ones(2).to_local(), "Expected global tensor for to_local but got local tensor!"),
    "split": (lambda: flow.ones(2).to_global(P, flow.sbp.split(1)), "in range of [0, 1), but got 1!"),
}


@pytest.mark.parametrize("call, sentence", CASES.values(), ids=CASES)
def test_an_error_ends_with_oneflows_sentence(call, sentence):
    with pytest.raises((RuntimeError, IndexError, ValueError, NotImplementedError)) as usual:
        call()
    assert sentence not in str(usual.value)
    with flow.conventions("oneflow"), pytest.raises(usual.type) as worded:
        call()
    text, _, last = str(worded.value).partition(f"\n{usual.type.__name__}: ")
    assert text == str(usual.value)
    assert sentence in f"\n{usual.type.__name__}: {last}"


def test_other_errors_keep_their_text():
    assert wording.with_oneflows("RuntimeError", "something else") == "something else"


# Calls of ops, of Python functions and of the interpreter's own checks that raise another class than RuntimeError.
OTHER_CLASSES = {
    "dimension": (IndexError, lambda: flow.ones(2).sum(3)),
    "index": (IndexError, lambda: flow.ones(2)[5]),
    "number": (IndexError, lambda: flow.tensor(1)[0]),
    "step": (ValueError, lambda: flow.ones(4)[0:2:-1]),
    "no step": (ValueError, lambda: flow.ones(4)[0:2:0]),
    "written step": (ValueError, lambda: flow.ones(4).__setitem__(slice(0, 2, 0), 1.0)),
    "argument": (TypeError, lambda: flow.ones(2).sum("a")),
    "shapes": (IndexError, lambda: flow.ones(2, 0).median(1)),
}


@pytest.mark.parametrize("name", OTHER_CLASSES)
def test_errors_of_other_classes_are_runtime_errors_too_under_oneflows_conventions(name):
    kind, call = OTHER_CLASSES[name]
    with pytest.raises(kind) as plain:
        call()
    assert not isinstance(plain.value, RuntimeError)
    with flow.conventions("oneflow"), pytest.raises(RuntimeError) as both:
        call()
    assert isinstance(both.value, kind)
    assert (type(both.value).__name__, type(both.value).__module__) == (kind.__name__, "builtins")
    again = pickle.loads(pickle.dumps(both.value))
    assert type(again) is kind and again.args == both.value.args
