"""If, Loop and Scan: graphs that are attributes of a node."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow.onnx._import.registry import Call, handler


def _tupled(values: list[Any]) -> Any:
    return tuple(values) if len(values) != 1 else values[0]


@handler("If")
def if_(c: Call, condition: Any) -> Any:
    taken = bool(condition.reshape(()).item())
    return _tupled(c.run(c.need("then_branch" if taken else "else_branch"), []))


@handler("Loop")
def loop(c: Call, limit: Any, condition: Any, *states: Any) -> Any:
    body = c.need("body")
    n = None if limit is None else int(limit.reshape(()).item())
    going = condition is None or bool(condition.reshape(()).item())
    current = list(states)
    kept: list[list[Any]] = [[] for _ in range(c.n_outputs - len(states))]
    i = 0
    while going and (n is None or i < n):
        made = c.run(body, [flow.tensor(i, dtype=flow.int64), flow.tensor(True), *current])
        going = bool(made[0].reshape(()).item())
        current = made[1 : 1 + len(states)]
        for values, value in zip(kept, made[1 + len(states) :], strict=False):
            values.append(value)
        i += 1
    return _tupled(current + [flow.stack(v) if v else flow.zeros(0) for v in kept])


@handler("Scan")
def scan(c: Call, *inputs: Any) -> Any:
    if c.version < 9:
        return _scan_of_batches(c, *inputs)
    n_in = c.need("num_scan_inputs")
    n_states = len(inputs) - n_in
    axes_in = c.get("scan_input_axes") or [0] * n_in
    backward_in = c.get("scan_input_directions") or [0] * n_in
    n_out = c.n_outputs - n_states
    axes_out = c.get("scan_output_axes") or [0] * n_out
    backward_out = c.get("scan_output_directions") or [0] * n_out
    states, sequences = list(inputs[:n_states]), inputs[n_states:]
    steps = sequences[0].shape[axes_in[0]]
    states, kept = _scanned(c, states, sequences, axes_in, backward_in, n_out, steps)
    results = []
    for values, axis, backward in zip(kept, axes_out, backward_out, strict=True):
        results.append(flow.stack(values[::-1] if backward else values, axis))
    return _tupled(states + results)


def _scanned(
    c: Call, states: list[Any], sequences: Any, axes: Any, backward: Any, n_out: int, steps: int
) -> tuple[list[Any], list[list[Any]]]:
    kept: list[list[Any]] = [[] for _ in range(n_out)]
    n_states = len(states)
    for t in range(steps):
        parts = [
            s.select(axis, steps - 1 - t if back else t)
            for s, axis, back in zip(sequences, axes, backward, strict=True)
        ]
        made = c.run(c.need("body"), [*states, *parts])
        states = made[:n_states]
        for values, value in zip(kept, made[n_states:], strict=True):
            values.append(value)
    return states, kept


def _scan_of_batches(c: Call, lengths: Any, *inputs: Any) -> Any:
    """Version 8: the first dimension is the batch, the second one is scanned."""
    n_in = c.need("num_scan_inputs")
    n_states = len(inputs) - n_in
    backward = c.get("directions") or [0] * n_in
    n_out = c.n_outputs - n_states
    batch, longest = inputs[-1].shape[0], inputs[-1].shape[1]
    rows: list[list[Any]] = []
    for b in range(batch):
        steps = longest if lengths is None else c.ints(lengths)[b]
        sequences = [s[b].narrow(0, 0, steps) for s in inputs[n_states:]]
        states, kept = _scanned(c, [s[b] for s in inputs[:n_states]], sequences, [0] * n_in, backward, n_out, steps)
        made = [flow.stack(v) for v in kept]
        made = [
            flow.cat([m, flow.zeros(longest - steps, *m.shape[1:], dtype=m.dtype)]) if steps < longest else m
            for m in made
        ]
        rows.append(states + made)
    return _tupled([flow.stack(list(column)) for column in zip(*rows, strict=True)])
