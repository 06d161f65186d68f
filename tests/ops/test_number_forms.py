"""Forms of calls with numbers: reductions by number, sequences of one number, masks of one truth."""

import itertools
import math

import oneflow
import pytest
import torch
from torch_oracle import both, close, same

INF, NAN = math.inf, math.nan

# The losses of `torch` itself, and the tensors that each takes.
LOSSES = {
    "binary_cross_entropy_with_logits": ((3,), (3,)),
    "cosine_embedding_loss": ((3, 4), (3, 4), (3,)),
    "hinge_embedding_loss": ((3,), (3,)),
    "kl_div": ((3, 2), (3, 2)),
    "margin_ranking_loss": ((3,), (3,), (3,)),
    "poisson_nll_loss": ((3,), (3,)),
    "triplet_margin_loss": ((3, 4), (3, 4), (3, 4)),
}
# What stands between the tensors and the reduction.
BETWEEN = {
    "binary_cross_entropy_with_logits": (None, None),
    "cosine_embedding_loss": (0.5,),
    "hinge_embedding_loss": (0.5,),
    "kl_div": (),
    "margin_ranking_loss": (0.5,),
    "poisson_nll_loss": (True, True, 1e-8),
    "triplet_margin_loss": (1.0, 2.0, 1e-6, True),
}


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_take_a_number_as_reduction(name, reduction):
    def run(fw, *given):
        tensors = [
            (fw.arange(math.prod(s), dtype=fw.float64) / 7 - 0.3 + i).reshape(s) for i, s in enumerate(LOSSES[name])
        ]
        if len(tensors) == 3 and name != "triplet_margin_loss":
            tensors[2] = fw.tensor([1.0, -1.0, 1.0], dtype=fw.float64)
        return getattr(fw, name)(*tensors, *given)

    close(run(oneflow, *BETWEEN[name], reduction), run(torch, *BETWEEN[name], reduction), 1e-12)
    if name != "poisson_nll_loss":
        close(run(oneflow), run(torch), 1e-12)


def test_losses_refuse_too_many_arguments():
    x = oneflow.ones(2)
    with pytest.raises(TypeError, match="kl_div"):
        oneflow.kl_div(x, x, 1, False, 3)


@pytest.mark.parametrize(
    "start,dtype",
    [(INF, "float32"), (INF, "float64"), *itertools.product((2.0, -1.5), ("float32", "float64", "int32"))],
)
def test_sequences_of_one_number(start, dtype):
    def run(fw):
        linear = fw.linspace(start, 1.0, 1, dtype=getattr(fw, dtype))
        return linear, fw.logspace(start, 1.0, 1, base=2.0, dtype=getattr(fw, dtype))

    close(run(oneflow), run(torch), 1e-6)


# Beside other indices PyTorch forgets a mask that is false.
@pytest.mark.parametrize("truth,where", [(False, "alone"), (True, "alone"), (True, "before"), (True, "behind")])
def test_masks_of_one_truth_in_index_put(truth, where):
    def run(fw):
        x, mask, rows = fw.arange(6.0).reshape(2, 3), fw.tensor(truth), fw.tensor([0, 1])
        indices = {"alone": (mask,), "before": (mask, rows), "behind": (rows, mask)}
        return x.index_put(indices[where], fw.tensor(9.0)).tolist()

    both(run)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_no_comparison_with_nan_holds_in_a_search(dtype, right):
    def run(fw):
        row = fw.tensor([-INF, 1.0, 3.0, NAN, NAN], dtype=getattr(fw, dtype))
        values = fw.tensor([-INF, 0.0, 1.0, 2.0, 9.0, INF, NAN], dtype=getattr(fw, dtype))
        return fw.searchsorted(row, values, right=right).tolist(), fw.bucketize(values, row, right=right).tolist()

    both(run)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "float32"])
@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_median_of_nothing(name, dtype):
    value = both(lambda fw: str(getattr(fw.zeros(0, dtype=getattr(fw, dtype)), name)().item()))
    assert value


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64", "bool"])
@pytest.mark.parametrize("shape,wide", [((0, 1, 1, 1), (0, 1, 1, 2)), ((1, 0), (3, 0)), ((0, 1), (0, 4))])
def test_reductions_of_expanded_nothing(dtype, shape, wide):
    def run(fw):
        x = fw.zeros(shape, dtype=getattr(fw, dtype)).expand(wide)
        return [f(x).item() for f in (fw.prod, fw.sum, fw.any, fw.all)]

    both(run)


@pytest.mark.parametrize("name", ["floor_divide", "fmod", "remainder"])
def test_division_of_nothing_by_zero(name):
    both(lambda fw: tuple(getattr(fw.zeros(0, 3, dtype=fw.int64), name)(0).shape))


def test_scatter_reduce_with_narrow_indices():
    def run(fw):
        index = fw.tensor([[2, 0]], dtype=fw.int32)
        x, src = fw.tensor([[2, -2, -1]]), fw.full((3, 3), 3)
        ways = itertools.product(["sum", "prod", "amax", "amin", "mean"], [True, False])
        return [x.scatter_reduce(1, index, src, how, include_self=own).tolist() for how, own in ways]

    both(run)
    with pytest.raises(NotImplementedError, match="complex"):
        x = oneflow.zeros(3, dtype=oneflow.complex128)
        x.scatter_reduce(0, oneflow.tensor([0]), x, "amax")


@pytest.mark.parametrize("name", ["l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss"])
def test_losses_broadcast_before_they_promote(name):
    def run(fw):
        return getattr(fw.nn.functional, name)(fw.tensor(1.5), fw.ones(3, 3, dtype=fw.float16), reduction="none")

    with pytest.warns(UserWarning):
        same(run(oneflow), run(torch))


def test_pinv_takes_its_tolerance_and_symmetry_by_position():
    same(oneflow.linalg.pinv(oneflow.eye(2), 0.1, True), torch.linalg.pinv(torch.eye(2), 0.1, True))


# Calls whose integers `t` makes.
INTEGERS = {
    "view": lambda f, t: f.zeros(2, 3).view(t(3), t(2)).shape,
    "view list": lambda f, t: f.zeros(2, 3).view([t(3), 2]).shape,
    "reshape": lambda f, t: f.zeros(2, 3).reshape((t(3), -1)).shape,
    "zeros": lambda f, t: f.zeros(t(2), t(3)).shape,
    "zeros list": lambda f, t: f.zeros([t(2), t(3)]).shape,
    "expand": lambda f, t: f.zeros(1, 3).expand(t(2), t(3)).shape,
    "repeat": lambda f, t: f.zeros(1, 3).repeat(t(2), t(3)).shape,
    "permute": lambda f, t: f.zeros(1, 3).permute(t(1), t(0)).shape,
    "sum dims": lambda f, t: f.zeros(1, 3).sum((t(1), t(0))).shape,
    "sum dim": lambda f, t: f.zeros(1, 3).sum(t(1)).shape,
    "randint": lambda f, t: f.randint(t(3), (t(2),)).shape,
    "arange": lambda f, t: f.arange(t(3)).tolist(),
    "split": lambda f, t: [x.tolist() for x in f.arange(5).split(t(2))],
    "splits": lambda f, t: [x.tolist() for x in f.arange(5).split([t(2), t(3)])],
    "chunk": lambda f, t: [x.tolist() for x in f.arange(5).chunk(t(2))],
    "interpolate": lambda f, t: f.nn.functional.interpolate(f.zeros(1, 1, 4, 4), size=[t(2), t(3)]).shape,
    "interpolate by one": lambda f, t: f.nn.functional.interpolate(f.zeros(1, 1, 4, 4), size=t(2)).shape,
    "pad": lambda f, t: f.nn.functional.pad(f.zeros(1, 1, 4, 4), [t(2), t(3)]).shape,
    "pad reflect": lambda f, t: f.nn.functional.pad(f.zeros(1, 1, 4, 4), [t(2), t(3)], mode="reflect").shape,
    "pool": lambda f, t: f.nn.functional.max_pool2d(f.zeros(1, 1, 4, 4), (t(2), t(2))).shape,
    "pool int": lambda f, t: f.nn.functional.avg_pool2d(f.zeros(1, 1, 4, 4), t(2)).shape,
    "adaptive pool": lambda f, t: f.nn.functional.adaptive_avg_pool2d(f.zeros(1, 1, 4, 4), (t(2), t(2))).shape,
    "conv": lambda f, t: f.nn.functional.conv2d(
        f.zeros(1, 1, 4, 4), f.zeros(1, 1, 2, 2), stride=(t(2), t(1)), padding=t(1)
    ).shape,
    "roll": lambda f, t: f.arange(5).roll(t(2)).tolist(),
    "flip": lambda f, t: f.arange(5).flip(t(0)).tolist(),
    "tile": lambda f, t: f.arange(2).tile((t(2), t(2))).tolist(),
    "layer_norm": lambda f, t: f.nn.functional.layer_norm(f.zeros(2, 3), [t(3)]).shape,
    "new_zeros": lambda f, t: f.zeros(2).new_zeros(t(3), 2).shape,
    "full": lambda f, t: f.full((t(2),), 1.0).shape,
    "eye": lambda f, t: f.eye(t(2)).tolist(),
    "unflatten": lambda f, t: f.zeros(6).unflatten(0, (t(2), 3)).shape,
    "as_strided": lambda f, t: f.zeros(6).as_strided((t(2),), (t(1),)).shape,
    "linspace": lambda f, t: f.linspace(0, 1, t(3)).tolist(),
    "topk": lambda f, t: f.arange(5).topk(t(2)).values.tolist(),
    "unfold": lambda f, t: f.nn.functional.unfold(f.zeros(1, 1, 4, 4), (t(2), t(2))).shape,
    "select": lambda f, t: f.arange(5).select(0, t(2)).item(),
    "index": lambda f, t: f.arange(5)[t(1) : t(3)].tolist(),
    "pixel shuffle": lambda f, t: f.nn.functional.pixel_shuffle(f.zeros(1, 4, 2, 2), t(2)).shape,
    "repeat_interleave": lambda f, t: f.arange(2).repeat_interleave(t(2)).tolist(),
    "movedim": lambda f, t: f.zeros(1, 2).movedim(t(0), t(1)).shape,
    "fft": lambda f, t: f.fft.fft(f.zeros(4), t(2)).shape,
    "tensordot": lambda f, t: f.tensordot(f.ones(2, 3), f.ones(3, 2), t(1)).shape,
    "rot90": lambda f, t: f.zeros(2, 3).rot90(t(1)).shape,
    "linear layer": lambda f, t: f.nn.Linear(t(2), t(3)).weight.shape,
    "embedding layer": lambda f, t: f.nn.Embedding(t(2), t(3)).weight.shape,
    "size index": lambda f, t: f.zeros(2, 3).size(t(1)),
    "transpose": lambda f, t: f.zeros(2, 3).transpose(t(0), t(1)).shape,
    "softmax": lambda f, t: f.zeros(2, 3).softmax(t(1)).shape,
    "cat": lambda f, t: f.cat([f.zeros(2, 3)] * 2, t(1)).shape,
    "gather": lambda f, t: f.zeros(2, 3).gather(t(1), f.zeros(2, 1, dtype=f.long)).shape,
    "broadcast_to": lambda f, t: f.zeros(3).broadcast_to((t(2), t(3))).shape,
    "squeeze": lambda f, t: f.zeros(1, 3).squeeze(t(0)).shape,
    "tril_indices": lambda f, t: f.tril_indices(t(2), t(2)).tolist(),
    "group_norm": lambda f, t: f.nn.functional.group_norm(f.zeros(1, 4, 2), t(2)).shape,
    "std": lambda f, t: f.zeros(2, 3).std((t(0),)).shape,
    "amax": lambda f, t: f.zeros(2, 3).amax((t(0), t(1))).shape,
    "rand": lambda f, t: f.rand((t(2), 3)).shape,
    "normal": lambda f, t: f.normal(0.0, 1.0, (t(2),)).shape,
    "stft": lambda f, t: f.stft(f.zeros(1, 16), t(4), hop_length=t(2), window=f.ones(4), return_complex=True).shape,
}


@pytest.mark.parametrize("sizes", [(), (1,)])
@pytest.mark.parametrize("dtype", ["int64", "uint8"])
@pytest.mark.parametrize("name", INTEGERS)
def test_tensors_of_one_integer_are_integers(name, dtype, sizes):
    """Sizes, dimensions and counts as tensors of one element, wherever PyTorch takes them."""
    results = []
    for fw in (torch, oneflow):
        try:
            made = INTEGERS[name](fw, lambda n, fw=fw: fw.full(sizes, n, dtype=getattr(fw, dtype)))
        except (TypeError, RuntimeError):
            if fw is torch:
                return
            raise
        results.append(tuple(made) if isinstance(made, (fw.Size, tuple)) else made)
    assert results[0] == results[1]
