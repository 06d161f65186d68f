"""A sample of damaged archives and program directories (``make mutated`` runs more)."""

import pytest
from mutated_files import outcomes


@pytest.mark.parametrize("kind", ["archives", "programs"])
def test_damaged_files_end_in_results_or_clear_errors(kind):
    counts, findings = outcomes(kind, 0, 500)
    assert not findings, findings
    assert counts["runs"] > 10 and counts.total() == 500, counts
