"""Pipeline schedules as data: the bubbles of the papers, what tables refuse, and their text."""

from __future__ import annotations

import random

import oneflow  # noqa: F401
import pytest
from oneflow._schedules.generators import SCHEDULES
from oneflow.distributed.pipelining import Action, PipelineTable, make_table

# Ticks of a forward, a backward of inputs, and a backward of weights; a whole backward takes the last two.
F, B, W = 1, 1, 1

# By name: the stages a rank, the fewest micro-batches by ranks, and the bubble by ranks as the paper has it.
PAPERS = {
    "GPipe": (1, lambda p: 1, lambda p: (p - 1) * (F + B + W)),
    "1F1B": (1, lambda p: 1, lambda p: (p - 1) * (F + B + W)),
    "LoopedBFS": (2, lambda p: p, lambda p: (p - 1) * (F + B + W)),
    "Interleaved1F1B": (2, lambda p: p, lambda p: (p - 1) * (F + B + W)),
    "InterleavedZeroBubble": (2, lambda p: p, lambda p: (p - 1) * (F + B - W)),
    "ZB-H1": (1, lambda p: p, lambda p: (p - 1) * (F + B - W)),
    "ZB-V": (2, lambda p: 2 * p, lambda p: 0),
    # Of a pair that overlaps, and of a whole backward.
    "DualPipeV": (2, lambda p: 2 * p, lambda p: (p - 1) * ((F + B + W) + (B + W) - 3 * W)),
}


@pytest.mark.parametrize("name", PAPERS)
def test_bubbles_are_those_of_the_papers(name: str) -> None:
    stages, fewest, bubble = PAPERS[name]
    for p in (1, 2, 3, 4, 5, 8):
        for m in (fewest(p), fewest(p) + p, 4 * p):
            table = make_table(name, p, m)
            assert (table.n_ranks, table.n_stages, table.n_micro_batches) == (p, p * stages, m)
            assert table.bubble() == bubble(p), (p, m)


@pytest.mark.parametrize("name", ["Interleaved1F1B", "InterleavedZeroBubble", "LoopedBFS", "GPipe"])
def test_more_stages_a_rank_keep_the_bubble(name: str) -> None:
    for stages in (1, 3, 4):
        table = make_table(name, 4, 8, stages)
        # In ticks of smaller stages: the share of a step falls.
        assert table.bubble() == PAPERS[name][2](4) and table.n_stages == 4 * stages


def test_unequal_times() -> None:
    # One forward takes 3, the backwards 5 and 2.
    lasts = {"F": 3, "B": 5, "W": 2}
    assert make_table("1F1B", 4, 8).bubble(lasts) == 3 * (3 + 5 + 2)
    assert make_table("ZB-H1", 4, 8).bubble(lasts) < make_table("1F1B", 4, 8).bubble(lasts)
    timed = make_table("GPipe", 2, 1).timed(transfer=4)
    assert timed[1][0].start == 5 and timed[0][1].start == 1 + 4 + 3 + 4


def test_activations_held() -> None:
    p, m = 4, 12
    assert make_table("GPipe", p, m).in_flight() == [m] * p
    assert make_table("1F1B", p, m).in_flight() == [4, 3, 2, 1]
    assert make_table("ZB-H1", p, m).in_flight() == [p] * p
    # Each is half as large: the memory of 1F1B's first rank.
    assert make_table("ZB-V", p, m).in_flight() == [2 * p] * p
    assert make_table("DualPipeV", p, m).in_flight() == [2 * p + 1] * p


@pytest.mark.parametrize("name", PAPERS)
def test_every_size_is_a_table_or_says_why_not(name: str) -> None:
    for p in range(1, 7):
        for m in range(1, 16):
            try:
                table = make_table(name, p, m)
            except ValueError as error:
                assert "micro-batches" in str(error)
                continue
            assert PipelineTable.from_csv(table.to_csv()) == table
            work = 3 * m * table.n_stages // p
            # Nobody is faster than its own work, or than one micro-batch's way through all stages.
            assert table.makespan() >= max(work, 2 * table.n_stages)


def test_text() -> None:
    table = make_table("ZB-H1", 2, 3)
    assert table.to_csv() == "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2\n1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2\n"
    assert table.grid().splitlines()[1].startswith(".   1F0 1B0 1F1 1B1 1W0")
    assert make_table("1f1b", 1, 1).grid() == "0F0 0B0 ="
    assert repr(make_table("schedule zbv zero bubble", 2, 4)) == "<ZB-V: 2 ranks, 4 stages, 4 micro-batches>"
    pair = PipelineTable([["0F0", (0, 1, "F"), Action(0, 0, "B"), "0B1"]])
    assert pair.rows[0][1] == Action(0, 1, "F")
    assert hash(pair) == hash(PipelineTable.from_csv("0F0,,0F1,0B0,0B1"))


def test_a_pair_starts_when_both_can() -> None:
    apart = PipelineTable([["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]])
    pairs = PipelineTable([["0F0", "0F1+0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]])
    assert [t.start for t in apart.timed()[0]] == [0, 1, 4, 7]
    assert [t.start for t in pairs.timed()[0]] == [0, 4, 5, 10]
    assert pairs != apart and pairs.to_csv().startswith("0F0,0F1+0B0,0B1")


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([["0F0", "0B0"], ["1F0"]], r"the backward of micro-batch 0 on stage 1 is missing \(rank 1\)"),
        ([["0F0", "0F1", "0B0", "0B1"], ["1F1", "1B1", "1B0"]], "the forward of micro-batch 0 on stage 1 is missing"),
        ([["0F0", "0B0", "0B0"]], "the backward of micro-batch 0 on stage 0 comes 2 times"),
        ([["0F0", "0B0"], ["0F1", "0B1"]], "stage 0 is on rank 0 and on rank 1"),
        ([["0F0", "0B0"], ["2F0", "2B0"]], r"stages \[1\] are on no rank"),
        ([["0F0", "0B0"], []], "rank 1 has no work"),
        ([], "there are no ranks"),
        ([["0B0", "0F0"]], "rank 0 waits with the backward of micro-batch 0 on stage 0 for the forward"),
        ([["0F0", "0W0", "0B0"]], "the backward of weights of micro-batch 0 on stage 0 for the backward"),
        ([["0F0", "0W0"]], "without a backward"),
        ([["0F0+0F1+0F2"]], "two actions may overlap, not 3"),
        ([["0X0"]], "'0X0', which is no action"),
        ([[(0, -1, "F")]], "which is no action"),
        ([[(0, 0, "Q")]], "which is no action"),
    ],
)
def test_bad_tables_are_named(rows: list[list[object]], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        PipelineTable(rows)


def test_ranks_that_wait_for_each_other_are_named() -> None:
    rows = [["0F0", "0B0", "0F1", "0B1"], ["1F1", "1F0", "1B0", "1B1"]]
    with pytest.raises(
        ValueError, match=r"rank 0 waits with the backward of micro-batch 0 .* on rank 1; rank 1 waits with the "
    ):
        PipelineTable(rows)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("ZigZag", 2, 2), "there is no pipeline schedule 'ZigZag': expected one of GPipe, 1F1B"),
        (("1F1B", 0, 2), "n_ranks must be a positive integer, got 0"),
        (("1F1B", 2, True), "n_micro_batches must be a positive integer, got True"),
        (("1F1B", 2, 2, 2), "1F1B has 1 stage a rank, got 2"),
        (("ZB-V", 2, 4, 3), "ZB-V has 2 stages a rank, got 3"),
        (("Interleaved1F1B", 4, 9), "9 micro-batches over 4 ranks make 2 rounds, which do not divide them; nearest: 8"),
        (("DualPipeV", 3, 5), "give 6 or more"),
    ],
)
def test_impossible_numbers_are_named(arguments: tuple[object, ...], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make_table(*arguments)


@pytest.mark.parametrize("name", SCHEDULES)
def test_ends_are_those_of_the_timed_table(name: str) -> None:
    draw = random.Random(name)
    for n_ranks, n_micro_batches in ((1, 2), (2, 4), (4, 8), (4, 16)):
        table = make_table(name, n_ranks, n_micro_batches)
        lasts = [[draw.randint(0, 9) for _ in "FBW"] for _ in range(table.n_stages)]
        timed = table.timed({kind: [own[k] for own in lasts] for k, kind in enumerate("FBW")})
        ended = {t.action.stage: t.end for row in timed for t in row}
        assert table.ends(lasts) == [ended[stage] for stage in range(table.n_stages)]
