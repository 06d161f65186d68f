"""OneFlow's texts of errors that PyTorch and OneFlow word differently.

Programs written for OneFlow look for its sentences in errors. Under its conventions an error that has one ends, as
OneFlow's do, with a line of its class and that sentence; the text in PyTorch's words stays before it. Errors of the
compiled module come here through its gate; Python code that raises one makes it with :func:`error`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from oneflow._base import conventions


def error(cls: type[Exception], text: str) -> Exception:
    """Return an exception with ``text``, and with OneFlow's sentence for it if its conventions are on."""
    if not conventions.are_oneflows():
        return cls(text)
    text = with_oneflows(cls.__name__, text)
    return runtime_too(cls.__name__, text) if cls.__name__ in _RUNTIME_TOO else cls(text)


def runtime_too(cls: str, text: str) -> Exception:
    """Return a TypeError, ValueError or IndexError that programs which expect OneFlow's RuntimeError catch as well."""
    return _RUNTIME_TOO[cls](text)


def _with_runtime(cls: type[Exception]) -> type[Exception]:
    def plain(self: Exception) -> tuple[type[Exception], tuple[object, ...]]:
        return cls, self.args

    # In a traceback, and where it is pickled, it is the class that Python knows.
    return type(cls.__name__, (cls, RuntimeError), {"__module__": cls.__module__, "__reduce__": plain})


_RUNTIME_TOO = {cls.__name__: _with_runtime(cls) for cls in (TypeError, ValueError, IndexError)}


def with_oneflows(cls: str, text: str) -> str:
    """Return ``text`` and, on a separate line, OneFlow's sentence for it if there is one."""
    for pattern, said in _SENTENCES:
        if found := pattern.search(text):
            sentence = found.expand(said) if isinstance(said, str) else said(found)
            if sentence:
                return f"{text}\n{cls}: {sentence}"
    return text


def _sizes(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"-?\d+", text)]


def _tuple(text: str) -> str:
    return f"({','.join(map(str, _sizes(text)))})"


def _in_tuples(template: str) -> Callable[[re.Match[str]], str]:
    """The groups, which are lists of sizes, as tuples at the places of a template."""
    return lambda m: template.format(*map(_tuple, m.groups()))


def _joined(m: re.Match[str]) -> str:
    a, b = ("x".join(map(str, _sizes(g))) for g in m.groups())
    return f"mat1 and mat2 shapes cannot be multiplied ({a} and {b})"


def _ranks(m: re.Match[str]) -> str:
    op, want, got = m[1], [int(m[2]), int(m[3])], [len(_sizes(m[4])), len(_sizes(m[5]))]
    if op == "dot":
        return f"1D tensors expected, but got {got[0]}D and {got[1]}D tensors"
    if op == "mv":
        return f"vector + matrix @ vector expected, got 1, {got[0]}, {got[1]}"
    i = 0 if got[0] != want[0] else 1
    if op == "mm":
        return f"{('self', 'mat2')[i]} must be a matrix"
    return f"Expected {want[i]}-dimensional tensor, but got {got[i]}-dimensional tensor for argument #{i + 1}"


def _gather(m: re.Match[str]) -> str:
    index, own, dim = _sizes(m[1]), _sizes(m[2]), int(m[3])
    at = next((i for i, (n, k) in enumerate(zip(index, own, strict=False)) if n > k and i != dim), 0)
    return f"Size does not match at dimension {at} expected index {_tuple(m[1])} to be smaller than self {_tuple(m[2])}"


def _layer_norm(m: re.Match[str]) -> str:
    shape, size = _sizes(m[1]), _sizes(m[2])
    tail = "".join(f" {n}," for n in shape)
    return (
        f"Given normalized_shape={tuple(shape)}, expected input with shape [*,{tail}], "
        f"but got input of size oneflow.Size({size})"
    )


def _grid(m: re.Match[str]) -> str:
    sizes = len(_sizes(m[1]))
    return (
        "Grid and input MUST have same dimention" if sizes in (4, 5) else f"input MUST be 4D or 5D input, got {sizes}D"
    )


def _split(m: re.Match[str]) -> str:
    return f"Split axis out of range (expected to be in range of [0, {len(_sizes(m[2]))}), but got {m[1]}!"


def _shards(m: re.Match[str]) -> str:
    dim, first, rank, other = int(m[1]), _sizes(m[2]), m[3], _sizes(m[4])
    pairs = enumerate(zip(first, other, strict=False))
    differing = [(a, b) for d, (a, b) in pairs if a != b and d != dim]
    if len(first) == len(other) and differing:
        return (
            f"Sizes of tensors must match except in dimension {dim}. "
            "Expected size {} but got size {} for tensor on rank {}!".format(*differing[0], rank)
        )
    return (
        f"Sizes of tensors in dimension {dim} must be same or match balanced split distribution. "
        "See https://github.com/Oneflow-Inc/oneflow/blob/master/oneflow/core/common/balanced_splitter.h "
        "for details of balanced split"
    )


def _padding(m: re.Match[str]) -> str:
    if int(m[1]) > 2 * int(m[2]):
        return _TOO_LONG
    return f"Length of pad must be even but instead it equals {m[1]}"


def _index(m: re.Match[str]) -> str:
    return f"Index out of range (expected to be in range of [-{m[2]}, {int(m[2]) - 1}], but got {m[1]})"


_TOO_LONG = "Pad size should less than or equal to input axes * 2."
_LIST = r"(\[[-\d, ]*\])"

# The first match counts. A sentence is a template of the groups, or computed from the match.
_SENTENCES: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(pattern), said)
    for pattern, said in (
        # Writes and gradients.
        (r"a leaf Variable (that requires grad is being used in an in-place operation)", r"a leaf Tensor \1"),
        (
            rf"output with shape {_LIST} doesn't match the broadcast shape {_LIST}",
            _in_tuples("Can not expand origin shape {1} to {0}"),
        ),
        (r"(element \d+ of tensors does not require grad and does not have a grad_fn)", r"\1"),
        (
            r"function (\w+)Backward returned (an incorrect number of gradients \(expected \d+, got \d+\))",
            r"function \1 returned \2",
        ),
        # Shapes that do not fit.
        (
            rf"\w_\(\): The size of tensor a .* \(shapes {_LIST}",
            _in_tuples("Tensor with shape {0} doesn't match the broadcast shape in an inplace operation"),
        ),
        (
            r"The size of tensor a \(\d+\) must match the size of tensor b .*",
            "input and other can't be broadcasted to a single shape.",
        ),
        (r"Shape mismatch: objects cannot be broadcast", "input and other can't be broadcasted to a single shape."),
        (r"the (number of sizes provided .*)", r"The \1"),
        (
            rf"Size does not match: expected index {_LIST} to be no larger than self {_LIST} apart from dimension (.*)",
            _gather,
        ),
        (
            r"Mismatch of parameter numbers and input channel size.* channel size = (\d+)",
            r"num_parameters in prelu must be 1 or \1",
        ),
        (r"Expected 0D or 1D (tensor in the tensor list)", r"Expected scalar or 1D \1"),
        (r"meshgrid\(\): expected all tensors to be global", "meshgrid expects all tensors are global tensor"),
        (rf"(mm|bmm|mv|dot)\(\): expected a (\d)D and a (\d)D tensor, got {_LIST} and {_LIST}", _ranks),
        (r"both arguments to matmul need to be at least 1D, but they are 0D", "Tensor a's dim should >= 1"),
        (r"both arguments to matmul need to be at least 1D", "Tensor b's dim should >= 1"),
        (
            r"mat1 and mat2 shapes cannot be multiplied \(\[(\d+), (\d+)\] and \[(\d+)\]",
            r"size mismatch, got 1, \1x\2, \3",
        ),
        (
            r"mat1 and mat2 shapes cannot be multiplied \(\[(\d+)\] and \[(\d+)\]",
            r"inconsistent tensor size, expected tensors to have the same number of elements, but got \1 and \2",
        ),
        (r"mat1 and mat2 shapes cannot be multiplied \((\[\d+, \d+\]) and (\[\d+, \d+\])", _joined),
        (r"deform_conv2d: The dimension of the (\w+) tensor (must be .*)", r"The dimension of \1 tensor weight \2"),
        (rf"grid_sampler\(\): expected 4D or 5D input and grid .* got input with sizes {_LIST}", _grid),
        (
            r"grid_sampler\(\): expected grid to have size (\d) in last dimension",
            r"Grid shape MUST (N, H_out, W_out, \1)",
        ),
        (
            r"(linalg\.\w+): The input tensor A must have at least 2 dimensions",
            r"\1: The input tensor must be at least 2 dimensions.",
        ),
        (r"(linalg\.\w+: A must be batches of square matrices.*)", r"\1"),
        (rf"Given normalized_shape={_LIST}, .* but got input of size {_LIST}", _layer_norm),
        (r"(Expected reduction dim \d+ to have non-zero size\.)", r"\1"),
        (r"invalid shape dimension (-\d+)", r"Invalid shape dimension \1"),
        (r"randperm\(\): n must be non-negative, got (-\d+)", r"Trying to create tensor with negative dimension \1"),
        (r"repeats must be 0-dim or 1-dim tensor", "repeat_interleave only accept 1D vector as repeat"),
        (r"The size of ([\w ]+) \(\[.*?\]\) (must match the size of [\w ]+) \(\[.*?\]\)(.*)", r"The size of \1 \2\3"),
        # Indices and ranges.
        (r"too many indices for tensor of dimension (\d+)", r"Too many indices for tensor of dimension \1"),
        (r"index (-?\d+) is out of bounds for dimension \d+ with size (\d+)", _index),
        (r"^s(tep must be greater than zero)", r"S\1"),
        (r"invalid index of a 0-dim tensor", "select() cannot be applied to a 0-dim tensor."),
        (r"narrow\(\): start out of range (.*)", r"Dimension out of range \1"),
        (r"lambda (must be greater or equal to 0, but found to be .*)", r"alpha \1"),
        (r"stft: expected (a 1D or 2D tensor), (.*)", r"Expected \1,but \2"),
        (r"stft: expected (0 < win_length) <= n_fft, (.*)", r"Expected \1 <=n_fft ,\2"),
        (r"stft: expected (.*)", r"Expected \1"),
        # Dtypes and options.
        (r"(gather\(\): Expected dtype) int64 (for index)", r"\1 int32 or int64 \2"),
        (r"repeats has to be Long or Int tensor", "repeats has to be Long tensor"),
        (r"\"normal\w*\" not implemented", "Only support float and double in normal()."),
        (
            r"dtype (\w+) does not match dtype of out parameter \((\w+)\)",
            r"data type oneflow.\1 does not match data type of out parameter oneflow.\2",
        ),
        (r"Unrecognised padding mode (\w+)", r"Pad mode is \1, but only constant, reflect and replicate are valid."),
        (r"Padding length must be divisible by 2, but got (\d+) for an input of dimension (\d+)", _padding),
        (
            r"Padding length should be less than or equal to two times",
            _TOO_LONG,
        ),
        # Layouts of global tensors.
        (
            r"to_local: expected a global tensor, but got a local one",
            "Expected global tensor for to_local but got local tensor!",
        ),
        (rf"split\(dim=(\d+)\) does not fit a tensor of shape {_LIST}", _split),
        (
            rf"do not form one tensor under \[S\((\d+)\)\] .* has shape {_LIST}, rank (\d+) has shape {_LIST}",
            _shards,
        ),
        (r"to_global\(\): ranks named different layouts", "Inconsistent parallel description"),
    )
]
