"""Nested tuples, lists and dictionaries as a flat list of leaves and a description of the nest."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "LeafSpec",
    "TreeSpec",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]

Flatten = Callable[[Any], tuple[list[Any], Any]]
Unflatten = Callable[[Iterable[Any], Any], Any]


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


_nodes: dict[type, tuple[Flatten, Unflatten]] = {
    tuple: (lambda t: (list(t), None), lambda items, _: tuple(items)),
    list: (lambda t: (list(t), None), lambda items, _: list(items)),
    dict: (lambda d: (list(d.values()), list(d)), lambda items, keys: dict(zip(keys, items, strict=True))),
    OrderedDict: (lambda d: (list(d.values()), list(d)), lambda v, keys: OrderedDict(zip(keys, v, strict=True))),
    defaultdict: (
        lambda d: (list(d.values()), (d.default_factory, list(d))),
        lambda items, context: defaultdict(context[0], zip(context[1], items, strict=True)),
    ),
    deque: (lambda d: (list(d), d.maxlen), lambda items, maxlen: deque(items, maxlen=maxlen)),
}
_NAMED_TUPLE: tuple[Flatten, Unflatten] = (lambda t: (list(t), type(t)), lambda items, cls: cls(*items))


def register_pytree_node(cls: type, flatten_fn: Flatten, unflatten_fn: Unflatten, **ignored: Any) -> None:
    """Let objects of ``cls`` be nests: ``flatten_fn(obj) -> (children, context)`` and back."""
    _nodes[cls] = (flatten_fn, unflatten_fn)


@dataclass(frozen=True)
class TreeSpec:
    """The shape of a nest: its class, what the class needs to be made again, and the children's shapes."""

    type: Any
    context: Any
    children_specs: list[TreeSpec] = field(default_factory=list)

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        return sum(child.num_leaves for child in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether this is no nest but a value."""
        return isinstance(self, LeafSpec)


class LeafSpec(TreeSpec):
    """The shape of a value that is no nest."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    @property
    def num_leaves(self) -> int:
        """One."""
        return 1


def _functions_of(value: Any) -> tuple[Flatten, Unflatten] | None:
    return _NAMED_TUPLE if _is_named_tuple(value) else _nodes.get(type(value))


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of ``tree``, left to right, and its shape."""
    leaves: list[Any] = []
    return leaves, _flatten_into(tree, leaves, is_leaf)


def _flatten_into(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    functions = None if is_leaf is not None and is_leaf(tree) else _functions_of(tree)
    if functions is None:
        leaves.append(tree)
        return LeafSpec()
    children, context = functions[0](tree)
    return TreeSpec(type(tree), context, [_flatten_into(child, leaves, is_leaf) for child in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Build the nest of shape ``treespec`` from its leaves.

    Raises:
        ValueError: there are more or fewer leaves than the shape has.
    """
    values = list(leaves)
    if len(values) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(values)} "
            f"but the spec refers to a pytree that holds {treespec.num_leaves} items"
        )
    return _build(iter(values), treespec)


def _build(leaves: Any, spec: TreeSpec) -> Any:
    if spec.is_leaf():
        return next(leaves)
    _, unflatten = _NAMED_TUPLE if spec.type not in _nodes else _nodes[spec.type]
    return unflatten([_build(leaves, child) for child in spec.children_specs], spec.context)


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Call ``func`` on every leaf (and the leaves at the same places of ``rests``); return the nest of the results."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_flatten(rest, is_leaf)[0] for rest in rests]
    return tree_unflatten([func(*values) for values in zip(leaves, *others, strict=True)], spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any) -> Any:
    """Call ``func`` on every leaf for its effect and return ``tree``."""
    tree_map(func, tree, *rests)
    return tree


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """As :func:`tree_map`, on leaves of the class or classes ``kind``; the others stay."""
    return tree_map(lambda x: func(x) if isinstance(x, kind) else x, tree)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves of ``tree``."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """Return the shape of ``tree``."""
    return tree_flatten(tree, is_leaf)[1]


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether ``pred`` holds for every leaf."""
    return all(map(pred, tree_leaves(tree)))


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether ``pred`` holds for a leaf."""
    return any(map(pred, tree_leaves(tree)))
