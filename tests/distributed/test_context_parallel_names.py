"""PyTorch's names of context parallelism: the results of one rank, and PyTorch's own orders of positions."""

from __future__ import annotations

import importlib
from typing import Any

import oneflow as torch
import oneflow.nn.functional as F
import pytest
from oneflow import distributed, nn
from oneflow.distributed.tensor.experimental import _attention, context_parallel
from oneflow.distributed.tensor.parallel import parallelize_module
from oneflow.nn.attention.flex_attention import flex_attention
from oneflow.testing import run_ranks


@pytest.fixture(autouse=True)
def options() -> Any:
    yield
    _attention._cp_options.enable_load_balance = True
    _attention.set_rotate_method("allgather")


def drawn(length: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, 3, length, 4, dtype=torch.float64) for _ in range(3)]


@pytest.mark.parametrize("length", [16, 13])
@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("method", ["allgather", "alltoall"])
@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_that_of_the_whole(length: int, balanced: bool, method: str, causal: bool) -> None:
    _attention._cp_options.enable_load_balance = balanced
    _attention.set_rotate_method(method)

    def rank() -> None:
        mesh = distributed.init_device_mesh("cpu", (4,))
        whole = [x.requires_grad_() for x in drawn(length)]
        expected = F.scaled_dot_product_attention(*whole, is_causal=causal)
        expected.square().sum().backward()
        # Buffers change in place, so they are no leaves.
        given = drawn(length)
        with context_parallel(mesh, buffers=given, buffer_seq_dims=[2, 2, 2], no_restore_buffers={given[2]}):
            own = [x.clone().requires_grad_() for x in given]
            y = F.scaled_dot_product_attention(*own, is_causal=causal)
            y.square().sum().backward()
            found = _attention.context_parallel_unshard(mesh, [y, *(x.grad for x in own)], [2] * 4)
        for a, b in zip(found, [expected, *(x.grad for x in whole)], strict=True):
            assert torch.allclose(a, b, rtol=0, atol=1e-12)
        # Whole again, but for the one that need not be.
        assert torch.equal(given[0], whole[0]) and torch.equal(given[1], whole[1]) and given[2].shape[2] < length
        assert torch.equal(F.scaled_dot_product_attention(*whole, is_causal=causal), expected)

    run_ranks(4, rank)


def test_masks_have_the_rows_of_a_rank() -> None:
    def rank() -> None:
        mesh = distributed.init_device_mesh("cpu", (2,))
        whole, mask = drawn(8), torch.randn(8, 8, dtype=torch.float64)
        expected = F.scaled_dot_product_attention(*whole, mask)
        order = _attention._HeadTailLoadBalancer(8, 2, "cpu")._generate_indices()[0]
        given, columns = drawn(8), mask[:, order].contiguous()
        with context_parallel(mesh, buffers=[*given, columns], buffer_seq_dims=[2, 2, 2, 0]):
            (found,) = _attention.context_parallel_unshard(mesh, [F.scaled_dot_product_attention(*given, columns)], [2])
            with pytest.raises(NotImplementedError, match=r"pass dropout_p=0\.0"):
                F.scaled_dot_product_attention(*given, dropout_p=0.5)
        assert torch.allclose(found, expected, rtol=0, atol=1e-12)

    run_ranks(2, rank)


class Inner(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)


class Flex(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        assert key.shape[2] == value.shape[2] == 2 * query.shape[2]
        return flex_attention(query, key, value)


def test_styles_of_modules() -> None:
    def rank() -> None:
        mesh = distributed.init_device_mesh("cpu", (2,))
        balancer = _attention._HeadTailLoadBalancer(8, 2, "cpu")
        style = _attention._ContextParallel
        for module, kind, causal, by in (
            (Inner(), style.AttentionType.SDPA, True, balancer),
            (Flex(), style.AttentionType.FLEX, False, None),
        ):
            parallelize_module(module, mesh, style(seq_dim=2, attention_type=kind))
            own = _attention._context_parallel_shard(mesh, drawn(8), [2, 2, 2], by)
            y = module(*own)
            whole = F.scaled_dot_product_attention(*drawn(8), is_causal=causal)
            (expected,) = _attention._context_parallel_shard(mesh, [whole], [2], by)
            assert torch.allclose(y, expected, rtol=0, atol=1e-12)

    run_ranks(2, rank)


def test_orders_are_those_of_pytorch() -> None:
    theirs = importlib.import_module("torch.distributed.tensor.experimental._attention")
    for restore in (False, True):
        for n in (1, 2, 4):
            ours = _attention._HeadTailLoadBalancer(16, n, "cpu")._generate_indices(restore)
            assert ours.tolist() == theirs._HeadTailLoadBalancer(16, n, "cpu")._generate_indices(restore).tolist()
            lengths = [[8, 16, 8], [16, 8, 8]]
            ours = _attention._PerDocumentHeadTailLoadBalancer(lengths, n, "cpu")._generate_indices(restore)
            balancer = theirs._PerDocumentHeadTailLoadBalancer(lengths, n, "cpu")
            assert ours.tolist() == balancer._generate_indices(restore).tolist()


def test_rows_with_orders_of_their_own() -> None:
    def rank() -> None:
        mesh = distributed.init_device_mesh("cpu", (2,))
        balancer = _attention._PerDocumentHeadTailLoadBalancer([[8, 4], [4, 8]], 2, "cpu")
        x = torch.arange(48).view(2, 12, 2)
        (own,) = _attention._context_parallel_shard(mesh, [x], [1], balancer)
        assert own.shape == (2, 6, 2)
        assert torch.equal(_attention.context_parallel_unshard(mesh, [own], [1], balancer)[0], x)

    run_ranks(2, rank)


def test_what_does_not_fit_is_refused() -> None:
    def rank() -> None:
        mesh = distributed.init_device_mesh("cpu", (2,))
        x = torch.ones(4, 2)
        with pytest.raises(ValueError, match="same number of elements"), context_parallel(mesh, buffers=[x]):
            pass
        with (
            pytest.raises(ValueError, match=r"different lengths: \[2, 4\]"),
            context_parallel(mesh, buffers=[x, x], buffer_seq_dims=[0, 1]),
        ):
            pass
        with (
            pytest.raises(ValueError, match="must be a subset"),
            context_parallel(mesh, buffers=[x], buffer_seq_dims=[0], no_restore_buffers={torch.ones(1)}),
        ):
            pass
        with pytest.raises(NotImplementedError, match="does not support using tree"):
            _attention.set_rotate_method("tree")
        with pytest.raises(AssertionError, match=r"lengths \[6\] do not divide by twice the 2 ranks"):
            _attention._HeadTailLoadBalancer(6, 2, "cpu")._generate_indices()

    run_ranks(2, rank)
