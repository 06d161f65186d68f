"""RNN, GRU and LSTM, step by step, with ONNX's order of gates and its choice of activations."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow.nn import functional as F
from oneflow.onnx._import.registry import Call, handler


def _activation(name: str, alpha: Any, beta: Any) -> Any:
    name = name.lower()
    simple = {
        "relu": flow.relu,
        "tanh": flow.tanh,
        "sigmoid": flow.sigmoid,
        "softsign": lambda x: x / (1 + flow.abs(x)),
        "softplus": F.softplus,
    }
    if name in simple:
        return simple[name]
    a = {"leakyrelu": 0.01, "thresholdedrelu": 1.0, "elu": 1.0, "hardsigmoid": 0.2, "scaledtanh": 1.0, "affine": 1.0}
    b = {"hardsigmoid": 0.5, "scaledtanh": 1.0, "affine": 0.0}
    a_: Any
    b_: Any
    a_, b_ = alpha if alpha is not None else a.get(name), beta if beta is not None else b.get(name)
    functions = {
        "leakyrelu": lambda x: F.leaky_relu(x, a_),
        "thresholdedrelu": lambda x: flow.where(x > a_, x, flow.zeros_like(x)),
        "elu": lambda x: F.elu(x, a_),
        "hardsigmoid": lambda x: flow.clamp(x * a_ + b_, 0, 1),
        "scaledtanh": lambda x: a_ * flow.tanh(b_ * x),
        "affine": lambda x: a_ * x + b_,
    }
    if name not in functions:
        raise NotImplementedError(f"the activation {name!r} of a recurrent op is unknown")
    return functions[name]


def _activations(c: Call, defaults: list[str], direction: int) -> list[Any]:
    given = [s.decode() for s in c.get("activations") or []]
    names = given[direction * len(defaults) : (direction + 1) * len(defaults)] or defaults
    alphas, betas = list(c.get("activation_alpha") or []), list(c.get("activation_beta") or [])
    made = []
    for i, name in enumerate(names):
        at = direction * len(defaults) + i
        made.append(_activation(name, alphas[at] if at < len(alphas) else None, betas[at] if at < len(betas) else None))
    return made


class _Layer:
    """What the three ops share: directions, lengths of sequences, layout, clipping."""

    def __init__(self, c: Call, x: Any, w: Any, lengths: Any) -> None:
        self.c = c
        self.batch_first = bool(c.get("layout", 0))
        self.x = x.transpose(0, 1) if self.batch_first else x
        self.steps, self.batch = self.x.shape[0], self.x.shape[1]
        self.hidden = c.get("hidden_size") or w.shape[1]
        self.lengths = lengths
        self.clip = c.get("clip")
        direction = c.text("direction", "forward").lower()
        self.reversed = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]

    def state(self, given: Any, direction: int) -> Any:
        if given is None:
            return flow.zeros(self.batch, self.hidden, dtype=self.x.dtype, device=self.x.device)
        return given[:, direction] if self.batch_first else given[direction]

    def clipped(self, value: Any) -> Any:
        return value if self.clip is None else flow.clamp(value, -self.clip, self.clip)

    def run(self, step: Any, states: list[list[Any]]) -> tuple[Any, list[Any]]:
        """``step(direction, x, states) -> states`` for each step; the first state is the output."""
        outputs, last = [], []
        for d, backward in enumerate(self.reversed):
            current = states[d]
            made: list[Any] = [None] * self.steps
            for t in range(self.steps - 1, -1, -1) if backward else range(self.steps):
                new = step(d, self.x[t], current)
                out = new[0]
                if self.lengths is not None:
                    live = (self.lengths > t).reshape(-1, 1)
                    new = [flow.where(live, n, s) for n, s in zip(new, current, strict=True)]
                    out = flow.where(live, out, flow.zeros_like(out))
                current, made[t] = new, out
            outputs.append(flow.stack(made) if made else self.x.new_zeros(0, self.batch, self.hidden))
            last.append(current)
        y = flow.stack(outputs, 1)
        finals = [flow.stack([states[i] for states in last]) for i in range(len(last[0]))]
        if self.batch_first:
            y = y.permute(2, 0, 1, 3)
            finals = [f.transpose(0, 1) for f in finals]
        return y, finals


def _bias(b: Any, direction: int, n: int, hidden: int, like: Any) -> tuple[Any, Any]:
    if b is None:
        zero = flow.zeros(n * hidden, dtype=like.dtype, device=like.device)
        return zero, zero
    return b[direction][: n * hidden], b[direction][n * hidden :]


@handler("RNN")
def rnn(c: Call, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None) -> Any:
    layer = _Layer(c, x, w, lengths)
    functions = [_activations(c, ["Tanh"], d) for d in range(len(layer.reversed))]

    def step(d: int, xt: Any, states: list[Any]) -> list[Any]:
        wb, rb = _bias(b, d, 1, layer.hidden, x)
        total = flow.matmul(xt, w[d].t()) + flow.matmul(states[0], r[d].t()) + wb + rb
        return [functions[d][0](layer.clipped(total))]

    y, (h,) = layer.run(step, [[layer.state(h0, d)] for d in range(len(layer.reversed))])
    return y, h


@handler("GRU")
def gru(c: Call, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None) -> Any:
    layer = _Layer(c, x, w, lengths)
    n, linear_first = layer.hidden, bool(c.get("linear_before_reset", 0))
    functions = [_activations(c, ["Sigmoid", "Tanh"], d) for d in range(len(layer.reversed))]

    def step(d: int, xt: Any, states: list[Any]) -> list[Any]:
        (h,) = states
        f, g = functions[d]
        wb, rb = _bias(b, d, 3, n, x)
        gx = flow.matmul(xt, w[d].t()) + wb
        gates = gx[:, : 2 * n] + flow.matmul(h, r[d][: 2 * n].t()) + rb[: 2 * n]
        z, reset = f(layer.clipped(gates[:, :n])), f(layer.clipped(gates[:, n:]))
        if linear_first:
            hidden = gx[:, 2 * n :] + reset * (flow.matmul(h, r[d][2 * n :].t()) + rb[2 * n :])
        else:
            hidden = gx[:, 2 * n :] + flow.matmul(reset * h, r[d][2 * n :].t()) + rb[2 * n :]
        new = g(layer.clipped(hidden))
        return [(1 - z) * new + z * h]

    y, (h,) = layer.run(step, [[layer.state(h0, d)] for d in range(len(layer.reversed))])
    return y, h


@handler("LSTM")
def lstm(
    c: Call,
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    h0: Any = None,
    c0: Any = None,
    peephole: Any = None,
) -> Any:
    layer = _Layer(c, x, w, lengths)
    n, coupled = layer.hidden, bool(c.get("input_forget", 0))
    functions = [_activations(c, ["Sigmoid", "Tanh", "Tanh"], d) for d in range(len(layer.reversed))]

    def step(d: int, xt: Any, states: list[Any]) -> list[Any]:
        h, cell = states
        f, g, out = functions[d]
        wb, rb = _bias(b, d, 4, n, x)
        gates = flow.matmul(xt, w[d].t()) + flow.matmul(h, r[d].t()) + wb + rb
        gi, go, gf, gc = gates[:, :n], gates[:, n : 2 * n], gates[:, 2 * n : 3 * n], gates[:, 3 * n :]
        p = peephole[d] if peephole is not None else None
        if p is not None:
            gi, gf = gi + p[:n] * cell, gf + p[2 * n :] * cell
        i = f(layer.clipped(gi))
        forget = 1 - i if coupled else f(layer.clipped(gf))
        new = forget * cell + i * g(layer.clipped(gc))
        if p is not None:
            go = go + p[n : 2 * n] * new
        return [f(layer.clipped(go)) * out(new), new]

    starts = [[layer.state(h0, d), layer.state(c0, d)] for d in range(len(layer.reversed))]
    y, (h, cell) = layer.run(step, starts)
    return y, h, cell
