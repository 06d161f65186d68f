"""Optimizers of rows: one that passes an optimizer's options to the stores, and one with one number of state a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor, optim
from oneflow._trace import lookups
from oneflow.one_embedding._modules import Embedding
from oneflow.optim._options import options
from oneflow.optim.optimizer import Group
from oneflow.profiler import record_function

Rule = tuple[str, dict[str, float]]


class RowWiseAdagrad(optim.Optimizer):
    """Adagrad with one accumulator a row, the mean of the row's squared gradient: a state of one number.

    Args:
        params: parameters or groups. A row is what the first dimension counts.
        lr: learning rate.
        weight_decay: added to the gradient as ``weight_decay * parameter``.
        initial_accumulator_value: where the accumulators start.
        eps: added to the root.

    Example::

        >>> w = oneflow.nn.Parameter(oneflow.ones(2, 3))
        >>> optimizer = oneflow.one_embedding.RowWiseAdagrad([w], lr=0.5)
        >>> (w * oneflow.tensor([[1.0], [0.0]])).sum().backward()
        >>> optimizer.step()
        >>> w[:, 0].detach()
        tensor([0.5000, 1.0000])
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-8,
    ) -> None:
        super().__init__(
            params,
            options(lr=lr, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value, eps=eps),
        )

    def _init_state(self, group: Group) -> None:
        for param in group["params"]:
            if param.requires_grad and not self.state.get(param):
                start = group["initial_accumulator_value"]
                self.state[param] = {"sum": oneflow.full_like(param.reshape(len(param), -1)[:, 0], start)}

    def _update(self, group: Group, lr: Tensor) -> None:
        self._init_state(group)
        for param in group["params"]:
            if param.grad is None:
                continue
            grad = param.grad + group["weight_decay"] * param
            total = self.state[param]["sum"].add_((grad * grad).reshape(len(param), -1).mean(1))
            rate = lr.to(param.dtype) / (total.sqrt() + group["eps"])
            param.sub_(rate.reshape(-1, *[1] * (param.dim() - 1)) * grad)


class SmartDecayAdam(optim.Adam):
    """Adam, whose rows of embeddings make up for the steps in which no lookup touched them.

    Before such a row is updated again after ``k`` steps without a gradient, its weights move by the ``k`` steps that
    its first moment would have made as it decays, over the second moment as it was; then both moments decay by ``k``
    powers of their betas. Dense parameters have a gradient in each step, so theirs is :class:`oneflow.optim.Adam`.

    Args:
        params, lr, betas, eps, weight_decay: as :class:`oneflow.optim.Adam`, as are the options by keyword.

    Raises:
        ValueError: a number is out of its bounds.

    Example::

        >>> w = oneflow.nn.Parameter(oneflow.ones(2))
        >>> optimizer = oneflow.one_embedding.SmartDecayAdam([w], lr=0.5)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.5000, 0.5000])
    """


def _sgd(group: Group, step: int) -> Rule:
    return "sgd", {
        name: float(group[name]) for name in ("momentum", "dampening", "nesterov", "weight_decay", "maximize")
    }


def _adam(group: Group, step: int) -> Rule:
    if group["amsgrad"]:
        raise NotImplementedError("one_embedding.Optimizer: rows have no room for amsgrad's third moment")
    beta1, beta2 = group["betas"]
    return "adam", {
        "beta1": float(beta1),
        "beta2": float(beta2),
        "eps": group["eps"],
        "weight_decay": group["weight_decay"],
        "decoupled": group.get("decoupled_weight_decay", False),
        "bias_correction": group.get("do_bias_correction", True),
        "maximize": group["maximize"],
    }


def _smart_decay_adam(group: Group, step: int) -> Rule:
    return "smart_decay_adam", _adam(group, step)[1]


def _adagrad(group: Group, step: int) -> Rule:
    return "adagrad", {
        "eps": group["eps"],
        "weight_decay": group["weight_decay"],
        "initial": group["initial_accumulator_value"],
        "maximize": group["maximize"],
        "rate": 1.0 / (1.0 + (step - 1) * group["lr_decay"]),
    }


def _row_wise_adagrad(group: Group, step: int) -> Rule:
    return "row_wise_adagrad", {
        "eps": group["eps"],
        "weight_decay": group["weight_decay"],
        "initial": group["initial_accumulator_value"],
    }


def _ftrl(group: Group, step: int) -> Rule:
    names = ("lr_power", "lambda1", "lambda2", "beta", "weight_decay")
    return "ftrl", {**{name: group[name] for name in names}, "initial": group["initial_accumulator_value"]}


# The update rule of rows for each optimizer class. A class that is not listed may compute something else.
_RULES: dict[type, Callable[[Group, int], Rule]] = {
    optim.SGD: _sgd,
    optim.Adam: _adam,
    optim.AdamW: _adam,
    optim.Adagrad: _adagrad,
    optim.Ftrl: _ftrl,
    RowWiseAdagrad: _row_wise_adagrad,
    SmartDecayAdam: _smart_decay_adam,
}


class Optimizer(optim.Optimizer):
    """Steps an optimizer, and the rows of embeddings by the same rule and the options of their parameters' groups.

    Rows that a step's lookups did not touch stay as they are, so Adam here is PyTorch's ``SparseAdam``. Gradients of
    all lookups since the last step are one update; those of one row are added in the order of the lookups and of the
    ids.

    Args:
        optimizer: SGD, Adam, AdamW, Adagrad, Ftrl, :class:`RowWiseAdagrad` or
            :class:`SmartDecayAdam`; it holds the embeddings' parameters.
        embeddings: modules whose rows it updates.

    Raises:
        NotImplementedError: rows have no such optimizer.
        ValueError: an embedding's parameter is in none of the optimizer's groups.

    Example::

        >>> import tempfile
        >>> from oneflow import one_embedding
        >>> folder = tempfile.mkdtemp()
        >>> embedding = one_embedding.MultiTableEmbedding(
        ...     "words", 2, oneflow.float32, oneflow.int64, None,
        ...     one_embedding.make_cached_ssd_store_options(16, folder, size_factor=3),
        ... )
        >>> head = oneflow.nn.Linear(2, 1)
        >>> adam = oneflow.optim.Adam([*embedding.parameters(), *head.parameters()], lr=1e-3)
        >>> optimizer = one_embedding.Optimizer(adam, [embedding])
        >>> head(embedding(oneflow.tensor([5, 9, 5]))).sum().backward()
        >>> optimizer.step()
        >>> embedding.statistics()["rows"]
        2
    """

    def __init__(self, optimizer: optim.Optimizer, embeddings: Sequence[Embedding]) -> None:
        rule = _RULES.get(type(optimizer))
        if rule is None:
            known = ", ".join(sorted(cls.__name__ for cls in _RULES))
            raise NotImplementedError(
                f"one_embedding.Optimizer: rows have no {type(optimizer).__name__}; there are {known}"
            )
        self.optimizer, self.embeddings = optimizer, list(embeddings)
        self._row_rule = rule
        self._reset_hooks()
        for embedding in self.embeddings:
            self._group_of(embedding)
            embedding._has_optimizer = True

    def _group_of(self, embedding: Embedding) -> Group:
        for group in self.optimizer.param_groups:
            if any(param is embedding.shadow for param in group["params"]):
                return group
        raise ValueError(
            f"one_embedding.Optimizer: the parameters of {embedding.embedding_name!r} are in no group of the optimizer"
        )

    # Both are the optimizer's own, also after it has loaded others.
    @property
    def param_groups(self) -> list[Group]:  # type: ignore[override]
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        return self.optimizer.state

    @property
    def defaults(self) -> Group:  # type: ignore[override]
        return self.optimizer.defaults

    def __repr__(self) -> str:
        return f"one_embedding.Optimizer({self.optimizer!r})"

    def add_param_group(self, param_group: Group) -> None:
        """Add a group to the optimizer."""
        self.optimizer.add_param_group(param_group)

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state; that of rows is in their stores."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the optimizer's."""
        self.optimizer.load_state_dict(state_dict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters, and drop those of rows."""
        self.optimizer.zero_grad(set_to_none)
        for embedding in self.embeddings:
            embedding._forget_gradients()
        graph = lookups.current()
        if graph is not None:
            graph.drop(self.embeddings)

    # ---- what graphs and gradient scalers ask of an optimizer

    @property
    def _step_supports_amp_scaling(self) -> bool | None:
        return getattr(self.optimizer, "_step_supports_amp_scaling", None)

    def prepare(self) -> None:
        """Create all state, as :meth:`oneflow.optim.Optimizer.prepare`; that of rows is made with the rows."""
        self.optimizer.prepare()
        for embedding in self.embeddings:
            # Rows have ages also where the optimizer counts no steps: an entry that is there from the first step on.
            self.optimizer.state.setdefault(embedding.shadow, {})

    def _constants(self) -> list[tuple[str | None, Any]]:
        return self.optimizer._constants()

    def _further_grads(self) -> Iterable[Tensor]:
        """Gradients of rows, which a GradScaler divides and looks at as it does those of parameters."""
        graph = lookups.current()
        if graph is not None:
            return graph.gradients(self.embeddings)
        return [grad for embedding in self.embeddings for _, grad, _ in embedding._pending]

    def clip_grad(self, error_if_nonfinite: bool = False) -> None:
        """Clip the norm of each group's gradients, those of rows included, to its ``clip_grad_max_norm``.

        Gradients of the same id are added before they count. A graph does this by itself before the optimizer's step.

        Args:
            error_if_nonfinite: raise where a norm is not finite.

        Raises:
            NotImplementedError: in a graph, whose norms do not hold those of rows; or norms of another type than 2.
        """
        for group in self.param_groups:
            if group.get("clip_grad_max_norm") is None:
                continue
            if lookups.current() is not None:
                raise NotImplementedError("one_embedding.Optimizer: clip_grad_max_norm is for steps outside of graphs")
            if group.get("clip_grad_norm_type", 2.0) != 2.0:
                raise NotImplementedError("one_embedding.Optimizer: rows are clipped by norms of type 2")
            mine = [e for e in self.embeddings if any(p is e.shadow for p in group["params"])]
            self._clip(group["params"], mine, group["clip_grad_max_norm"], error_if_nonfinite)

    def clip_grad_norm_(self, max_norm: float, error_if_nonfinite: bool = False) -> Tensor:
        """Clip the norm of all gradients, parameters' and rows' as one vector, as ``nn.utils.clip_grad_norm_`` does.

        Gradients of the same id are added before they count, and several ranks add the norms of the rows that they own.

        Args:
            max_norm: largest norm.
            error_if_nonfinite: raise where the norm is not finite.

        Returns:
            The norm before.

        Raises:
            RuntimeError: the norm is not finite, and ``error_if_nonfinite`` is set.

        Example::

            >>> import tempfile
            >>> from oneflow import one_embedding
            >>> table = one_embedding.MultiTableEmbedding(
            ...     "clipped", 2, oneflow.float32, oneflow.int64, None,
            ...     one_embedding.make_cached_ssd_store_options(16, tempfile.mkdtemp()),
            ... )
            >>> sgd = one_embedding.Optimizer(oneflow.optim.SGD(table.parameters(), lr=1.0), [table])
            >>> (table(oneflow.tensor([7, 7])) * oneflow.tensor([1.5, 2.0])).sum().backward()
            >>> sgd.clip_grad_norm_(1.0)
            tensor(5.)
        """
        params = [p for group in self.param_groups for p in group["params"]]
        return self._clip(params, self.embeddings, max_norm, error_if_nonfinite)

    def _clip(
        self, params: list[Tensor], embeddings: list[Embedding], max_norm: float, error_if_nonfinite: bool
    ) -> Tensor:
        shadows = {id(embedding.shadow) for embedding in embeddings}
        grads = [p.grad for p in params if p.grad is not None and id(p) not in shadows]
        squares = [embedding._gradient_square() for embedding in embeddings]
        with oneflow.no_grad():
            dense = [grad.double().square().sum() for grad in grads]
            norm = (sum(dense, oneflow.zeros((), dtype=oneflow.float64)) + sum(squares)).sqrt().float()
            if error_if_nonfinite and not bool(norm.isfinite()):
                raise RuntimeError(f"one_embedding.Optimizer: the norm of the gradients is {float(norm)}")
            factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
            for grad in (*grads, *(rows for embedding in embeddings for _, rows, _ in embedding._pending)):
                grad.mul_(factor.to(grad.dtype))
        return norm

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient, and the rows that lookups touched.

        Args:
            closure: computes the loss again, with gradients, and returns it.
        """
        loss = None
        if closure is not None:
            with oneflow.enable_grad():
                loss = closure()
        found, scale = self.__dict__.get("found_inf"), self.__dict__.get("grad_scale")
        given = {"found_inf": found, "grad_scale": scale} if "found_inf" in self.__dict__ else {}
        if self._scales_lr:
            given["_scales_lr"] = True
        self.optimizer.__dict__.update(given)
        try:
            # First: it counts the step, and keeps the count with its state.
            self.optimizer.step()
        finally:
            for name in given:
                del self.optimizer.__dict__[name]
        inverse = None if scale is None else 1.0 / scale
        graph = lookups.current()
        if graph is not None:
            graph.step(self.embeddings, self._step_in_graph, found, inverse)
        elif found is None or float(found) == 0.0:
            self._step_all(1.0 if inverse is None else float(inverse), False)
        else:
            for embedding in self.embeddings:
                embedding._forget_gradients()
        return loss

    def _step_in_graph(self, scale: float) -> None:
        self._step_all(scale, True)

    def _step_all(self, scale: float, scales_lr: bool) -> None:
        for embedding in self.embeddings:
            if embedding._pending:
                self._step_rows(embedding, scale, scales_lr)

    def _step_rows(self, embedding: Embedding, scale: float, scales_lr: bool) -> None:
        """``scale`` multiplies gradients; with ``scales_lr`` the group's ``lr_scale`` counts, as in graphs."""
        group = self._group_of(embedding)
        state = self.optimizer.state.setdefault(embedding.shadow, {})
        if "step" in state:
            step = int(state["step"])
        else:
            # An optimizer that counts no steps: rows have ages all the same, and its state dict keeps the count.
            step = state["row_step"] = int(state.get("row_step", 0)) + 1
        name, numbers = self._row_rule(group, step)
        rate = numbers.pop("rate", 1.0)
        if scales_lr and group.get("lr_scale") is not None:
            rate *= float(group["lr_scale"])
        batches, grads, bags = map(list, zip(*embedding._pending, strict=True))
        given = {key: float(value) for key, value in numbers.items()}
        with record_function("one_embedding.update"):
            lr, scale = float(group["lr"]) * rate, embedding._grad_scale * scale
            embedding._store.update(batches, grads, bags, name, given, lr, step, scale)
        embedding._step = step
        embedding._ahead.n_updates += 1
        embedding._forget_gradients()
