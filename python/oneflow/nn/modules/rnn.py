"""RNN, LSTM, GRU and their cells."""

from __future__ import annotations

import math
import warnings
from typing import Any, cast

import oneflow
from oneflow import Tensor
from oneflow._functions import recurrent
from oneflow.nn import init
from oneflow.nn.modules.module import Module
from oneflow.nn.parameter import Parameter
from oneflow.nn.utils.rnn import PackedSequence

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


class RNNBase(Module):
    """The base of RNN, LSTM and GRU: weights of every layer and direction, checks, packing.

    Args:
        mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".
        input_size: width of the input.
        hidden_size: units of a layer and direction.
        num_layers: layers, each reading the one before.
        bias: False leaves b_ih and b_hh out.
        batch_first: (B, T, *) instead of (T, B, *) for input and output.
        dropout: probability of dropping an element between layers, in training.
        bidirectional: a second direction in every layer, from the last step to the first.
        proj_size: width of a projected h (LSTM), 0 for none.

    Parameters are ``weight_ih_l{k}``, ``weight_hh_l{k}``, ``bias_ih_l{k}``, ``bias_hh_l{k}`` and, projected,
    ``weight_hr_l{k}``, with ``_reverse`` for the second direction; uniform in +-1/sqrt(hidden_size).

    Example::

        >>> nn.RNNBase("LSTM", 2, 3).weight_ih_l0.shape
        oneflow.Size([12, 2])
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=2,
            )
        for name, value, kind in (
            ("bias", bias, bool),
            ("batch_first", batch_first, bool),
            ("input_size", input_size, int),
            ("hidden_size", hidden_size, int),
        ):
            if not isinstance(value, kind):
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
        for name, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if value <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        gates, n_dirs, out = _GATES[mode] * hidden_size, 1 + bidirectional, proj_size or hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else out * n_dirs
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, width), "weight_hh": (gates, out)}
            if bias:
                shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for suffix in ("", "_reverse")[:n_dirs]:
                names = {f"{name}_l{layer}{suffix}": shape for name, shape in shapes.items()}
                for name, shape in names.items():
                    setattr(self, name, Parameter(oneflow.empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(list(names))
        self.reset_parameters()

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Tensor]:
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of every layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Do nothing: the kernel packs weights at every call."""

    def reset_parameters(self) -> None:
        """Draw the weights again."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise where dtype, rank or width of the input do not fit."""
        weight = getattr(self, self._all_weights[0][0])
        if input.dtype != weight.dtype and not oneflow.is_autocast_enabled(input.device.type):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        n_dims = 3 if batch_sizes is None else 2
        if input.dim() != n_dims:
            raise RuntimeError(f"input must have {n_dims} dimensions, got {input.dim()}")
        if self.input_size != input.shape[-1]:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )

    def _state_size(self, input: Tensor, batch_sizes: Tensor | None, width: int) -> tuple[int, int, int]:
        if batch_sizes is not None:
            batch = batch_sizes.tolist()[0]
        else:
            batch = input.shape[0 if self.batch_first else 1]
        return self.num_layers * (1 + self.bidirectional), batch, width

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Sizes of h for this input."""
        return self._state_size(input, batch_sizes, self.proj_size or self.hidden_size)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Sizes of c for this input."""
        return self._state_size(input, batch_sizes, self.hidden_size)

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Raise where a state has other sizes than expected."""
        if tuple(hx.shape) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise where input or state do not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The states of the sequences in another order."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def _check_rank(self, input: Tensor, hx: Any) -> None:
        name = self.__class__.__name__
        if input.dim() not in (2, 3):
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D tensor instead")
        if hx is None:
            return
        states, n = (hx if self.mode == "LSTM" else (hx,)), input.dim()
        if any(s.dim() != n for s in states):
            kind = "batched 3-D" if n == 3 else "unbatched 2-D"
            if self.mode == "LSTM":
                got = f"({', '.join(f'{s.dim()}-D' for s in states)}) tensors"
                raise RuntimeError(f"For {kind} input, hx and cx should also be {n}-D but got {got}")
            raise RuntimeError(f"For {kind} input, hx should also be {n}-D but got {states[0].dim()}-D tensor")

    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> tuple[Any, Any]:
        """Run all layers over the sequences.

        Args:
            input: (T, B, I), (B, T, I) with ``batch_first``, (T, I) without a batch, or packed.
            hx: (layers * directions, B, H), without B as the input; a pair of h and c for LSTM; zeros where None.

        Returns:
            The last layer's output, directions side by side, in the form of the input; and the final states.
        """
        unbatched, data = False, cast(Tensor, input)
        output: Any
        batch_sizes = order = back = None
        if isinstance(input, PackedSequence):
            data, batch_sizes, order, back = input
        else:
            self._check_rank(data, hx)
            unbatched = data.dim() == 2
            if unbatched:
                data = data.unsqueeze(0 if self.batch_first else 1)
                if hx is not None:
                    hx = tuple(s.unsqueeze(1) for s in hx) if self.mode == "LSTM" else hx.unsqueeze(1)
        if hx is None:
            hx = self._zero_states(data, batch_sizes)
        else:
            hx = self.permute_hidden(hx, order)
        self.check_forward_args(data, hx, batch_sizes)
        output, states = recurrent.recurrent(
            self.mode,
            data,
            [] if batch_sizes is None else batch_sizes.tolist(),
            hx,
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
            self.batch_first,
        )
        if batch_sizes is not None:
            output = PackedSequence(output, batch_sizes, order, back)
        elif unbatched:
            output = output.squeeze(0 if self.batch_first else 1)
            states = [s.squeeze(1) for s in states]
        final = tuple(states) if self.mode == "LSTM" else states[0]
        return output, self.permute_hidden(final, back)

    def _zero_states(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        h = input.new_zeros(self.get_expected_hidden_size(input, batch_sizes))
        return (h, input.new_zeros(self.get_expected_cell_size(input, batch_sizes))) if self.mode == "LSTM" else h

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        usual = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        parts += [f"{name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value]
        return ", ".join(parts)


class RNN(RNNBase):
    """Layers of ``h = tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)``; see :class:`RNNBase` for the arguments.

    Args:
        nonlinearity: "tanh" or "relu"; the fourth positional argument.

    Example::

        >>> output, h = oneflow.nn.RNN(10, 20, 2)(oneflow.zeros(5, 3, 10))
        >>> output.shape, h.shape
        (oneflow.Size([5, 3, 20]), oneflow.Size([2, 3, 20]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory; see :class:`RNNBase` for the arguments. States are a pair of h and c.

    Example::

        >>> output, (h, c) = oneflow.nn.LSTM(10, 20, 2)(oneflow.zeros(5, 3, 10))
        >>> output.shape, c.shape
        (oneflow.Size([5, 3, 20]), oneflow.Size([2, 3, 20]))

    (Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997.)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        h, c = self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], h, "Expected hidden[0] size {}, got {}")
        self.check_hidden_size(hidden[1], c, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        return hx if permutation is None else tuple(s.index_select(1, permutation) for s in hx)


class GRU(RNNBase):
    """Gated recurrent units; see :class:`RNNBase` for the arguments.

    Example::

        >>> output, h = oneflow.nn.GRU(10, 20, 2)(oneflow.zeros(5, 3, 10))
        >>> output.shape, h.shape
        (oneflow.Size([5, 3, 20]), oneflow.Size([2, 3, 20]))

    (Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014.)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """The base of the cells: weight_ih, weight_hh, bias_ih and bias_hh, uniform in +-1/sqrt(hidden_size).

    Example::

        >>> nn.RNNCell(2, 3).weight_ih.shape
        oneflow.Size([3, 2])
    """

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        n = num_chunks * hidden_size
        self.weight_ih = Parameter(oneflow.empty((n, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(oneflow.empty((n, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            if bias:
                setattr(self, name, Parameter(oneflow.empty((n,), device=device, dtype=dtype)))
            else:
                self.register_parameter(name, None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights again."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _weights(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _check_rank(self, input: Tensor, states: Any, name: str) -> None:
        cell = self.__class__.__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{cell}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for i, state in enumerate(states):
            if state.dim() not in (1, 2):
                raise ValueError(f"{cell}: Expected {name.format(i)} to be 1D or 2D, got {state.dim()}D instead")

    def _one_state(self, step: Any, input: Tensor, hx: Tensor | None) -> Tensor:
        self._check_rank(input, () if hx is None else (hx,), "hidden")
        unbatched = input.dim() == 1
        if unbatched:
            input = input.unsqueeze(0)
        if hx is None:
            hx = input.new_zeros((input.shape[0], self.hidden_size))
        elif unbatched:
            hx = hx.unsqueeze(0)
        out: Tensor = step(input, hx, *self._weights())
        return out.squeeze(0) if unbatched else out

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            parts.append(f"nonlinearity={self.nonlinearity}")
        return ", ".join(parts)


class RNNCell(RNNCellBase):
    """One step of :class:`RNN`: input (B, input_size) and h (B, hidden_size), or without B; the next h.

    Args:
        nonlinearity: "tanh" or "relu".

    Example::

        >>> nn.RNNCell(3, 4)(oneflow.ones(2, 3)).shape
        oneflow.Size([2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        steps = {"tanh": recurrent.rnn_tanh_cell, "relu": recurrent.rnn_relu_cell}
        if self.nonlinearity not in steps:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._one_state(steps[self.nonlinearity], input, hx)


class LSTMCell(RNNCellBase):
    """One step of :class:`LSTM`: input (B, input_size), pair (h, c) of (B, hidden_size), or without B; a new pair.

    Example::

        >>> h, c = nn.LSTMCell(3, 4)(oneflow.ones(2, 3))
        >>> h.shape, c.shape
        (oneflow.Size([2, 4]), oneflow.Size([2, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        self._check_rank(input, () if hx is None else hx, "hx[{}]")
        unbatched = input.dim() == 1
        if unbatched:
            input = input.unsqueeze(0)
        if hx is None:
            zeros = input.new_zeros((input.shape[0], self.hidden_size))
            hx = (zeros, zeros)
        elif unbatched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        h, c = recurrent.lstm_cell(input, hx, *self._weights())
        return (h.squeeze(0), c.squeeze(0)) if unbatched else (h, c)


class GRUCell(RNNCellBase):
    """One step of :class:`GRU`: input (B, input_size) and h (B, hidden_size), or without B; the next h.

    Example::

        >>> nn.GRUCell(3, 4)(oneflow.ones(2, 3)).shape
        oneflow.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._one_state(recurrent.gru_cell, input, hx)
