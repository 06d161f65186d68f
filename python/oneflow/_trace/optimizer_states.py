"""The effect of a traced step on the state of an optimizer that creates its state itself, as users write them.

Tensors that the step creates are results of the program and are in the state after its run, so that the next program
updates them in place. Numbers that it counts with are refused: a program would take them for constants.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._trace.building import Kept
from oneflow._trace.structure import TENSOR


class States:
    """The state of an optimizer before its step is traced."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._before = {param: dict(state) for param, state in optimizer.state.items()}
        self._numbers = {where: value for _, _, where, value in self._look()}

    def _look(self) -> Iterator[tuple[dict[str, Any], str, str, Any]]:
        """Each number, where it is, and its name."""
        held = [(vars(self._optimizer), "{}")]
        held += [(group, f"param_groups[{i}][{{!r}}]") for i, group in enumerate(self._optimizer.param_groups)]
        held += [(state, f"state[{i}][{{!r}}]") for i, state in enumerate(self._optimizer.state.values())]
        for values, form in held:
            yield from [(values, key, form.format(key), v) for key, v in values.items() if type(v) in (int, float)]

    def settle(self, kept: Kept) -> list[Tensor]:
        """Leave no traced tensor in the state; return those that are results of the program for ``kept``.

        Raises:
            NotImplementedError: the step has changed a number.
        """
        for _, _, where, value in self._look():
            if value != self._numbers.get(where, value):
                raise NotImplementedError(
                    f"nn.Graph: {type(self._optimizer).__name__}.step() changes {where}, a number, which a program "
                    "takes for a constant: keep a 0-dim tensor there and write to it in place"
                )
        results: list[Tensor] = []
        for param, state in self._optimizer.state.items():
            before = self._before.get(param, {})
            for key, value in list(state.items()):
                old = before.get(key)
                traced = isinstance(value, Tensor) and value.is_lazy
                if traced and isinstance(old, Tensor) and (old.shape, old.dtype) == (value.shape, value.dtype):
                    state[key] = old
                    with oneflow.no_grad():
                        old.copy_(value.detach())
                elif traced:
                    results.append(value)
                    kept.places.append((state, key, TENSOR))
                elif key not in before:
                    kept.places.append((state, key, ("constant", type(value), value)))
                else:
                    continue
                if key not in before:
                    del state[key]
        return results

    def restore(self) -> None:
        """Bring everything back to what it was before a trace that failed."""
        for values, key, where, _ in list(self._look()):
            if where in self._numbers:
                values[key] = self._numbers[where]
        states = self._optimizer.state
        for param in list(states):
            if param in self._before:
                states[param].clear()
                states[param].update(self._before[param])
            else:
                del states[param]
