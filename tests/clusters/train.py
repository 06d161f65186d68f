"""Trains a small GPT for 30 steps under whatever has started it; rank 0 prints the losses as JSON.

``python train.py MODE``: ``ddp`` (also alone), ``mpi`` (DDP over MPI's messages), ``fsdp``, ``tensor`` or ``grid`` (two
dimensions: data by tensor parallel).
"""

from __future__ import annotations

import json
import sys

import oneflow as torch
import oneflow.distributed as dist
from oneflow.models import GPT2, GPT2Config, tensor_parallel

N_STEPS, BATCH, CONTEXT, VOCABULARY = 30, 8, 16, 50


def batch(step: int) -> torch.Tensor:
    torch.manual_seed(1000 + step)
    return torch.randint(0, VOCABULARY, (BATCH, CONTEXT + 1))


def main(mode: str) -> None:
    dist.init_process_group("mpi" if mode == "mpi" else "gloo")
    rank, n = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = GPT2(GPT2Config(VOCABULARY, CONTEXT, 2, n_heads=4, width=32, dropout=0.0))
    placement = torch.placement("cpu", list(range(n)))
    is_global = mode in ("tensor", "grid")
    if mode in ("ddp", "mpi"):
        module = torch.nn.parallel.DistributedDataParallel(model)
    elif mode == "fsdp":
        for block in model.blocks:
            torch.distributed.fsdp.fully_shard(block)
        module = torch.distributed.fsdp.fully_shard(model)
    elif mode == "tensor":
        module = tensor_parallel(model, placement)
    else:
        placement = torch.placement("cpu", torch.arange(n).reshape(2, n // 2).tolist())
        module = model.to_global(placement, [torch.sbp.broadcast, torch.sbp.broadcast])
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    losses = []
    for step in range(N_STEPS):
        tokens = batch(step)
        if mode == "tensor":
            tokens = tokens.to_global(placement, torch.sbp.broadcast)
        elif mode == "grid":
            tokens = tokens.to_global(placement, [torch.sbp.broadcast, torch.sbp.broadcast])
            tokens = tokens.to_global(placement, [torch.sbp.split(0), torch.sbp.broadcast])
        else:
            tokens = tokens[rank * BATCH // n : (rank + 1) * BATCH // n]
        loss = module(tokens[:, :-1], tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if is_global:
            everywhere = [torch.sbp.broadcast] * len(loss.sbp)
            losses.append(loss.detach().to_global(loss.placement, everywhere).to_local().item())
        else:
            mean = loss.detach().clone()
            dist.all_reduce(mean, op=dist.ReduceOp.AVG)
            losses.append(mean.item())
    if rank == 0:
        print(json.dumps(losses), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
