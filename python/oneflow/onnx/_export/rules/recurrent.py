"""One direction of a recurrent layer, whose products with the input are computed for all steps at once."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow.onnx._export.rules import Op, rule

# ONNX's order of gates, by the places in ours.
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN_TANH": (0,), "RNN_RELU": (0,)}


@rule("rnn_layer")
def rnn_layer(n: Op) -> Any:
    mode, b = n.args["mode"], n.b
    if n.args["batch_sizes"]:
        raise n.refuse("of packed sequences has no ONNX form")
    if n.has("w_hr"):
        raise n.refuse("with a projection has no ONNX form")
    order = _GATES.get(mode)
    if order is None:
        raise n.refuse(f"of mode {mode!r} has no ONNX form")
    dtype, hidden = n.out.dtype, n.meta("w_hh").sizes[1]
    total = hidden * len(order)
    # The input holds the gates already: the weight only brings them into ONNX's order.
    weight = flow.eye(total, dtype=dtype).reshape(len(order), hidden, total)[list(order)].reshape(1, total, total)
    w = b.const(weight)
    r = _ordered(n, n.x("w_hh"), order, hidden)
    bias = flow.zeros(total, dtype=dtype)
    rb = _ordered(n, n.x("b_hh"), order, hidden) if n.has("b_hh") else b.const(bias.reshape(1, total))
    both = b.node("Concat", b.const(bias.reshape(1, total)), rb, axis=1)
    axes = b.ints([0])
    states = [b.node("Unsqueeze", n.x("h_0"), axes)]
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": "reverse" if n.args["reverse"] else "forward"}
    op = mode.split("_")[0]
    if mode == "LSTM":
        states.append(b.node("Unsqueeze", n.x("c_0"), axes))
    elif mode == "GRU":
        attributes["linear_before_reset"] = 1
    elif mode == "RNN_RELU":
        attributes["activations"] = ["Relu"]
    made = b.node(op, n.x("gates_x"), w, r, both, None, *states, n=3 if mode == "LSTM" else 2, **attributes)
    squeezed = [b.node("Squeeze", made[0], b.ints([1])), b.node("Squeeze", made[1], axes)]
    squeezed.append(b.node("Squeeze", made[2], axes) if mode == "LSTM" else squeezed[1])
    return [*squeezed, None, None]


def _ordered(n: Op, x: str, order: tuple[int, ...], hidden: int) -> str:
    b = n.b
    if len(order) > 1:
        parts = b.node("Split", x, b.ints([hidden] * len(order)), n=len(order), axis=0)
        x = b.node("Concat", *[parts[i] for i in order], axis=0)
    return b.node("Unsqueeze", x, b.ints([0]))
