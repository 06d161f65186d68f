"""Derivatives of functions of nests of tensors, by reverse mode. They nest, and see what the function closes over.

The function may write its arguments, also those that the derivative is not by. It may not write to a tensor that it
only closes over: the write would outlast the derivative, and its history would be the derivative's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.autograd import grad as _grad
from oneflow.autograd._batching import vmap
from oneflow.autograd.forward_ad import SameMemory
from oneflow.utils._pytree import tree_flatten, tree_map, tree_unflatten

Function = Callable[..., Any]


class _Level:
    """Fresh inputs of one derivative, and what outside may want a gradient through its results."""

    def __init__(self) -> None:
        self._leaves: set[int] = set()
        self._kept: list[Tensor] = []
        self._inputs: list[Tensor] = []
        # Copies that the function got in place of tensors of outer derivatives, the versions and strides that they had.
        self._lent: list[tuple[Tensor, Tensor, int, tuple[int, ...]]] = []

    def fresh(self, x: Tensor) -> Tensor:
        """The tensor as an input of this derivative: with its history where it has one."""
        if x.requires_grad:
            self._inputs.append(x)
            return x.view_as(x)
        leaf = x.detach().requires_grad_()
        self._leaves.add(id(leaf))
        self._kept.append(leaf)
        self._inputs.append(leaf)
        return leaf

    def writable(self, source: Tensor, x: Tensor) -> Tensor:
        """What the function gets for an input ``x`` by directions: it may write that, as it may write dual tensors.

        ``source`` is what this derivative is by; a write does not belong to the way back to it.
        """
        if id(source) in self._leaves and not source.is_sparse:
            given = SameMemory.apply(source)
        else:
            given = source.clone()
            self._lent.append((x, given, given._version, given.stride()))
        self._inputs.append(given)
        return given

    def shown(self, x: Any) -> Any:
        """What the function gets for an argument that this derivative is not by: it may write that, too.

        A write reaches the memory of the argument; its history belongs to this derivative and stays with the alias.
        """
        if not isinstance(x, Tensor):
            return x
        if not x.requires_grad and type(x) in (Tensor, oneflow.nn.Parameter):
            x = x.detach()
        self._inputs.append(x)
        return x

    def write_back(self) -> None:
        """Let the owners of what was lent see what the function has written, with its history.

        To be called when the derivative is known: it is by views of what is written now.
        """
        for x, given, version, strides in self._lent:
            if given._version == version:
                continue
            if given.shape != x.shape or given.stride() != strides:
                raise RuntimeError(
                    "jvp(f, primals, tangents): f wrote an input of an outer derivative and gave it another shape "
                    f"({list(x.shape)}, now {list(given.shape)}); take a view, which has a shape of its own"
                )
            x.copy_(given)

    def call(self, func: Function, *args: Any, **kwargs: Any) -> Any:
        """Call the function that is differentiated: it may write its inputs and what it makes, nothing else."""
        former = _oneflow._C._enter_transform(self._inputs)
        try:
            return func(*args, **kwargs)
        finally:
            _oneflow._C._leave_transform(former)

    def finish(self, value: Any) -> Any:
        """Results whose history holds nothing but this derivative's own inputs forget it; under ``no_grad`` all do."""
        return tree_map(lambda t: self._finished(t) if isinstance(t, Tensor) else t, value)

    def _finished(self, t: Tensor) -> Tensor:
        if not t.requires_grad or (oneflow.is_grad_enabled() and self._reaches_outside(t)):
            return t
        return t.detach()

    def _reaches_outside(self, t: Tensor) -> bool:
        if t.grad_fn is None:
            return id(t) not in self._leaves
        seen: set[Any] = set()
        waiting = [t.grad_fn]
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            variable = getattr(node, "variable", None)
            if variable is not None and id(variable) not in self._leaves:
                return True
            waiting += [following for following, _ in node.next_functions if following is not None]
        return False


def _selected(argnums: Any, args: tuple[Any, ...], name: str) -> tuple[int, ...]:
    wanted = argnums if isinstance(argnums, tuple) else (argnums,)
    if not wanted:
        raise RuntimeError("argnums must be non-empty")
    found = []
    for i in wanted:
        if not isinstance(i, int):
            raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"Got argnum={i}, but only {len(args)} positional inputs")
        found.append(i % len(args))
    if len(set(found)) != len(found):
        raise RuntimeError(f"argnums elements must be unique, got argnums={argnums}")
    return tuple(found)


def _with_fresh(
    level: _Level, args: tuple[Any, ...], chosen: tuple[int, ...], *, writable: bool = False
) -> tuple[list[Any], list[Tensor], Any]:
    """Arguments with fresh tensors at the chosen places, what the derivative is by, and how those are nested."""
    own, spec = tree_flatten(tuple(args[i] for i in chosen))
    for x in own:
        if not isinstance(x, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
    inputs = [level.fresh(x) for x in own]
    shown = [level.writable(source, x) for source, x in zip(inputs, own, strict=True)] if writable else inputs
    given = [arg if i in chosen else tree_map(level.shown, arg) for i, arg in enumerate(args)]
    for i, value in zip(chosen, tree_unflatten(shown, spec), strict=True):
        given[i] = value
    return given, inputs, spec


def _forward(level: _Level, func: Function, *args: Any, **kwargs: Any) -> Any:
    """Call a function whose derivative by directions is wanted."""
    before = _oneflow._forward_mode(True)
    try:
        return level.call(func, *args, **kwargs)
    finally:
        _oneflow._forward_mode(before)


def _gradients(outputs: list[Tensor], inputs: list[Tensor], grads: list[Tensor] | None, keep: bool = True) -> Any:
    """Gradients that can be differentiated again; zeros for what the outputs do not depend on."""
    used = [i for i, y in enumerate(outputs) if y.requires_grad]
    if not used:
        return [oneflow.zeros_like(x) for x in inputs]
    found = _grad(
        [outputs[i] for i in used],
        inputs,
        None if grads is None else [grads[i] for i in used],
        create_graph=True,
        retain_graph=keep,
        allow_unused=True,
    )
    return [oneflow.zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True)]


def _depends(output: Tensor, inputs: list[Tensor]) -> bool:
    if not output.requires_grad:
        return False
    found = _grad([output], inputs, [oneflow.ones_like(output)], retain_graph=True, allow_unused=True)
    return any(g is not None for g in found)


def _split_aux(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True, got {type(result)}"
        )
    return result


def grad_and_value(func: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """A function that returns the gradient of ``func`` and its value.

    Args:
        func: returns a tensor of one element; with ``has_aux`` a pair of it and anything else.
        argnums: the positional argument, or a tuple of them, to differentiate by; each a tensor or a nest of tensors.

    Returns:
        ``(gradient, value)``, with ``has_aux`` ``(gradient, (value, aux))``.

    Raises:
        RuntimeError: ``func`` returns something else than one element, or writes to a tensor that it only closes over.

    Example::

        >>> oneflow.func.grad_and_value(lambda x: (x * x).sum())(oneflow.tensor([1.0, 3.0]))
        (tensor([2., 6.]), tensor(10.))
    """

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        level = _Level()
        with oneflow.enable_grad():
            chosen = _selected(argnums, args, "grad")
            given, inputs, spec = _with_fresh(level, args, chosen)
            output, aux = _split_aux(
                level.call(func, *given, **tree_map(level.shown, kwargs)), has_aux, "grad_and_value(f)(*args)"
            )
            if not isinstance(output, Tensor):
                raise RuntimeError(
                    f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}"
                )
            if output.dim() != 0:
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                    f"{output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            found = tree_unflatten(_gradients([output], inputs, None), spec)
        result = level.finish(found if isinstance(argnums, tuple) else found[0])
        value = level.finish(output)
        return (result, (value, level.finish(aux))) if has_aux else (result, value)

    return call


def value_and_grad(func: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """As :func:`grad_and_value`, the value first.

    Example::

        >>> oneflow.func.value_and_grad(lambda x: (x**2).sum())(oneflow.tensor([1.0, 3.0]))
        (tensor(10.), tensor([2., 6.]))
    """
    inner = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        gradient, value = inner(*args, **kwargs)
        return value, gradient

    return call


def grad(func: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """A function that returns the gradient of ``func``; with ``has_aux`` the pair of it and the rest.

    Arguments as for :func:`grad_and_value`.

    Example::

        >>> cube = lambda x: x**3
        >>> oneflow.func.grad(oneflow.func.grad(cube))(oneflow.tensor(2.0))
        tensor(12.)
    """
    inner = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        gradient, value = inner(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return call


def _checked_tensors(value: Any, name: str, what: str) -> tuple[list[Tensor], Any]:
    leaves, spec = tree_flatten(value)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{name}: expected {what} only tensors, got unsupported type {type(leaf)}")
    return leaves, spec


def _checked_outputs(value: Any, name: str) -> tuple[list[Tensor], Any]:
    if value is None or not tree_flatten(value)[0]:
        raise RuntimeError(f"{name}: Expected f to be a function that has non-empty output (got output = {value})")
    return _checked_tensors(value, name, "f(*primals) to return")


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """``func(*primals)`` and a function that multiplies a cotangent with the Jacobian from the left.

    Returns:
        ``(output, vjp_fn)``, with ``has_aux`` ``(output, vjp_fn, aux)``. ``vjp_fn(v)``, ``v`` nested as the output, is
        a tensor or nest for one primal, a tuple for several.

    Example::

        >>> y, pull = oneflow.func.vjp(oneflow.sin, oneflow.tensor([0.0]))
        >>> pull(oneflow.tensor([2.0]))
        (tensor([2.]),)
    """
    level = _Level()
    with oneflow.enable_grad():
        given, inputs, spec = _with_fresh(level, primals, tuple(range(len(primals))))
        result, aux = _split_aux(level.call(func, *given), has_aux, "vjp(f, *primals)")
        outputs, out_spec = _checked_outputs(result, "vjp(f, *primals)")

    def pull(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        value = cotangents[0] if len(cotangents) == 1 else cotangents
        grads, grads_spec = _checked_tensors(value, "vjp(f, *primals)", "the cotangents to be")
        if grads_spec != out_spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {grads_spec}, primal output: {out_spec}"
            )
        with oneflow.enable_grad():
            found = tree_unflatten(_gradients(outputs, inputs, grads), spec)
        return level.finish(found)

    shown = level.finish(result)
    return (shown, pull, level.finish(aux)) if has_aux else (shown, pull)


def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """``func(*primals)`` and the Jacobian times ``tangents``, by differentiating a backward.

    ``func`` may write its inputs, and the writes stay; what a derivative needs may not be written after it was used.

    Args:
        primals, tangents: tuples of tensors, or of nests of them, of equal shapes.
        strict: refuse a result that does not depend on the primals; otherwise its tangent is zeros.

    Raises:
        RuntimeError: with ``strict``, a result is independent of the primals.

    Example::

        >>> oneflow.func.jvp(oneflow.sin, (oneflow.tensor([0.0]),), (oneflow.tensor([3.0]),))
        (tensor([0.]), tensor([3.]))
    """
    name = "jvp(f, primals, tangents)"
    for what, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, tuple):
            raise RuntimeError(f"{name}: Expected {what} to be a tuple, as in f(*primals), got {type(value)}")
    if not tree_flatten(primals)[0]:
        raise RuntimeError(f"{name}: Expected primals to contain at least one Tensor")
    for leaf in tree_flatten(primals)[0]:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{name}: Expected primals to only contain Tensors, got {type(leaf)}")
    level = _Level()
    with oneflow.enable_grad():
        given, inputs, spec = _with_fresh(level, primals, tuple(range(len(primals))), writable=True)
        directions, direction_spec = _checked_tensors(tangents, name, "the tangents to be")
        if direction_spec != spec:
            raise RuntimeError(
                f"{name}: Expected primals and tangents to have the same python structure. "
                f"Got primals with structure {spec} and tangents with structure {direction_spec}"
            )
        for x, v in zip(inputs, directions, strict=True):
            if x.shape != v.shape:
                raise RuntimeError(
                    f"{name}: a forward gradient has a different size than its Tensor: the primal is of size "
                    f"{list(x.shape)}, the tangent of size {list(v.shape)}"
                )
        result, aux = _split_aux(_forward(level, func, *given), has_aux, name)
        outputs, out_spec = _checked_outputs(result, name)
        if strict and not all(_depends(y, inputs) for y in outputs):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
                "This is not allowed with strict=True."
            )
        # The backward is linear in the cotangents: its own backward is the forward product.
        ones = [level.fresh(oneflow.zeros_like(y)) for y in outputs]
        pulled = _gradients(outputs, inputs, ones)
        found = tree_unflatten(_gradients(pulled, ones, directions), out_spec)
        level.write_back()
    shown = (level.finish(result), level.finish(found))
    return (*shown, level.finish(aux)) if has_aux else shown


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """``func(*primals)`` and a function that multiplies the Jacobian there with tangents.

    Example::

        >>> y, push = oneflow.func.linearize(oneflow.sin, oneflow.tensor([0.0]))
        >>> push(oneflow.tensor([3.0]))
        tensor([3.])
    """

    def push(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return func(*primals), push


def _by_element(pull: Function, y: Tensor, chunk_size: int | None) -> list[Tensor] | None:
    """Apply ``pull`` to the unit vectors of ``y``'s elements, all in one backward; None where there is no gradient."""
    if not y.numel():
        return None
    units = oneflow.eye(y.numel(), dtype=y.dtype, device=y.device).reshape(y.numel(), *y.shape)
    if chunk_size == 1:
        # One by one: what a batch cannot run (shapes that depend on data) runs here.
        return [oneflow.stack(rows) for rows in zip(*map(pull, units), strict=True)]
    found: list[Tensor] = vmap(pull, chunk_size=chunk_size, randomness="same")(units)
    return found


def _check_real(name: str, tensors: list[Tensor], what: str) -> None:
    for t in tensors:
        if t.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {what} to be real but received complex tensor at flattened input idx: "
                f"{[x is t for x in tensors].index(True)}"
            )


def _check_chunk_size(name: str, chunk_size: int | None) -> None:
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"{name}: `chunk_size` should be greater than 0, got {chunk_size}")


def jacrev(
    func: Function,
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """A function that returns the Jacobian of ``func``: ``output.shape + input.shape``, one batched backward.

    Args:
        func: of tensors or nests, returns a tensor or a nest of tensors; with ``has_aux`` a pair of it and the rest.
        argnums: the positional argument, or a tuple of them, to differentiate by.
        chunk_size: for how many elements of the output a backward runs at once; None for all.

    Returns:
        the output's nest of the inputs' nests of tensors.

    Example::

        >>> oneflow.func.jacrev(lambda x: x * x)(oneflow.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    _check_chunk_size("jacrev", chunk_size)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        level = _Level()
        with oneflow.enable_grad():
            chosen = _selected(argnums, args, "jacrev")
            given, inputs, spec = _with_fresh(level, args, chosen)
            _check_real("jacrev", inputs, "inputs")
            result, aux = _split_aux(
                level.call(func, *given, **tree_map(level.shown, kwargs)), has_aux, "jacrev(f, *x)(*args)"
            )
            outputs, out_spec = _checked_outputs(result, "vjp(f, *primals)")
            _check_real("jacrev", outputs, "outputs")
            blocks = []
            for y in outputs:
                rows = _by_element(lambda v, y=y: _gradients([y], inputs, [v]), y, chunk_size)
                found = [
                    x.new_zeros((*y.shape, *x.shape)) if rows is None else rows[i].reshape((*y.shape, *x.shape))
                    for i, x in enumerate(inputs)
                ]
                blocks.append(tree_unflatten(found, spec))
            found = tree_unflatten([b if isinstance(argnums, tuple) else b[0] for b in blocks], out_spec)
        found = level.finish(found)
        return (found, level.finish(aux)) if has_aux else found

    return call


def jacfwd(
    func: Function, argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error", chunk_size: int | None = None
) -> Function:
    """The same Jacobian as :func:`jacrev`, by columns: a pass grows with the inputs' elements, so for few of them.

    There is no forward mode: as in :func:`jvp`, a pass differentiates a backward, which is linear in its cotangents;
    and ``func`` may write its inputs, as there.

    Args:
        func, argnums, has_aux: as for :func:`jacrev`.
        randomness: ``"error"``, ``"same"`` or ``"different"``. ``func`` runs once, so all columns see the same draws.
        chunk_size: for how many elements of an input a pass runs at once; None for all.

    Example::

        >>> oneflow.func.jacfwd(lambda x: x**2)(oneflow.tensor([1.0, 3.0]))
        tensor([[2., 0.],
                [0., 6.]])
    """
    if randomness not in ("error", "same", "different"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    _check_chunk_size("jacfwd", chunk_size)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        level = _Level()
        with oneflow.enable_grad():
            chosen = _selected(argnums, args, "jacfwd")
            given, inputs, spec = _with_fresh(level, args, chosen, writable=True)
            _check_real("jacfwd", inputs, "inputs")
            result, aux = _split_aux(
                _forward(level, func, *given, **tree_map(level.shown, kwargs)), has_aux, "jacfwd(f, *x)(*args)"
            )
            outputs, out_spec = _checked_outputs(result, "jvp(f, primals, tangents)")
            _check_real("jacfwd", outputs, "outputs")
            ones = [level.fresh(oneflow.zeros_like(y)) for y in outputs]
            pulled = _gradients(outputs, inputs, ones)
            columns = [_by_element(lambda v, g=g: _gradients([g], ones, [v]), g, chunk_size) for g in pulled]
            blocks = []
            for j, y in enumerate(outputs):
                by_input = [
                    x.new_zeros((*y.shape, *x.shape))
                    if found is None
                    else found[j].movedim(0, -1).reshape((*y.shape, *x.shape))
                    for x, found in zip(inputs, columns, strict=True)
                ]
                blocks.append(tree_unflatten(by_input, spec))
            jacobian = tree_unflatten([b if isinstance(argnums, tuple) else b[0] for b in blocks], out_spec)
            level.write_back()
        jacobian = level.finish(jacobian)
        return (jacobian, level.finish(aux)) if has_aux else jacobian

    return call


def hessian(func: Function, argnums: Any = 0) -> Function:
    """A function that returns the second derivatives of ``func``, which returns one element.

    Example::

        >>> oneflow.func.hessian(lambda x: (x**3).sum())(oneflow.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacrev(jacrev(func, argnums), argnums)
