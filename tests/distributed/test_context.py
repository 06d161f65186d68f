"""Attention over a sequence in parts: results and gradients of the whole sequence's attention, and the bytes sent."""

from __future__ import annotations

from typing import Any

import oneflow as torch
import oneflow.nn.functional as F
import pytest
from oneflow import distributed, nn
from oneflow.distributed.context import balanced_spans, even_spans, order_of, ring_attention, ulysses_attention
from oneflow.testing import run_ranks

HEADS, BATCH, WIDTH, VALUE = 12, 2, 4, 3


def operands(time: int, seen: int, kv_heads: int, mask: str | None) -> tuple[list[Any], torch.Tensor]:
    """Query, key, value and mask of the whole sequence, and the gradient of the result."""
    torch.manual_seed(1)

    def drawn(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, dtype=torch.float64)

    masks = {None: None, "bool": torch.rand(time, seen) > 0.4, "float": drawn(1, HEADS, time, seen)}
    if masks["bool"] is not None:
        # A position that sees nothing.
        masks["bool"][1] = False
    q, k, v = drawn(BATCH, HEADS, time, WIDTH), drawn(BATCH, kv_heads, seen, WIDTH), drawn(BATCH, kv_heads, seen, VALUE)
    return [q, k, v, masks[mask]], drawn(BATCH, HEADS, time, VALUE)


def whole(time: int, seen: int, kv_heads: int, mask: str | None, causal: bool) -> list[torch.Tensor]:
    ins, weight = operands(time, seen, kv_heads, mask)
    leaves = [x.requires_grad_() for x in ins if x is not None and x.dtype == torch.float64]
    y = F.scaled_dot_product_attention(*ins, is_causal=causal, enable_gqa=True)
    (y * weight).sum().backward()
    return [y.detach(), *(x.grad for x in leaves)]


def in_a_graph(method: str, own: list[torch.Tensor], mask: Any, causal: bool, held: Any, weight: Any) -> list[Any]:
    """The result of an ``nn.Graph`` and, as what a step of gradient descent changes, the gradients."""
    before = [x.detach().clone() for x in own]

    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = nn.ParameterList([nn.Parameter(x.detach().clone()) for x in own])
            self.add_optimizer(torch.optim.SGD(self.model.parameters(), lr=1.0))

        def build(self, weight: torch.Tensor) -> torch.Tensor:
            y = ring_attention(*self.model, mask, causal, spans=held, method=method, enable_gqa=True)
            (y * weight).sum().backward()
            return y

    step = Step()
    y = step(weight)
    return [y, *(a - b.detach() for a, b in zip(before, step.model, strict=True))]


def rank(
    method: str,
    balanced: bool,
    time: int,
    seen: int,
    kv_heads: int,
    mask: str | None,
    causal: bool,
    traced: bool = False,
) -> tuple[float, dict[str, int]]:
    """The greatest distance from this rank's part of the whole, and what it sent."""
    n, me = distributed.get_world_size(), distributed.get_rank()
    spans = balanced_spans if balanced else even_spans
    asked, held = spans(time, n), spans(seen, n)

    def part(x: torch.Tensor, of: Any, dim: int) -> torch.Tensor:
        return x.index_select(dim, torch.tensor(order_of([of[me]]), dtype=torch.int64))

    def columns(x: torch.Tensor) -> torch.Tensor:
        return x.index_select(-1, torch.tensor(order_of(held)))

    ins, weight = operands(time, seen, kv_heads, mask)
    own = [part(ins[0], asked, 2).requires_grad_(), *(part(x, held, 2).requires_grad_() for x in ins[1:3])]
    own_mask = ins[3]
    if traced:
        own_mask = None if own_mask is None else columns(part(own_mask, asked, own_mask.dim() - 2))
        y, *grads = in_a_graph(method, own, own_mask, causal, held, part(weight, asked, 2))
        expected = whole(time, seen, kv_heads, mask, causal)
        wanted = [part(expected[0], asked, 2), part(expected[1], asked, 2), *(part(x, held, 2) for x in expected[2:4])]
        differences = [(a - b).abs().max().item() for a, b in zip([y, *grads], wanted, strict=True) if a.numel()]
        return max(differences, default=0.0), {}
    if method == "ulysses":
        if own_mask is not None and own_mask.dim() == 4:
            own_mask = own_mask.chunk(n, 1)[me]
    elif own_mask is not None:
        own_mask = columns(part(own_mask, asked, own_mask.dim() - 2)).requires_grad_(mask == "float")
    distributed.reset_wire_counters()
    if method == "ulysses":
        y = ulysses_attention(*own, own_mask, causal, spans=asked, key_spans=held, enable_gqa=True)
    else:
        y = ring_attention(*own, own_mask, causal, spans=held, method=method, enable_gqa=True)
    (y * part(weight, asked, 2)).sum().backward()
    found = [y.detach(), *(x.grad for x in own)]
    expected = whole(time, seen, kv_heads, mask, causal)
    wanted = [part(expected[0], asked, 2), part(expected[1], asked, 2), *(part(x, held, 2) for x in expected[2:4])]
    if mask == "float" and method != "ulysses":
        found.append(own_mask.grad)
        wanted.append(columns(part(expected[4], asked, 2)))
    differences = [(a - b).abs().max().item() for a, b in zip(found, wanted, strict=True) if a.numel()]
    return max(differences, default=0.0), distributed.wire_bytes()


# balanced, time, seen, heads of keys and values, mask, causal
CASES: list[tuple[bool, int, int, int, str | None, bool]] = [
    (True, 16, 16, 12, None, True),
    (True, 13, 13, 12, None, True),
    (False, 13, 13, 12, None, True),
    (True, 3, 3, 12, None, True),
    (False, 12, 9, 12, "bool", False),
    (False, 7, 11, 12, "float", False),
    (False, 7, 11, 12, None, False),
]


@pytest.mark.parametrize("method", ["ring", "allgather", "ulysses"])
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_parts_are_those_of_the_whole(n: int, case: Any, method: str) -> None:
    for difference, _ in run_ranks(n, rank, method, *case):
        assert difference < 1e-13


@pytest.mark.parametrize("method", ["ring", "allgather"])
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_graphs_trace_it(n: int, case: Any, method: str) -> None:
    for difference, _ in run_ranks(n, rank, method, *case, True):
        assert difference < 1e-13


@pytest.mark.parametrize("method", ["ring", "allgather"])
def test_heads_share_keys_and_values(method: str) -> None:
    for difference, _ in run_ranks(3, rank, method, True, 13, 13, 4, None, True):
        assert difference < 1e-13


@pytest.mark.parametrize("n", [2, 4])
def test_bytes_are_those_of_the_formula(n: int) -> None:
    time, kv_heads = 16, 12
    held = BATCH * kv_heads * (WIDTH + VALUE) * (time // n) * 8
    for _, sent in run_ranks(n, rank, "ring", True, time, time, kv_heads, None, True):
        # Blocks once forward and once backward, and their gradients.
        assert sent == {"send": 3 * (n - 1) * held}
    for _, sent in run_ranks(n, rank, "allgather", True, time, time, kv_heads, None, True):
        assert sent == {"all_gather": 2 * (n - 1) * held, "send": (n - 1) * held}
    queries = BATCH * HEADS * (time // n) * (WIDTH + VALUE) * 8
    for _, sent in run_ranks(n, rank, "ulysses", True, time, time, kv_heads, None, True):
        assert sent == {"all_to_all": 2 * (n - 1) * (queries + held) // n}


def test_balanced_spans_share_the_work() -> None:
    for n in (2, 3, 8):
        spans = balanced_spans(2 * n * 5, n)
        work = [sum(position + 1 for position in order_of([runs])) for runs in spans]
        assert len(set(work)) == 1
        assert sorted(order_of(spans)) == list(range(2 * n * 5))
    for length in range(12):
        assert sorted(order_of(balanced_spans(length, 5))) == list(range(length))
        assert [len(order_of([r])) for r in balanced_spans(length, 5)] == [
            len(order_of([r])) for r in even_spans(length, 5)
        ]


def test_without_spans_ranks_say_how_much_they_hold() -> None:
    def uneven() -> float:
        torch.manual_seed(0)
        me, lengths = distributed.get_rank(), [5, 1, 3]
        x = torch.randn(1, 3, 9, 4)
        own = x.split(lengths, 2)[me]
        expected = F.scaled_dot_product_attention(x, x, x, is_causal=True).split(lengths, 2)[me]
        y = ring_attention(own, own, own, is_causal=True)
        z = ulysses_attention(own, own, own, is_causal=True)
        return max((y - expected).abs().max().item(), (z - expected).abs().max().item())

    assert max(run_ranks(3, uneven)) < 1e-6


def test_half_types_are_summed_in_float32() -> None:
    def half() -> float:
        torch.manual_seed(0)
        me = distributed.get_rank()
        x = torch.randn(1, 2, 64, 8).bfloat16()
        own = x.chunk(4, 2)[me].requires_grad_()
        y = ring_attention(own, own, own, is_causal=True)
        y.float().square().sum().backward()
        assert y.dtype == own.grad.dtype == torch.bfloat16
        exact = F.scaled_dot_product_attention(x.float(), x.float(), x.float(), is_causal=True).chunk(4, 2)[me]
        return (y.float() - exact).abs().max().item()

    # Half a unit in the last place of results up to about three.
    assert max(run_ranks(4, half)) <= 0.016


def test_groups_attend_by_themselves() -> None:
    def halves() -> bool:
        groups = [distributed.new_group([0, 2]), distributed.new_group([1, 3])]
        me = distributed.get_rank()
        torch.manual_seed(me % 2)
        x = torch.randn(1, 2, 6, 4)
        own = x.chunk(2, 2)[me // 2]
        y = ring_attention(own, own, own, group=groups[me % 2])
        return torch.allclose(y, F.scaled_dot_product_attention(x, x, x).chunk(2, 2)[me // 2], atol=1e-6)

    assert all(run_ranks(4, halves))


def test_what_does_not_fit_is_refused() -> None:
    def refused() -> None:
        x = torch.ones(1, 2, 3, 4)
        with pytest.raises(ValueError, match=r"query \(2, 3, 4\).* must be \(batch, heads, time, head_dim\)"):
            ring_attention(x[0], x[0], x[0])
        with pytest.raises(ValueError, match="method must be 'ring' or 'allgather', got 'tree'"):
            ring_attention(x, x, x, method="tree")
        with pytest.raises(ValueError, match="attn_mask or is_causal, not both"):
            ring_attention(x, x, x, torch.ones(3, 6), True)
        with pytest.raises(ValueError, match=r"attn_mask of shape \(3, 3\) does not cover the 6 positions"):
            ring_attention(x, x, x, torch.ones(3, 3))
        with pytest.raises(ValueError, match=r"but the spans give the ranks \[4, 4\] positions"):
            ring_attention(x, x, x, spans=even_spans(8, 2))
        with pytest.raises(ValueError, match="3 heads and 3 of keys and values do not divide by 2 ranks"):
            ulysses_attention(*[torch.ones(1, 3, 2, 4)] * 3)
        with pytest.raises(ValueError, match="is_causal needs queries and keys of the same positions"):
            ring_attention(torch.ones(1, 2, 2, 4), x, x, is_causal=True)
        own = x.clone().requires_grad_()
        (grad,) = torch.autograd.grad(ring_attention(own, x, x).square().sum(), own, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            grad.sum().backward()

    run_ranks(2, refused)
