"""``einsum``: sums of products by subscripts, contracted two operands at a time through batched matrix products.

The equation is read once for each kind of operands; what remains in a call is views and products.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

from oneflow._oneflow import Tensor

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class _Plan(NamedTuple):
    """Labels as small integers: those of an ellipsis first."""

    operands: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    names: dict[int, str]


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sum products of the operands' elements, as the subscripts specify.

    Args:
        equation: such as ``"bij,bjk->bik"``; or the first operand, followed by its list of subscripts (numbers in
            ``[0, 52)`` or ``...``), and so on, the output's list last.
        operands: tensors, or one list of them.

    >>> import oneflow
    >>> oneflow.einsum("ij,jk->ik", oneflow.ones(2, 3), oneflow.ones(3, 2))
    tensor([[3., 3.],
            [3., 3.]])
    """
    if isinstance(equation, str):
        tensors = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    else:
        equation, tensors = _from_lists((equation, *operands)) if operands else ("", [])
    if not tensors:
        raise ValueError("einsum(): must provide an equation and at least one operand")
    plan = _read(equation, tuple(t.ndim for t in tensors))
    sizes: dict[int, int] = {}
    terms = [_diagonals(t, labels) for t, labels in zip(tensors, plan.operands, strict=True)]
    for at, (t, labels) in enumerate(terms):
        for label, size in zip(labels, t.shape, strict=True):
            known = sizes.setdefault(label, size)
            # Equal sizes first: whether one is 1 matters only where they differ.
            if size == known or size == 1:
                continue
            if known != 1:
                raise RuntimeError(
                    f"einsum(): subscript {plan.names.get(label, '...')} has size {size} for operand {at} which does "
                    f"not broadcast with previously seen size {known}"
                )
            sizes[label] = size
    # A dimension of size one that another operand expands does not count.
    terms = [_without_ones(t, labels, sizes) for t, labels in terms]
    while len(terms) > 1:
        # From left to right, in the order of the operands.
        left, right, *terms = terms
        keep = set(plan.output).union(*(labels for _, labels in terms))
        terms.insert(0, _contract(left, right, keep))
    result, labels = _summed(*terms[0], set(plan.output))
    for label in plan.output:
        if label not in labels:
            result, labels = result.unsqueeze(-1), (*labels, label)
    result = result.permute([labels.index(label) for label in plan.output])
    shape = [sizes.get(label, 1) for label in plan.output]
    return result if list(result.shape) == shape else result.expand(shape)


def _one_by_one(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments that a class of tensors sees: the operands of a list one by one."""
    is_list = len(args) == 2 and isinstance(args[1], (list, tuple))
    return (args[0], *args[1]) if is_list else args


einsum._handed_over = _one_by_one  # type: ignore[attr-defined]


def _from_lists(given: tuple[Any, ...]) -> tuple[str, list[Tensor]]:
    """The equation of operands that are each followed by their subscripts."""

    def text(subscripts: Any) -> str:
        letters = []
        for s in subscripts:
            if s is Ellipsis:
                letters.append("...")
            elif 0 <= s < len(_LETTERS):
                letters.append(_LETTERS[s])
            else:
                raise ValueError("einsum(): subscripts in sublist format must be within [0, 52), but got " + str(s))
        return "".join(letters)

    pairs = len(given) // 2
    equation = ",".join(text(s) for s in given[1 : 2 * pairs : 2])
    if len(given) % 2:
        equation += "->" + text(given[-1])
    return equation, list(given[0 : 2 * pairs : 2])


@lru_cache(maxsize=1024)
def _read(equation: str, ndims: tuple[int, ...]) -> _Plan:
    text = equation.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    _check_letters(equation, inputs + output)
    parts = inputs.split(",")
    if len(parts) != len(ndims):
        word = "more" if len(ndims) > len(parts) else "fewer"
        raise RuntimeError(f"einsum(): {word} operands were provided than specified in the equation")
    letters = [part.replace("...", "") for part in parts]
    hidden = [n - len(own) if "..." in part else 0 for part, own, n in zip(parts, letters, ndims, strict=True)]
    for at, (part, own, n) in enumerate(zip(parts, letters, ndims, strict=True)):
        if "..." not in part and len(own) != n:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(own)}) does not match the number of "
                f"dimensions ({n}) for operand {at} and no ellipsis was given"
            )
        if "..." in part and len(own) > n:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(own)}) is more than the number of "
                f"dimensions ({n}) for operand {at}"
            )
    most = max(hidden)
    label = {letter: most + i for i, letter in enumerate(sorted(set("".join(letters))))}

    def labels(part: str, n_hidden: int) -> tuple[int, ...]:
        before, dots, after = part.partition("...")
        middle = range(most - n_hidden, most) if dots else ()
        return (*(label[x] for x in before), *middle, *(label[x] for x in after))

    operands = tuple(labels(part, n) for part, n in zip(parts, hidden, strict=True))
    if not arrow:
        counted = "".join(letters)
        once = [x for x in sorted(set(counted)) if counted.count(x) == 1]
        return _Plan(operands, (*range(most), *(label[x] for x in once)), {v: k for k, v in label.items()})
    for x in output.replace("...", ""):
        if x not in label:
            raise RuntimeError(f"einsum(): output subscript {x} does not appear in the equation for any input operand")
        if output.count(x) > 1:
            raise RuntimeError(f"einsum(): output subscript {x} appears more than once in the output")
    return _Plan(operands, labels(output, most), {v: k for k, v in label.items()})


def _check_letters(equation: str, text: str) -> None:
    rest = text.replace("...", "").replace(",", "")
    for x in rest:
        if x not in _LETTERS:
            if x == ".":
                raise RuntimeError("einsum(): found '.' that is not part of any ellipsis")
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {equation.index(x)} in the equation string, "
                "subscripts must be in [a-zA-Z]"
            )


Term = tuple[Tensor, tuple[int, ...]]


def _diagonals(t: Tensor, labels: tuple[int, ...]) -> Term:
    """One dimension for each label: repeated ones become their diagonal."""
    for label in set(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            if t.shape[i] != t.shape[j]:
                raise RuntimeError(
                    "einsum(): subscript is repeated for an operand but the sizes don't match, "
                    f"{t.shape[j]} != {t.shape[i]}"
                )
            t = t.diagonal(0, i, j)
            labels = (*labels[:i], *labels[i + 1 : j], *labels[j + 1 :], label)
    return t, labels


def _without_ones(t: Tensor, labels: tuple[int, ...], sizes: dict[int, int]) -> Term:
    gone = [i for i, label in enumerate(labels) if t.shape[i] != sizes[label]]
    if not gone:
        return t, labels
    return t.squeeze(tuple(gone)), tuple(label for i, label in enumerate(labels) if i not in gone)


def _summed(t: Tensor, labels: tuple[int, ...], keep: set[int]) -> Term:
    gone = [i for i, label in enumerate(labels) if label not in keep]
    if not gone:
        return t, labels
    return t.sum(gone), tuple(label for label in labels if label in keep)


def _contract(left: Term, right: Term, keep: set[int]) -> Term:
    """The product of two operands, summed over what is in both and not kept."""
    a, a_labels = _summed(*left, keep.union(right[1]))
    b, b_labels = _summed(*right, keep.union(left[1]))
    both = set(a_labels) & set(b_labels)
    batch = [label for label in a_labels if label in both and label in keep]
    inner = [label for label in a_labels if label in both and label not in keep]
    rows = [label for label in a_labels if label not in both]
    columns = [label for label in b_labels if label not in both]
    a_size = dict(zip(a_labels, a.shape, strict=True))
    b_size = dict(zip(b_labels, b.shape, strict=True))
    a = a.permute([a_labels.index(label) for label in batch + rows + inner])
    b = b.permute([b_labels.index(label) for label in batch + inner + columns])
    labels = tuple(batch + rows + columns)
    if not inner:
        # No sum: an elementwise product broadcasts without copies.
        a = a.reshape([a_size[x] for x in batch + rows] + [1] * len(columns))
        b = b.reshape([a_size[x] for x in batch] + [1] * len(rows) + [b_size[x] for x in columns])
        return a * b, labels
    n = math.prod(a_size[x] for x in batch)
    m = math.prod(a_size[x] for x in rows)
    k = math.prod(a_size[x] for x in inner)
    p = math.prod(b_size[x] for x in columns)
    product = a.reshape(n, m, k) @ b.reshape(n, k, p) if batch else a.reshape(m, k) @ b.reshape(k, p)
    return product.reshape([a_size[x] for x in batch + rows] + [b_size[x] for x in columns]), labels
