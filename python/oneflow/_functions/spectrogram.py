"""Short-time Fourier transforms: windows of a signal, each transformed, and the signal put together again."""

from __future__ import annotations

import warnings
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base import wording
from oneflow._base.amp import in_float32_on_host
from oneflow._base.global_layouts import replicate_like

__all__ = ["istft", "stft"]


def _window(window: Tensor | None, length: int, n_fft: int, like: Tensor) -> Tensor:
    """The window in the middle of ``n_fft`` points, zero around it."""
    if window is None:
        window = replicate_like(like, oneflow.ones(length, dtype=like.dtype, device=like.device))
    if length == n_fft:
        return window
    left = (n_fft - length) // 2
    return oneflow.nn.functional.pad(window, (left, n_fft - length - left))


@in_float32_on_host
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Fourier transforms of windows of ``n_fft`` points, whose starts differ by ``hop_length`` (by default a quarter).

    Args:
        input: a signal (length,) or a batch (batch, length).
        window: (win_length,), of ones by default, with a warning.
        center: pad by half a window on both sides, by ``pad_mode``, so that windows are centred on their position.
        normalized: divide by the root of ``n_fft``.
        onesided: only the first half of each transform; by default for real signals.
        return_complex: must be given for real signals; otherwise real and imaginary parts are a last dimension.

    Returns:
        Tensor: (batch, frequencies, windows).

    Raises:
        RuntimeError: sizes that do not fit.

    Example::

        >>> oneflow.stft(oneflow.ones(16), n_fft=8, window=oneflow.hann_window(8), return_complex=True).shape
        oneflow.Size([5, 9])
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    complex_input = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not complex_input:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will further require that "
                "return_complex=True in a future PyTorch release."
            )
        return_complex = True
    if not return_complex:
        warnings.warn(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex "
            "tensors for all inputs, and return_complex=False will raise an error.\nNote: you can still call "
            "torch.view_as_real on the complex output to recover the old return format.",
            stacklevel=2,
        )
    if window is None:
        warnings.warn(
            "A window was not provided. A rectangular window will be applied,which is known to cause spectral leakage. "
            "Other windows such as torch.hann_window or torch.hamming_window are recommended to reduce spectral "
            "leakage.To suppress this warning and use a rectangular window, explicitly set "
            "`window=torch.ones(n_fft, device=<device>)`.",
            stacklevel=2,
        )
    if not (input.is_floating_point() or input.is_complex()):
        raise wording.error(
            RuntimeError, f"stft: expected a tensor of floating point or complex values, got {input.dtype}"
        )
    if input.dim() not in (1, 2):
        raise wording.error(RuntimeError, f"stft: expected a 1D or 2D tensor, got {list(input.shape)}")
    if align_to_window is not None and center:
        raise RuntimeError("stft: align_to_window should only be set when center = false")
    x = input.unsqueeze(0) if input.dim() == 1 else input
    if center:
        half = n_fft // 2
        x = oneflow.nn.functional.pad(x.unsqueeze(1), (half, half), pad_mode).squeeze(1)
    n = x.shape[1]
    if n_fft <= 0 or n_fft > n:
        raise wording.error(RuntimeError, f"stft: expected 0 < n_fft <= {n}, but got n_fft={n_fft}")
    if hop <= 0:
        raise wording.error(RuntimeError, f"stft: expected hop_length > 0, but got hop_length={hop}")
    if length <= 0 or length > n_fft:
        raise wording.error(RuntimeError, f"stft: expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and (window.dim() != 1 or window.shape[0] != length):
        raise wording.error(
            RuntimeError,
            f"stft: expected a 1D window tensor of size equal to win_length={length}, but got {list(window.shape)}",
        )
    if align_to_window:
        x = oneflow.nn.functional.pad(x, (((n_fft - length) // 2),) * 2)
    frames = x.unfold(1, n_fft, hop)
    if window is not None or length < n_fft:
        frames = frames * _window(window, length, n_fft, x)
    norm = "ortho" if normalized else None
    half_only = not complex_input if onesided is None else onesided
    if half_only and complex_input:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    spectrum = (oneflow.fft.rfft if half_only else oneflow.fft.fft)(frames, norm=norm).transpose(1, 2)
    if input.dim() == 1:
        spectrum = spectrum.squeeze(0)
    return spectrum if return_complex else oneflow.view_as_real(spectrum)


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Return the signal (batch, length) of complex transforms (batch, frequencies, windows) that :func:`stft` computed.

    Windows overlap and add, divided by the sum of the squared windows, which must not vanish.

    Raises:
        RuntimeError: sizes that do not fit, or a window that vanishes somewhere.

    Example::

        >>> window = oneflow.hann_window(8)
        >>> spectrum = oneflow.stft(oneflow.ones(16), n_fft=8, window=window, return_complex=True)
        >>> oneflow.istft(spectrum, n_fft=8, window=window).shape
        oneflow.Size([16])
    """
    if window is None:
        warnings.warn(
            "A window was not provided. A rectangular window will be applied.Please provide the same window used by "
            "stft to make the inversion lossless.To suppress this warning and use a rectangular window, explicitly set "
            "`window=torch.ones(n_fft, device=<device>)`.",
            stacklevel=2,
        )
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if input.dim() not in (2, 3) or input.numel() == 0:
        raise wording.error(
            RuntimeError, f"istft: expected a non-empty tensor with 2 or 3 dimensions, but got {list(input.shape)}"
        )
    x = input.unsqueeze(0) if input.dim() == 2 else input
    n_windows, bins = x.shape[2], x.shape[1]
    half_only = bins != n_fft if onesided is None else onesided
    expected = n_fft // 2 + 1 if half_only else n_fft
    if bins != expected:
        raise wording.error(
            RuntimeError,
            f"istft: expected the frequency dimension (3rd to the last) of the input tensor to match "
            f"{'n_fft / 2 + 1' if half_only else 'n_fft'} when onesided={half_only}, but got {bins}",
        )
    if not 0 < hop <= width:
        raise wording.error(RuntimeError, f"istft: expected 0 < hop_length <= win_length, but got {hop} and {width}")
    if not 0 < width <= n_fft:
        raise wording.error(RuntimeError, f"istft: expected 0 < win_length <= n_fft, but got {width} and {n_fft}")
    if window is not None and (window.dim() != 1 or window.shape[0] != width):
        raise RuntimeError(f"istft: invalid window, expected a 1D tensor of size {width}, got {list(window.shape)}")
    if return_complex and half_only:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if not return_complex and window is not None and window.is_complex():
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    taper = _window(window, width, n_fft, oneflow.view_as_real(x))
    norm = "ortho" if normalized else None
    spectrum = x.transpose(1, 2)
    frames: Any
    if return_complex:
        frames = oneflow.fft.ifft(spectrum, norm=norm)
    else:
        # Half of the transform of a real signal determines the rest.
        frames = oneflow.fft.irfft(spectrum[..., : n_fft // 2 + 1], n_fft, norm=norm)
    total = n_fft + hop * (n_windows - 1)
    places = replicate_like(x, oneflow.arange(total, device=x.device)).unfold(0, n_fft, hop).reshape(-1)
    frames = frames * taper
    signal = frames.new_zeros((x.shape[0], total)).index_add(1, places, frames.reshape(x.shape[0], -1))
    squares = (taper * taper).expand(n_windows, n_fft).reshape(-1)
    envelope = squares.new_zeros(total).index_add(0, places, squares)
    start = n_fft // 2 if center else 0
    end = total
    if length is not None:
        end = start + length
    elif center:
        end = total - n_fft // 2
    signal, envelope = signal[:, start : min(end, total)], envelope[start : min(end, total)]
    if not _oneflow._is_tracing() and bool((envelope.abs() <= 1e-11).any()):
        raise RuntimeError(f"window overlap add min: {envelope.abs().min().item()}, it must not vanish")
    signal = signal / envelope
    if end > total:
        signal = oneflow.nn.functional.pad(signal, (0, end - total))
    return signal.squeeze(0) if input.dim() == 2 else signal


METHODS: dict[str, Any] = {"stft": stft, "istft": istft}
