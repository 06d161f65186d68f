"""L-BFGS: steps by the inverse Hessian that the last gradients suggest, optionally with a strong-Wolfe line search.

Source: Nocedal and Wright, "Numerical Optimization", chapters 3 and 7. The loop is Python over a few vector ops.
Products of vectors stay 0-dim tensors of the parameters' dtype, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.refusals import without_effect
from oneflow.optim._options import check_lr
from oneflow.optim.optimizer import Optimizer

Number = Any  # float, or a 0-dim tensor


class LBFGS(Optimizer):
    """Limited-memory BFGS. One group only; ``step`` needs a closure, which it calls several times.

    Args:
        params: parameters, in one group.
        lr: length of a step along the direction.
        max_iter: iterations of a step.
        max_eval: calls of the closure in a step; ``max_iter * 5 // 4`` by default.
        tolerance_grad: stop where no gradient element is larger.
        tolerance_change: stop where loss or parameters change less.
        history_size: pairs of steps and gradient changes that are kept.
        line_search_fn: None or "strong_wolfe".
        maximize: go up instead of down.

    Example::

        >>> w = oneflow.nn.Parameter(oneflow.ones(2))
        >>> optimizer = oneflow.optim.LBFGS([w], lr=1.0)
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (w**2).sum()
        ...     loss.backward()
        ...     return loss
        >>> _ = optimizer.step(closure)
        >>> oneflow.allclose(w, oneflow.zeros(2), atol=1e-4)
        True
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
        *,
        maximize: bool = False,
        contiguous_params: bool = False,
    ) -> None:
        check_lr(lr)
        if contiguous_params:
            without_effect("contiguous_params=True", "parameters are one vector here anyway")
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
            "maximize": maximize,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    # ---- parameters as one vector

    def _flat_grad(self) -> Tensor:
        parts = []
        for param in self._params:
            grad = oneflow.zeros_like(param) if param.grad is None else param.grad
            grad = grad.to_dense() if grad.is_sparse else grad
            parts.append((oneflow.view_as_real(grad) if grad.is_complex() else grad).reshape(-1))
        flat = oneflow.cat(parts, 0)
        return flat.neg_() if self.param_groups[0].get("maximize") else flat

    def _loss(self, value: Any) -> float:
        """The objective."""
        return -float(value) if self.param_groups[0].get("maximize") else float(value)

    def _add(self, length: Number, direction: Tensor) -> None:
        at = 0
        for param in self._params:
            param = oneflow.view_as_real(param) if param.is_complex() else param
            n = param.numel()
            param.add_(direction[at : at + n].view_as(param), alpha=length)
            at += n

    def _evaluate_at(
        self, closure: Callable[[], Any], start: list[Tensor], length: Number, direction: Tensor
    ) -> tuple[float, Tensor]:
        """Loss and gradient at ``length`` along the direction; the parameters stay where they were."""
        self._add(length, direction)
        loss = self._loss(closure())
        grad = self._flat_grad()
        for param, value in zip(self._params, start, strict=True):
            param.copy_(value)
        return loss, grad

    # ---- the step

    @oneflow.no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Take up to ``max_iter`` iterations.

        Args:
            closure: computes the loss again, with gradients, and returns it.

        Returns:
            the loss before the step.
        """
        closure = oneflow.enable_grad()(closure)
        group = self.param_groups[0]
        lr = float(group["lr"])
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss = self._loss(first_loss)
        n_evals = 1
        state["func_evals"] += 1
        grad = self._flat_grad()
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss
        direction, length = state.get("d"), state.get("t")
        steps, changes, ro = state.get("old_stps"), state.get("old_dirs"), state.get("ro")
        scale, before, loss_before = state.get("H_diag"), state.get("prev_flat_grad"), state.get("prev_loss")
        n_iter = 0
        while n_iter < group["max_iter"]:
            n_iter += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                direction, changes, steps, ro = grad.neg(), [], [], []
                scale = 1
            else:
                change = grad.sub(before)
                moved = direction.mul(length)
                curvature = change.dot(moved)
                if curvature > 1e-10:
                    if len(changes) == group["history_size"]:
                        for memory in (changes, steps, ro):
                            memory.pop(0)
                    changes.append(change)
                    steps.append(moved)
                    ro.append(1.0 / curvature)
                    scale = curvature / change.dot(change)
                shares = state.setdefault("al", [None] * group["history_size"])
                direction = _two_loops(grad, changes, steps, ro, scale, shares)
            before = grad.clone() if before is None else before.copy_(grad)
            loss_before = loss
            shrunk: Number = min(1.0, 1.0 / grad.abs().sum())
            length = shrunk * lr if state["n_iter"] == 1 else lr
            slope = grad.dot(direction)
            if slope > -group["tolerance_change"]:
                break
            n_calls = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                start = [param.clone() for param in self._params]
                found = direction

                def at(t: Number, start: list[Tensor] = start, found: Tensor = found) -> tuple[float, Tensor]:
                    return self._evaluate_at(closure, start, t, found)

                loss, grad, length, n_calls = _strong_wolfe(
                    at, length, direction, loss, grad, slope, max_trials=group["max_eval"] - n_evals
                )
                self._add(length, direction)
                is_optimal = bool(grad.abs().max() <= group["tolerance_grad"])
            else:
                self._add(length, direction)
                is_optimal = False
                if n_iter != group["max_iter"]:
                    loss = self._loss(closure())
                    grad = self._flat_grad()
                    is_optimal = bool(grad.abs().max() <= group["tolerance_grad"])
                    n_calls = 1
            n_evals += n_calls
            state["func_evals"] += n_calls
            if n_iter == group["max_iter"] or n_evals >= group["max_eval"] or is_optimal:
                break
            if direction.mul(length).abs().max() <= group["tolerance_change"]:
                break
            if abs(loss - loss_before) < group["tolerance_change"]:
                break
        state.update(d=direction, t=length, old_dirs=changes, old_stps=steps, ro=ro)
        state.update(H_diag=scale, prev_flat_grad=before, prev_loss=loss_before)
        return first_loss


def _two_loops(
    grad: Tensor, changes: list[Tensor], steps: list[Tensor], ro: list[Tensor], scale: Number, shares: list[Any]
) -> Tensor:
    """Return minus the gradient times the inverse Hessian that the history approximates; ``shares`` is written."""
    q = grad.neg()
    for i in reversed(range(len(changes))):
        shares[i] = steps[i].dot(q) * ro[i]
        q.add_(changes[i], alpha=-shares[i])
    direction = q.mul(scale)
    for i in range(len(changes)):
        direction.add_(steps[i], alpha=shares[i] - changes[i].dot(direction) * ro[i])
    return direction


Point = tuple[Any, float, Any, Any]  # length, loss, gradient, slope


def _cubic_minimum(a: Point, b: Point, low: Number | None = None, high: Number | None = None) -> Any:
    """Where the cubic through two points and slopes is least, within bounds."""
    if low is None or high is None:
        low, high = min(a[0], b[0]), max(a[0], b[0])
    d1 = a[3] + b[3] - 3 * (a[1] - b[1]) / (a[0] - b[0])
    square = d1**2 - a[3] * b[3]
    if square < 0:
        return (low + high) / 2.0
    d2 = square.sqrt()
    if a[0] > b[0]:
        a, b = b, a
    at = b[0] - (b[0] - a[0]) * ((b[3] + d2 - d1) / (b[3] - a[3] + 2 * d2))
    return min(max(at, low), high)


def _strong_wolfe(
    evaluate: Callable[[Number], tuple[float, Tensor]],
    length: Number,
    direction: Tensor,
    loss: float,
    grad: Tensor,
    slope: Tensor,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_trials: int = 25,
) -> tuple[float, Tensor, Number, int]:
    """A length at which the loss has fallen and its slope has flattened enough: loss, gradient, length, calls."""
    size = direction.abs().max()

    def at(t: Number) -> Point:
        value, g = evaluate(t)
        return (t, value, g.clone(), g.dot(direction))

    start: Point = (0.0, loss, grad.clone(), slope)
    last, new = start, at(length)
    n_calls, n_trials = 1, 0
    bracket: list[Point] = []
    done = False
    # First a bracket that contains such a length.
    while n_trials < max_trials:
        if new[1] > loss + c1 * new[0] * slope or (n_trials > 1 and new[1] >= last[1]):
            bracket = [last, new]
            break
        if abs(new[3]) <= -c2 * slope:
            bracket, done = [new], True
            break
        if new[3] >= 0:
            bracket = [last, new]
            break
        low, high = new[0] + 0.01 * (new[0] - last[0]), new[0] * 10
        following = _cubic_minimum(last, new, low, high)
        last, new = new, at(following)
        n_calls += 1
        n_trials += 1
    if n_trials >= max_trials:
        bracket = [start, new]
    # Then closer, until the length is found or the bracket is too small.
    stuck = False
    low_at = 0 if len(bracket) == 1 or bracket[0][1] <= bracket[-1][1] else 1
    while not done and n_trials < max_trials:
        left, right = bracket[0], bracket[1]
        width = abs(right[0] - left[0])
        if width * size < tolerance_change:
            break
        low, high = min(left[0], right[0]), max(left[0], right[0])
        t = _cubic_minimum(left, right)
        # Not twice close to a bound.
        margin = 0.1 * (high - low)
        if min(high - t, t - low) < margin:
            if stuck or t >= high or t <= low:
                t = high - margin if abs(t - high) < abs(t - low) else low + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new = at(t)
        n_calls += 1
        n_trials += 1
        if new[1] > loss + c1 * t * slope or new[1] >= bracket[low_at][1]:
            bracket[1 - low_at] = new
            low_at = 0 if bracket[0][1] <= bracket[1][1] else 1
        else:
            if abs(new[3]) <= -c2 * slope:
                done = True
            elif new[3] * (bracket[1 - low_at][0] - bracket[low_at][0]) >= 0:
                bracket[1 - low_at] = bracket[low_at]
            bracket[low_at] = new
    best = bracket[0] if len(bracket) == 1 else bracket[low_at]
    return best[1], best[2], best[0], n_calls
