"""`nn.attention.varlen`: packed sequences beside sums over tokens in NumPy (PyTorch runs it on GPUs alone)."""

import itertools

import numpy as np
import oneflow
import pytest
from oneflow.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out

LENGTHS = [(3, 3), (1, 4), (5, 2), (0, 3), (4, 4), (2, 0)]
WINDOWS = [(-1, -1), (-1, 0), (2, 0), (1, 1), (-1, 2), (0, -1)]


def reference(query, key, value, ends, key_ends, window, scale):
    """Token by token, in NumPy."""
    out = np.zeros((query.shape[0], query.shape[1], value.shape[-1]))
    sums = np.full((query.shape[1], query.shape[0]), np.inf)
    for n in range(len(ends) - 1):
        n_queries, n_keys = ends[n + 1] - ends[n], key_ends[n + 1] - key_ends[n]
        for i, head in itertools.product(range(n_queries), range(query.shape[1])):
            place = i + n_keys - n_queries
            seen = [
                j
                for j in range(n_keys)
                if (window[0] < 0 or place - j <= window[0]) and (window[1] < 0 or j - place <= window[1])
            ]
            if not seen:
                continue
            group = head * key.shape[1] // query.shape[1]
            k, v = (t[key_ends[n] : key_ends[n + 1], group][seen] for t in (key, value))
            scores = k @ query[ends[n] + i, head] * scale
            sums[head, ends[n] + i] = total = np.log(np.exp(scores).sum())
            out[ends[n] + i, head] = np.exp(scores - total) @ v
    return out, sums


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_sequences(window, groups, scale):
    rng = np.random.default_rng(0)
    ends, key_ends = (np.concatenate([[0], np.cumsum(n)]) for n in zip(*LENGTHS, strict=True))
    arrays = [
        rng.standard_normal(s)
        for s in ((ends[-1], 4, 6), (key_ends[-1], 4 // groups, 6), (key_ends[-1], 4 // groups, 5))
    ]
    tensors = [oneflow.tensor(a, requires_grad=True) for a in arrays]
    cu = [oneflow.tensor(e.astype(np.int32)) for e in (ends, key_ends)]
    options = {"window_size": window, "scale": scale, "enable_gqa": groups > 1}
    out, sums = varlen_attn(*tensors, *cu, 5, 4, return_aux=AuxRequest(lse=True), **options)
    expected, log_sums = reference(*arrays, ends, key_ends, window, 6**-0.5 if scale is None else scale)
    np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(sums.detach().numpy(), log_sums, rtol=1e-5, atol=1e-5)
    assert oneflow.autograd.gradcheck(lambda *t: varlen_attn(*t, *cu, 5, 4, **options), tensors)
    into = oneflow.empty_like(out)
    with oneflow.no_grad():
        assert varlen_attn_out(into, *tensors, *cu, 5, 4, **options) is into
    assert into.equal(out)


def test_pages_are_the_keys_in_their_order():
    rng = np.random.default_rng(1)
    pool = [oneflow.tensor(rng.standard_normal((6, 4, 2, 8))) for _ in range(2)]
    table = oneflow.tensor([[4, 1], [0, 5], [2, 3]], dtype=oneflow.int32)
    used = oneflow.tensor([7, 4, 1], dtype=oneflow.int32)
    query, ends = oneflow.tensor(rng.standard_normal((3, 2, 8))), oneflow.tensor([0, 1, 2, 3])
    paged = varlen_attn(query, *pool, ends, None, 1, 8, seqused_k=used, block_table=table, window_size=(-1, 0))
    whole = [t[table.long()].flatten(1, 2).flatten(0, 1) for t in pool]
    starts = oneflow.tensor([0, 8, 16, 24])
    assert paged.equal(varlen_attn(query, *whole, ends, starts, 1, 8, seqused_k=used, window_size=(-1, 0)))
    parts = [t[8 * i : 8 * i + n] for i, n in enumerate(used.tolist()) for t in whole]
    for i in range(3):
        alone = varlen_attn(
            query[i : i + 1],
            *parts[2 * i : 2 * i + 2],
            oneflow.tensor([0, 1]),
            oneflow.tensor([0, used[i].item()]),
            1,
            8,
        )
        np.testing.assert_allclose(paged[i : i + 1].numpy(), alone.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"query": oneflow.ones(5, 3, 2)}, "Try setting enable_gqa=True"),
        ({"query": oneflow.ones(5, 3, 2), "enable_gqa": True}, "multiple of kv heads"),
        ({"query": oneflow.ones(5, 2)}, "expected a query"),
        ({"scale": 0.0}, "greater than 0"),
        ({"scale": float("nan")}, "greater than 0"),
        ({"window_size": (1,)}, "length 2"),
        ({"num_splits": 0}, "num_splits"),
        ({"max_q": 2}, "max_q is 2"),
        ({"cu_seq_q": oneflow.tensor([0, 3, 2, 5])}, "cu_seq_q to rise"),
        ({"cu_seq_q": oneflow.tensor([0, 9])}, "at most the 5 tokens"),
        ({"cu_seq_q": oneflow.tensor([0.0, 5.0])}, "int32 or int64"),
        ({"cu_seq_q": oneflow.tensor([0, 5])}, "1 sequences and cu_seq_k has 2"),
        ({"cu_seq_k": None}, "only with block_table"),
        ({"seqused_k": oneflow.tensor([2, 9])}, r"seqused_k\[1\] is 9"),
        ({"block_table": oneflow.tensor([[0]])}, "expected a query"),
    ],
)
def test_errors_name_what_does_not_fit(change, text):
    x, ends = oneflow.ones(5, 2, 2), oneflow.tensor([0, 2, 5])
    given = {"query": x, "key": x, "value": x, "cu_seq_q": ends, "cu_seq_k": ends, "max_q": 5, "max_k": 5}
    with pytest.raises(ValueError, match=text):
        varlen_attn(**{**given, **change})
