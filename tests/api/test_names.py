"""Every name that programs use exists or is excluded with a reason, and docs/coverage.md is current."""

import oneflow
import pytest
from api import names

LISTS = names.lists()


@pytest.mark.parametrize("title", LISTS)
def test_every_name_is_there_or_has_a_reason_not_to_be(title):
    expected = [n.text for n in LISTS[title]]
    assert len(expected) > 400
    missing = [text for text in expected if names.verdict(text).kind == "missing"]
    assert missing == []


def test_no_excluded_name_is_there():
    everything = [n.text for found in LISTS.values() for n in found]
    there = [t for t in everything if names.rule("excluded", t) and names.find(t) is not names.MISSING]
    assert there == [], "take them out of tests/api/excluded.toml"


def test_every_rule_speaks_of_a_name_and_says_why():
    everything = [n.text for found in LISTS.values() for n in found]
    for section in ("excluded", "partial"):
        for key, reason in names.rules()[section].items():
            assert len(reason) > 5
            assert any(names.fnmatchcase(text, key) for text in everything), f"{key} is no name of the lists"
    for new in names.rules()["renamed"].values():
        assert names.find(new) is not names.MISSING


def test_a_name_that_is_made_up_is_missing():
    for text in ("torch.no_such_name", "Tensor.no_such_name", "oneflow.nn.NoSuchLayer", "torch.nn.no.such"):
        assert names.verdict(text).kind == "missing"


def test_missing_names_raise_errors_that_say_so():
    for module in (oneflow, oneflow._C, oneflow.utils, oneflow.cuda, oneflow.nn.utils):
        with pytest.raises(AttributeError, match="does not provide"):
            module.no_such_name
    with pytest.raises(AttributeError, match="no_such_name"):
        oneflow.zeros(1).no_such_name


def test_the_page_is_current():
    said = names.PAGE.read_text().splitlines()
    for line in names.page().splitlines():
        assert line in said, "run python -m api.names --write in tests/"
