"""Every op of the table has an ONNX form or a reason not to have one, and docs/coverage_onnx.md is current."""

from fnmatch import fnmatchcase

from interchange import onnx_coverage
from oneflow import _oneflow


def test_every_op_has_a_form_or_a_reason():
    assert [name for name, how in onnx_coverage.outcomes().items() if not how] == []


def test_no_reason_speaks_of_an_op_that_is_translated_or_unknown():
    found = onnx_coverage.outcomes()
    for why, patterns in onnx_coverage.reasons().items():
        assert len(why) > 10
        for pattern in patterns:
            assert why in {how for name, how in found.items() if fnmatchcase(name, pattern)}, pattern
            others = {how for name, how in found.items() if name == pattern} - {why}
            assert not others, pattern


def test_rules_are_for_ops_of_the_table():
    names = {op["name"] for op in _oneflow._C._ops()}
    assert onnx_coverage.rules().keys() <= names
    assert onnx_coverage.complex_rules().keys() <= names


def test_the_page_is_current():
    assert onnx_coverage.PAGE.read_text() == onnx_coverage.page(), "python -m interchange.onnx_coverage --write"
