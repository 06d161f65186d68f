"""Nested tuples, lists and dictionaries as a flat list of leaves and a description of the nest: PyTorch's functions.

Which classes are nests is said in ``_base/nests.py``.
"""

from __future__ import annotations

import enum
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from oneflow._base import nests
from oneflow._base.nests import registered_nest_of

__all__ = [
    "GetAttrKey",
    "LeafSpec",
    "MappingKey",
    "SequenceKey",
    "TreeSpec",
    "key_get",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
]

# For annotations: a nest of values, what it holds besides its children, a step of a path and a path.
PyTree = Any
Context = Any
KeyEntry = Any
KeyPath = tuple[Any, ...]
Flatten = Callable[[Any], tuple[list[Any], Any]]
Unflatten = Callable[[Iterable[Any], Any], Any]


SUPPORTED_NODES = nests.REGISTERED


@dataclass(frozen=True)
class SequenceKey:
    """A step of a path: the place in a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The child there."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """A step of a path: the key in a dictionary."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The child there."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """A step of a path: the name of a field."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The child there."""
        return getattr(obj, self.name)


def register_pytree_node(
    cls: type,
    flatten_fn: Flatten,
    unflatten_fn: Unflatten,
    *,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None,
    **ignored: Any,
) -> None:
    """Let objects of ``cls`` be nests: ``flatten_fn(obj) -> (children, context)`` and back.

    Args:
        cls: the class.
        flatten_fn: returns the children, and the rest of the object's content.
        unflatten_fn: builds an object from the two.
        flatten_with_keys_fn: returns pairs of a step (such as :class:`MappingKey`) and a child, for paths.
        ignored: how the shape is written to text elsewhere.
    """
    nests.register(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


def register_constant(cls: type) -> None:
    """Let objects of ``cls`` be part of a nest's shape: they have no children, and equal ones have one shape.

    Raises:
        TypeError: the class defines no equality, or no hash.
    """
    equality, hashing = (getattr(cls, name) for name in ("__eq__", "__hash__"))
    # Members of an enumeration are equal only to themselves.
    if not issubclass(cls, enum.Enum) and (equality is object.__eq__ or hashing in (None, object.__hash__)):
        raise TypeError(
            f"register_constant(cls={cls}) expects `cls` to have a non-default `__eq__` and `__hash__` implementation"
        )
    register_pytree_node(cls, lambda value: ([], value), lambda children, value: value)


def is_structseq_instance(obj: object) -> bool:
    """Return whether ``obj`` is a tuple of named fields made in C, as ``time.struct_time`` and ops' results are."""
    fields = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    return isinstance(obj, tuple) and all(isinstance(getattr(type(obj), name, None), int) for name in fields)


def _list_flatten(d: list[Any]) -> tuple[list[Any], Any]:
    return d, None


def _list_unflatten(values: Iterable[Any], context: Any) -> list[Any]:
    return list(values)


def _list_flatten_with_keys(d: list[Any]) -> tuple[list[tuple[Any, Any]], Any]:
    return [(SequenceKey(i), value) for i, value in enumerate(d)], None


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: Any) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], Any]:
    values, keys = _dict_flatten(d)
    return [(MappingKey(key), value) for key, value in zip(keys, values, strict=True)], keys


@dataclass(frozen=True)
class TreeSpec:
    """The structure of a nest: its class, what the class needs to be built again, and the children's structures."""

    type: Any
    context: Any
    children_specs: list[TreeSpec] = field(default_factory=list)

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        return sum(child.num_leaves for child in self.children_specs)

    def is_leaf(self) -> bool:
        """Return whether this is no nest but a value."""
        return isinstance(self, LeafSpec)


class LeafSpec(TreeSpec):
    """The shape of a value that is no nest."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    @property
    def num_leaves(self) -> int:
        """One."""
        return 1


def _get_node_type(tree: Any) -> Any:
    """The class under which a value is registered as a nest; its own where it is none."""
    return namedtuple if nests.is_named_tuple(type(tree)) else type(tree)


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of ``tree``, left to right, and its shape."""
    leaves: list[Any] = []
    return leaves, _flatten_into(tree, leaves, is_leaf)


def _flatten_into(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    nest = None if is_leaf is not None and is_leaf(tree) else registered_nest_of(type(tree))
    if nest is None:
        leaves.append(tree)
        return LeafSpec()
    children, context = nest.flatten(tree)
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
    nest = registered_nest_of(spec.type)
    if nest is None:
        raise ValueError(f"tree_unflatten: {spec.type} is not registered as a nest")
    return nest.build(spec.type, [_build(leaves, child) for child in spec.children_specs], spec.context)


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


def tree_map_only_(kind: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """As :func:`tree_map_`, on leaves of the class or classes ``kind``."""
    return tree_map_(lambda x: func(x) if isinstance(x, kind) else x, tree)


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """Return the leaves of the arguments of a call."""
    return tree_leaves((args, kwargs))


def tree_is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Return whether ``tree`` is a leaf and no nest."""
    return (is_leaf is not None and is_leaf(tree)) or isinstance(tree_structure(tree), LeafSpec)


def treespec_leaf() -> LeafSpec:
    """The shape of a leaf."""
    return LeafSpec()


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves of ``tree``."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """Return the shape of ``tree``."""
    return tree_flatten(tree, is_leaf)[1]


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Return whether ``pred`` holds for every leaf."""
    return all(map(pred, tree_leaves(tree)))


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Return whether ``pred`` holds for a leaf."""
    return any(map(pred, tree_leaves(tree)))


def tree_all_only(kind: Any, pred: Callable[[Any], bool], tree: Any) -> bool:
    """Return whether ``pred`` holds for every leaf of the class or classes ``kind``."""
    return all(pred(leaf) for leaf in tree_leaves(tree) if isinstance(leaf, kind))


def tree_any_only(kind: Any, pred: Callable[[Any], bool], tree: Any) -> bool:
    """Return whether ``pred`` holds for a leaf of the class or classes ``kind``."""
    return any(pred(leaf) for leaf in tree_leaves(tree) if isinstance(leaf, kind))


def tree_iter(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """Iterate over the leaves of ``tree``."""
    return iter(tree_leaves(tree, is_leaf))


# ---- paths


def _steps(nest: nests.Nest, value: Any, count: int) -> list[Any]:
    """The step to each child of a nest."""
    if nest.with_keys is not None:
        return [key for key, _ in nest.with_keys(value)[0]]
    if nest.kind == "namedtuple":
        return [GetAttrKey(name) for name in value._fields]
    return [MappingKey(key) for key in value] if isinstance(value, dict) else [SequenceKey(i) for i in range(count)]


def tree_leaves_with_path(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[tuple[tuple[Any, ...], Any]]:
    """Return pairs of the path to each leaf, as a tuple of steps, and the leaf."""
    nest = None if is_leaf is not None and is_leaf(tree) else registered_nest_of(type(tree))
    if nest is None:
        return [((), tree)]
    children = list(nest.flatten(tree)[0])
    return [
        ((step, *path), leaf)
        for step, child in zip(_steps(nest, tree, len(children)), children, strict=True)
        for path, leaf in tree_leaves_with_path(child, is_leaf)
    ]


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """As :func:`tree_flatten`, each leaf with its path.

    >>> tree_flatten_with_path({"a": [1, 2]})[0][1]
    ((MappingKey(key='a'), SequenceKey(idx=1)), 2)
    """
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """As :func:`tree_map`, ``func`` gets the leaf's path first."""
    paths = [path for path, _ in tree_leaves_with_path(tree, is_leaf)]
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_flatten(rest, is_leaf)[0] for rest in rests]
    return tree_unflatten([func(*values) for values in zip(paths, leaves, *others, strict=True)], spec)


def keystr(kp: Iterable[Any]) -> str:
    """A path as text.

    >>> keystr((MappingKey("a"), SequenceKey(1)))
    "['a'][1]"
    """
    return "".join(map(str, kp))


def key_get(obj: Any, kp: Iterable[Any]) -> Any:
    """Return the value at a path."""
    for step in kp:
        obj = step.get(obj)
    return obj
