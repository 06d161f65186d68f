"""Functions that only OneFlow has check their arguments: errors name the argument and have OneFlow's class."""

import oneflow
import pytest
from oneflow import _C, ones, tensor
from oneflow.nn import functional as F

INDEX = tensor([[1, 1], [1, 1], [1, 1]])
LABELS = oneflow.zeros(4, dtype=oneflow.int64)


def deform(**changes):
    given = {"input": ones(4, 3, 10, 10), "weight": ones(5, 3, 3, 3), "offset": ones(4, 18, 8, 8), **changes}
    return F.deform_conv2d(**given)


def slices(start, stop, step, like=3):
    return _C.slice(ones(like), start, stop, step)


CASES = [
    (RuntimeError, "indices", lambda: oneflow.batch_gather(ones(3), tensor(1))),
    (RuntimeError, "input tensor", lambda: oneflow.batch_gather(tensor(1), tensor([1]))),
    (RuntimeError, "dimension of the indices", lambda: oneflow.batch_gather(ones(1), INDEX)),
    (RuntimeError, "size of indices", lambda: oneflow.batch_gather(ones(4, 5), INDEX)),
    (TypeError, "dtype of the indices", lambda: oneflow.batch_gather(ones(2), ones(2))),
    (RuntimeError, "targets data type", lambda: oneflow.in_top_k(ones(2), ones(2, 3), 1)),
    (RuntimeError, "dimension of targets", lambda: oneflow.in_top_k(INDEX, ones(len(INDEX), 3), 1)),
    (RuntimeError, "dimension of predictions", lambda: oneflow.in_top_k(LABELS, ones(len(LABELS)), 1)),
    (RuntimeError, "num of targets", lambda: oneflow.in_top_k(LABELS, ones(3, 3), 1)),
    (RuntimeError, "The dtype of tensor and updates", lambda: oneflow.tensor_scatter_nd_update(ones(3), INDEX, INDEX)),
    (RuntimeError, "dimension of prediction", lambda: _C.sparse_cross_entropy(ones(4), LABELS)),
    (TypeError, "dtype of label", lambda: _C.sparse_cross_entropy(ones(4, 3), ones(4))),
    (RuntimeError, "dimension of label", lambda: _C.sparse_softmax_cross_entropy(ones(4, 3, 2), LABELS)),
    (RuntimeError, "size of label", lambda: _C.sparse_softmax_cross_entropy(ones(5, 3), LABELS)),
    (TypeError, "same dtype", lambda: _C.softmax_cross_entropy(ones(2, 3), ones(2, 3).double())),
    (RuntimeError, "size of prediction", lambda: _C.softmax_cross_entropy(ones(2, 3), ones(2, 4))),
    (RuntimeError, "dimension of dy", lambda: _C.softmax_cross_entropy_grad(ones(2, 3), ones(2, 3), ones(2, 3))),
    (RuntimeError, "size of label", lambda: _C.softmax_cross_entropy_grad(ones(2), ones(2, 4), ones(2, 3))),
    (TypeError, "dy and prob", lambda: _C.softmax_cross_entropy_grad(ones(2).double(), ones(2, 3), ones(2, 3))),
    (RuntimeError, "axis", lambda: _C.split_like(ones(4, 4), [ones(4, 4)], 3)),
    (RuntimeError, "less than or equal to input", lambda: _C.split_like(ones(4), [ones(4, 4)], 0)),
    (RuntimeError, "first like", lambda: _C.split_like(ones(4, 4), [ones(4, 4), ones(4)], 0)),
    (RuntimeError, "like_i", lambda: _C.split_like(ones(4, 4), [ones(2, 4), ones(2, 3)], 0)),
    (RuntimeError, "total size", lambda: _C.split_like(ones(4, 4), [ones(2, 4), ones(3, 4)], 0)),
    (RuntimeError, "element number", lambda: _C.reshape_like(ones(2), ones(3))),
    (TypeError, "same type", lambda: _C.reduce_sum_like(ones(2), ones(2).double(), [0])),
    (RuntimeError, "must be consistent", lambda: _C.reduce_sum_like(ones(2), ones(3), [])),
    (RuntimeError, "direction", lambda: _C.arg_sort(ones(2), direction="NONE")),
    (RuntimeError, "start list", lambda: slices([-1], [1], [1])),
    (RuntimeError, "stop list", lambda: slices([1], [-1], [1])),
    (RuntimeError, "step list", lambda: slices([1], [1], [0])),
    (RuntimeError, "start list must be less", lambda: slices([2], [1], [1])),
    (RuntimeError, "slice tuple", lambda: slices([1, 2], [1, 2], [1, 2])),
    (TypeError, "ref and value", lambda: _C.slice_update(tensor([1]), ones(1), [0], [1], [1])),
    (RuntimeError, "stride", lambda: deform(stride=(-1, 0))),
    (RuntimeError, "pad", lambda: deform(padding=(-1, 0))),
    (RuntimeError, "dilation", lambda: deform(dilation=(-1, 0))),
    (RuntimeError, "dimension of the input", lambda: deform(input=ones(2, 5, 1))),
    (RuntimeError, "dimension of the mask", lambda: deform(mask=ones(2))),
    (RuntimeError, "mask.shape", lambda: deform(mask=ones(4, 1, 8, 8))),
    (RuntimeError, "offset tensor at dimension 1", lambda: deform(offset=ones(4, 9, 8, 8))),
    (RuntimeError, "batch size of offset", lambda: deform(offset=ones(3, 18, 8, 8))),
    (RuntimeError, "output dims", lambda: deform(dilation=(2, 2))),
    (RuntimeError, "too small", lambda: deform(dilation=(10, 10))),
    (RuntimeError, "x tensor", lambda: oneflow.roi_align(ones(2, 3), ones(2, 5), 1.0, 2, 2)),
    (RuntimeError, "rois tensor must be equal to 2", lambda: oneflow.roi_align(ones(1, 1, 4, 4), ones(5), 1.0, 2, 2)),
    (
        RuntimeError,
        "rois tensor must be equal to 5",
        lambda: oneflow.roi_align(ones(1, 1, 4, 4), ones(2, 3), 1.0, 2, 2),
    ),
    (RuntimeError, "one-dimensional", lambda: _C.bias_add(ones(2, 2), ones(2, 2), axis=0)),
    (IndexError, "Dimension out of range", lambda: _C.bias_add(ones(4, 4), ones(5), axis=3)),
    (RuntimeError, r"\(4,4\).*\(5,\) at dimension 1", lambda: _C.bias_add(ones(4, 4), ones(5), axis=1)),
    (RuntimeError, "greater equal than 1", lambda: _C.fused_mlp(ones(4, 4), [], [ones(4)])),
    (RuntimeError, "equal to biases", lambda: _C.fused_mlp(ones(4, 4), [ones(4, 4)], [])),
    (RuntimeError, "Weight's dim", lambda: _C.fused_mlp(ones(4, 4), [ones(4)], [ones(4)])),
    (RuntimeError, "Bias's dim", lambda: _C.fused_mlp(ones(4, 4), [ones(4, 4)], [ones(4, 4)])),
    (RuntimeError, "first dim", lambda: _C.fused_mlp(ones(4, 4), [ones(6, 4)], [ones(5)])),
    (RuntimeError, "second dim", lambda: _C.fused_mlp(ones(2, 4), [ones(3, 6)], [ones(3)])),
    (RuntimeError, "NumAxes", lambda: _C.normalization(ones(1), None, None, ones(1), ones(1), is_training=True)),
    (RuntimeError, "Both moving", lambda: _C.normalization(ones(1, 1), ones(1), None, ones(1), ones(1))),
    (RuntimeError, "eval mode", lambda: _C.normalization(ones(1, 1), None, None, ones(1), ones(1))),
    (RuntimeError, "4D", lambda: _C.pixel_shuffle(ones(1, 8, 4, 4, 1), 2, 2)),
    (RuntimeError, "divisible", lambda: _C.pixel_shuffle(ones(1, 8, 4, 4), 2, 3)),
    (RuntimeError, "index tensor", lambda: _C.one_hot(ones(3, 3), 3, 0.9, 0)),
    (RuntimeError, "beta", lambda: _C.smooth_l1_loss(ones(3), ones(3), -1.0)),
    (TypeError, "same dtype", lambda: _C.smooth_l1_loss(ones(3), ones(3).double())),
    (RuntimeError, "size of target", lambda: _C.smooth_l1_loss(ones(3), ones(4))),
    (RuntimeError, "same number of elements", lambda: oneflow.add(ones(2), ones(2), ones(3))),
    (ValueError, "Cannot load", lambda: oneflow.load("none", support_pytorch_format=False)),
]


@pytest.mark.parametrize("kind, words, call", CASES)
def test_a_wrong_argument_is_named(kind, words, call):
    with pytest.raises(kind, match=words):
        call()


LOSSES = {
    "l1_loss": 2,
    "mse_loss": 2,
    "smooth_l1_loss": 2,
    "nll_loss": 2,
    "cross_entropy": 2,
    "margin_ranking_loss": 3,
    "triplet_margin_loss": 3,
    "ctc_loss": 4,
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_reduction_that_is_none_is_refused(name):
    with pytest.raises(ValueError, match="Reduction should be none, sum or mean"):
        getattr(_C, name)(*[ones(2, 3)] * LOSSES[name], reduction="some")
