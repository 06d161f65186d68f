"""Functions composed in Python pass the tests of ops: values, second gradients, tracing, sharded inputs."""

import numpy as np
import oneflow
import pytest
import torch
from oneflow import _C, sbp
from oneflow.testing import run_ranks


class Case:
    """Arguments as shapes, values or constants, and the expected result.

    Args:
        name: in ``oneflow._C``.
        args: a tuple is a tensor of normal numbers of that shape; a torch tensor is itself, and differentiated where it
            requires a gradient; others stay.
        reference: the same function of torch tensors.
        grad: whether derivatives are compared with differences; ``trace``: whether it can be traced.
        split: whether tensors may come in split along their first dimension.
    """

    def __init__(self, name, *args, reference=None, grad=True, trace=True, split=True, positive=False, **kwargs):
        self.name, self.args, self.kwargs, self.reference = name, args, kwargs, reference
        self.grad, self.trace, self.split, self.positive = grad, trace, split, positive

    def tensors(self):
        rng = np.random.default_rng(0)

        def make(arg):
            if isinstance(arg, tuple):
                values = rng.standard_normal(arg)
                return torch.tensor(abs(values) + 0.5 if self.positive else values, requires_grad=True)
            if isinstance(arg, list):
                return [make(a) for a in arg]
            return arg

        return [make(a) for a in self.args], {k: make(v) for k, v in self.kwargs.items()}


def ids(*values):
    return torch.tensor(values)


def ours(value, move=lambda t: t):
    if isinstance(value, torch.Tensor):
        dtype = getattr(oneflow, str(value.dtype)[6:])
        return move(oneflow.tensor(value.tolist(), dtype=dtype).reshape(tuple(value.shape)))
    if isinstance(value, list):
        return [ours(v, move) for v in value]
    return value


def leaves(value):
    return [x for v in value for x in leaves(v)] if isinstance(value, (tuple, list)) else [value]


F = torch.nn.functional
IDS = torch.tensor([[0, 2], [1, 1]])
ROIS = torch.tensor([[0, 0.3, 0.2, 4.1, 3.7], [1, 1.4, 2.2, 5.6, 5.1]]).double()
COSINES = torch.tensor([[0.1, 0.5, -0.3], [0.7, -0.2, 0.4]], dtype=torch.float64, requires_grad=True)
OFFSETS = torch.full((2, 18, 3, 3), 0.01, dtype=torch.float64, requires_grad=True)
MASK = torch.tensor([[True, False, True], [True, True, False]])


def fused_glu(x, w, b=None, v=None, c=None, split_mode=False, activation="none"):
    acts = {"none": lambda t: t, "silu": F.silu, "fast_gelu": lambda t: F.gelu(t, approximate="tanh")}
    hidden, gate = (F.linear(x, w, b).chunk(2, -1)) if v is None else (F.linear(x, w, b), F.linear(x, v, c))
    return hidden * acts[activation](gate)


def rms(x, weight, eps):
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight


def interaction(features, concat=None, self_interaction=False, output_padding=0):
    x = torch.cat(features, 1)
    products = x @ x.transpose(1, 2)
    rows, columns = torch.tril_indices(x.shape[1], x.shape[1], 0 if self_interaction else -1)
    parts = [] if concat is None else [concat]
    return torch.cat([*parts, products[:, rows, columns], torch.zeros(len(x), output_padding, dtype=x.dtype)], 1)


def rotate(x, base=1e4, mode="plane"):
    size = x.shape[-1]
    angle = torch.arange(x.shape[2])[:, None] * base ** -(torch.arange(0, size, 2).double() / size)
    out = torch.empty_like(x)
    first, second = slice(0, None, 2), slice(1, None, 2)
    if mode == "plane":
        first, second = slice(0, size // 2), slice(size // 2, None)
    out[..., first] = x[..., first] * angle.cos() - x[..., second] * angle.sin()
    out[..., second] = x[..., second] * angle.cos() + x[..., first] * angle.sin()
    return out


def sdpa(q, k, v, heads, causal=False):
    q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)


CASES = [
    Case("quick_gelu", (4, 3), reference=lambda x: x * torch.sigmoid(1.702 * x)),
    Case("square_relu", (4, 3), reference=lambda x: x.relu() ** 2),
    Case("fast_gelu", (4, 3), reference=lambda x: F.gelu(x, approximate="tanh")),
    Case("fused_fast_gelu_mul", (4, 3), (4, 3), reference=lambda x, m: F.gelu(x, approximate="tanh") * m),
    Case("rint", (4, 3), reference=torch.round, grad=False),
    Case("reciprocal_no_nan", torch.tensor([0.0, 2.0, -4.0, 0.5], dtype=torch.float64), grad=False,
         reference=lambda x: torch.where(x == 0, 0.0, 1 / x)),
    Case("trunc_divide", (4, 3), (4, 3), grad=False, reference=lambda a, b: torch.div(a, b, rounding_mode="trunc")),
    Case("broadcast_equal", IDS, IDS.t(), grad=False, reference=torch.eq),
    Case("bias_add", (2, 3, 4), (3,), 1, reference=lambda x, b, _: x + b[:, None], split=False),
    Case("cosh_grad", (4,), (4,), reference=lambda x, dy: dy * x.sinh()),
    Case("tan_grad", (4,), (4,), reference=lambda x, dy: dy / x.cos() ** 2),
    Case("tanh_grad", (4,), (4,), reference=lambda x, dy: dy * (1 - x.tanh() ** 2)),
    Case("sigmoid_grad", (4,), (4,), reference=lambda y, dy: dy * y * (1 - y)),
    Case("reduce_sum", (4, 3), [1], reference=lambda x, _: x.sum(1)),
    Case("reduce_prod", (4, 3), [0, 1], reference=lambda x, _: x.prod()),
    Case("reduce_max", (4, 3), 1, True, reference=lambda x, *_: x.amax(1, True)),
    Case("reduce_all", MASK, 0, grad=False, reference=lambda x, _: x.all(0)),
    Case("sqrt_square_sum", (4, 3), reference=torch.linalg.vector_norm),
    Case("batch_matmul", (2, 3, 4), (2, 5, 4), False, True, 0.5, reference=lambda a, b, *_: a @ b.mT * 0.5),
    Case("slice", (4, 6), [[0, 3, 1], [1, 6, 2]], reference=lambda x, _: x[0:3, 1:6:2], split=False),
    Case("gather_nd", (4, 3), IDS, reference=lambda x, i: x[i[:, 0], i[:, 1]], split=False),
    Case("scatter_nd", ids([1], [3], [1]), (3,), [5], split=False,
         reference=lambda i, u, s: torch.zeros(5).double().index_add(0, i[:, 0], u)),
    Case("tensor_scatter_nd_update", (4, 3), ids([1], [3]), (2, 3), split=False,
         reference=lambda t, i, u: t.index_put((i[:, 0],), u)),
    Case("batch_gather", (2, 3, 2), IDS, reference=lambda x, i: torch.stack([x[b][i[b]] for b in range(2)])),
    Case("broadcast_like", (4,), (4, 3), [1], reference=lambda x, like, _: x[:, None].expand(4, 3)),
    Case("reduce_sum_like", (4, 3), (4,), [1], reference=lambda x, like, _: x.sum(1)),
    Case("unsorted_segment_sum", (4, 3), ids(0, 2, 0, 1), 0, 3, split=False,
         reference=lambda x, i, axis, n: torch.zeros(3, 3).double().index_add(0, i, x)),
    Case("image_flip", (3, 1, 2, 2), ids(0, 1, 3), split=False,
         reference=lambda x, c: torch.stack([x[0], x[1].flip(-1), x[2].flip(-1, -2)])),
    Case("sparse_softmax_cross_entropy", (2, 3), ids(0, 2),
         reference=lambda x, t: F.cross_entropy(x, t, reduction="none")),
    Case("softmax_cross_entropy", (2, 3), (2, 3), reference=lambda x, t: -(t * x.log_softmax(-1)).sum(-1)),
    Case("sparse_cross_entropy", (2, 3), ids(0, 2), positive=True, reference=lambda p, t: -p[[0, 1], t].log()),
    Case("binary_cross_entropy_with_logits_loss_grad", (4,), (4,), (4,), (4,), (4,), positive=True,
         reference=lambda dy, x, t, w, p: dy * torch.autograd.functional.vjp(
             lambda v: F.binary_cross_entropy_with_logits(v, t, w, pos_weight=p, reduction="sum"), x)[1]),
    Case("kl_div_loss", (4, 3), (4, 3), positive=True, reference=lambda x, t: F.kl_div(x, t, reduction="none").mean()),
    Case("combined_margin_loss", COSINES, ids(1, 0), 0.9, 0.2, 0.1,
         reference=lambda x, t, a, b, c: torch.where(F.one_hot(t, 3) > 0, (x.acos() * a + b).cos() - c, x)),
    Case("in_top_k", ids(2, 0), (2, 3), 2, grad=False, reference=lambda t, p, k: (p.topk(k)[1] == t[:, None]).any(1)),
    Case("fused_matmul_bias", (4, 3), (2, 3), (2,), reference=F.linear, split=False),
    Case("fused_mlp", (4, 3), [(5, 3), (2, 5)], [(5,), (2,)], True, split=False,
         reference=lambda x, w, b, _: F.linear(F.linear(x, w[0], b[0]).relu(), w[1], b[1])),
    Case("grouped_matmul_bias", [(4, 3), (2, 3)], [(2, 3), (4, 3)], [(2,), (4,)], split=False,
         reference=lambda xs, ws, bs: [F.linear(*each) for each in zip(xs, ws, bs, strict=True)]),
    Case("fused_glu", (4, 3), (4, 3), (4,), activation="silu", reference=fused_glu, split=False),
    Case("fused_glu", (4, 3), (2, 3), (2,), (2, 3), (2,), True, "fast_gelu", reference=fused_glu, split=False),
    Case("fused_bias_add_gelu", (2, 3, 4), (4,), 2, reference=lambda x, b, _: F.gelu(x + b), split=False),
    Case("fused_bias_add_dropout", (2, 3), (3,), 0.0, 1, reference=lambda x, b, *_: x + b, split=False),
    Case("skip_layer_norm", (4, 3), (3,), (3,), (3,), (4, 3), 1e-5, 0.5, split=False,
         reference=lambda x, g, b, bias, skip, eps, a: F.layer_norm(x + bias + a * skip, (3,), g, b, eps)),
    Case("skip_rms_norm", (4, 3), (3,), None, (4, 3), 1e-5, 2.0, split=False,
         reference=lambda x, w, _, skip, eps, a: rms(x + a * skip, w, eps)),
    Case("rms_layer_norm", (4, 3), (3,), 1e-6, reference=rms, split=False),
    Case("normalization", (4, 3, 2), torch.zeros(2).double(), torch.ones(2).double(), (2,), (2,), 2, split=False,
         reference=lambda x, m, v, g, b, axis: x / (1 + 1e-5) ** 0.5 * g + b),
    Case("batch_norm_elemt", (4, 3), (3,), (3,), (3,), (3,), positive=True, split=False,
         reference=lambda x, w, b, m, s: (x - m) * s * w + b),
    Case("fused_scale_mask_softmax", (2, 3), MASK, -1e4, 2.0,
         reference=lambda x, m, f, s: torch.where(m, x * s, f).softmax(-1)),
    Case("fused_scale_mask_softmax_dropout", (2, 3), MASK, -1e4, 2.0, 0.0,
         reference=lambda x, m, f, s, p: [torch.where(m, x * s, f).softmax(-1)] * 2),
    Case("fused_bias_add_scale_mask_softmax_dropout", (2, 3), (2, 3), MASK, -1e4, 2.0, 0.0,
         reference=lambda x, b, m, f, s, p: [torch.where(m, (x + b) * s, f).softmax(-1)] * 2),
    Case("fused_scale_mask_bias_softmax", (2, 3), (2, 3), (2, 3), 0.5,
         reference=lambda x, m, b, s: (x * s + m + b).softmax(-1)),
    Case("fused_scale_tril", (2, 3, 3), 0, -1.0, 0.5,
         reference=lambda x, d, f, s: torch.where(torch.ones(3, 3).tril().bool(), x * s, f)),
    Case("fused_scale_tril_softmax_mask_scale", (2, 3, 3), 0.0, 0, 0.5, -np.inf,
         reference=lambda x, *_: [torch.where(torch.ones(3, 3).tril().bool(), x * 0.5, -torch.inf).softmax(-1)] * 2),
    Case("fused_weighted_sum", [(4, 3), (4, 3)], [0.5, 2.0], 3.0,
         reference=lambda x, w, a: a * (x[0] * w[0] + x[1] * w[1])),
    Case("fused_dot_feature_interaction", [(2, 2, 3), (2, 1, 3)], (2, 3), True, 2, reference=interaction, split=False),
    Case("fused_dot_feature_interaction", [(2, 2, 3), (2, 1, 3)], pooling="sum", split=False,
         reference=lambda f, pooling: (torch.cat(f, 1).sum(1) ** 2 - (torch.cat(f, 1) ** 2).sum(1)) / 2),
    Case("fused_cross_feature_interaction", (4, 3), (1, 3), (4, 3), (3,), split=False,
         reference=lambda x, w, x0, b: x0 * (x @ w.t()) + b + x),
    Case("fused_cross_feature_interaction", (4, 3), (3, 3), (4, 3), (3,), "matrix", split=False,
         reference=lambda x, w, x0, b, _: x0 * (x @ w.t() + b) + x),
    Case("fused_get_intersection_area", *[(4,)] * 8, reference=lambda a, b, c, d, e, f, g, h:
         (torch.minimum(b, d) - torch.maximum(a, c)).clamp(0) * (torch.minimum(f, h) - torch.maximum(e, g)).clamp(0)),
    Case("fused_get_boundding_boxes_coord", *[(4,)] * 8, reference=lambda x, y, w, h, a, b, c, d: [
        x - w / 2, x + w / 2, y - h / 2, y + h / 2, a - c / 2, a + c / 2, b - d / 2, b + d / 2]),
    Case("fused_get_iou", *[(4,)] * 5, 1e-8, positive=True,
         reference=lambda a, b, c, d, i, e: i / (a * b + c * d - i + e)),
    Case("fused_get_center_dist", *[(4,)] * 8, reference=lambda a, b, c, d, e, f, g, h:
         ((c + d - a - b) ** 2 + (g + h - e - f) ** 2) / 4),
    Case("fused_get_convex_diagonal_squared", *[(4,)] * 8, 1e-8, reference=lambda a, b, c, d, e, f, g, h, eps:
         (torch.maximum(b, d) - torch.minimum(a, c)) ** 2 + (torch.maximum(f, h) - torch.minimum(e, g)) ** 2 + eps),
    Case("fused_get_ciou_diagonal_angle", *[(4,)] * 4, 1e-8, positive=True, reference=lambda a, b, c, d, e:
         4 / torch.pi**2 * ((c / (d + e)).atan() - (a / (b + e)).atan()) ** 2),
    Case("fused_get_ciou_result", *[(4,)] * 4, 1e-8, positive=True, grad=False, reference=lambda v, iou, rho, c, e: [
        iou - (rho / c + v * (v / (v - iou + 1 + e))), v / (v - iou + 1 + e)]),
    Case("fused_apply_rotary_emb", (2, 3, 5, 4), reference=rotate, split=False),
    Case("fused_apply_rotary_emb", (2, 3, 5, 4), mode="interval", reference=rotate, split=False),
    Case("fused_multi_head_attention_inference", (2, 5, 8), (2, 5, 8), (2, 5, 8), 2, True, reference=sdpa, split=False),
    Case("fused_multi_head_attention_inference_v2", (2, 5, 24), "BM(H3K)", 4, output_layout="MB(HK)", split=False,
         reference=lambda x, layout, size, output_layout: sdpa(
             *(x.unflatten(-1, (2, 3, 4))[:, :, :, i].flatten(2) for i in range(3)), 2).transpose(0, 1)),
    Case("fused_attention_concat_past_key_value", (2, 3, 2, 4), "BMHK", (2, 3, 2, 4), "BMHK", (2, 1, 8), "BM(HK)",
         (2, 1, 8), "BM(HK)", 4, split=False, reference=lambda pk, a, pv, b, k, c, v, *_: [
             torch.cat([pk, k.unflatten(-1, (2, 4))], 1), torch.cat([pv, v.unflatten(-1, (2, 4))], 1)]),
    Case("fused_self_attention", (5, 2, 24), 4, 0.5, split=False, reference=lambda x, size, a: (
        lambda p: [a * p[0] @ p[1].mT, p[2]])(x.view(5, 2, 2, 3, 4).permute(3, 1, 2, 0, 4))),
    Case("fused_codegeex_qkv_reshape", (5, 2, 8), (5, 2, 8), (5, 2, 8), 2, split=False,
         reference=lambda q, k, v, n: [t.view(5, 2, 2, 4) for t in (q, k, v)]),
    Case("deform_conv2d", (2, 3, 5, 5), (4, 3, 3, 3), OFFSETS, None, (4,), split=False),
    Case("roi_align", (2, 2, 6, 6), ROIS, 1.0, 2, 2, 2, split=False),
]  # fmt: skip
NAMES = [f"{i}-{c.name}" for i, c in enumerate(CASES)]


def chosen(flag):
    pairs = [(n, c) for n, c in zip(NAMES, CASES, strict=True) if getattr(c, flag)]
    return {"argvalues": [c for _, c in pairs], "ids": [n for n, _ in pairs]}


def run(case, move=lambda t: t):
    args, kwargs = case.tensors()
    return getattr(_C, case.name)(*(ours(a, move) for a in args), **{k: ours(v, move) for k, v in kwargs.items()})


@pytest.mark.parametrize("case", **chosen("reference"))
def test_values(case):
    args, kwargs = case.tensors()

    def plain(value):
        if isinstance(value, torch.Tensor):
            return value.detach()
        return [plain(v) for v in value] if isinstance(value, list) else value

    wanted = leaves(case.reference(*plain(args), **{k: plain(v) for k, v in kwargs.items()}))
    got = leaves(run(case))
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert tuple(a.shape) == tuple(b.shape) and str(a.dtype)[8:] == str(b.dtype)[6:]
        np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", **chosen("grad"))
def test_gradients(case):
    args, kwargs = case.tensors()
    inputs = []

    def collect(value):
        if isinstance(value, torch.Tensor) and value.requires_grad:
            inputs.append(ours(value).requires_grad_())
            return len(inputs) - 1, inputs
        return [collect(v) for v in value] if isinstance(value, list) else ours(value)

    def put(value, given):
        if isinstance(value, tuple):
            return given[value[0]]
        return [put(v, given) for v in value] if isinstance(value, list) else value

    places, named = [collect(a) for a in args], {k: collect(v) for k, v in kwargs.items()}

    def f(*given):
        options = {k: put(v, given) for k, v in named.items()}
        result = getattr(_C, case.name)(*(put(p, given) for p in places), **options)
        found = [t for t in leaves(result) if t.is_floating_point() and t.requires_grad]
        return tuple(found)

    # Inputs that a composition does not read have no gradient: sums of zeros let gradcheck see it.
    def touched(*given):
        zero = sum((g * 0).sum() for g in given)
        return tuple(t + zero for t in f(*given))

    assert oneflow.autograd.gradcheck(touched, tuple(inputs), atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("case", **chosen("trace"))
def test_traced_is_eager(case):
    args, kwargs = case.tensors()
    given, named = [ours(a) for a in args], {k: ours(v) for k, v in kwargs.items()}
    f = getattr(_C, case.name)
    compiled = oneflow.compile(lambda *a, **k: f(*a, **k), fullgraph=True)
    for a, b in zip(leaves(compiled(*given, **named)), leaves(f(*given, **named)), strict=True):
        np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-12, atol=1e-12)


LAYOUTS = [(n, c, layout) for n, c in zip(NAMES, CASES, strict=True) for layout in ("broadcast", "split")]
LAYOUTS = [(n, c, layout) for n, c, layout in LAYOUTS if layout == "broadcast" or c.split]


@pytest.mark.parametrize("case, layout", [i[1:] for i in LAYOUTS], ids=[f"{i[0]}-{i[2]}" for i in LAYOUTS])
def test_on_two_ranks(case, layout):
    wanted = [t.tolist() for t in leaves(run(case))]

    def check():
        place = oneflow.placement.all("cpu")

        def move(t):
            whole = t.to_global(place, sbp.broadcast)
            return whole if layout == "broadcast" or t.dim() == 0 else whole.to_global(sbp=sbp.split(0))

        for a, b in zip(leaves(run(case, move)), wanted, strict=True):
            assert a.is_global
            np.testing.assert_allclose(a.tolist(), b, rtol=1e-9, atol=1e-9)

    run_ranks(2, check)


# ---- what has no counterpart in PyTorch, by its definition


def greedy_nms(boxes, scores, threshold):
    kept = []
    for i in np.argsort(-scores, kind="stable"):
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        for j in kept:
            w = min(boxes[i, 2], boxes[j, 2]) - max(boxes[i, 0], boxes[j, 0])
            h = min(boxes[i, 3], boxes[j, 3]) - max(boxes[i, 1], boxes[j, 1])
            common = max(w, 0) * max(h, 0)
            if common / (areas[i] + areas[j] - common) > threshold:
                break
        else:
            kept.append(int(i))
    return kept


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8])
def test_nms_is_the_greedy_choice(threshold):
    rng = np.random.default_rng(1)
    corner = rng.uniform(0, 10, (60, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(1, 5, (60, 2))], 1)
    scores = rng.uniform(0, 1, 60)
    kept = oneflow.nms(oneflow.tensor(boxes), oneflow.tensor(scores), threshold)
    assert kept.tolist() == greedy_nms(boxes, scores, threshold)
    order = np.argsort(-scores, kind="stable")
    mask = _C.nms(oneflow.tensor(boxes[order]), threshold)
    assert [int(order[i]) for i in mask.nonzero().flatten().tolist()] == kept.tolist()
    assert oneflow.tensor(boxes).nms(oneflow.tensor(scores), threshold).tolist() == kept.tolist()
    assert oneflow.nms(oneflow.zeros(0, 4), oneflow.zeros(0), 0.5).tolist() == []
    with pytest.raises(RuntimeError, match="expected boxes"):
        oneflow.nms(oneflow.zeros(3, 3), oneflow.zeros(3), 0.5)


def bilinear(image, y, x):
    height, width = image.shape[-2:]
    y0, x0 = int(np.floor(y)), int(np.floor(x))
    total = 0
    for yy, wy in ((y0, 1 - (y - y0)), (y0 + 1, y - y0)):
        for xx, wx in ((x0, 1 - (x - x0)), (x0 + 1, x - x0)):
            if 0 <= yy < height and 0 <= xx < width:
                total = total + image[:, yy, xx] * wy * wx
    return total


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [2, -1])
def test_roi_align_is_a_mean_of_samples(ratio, aligned):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((2, 3, 8, 9))
    rois = np.array([[0, 1.0, 2.0, 12.0, 9.0], [1, -3.0, 1.0, 20.0, 30.0], [0, 4.0, 4.0, 4.5, 4.2]])
    got = _C.roi_align(oneflow.tensor(x), oneflow.tensor(rois), 0.5, 2, 3, ratio, aligned).tolist()
    for k, (n, *box) in enumerate(rois):
        x1, y1, x2, y2 = np.array(box) * 0.5 - (0.5 if aligned else 0)
        w, h = (x2 - x1, y2 - y1) if aligned else (max(x2 - x1, 1), max(y2 - y1, 1))
        ny, nx = (ratio, ratio) if ratio > 0 else (int(np.ceil(h / 2)), int(np.ceil(w / 3)))
        for i in range(2):
            for j in range(3):
                total = np.zeros(3)
                for a in range(ny):
                    for b in range(nx):
                        y = y1 + (i + (a + 0.5) / ny) * h / 2
                        xx = x1 + (j + (b + 0.5) / nx) * w / 3
                        if -1 <= y <= 8 and -1 <= xx <= 9:
                            total += bilinear(x[int(n)], np.clip(y, 0, 7), np.clip(xx, 0, 8))
                np.testing.assert_allclose(np.array(got)[k, :, i, j], total / (ny * nx), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "groups, offsets, stride, padding, dilation", [(1, 1, 1, 1, 1), (2, 2, 2, 1, 1), (1, 1, 1, 2, 2)]
)
def test_deform_conv_samples_at_its_offsets(groups, offsets, stride, padding, dilation):
    rng = np.random.default_rng(3)
    x, weight = rng.standard_normal((2, 4, 6, 7)), rng.standard_normal((6, 4 // groups, 3, 3))
    plain = torch.nn.functional.conv2d(torch.tensor(x), torch.tensor(weight), None, stride, padding, dilation, groups)
    size = tuple(plain.shape[2:])
    still = oneflow.zeros(2, 18 * offsets, *size, dtype=oneflow.float64)
    args = (oneflow.tensor(weight), None, stride, padding, dilation)
    np.testing.assert_allclose(
        oneflow.nn.functional.deform_conv2d(oneflow.tensor(x), still, *args).tolist(),
        plain.tolist(),
        rtol=1e-9,
        atol=1e-9,
    )
    shift = rng.uniform(-1.5, 1.5, (2, 18 * offsets, *size))
    mask = rng.uniform(0, 1, (2, 9 * offsets, *size))
    got = np.array(
        oneflow.nn.functional.deform_conv2d(
            oneflow.tensor(x), oneflow.tensor(shift), *args, mask=oneflow.tensor(mask)
        ).tolist()
    )
    n, i, j = 1, size[0] - 1, 1
    columns = np.zeros((4, 9))
    for k in range(9):
        for g in range(offsets):
            y = i * stride - padding + k // 3 * dilation + shift[n, 18 * g + 2 * k, i, j]
            xx = j * stride - padding + k % 3 * dilation + shift[n, 18 * g + 2 * k + 1, i, j]
            part = slice(g * 4 // offsets, (g + 1) * 4 // offsets)
            columns[part, k] = bilinear(x[n, part], y, xx) * mask[n, 9 * g + k, i, j]
    per = 4 // groups
    wanted = [
        (weight[o].reshape(per, 9) * columns[(o * groups // 6) * per : (o * groups // 6 + 1) * per]).sum()
        for o in range(6)
    ]
    np.testing.assert_allclose(got[n, :, i, j], wanted, rtol=1e-9, atol=1e-9)


def test_area_under_the_curve_counts_pairs():
    rng = np.random.default_rng(4)
    label, score = rng.integers(0, 2, 50), rng.integers(0, 10, 50) / 10
    pairs = [(p > n) + 0.5 * (p == n) for p in score[label == 1] for n in score[label == 0]]
    got = oneflow.roc_auc_score(oneflow.tensor(label), oneflow.tensor(score))
    assert tuple(got.shape) == (1,) and got.item() == pytest.approx(np.mean(pairs), rel=1e-6)
    assert np.isnan(oneflow.roc_auc_score(oneflow.tensor([1, 1]), oneflow.tensor([0.1, 0.2])).item())


def test_greedy_decoding():
    steps = [[4, 4, 1, 1, 4, 1, 2, 2], [0, 0, 3, 4, 4, 3, 3, 0]]
    lengths = [8, 6]
    logits = torch.full((8, 2, 5), -9.0)
    for n in range(2):
        for t in range(8):
            logits[t, n, steps[n][t]] = -0.5
    got, cost = oneflow.nn.functional.ctc_greedy_decoder(oneflow.tensor(logits.tolist()), oneflow.tensor(lengths))
    assert got.tolist() == [[1, 1, 2, 0, 0, 0, 0, 0], [0, 3, 3, 0, 0, 0, 0, 0]] and cost.tolist() == [[4.0], [3.0]]
    got, _ = oneflow.nn.functional.ctc_greedy_decoder(
        oneflow.tensor(logits.tolist()), oneflow.tensor(lengths), merge_repeated=False
    )
    assert got.tolist() == [[1, 1, 1, 2, 2, 0, 0, 0], [0, 0, 3, 3, 0, 0, 0, 0]]


def test_quantization_rounds_to_few_bits():
    x = oneflow.tensor([[-1.0, 0.26, 0.5], [0.1, 2.0, -0.3]], requires_grad=True)
    scale, zero = _C.min_max_observer(x, "google", 8, "symmetric")
    assert scale.tolist() == pytest.approx([2.0 / 127]) and zero.tolist() == [0.0]
    y = _C.fake_quantization(x, scale, zero)
    np.testing.assert_allclose(y.tolist(), np.round(np.array(x.tolist()) / (2 / 127)) * (2 / 127), rtol=1e-5)
    y.sum().backward()
    assert x.grad.tolist() == [[1.0] * 3] * 2, "gradients pass"
    scale, zero = _C.min_max_observer(x, "google", 4, "affine", False)
    assert scale.tolist() == pytest.approx([1.5 / 15, 2.3 / 15]) and zero.tolist() == [10.0, 2.0]
    whole = _C.quantization(x, scale, zero, "google", 4, "affine")
    assert whole.tolist() == [[0.0, 13.0, 15.0], [3.0, 15.0, 0.0]]
    power, _ = _C.min_max_observer(x, "cambricon", 8, "symmetric")
    assert power.tolist() == [1.0 - 6]
    with pytest.raises(ValueError, match="affine"):
        _C.min_max_observer(x, "cambricon", 8, "affine")
    high, low = oneflow.zeros(1), oneflow.zeros(1)
    step = oneflow.tensor([1])
    for factor in (1.0, 3.0):
        scale, _ = _C.moving_average_min_max_observer(x * factor, step, high, low, True, 5, momentum=0.5)
    assert high.tolist() == [4.0] and scale.tolist() == pytest.approx([4.0 / 127])
    _C.moving_average_min_max_observer(x * 9, oneflow.tensor([6]), high, low, True, 5, momentum=0.5)
    assert high.tolist() == [4.0], "it stopped"


def test_groupwise_weights():
    w = oneflow.tensor([[1, -2, 3, 4]], dtype=oneflow.int8)
    scale = oneflow.tensor([[0.5, 2.0]])
    assert _C.groupwise_dequantize(w, scale, group_size=2).tolist() == [[0.5, -1.0, 6.0, 8.0]]
    packed = oneflow.tensor([[0x1F, 0x7A]], dtype=oneflow.uint8)
    zero = oneflow.tensor([[1.0, 2.0]])
    got = _C.groupwise_dequantize(packed, scale, zero, 4, False, -1, 2)
    assert got.tolist() == [[0.0, 7.0, 10.0, 16.0]]
    assert _C.groupwise_dequantize(packed, scale, None, 4, True, -1, 2).tolist() == [[0.5, -0.5, 14.0, -12.0]]
    y = _C.fused_linear_with_groupwise_quantized_weight(oneflow.ones(1, 4), w, scale, group_size=2)
    assert y.tolist() == [[13.5]]


def test_writes_in_place():
    x = oneflow.zeros(3, 4)
    assert oneflow.slice_update(x, oneflow.ones(2, 2), [[0, 2, 1], [1, 4, 2]]) is x
    assert x.tolist() == [[0, 1, 0, 1], [0, 1, 0, 1], [0, 0, 0, 0]]
    assert _C.eye_(x).tolist() == oneflow.eye(3, 4).tolist()
    assert x.cast(oneflow.int64).dtype == oneflow.int64 and oneflow.cast(x, oneflow.bool).dtype == oneflow.bool
    gradients = [oneflow.tensor([3.0, 0.0]), oneflow.tensor([4.0])]
    assert _C.fused_clip_grad(gradients, 1.0).item() == 5.0
    assert gradients[1].item() == pytest.approx(0.8)
    t = oneflow.arange(6.0).reshape(2, 3).t()
    assert _C.contiguous_(t) is t and t.is_contiguous() and t.tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (7, 3), (3, 7), (10, 2), (2, 2, 2)])
def test_fill_diagonal(shape, wrap):
    ours, theirs = oneflow.zeros(shape), torch.zeros(shape)
    assert ours.fill_diagonal_(2.0, wrap) is ours
    assert ours.tolist() == theirs.fill_diagonal_(2.0, wrap).tolist()


def test_statistics_of_several_ranks_are_those_of_the_whole():
    x = torch.randn(8, 3, 4, generator=torch.Generator().manual_seed(0)).double()
    parts = [ours(x[:3]), ours(x[3:])]
    mean, invstd = (oneflow.stack(s) for s in zip(*(_C.batch_norm_stats(p, 1e-5) for p in parts), strict=True))
    running = oneflow.zeros(3), oneflow.ones(3)
    mean, invstd = _C.batch_norm_gather_stats_with_counts(
        parts[0], mean, invstd, *running, 1.0, 1e-5, oneflow.tensor([12.0, 20.0])
    )
    np.testing.assert_allclose(mean.tolist(), x.mean((0, 2)).tolist(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(running[1].tolist(), x.var((0, 2)).tolist(), rtol=1e-4)
    theirs = x.clone().requires_grad_()
    dy = torch.ones_like(x).cumsum(0)
    wanted = torch.nn.functional.batch_norm(theirs, None, None, None, None, True)
    wanted.backward(dy)
    whole, ones = ours(x), oneflow.ones(3, dtype=oneflow.float64)
    mean, invstd = (s.double() for s in _C.batch_norm_stats(whole, 1e-5))
    got = _C.batch_norm_elemt(whole, ones, ones * 0, mean, invstd)
    np.testing.assert_allclose(got.tolist(), wanted.tolist(), rtol=1e-4, atol=1e-5)
    sums = _C.batch_norm_backward_reduce(ours(dy), whole, mean, invstd, ones, True, True, True)
    dx = _C.batch_norm_backward_elemt(ours(dy), whole, mean, invstd, ones, *sums[:2], oneflow.tensor([32.0]))
    np.testing.assert_allclose(dx.tolist(), theirs.grad.tolist(), rtol=1e-3, atol=1e-4)


def test_missing_names_of_the_flat_list_say_so():
    with pytest.raises(AttributeError, match=r"oneflow\._C.*does not provide"):
        _C.no_such_function
