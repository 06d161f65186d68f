"""Pruning: a weight times a mask of zeros and ones, applied before each forward."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import oneflow
from oneflow import Tensor


class BasePruningMethod(ABC):
    """Base of pruning methods: which elements of a tensor go.

    Subclasses define ``compute_mask(t, default_mask)`` and ``PRUNING_TYPE``: "unstructured", "structured" or "global".

    Example::

        >>> class Even(nn.utils.prune.BasePruningMethod):
        ...     def compute_mask(self, t, default_mask):
        ...         mask = default_mask.clone()
        ...         mask.view(-1)[::2] = 0
        ...         return mask
        >>> m = nn.Linear(4, 1)
        >>> _ = Even.apply(m, "weight")
        >>> m.weight_mask
        tensor([[0., 1., 0., 1.]])
    """

    PRUNING_TYPE = "unstructured"
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for ``t``, within ``default_mask``."""

    def apply_mask(self, module: Any) -> Tensor:
        """The original times the mask."""
        name = self._tensor_name
        mask = getattr(module, name + "_mask")
        original = getattr(module, name + "_orig")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any) -> Any:
        """Prune ``module.name``, further if it is pruned already."""
        before = [
            (key, hook)
            for key, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        if before:
            key, old = before[0]
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            container.add_pruning_method(method)
            del module._forward_pre_hooks[key]
            applied: BasePruningMethod = container
            original, default = getattr(module, name + "_orig"), getattr(module, name + "_mask").detach().clone()
        else:
            applied = method
            original = getattr(module, name)
            default = oneflow.ones_like(original)
        # Further pruning ranks what the masks so far leave.
        scores = getattr(module, name) if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}")
        mask = method._within(scores.detach(), default)
        if not before:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, applied.apply_mask(module))
        module.register_forward_pre_hook(applied)
        return applied

    def _within(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask, where only elements that are still there count."""
        alive = default_mask == 1
        if bool(alive.all()):
            return self.compute_mask(t, default_mask)
        mask = default_mask.clone()
        mask[alive] = self.compute_mask(t[alive], default_mask[alive])
        return mask

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A pruned copy of ``t``."""
        scores = t if importance_scores is None else importance_scores
        return t * self._within(scores, oneflow.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Any) -> None:
        """Make the pruning permanent.

        Example::

            >>> m = nn.utils.prune.l1_unstructured(nn.Linear(2, 2), "weight", amount=1)
            >>> _ = nn.utils.prune.remove(m, "weight")
            >>> nn.utils.prune.is_pruned(m)
            False
        """
        name = self._tensor_name
        weight = self.apply_mask(module)
        delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = weight.detach()
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods on one tensor, one after the other.

    Example::

        >>> m = nn.utils.prune.l1_unstructured(nn.Linear(4, 1), "weight", amount=1)
        >>> m = nn.utils.prune.random_unstructured(m, "weight", amount=1)
        >>> hook = next(iter(m._forward_pre_hooks.values()))
        >>> isinstance(hook, nn.utils.prune.PruningContainer), int(m.weight_mask.sum())
        (True, 2)
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Append a method for the same tensor."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}."
            )
        self._pruning_methods = (*self._pruning_methods, method)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return self._pruning_methods[-1]._within(t, default_mask.to(dtype=t.dtype))


class Identity(BasePruningMethod):
    """Prune nothing, but add a mask.

    Example::

        >>> m = nn.Linear(2, 1)
        >>> _ = nn.utils.prune.Identity.apply(m, "weight")
        >>> nn.utils.prune.is_pruned(m)
        True
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if (isinstance(amount, numbers.Integral) and int(amount) < 0) or (
        not isinstance(amount, numbers.Integral) and not 0.0 <= float(amount) <= 1.0
    ):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and int(amount) > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


class _Unstructured(BasePruningMethod):
    """Of all elements those of least importance go."""

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _importance(self, t: Tensor) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _validate_pruning_amount(self.amount, t.numel())
        n = _compute_nparams_toprune(self.amount, t.numel())
        mask = default_mask.clone()
        if n:
            mask.view(-1)[self._importance(t).topk(n, largest=False)[1]] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Random elements go.

    Example::

        >>> m = nn.Linear(2, 2)
        >>> _ = nn.utils.prune.RandomUnstructured.apply(m, "weight", amount=1)
        >>> int((m.weight_mask == 0).sum())
        1
    """

    def _importance(self, t: Tensor) -> Tensor:
        return oneflow.rand(t.numel())


class L1Unstructured(_Unstructured):
    """The elements of least magnitude go.

    Example::

        >>> m = nn.Linear(2, 2)
        >>> _ = nn.utils.prune.L1Unstructured.apply(m, "weight", amount=1)
        >>> int((m.weight_mask == 0).sum())
        1
    """

    def _importance(self, t: Tensor) -> Tensor:
        return t.abs().reshape(-1)


class _Structured(BasePruningMethod):
    """Of all slices along a dimension those of least importance go."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def _importance(self, t: Tensor) -> Tensor:
        raise NotImplementedError

    def _within(self, t: Tensor, default_mask: Tensor) -> Tensor:
        dim = self.dim % t.dim()
        others = [d for d in range(t.dim()) if d != dim]
        # Only slices of which something is left are chosen from.
        left = (default_mask.sum(others) != 0).nonzero().reshape(-1) if others else None
        if left is None or left.numel() == t.size(dim):
            return self.compute_mask(t, default_mask)
        part = self.compute_mask(t.index_select(dim, left), default_mask.index_select(dim, left))
        return default_mask.clone().index_copy_(dim, left, part)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{tuple(t.shape)} with {t.dim()} dims"
            )
        _validate_pruning_amount(self.amount, t.shape[self.dim])
        n = _compute_nparams_toprune(self.amount, t.shape[self.dim])
        mask = default_mask.clone()
        if n:
            index: list[Any] = [slice(None)] * t.dim()
            index[self.dim] = self._importance(t).topk(n, largest=False)[1]
            mask[tuple(index)] = 0
        return mask


class RandomStructured(_Structured):
    """Random slices along a dimension go.

    Example::

        >>> m = nn.Linear(2, 2)
        >>> _ = nn.utils.prune.RandomStructured.apply(m, "weight", amount=1, dim=0)
        >>> int((m.weight_mask == 0).sum())
        2
    """

    def _importance(self, t: Tensor) -> Tensor:
        return oneflow.rand(t.shape[self.dim])


class LnStructured(_Structured):
    """The slices of least norm along a dimension go.

    Example::

        >>> m = nn.Linear(2, 2)
        >>> _ = nn.utils.prune.LnStructured.apply(m, "weight", amount=1, n=2, dim=0)
        >>> int((m.weight_mask == 0).sum())
        2
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _importance(self, t: Tensor) -> Tensor:
        dims = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        if self.n in (float("inf"), -float("inf")):
            return t.abs().amax(dims) if self.n > 0 else t.abs().amin(dims)
        order = 2 if self.n == "fro" else self.n
        return (t.abs() ** order).sum(dims)


class CustomFromMask(BasePruningMethod):
    """Prune by a given mask.

    Example::

        >>> m = nn.Linear(2, 1)
        >>> _ = nn.utils.prune.CustomFromMask.apply(m, "bias", oneflow.zeros(1))
        >>> m.bias_mask
        tensor([0.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def _within(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return self.compute_mask(t, default_mask)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError("the mask has another shape than the tensor")
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module: Any, name: str) -> Any:
    """Give ``module.name`` a mask of ones.

    Example::

        >>> m = nn.utils.prune.identity(nn.Linear(2, 1), "weight")
        >>> nn.utils.prune.is_pruned(m)
        True
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prune random elements: a number of them, or a share.

    Example::

        >>> m = nn.Linear(2, 2)
        >>> _ = nn.utils.prune.random_unstructured(m, "weight", amount=1)
        >>> int((m.weight == 0).sum())
        1
    """
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Tensor | None = None) -> Any:
    """Prune the elements of least magnitude: a number of them, or a share.

    Example::

        >>> m = nn.Linear(2, 2)
        >>> _ = nn.utils.prune.l1_unstructured(m, "weight", amount=0.5)
        >>> int((m.weight == 0).sum())
        2
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prune random slices along ``dim``.

    Example::

        >>> m = nn.Linear(2, 2)
        >>> _ = nn.utils.prune.random_structured(m, "weight", amount=1, dim=0)
        >>> int((m.weight_mask == 0).sum())
        2
    """
    RandomStructured.apply(module, name, amount=amount, dim=dim)
    return module


def ln_structured(
    module: Any, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Any:
    """Prune the slices of least ``n``-norm along ``dim``.

    Example::

        >>> m = nn.Linear(2, 2)
        >>> _ = nn.utils.prune.ln_structured(m, "weight", amount=1, n=2, dim=0)
        >>> int((m.weight_mask == 0).sum())
        2
    """
    LnStructured.apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]], pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune several tensors as if they were one.

    Example::

        >>> m = nn.Linear(2, 2)
        >>> nn.utils.prune.global_unstructured([(m, "weight"), (m, "bias")], nn.utils.prune.L1Unstructured, amount=3)
        >>> int((m.weight == 0).sum() + (m.bias == 0).sum())
        3
    """
    parameters = list(parameters)
    scores = importance_scores or {}
    flat = [scores.get((module, name), getattr(module, name)).detach().reshape(-1) for module, name in parameters]
    masks = [getattr(m, name + "_mask", oneflow.ones_like(getattr(m, name))).reshape(-1) for m, name in parameters]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    mask = method._within(oneflow.cat(flat), oneflow.cat(masks))
    at = 0
    for module, name in parameters:
        tensor = getattr(module, name)
        CustomFromMask.apply(module, name, mask=mask[at : at + tensor.numel()].view(tensor.shape))
        at += tensor.numel()


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune by a given mask.

    Example::

        >>> m = nn.Linear(2, 1)
        >>> _ = nn.utils.prune.custom_from_mask(m, "bias", oneflow.zeros(1))
        >>> m.bias_mask
        tensor([0.])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Any, name: str) -> Any:
    """Make the pruning of ``module.name`` permanent.

    Raises:
        ValueError: it is not pruned.

    Example::

        >>> m = nn.utils.prune.l1_unstructured(nn.Linear(2, 2), "weight", amount=1)
        >>> m = nn.utils.prune.remove(m, "weight")
        >>> [name for name, _ in m.named_parameters()], int((m.weight == 0).sum())
        (['bias', 'weight'], 1)
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Any) -> bool:
    """Return whether the module or one of its children is pruned.

    Example::

        >>> nn.utils.prune.is_pruned(nn.Linear(2, 1))
        False
    """
    return any(
        isinstance(hook, BasePruningMethod) for child in module.modules() for hook in child._forward_pre_hooks.values()
    )
