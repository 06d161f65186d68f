//! Whether a thread records: one bit of its dispatch state.

use oneflow_core::{Guard, bit, tls, with_tls};
use std::cell::Cell;

thread_local! {
    static INFERENCE: Cell<bool> = const { Cell::new(false) };
    static FORWARD: Cell<bool> = const { Cell::new(false) };
}

/// Whether tangents are read from what this thread records.
pub fn is_forward_mode() -> bool {
    FORWARD.get()
}

/// Says whether tangents are read from what this thread records; returns what was said before.
pub fn set_forward_mode(on: bool) -> bool {
    FORWARD.replace(on)
}

/// Whether ops on this thread are recorded.
#[inline]
pub fn is_grad_enabled() -> bool {
    tls().allowed >> bit::AUTOGRAD & 1 == 1
}

/// Switches recording on this thread; returns what it was.
pub fn set_grad_enabled(on: bool) -> bool {
    let was = is_grad_enabled();
    std::mem::forget(with_tls(with_bit(on)));
    was
}

fn with_bit(on: bool) -> oneflow_core::Tls {
    let mut t = tls();
    if on {
        t.allowed |= 1 << bit::AUTOGRAD;
    } else {
        t.allowed &= !(1 << bit::AUTOGRAD);
    }
    t
}

/// Recording on or off until dropped.
pub struct GradGuard(#[allow(dead_code)] Guard);

impl GradGuard {
    pub fn new(on: bool) -> GradGuard {
        GradGuard(with_tls(with_bit(on)))
    }
}

pub fn is_inference_mode_enabled() -> bool {
    INFERENCE.get()
}

/// Inference mode: no recording, and results that can never be recorded. Returns what it was.
pub fn set_inference_mode(on: bool) -> bool {
    INFERENCE.replace(on)
}

/// Inference mode until dropped.
pub struct InferenceGuard {
    was: bool,
    _grad: GradGuard,
}

impl InferenceGuard {
    pub fn new(on: bool) -> InferenceGuard {
        InferenceGuard { was: set_inference_mode(on), _grad: GradGuard::new(!on) }
    }
}

impl Drop for InferenceGuard {
    fn drop(&mut self) {
        set_inference_mode(self.was);
    }
}
