"""A sample of damaged ONNX files (``make mutated`` runs more)."""

from mutated_files import outcomes


def test_damaged_models_end_in_results_or_clear_errors():
    counts, findings = outcomes("onnx", 0, 400)
    assert not findings, findings
    assert counts["runs"] > 20 and counts.total() == 400, counts
