"""AutoProf: times of ops compared with PyTorch's, from a list of cases or from a script's calls.

On the command line::

    python -m oneflow.autoprof                          # the built-in cases
    python -m oneflow.autoprof --only 'matmul|softmax'  # some of them
    python -m oneflow.autoprof script.py --epochs 1     # every different call that the script makes
    python -m oneflow.autoprof --csv ops.csv --html ops.html

Both libraries run the same calls on the same values in turn, in one process; what is compared are medians. Without
PyTorch only oneflow is timed.

Example::

    >>> from oneflow import autoprof
    >>> case = autoprof.Case.parse("relu", "relu(x)", x="f32[64,64]")
    >>> row = autoprof.measure(case, seconds=0.02)
    >>> row.name, row.shapes, row.oneflow_us > 0
    ('relu', '[64, 64]', True)
"""

from __future__ import annotations

from oneflow.autoprof._cases import Case, built_in_cases, calls_of_script
from oneflow.autoprof._measure import Row, measure
from oneflow.autoprof._report import write_csv, write_html

__all__ = ["Case", "Row", "built_in_cases", "calls_of_script", "measure", "write_csv", "write_html"]
