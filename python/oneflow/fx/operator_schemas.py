"""Arguments of calls bound to the names of parameters, signatures of ops, types that fit those of parameters."""

from __future__ import annotations

import ast
import inspect
import numbers
import types
import typing
from typing import Any, NamedTuple, Union

import oneflow

__all__ = [
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]


class ArgsKwargsPair(NamedTuple):
    """Arguments by position and by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def normalize_function(
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: Any = None,
    kwarg_types: Any = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of ``target`` with their defaults; None where the signature is not known or does not fit.

    Example::

        >>> from oneflow.fx.operator_schemas import normalize_function
        >>> normalize_function(oneflow.nn.functional.relu, (1,)).kwargs
        {'inplace': False}
    """
    fitting = _fitting(target, args, kwargs or {})
    if fitting is None:
        return None
    bound = fitting.bind(*args, **(kwargs or {}))
    bound.apply_defaults()
    named = dict(bound.arguments)
    n_by_position = 0 if normalize_to_only_use_kwargs else len(args)
    by_position = list(named)[:n_by_position]
    return ArgsKwargsPair(tuple(named.pop(name) for name in by_position), named)


def _fitting(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.Signature | None:
    """The first signature whose parameters all have names that can be given, and to which the arguments bind."""
    try:
        signatures = get_signature_for_torch_op(target) or [inspect.signature(inspect.unwrap(target))]
    except (TypeError, ValueError):
        return None
    for signature in signatures:
        kinds = {parameter.kind for parameter in signature.parameters.values()}
        if not kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}:
            continue
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            continue
        return signature
    return None


def normalize_module(
    root: Any,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """As :func:`normalize_function`, of the module at a path of ``root``; None for one that ``nn`` does not have.

    Example::

        >>> from oneflow.fx.operator_schemas import normalize_module
        >>> normalize_module(oneflow.nn.Sequential(oneflow.nn.ReLU()), "0", (1,)).args
        (1,)
    """
    try:
        cls = type(root.get_submodule(target))
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from error
    if getattr(oneflow.nn, cls.__name__, None) is not cls:
        return None
    found = normalize_function(cls.forward, (None, *args), kwargs, None, None, normalize_to_only_use_kwargs)
    if found is None:
        return None
    named = {key: value for key, value in found.kwargs.items() if key != "self"}
    return ArgsKwargsPair(found.args[1:], named)


def get_signature_for_torch_op(op: Any, return_schemas: bool = False) -> Any:
    """The signatures of an op of the package, one for each form of it; None for what is no op.

    Args:
        op: a function of the package or a method of Tensor.
        return_schemas: return a pair with the texts of the signatures too.

    Example::

        >>> from oneflow.fx.operator_schemas import get_signature_for_torch_op
        >>> [str(signature) for signature in get_signature_for_torch_op(oneflow.split)][0]
        '(input, split_size, dim=0)'
    """
    if not isinstance(op, (types.BuiltinFunctionType, types.MethodDescriptorType)):
        return (None, None) if return_schemas else None
    forms = []
    for line in (op.__doc__ or "").splitlines():
        if not line.startswith(f"{op.__name__}("):
            break
        forms.append(line)
    try:
        signatures = [_parsed(form) for form in forms] or [inspect.signature(op)]
    except (SyntaxError, ValueError):
        return (None, None) if return_schemas else None
    return (signatures, forms or [f"{op.__name__}{signatures[0]}"]) if return_schemas else signatures


def _parsed(form: str) -> inspect.Signature:
    """The signature in a line as ``split(input, split_size, dim=0)``."""
    node = ast.parse(f"def {form}: pass").body[0]
    assert isinstance(node, ast.FunctionDef)
    given = node.args
    named = inspect.Parameter.POSITIONAL_OR_KEYWORD
    rows: list[tuple[ast.arg, Any, ast.expr | None]] = [
        *((name, inspect.Parameter.POSITIONAL_ONLY, None) for name in given.posonlyargs),
        *((name, named, None) for name in given.args[: len(given.args) - len(given.defaults)]),
        *zip(
            given.args[len(given.args) - len(given.defaults) :],
            [named] * len(given.defaults),
            given.defaults,
            strict=True,
        ),
    ]
    if given.vararg is not None:
        rows.append((given.vararg, inspect.Parameter.VAR_POSITIONAL, None))
    rows += [
        (name, inspect.Parameter.KEYWORD_ONLY, default)
        for name, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    empty = inspect.Parameter.empty
    return inspect.Signature(
        [
            inspect.Parameter(name.arg, kind, default=empty if default is None else ast.literal_eval(default))
            for name, kind, default in rows
        ]
    )


def create_type_hint(x: Any) -> Any:
    """A list or tuple of types as the type of such a list or tuple; anything else as it is.

    Example::

        >>> from oneflow.fx.operator_schemas import create_type_hint
        >>> create_type_hint([int, bool])
        list[int]
    """
    if not isinstance(x, (list, tuple)):
        return x
    elements = _common(x)
    return list[elements] if isinstance(x, list) else tuple[elements, ...]  # type: ignore[valid-type]


def _common(classes: Any) -> Any:
    """The class among these that all are subclasses of, or Any."""
    if not classes or not all(isinstance(c, type) for c in classes):
        return Any
    return next((c for c in classes if all(issubclass(other, c) for other in classes)), Any)


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether an argument of a type fits a parameter of a type.

    Example::

        >>> from oneflow.fx.operator_schemas import type_matches
        >>> type_matches(list[int], int), type_matches(int | None, str)
        (True, False)
    """
    if signature_type is argument_type:
        return True
    origin, parts = typing.get_origin(signature_type), typing.get_args(signature_type)
    if origin in (Union, types.UnionType):
        return signature_type == argument_type or any(type_matches(part, argument_type) for part in parts)
    if origin is list:
        return _list_matches(parts[0], argument_type)
    if signature_type is numbers.Number and argument_type in (int, float):
        return True
    if isinstance(argument_type, type) and isinstance(signature_type, type):
        return issubclass(argument_type, signature_type)
    return False


def _list_matches(element: Any, argument_type: Any) -> bool:
    """Whether a type fits a list of ``element``: a list, a tuple, or one integer in place of a list of them."""
    if element is int and argument_type is int:
        return True
    if not isinstance(element, type):
        return False
    origin, parts = typing.get_origin(argument_type), typing.get_args(argument_type)
    if origin not in (list, tuple):
        return False
    parts = tuple(part for part in parts if part is not Ellipsis)
    return all(part is element or (isinstance(part, type) and issubclass(part, element)) for part in parts)
