"""Nested tuples, lists and dictionaries as a flat list of leaves and a description of the nest: PyTorch's functions.

Which classes are nests is said in ``_base/nests.py``.
"""

from __future__ import annotations

import enum
from collections import defaultdict, namedtuple
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from types import UnionType
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


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Let objects of a dataclass be nests of their fields.

    Args:
        cls: the class; of another kind than a dataclass only with ``field_names``.
        field_names: the fields that hold children, all that are given at construction by default.
        drop_field_names: fields that ``field_names`` leaves out: they are lost, and take their defaults again.
        serialized_type_name: how the class is called where shapes are written to text.

    Raises:
        ValueError: no fields are known, or those that are named are not all.
    """
    declared = [f.name for f in fields(cls) if f.init] if is_dataclass(cls) else None
    dropped = drop_field_names or []
    if field_names is None:
        if declared is None:
            raise ValueError("field_names must be specified with a list of all fields used to initialize the class")
        field_names = declared
    elif declared is not None and set(declared) != {*field_names, *dropped}:
        raise ValueError(f"register_dataclass: {cls} has fields {declared}, but {field_names} and {dropped} are named")
    names = list(field_names)

    def flatten(value: Any) -> tuple[list[Any], Any]:
        given = [name for name in names if getattr(value, name) is not None]
        return [getattr(value, name) for name in given], [given, [name for name in names if name not in given]]

    def with_keys(value: Any) -> tuple[list[tuple[Any, Any]], Any]:
        children, context = flatten(value)
        return [(GetAttrKey(name), child) for name, child in zip(context[0], children, strict=True)], context

    def unflatten(children: Iterable[Any], context: Any) -> Any:
        return cls(**dict(zip(context[0], children, strict=True)), **dict.fromkeys(context[1]))

    register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=with_keys)


def is_namedtuple_class(cls: type) -> bool:
    """Return whether a class is one of named tuples."""
    return isinstance(cls, type) and nests.is_named_tuple(cls)


def is_namedtuple_instance(obj: object) -> bool:
    """Return whether ``obj`` is a named tuple."""
    return nests.is_named_tuple(type(obj))


def is_namedtuple(obj: object) -> bool:
    """Return whether ``obj`` is a named tuple, or a class of them."""
    return is_namedtuple_class(obj) if isinstance(obj, type) else is_namedtuple_instance(obj)


def is_structseq_class(cls: type) -> bool:
    """Return whether a class is one of tuples of named fields made in C, as those of ops' results are."""
    names = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    return issubclass(cls, tuple) and all(isinstance(getattr(cls, name, None), int) for name in names)


def is_structseq_instance(obj: object) -> bool:
    """Return whether ``obj`` is a tuple of named fields made in C, as ``time.struct_time`` and ops' results are."""
    return is_structseq_class(type(obj))


def is_structseq(obj: object) -> bool:
    """Return whether ``obj`` is a tuple of named fields made in C, or a class of them."""
    return is_structseq_class(obj) if isinstance(obj, type) else is_structseq_instance(obj)


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

    @property
    def num_nodes(self) -> int:
        """Number of nests and leaves, this one among them."""
        return 1 + sum(child.num_nodes for child in self.children_specs)

    @property
    def num_children(self) -> int:
        """Number of children."""
        return len(self.children_specs)

    def children(self) -> list[TreeSpec]:
        """The children's structures."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """The structure of one child."""
        return self.children_specs[index]

    def is_leaf(self) -> bool:
        """Return whether this is no nest but a value."""
        return isinstance(self, LeafSpec)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return what stands in ``tree`` at the places of the leaves: values, or nests.

        Raises:
            ValueError: ``tree`` has another structure above the leaves.
        """
        if self.is_leaf():
            return [tree]
        nest = registered_nest_of(type(tree))
        both = (_get_node_type(tree), namedtuple if nests.is_named_tuple(self.type) else self.type)
        are_dicts = isinstance(tree, dict) and isinstance(self.type, type) and issubclass(self.type, dict)
        if nest is None or (both[0] is not both[1] and not are_dicts):
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = nest.flatten(tree)
        if are_dicts:
            keys = set(self._keys())
            if missing := keys ^ set(tree):
                absent, extra = missing & keys, missing - keys
                parts = [f"missing key(s): {absent}"] * bool(absent) + [f"extra key(s): {extra}"] * bool(extra)
                raise ValueError(f"Node keys mismatch; {'; '.join(parts)}.")
            children = [tree[key] for key in self._keys()]
        if len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
        if not are_dicts and both[0] is not namedtuple and context != self.context:
            raise ValueError(f"Node context mismatch for custom node type {self.type!r}.")
        pairs = zip(self.children_specs, children, strict=True)
        return [leaf for spec, child in pairs for leaf in spec.flatten_up_to(child)]

    def _keys(self) -> list[Any]:
        return self.context[1] if isinstance(self.context, (list, tuple)) and self._has_factory() else self.context

    def _has_factory(self) -> bool:
        return isinstance(self.type, type) and issubclass(self.type, defaultdict)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Build the nest from its leaves: :func:`tree_unflatten`."""
        return tree_unflatten(leaves, self)


class LeafSpec(TreeSpec):
    """The shape of a value that is no nest."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    @property
    def num_leaves(self) -> int:
        """One."""
        return 1

    @property
    def num_nodes(self) -> int:
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
    """Call ``func`` on every leaf, and on what stands at its place in ``rests``; return the nest of the results.

    Raises:
        ValueError: one of ``rests`` has another structure above the leaves.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
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


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The shape of a tuple of nests of these shapes."""
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The shape of a dictionary of nests of these shapes."""
    shapes = dict(mapping, **kwargs)
    return TreeSpec(dict, list(shapes), list(shapes.values()))


def map_only(kind: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator: the function is called for values of the class or classes ``kind``, or where ``kind`` holds of them.

    >>> tree_map(map_only(int)(lambda x: x + 1), [1, "a"])
    [2, 'a']
    """
    is_test = callable(kind) and not isinstance(kind, (type, tuple, UnionType))

    def decorated(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: func(x) if (kind(x) if is_test else isinstance(x, kind)) else x

    return decorated


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
    others = [spec.flatten_up_to(rest) for rest in rests]
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
