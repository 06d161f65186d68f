"""`testing.FileCheck`: random texts and checks beside PyTorch's, what is written as text, and errors."""

import random

import oneflow
import pytest
import torch


def passes(lib, text, steps):
    checks = lib.testing.FileCheck()
    for name, *args in steps:
        getattr(checks, name)(*args)
    try:
        checks.run(text)
    except RuntimeError:
        return False
    return True


# Regular expressions apart: PyTorch continues after one at another place than its end.
KINDS = ["check", "check_same", "check_next", "check_not", "check_dag", "check_dag", "check_count"]


def test_random_texts_pass_and_fail_as_in_pytorch():
    draw = random.Random(1)
    outcomes = []
    for _ in range(4000):
        lines = ["".join(draw.choice("abcd ") for _ in range(draw.randint(0, 5))) for _ in range(draw.randint(1, 4))]
        steps = []
        for _ in range(draw.randint(1, 4)):
            kind, text = draw.choice(KINDS), "".join(draw.choice("abcd") for _ in range(draw.randint(1, 2)))
            more = (draw.randint(1, 2), draw.random() < 0.3) if kind == "check_count" else ()
            steps.append((kind, text, *more))
        theirs, ours = (passes(lib, "\n".join(lines), steps) for lib in (torch, oneflow))
        assert theirs == ours, (lines, steps)
        outcomes.append(ours)
    assert 200 < sum(outcomes) < 3800


def test_checks_may_be_written_in_a_text():
    checks = "# CHECK: load\n  # CHECK-NEXT: mul\n# CHECK-NOT: sub\n# CHECK-COUNT-2: add\nother\n"
    good = "x = load\ny = mul x\nz = add y\nw = add z\n"
    for lib in (torch, oneflow):
        lib.testing.FileCheck().run(checks, good)
        with pytest.raises(RuntimeError):
            lib.testing.FileCheck().run(checks, good.replace("w = add", "w = div"))


def test_regular_expressions():
    checks = oneflow.testing.FileCheck
    checks().check("a").check_regex(r"b\d+").check("c").run("a b12 c")
    with pytest.raises(RuntimeError, match=r'Expected to find regex "b\\d" but did not find it'):
        checks().check_regex(r"b\d").run("a b c")


def test_errors_name_the_check():
    text = "one\ntwo three\n"
    checks = oneflow.testing.FileCheck
    with pytest.raises(RuntimeError, match=r'Expected to find "four" but did not find it(.|\n)*From CHECK: four'):
        checks().check("four").run(text)
    with pytest.raises(RuntimeError, match=r'Expected to not find "two" but found it(.|\n)*From CHECK-NOT: two'):
        checks().check("one").check_not("two").check("three").run(text)
    with pytest.raises(RuntimeError, match="From CHECK-NEXT: three"):
        checks().check("two").check_next("three").run(text)
    with pytest.raises(RuntimeError, match="No checks"):
        checks().run(text)
    with pytest.raises(RuntimeError, match="count of 0"):
        checks().check_count("a", 0)
    assert "CHECK-COUNT-2: a" in repr(checks().check_count("a", 2))
