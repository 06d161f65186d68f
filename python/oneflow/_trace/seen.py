"""What the modules of a graph see in place of their parameters: copies that a step makes when a module is called.

A parameter that lies elsewhere between uses, in slices or on the host, is brought for the call of a module and dropped
behind it. Where the backward reads it too, the module's forward is checkpointed: of what is computed again only the
bringing is needed, the rest is dead code. What modules look up is replaced for the time of the trace alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from oneflow import Tensor, _oneflow
from oneflow.nn.modules.module import Module
from oneflow.utils.checkpoint import checkpoint

__all__ = ["Seen"]


class Seen:
    """The parameters that are brought in one trace."""

    def __init__(self) -> None:
        # Of the calls of modules under way, the innermost last: the parameters that they have looked up, by id.
        self._calls: list[dict[int, Tensor]] = []
        # By id: how it is brought, and whether that happens again for the backward.
        self._brought: dict[int, tuple[Callable[[Tensor], Tensor], bool]] = {}

    def add(self, p: Tensor, bring: Callable[[Tensor], Tensor], again: bool) -> None:
        """Let modules see what ``bring`` makes of a parameter, ``again`` in the backward."""
        self._brought[id(p)] = (bring, again)

    @contextlib.contextmanager
    def around_build(self, modules: Iterable[Module]) -> Iterator[None]:
        """Inside, modules see what is brought."""
        if not self._brought:
            yield
            return
        modules = list({id(m): m for m in modules}.values())
        before = [(m, m._parameters, m.__dict__.get("forward")) for m in modules]
        try:
            for module in modules:
                self._watch_calls(module)
                if any(id(p) in self._brought for p in module._parameters.values()):
                    module.__dict__["_parameters"] = _LookedUp(module._parameters, self._look_up)
            yield
        finally:
            for module, parameters, forward in before:
                module.__dict__["_parameters"] = parameters
                module.__dict__.pop("forward", None)
                if forward is not None:
                    module.__dict__["forward"] = forward

    def _watch_calls(self, module: Module) -> None:
        """Let what the module's forward looks up, its own or another module's parameters, be what ops are to see."""
        forward = module.forward
        own = [p for p in module._parameters.values() if p is not None and id(p) in self._brought]

        def called(*args: Any, **kwargs: Any) -> Any:
            self._calls.append({id(p): self._bring(p) for p in own})
            try:
                return forward(*args, **kwargs)
            finally:
                self._calls.pop()

        def brought_again(*args: Any, **kwargs: Any) -> Any:
            runs: list[None] = []

            def run(*args: Any, **kwargs: Any) -> Any:
                runs.append(None)
                if len(runs) == 1:
                    return called(*args, **kwargs)
                # A plan's layouts are those of the first run.
                _oneflow._Layouts.pause_pins(True)
                try:
                    return called(*args, **kwargs)
                finally:
                    _oneflow._Layouts.pause_pins(False)

            # What only the module's result needs is dead code in the backward: the bringing is what remains.
            return checkpoint(run, *args, use_reentrant=False, **kwargs)

        alone = any(self._brought[id(p)][1] for p in own) and not module._modules
        module.__dict__["forward"] = brought_again if alone else called

    def _look_up(self, p: Tensor) -> Tensor:
        """A parameter as the forward under way sees it, once for each call of a module; itself outside of all calls."""
        if not self._calls or id(p) not in self._brought:
            return p
        known = self._calls[-1]
        if id(p) not in known:
            known[id(p)] = self._bring(p)
        return known[id(p)]

    def _bring(self, p: Tensor) -> Tensor:
        return self._brought[id(p)][0](p)


class _LookedUp(dict[str, Any]):
    """A module's parameters during a trace: looked up, one is what ops are to see; listed, it is itself."""

    def __init__(self, own: dict[str, Any], look_up: Callable[[Tensor], Tensor]) -> None:
        super().__init__(own)
        self._look_up = look_up

    def __getitem__(self, name: str) -> Any:
        p = super().__getitem__(name)
        return p if p is None else self._look_up(p)
