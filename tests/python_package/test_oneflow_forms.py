"""Calls in OneFlow's form, by OneFlow's names of arguments, compared with PyTorch's results of the same meaning."""

import numpy as np
import oneflow
import pytest
import torch
import torch.nn.functional as F

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 4, 6)).astype(np.float32)
Y = RNG.standard_normal((2, 4, 6)).astype(np.float32)
IMAGE = RNG.standard_normal((1, 4, 6, 6)).astype(np.float32)
INDEX = np.array([[[0, 3, 1, 2, 0, 1]]] * 2)
LABEL = np.array([1, 0])
MASK = np.array([0, 2**40, 0, -1, 0, 1])

# A function, its arguments under OneFlow's names, and the same in PyTorch.
CASES = [
    ("add", {"inputs": [X, Y]}, lambda x, y: x + y),
    ("matmul", {"input": X, "other": Y, "transpose_b": True}, lambda x, y: x @ y.mT),
    ("matmul", {"input": X, "other": Y, "transpose_a": True, "alpha": 0.5}, lambda x, y: 0.5 * x.mT @ y),
    ("amax", {"x": X, "dim": None}, lambda x: x.amax()),
    ("amin", {"x": X}, lambda x: x.amin()),
    ("argmax", {"x": X, "dim": 1, "dtype": "int32"}, lambda x: x.argmax(1).int()),
    ("argwhere", {"x": LABEL, "dtype": "int32"}, lambda x: torch.argwhere(x).int()),
    ("split", {"x": X, "split_size_or_sections": 3, "dim": 1}, lambda x: x.split(3, 1)),
    ("split", {"x": X, "split_size_or_sections": [1, 3], "dim": 1}, lambda x: x.split([1, 3], 1)),
    ("tensor_split", {"input": X, "indices_or_sections": 2, "dim": 1}, lambda x: x.tensor_split(2, 1)),
    ("hsplit", {"input": X, "indices_or_sections": [1]}, lambda x: x.hsplit([1])),
    ("vsplit", {"input": X, "indices_or_sections": 2}, lambda x: x.vsplit(2)),
    ("transpose", {"input": X, "perm": [2, 0, 1]}, lambda x: x.permute(2, 0, 1)),
    ("swapaxes", {"input": X, "dim0": 0, "dim1": 2}, lambda x: x.swapaxes(0, 2)),
    ("roll", {"input": X, "shifts": 3, "dims": None}, lambda x: x.roll(3)),
    ("gather", {"input": X, "dim": 1, "indices": INDEX}, lambda x, i: x.gather(1, i)),
    ("lerp", {"start": X, "end": Y, "weight": 0.3}, lambda x, y: torch.lerp(x, y, 0.3)),
    ("where", {"condition": MASK, "x": X, "y": Y}, lambda c, x, y: torch.where(c != 0, x, y)),
    ("masked_fill", {"input": X, "mask": MASK, "value": 2.0}, lambda x, m: x.masked_fill(m != 0, 2.0)),
    ("masked_select", {"input": X, "mask": MASK}, lambda x, m: x.masked_select(m != 0)),
    ("logical_and", {"input": X, "other": 0}, lambda x: torch.zeros_like(x).bool()),
    ("logical_xor", {"input": LABEL, "other": True}, lambda x: ~x.bool()),
    ("cat", {"inputs": [X, Y], "dim": 1}, lambda x, y: torch.cat([x, y], 1)),
    ("searchsorted", {"sorted_sequence": np.array([0, 2]), "values": 1}, lambda s: torch.searchsorted(s, 1)),
    ("quantile", {"input": X, "q": 0.4, "dim": 1, "ignore_nan": True}, lambda x: x.nanquantile(0.4, 1)),
    ("logaddexp", {"x": X, "y": Y}, torch.logaddexp),
    ("softshrink", {"x": X, "alpha": 0.3}, lambda x: F.softshrink(x, 0.3)),
    ("prelu", {"x": X, "alpha": X[0, :, 0]}, F.prelu),
    ("relu", {"x": X, "inplace": False}, torch.relu),
    ("celu", {"x": X, "alpha": 2.0, "inplace": False}, lambda x: F.celu(x, 2.0)),
    ("broadcast_to", {"x": X, "shape": (3, 2, 4, 6)}, lambda x: x.expand(3, 2, 4, 6)),
    ("_C.gather", {"x": X, "indices": INDEX[0], "axis": 1}, lambda x, i: x[:, i]),
    ("_C.leaky_relu", {"x": X, "alpha": 0.2}, lambda x: F.leaky_relu(x, 0.2)),
    ("_C.elu", {"x": X, "alpha": 2.0}, lambda x: F.elu(x, 2.0)),
    ("_C.hardtanh", {"x": X, "min_val": -0.5, "max_val": 0.1}, lambda x: F.hardtanh(x, -0.5, 0.1)),
    (
        "_C.smooth_l1_loss",
        {"logits": X, "label": Y, "beta": 0.5, "reduction": "sum"},
        lambda x, y: F.smooth_l1_loss(x, y, beta=0.5, reduction="sum"),
    ),
    (
        "_C.margin_ranking_loss",
        {"input_1": X, "input_2": Y, "target": X, "margin": 0.1, "reduction": "mean"},
        lambda x, y, z: F.margin_ranking_loss(x, y, z, 0.1),
    ),
    ("_C.reduce_sum", {"x": X, "dim": [1], "keepdim": True}, lambda x: x.sum(1, keepdim=True)),
    ("_C.pad", {"x": X, "pad": [1, 2]}, lambda x: F.pad(x, [1, 2])),
    ("_C.cosine_similarity", {"x": X, "y": Y, "dim": 2}, lambda x, y: F.cosine_similarity(x, y, 2)),
    (
        "_C.sparse_softmax_cross_entropy",
        {"logits": X[:, :, 0], "label": LABEL},
        lambda x, y: F.cross_entropy(x, y, reduction="none"),
    ),
    (
        "_C.layer_norm",
        {"x": X, "begin_norm_axis": 1, "begin_params_axis": 1, "epsilon": 1e-3},
        lambda x: F.layer_norm(x, (4, 6), eps=1e-3),
    ),
    ("_C.group_norm", {"x": IMAGE, "affine": False, "num_groups": 2, "epsilon": 1e-5}, lambda x: F.group_norm(x, 2)),
    (
        "_C.rms_norm",
        {"x": X, "weight": X[0, 0], "normalized_shape": (6,), "epsilon": 1e-6},
        lambda x, w: F.rms_norm(x, (6,), w, 1e-6),
    ),
    (
        "_C.tensordot",
        {"a": X, "b": Y, "dims_a": [1, 2], "dims_b": [1, 2]},
        lambda x, y: torch.tensordot(x, y, ([1, 2], [1, 2])),
    ),
    (
        "_C.one_hot",
        {"input": LABEL, "num_classes": 3, "on_value": 5, "off_value": 1},
        lambda x: F.one_hot(x, 3) * 4 + 1,
    ),
    ("_C.slice", {"x": X, "start": [0, 1, 0], "stop": [2, 4, 6], "step": [1, 2, 3]}, lambda x: x[:, 1:4:2, ::3]),
    (
        "_C.max_pool2d",
        {"input": IMAGE, "kernel_size": 2, "stride": 2, "data_format": "channels_first"},
        lambda x: F.max_pool2d(x, 2, 2, return_indices=True),
    ),
    (
        "_C.avg_pool2d",
        {"input": IMAGE, "kernel_size": 2, "data_format": "channels_first"},
        lambda x: F.avg_pool2d(x, 2),
    ),
    (
        "_C.adaptive_avg_pool2d",
        {"x": IMAGE, "output_size": 3, "data_format": "channels_first"},
        lambda x: F.adaptive_avg_pool2d(x, 3),
    ),
    ("_C.conv2d", {"input": IMAGE, "weight": IMAGE, "channel_pos": "channels_first"}, F.conv2d),
    (
        "_C.pixel_shuffle",
        {"input": IMAGE, "h_upscale_factor": 2, "w_upscale_factor": 2},
        lambda x: F.pixel_shuffle(x, 2),
    ),
    (
        "_C.grid_sample",
        {
            "input": IMAGE,
            "grid": np.zeros((1, 2, 2, 2), np.float32),
            "interpolation_mode": "bilinear",
            "padding_mode": "zeros",
            "align_corners": True,
        },
        lambda x, g: F.grid_sample(x, g, align_corners=True),
    ),
    (
        "nn.functional.one_hot",
        {"tensor": LABEL, "num_classes": 3, "on_value": 0.5, "off_value": 0.0},
        lambda x: F.one_hot(x, 3) * 0.5,
    ),
    ("_C.l1_loss", {"input": X, "target": Y, "reduction": "sum"}, lambda x, y: F.l1_loss(x, y, reduction="sum")),
    ("_C.mse_loss", {"input": X, "target": Y, "reduction": "none"}, lambda x, y: F.mse_loss(x, y, reduction="none")),
    (
        "_C.nll_loss",
        {"input": X[:, :, 0], "target": LABEL, "weight": None, "ignore_index": 1, "reduction": "sum"},
        lambda x, y: F.nll_loss(x, y, ignore_index=1, reduction="sum"),
    ),
    (
        "_C.cross_entropy",
        {"input": X[:, :, 0], "target": LABEL, "weight": None, "ignore_index": 1, "reduction": "mean"},
        lambda x, y: F.cross_entropy(x, y, ignore_index=1),
    ),
    (
        "_C.triplet_margin_loss",
        {"anchor": X, "positive": Y, "negative": X, "margin": 0.5, "reduction": "sum"},
        lambda a, p, n: F.triplet_margin_loss(a, p, n, 0.5, reduction="sum"),
    ),
    ("_C.fused_matmul_bias", {"x": X[0], "weight": Y[0], "bias": X[0, :, 0]}, F.linear),
    ("_C.expand", {"x": X, "size": (3, 2, 4, 6)}, lambda x: x.expand(3, 2, 4, 6)),
]


def _of(library, value):
    if isinstance(value, np.ndarray):
        return library.tensor(value)
    if isinstance(value, list) and all(isinstance(v, np.ndarray) for v in value):
        return [library.tensor(v) for v in value]
    return getattr(library, value) if value in ("int32",) else value


def _flat(value):
    return [item for v in value for item in _flat(v)] if isinstance(value, (list, tuple)) else [value]


@pytest.mark.parametrize(("name", "named", "reference"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_oneflows_names_of_arguments(name, named, reference):
    function = oneflow
    for part in name.split("."):
        function = getattr(function, part)
    with oneflow.conventions("oneflow" if {"mask", "condition"} & set(named) else "pytorch"):
        found = _flat(function(**{key: _of(oneflow, value) for key, value in named.items()}))
    arrays = [torch.tensor(v) for v in _flat(list(named.values())) if isinstance(v, np.ndarray)]
    for ours, theirs in zip(found, _flat(reference(*arrays)), strict=True):
        assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["relu", "celu", "hardshrink", "add", "mul", "pow", "fmod", "floor_divide"])
def test_inplace_is_an_argument_of_ops_that_can_write_into_their_input(name):
    x = oneflow.tensor(X[0])
    others = () if name in ("relu", "celu", "hardshrink") else (2.0,)
    expected = getattr(oneflow, name)(x, *others)
    assert getattr(oneflow, name)(x, *others, inplace=False).data_ptr() != x.data_ptr()
    written = getattr(oneflow, name)(x, *others, inplace=True)
    assert written.data_ptr() == x.data_ptr()
    np.testing.assert_array_equal(written.numpy(), expected.numpy())


@pytest.mark.parametrize("call", ["matmul(x, 3)", "amax(3)", "split('a', 2)", "roll(x, 'a')", "add(x)", "relu(x, y=1)"])
def test_what_fits_no_form_raises_type_errors_as_before(call):
    with pytest.raises(TypeError):
        eval(f"oneflow.{call}", {"oneflow": oneflow, "x": oneflow.ones(2)})


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_classes_of_every_integer_dtype(name, dtype):
    x = oneflow.tensor(X[:, :, 0], requires_grad=True)
    loss = getattr(oneflow.nn.functional, name)(x, oneflow.tensor(LABEL).to(getattr(oneflow, dtype)))
    loss.backward()
    t = torch.tensor(X[:, :, 0], requires_grad=True)
    expected = getattr(F, name)(t, torch.tensor(LABEL))
    expected.backward()
    np.testing.assert_allclose([loss.item()], [expected.item()], rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-5)


def test_dropout_takes_a_generator_and_what_to_add():
    x, y = oneflow.ones(1000), oneflow.full((1000,), 10.0)
    first = oneflow.nn.Dropout(0.5, generator=oneflow.Generator().manual_seed(3))(x, y)
    again = oneflow.nn.functional.dropout(x, 0.5, generator=oneflow.Generator("auto").manual_seed(3)) + y
    np.testing.assert_array_equal(first.numpy(), again.numpy())
    assert set(first.tolist()) == {10.0, 12.0}


@pytest.mark.parametrize("cycle", [False, True])
def test_polynomial_lr_in_oneflows_positions(cycle):
    optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
    schedule = oneflow.optim.lr_scheduler.PolynomialLR(optimizer, 5, 0.1, 2.0, cycle)
    for step in range(1, 13):
        optimizer.step()
        schedule.step()
        n = 5 * max(1, -(-step // 5)) if cycle else 5
        expected = 0.9 * (1 - min(step, n) / n) ** 2 + 0.1
        assert schedule.get_last_lr()[0] == pytest.approx(expected)


def test_the_modules_that_oneflows_libraries_import():
    from oneflow.framework import balanced_splitter
    from oneflow.framework.check_point_v2 import _broadcast_py_object
    from oneflow.framework.dtype import convert_numpy_dtype_to_oneflow_dtype, convert_oneflow_dtype_to_numpy_dtype
    from oneflow.framework.tensor import Tensor
    from oneflow.nn.optimizer.multiplicative_lr import MultiplicativeLR
    from oneflow.nn.optimizer.swa_utils import AveragedModel

    assert Tensor is oneflow.Tensor
    assert MultiplicativeLR is oneflow.optim.lr_scheduler.MultiplicativeLR
    assert AveragedModel is oneflow.optim.swa_utils.AveragedModel
    assert _broadcast_py_object({"a": 1}, 0) == {"a": 1}
    assert balanced_splitter.BalancedRanges(8, 3) == [[0, 3], [3, 6], [6, 8]]
    for dtype in (np.float32, np.float64, np.float16, np.int8, np.int64, np.uint8, np.bool_, np.complex64):
        assert convert_oneflow_dtype_to_numpy_dtype(convert_numpy_dtype_to_oneflow_dtype(dtype)) is dtype
    with pytest.raises(TypeError):
        convert_oneflow_dtype_to_numpy_dtype(oneflow.bfloat16)


def test_a_budget_of_memory_is_refused_and_worker_threads_change_nothing():
    with pytest.raises(NotImplementedError, match="checkpoint"):
        oneflow.remat.set_budget("500MB")
    with oneflow.asyncs.thread(oneflow.asyncs.Thread()):
        assert oneflow.ones(2).sum().item() == 2.0
    with pytest.raises(TypeError):
        oneflow.asyncs.thread(0)


def test_cosine_restarts_that_decay_and_end():
    optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
    schedules = oneflow.optim.lr_scheduler
    schedule = schedules.CosineAnnealingWarmRestarts(optimizer, 2, 2, 0.1, decay_rate=0.5, restart_limit=2)
    for step in range(10):
        period, done, length = (0, step, 2) if step < 2 else (1, step - 2, 4)
        share = (1 + np.cos(np.pi * done / length)) / 2
        expected = 0.1 + (0.5**period - 0.1) * share if step < 6 else 0.1
        assert schedule.get_last_lr()[0] == pytest.approx(expected)
        assert schedule.last_step == schedule.last_epoch == step
        optimizer.step()
        schedule.step()


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_dampens_the_first_gradient_under_oneflows_conventions(nesterov):
    with oneflow.conventions("oneflow"):
        p = oneflow.nn.Parameter(oneflow.tensor(X[0, 0]))
        optimizer = oneflow.optim.SGD([p], lr=0.1, momentum=0.9, dampening=0.5, nesterov=nesterov)
        expected, buffer = X[0, 0].copy(), np.zeros_like(X[0, 0])
        for row in Y[0]:
            p.grad = oneflow.tensor(row)
            optimizer.step()
            buffer = 0.9 * buffer + 0.5 * row
            expected = expected - 0.1 * (row + 0.9 * buffer if nesterov else buffer)
        np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="zero dampening"):
        oneflow.optim.SGD([p], lr=0.1, momentum=0.9, dampening=0.5, nesterov=True)


def test_names_and_methods_of_oneflow():
    x = oneflow.ones(2, 3).t()
    assert x.contiguous_() is x and x.is_contiguous()
    assert oneflow.char is oneflow.int8
    assert oneflow.distributed.get_local_rank() == 0
    assert isinstance(x, oneflow._oneflow_internal.Tensor)
    assert oneflow._oneflow_internal.cpu_broadcast(b"abc", 0) == b"abc"
    oneflow._oneflow_internal.eager.Sync()
    oneflow._oneflow_internal.eager.multi_client.Sync()


def test_nonzero_has_as_tuple_as_a_position():
    x = oneflow.tensor(LABEL)
    assert [t.tolist() for t in oneflow.nonzero(x, True)] == [[0]] and oneflow.nonzero(x, False).tolist() == [[0]]


def test_addmm_has_its_factors_as_positions():
    a, b, c = oneflow.tensor(X[0] @ X[0].T), oneflow.tensor(X[0]), oneflow.tensor(X[0].T.copy())
    np.testing.assert_allclose(oneflow.addmm(a, b, c, 0.5, 2.0).numpy(), 2.5 * a.numpy(), rtol=1e-5)


def test_new_tensors_take_the_sizes_of_their_tensor():
    x = oneflow.ones(2, 3)
    assert x.new_zeros().tolist() == oneflow.new_zeros(x).tolist() == [[0.0] * 3] * 2
    assert oneflow.new_ones(x).shape == x.new_empty().shape == x.shape
    y = oneflow.ones(2, placement=oneflow.placement.all("cpu"), sbp=oneflow.sbp.split(0))
    assert oneflow.new_zeros(y).sbp == y.sbp


def test_tensor_buffers_keep_the_sizes_of_their_batch():
    x = oneflow.arange(24).reshape(2, 3, 4)
    buffer = oneflow.tensor_to_tensor_buffer(x, instance_dims=1)
    assert buffer.shape == (2, 3) and len(buffer) == 6
    assert oneflow.equal(oneflow.tensor_buffer_to_tensor(buffer, x.dtype, (4,)), x)


def test_a_batch_of_a_placed_reader_is_that_of_all_ranks():
    def rank():
        placement = oneflow.placement.all("cpu")
        split = oneflow.nn.CoinFlip(8, random_seed=3, placement=placement, sbp=oneflow.sbp.split(0))()
        whole = oneflow.nn.CoinFlip(8, random_seed=3, placement=placement, sbp=oneflow.sbp.broadcast)()
        return split.shape, whole.shape, split.numpy().tolist() == whole.numpy().tolist(), split.to_local().shape

    assert oneflow.testing.run_ranks(2, rank) == [((8,), (8,), True, (4,))] * 2
