"""Layouts whose throughput was published, dry-run on a description of their hardware.

python -m benches.published [--rows N] [--titan | --gpt3]

The rows are those of DLPerf's GPT report (Oneflow-Inc/DLPerf, reports/GPT): Megatron-LM on four hosts of eight V100
SXM2 of 16 GB, one InfiniBand of 100 Gb/s a host, float16, vocabulary 51,200, 2,048 tokens, activations recomputed.
Every other row calibrates the description: the rates of products, memory, NVLink and InfiniBand that are reached,
within bounds that the hardware sets. The others are held out. ``--titan`` runs rows of torchtitan (docs and benchmarks
of pytorch/torchtitan) in their place, on the devices that they name, without calibration; graphs are compiled, so they
stand beside the runs that `torch.compile` made where there are such. Selective checkpoints keep every second product;
``--gpt3`` rows of Megatron-LM's GPT-3 on A100 (Narayanan et al., arXiv:2104.04473, table 2), tp 8 and pp 12, likewise.

What the dry run does otherwise than Megatron-LM: parameters are in 16 bits without float32 copies, the attention is
fused, the head of a pipeline has a table of its own, and gradients are reduced while the backward goes on
(Megatron-LM of that time reduced them afterwards).
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import statistics
import time
from dataclasses import dataclass, replace
from typing import Any

import oneflow as torch
from oneflow.auto_parallel import Cluster, Link
from oneflow.dryrun import described
from oneflow.dryrun._job import Plans
from oneflow.models import GPT2, GPT2Config, Llama, LlamaConfig, ParallelLayout
from oneflow.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from benches.dry_run_gpt import GPT3, Train, staged


@dataclass(frozen=True)
class Row:
    """A layout dp x tp x pp, sequences a micro-batch and copy, micro-batches, the model, and sequences a second."""

    dp: int
    tp: int
    pp: int
    rows: int
    micro_batches: int
    width: int
    layers: int
    heads: int
    published: float

    @property
    def n(self) -> int:
        return self.dp * self.tp * self.pp

    @property
    def sequences(self) -> int:
        return self.dp * self.rows * self.micro_batches

    def __str__(self) -> str:
        return f"{self.dp}x{self.tp}x{self.pp}, {self.width}x{self.layers}, {self.sequences} sequences"


# In the order of the report; two of its rows stand there twice.
ROWS = [
    Row(1, 1, 1, 2, 1, 1536, 16, 16, 4.31),
    Row(8, 1, 1, 2, 1, 1536, 16, 16, 33.27),
    Row(16, 1, 1, 2, 1, 1536, 16, 16, 48.16),
    Row(32, 1, 1, 2, 1, 1536, 16, 16, 93.63),
    Row(1, 1, 1, 8, 1, 768, 12, 12, 13.09),
    Row(1, 8, 1, 16, 1, 1536, 16, 16, 23.11),
    Row(1, 16, 1, 16, 1, 3072, 16, 32, 2.85),
    Row(1, 32, 1, 16, 1, 3072, 32, 32, 1.23),
    Row(2, 4, 1, 8, 1, 1536, 16, 16, 27.75),
    Row(4, 2, 1, 4, 1, 1536, 16, 16, 26.95),
    Row(2, 8, 1, 8, 1, 2304, 24, 24, 12.18),
    Row(4, 8, 1, 8, 1, 2304, 24, 24, 21.21),
    Row(8, 1, 4, 2, 32, 1536, 16, 16, 104.63),
    Row(1, 8, 4, 16, 32, 2304, 24, 24, 23.10),
    Row(2, 4, 4, 8, 32, 2304, 24, 24, 33.40),
    Row(2, 8, 2, 8, 32, 2304, 24, 24, 31.45),
]


def v100(n: int, flops: float, memory: float, inside: float, between: float) -> Cluster:
    """Hosts of eight V100 at these rates."""
    hosts = max(1, n // 8)
    links = Link(5e-6, inside), Link(1.5e-5, between, True)
    return Cluster(f"{n}xv100", hosts, min(n, 8), flops, memory, 16e9, *links, launch=5e-6, peak_flops=1.25e14)


# Where the search starts, and what the hardware allows.
START = {"flops": 6e13, "memory": 6e11, "inside": 8e10, "between": 8e9}
MOST = {"flops": 1.25e14, "memory": 9e11, "inside": 1.5e11, "between": 1.25e10}


# A pipeline's step grows by one micro-batch's time for each: two numbers of micro-batches are traced and give others.
TRACED = (8, 12)


def plans_of(row: Row) -> list[Plans]:
    """The plans of a row; of a pipeline those of `TRACED` micro-batches."""
    if row.pp > 1:
        return [_plans_of(replace(row, micro_batches=m)) for m in TRACED]
    return [_plans_of(row)]


def _plans_of(row: Row) -> Plans:
    cluster = v100(row.n, **START)
    config = GPT2Config(
        vocabulary=51200, n_positions=2048, n_layers=row.layers, n_heads=row.heads, width=row.width, dropout=0.0
    )
    with described(cluster):
        torch.manual_seed(0)
        if row.pp > 1:
            made = staged(config, row.dp, row.tp, row.pp, row.micro_batches, row.rows, torch.bfloat16)
        else:
            layout = ParallelLayout(dp=row.dp, tp=row.tp, recompute=True, vocabulary_parallel=row.tp > 1)
            tokens = torch.zeros(row.sequences, config.n_positions, dtype=torch.int64)
            made = (Train(layout.place(GPT2(config).to(torch.bfloat16))), *layout.batch(tokens, tokens))
        return Plans(made[0], tuple(made[1:]), {}, cluster)


OPTIONS: dict[str, Any] = {"slow": [], "lost": None, "steps": 2}


def extrapolated(took: list[float], traced: tuple[int, int], micro_batches: int) -> float:
    """Seconds of a step, of those with as many micro-batches as were traced."""
    few, more = traced
    return took[1] + (micro_batches - more) * (took[1] - took[0]) / (more - few)


def throughput(row: Row, plans: list[Plans], rates: dict[str, float]) -> float:
    took = [p.run(v100(row.n, **rates), OPTIONS, {}).step_seconds for p in plans]
    seconds = took[0] if len(took) == 1 else extrapolated(took, TRACED, row.micro_batches)
    return row.sequences / seconds


def calibrate(rows: list[tuple[Row, list[Plans]]]) -> dict[str, float]:
    """The rates with the least mean squared logarithm of predicted over published, by steps in one rate at a time."""

    def error(rates: dict[str, float]) -> float:
        return statistics.mean(math.log(throughput(row, p, rates) / row.published) ** 2 for row, p in rows)

    best, least = dict(START), error(START)
    for step in (1.5, 1.2, 1.08):
        improved = True
        while improved:
            improved = False
            for name, factor in itertools.product(START, (step, 1 / step)):
                tried = {**best, name: min(best[name] * factor, MOST[name])}
                if tried != best and (found := error(tried)) < least:
                    best, least, improved = tried, found, True
    return best


# The H100 of these hosts: 96 GB of HBM2e at 2.4 TB/s, of which as much is reached as of HBM3 in the package's own.
GRAND_TETON = {"memory": 96e9, "memory_bandwidth": 2.4e12 * 2.7 / 3.35}


def keep_every_second_product(model: Any) -> None:
    """Let blocks run again in the backward all but every second product and the attention."""

    def contexts() -> Any:
        counts = {False: 0, True: 0}

        def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
            name = str(op)
            is_product = "mm" in name or "linear" in name
            counts[context.is_recompute] += is_product
            keeps = "attention" in name or (is_product and counts[context.is_recompute] % 2 == 1)
            return CheckpointPolicy.MUST_SAVE if keeps else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    for block in model.blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False, context_fn=contexts)


def titan() -> None:
    """Rows of torchtitan: FSDP (ZeRO 3), tokens a second and device."""
    llama3 = replace(LlamaConfig.preset("llama3-8b"), n_positions=8192)
    llama2 = replace(LlamaConfig(), width=5120, n_heads=40, n_layers=40, hidden=13824)
    h100 = [replace(Cluster.load(name), **GRAND_TETON) for name in ("8xh100", "128xh100")]
    a100 = replace(Cluster.load("128xa100"), name="64xa100", hosts=8)
    for name, config, described_as, rows, selective, published in (
        ("Llama 3.1 8B, 8 H100", llama3, h100[0], 2, True, 6667),
        ("Llama 3.1 8B, 128 H100", llama3, h100[1], 2, True, 6514),
        ("Llama 3 8B, 64 A100", llama3, a100, 1, True, 2973),
        ("Llama 2 13B, 64 A100", llama2, a100, 2, False, 2162),
        ("Llama 2 13B, 64 A100, selective checkpoints", llama2, a100, 2, True, 1904),
    ):
        n = described_as.n_devices
        with described(described_as):
            layout = ParallelLayout(dp=n, zero=3)
            model = layout.place(Llama(config).to(torch.bfloat16))
            if selective:
                keep_every_second_product(model)
            tokens = torch.zeros(rows * n, config.n_positions, dtype=torch.int64)
            graph = Train(model, 3)
            report = Plans(graph, layout.batch(tokens, tokens), {}, described_as).run(described_as, OPTIONS, {})
        found = rows * config.n_positions / report.step_seconds
        rank = report.ranks[0]
        print(
            f"{name}: {found:,.0f} tokens/s a device, published {published:,}: {found / published - 1:+.0%} "
            f"({report.step_seconds:.2f} s a step, {rank['compute']:.2f} of it work, {rank['communication']:.2f} "
            f"communication that nothing hides)",
            flush=True,
        )


def gpt3() -> None:
    """Rows of a GPT-3 with 175 billion parameters on A100: operations a second and device, as their authors count."""
    sequences, traced = 1536, (16, 24)
    for dp, published in ((4, 153e12), (8, 149e12), (16, 141e12)):
        n, micro_batches = 96 * dp, sequences // dp
        described_as = replace(Cluster.load("128xa100"), name=f"{n}xa100", hosts=n // 8)
        took = []
        for m in traced:
            with described(described_as):
                torch.manual_seed(0)
                graph, *inputs = staged(GPT3, dp, 8, 12, m, 1, torch.bfloat16)
                plans = Plans(graph, tuple(inputs), {}, described_as)
                took.append(plans.run(described_as, OPTIONS, {}).step_seconds)
        length, width = GPT3.n_positions, GPT3.width
        parts = 1 + length / (6 * width) + GPT3.vocabulary / (16 * GPT3.n_layers * width)
        flops = 96 * sequences * length * GPT3.n_layers * width**2 * parts
        found = flops / n / extrapolated(took, traced, micro_batches)
        print(
            f"GPT-3 175B, {n} A100, {dp}x8x12: {found / 1e12:.0f} Tflop/s a device, published {published / 1e12:.0f}: "
            f"{found / published - 1:+.0%}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=len(ROWS))
    parser.add_argument("--titan", action="store_true")
    parser.add_argument("--gpt3", action="store_true")
    options = parser.parse_args()
    if options.titan or options.gpt3:
        titan() if options.titan else gpt3()
        return
    start = time.perf_counter()
    rows = [(row, plans_of(row)) for row in ROWS[: options.rows]]
    print(f"{len(rows)} rows traced in {time.perf_counter() - start:.0f} s", flush=True)
    rates = calibrate(rows[::2])
    print("calibrated: " + ", ".join(f"{name} {rate:.3g}" for name, rate in rates.items()), flush=True)
    found = [throughput(row, plans, rates) for row, plans in rows]
    print(f"{'layout':42} {'published':>9} {'dry run':>9} {'error':>7}")
    errors = []
    for i, ((row, _), ours) in enumerate(zip(rows, found, strict=True)):
        errors.append(ours / row.published - 1)
        held = "held out" if i % 2 else ""
        print(f"{row!s:42} {row.published:9.2f} {ours:9.2f} {errors[-1]:+7.1%} {held}")
    for name, some in (("calibrated", errors[::2]), ("held out", errors[1::2])):
        sizes = sorted(map(abs, some))
        within = sum(e <= 0.2 for e in sizes)
        print(
            f"{name}: median {statistics.median(sizes):.1%}, worst {sizes[-1]:.1%}, "
            f"{within} of {len(sizes)} within 20 %"
        )
    per_device = [row.published / row.n * row.layers * row.width**2 for row, _ in rows]
    ours = [x / row.n * row.layers * row.width**2 for x, (row, _) in zip(found, rows, strict=True)]
    pairs = list(itertools.combinations(range(len(rows)), 2))
    right = sum((per_device[a] < per_device[b]) == (ours[a] < ours[b]) for a, b in pairs)
    print(f"order by work a second and device: {right} of {len(pairs)} pairs as published")


if __name__ == "__main__":
    main()
