"""Fourier transforms, windows and mel filters."""

from __future__ import annotations

import math
from typing import Any

import oneflow as flow
from oneflow.onnx._import.registry import Call, axis_of, handler
from oneflow.onnx._import.values import dtype_of


@handler("DFT")
def dft(c: Call, x: Any, length: Any = None, axis: Any = None) -> Any:
    given = c.get("axis", 1) if c.version < 20 else (-2 if axis is None else c.ints(axis)[0])
    dim = axis_of(given, x.dim(), "DFT")
    inverse, half = bool(c.get("inverse", 0)), bool(c.get("onesided", 0))
    n = x.shape[dim] if length is None else c.ints(length)[0]
    is_real = x.shape[-1] == 1
    value = x[..., 0] if is_real else flow.complex(x[..., 0].contiguous(), x[..., 1].contiguous())
    if inverse and half:
        # Half of a spectrum of real numbers.
        return flow.fft.irfft(value, n if length is not None else 2 * (n - 1), dim).unsqueeze(-1)
    if inverse:
        y = flow.fft.ifft(value, n, dim)
    else:
        y = flow.fft.fft(value, n, dim)
        y = y.narrow(dim, 0, n // 2 + 1) if half else y
    return flow.view_as_real(y.contiguous()).contiguous()


@handler("STFT")
def stft(c: Call, signal: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    (hop,) = c.ints(step)
    n = c.ints(length)[0] if length is not None else window.shape[0]
    value = signal[..., 0] if signal.dim() == 3 and signal.shape[-1] == 1 else signal
    if signal.dim() == 3 and signal.shape[-1] == 2:
        value = flow.complex(signal[..., 0].contiguous(), signal[..., 1].contiguous())
    count = (value.shape[1] - n) // hop + 1
    places = flow.arange(count).reshape(-1, 1) * hop + flow.arange(n).reshape(1, -1)
    frames = value[:, places.reshape(-1)].reshape(value.shape[0], count, n)
    if window is not None:
        before = (n - window.shape[0]) // 2
        frames = frames * flow.nn.functional.pad(window, (before, n - window.shape[0] - before))
    y = flow.fft.fft(frames, n, 2)
    if c.get("onesided", 1):
        y = y.narrow(2, 0, n // 2 + 1)
    return flow.view_as_real(y.contiguous()).contiguous()


def _cosines(c: Call, size: Any, factors: list[float]) -> Any:
    (n,) = c.ints(size)
    steps = n if c.get("periodic", 1) else n - 1
    angle = flow.arange(n, dtype=flow.float64) * (2 * math.pi / max(steps, 1))
    y: Any = 0
    for k, factor in enumerate(factors):
        y = y + factor * flow.cos(k * angle)
    return y.to(dtype_of(c.get("output_datatype", 1)))


@handler("HannWindow")
def hann(c: Call, size: Any) -> Any:
    return _cosines(c, size, [0.5, -0.5])


@handler("HammingWindow")
def hamming(c: Call, size: Any) -> Any:
    return _cosines(c, size, [25 / 46, -21 / 46])


@handler("BlackmanWindow")
def blackman(c: Call, size: Any) -> Any:
    return _cosines(c, size, [0.42, -0.5, 0.08])


@handler("MelWeightMatrix")
def mel_weights(c: Call, bins: Any, length: Any, rate: Any, low: Any, high: Any) -> Any:
    n_bins, n, sample_rate = bins.item(), length.item(), rate.item()
    first, last = (2595 * math.log10(1 + edge.item() / 700) for edge in (low, high))
    step = (last - first) / (n_bins + 2)
    places = [int((n + 1) * (700 * (10 ** ((first + i * step) / 2595) - 1)) // sample_rate) for i in range(n_bins + 2)]
    rows = [[0.0] * n_bins for _ in range(n // 2 + 1)]
    for i in range(n_bins):
        begin, middle, end = places[i : i + 3]
        if middle == begin:
            rows[middle][i] = 1.0
        for j in range(begin, middle + 1 if middle > begin else begin):
            rows[j][i] = (j - begin) / (middle - begin)
        for j in range(middle, end):
            if end > middle:
                rows[j][i] = (end - j) / (end - middle)
    return flow.tensor(rows).to(dtype_of(c.get("output_datatype", 1)))
