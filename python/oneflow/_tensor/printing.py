"""Text of tensors, as PyTorch prints them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._functions import compressed


@dataclass
class _PrintOptions:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": _PrintOptions(),
    "short": _PrintOptions(precision=2, edgeitems=2),
    "full": _PrintOptions(threshold=math.inf),
}
# One object for good: programs read it under PyTorch's name, `_tensor_str.PRINT_OPTS`.
_options = _PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print from now on.

    Args:
        precision: digits after the point (4).
        threshold: with more elements than this, only the edges are shown (1000).
        edgeitems: how many at each edge (3).
        linewidth: characters a line (80).
        profile: "default", "short" or "full", applied before the other arguments.
        sci_mode: scientific notation always (True), never (False), or where it helps (None).

    Example::

        >>> oneflow.set_printoptions(precision=2)
        >>> oneflow.tensor([3.14159])
        tensor([3.14])
        >>> oneflow.set_printoptions(profile="default")
    """
    options = _options
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: profile is one of {sorted(_PROFILES)}, got {profile!r}")
        options = _PROFILES[profile]
    given: dict[str, Any] = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    values = {**asdict(options), "sci_mode": sci_mode, **{k: v for k, v in given.items() if v is not None}}
    for name, value in values.items():
        setattr(_options, name, value)


def tensor_str(tensor: Tensor, contents: str | None = None) -> str:
    """Return the text of ``tensor``; ``contents`` replaces the part between the brackets."""
    with oneflow.no_grad():
        return _tensor_str(tensor, contents)


def _tensor_str(tensor: Tensor, contents: str | None) -> str:
    if (batched := _oneflow._vmap_shown(tensor)) is not None:
        depth, values = batched
        body = tensor_str(values).replace("\n", "\n    ")
        return f"BatchedTensor(lvl={depth}, bdim=0, value=\n    {body}\n)"
    if tensor.layout is not oneflow.strided:
        return _sparse_str(tensor)
    plain = type(tensor) is Tensor or type(tensor).__module__ == "oneflow.nn.parameter"
    prefix = "tensor(" if plain else f"{type(tensor).__name__}("
    indent = len(prefix)
    suffixes: list[str] = []
    shape, dtype = tuple(tensor.shape), tensor.dtype
    default_dtype = oneflow.get_default_dtype()
    device = tensor.device
    if device.type != "cpu" and not getattr(tensor, "is_global", False):
        suffixes.append(f"device='{device}'")
    is_global = getattr(tensor, "is_global", False)
    if is_global:
        suffixes += [f"placement={tensor.placement}", f"sbp={tensor.sbp}"]
    without_data = device.type == "meta" or is_global or _oneflow._C._is_without_memory(tensor)
    if without_data or getattr(tensor, "is_lazy", False):
        # There is no data here, or it lies on several ranks: printing must not be a collective.
        suffixes.append(f"size={shape}")
        if dtype != default_dtype:
            suffixes.append(f"dtype={dtype}")
        body = "..."
    elif math.prod(shape) == 0:
        if len(shape) != 1:
            suffixes.append(f"size={shape}")
        if dtype != default_dtype:
            suffixes.append(f"dtype={dtype}")
        body = "[]"
    else:
        if dtype not in (default_dtype, default_dtype.to_complex(), oneflow.int64, oneflow.bool):
            suffixes.append(f"dtype={dtype}")
        body = contents if contents is not None else _body(tensor.detach(), indent)
    try:
        grad_fn = tensor.grad_fn
        name = None if grad_fn is None else _node_name(grad_fn)
    except RuntimeError:
        # A view made without gradients whose base was written since.
        name = "Invalid"
    if name is not None:
        suffixes.append(f"grad_fn=<{name}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    tangent = _tangent(tensor)
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    return _join(prefix + body, suffixes, indent)


def _sparse_str(tensor: Tensor) -> str:
    """The parts of a sparse tensor, one below the other."""
    pad = " " * len("tensor(")
    if tensor.is_sparse:
        parts = {"indices": tensor._indices().detach(), "values": tensor._values().detach()}
    else:
        parts = compressed.parts_by_name(tensor.detach())
    lines = [f"{name}={_part_str(part, len(pad) + len(name) + 1)}" for name, part in parts.items()]
    words = [f"size={tuple(tensor.shape)}"]
    if not tensor.is_meta:
        words.append(f"nnz={tensor._nnz()}")
    if tensor.device.type != "cpu":
        words.insert(0, f"device='{tensor.device}'")
    if tensor.dtype not in (oneflow.get_default_dtype(), oneflow.complex64, oneflow.int64, oneflow.bool):
        words.append(f"dtype={tensor.dtype}")
    words.append(f"layout={tensor.layout}")
    if tensor.grad_fn is not None:
        words.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        words.append("requires_grad=True")
    # By coordinates the words start a line of their own.
    last = "" if tensor.is_sparse else lines.pop()
    width = len(pad) if tensor.is_sparse else len(last.rpartition("\n")[2]) + (len(pad) if "\n" not in last else 0)
    for word in words:
        if last and width + len(word) + 2 > _options.linewidth:
            lines.append(last)
            last, width = word, len(pad) + len(word)
        else:
            width += len(word) + (2 if last else 0)
            last = f"{last}, {word}" if last else word
    return "tensor(" + (",\n" + pad).join([*lines, last]) + ")"


def _part_str(part: Tensor, column: int) -> str:
    """A part of a sparse tensor as printed from a column on: without dtype, with its size if no element is shown."""
    if part.numel() == 0 or part.is_meta:
        return f"tensor({'...' if part.is_meta else '[]'}, size={tuple(part.shape)})"
    return f"tensor({_body(part, column + len('tensor('))})"


def _tangent(tensor: Any) -> Any:
    """What the tensor carries in forward mode."""
    from oneflow.autograd import forward_ad

    return forward_ad.unpack_dual(tensor).tangent if forward_ad._is_open() else None


def _node_name(grad_fn: Any) -> str:
    name = getattr(grad_fn, "name", None)
    return str(name()).rsplit("::", 1)[-1] if callable(name) else type(grad_fn).__name__


def _join(text: str, suffixes: list[str], indent: int) -> str:
    line_length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if line_length + len(suffix) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            line_length = indent + len(suffix)
        else:
            text += ", " + suffix
            line_length += len(suffix) + 2
    return text + ")"


def _body(tensor: Tensor, indent: int) -> str:
    summarise = tensor.numel() > _options.threshold
    nested = _shown_values(tensor, summarise)
    flat: list[Any] = []
    _flatten(nested, flat)
    fmt = _ComplexFormat(flat) if tensor.is_complex() else _Format(flat, tensor.is_floating_point())
    return _lay_out(nested, tensor.dim(), indent, fmt)


class _Gap:
    """Stands for the elements that a summary leaves out."""


_GAP = _Gap()


def _shown_values(tensor: Tensor, summarise: bool) -> Any:
    """Nested lists of Python numbers, with a gap in every dimension that a summary cuts."""
    if tensor.dim() == 0:
        return tensor.item()
    edge = _options.edgeitems
    if not summarise:
        return tensor.tolist()
    size = tensor.shape[0]
    cut = size > 2 * edge
    if tensor.dim() == 1:
        return [*tensor[:edge].tolist(), _GAP, *tensor[size - edge :].tolist()] if cut else tensor.tolist()
    shown = [*range(edge), None, *range(size - edge, size)] if cut else range(size)
    return [_GAP if i is None else _shown_values(tensor[i], summarise) for i in shown]


def _flatten(nested: Any, flat: list[Any]) -> None:
    if isinstance(nested, list):
        for item in nested:
            _flatten(item, flat)
    elif nested is not _GAP:
        flat.append(nested)


class _Format:
    """One format for all shown values: plain, integral, fixed or scientific, and their common width."""

    def __init__(self, values: list[Any], floating: bool) -> None:
        self.floating = floating
        self.integral = True
        self.scientific = False
        self.width = 1
        if not floating:
            self.width = max([len(str(value)) for value in values], default=1)
            return
        finite = [value for value in values if math.isfinite(value) and value != 0]
        if finite:
            magnitudes = [abs(value) for value in finite]
            largest, smallest = max(magnitudes), min(magnitudes)
            self.integral = all(value == math.ceil(value) for value in finite)
            self.scientific = largest / smallest > 1000.0 or largest > 1.0e8 or (not self.integral and smallest < 1e-4)
            if _options.sci_mode is not None:
                self.scientific = _options.sci_mode
        self.width = max([len(self._text(value)) for value in finite], default=1)

    def _text(self, value: Any) -> str:
        if not self.floating:
            return str(value)
        if self.scientific:
            return f"{value:.{_options.precision}e}"
        if self.integral:
            return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"
        return f"{value:.{_options.precision}f}"

    def __call__(self, value: Any) -> str:
        return self._text(value).rjust(self.width)


class _ComplexFormat:
    """Real and imaginary parts, each in the format of all of its kind."""

    def __init__(self, values: list[complex]) -> None:
        self.real = _Format([value.real for value in values], True)
        self.imag = _Format([value.imag for value in values], True)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value: complex) -> str:
        imag = f"{self.imag(value.imag)}j".lstrip()
        return self.real(value.real) + (imag if imag[0] in "+-" else f"+{imag}")


def _lay_out(nested: Any, n_dims: int, indent: int, fmt: _Format | _ComplexFormat) -> str:
    if n_dims == 0:
        return fmt(nested)
    if n_dims == 1:
        texts = [" ..." if item is _GAP else fmt(item) for item in nested]
        per_line = max(1, (_options.linewidth - indent) // (fmt.width + 2))
        lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    rows = ["..." if item is _GAP else _lay_out(item, n_dims - 1, indent + 1, fmt) for item in nested]
    return "[" + ("," + "\n" * (n_dims - 1) + " " * (indent + 1)).join(rows) + "]"


def results_text(results: Any) -> str:
    """The text of the named results of an op: a line each."""
    kind = type(results)
    lines = ",\n".join(f"{name}={value!r}" for name, value in zip(kind.__match_args__, results, strict=True))
    return f"{kind.__module__}.{kind.__name__}(\n{lines})"
