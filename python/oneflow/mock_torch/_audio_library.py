"""The ops of torchaudio's compiled library: filters that depend on their own output, alignments, transducers' losses.

They run on the host over NumPy, sample by sample or frame by frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import oneflow
from oneflow import Tensor


def _shared(x: Tensor) -> Any:
    """The numbers of a tensor as an array over its own memory."""
    return x.detach().numpy()


def lfilter_core_loop(input_signal_windows: Tensor, a_coeff_flipped: Tensor, padded_output_waveform: Tensor) -> Tensor:
    """Subtract from each sample the weighted outputs before it, and write the filtered signal.

    Args:
        input_signal_windows: (batch, channels, samples).
        a_coeff_flipped: (channels, order), the weight of the sample itself last.
        padded_output_waveform: (batch, channels, samples + order - 1), zeros that receive the output.
    """
    inputs, weights, output = map(_shared, (input_signal_windows, a_coeff_flipped, padded_output_waveform))
    order = weights.shape[1]
    for i in range(inputs.shape[2]):
        fed_back = (output[:, :, i : i + order] * weights).sum(-1)
        output[:, :, i + order - 1] = inputs[:, :, i] - fed_back
    return padded_output_waveform


def overdrive_core_loop(
    waveform: Tensor, temp: Tensor, last_in: Tensor, last_out: Tensor, output_waveform: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Write the mean of a signal, (channels, samples), and its distorted form ``temp`` without the constant part."""
    x, distorted, before, filtered, output = map(_shared, (waveform, temp, last_in, last_out, output_waveform))
    for i in range(x.shape[-1]):
        filtered[:] = distorted[:, i] - before + 0.995 * filtered
        before[:] = distorted[:, i]
        output[:, i] = x[:, i] * 0.5 + filtered * 0.75
    return last_in, last_out, output_waveform


def forced_align(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """The likeliest path of labels and blanks that spells the targets: Viterbi's algorithm over CTC's states.

    Args:
        log_probs: (1, frames, classes).
        targets: (1, labels), int32 or int64.

    Returns:
        The label of each frame, (1, frames), and ``log_probs``.

    Raises:
        RuntimeError: several sequences, a blank among the targets, or too few frames for them.
    """
    if log_probs.shape[0] != 1:
        raise RuntimeError(f"forced_align: the batch size must be 1, got {log_probs.shape[0]}")
    scores = np.asarray(_shared(log_probs.float()))[0, : int(input_lengths[0])]
    labels = np.asarray(_shared(targets))[0, : int(target_lengths[0])]
    if (labels == blank).any():
        raise RuntimeError(f"forced_align: targets must not contain the blank, {blank}")
    repeats = int((labels[1:] == labels[:-1]).sum())
    if len(scores) < len(labels) + repeats:
        raise RuntimeError(
            f"forced_align: targets of {len(labels)} labels with {repeats} repeats do not fit {len(scores)} frames"
        )
    states = np.full(2 * len(labels) + 1, blank, labels.dtype)
    states[1::2] = labels
    # A label that differs from the one before it may be entered from there, past the blank between.
    skips = np.zeros(len(states), bool)
    skips[3::2] = labels[1:] != labels[:-1]
    best = np.full(len(states), -np.inf, scores.dtype)
    best[:2] = scores[0, states[:2]]
    steps = np.zeros((len(scores), len(states)), np.int8)
    for t in range(1, len(scores)):
        one = np.concatenate(([-np.inf], best[:-1])).astype(scores.dtype)
        two = np.where(skips, np.concatenate(([-np.inf] * 2, best))[: len(states)], -np.inf).astype(scores.dtype)
        steps[t] = np.where((two > one) & (two > best), 2, np.where((one > best) & (one > two), 1, 0))
        best = np.choose(steps[t], (best, one, two)) + scores[t, states]
    at = len(states) - 1
    if len(states) > 1 and not best[-1] > best[-2]:
        at -= 1
    path = np.empty(len(scores), labels.dtype)
    for t in range(len(scores) - 1, -1, -1):
        path[t] = states[at]
        at -= steps[t, at]
    return oneflow.from_numpy(path).unsqueeze(0), log_probs


def rnnt_loss_forward(
    logits: Tensor,
    targets: Tensor,
    logit_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    clamp: float,
    fused_log_softmax: bool,
) -> tuple[Tensor, Tensor]:
    """The loss of a transducer, Graves 2012, of each sequence, and its gradient.

    Args:
        logits: (batch, frames, labels + 1, classes).
        targets: (batch, labels).
        clamp: the largest size of a gradient; none where it is not positive.
        fused_log_softmax: whether ``logits`` are to be normalised; they are log probabilities otherwise.
    """
    blank = blank % logits.shape[-1]
    scores = logits.detach().double()
    log_probs = _shared(scores.log_softmax(-1) if fused_log_softmax else scores)
    costs, grads = np.zeros(len(log_probs)), np.zeros(log_probs.shape)
    for b, (n_frames, n_labels) in enumerate(zip(logit_lengths.tolist(), target_lengths.tolist(), strict=True)):
        lattice = log_probs[b, :n_frames, : n_labels + 1]
        labels = _shared(targets)[b, :n_labels].astype(np.int64)
        costs[b], waits, emits = _occupancies(lattice, labels, blank)
        grad = grads[b, :n_frames, : n_labels + 1]
        grad[..., blank] -= waits
        grad[:, np.arange(n_labels), labels] -= emits[:, :n_labels]
        if fused_log_softmax:
            grad += np.exp(lattice) * (waits + emits)[..., None]
    if clamp > 0:
        grads.clip(-clamp, clamp, out=grads)
    return oneflow.from_numpy(costs).to(logits.dtype), oneflow.from_numpy(grads).to(logits.dtype)


def _occupancies(log_probs: Any, labels: Any, blank: int) -> tuple[float, Any, Any]:
    """``-log p`` of the labels, and how likely paths wait, or emit the next label, at each frame and label."""
    n_frames, n_states = log_probs.shape[:2]
    wait = log_probs[..., blank]
    emit = np.full((n_frames, n_states), -np.inf)
    emit[:, :-1] = log_probs[:, np.arange(n_states - 1), labels]
    forward = np.full((n_frames, n_states), -np.inf)
    forward[0, 0] = 0
    for t in range(n_frames):
        if t:
            forward[t] = forward[t - 1] + wait[t - 1]
        for u in range(1, n_states):
            forward[t, u] = np.logaddexp(forward[t, u], forward[t, u - 1] + emit[t, u - 1])
    # The log probability of what is still to come after a wait, one frame and one state past the end included.
    backward = np.full((n_frames + 1, n_states + 1), -np.inf)
    backward[n_frames, n_states - 1] = 0
    for t in range(n_frames - 1, -1, -1):
        for u in range(n_states - 1, -1, -1):
            backward[t, u] = np.logaddexp(backward[t + 1, u] + wait[t, u], backward[t, u + 1] + emit[t, u])
    total = backward[0, 0]
    waits = np.exp(forward + wait + backward[1:, :n_states] - total)
    emits = np.exp(forward + emit + backward[:n_frames, 1:] - total)
    return -float(total), waits, emits


KERNELS: dict[str, Callable[..., Any]] = {
    "torchaudio::_lfilter_core_loop": lfilter_core_loop,
    "torchaudio::_overdrive_core_loop": overdrive_core_loop,
    "torchaudio::forced_align": forced_align,
    "torchaudio::rnnt_loss_forward": rnnt_loss_forward,
    "_torchaudio::cuda_version": lambda: None,
    "_torchaudio::is_align_available": lambda: True,
}
