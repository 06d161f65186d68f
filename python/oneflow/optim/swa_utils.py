"""Averages of weights along training: stochastic weight averaging and exponential moving averages.

Source: Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", 2018.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn import Module
from oneflow.optim._schedule import LRScheduler, in_step, per_group
from oneflow.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """Return the function ``decay * average + (1 - decay) * new``.

    Example::

        >>> oneflow.optim.swa_utils.get_ema_avg_fn(0.5)(oneflow.tensor(1.0), oneflow.tensor(3.0), 1)
        tensor(2.)
    """
    _check_decay(decay)

    @oneflow.no_grad()
    def average(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return average


def get_swa_avg_fn() -> Callable[[Tensor, Tensor, Any], Tensor]:
    """Return the function of the equal average of all weights so far.

    Example::

        >>> oneflow.optim.swa_utils.get_swa_avg_fn()(oneflow.tensor(1.0), oneflow.tensor(3.0), 1)
        tensor(2.)
    """

    @oneflow.no_grad()
    def average(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return average


def _many(one: Callable[[Tensor, Tensor, Any], Tensor]) -> Callable[[list[Tensor], list[Tensor], Any], None]:
    @oneflow.no_grad()
    def update(averaged: list[Tensor], current: list[Tensor], num_averaged: Any) -> None:
        for target, new in zip(averaged, current, strict=True):
            target.copy_(one(target, new, num_averaged))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[list[Tensor], list[Tensor], Any], None]:
    """As :func:`get_ema_avg_fn`, for lists, in place.

    Example::

        >>> model = oneflow.nn.Linear(2, 1)
        >>> average = oneflow.optim.swa_utils.AveragedModel(model,
        ...     multi_avg_fn=oneflow.optim.swa_utils.get_ema_multi_avg_fn(0.9))
        >>> average.update_parameters(model)
    """
    return _many(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Callable[[list[Tensor], list[Tensor], Any], None]:
    """As :func:`get_swa_avg_fn`, for lists, in place.

    Example::

        >>> model = oneflow.nn.Linear(2, 1)
        >>> average = oneflow.optim.swa_utils.AveragedModel(model,
        ...     multi_avg_fn=oneflow.optim.swa_utils.get_swa_multi_avg_fn())
        >>> average.update_parameters(model)
    """
    return _many(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose weights are averages of those it has seen.

    Args:
        model: what to average.
        device: where the averages are.
        avg_fn: new average of (average, weight, number averaged so far); the equal average by default.
        multi_avg_fn: the same for lists, in place.
        use_buffers: average buffers too, instead of copying them.

    Example::

        >>> model = oneflow.nn.Linear(1, 1, bias=False)
        >>> average = oneflow.optim.swa_utils.AveragedModel(model)
        >>> average.update_parameters(model)
        >>> int(average.n_averaged)
        1
    """

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[[Tensor, Tensor, Any], Tensor] | None = None,
        multi_avg_fn: Callable[[list[Tensor], list[Tensor], Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", oneflow.tensor(0, dtype=oneflow.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the averaged model."""
        return self.module(*args, **kwargs)

    @oneflow.no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the model's weights into the averages."""

        def tensors(module: Module) -> list[Tensor]:
            found = list(module.parameters())
            return [t.detach() for t in itertools.chain(found, module.buffers() if self.use_buffers else ())]

        averaged = tensors(self.module)
        current = [new.to(old.device) for new, old in zip(tensors(model), averaged, strict=False)]
        if int(self.n_averaged) == 0:
            for old, new in zip(averaged, current, strict=True):
                old.copy_(new)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(averaged, current, self.n_averaged)
        else:
            average = self.avg_fn or get_swa_avg_fn()
            for old, new in zip(averaged, current, strict=True):
                old.copy_(average(old, new, self.n_averaged.to(old.device)))
        if not self.use_buffers:
            for old, new in zip(self.module.buffers(), model.buffers(), strict=True):
                old.detach().copy_(new.detach().to(old.device))
        self.n_averaged += 1


@oneflow.no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of the model's batch norms, by one pass over ``loader``.

    Args:
        loader: batches; of a list or tuple the first element is the input.
        model: its batch norms are changed.
        device: where inputs go.

    Example::

        >>> model = oneflow.nn.BatchNorm1d(2)
        >>> oneflow.optim.swa_utils.update_bn([oneflow.ones(4, 2)], model)
        >>> model.running_mean
        tensor([1., 1.])
    """
    norms = [m for m in model.modules() if hasattr(m, "reset_running_stats") and hasattr(m, "momentum")]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    was_training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        # The equal average of all batches.
        norm.momentum = None
    for batch in loader:
        batch = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(batch if device is None else batch.to(device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Go to a constant learning rate and stay there.

    Args:
        optimizer: whose groups get the learning rate.
        swa_lr: that rate, one for all groups or one each.
        anneal_epochs: steps of the way.
        anneal_strategy: "cos" or "linear".
        last_epoch: as :class:`LRScheduler`.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.swa_utils.SWALR(optimizer, swa_lr=0.1, anneal_epochs=2)
        >>> optimizer.step(); scheduler.step()
        >>> round(optimizer.param_groups[0]["lr"], 4)
        0.55
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if isinstance(swa_lr, (list, tuple)) and len(swa_lr) != len(optimizer.param_groups):
            raise ValueError(
                "swa_lr must have the same length as optimizer.param_groups: "
                f"swa_lr has {len(swa_lr)}, optimizer.param_groups has {len(optimizer.param_groups)}"
            )
        lrs = per_group("swa_lr", swa_lr, len(optimizer.param_groups))
        for lr, group in zip(lrs, optimizer.param_groups, strict=True):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        done = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * done)) / 2 if self._anneal_strategy == "cos" else done

    @in_step
    def get_lr(self) -> list[Any]:
        """The next rate, from the last one."""
        groups = self.optimizer.param_groups
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(max(0, step - 1)), self._share(step)
        values = []
        for group in groups:
            # Where the way began, from where it is now.
            start = group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before)
            values.append(group["swa_lr"] * now + start * (1 - now))
        return values
