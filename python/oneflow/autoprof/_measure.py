"""Timing: both libraries in turn, so that what disturbs one disturbs the other; medians."""

from __future__ import annotations

import functools
import itertools
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import oneflow
from oneflow.autoprof._cases import Case

# A sample is so many calls that it takes at least this long: the clock then does not matter.
_SAMPLE_SECONDS = 2e-4


@dataclass
class Row:
    """One measured case. Times are microseconds of one call; None: not measured, and ``note`` gives the reason.

    Example::

        >>> oneflow.autoprof.Row("add", "", "[2]", "float32", 3, 2.0, 5.0).ratio
        2.5
    """

    name: str
    arguments: str
    shapes: str
    dtype: str
    calls: int
    oneflow_us: float | None
    torch_us: float | None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """PyTorch's time over oneflow's: above 1 oneflow is faster."""
        if not self.oneflow_us or not self.torch_us:
            return None
        return self.torch_us / self.oneflow_us

    @property
    def total_us(self) -> float | None:
        """Microseconds of all calls."""
        return None if self.oneflow_us is None else self.oneflow_us * self.calls


def to_torch(value: Any, torch: Any) -> Any:
    """The same value for PyTorch: tensors with the same elements and layout, dtypes and devices by name."""
    if isinstance(value, oneflow.Tensor):
        dtype = getattr(torch, str(value.dtype).rpartition(".")[2])
        source = value.detach().cpu()
        narrow = dtype in (torch.bfloat16,)
        made = torch.from_numpy((source.float() if narrow else source).contiguous().numpy().copy()).to(dtype)
        if not value.is_contiguous():
            made = torch.empty_strided(tuple(value.shape), value.stride(), dtype=dtype).copy_(made)
        return made.requires_grad_(value.requires_grad)
    if isinstance(value, oneflow.dtype):
        return getattr(torch, str(value).rpartition(".")[2])
    if isinstance(value, oneflow.device):
        return torch.device(str(value))
    if isinstance(value, oneflow.memory_format):
        return getattr(torch, str(value).rpartition(".")[2])
    if isinstance(value, dict):
        return {key: to_torch(item, torch) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return (
            [to_torch(item, torch) for item in value]
            if isinstance(value, list)
            else tuple(to_torch(item, torch) for item in value)
        )
    return value


def _runnable(case: Case, library: Any, convert: Callable[[Any], Any]) -> tuple[Callable[[], Any] | None, str]:
    """The call in a library, or why there is none."""
    note = "no such function"
    forms = [(case.args, case.kwargs)]
    if library is not oneflow and (named := case.named()) is not None:
        # Two functions of one name agree on the names of their arguments rather than on their order.
        forms.insert(0, ((), named))
    for function, form in itertools.product(case.find(library), forms):
        try:
            args, kwargs = convert(form[0]), convert(form[1])
            with warnings.catch_warnings():
                # A function of this name that takes other arguments may warn before it refuses.
                warnings.simplefilter("ignore")
                function(*args, **kwargs)
        except Exception as error:
            note = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        else:
            return functools.partial(function, *args, **kwargs), ""
    return None, note


def _n_calls(run: Callable[[], Any], clock: Callable[[], float]) -> int:
    """How many calls make one sample."""
    n = 1
    while True:
        elapsed = _time(run, n, clock)
        if elapsed >= _SAMPLE_SECONDS or n >= 1 << 14:
            return n
        n *= 2 if elapsed <= 0 else max(2, min(16, int(_SAMPLE_SECONDS / elapsed) + 1))


def _time(run: Callable[[], Any], n: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(n):
        run()
    return clock() - start


def measure(case: Case, torch: Any = None, seconds: float = 0.2) -> Row:
    """Time a case.

    Args:
        case: the call.
        torch: the module to compare with, or None.
        seconds: about how long to measure.

    Returns:
        the medians. A failure in a library is described in ``note``, without a time.

    Example::

        >>> case = oneflow.autoprof.Case.parse("relu", "relu(x)", x="f32[8]")
        >>> oneflow.autoprof.measure(case, seconds=0.01).oneflow_us > 0
        True
    """
    row = Row(case.name, case.text, case.shapes(), case.dtype(), case.calls, None, None)
    ours, note = _runnable(case, oneflow, lambda value: value)
    if ours is None:
        row.note = f"oneflow: {note}"
        return row
    runs = [ours]
    if torch is not None:
        theirs, note = _runnable(case, torch, lambda value: to_torch(value, torch))
        if theirs is None:
            row.note = f"PyTorch: {note}"
        else:
            runs.append(theirs)
    # The processor time of one thread is not affected by other programs.
    clock = time.thread_time if oneflow.get_num_threads() == 1 else time.perf_counter
    counts = [_n_calls(run, clock) for run in runs]
    samples: list[list[float]] = [[] for _ in runs]
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(samples[0]) < 5:
        for run, n, times in zip(runs, counts, samples, strict=True):
            times.append(_time(run, n, clock) / n)
    row.oneflow_us = statistics.median(samples[0]) * 1e6
    if len(runs) > 1:
        row.torch_us = statistics.median(samples[1]) * 1e6
    return row
