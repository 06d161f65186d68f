"""Attention, multi-head attention and the transformer agree with PyTorch: values, gradients, steps, errors."""

import itertools

import oneflow
import pytest
import torch
from torch_oracle import close


def ours(x):
    return None if x is None else oneflow.tensor(x.detach().numpy())


SHAPES = {
    "square": [(2, 4, 6, 8)] * 3,
    "wide": [(1, 2, 70, 20), (1, 2, 300, 20), (1, 2, 300, 33)],
    "three": [(3, 6, 8), (3, 5, 8), (3, 5, 4)],
    "two": [(6, 8), (5, 8), (5, 8)],
    "five": [(2, 2, 2, 3, 4)] * 3,
    "broadcast": [(2, 1, 3, 4), (1, 4, 5, 4), (2, 4, 5, 4)],
    "no keys": [(2, 2, 3, 4), (2, 2, 0, 4), (2, 2, 0, 4)],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float", "gradient"])
def test_scaled_dot_product_attention(shape, mask):
    torch.manual_seed(0)
    tensors = [torch.randn(s) for s in SHAPES[shape]]
    n, m = tensors[0].shape[-2], tensors[1].shape[-2]
    if mask == "bool":
        tensors.append(torch.rand(n, m) > 0.4)
    elif mask in ("float", "gradient"):
        tensors.append(torch.randn(n, m))
    results = []
    for fw, convert in ((torch, lambda t: t.clone()), (oneflow, ours)):
        x = [convert(t) for t in tensors]
        wanted = x if mask == "gradient" else x[:3]
        for t in wanted:
            t.requires_grad_()
        y = fw.nn.functional.scaled_dot_product_attention(*x, is_causal=mask == "causal", scale=0.3)
        (y * y).sum().backward()
        results.append([y, *(t.grad for t in wanted)])
    for theirs, mine in zip(*results, strict=True):
        # Where there are no keys, PyTorch leaves the mask without a gradient.
        if theirs is not None or shape != "no keys":
            close(mine, theirs)


def test_groups_of_heads():
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 6, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8)
    attend = torch.nn.functional.scaled_dot_product_attention
    expected = attend(q, k, v, enable_gqa=True)
    close(oneflow.nn.functional.scaled_dot_product_attention(ours(q), ours(k), ours(v), enable_gqa=True), expected)


def test_second_derivative():
    x = oneflow.randn(1, 2, 3, 4, dtype=oneflow.float64, requires_grad=True)
    function = oneflow.nn.functional.scaled_dot_product_attention
    assert oneflow.autograd.gradgradcheck(lambda a: function(a, a, a, is_causal=True), (x,))


def test_dropout():
    """The mask that the backward draws again is the forward's, and the share of kept weights is right."""
    x = oneflow.ones(2, 2, 40, 40)
    value = oneflow.eye(40).expand(2, 2, 40, 40).contiguous().requires_grad_()
    oneflow.manual_seed(1)
    weights = oneflow.nn.functional.scaled_dot_product_attention(x, x, value, dropout_p=0.25)
    kept = weights != 0
    assert abs(kept.float().mean().item() - 0.75) < 0.02
    assert (weights[kept] - 1 / 30).abs().max().item() < 1e-6
    weights.sum().backward()
    # The gradient of a value is the sum of the weights it had.
    assert (value.grad.mean(-1) - weights.detach().sum(-2)).abs().max().item() < 1e-5


def test_threads_do_not_matter():
    q, k, v = (oneflow.randn(1, 3, 200, 40) for _ in range(3))
    before, results = oneflow.get_num_threads(), []
    try:
        for n in (1, 2, 5):
            oneflow.set_num_threads(n)
            results.append(oneflow.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    finally:
        oneflow.set_num_threads(before)
    assert results[0].equal(results[1]) and results[0].equal(results[2])


HEADS = list(itertools.product((None, 6), (False, True), (True, False), (None, "bool", "float"), (None, "2D", "3D")))


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("batch", ["first", "second", "none"])
def test_multihead_attention(batch, need_weights):
    torch.manual_seed(0)
    for i, (kdim, extra, same_input, padding, mask) in enumerate(HEADS):
        if kdim and same_input:
            continue
        options = {"bias": i % 3 != 0, "batch_first": batch == "first", "add_bias_kv": extra, "add_zero_attn": extra}
        theirs = torch.nn.MultiheadAttention(8, 2, kdim=kdim, vdim=kdim, **options)
        mine = oneflow.nn.MultiheadAttention(8, 2, kdim=kdim, vdim=kdim, **options)
        assert repr(mine) == repr(theirs)
        assert list(mine.state_dict()) == list(theirs.state_dict())
        mine.load_state_dict({name: ours(t) for name, t in theirs.state_dict().items()})
        n, m = 5, 5 if same_input else 4
        sizes = {"first": lambda k, e: (3, k, e), "second": lambda k, e: (k, 3, e), "none": lambda k, e: (k, e)}[batch]
        q = torch.randn(sizes(n, 8))
        others = [] if same_input else [torch.randn(sizes(m, kdim or 8)) for _ in range(2)]
        keys = None if padding is None else torch.rand((m,) if batch == "none" else (3, m)) > 0.7
        if keys is not None:
            keys[..., 0] = False
            keys = keys.float() * -2 if padding == "float" else keys
        heads = 2 if batch == "none" else 6
        seen = None if mask is None else torch.randn((n, m) if mask == "2D" else (heads, n, m))
        results = []
        for layer, convert in ((theirs, lambda t: None if t is None else t.clone()), (mine, ours)):
            x = convert(q).requires_grad_()
            k, v = [convert(t) for t in others] or [x, x]
            average = bool(i % 2)
            masks = {"key_padding_mask": convert(keys), "attn_mask": convert(seen)}
            y, weights = layer(x, k, v, need_weights=need_weights, average_attn_weights=average, **masks)
            (y * y).sum().backward()
            results.append([y, weights, x.grad, *(p.grad for p in layer.parameters())])
        for a, b in zip(*results, strict=True):
            close(b, a)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_transformer(norm_first, batch_first):
    torch.manual_seed(0)
    for activation, bias in (("relu", True), ("gelu", False)):
        options = {"dropout": 0.0, "activation": activation, "bias": bias}
        options |= {"norm_first": norm_first, "batch_first": batch_first}
        theirs, mine = (
            torch.nn.Transformer(8, 2, 2, 2, 16, **options),
            oneflow.nn.Transformer(8, 2, 2, 2, 16, **options),
        )
        assert repr(mine) == repr(theirs)
        # Doubles: the gradient of a key's bias is zero but for rounding, and Adam makes whole steps of that in floats.
        theirs, mine = theirs.double(), mine.double()
        mine.load_state_dict({name: ours(t) for name, t in theirs.state_dict().items()})
        shapes = [(3, n, 8) if batch_first else (n, 3, 8) for n in (5, 4)]
        src, tgt = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
        padding = torch.zeros(3, 5, dtype=torch.bool)
        padding[1, 3:] = True
        causal = torch.nn.Transformer.generate_square_subsequent_mask(4)
        close(mine.generate_square_subsequent_mask(4), causal)
        causal = causal.double()
        masks = {"tgt_mask": causal, "src_key_padding_mask": padding, "memory_key_padding_mask": padding}
        outputs = []
        for model, fw, convert in ((theirs, torch, lambda t: t), (mine, oneflow, ours)):
            optimizer = fw.optim.Adam(model.parameters(), 1e-3)
            x, y, own = convert(src), convert(tgt), {name: convert(m) for name, m in masks.items()}
            for _ in range(3):
                optimizer.zero_grad()
                out = model(x, y, **own)
                (out * out * out).sum().backward()
                optimizer.step()
            model.eval()
            with fw.no_grad():
                inference = model.encoder(x, src_key_padding_mask=own["src_key_padding_mask"])
            outputs.append((out, inference, *model.parameters()))
        for a, b in zip(*outputs, strict=True):
            close(b, a, 1e-6)


ERRORS = {
    "both masks": lambda fw, f, x: f.scaled_dot_product_attention(x, x, x, fw.zeros(2, 2), is_causal=True),
    "dtypes": lambda fw, f, x: f.scaled_dot_product_attention(x, x, x.double()),
    "rank": lambda fw, f, x: f.scaled_dot_product_attention(x[0, 0, 0], x, x),
    "mask's dtype": lambda fw, f, x: f.scaled_dot_product_attention(x, x, x, fw.zeros(2, 2, dtype=fw.int64)),
    "mask's shape": lambda fw, f, x: f.scaled_dot_product_attention(x, x, x, fw.zeros(3, 2)),
    "widths": lambda fw, f, x: f.scaled_dot_product_attention(x, x[..., :3], x),
    "heads": lambda fw, f, x: fw.nn.MultiheadAttention(8, 3),
    "no width": lambda fw, f, x: fw.nn.MultiheadAttention(0, 3),
    "query's rank": lambda fw, f, x: fw.nn.MultiheadAttention(4, 2)(x, x, x),
    "hint": lambda fw, f, x: fw.nn.MultiheadAttention(4, 2)(x[0], x[0], x[0], is_causal=True),
    "activation": lambda fw, f, x: fw.nn.TransformerEncoderLayer(8, 2, activation="sin"),
    "model's width": lambda fw, f, x: fw.nn.Transformer(8, 2, 1, 1, 8)(fw.zeros(2, 2, 6), fw.zeros(2, 2, 6)),
}


@pytest.mark.parametrize("case", ERRORS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_errors(case):
    caught = []
    for fw in (torch, oneflow):
        with pytest.raises(Exception) as info:
            ERRORS[case](fw, fw.nn.functional, fw.ones(1, 2, 2, 4))
        caught.append(type(info.value))
    assert caught[0] is caught[1]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_multi_head_attention_of_nested_tensors(layout):
    """The same as part by part, with gradients, in training too; weights as PyTorch's, which has no gradients of it."""
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(4, 2, batch_first=True, dtype=torch.float64).eval()
    mha = oneflow.nn.MultiheadAttention(4, 2, batch_first=True, dtype=oneflow.float64)
    mha.load_state_dict({name: ours(p) for name, p in theirs.state_dict().items()})
    parts = [torch.randn(n, 4, dtype=torch.float64) for n in (2, 3, 1)]
    nested = oneflow.nested.nested_tensor([ours(p) for p in parts], layout=getattr(oneflow, layout), requires_grad=True)
    for average in (True, False):
        with torch.no_grad():
            want = theirs(*[torch.nested.nested_tensor(parts)] * 3, average_attn_weights=average)
        output, weights = mha(nested, nested, nested, average_attn_weights=average)
        close(weights.detach(), want[1])
        assert output.layout == nested.layout
        for part, right in zip(output.unbind(), want[0].unbind(), strict=True):
            close(part.detach(), right)
    leaves = [p.clone().requires_grad_() for p in parts]
    sum((theirs(p, p, p)[0].sin().sum() for p in leaves), torch.zeros(())).backward()
    output, weights = mha(nested, nested, nested, need_weights=False)
    assert weights is None
    sum(part.sin().sum() for part in output.unbind()).backward()
    for part, leaf in zip(nested.grad.unbind(), leaves, strict=True):
        close(part, leaf.grad)
    for p, right in zip(mha.parameters(), theirs.parameters(), strict=True):
        close(p.grad, right.grad)
    # Other lengths of keys and values, and layers around it.
    keys = oneflow.nested.nested_tensor([ours(p[:1]) for p in parts], layout=getattr(oneflow, layout))
    assert [len(p) for p in mha(nested, keys, keys)[0].unbind()] == [2, 3, 1]
    layer = oneflow.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True, dtype=oneflow.float64)
    encoder = oneflow.nn.TransformerEncoder(layer, 2, oneflow.nn.LayerNorm(4, dtype=oneflow.float64))
    for part, given in zip(encoder(nested).unbind(), parts, strict=True):
        close(part.detach(), torch.tensor(encoder(ours(given).unsqueeze(0))[0].tolist(), dtype=torch.float64))


def test_multi_head_attention_refuses_nested_tensors_with_masks():
    mha = oneflow.nn.MultiheadAttention(4, 2, batch_first=True)
    x = oneflow.nested.nested_tensor([oneflow.ones(2, 4), oneflow.ones(3, 4)])
    with pytest.raises(AssertionError, match="take no key_padding_mask"):
        mha(x, x, x, attn_mask=oneflow.zeros(3, 3))
    with pytest.raises(AssertionError, match="batch_first"):
        oneflow.nn.MultiheadAttention(4, 2)(x, x, x)
    with pytest.raises(AssertionError, match="must all be nested"):
        mha(x, oneflow.ones(2, 3, 4), oneflow.ones(2, 3, 4))
    other = oneflow.nested.nested_tensor([oneflow.ones(1, 4), oneflow.ones(1, 4)])
    with pytest.raises(AssertionError, match=r"lengths \[2, 3\], \[1, 1\] and \[2, 3\]"):
        mha(x, other, x)
