"""GradScaler: multiplies the loss so that half-precision gradients do not vanish, and skips steps that overflow."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.global_layouts import replicate_like, sum_over_ranks
from oneflow._base.nests import mapped
from oneflow.optim.optimizer import Optimizer


class OptState(Enum):
    """Where an optimizer is between two calls of ``update``.

    Example::

        >>> oneflow.amp.OptState.READY.value
        0
    """

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scale losses, unscale gradients, and skip the steps of gradients that are not finite.

    Args:
        device: device type.
        init_scale: first scale.
        growth_factor: the scale grows by it after ``growth_interval`` good steps in a row.
        backoff_factor: the scale shrinks by it after a bad step.
        growth_interval: steps.
        enabled: False makes every method return its argument unchanged.

    Example::

        >>> scaler = oneflow.amp.GradScaler("cpu")
        >>> optimizer = oneflow.optim.SGD(model.parameters(), lr=0.1)
        >>> loss = model(oneflow.ones(1, 2)).sum()
        >>> scaler.scale(loss).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and device.split(":")[0] == "cuda" and not oneflow.cuda.is_available():
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            enabled = False
        if enabled and not growth_factor > 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if enabled and not backoff_factor < 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._device = device
        self._enabled = enabled
        self._init_scale = init_scale
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: defaultdict[int, dict[str, Any]] = defaultdict(_fresh)

    def _start(self, device: Any) -> None:
        if self._scale is None:
            self._scale = oneflow.full((), self._init_scale, dtype=oneflow.float32, device=device)
            self._growth_tracker = oneflow.full((), self._init_growth_tracker, dtype=oneflow.int32, device=device)

    def _known(self, method: str) -> tuple[Tensor, Tensor]:
        if self._scale is None or self._growth_tracker is None:
            raise AssertionError(
                f"Attempted {method} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )
        return self._scale, self._growth_tracker

    def scale(self, outputs: Any) -> Any:
        """Multiply a tensor, or the tensors of nested lists and tuples, by the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            self._start(outputs.device)
            scale = self._scale.to(device=outputs.device)  # type: ignore[union-attr]
            return outputs * replicate_like(outputs, scale)
        if isinstance(outputs, Iterable):
            if isinstance(outputs, (list, tuple)):
                return mapped(self.scale, outputs)
            return iter([self.scale(value) for value in outputs])
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _unscale(self, optimizer: Any, inverse: Tensor) -> dict[Any, Tensor]:
        """Divide the optimizer's gradients by the scale in place; return the flag of each device."""
        by_device: dict[Any, list[Tensor]] = {}
        for group in optimizer.param_groups:
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if grad.dtype is oneflow.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                by_device.setdefault(grad.device, []).append(grad._values() if grad.is_sparse else grad)
        # Gradients that no parameter holds, as those of rows in a store.
        for grad in getattr(optimizer, "_further_grads", list)():
            by_device.setdefault(grad.device, []).append(grad)
        found: dict[Any, Tensor] = {}
        with oneflow.no_grad():
            for device, grads in by_device.items():
                found[device] = oneflow.zeros((), dtype=oneflow.float32, device=device)
                _oneflow._C._amp_foreach_non_finite_check_and_unscale_(grads, found[device], inverse.to(device=device))
                if any(grad.is_global for grad in grads):
                    # Each rank has seen its own parts; all have to skip together.
                    found[device] = (sum_over_ranks(found[device]) > 0).float()
        return found

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of ``optimizer`` by the scale now, to clip or look at them.

        Raises:
            RuntimeError: it was called for this optimizer already, or after its step.
        """
        if not self._enabled:
            return
        scale, _ = self._known("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        state["found_inf_per_device"] = self._unscale(optimizer, inverse)
        state["stage"] = OptState.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale if that was not done, and call ``optimizer.step`` unless a gradient is not finite.

        Raises:
            RuntimeError: a closure was passed, or the step was done already.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        scale, _ = self._known("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        fused = getattr(optimizer, "_step_supports_amp_scaling", None)
        # While a graph is traced nothing can be read: an update that can skip by itself has to.
        if fused or (fused is not None and oneflow._oneflow._is_tracing()):
            result = self._fused_step(optimizer, state, scale, args, kwargs)
            state["stage"] = OptState.STEPPED
            return result
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None
        if not any(float(flag) for flag in state["found_inf_per_device"].values()):
            result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _fused_step(self, optimizer: Any, state: dict[str, Any], scale: Tensor, args: Any, kwargs: Any) -> Any:
        """The step itself divides by the scale and skips, so that nothing waits for the device."""
        done = state["stage"] is OptState.UNSCALED
        if not done:
            one = oneflow.ones((), dtype=oneflow.float32, device=scale.device)
            state["found_inf_per_device"] = self._unscale(optimizer, one)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        flags = list(state["found_inf_per_device"].values())
        found = flags[0] if len(flags) == 1 else (sum(flag.to(device=scale.device) for flag in flags) > 0).float()
        optimizer.grad_scale = None if done else scale
        optimizer.found_inf = found
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Shrink the scale after a bad step, grow it after enough good ones; or set it."""
        if not self._enabled:
            return
        scale, tracker = self._known("update")
        with oneflow.no_grad():
            if new_scale is not None:
                scale.fill_(float(new_scale)) if not isinstance(new_scale, Tensor) else scale.copy_(new_scale)
            else:
                flags = [
                    flag.to(device=scale.device)
                    for state in self._per_optimizer_states.values()
                    for flag in state["found_inf_per_device"].values()
                ]
                if not flags:
                    raise AssertionError("No inf checks were recorded prior to update.")
                bad = flags[0]
                for flag in flags[1:]:
                    bad = bad + flag
                self._advance(scale, tracker, bad > 0)
        self._per_optimizer_states = defaultdict(_fresh)

    def _advance(self, scale: Tensor, tracker: Tensor, bad: Tensor) -> None:
        streak = oneflow.where(bad, oneflow.zeros_like(tracker), tracker + 1)
        grows = streak == self._growth_interval
        grown = scale * self._growth_factor
        # A scale that would overflow stays.
        grown = oneflow.where(oneflow.isfinite(grown), grown, scale)
        good = oneflow.where(grows, grown, scale)
        scale.copy_(oneflow.where(bad, scale * self._backoff_factor, good))
        tracker.copy_(oneflow.where(grows, oneflow.zeros_like(streak), streak))

    # ---- settings

    def _found_inf_per_device(self, optimizer: Optimizer) -> dict[Any, Tensor]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    def _check_inf_per_device(self, optimizer: Optimizer) -> dict[Any, Tensor]:
        scale, _ = self._known("_check_inf_per_device")
        found = self._unscale(optimizer, oneflow.ones((), dtype=oneflow.float32, device=scale.device))
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def get_scale(self) -> float:
        """The scale, read from the device."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale)

    def get_growth_factor(self) -> float:
        """Return the factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale grows by."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the factor by which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the scale shrinks by."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Good steps before the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the good steps before the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker)

    def is_enabled(self) -> bool:
        """Return whether it scales at all."""
        return self._enabled

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Scale, factors, interval and streak; empty where it is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned.

        Raises:
            RuntimeError: the dictionary is empty: it comes from a disabled scaler.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning "
                    "of an iteration, or at the end after scaler.update()."
                )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class StaticGradScaler(GradScaler):
    """A scaler whose scale stays: steps of gradients that are not finite are skipped all the same.

    Args:
        scale_factor: the scale.

    Raises:
        ValueError: it is not positive.

    Example::

        >>> scaler = oneflow.amp.StaticGradScaler(128.0)
        >>> scaler.scale(oneflow.tensor(2.0))
        tensor(256.)
    """

    def __init__(self, scale_factor: float) -> None:
        if not scale_factor > 0:
            raise ValueError(f"StaticGradScaler(): scale_factor must be positive, got {scale_factor}")
        super().__init__("cpu", init_scale=float(scale_factor))

    def _advance(self, scale: Tensor, tracker: Tensor, bad: Tensor) -> None:
        pass
