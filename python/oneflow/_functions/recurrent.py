"""Recurrent layers as functions: all layers and directions of RNN, LSTM and GRU, and single steps of them.

One direction of one layer is a product for the input's part of the gates and one op for the sequence; stacking, joining
directions and dropout between layers is done here. On a GPU all of it but dropout is one op, where cuDNN takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import oneflow
from oneflow import Tensor, _oneflow

__all__ = ["gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell"]

_HALVES = (oneflow.bfloat16, oneflow.float16)


def lstm(input: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Long short-term memory: ``lstm(input, hx, params, ...)``; packed, ``lstm(data, batch_sizes, hx, params, ...)``.

    Args:
        input: (T, B, I), with ``batch_first`` (B, T, I); packed (rows of all steps, I).
        batch_sizes: int64 (T,), rows of each step.
        hx: pair of (layers * directions, B, H or projection) and (layers * directions, B, H).
        params: of every layer and direction w_ih, w_hh, with ``has_biases`` b_ih, b_hh, with a projection w_hr.
        has_biases, num_layers, dropout, train, bidirectional, batch_first: in this order; the last for unpacked input.

    Returns:
        The last layer's output, the final h and the final c.

    (Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997; Sak et al., 2014, for projections.)

    Example::

        >>> x, h = oneflow.zeros(5, 1, 2), oneflow.zeros(1, 1, 3)
        >>> weights = [oneflow.zeros(12, 2), oneflow.zeros(12, 3)]
        >>> [t.shape for t in oneflow.lstm(x, (h, h), weights, False, 1, 0.0, False, False, False)]
        [oneflow.Size([5, 1, 3]), oneflow.Size([1, 1, 3]), oneflow.Size([1, 1, 3])]
    """
    packed = len(args) > 1 and isinstance(args[0], Tensor)
    output, states = _run("LSTM", input, packed, args, kwargs)
    return output, states[0], states[1]


def gru(input: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Gated recurrent units; arguments as of :func:`lstm` with one state. (Cho et al., 2014.)

    Example::

        >>> x, h = oneflow.zeros(5, 1, 2), oneflow.zeros(1, 1, 3)
        >>> weights = [oneflow.zeros(9, 2), oneflow.zeros(9, 3)]
        >>> [t.shape for t in oneflow.gru(x, h, weights, False, 1, 0.0, False, False, False)]
        [oneflow.Size([5, 1, 3]), oneflow.Size([1, 1, 3])]
    """
    return _one_state("GRU", input, args, kwargs)


def rnn_tanh(input: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Elman layers with tanh; arguments as of :func:`lstm` with one state. (Elman, 1990.)

    Example::

        >>> x, h = oneflow.zeros(5, 1, 2), oneflow.zeros(1, 1, 3)
        >>> weights = [oneflow.zeros(3, 2), oneflow.zeros(3, 3)]
        >>> [t.shape for t in oneflow.rnn_tanh(x, h, weights, False, 1, 0.0, False, False, False)]
        [oneflow.Size([5, 1, 3]), oneflow.Size([1, 1, 3])]
    """
    return _one_state("RNN_TANH", input, args, kwargs)


def rnn_relu(input: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Elman layers with max(x, 0); arguments as of :func:`lstm` with one state.

    Example::

        >>> x, h = oneflow.zeros(5, 1, 2), oneflow.zeros(1, 1, 3)
        >>> weights = [oneflow.zeros(3, 2), oneflow.zeros(3, 3)]
        >>> [t.shape for t in oneflow.rnn_relu(x, h, weights, False, 1, 0.0, False, False, False)]
        [oneflow.Size([5, 1, 3]), oneflow.Size([1, 1, 3])]
    """
    return _one_state("RNN_RELU", input, args, kwargs)


def _one_state(mode: str, input: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Tensor]:
    packed = len(args) > 1 and isinstance(args[1], Tensor)
    output, states = _run(mode, input, packed, args, kwargs)
    return output, states[0]


_OPTIONS = ("hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")


def _run(
    mode: str, input: Tensor, packed: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Tensor, list[Tensor]]:
    batch_sizes: list[int] = []
    if packed:
        batch_sizes, args = args[0].tolist(), args[1:]
    options = dict(zip(_OPTIONS, args, strict=False)) | kwargs
    return recurrent(
        mode,
        input,
        batch_sizes,
        options["hx"],
        options["params"],
        options.get("has_biases", True),
        options["num_layers"],
        options.get("dropout", 0.0),
        options.get("train", False),
        options.get("bidirectional", False),
        options.get("batch_first", False),
    )


def recurrent(
    mode: str,
    input: Tensor,
    batch_sizes: Sequence[int],
    hx: Tensor | Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, list[Tensor]]:
    """All layers of one of the four kinds; ``batch_sizes`` is empty for unpacked input."""
    h_0, c_0 = (hx[0], hx[1]) if mode == "LSTM" else (cast(Tensor, hx), None)
    n_dirs = 2 if bidirectional else 1
    n_dims = 2 if batch_sizes else 3
    if input.dim() != n_dims:
        raise RuntimeError(f"input must have {n_dims} dimensions, got {input.dim()}")
    if not input.shape[1 if batch_first and not batch_sizes else 0]:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    each = len(params) // (num_layers * n_dirs)
    if len(params) != each * num_layers * n_dirs or each not in ((4, 5) if has_biases else (2, 3)):
        raise RuntimeError(
            f"{mode.lower()}: {len(params)} weights are given for {num_layers} layers of {n_dirs} directions"
        )
    turned = batch_first and not batch_sizes
    drops = dropout if train and num_layers > 1 else 0.0
    network = _Network(mode, batch_sizes, has_biases, num_layers, bidirectional, turned, drops)
    result = network.by_library(input, h_0, c_0, params)
    x, states = network.by_layer(input, h_0, c_0, params) if result is None else result
    return _time_first(x, turned), states


class _Network:
    """Layers and directions of one kind. ``turned``: the input and the output are (batch, steps, ...)."""

    def __init__(
        self,
        mode: str,
        batch_sizes: Sequence[int],
        has_biases: bool,
        num_layers: int,
        bidirectional: bool,
        turned: bool,
        dropout: float,
    ) -> None:
        self.mode = mode
        self.batch_sizes = batch_sizes
        self.has_biases = has_biases
        self.num_layers = num_layers
        self.n_dirs = 2 if bidirectional else 1
        self.turned = turned
        self.dropout = dropout

    def drop(self, x: Tensor) -> Tensor:
        x = _oneflow._C.native_dropout(_time_first(x, self.turned), self.dropout)[0]
        return x.contiguous() if self.turned else x

    def by_layer(
        self, x: Tensor, h_0: Tensor, c_0: Tensor | None, params: Sequence[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Run an op for every layer and direction."""
        each = len(params) // (self.num_layers * self.n_dirs)
        finals: list[list[Tensor]] = [[], []]
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(self.n_dirs):
                k = layer * self.n_dirs + direction
                y, h, c = _layer(
                    self.mode,
                    x,
                    self.batch_sizes,
                    h_0[k],
                    None if c_0 is None else c_0[k],
                    params[k * each : (k + 1) * each],
                    self.has_biases,
                    direction == 1,
                    self.turned,
                )
                outputs.append(y)
                finals[0].append(h)
                finals[1].append(c)
            x = outputs[0] if self.n_dirs == 1 else oneflow.cat(outputs, -1)
            if self.dropout and layer < self.num_layers - 1:
                x = self.drop(x)
        states = [oneflow.stack(finals[0])]
        if c_0 is not None:
            states.append(oneflow.stack(finals[1]))
        return x, states

    def by_library(
        self, x: Tensor, h_0: Tensor, c_0: Tensor | None, params: Sequence[Tensor]
    ) -> tuple[Tensor, list[Tensor]] | None:
        """Run an op for all layers, or for each where elements are dropped between them; None where it cannot."""
        tensors = [x, h_0, *(() if c_0 is None else (c_0,)), *params]
        if x.device.type != "cuda" or any(t.device != x.device or t.is_global for t in tensors):
            return None
        # Loaded with the first network on a GPU.
        from oneflow._base import float32_precision

        # The library's products may be summed in another order in every run.
        if oneflow.are_deterministic_algorithms_enabled() or float32_precision.cudnn_deterministic:
            return None
        if oneflow.is_autocast_enabled("cuda") and x.dtype != oneflow.float64:
            # The op casts the others.
            x = x.to(oneflow.get_autocast_dtype("cuda"))
        elif any(t.dtype != x.dtype for t in tensors):
            return None
        if not self._fits(x, h_0, c_0, params):
            return None
        n, out, hidden = self.n_dirs, h_0.shape[-1], params[1].shape[0] // _GATES[self.mode]
        step = 1 if self.dropout else self.num_layers
        tf32 = float32_precision.precision("cuda", "rnn") == "tf32"
        sizes = (x.transpose(0, 1) if self.turned else x).shape[:-1]
        sequence, flags = list(self.batch_sizes), (self.has_biases, n == 2, self.turned, tf32)
        # Layers behind the first one read its output.
        reserves = []
        for width in (x.shape[-1], out * n)[: 1 if step == self.num_layers else 2]:
            kept = _oneflow._cuda_rnn_reserve(x, (*sizes, width), sequence, self.mode, hidden, out, step, *flags)
            if kept is None:
                return None
            reserves.append(kept)
        trains = oneflow.is_grad_enabled() and any(t.requires_grad for t in tensors)
        finals: list[list[Tensor]] = [[], []]
        for layer in range(0, self.num_layers, step):
            if layer:
                x = self.drop(x)
            part = slice(layer * n, (layer + step) * n)
            h, c = (h_0, c_0) if step == self.num_layers else (h_0[part], None if c_0 is None else c_0[part])
            each = len(params) // (self.num_layers * n)
            weights = _flat(params[layer * n * each : (layer + step) * n * each], each, self.has_biases)
            kept = reserves[min(layer, 1)] if trains else 0
            first = x.transpose(0, 1) if self.turned else x
            y, h_n, c_n, _ = _oneflow._C.rnn_stack(
                first, h, c, weights, sequence, self.mode, hidden, step, *flags, kept
            )
            finals[0].append(h_n)
            finals[1].append(c_n)
            x = y.transpose(0, 1) if self.turned else y
        states = finals[: 1 if c_0 is None else 2]
        return x, [oneflow.cat(all_n) if len(all_n) > 1 else all_n[0] for all_n in states]

    def _fits(self, x: Tensor, h_0: Tensor, c_0: Tensor | None, params: Sequence[Tensor]) -> bool:
        """Return whether states and weights have the sizes of a network; others end in the errors of layers."""
        n, gates, out = self.num_layers * self.n_dirs, params[1].shape[0], h_0.shape[-1]
        batch, hidden = x.shape[0 if self.turned else 1], gates // _GATES[self.mode]
        if self.batch_sizes:
            batch = self.batch_sizes[0]
        states = [(h_0, out)] if c_0 is None else [(h_0, out), (c_0, hidden)]
        if any(tuple(t.shape) != (n, batch, width) for t, width in states):
            return False
        biases = [(gates,)] * 2 if self.has_biases else []
        projection = [(out, hidden)] if out != hidden else []
        expected = []
        for k in range(n):
            width = x.shape[-1] if k < self.n_dirs else out * self.n_dirs
            expected += [(gates, width), (gates, out), *biases, *projection]
        return [tuple(w.shape) for w in params] == expected


_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def _flat(params: Sequence[Tensor], each: int, has_biases: bool) -> Tensor:
    """The weights of some layers in one vector: matrices of all, behind them biases of all."""
    parts = range(0, len(params), each)
    matrices = [w for k in parts for w in (*params[k : k + 2], *params[k + 2 + 2 * has_biases : k + each])]
    biases = [w for k in parts for w in params[k + 2 : k + 2 + 2 * has_biases]]
    return oneflow.cat([w.reshape(-1) for w in (*matrices, *biases)])


def _time_first(x: Tensor, turned: bool) -> Tensor:
    """The same values with the steps first in memory, as PyTorch has them, where draws follow the order of memory."""
    if not turned or oneflow.default_generator.engine == "philox":
        return x
    return x.transpose(0, 1).contiguous().transpose(0, 1)


def _layer(
    mode: str,
    x: Tensor,
    batch_sizes: Sequence[int],
    h_0: Tensor,
    c_0: Tensor | None,
    weights: Sequence[Tensor],
    has_biases: bool,
    reverse: bool,
    turned: bool,
    is_cell: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run one direction of one layer. ``turned``: ``x`` and the output are (batch, steps, ...)."""
    w_ih, w_hh, *others = weights
    b_ih = b_hh = None
    if has_biases:
        b_ih, b_hh, *others = others
        # The op adds both at once; GRU's new gate multiplies h's part alone, its bias in it.
        if mode != "GRU":
            b_ih, b_hh = None, b_ih + b_hh
    w_hr = others[0] if others else None
    gates = _oneflow.linear(x, w_ih, b_ih)
    if turned:
        gates = gates.transpose(0, 1)
    dtype = gates.dtype
    if dtype in _HALVES:
        # Where autocast made the gates alone half, PyTorch's formulas on the host promote them beside the state.
        carried = h_0 if mode == "GRU" else c_0 if is_cell else None
        result = oneflow.float32 if carried is not None and _is_wide_on_host(carried) else dtype
        # The sequence runs in float32: halves would lose what is carried from step to step.
        gates, h_0, w_hh = gates.float(), h_0.float(), w_hh.float()
        c_0, b_hh, w_hr = (None if t is None else t.float() for t in (c_0, b_hh, w_hr))
    y, h, c, _, _ = _oneflow._C.rnn_layer(gates, h_0, c_0, w_hh, b_hh, w_hr, list(batch_sizes), mode, reverse)
    if dtype in _HALVES:
        y, h, c = y.to(result), h.to(result), c.to(result)
    return y.transpose(0, 1) if turned else y, h, c


def _is_wide_on_host(state: Tensor) -> bool:
    return state.device.type == "cpu" and state.dtype == oneflow.float32


def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: input (B, I), hx a pair of (B, H); the next pair.

    Example::

        >>> state = (oneflow.zeros(1, 3), oneflow.zeros(1, 3))
        >>> [t.shape for t in oneflow.lstm_cell(oneflow.ones(1, 2), state, oneflow.zeros(12, 2), oneflow.zeros(12, 3))]
        [oneflow.Size([1, 3]), oneflow.Size([1, 3])]
    """
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    h, c = _cell("LSTM", input, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh)
    return h, c


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of a GRU: input (B, I), hx (B, H); the next state.

    Example::

        >>> oneflow.gru_cell(oneflow.ones(1, 2), oneflow.zeros(1, 3), oneflow.zeros(9, 2), oneflow.zeros(9, 3))
        tensor([[0., 0., 0.]])
    """
    return _cell("GRU", input, hx, None, w_ih, w_hh, b_ih, b_hh)[0]


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """``tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)``: input (B, I), hx (B, H).

    Example::

        >>> oneflow.rnn_tanh_cell(oneflow.ones(1, 2), oneflow.zeros(1, 3), oneflow.zeros(3, 2), oneflow.zeros(3, 3))
        tensor([[0., 0., 0.]])
    """
    return _cell("RNN_TANH", input, hx, None, w_ih, w_hh, b_ih, b_hh)[0]


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """As :func:`rnn_tanh_cell` with max(x, 0).

    Example::

        >>> oneflow.rnn_relu_cell(oneflow.ones(1, 2), oneflow.zeros(1, 3), oneflow.zeros(3, 2), oneflow.zeros(3, 3))
        tensor([[0., 0., 0.]])
    """
    return _cell("RNN_RELU", input, hx, None, w_ih, w_hh, b_ih, b_hh)[0]


def _cell(
    mode: str,
    input: Tensor,
    h: Tensor,
    c: Tensor | None,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> tuple[Tensor, Tensor]:
    if input.shape[-1] != w_ih.shape[1]:
        raise RuntimeError(f"input has inconsistent input_size: got {input.shape[-1]} expected {w_ih.shape[1]}")
    for name, state in (("hidden0", h), ("hidden1", c)):
        if state is not None and input.shape[0] != state.shape[0]:
            raise RuntimeError(f"Input batch size {input.shape[0]} doesn't match {name} batch size {state.shape[0]}")
        if state is not None and state.shape[-1] != w_hh.shape[1]:
            raise RuntimeError(f"{name} has inconsistent hidden_size: got {state.shape[-1]}, expected {w_hh.shape[1]}")
    zero = None
    if (b_ih is None) != (b_hh is None):
        zero = w_ih.new_zeros(w_ih.shape[:1])
    biases = () if b_ih is None and b_hh is None else (zero if b_ih is None else b_ih, zero if b_hh is None else b_hh)
    _, h_n, c_n = _layer(mode, input.unsqueeze(0), (), h, c, (w_ih, w_hh, *biases), bool(biases), False, False, True)
    return h_n, c_n
