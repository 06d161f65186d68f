"""One call of a traced program: what is called, with what, and who uses the result.

A node is a link of its graph's doubly linked list. This file prints no code; :mod:`oneflow.fx.graph` does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import oneflow
from oneflow import Tensor
from oneflow._ops import Op, OpOverload
from oneflow.fx import _targets
from oneflow.fx._targets import type_name as _type_repr
from oneflow.fx.immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from oneflow.fx.graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

# Types of annotations.
Target = Callable[..., Any] | str
Argument = Any
BaseArgumentTypes = str | int | float | bool | complex | oneflow.dtype | Tensor | oneflow.device
# Types of constants that the arguments of a node may hold.
base_types = (
    str,
    int,
    float,
    bool,
    complex,
    oneflow.dtype,
    Tensor,
    oneflow.device,
    oneflow.memory_format,
    oneflow.layout,
)
OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")

_side_effectful_functions: set[Callable[..., Any]] = {oneflow._assert, oneflow._assert_async, operator.setitem}


def has_side_effect(fn: Any) -> Any:
    """Keep calls of ``fn`` when dead code is removed, whether or not their result is used. Returns ``fn``.

    Example::

        >>> from oneflow.fx.node import has_side_effect
        >>> has_side_effect(print) is print
        True
    """
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """``a`` with ``fn`` of each value in its tuples, lists, dictionaries and slices, which become immutable ones.

    Example::

        >>> from oneflow.fx.node import map_aggregate
        >>> map_aggregate((1, [2], {"a": 3}), lambda x: x + 1)
        (2, [3], {'a': 4})
    """
    if isinstance(a, tuple):
        values = [map_aggregate(item, fn) for item in a]
        return type(a)(*values) if hasattr(a, "_fields") else tuple(values)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(item, fn) for key, item in a.items()})
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Any], Any]) -> Any:
    """``a`` with ``fn(node)`` for each node in it.

    Example::

        >>> oneflow.fx.map_arg([1, (2,)], str)
        [1, (2,)]
    """
    if not callable(fn):
        raise AssertionError("fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda value: fn(value) if isinstance(value, Node) else value)


class Node:
    """One call in a :class:`Graph`.

    Attributes:
        op: "placeholder", "get_attr", "call_function", "call_method", "call_module" or "output".
        target: the function that is called; for other ops a name.
        args, kwargs: arguments, in which nodes represent their results. They are set as a whole.
        users: the nodes that use the result.
        meta: what passes note about the node.

    Example::

        >>> graph = oneflow.fx.symbolic_trace(lambda x: x + 1).graph
        >>> [(node.op, node.name) for node in graph.nodes]
        [('placeholder', 'x'), ('call_function', 'add'), ('output', 'output')]
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:
        if op not in OPS:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        fits, expected = (callable(target), "Callable") if op == "call_function" else (isinstance(target, str), "str")
        if not fits:
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {oneflow.typename(target)} "
                f"but a {expected} is expected"
            )
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = immutable_dict()
        self._prev = self._next = self
        self._erased = False
        self._position = 0
        self._repr_fn: Callable[[Node], str] | None = None
        self._set_arguments(args, kwargs)

    # ---- the list

    @property
    def next(self) -> Node:
        """The node after this one; after the last, the root of the list."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one; before the first, the root of the list."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move ``x`` in front of this node."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is not self:
            x._unlink()
            x._prev, x._next = self._prev, self
            self._prev._next = self._prev = x
        self.graph._ordered = False

    def append(self, x: Node) -> None:
        """Move ``x`` behind this node."""
        self._next.prepend(x)

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def _at(self) -> int:
        if not self.graph._ordered:
            for i, node in enumerate(self.graph.nodes):
                node._position = i
            self.graph._ordered = True
        return self._position

    def __lt__(self, other: Node) -> bool:
        return self._at() < other._at()

    def __gt__(self, other: Node) -> bool:
        return self._at() > other._at()

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    # ---- arguments

    @property
    def args(self) -> tuple[Any, ...]:
        """Arguments by position."""
        return self._args

    @args.setter
    def args(self, value: tuple[Any, ...]) -> None:
        self._set_arguments(value, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """Arguments by name."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: dict[str, Any]) -> None:
        self._set_arguments(self._args, value)

    def _set_arguments(self, args: Any, kwargs: Any) -> None:
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}

        def note(node: Node) -> Node:
            self._input_nodes[node] = None
            node.users[self] = None
            return node

        self._args, self._kwargs = map_arg(tuple(args), note), map_arg(dict(kwargs), note)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes whose results this one uses, in the order of its arguments."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Set one argument by position."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Insert an argument in front of position ``idx``."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError(f"insert_args index must be between 0 and len(self.args), got {idx}")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Set one argument by name."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use ``new_input`` wherever this node uses ``old_input``."""
        for hook in getattr(self.graph.owning_module, "_replace_hooks", None) or ():
            hook(old=old_input, new=new_input.name, user=self)
        args, kwargs = map_arg((self._args, dict(self._kwargs)), lambda node: new_input if node is old_input else node)
        self._set_arguments(args, kwargs)

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *, propagate_meta: bool = False
    ) -> list[Node]:
        """Use ``replace_with`` wherever this node is used; returns the users that were changed.

        Args:
            replace_with: the node to use instead.
            delete_user_cb: whether a user is to be changed; by default all are.
            propagate_meta: pass this node's ``meta`` to ``replace_with``, whose own must be empty.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already "
                    "has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # ---- facts

    @property
    def stack_trace(self) -> str | None:
        """The source location of the call in the traced program, if it was recorded."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node does something besides computing its result, so that dead code keeps it."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            module = self.graph.owning_module
            if module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return getattr(module.get_submodule(self.target), "_is_impure", False)
        if self.op == "call_function":
            name = getattr(self.target, "__name__", "").partition(".")[0]
            if isinstance(self.target, (Op, OpOverload)):
                is_ours, is_inplace = True, self.target.is_mutable
            else:
                is_ours = _targets.is_of_library(self.target)
                is_inplace = name.endswith("_") and not name.endswith("__") and is_ours
            draws = impure_random and name in _DRAW and is_ours
            return self.target in _side_effectful_functions or is_inplace or draws
        return False

    def normalized_arguments(
        self,
        root: Any,
        arg_types: Any = None,
        kwarg_types: Any = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """The arguments bound to the names of the parameters; None where the signature is not known."""
        from oneflow.fx.operator_schemas import normalize_function, normalize_module

        if self.op == "call_function":
            return normalize_function(
                self.target, self._args, self._kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs
            )
        if self.op == "call_module":
            return normalize_module(root, str(self.target), self._args, self._kwargs, normalize_to_only_use_kwargs)
        return None

    # ---- text

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    _pretty_print_target = staticmethod(_targets.printed)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """Return the line of a printed graph for this node."""
        kind = f"{_type_repr(self.type)} " if self.type is not None else ""
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
        if self.op == "placeholder":
            if placeholder_names:
                placeholder_names.append(str(self.target))
                return None
            default = f"(default={self._args[0]})" if self._args else ""
            return f"{head}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"{head}[target={_targets.printed(self.target)}]"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self._args[0]}"
        target = _targets.printed(self.target)
        return f"{head}[target={target}](args = {_formatted(self._args)}, kwargs = {_formatted(self._kwargs)})"


# Functions that draw random numbers.
_DRAW = frozenset(
    {"bernoulli", "multinomial", "normal", "poisson", "rand", "randint", "randn", "randperm"}
    | {"rand_like", "randint_like", "randn_like"}
)


def _formatted(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_formatted, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_formatted, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_formatted(item)}" for key, item in value.items()) + "}"
    return f"%{value}" if isinstance(value, Node) else str(value)


_find_module_of_method = _targets.module_of
_get_qualified_name = _targets.qualified_name
