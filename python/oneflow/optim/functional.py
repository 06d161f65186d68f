"""Steps of optimizers as functions of lists: parameters, gradients and states, which are updated in place.

The arithmetic is the optimizers' own. Each function takes one tensor of every list for each parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.optim import (
    ASGD,
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Muon,
    NAdam,
    Optimizer,
    RAdam,
    RMSprop,
    Rprop,
    SparseAdam,
)

__all__ = [
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "asgd",
    "muon",
    "nadam",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
    "sparse_adam",
]


def _step(
    name: str,
    kind: type[Optimizer],
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    states: dict[str, Sequence[Any]],
    differentiable: bool = False,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """One step of an optimizer over stand-ins that share the parameters' memory; returns their states."""
    if differentiable:
        raise NotImplementedError(
            f"optim.functional.{name}(): the optimizer alone records a step, {kind.__name__}(differentiable=True)"
        )
    for what, values in (("grads", grads), *states.items()):
        if len(values) not in (len(params), *([0] if what != "grads" else [])):
            raise ValueError(f"optim.functional.{name}(): {len(params)} parameters and {len(values)} {what}")
    steps = states.get("step", ())
    if kind is not SparseAdam and not all(isinstance(step, Tensor) for step in steps):
        raise RuntimeError("`state_steps` argument must contain a list of singleton tensors")
    if not params:
        return []
    stand_ins = [param.detach() for param in params]
    optimizer = kind(stand_ins, **options)
    for i, (param, grad) in enumerate(zip(stand_ins, grads, strict=True)):
        param.grad = grad.detach()
        optimizer.state[param] = {
            state: values[i] for state, values in states.items() if values and values[i] is not None
        }
    # As a scaler hands them over.
    scaler = {"grad_scale": grad_scale, "found_inf": found_inf}
    vars(optimizer).update({name: value for name, value in scaler.items() if value is not None})
    (group,) = optimizer.param_groups
    with oneflow.no_grad():
        optimizer._update(group, optimizer._lr_tensor(0, group))
    return [optimizer.state[param] for param in stand_ins]


def adadelta(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    square_avgs: Sequence[Tensor],
    acc_deltas: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """A step of :class:`oneflow.optim.Adadelta` with its settings. The lists of states hold what its ``state`` does.

    Raises:
        ValueError: a list is not as long as ``params``; a setting is out of its range.
        NotImplementedError: ``differentiable``.

    Example::

        >>> w, g, steps = oneflow.ones(1), oneflow.ones(1), [oneflow.tensor(0.0)]
        >>> oneflow.optim.functional.adadelta([w], [g], [oneflow.zeros(1)], [oneflow.zeros(1)], steps,
        ...     lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, maximize=False
        ... )
        >>> w.item() < 1, steps[0].item()
        (True, 1.0)
    """
    states = {"square_avg": square_avgs, "acc_delta": acc_deltas, "step": state_steps}
    _step(
        "adadelta",
        Adadelta,
        params,
        grads,
        states,
        differentiable=differentiable,
        lr=lr,
        rho=rho,
        eps=eps,
        weight_decay=weight_decay,
        maximize=maximize,
    )


def adafactor(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    row_vars: Sequence[Tensor | None],
    col_vars: Sequence[Tensor | None],
    variances: Sequence[Tensor | None],
    state_steps: Sequence[Tensor],
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: float | Tensor,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
) -> None:
    """A step of :class:`oneflow.optim.Adafactor` with its settings. The lists of states hold what its ``state`` does.

    Raises:
        ValueError: a list is not as long as ``params``; a setting is out of its range.
        NotImplementedError: ``differentiable``.

    Example::

        >>> w, g, steps = oneflow.ones(1), oneflow.ones(1), [oneflow.tensor(0.0)]
        >>> oneflow.optim.functional.adafactor([w], [g], [None], [None], [oneflow.zeros(1)], steps,
        ...     d=1.0, lr=0.1, beta2_decay=-0.8, weight_decay=0, eps1=None, eps2=1e-3, maximize=False
        ... )
        >>> w.item() < 1, steps[0].item()
        (True, 1.0)
    """
    states = {"row_var": row_vars, "col_var": col_vars, "variance": variances, "step": state_steps}
    _step(
        "adafactor",
        Adafactor,
        params,
        grads,
        states,
        grad_scale=grad_scale,
        found_inf=found_inf,
        d=d,
        lr=lr,
        beta2_decay=beta2_decay,
        weight_decay=weight_decay,
        eps=(eps1, eps2),
        maximize=maximize,
    )


def adagrad(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    state_sums: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """A step of :class:`oneflow.optim.Adagrad` with its settings. The lists of states hold what its ``state`` does.

    Raises:
        ValueError: a list is not as long as ``params``; a setting is out of its range.
        NotImplementedError: ``differentiable``.

    Example::

        >>> w, g, steps = oneflow.ones(1), oneflow.ones(1), [oneflow.tensor(0.0)]
        >>> oneflow.optim.functional.adagrad([w], [g], [oneflow.zeros(1)], steps,
        ...     lr=0.1, weight_decay=0, lr_decay=0, eps=1e-10, maximize=False
        ... )
        >>> w.item() < 1, steps[0].item()
        (True, 1.0)
    """
    states = {"sum": state_sums, "step": state_steps}
    _step(
        "adagrad",
        Adagrad,
        params,
        grads,
        states,
        differentiable=differentiable,
        grad_scale=grad_scale,
        found_inf=found_inf,
        lr=lr,
        lr_decay=lr_decay,
        weight_decay=weight_decay,
        eps=eps,
        maximize=maximize,
    )


def adam(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    max_exp_avg_sqs: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """A step of :class:`oneflow.optim.Adam` with its settings. The lists of states hold what its ``state`` does.

    Raises:
        ValueError: a list is not as long as ``params``; a setting is out of its range.
        NotImplementedError: ``differentiable``.

    Example::

        >>> w, g, steps = oneflow.ones(1), oneflow.ones(1), [oneflow.tensor(0.0)]
        >>> oneflow.optim.functional.adam([w], [g], [oneflow.zeros(1)], [oneflow.zeros(1)], [], steps,
        ...     amsgrad=False, beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0, eps=1e-8, maximize=False
        ... )
        >>> w.item() < 1, steps[0].item()
        (True, 1.0)
    """
    states = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "max_exp_avg_sq": max_exp_avg_sqs, "step": state_steps}
    _step(
        "adam",
        Adam,
        params,
        grads,
        states,
        differentiable=differentiable,
        grad_scale=grad_scale,
        found_inf=found_inf,
        lr=lr,
        betas=(beta1, beta2),
        eps=eps,
        weight_decay=weight_decay,
        amsgrad=amsgrad,
        maximize=maximize,
        decoupled_weight_decay=decoupled_weight_decay,
    )


def adamax(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_infs: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
) -> None:
    """A step of :class:`oneflow.optim.Adamax` with its settings. The lists of states hold what its ``state`` does.

    Raises:
        ValueError: a list is not as long as ``params``; a setting is out of its range.
        NotImplementedError: ``differentiable``.

    Example::

        >>> w, g, steps = oneflow.ones(1), oneflow.ones(1), [oneflow.tensor(0.0)]
        >>> oneflow.optim.functional.adamax([w], [g], [oneflow.zeros(1)], [oneflow.zeros(1)], steps,
        ...     eps=1e-8, beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0
        ... )
        >>> w.item() < 1, steps[0].item()
        (True, 1.0)
    """
    states = {"exp_avg": exp_avgs, "exp_inf": exp_infs, "step": state_steps}
    _step(
        "adamax",
        Adamax,
        params,
        grads,
        states,
        differentiable=differentiable,
        lr=lr,
        betas=(beta1, beta2),
        eps=eps,
        weight_decay=weight_decay,
        maximize=maximize,
    )


def adamw(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    max_exp_avg_sqs: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """A step of :class:`oneflow.optim.AdamW` with its settings. The lists of states hold what its ``state`` does.

    Raises:
        ValueError: a list is not as long as ``params``; a setting is out of its range.
        NotImplementedError: ``differentiable``.

    Example::

        >>> w, g, steps = oneflow.ones(1), oneflow.ones(1), [oneflow.tensor(0.0)]
        >>> oneflow.optim.functional.adamw([w], [g], [oneflow.zeros(1)], [oneflow.zeros(1)], [], steps,
        ...     amsgrad=False, beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0, eps=1e-8, maximize=False
        ... )
        >>> w.item() < 1, steps[0].item()
        (True, 1.0)
    """
    states = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "max_exp_avg_sq": max_exp_avg_sqs, "step": state_steps}
    _step(
        "adamw",
        AdamW,
        params,
        grads,
        states,
        differentiable=differentiable,
        grad_scale=grad_scale,
        found_inf=found_inf,
        lr=lr,
        betas=(beta1, beta2),
        eps=eps,
        weight_decay=weight_decay,
        amsgrad=amsgrad,
        maximize=maximize,
    )


def asgd(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    axs: Sequence[Tensor],
    mus: Sequence[Tensor],
    etas: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float | Tensor,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """A step of :class:`oneflow.optim.ASGD` with its settings. The lists of states hold what its ``state`` does.

    Raises:
        ValueError: a list is not as long as ``params``; a setting is out of its range.
        NotImplementedError: ``differentiable``.

    Example::

        >>> w, g, steps = oneflow.ones(1), oneflow.ones(1), [oneflow.tensor(0.0)]
        >>> mus, etas = [oneflow.ones(())], [oneflow.tensor(0.1)]
        >>> oneflow.optim.functional.asgd([w], [g], [oneflow.zeros(1)], mus, etas, steps,
        ...     lambd=1e-4, lr=0.1, t0=1e6, alpha=0.75, weight_decay=0
        ... )
        >>> w.item() < 1, steps[0].item()
        (True, 1.0)
    """
    states = {"ax": axs, "mu": mus, "eta": etas, "step": state_steps}
    _step(
        "asgd",
        ASGD,
        params,
        grads,
        states,
        differentiable=differentiable,
        lr=lr,
        lambd=lambd,
        alpha=alpha,
        t0=t0,
        weight_decay=weight_decay,
        maximize=maximize,
    )


def nadam(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    mu_products: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """A step of :class:`oneflow.optim.NAdam` with its settings. The lists of states hold what its ``state`` does.

    Raises:
        ValueError: a list is not as long as ``params``; a setting is out of its range.
        NotImplementedError: ``differentiable``.

    Example::

        >>> w, g, steps = oneflow.ones(1), oneflow.ones(1), [oneflow.tensor(0.0)]
        >>> oneflow.optim.functional.nadam([w], [g], [oneflow.zeros(1)], [oneflow.zeros(1)], [oneflow.ones(())], steps,
        ...     beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0, momentum_decay=4e-3, eps=1e-8
        ... )
        >>> w.item() < 1, steps[0].item()
        (True, 1.0)
    """
    states = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "mu_product": mu_products, "step": state_steps}
    _step(
        "nadam",
        NAdam,
        params,
        grads,
        states,
        differentiable=differentiable,
        lr=lr,
        betas=(beta1, beta2),
        eps=eps,
        weight_decay=weight_decay,
        momentum_decay=momentum_decay,
        decoupled_weight_decay=decoupled_weight_decay,
        maximize=maximize,
    )


def radam(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
) -> None:
    """A step of :class:`oneflow.optim.RAdam` with its settings. The lists of states hold what its ``state`` does.

    Raises:
        ValueError: a list is not as long as ``params``; a setting is out of its range.
        NotImplementedError: ``differentiable``.

    Example::

        >>> w, g, steps = oneflow.ones(1), oneflow.ones(1), [oneflow.tensor(0.0)]
        >>> oneflow.optim.functional.radam([w], [g], [oneflow.zeros(1)], [oneflow.zeros(1)], steps,
        ...     beta1=0.9, beta2=0.99, lr=0.1, weight_decay=0, eps=1e-8
        ... )
        >>> w.item() < 1, steps[0].item()
        (True, 1.0)
    """
    states = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "step": state_steps}
    _step(
        "radam",
        RAdam,
        params,
        grads,
        states,
        differentiable=differentiable,
        lr=lr,
        betas=(beta1, beta2),
        eps=eps,
        weight_decay=weight_decay,
        decoupled_weight_decay=decoupled_weight_decay,
        maximize=maximize,
    )


def rmsprop(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    square_avgs: Sequence[Tensor],
    grad_avgs: Sequence[Tensor],
    momentum_buffer_list: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """A step of :class:`oneflow.optim.RMSprop` with its settings. The lists of states hold what its ``state`` does.

    Raises:
        ValueError: a list is not as long as ``params``; a setting is out of its range.
        NotImplementedError: ``differentiable``.

    Example::

        >>> w, g, steps = oneflow.ones(1), oneflow.ones(1), [oneflow.tensor(0.0)]
        >>> oneflow.optim.functional.rmsprop([w], [g], [oneflow.zeros(1)], [], [], steps,
        ...     lr=0.1, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False
        ... )
        >>> w.item() < 1, steps[0].item()
        (True, 1.0)
    """
    states = {
        "square_avg": square_avgs,
        "grad_avg": grad_avgs,
        "momentum_buffer": momentum_buffer_list,
        "step": state_steps,
    }
    _step(
        "rmsprop",
        RMSprop,
        params,
        grads,
        states,
        differentiable=differentiable,
        lr=lr,
        alpha=alpha,
        eps=eps,
        weight_decay=weight_decay,
        momentum=momentum,
        centered=centered,
        maximize=maximize,
    )


def rprop(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    prevs: Sequence[Tensor],
    step_sizes: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """A step of :class:`oneflow.optim.Rprop` with its settings. The lists of states hold what its ``state`` does.

    Raises:
        ValueError: a list is not as long as ``params``; a setting is out of its range.
        NotImplementedError: ``differentiable``.

    Example::

        >>> w, g, steps = oneflow.ones(1), oneflow.ones(1), [oneflow.tensor(0.0)]
        >>> oneflow.optim.functional.rprop([w], [g], [oneflow.zeros(1)], [oneflow.full((1,), 0.1)], steps,
        ...     step_size_min=1e-6, step_size_max=50, etaminus=0.5, etaplus=1.2
        ... )
        >>> w.item() < 1, steps[0].item()
        (True, 1.0)
    """
    states = {"prev": prevs, "step_size": step_sizes, "step": state_steps}
    _step(
        "rprop",
        Rprop,
        params,
        grads,
        states,
        differentiable=differentiable,
        etas=(etaminus, etaplus),
        step_sizes=(step_size_min, step_size_max),
        maximize=maximize,
    )


def sgd(
    params: Sequence[Tensor],
    d_p_list: Sequence[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """A step of :class:`oneflow.optim.SGD`. Where a buffer of the momentum is None the list receives a new one.

    Raises:
        ValueError: a list is not as long as ``params``; a setting is out of its range.

    Example::

        >>> w, g, buffers = oneflow.ones(1), oneflow.ones(1), [None]
        >>> settings = {"weight_decay": 0, "momentum": 0.9, "dampening": 0, "nesterov": False, "maximize": False}
        >>> oneflow.optim.functional.sgd([w], [g], buffers, lr=0.1, **settings)
        >>> w, buffers
        (tensor([0.9000]), [tensor([1.])])
    """
    found = _step(
        "sgd",
        SGD,
        params,
        d_p_list,
        {"momentum_buffer": momentum_buffer_list},
        grad_scale=grad_scale,
        found_inf=found_inf,
        lr=lr,
        momentum=momentum,
        dampening=dampening,
        weight_decay=weight_decay,
        nesterov=nesterov,
        maximize=maximize,
    )
    if momentum:
        momentum_buffer_list[:] = [state["momentum_buffer"] for state in found]


def muon(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    muon_momentum_bufs: Sequence[Tensor],
    *,
    foreach: bool | None = None,
    lr: float,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool,
) -> None:
    """A step of :class:`oneflow.optim.Muon` over matrices.

    Raises:
        ValueError: a list is not as long as ``params``; a parameter is no matrix.
        RuntimeError: ``foreach`` or ``has_complex``.

    Example::

        >>> w, g, buffer = oneflow.ones(2, 2), oneflow.eye(2), oneflow.zeros(2, 2)
        >>> settings = {"weight_decay": 0, "momentum": 0.95, "nesterov": True, "eps": 1e-7, "adjust_lr_fn": None}
        >>> form = {"ns_coefficients": (3.4445, -4.775, 2.0315), "ns_steps": 5, "has_complex": False}
        >>> oneflow.optim.functional.muon([w], [g], [buffer], lr=0.1, **settings, **form)
        >>> bool((w.diagonal() < 1).all())
        True
    """
    if foreach:
        raise RuntimeError("Foreach is not supported for Muon yet")
    if has_complex:
        raise RuntimeError("Muon does not support complex parameters")
    _step(
        "muon",
        Muon,
        params,
        grads,
        {"momentum_buffer": muon_momentum_bufs},
        lr=lr,
        weight_decay=weight_decay,
        momentum=momentum,
        nesterov=nesterov,
        ns_coefficients=ns_coefficients,
        ns_steps=ns_steps,
        eps=eps,
        adjust_lr_fn=adjust_lr_fn,
    )


def sparse_adam(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    state_steps: Sequence[int],
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    maximize: bool,
) -> None:
    """A step of :class:`oneflow.optim.SparseAdam`. ``state_steps`` are numbers that count this step already.

    Raises:
        ValueError: a list is not as long as ``params``; a setting is out of its range.
        RuntimeError: a gradient is not sparse.

    Example::

        >>> w, g = oneflow.ones(3, 1), oneflow.sparse_coo_tensor([[1]], [[1.0]], (3, 1))
        >>> averages = [oneflow.zeros(3, 1)], [oneflow.zeros(3, 1)]
        >>> settings = {"eps": 1e-8, "beta1": 0.9, "beta2": 0.99, "lr": 0.1, "maximize": False}
        >>> oneflow.optim.functional.sparse_adam([w], [g], *averages, [1], **settings)
        >>> w.flatten()
        tensor([1.0000, 0.9000, 1.0000])
    """
    states = {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "step": [step - 1 for step in state_steps]}
    _step("sparse_adam", SparseAdam, params, grads, states, lr=lr, betas=(beta1, beta2), eps=eps, maximize=maximize)
