//! Anomaly mode: nodes remember where they were recorded, and gradients that are NaN are errors.
//!
//! Does not know languages: the binding says where the program is and how to tell the user.

use crate::mode::GradGuard;
use oneflow_base::{Error, ErrorKind, Result};
use oneflow_core::Tensor;
use oneflow_ops::TensorOps;
use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

const ON: u8 = 1;
const CHECK_NAN: u8 = 2;

static MODE: AtomicU8 = AtomicU8::new(0);

/// What the binding knows: the lines of the program that are running, and how to say something to the user.
#[derive(Clone, Copy)]
pub struct AnomalyHooks {
    pub whereabouts: fn() -> String,
    pub report: fn(&str),
}

static HOOKS: OnceLock<AnomalyHooks> = OnceLock::new();

/// Installs the binding's part; once, at start-up.
pub fn set_anomaly_hooks(hooks: AnomalyHooks) {
    let _ = HOOKS.set(hooks);
}

/// Switches the mode for all threads.
pub fn set_anomaly_mode(on: bool, check_nan: bool) {
    MODE.store(if on { ON | if check_nan { CHECK_NAN } else { 0 } } else { 0 }, Ordering::Relaxed);
}

#[inline]
pub fn is_anomaly_enabled() -> bool {
    MODE.load(Ordering::Relaxed) != 0
}

pub fn is_anomaly_check_nan_enabled() -> bool {
    MODE.load(Ordering::Relaxed) & CHECK_NAN != 0
}

/// Where a node that is made now is recorded.
#[cold]
pub(crate) fn here() -> Option<Trace> {
    let h = HOOKS.get()?;
    let induced_by = INSIDE.with_borrow(|inside| inside.last().cloned().unwrap_or_default());
    Some(Trace { recorded_at: (h.whereabouts)(), induced_by })
}

/// Where a node was recorded.
#[derive(Clone)]
pub(crate) struct Trace {
    recorded_at: String,
    /// Of a node that a backward recorded: which node that backward ran, where it was recorded, and so on.
    induced_by: Vec<String>,
}

thread_local! {
    /// For each node that runs on this thread, what is said of the nodes that it records.
    static INSIDE: RefCell<Vec<Vec<String>>> = const { RefCell::new(Vec::new()) };
}

/// A node runs until this is dropped.
pub(crate) struct Inside;

impl Inside {
    #[cold]
    pub fn new(name: &str, trace: Option<Trace>) -> Inside {
        let said = match trace {
            Some(trace) => {
                let text = format!(
                    "\n\nPrevious calculation was induced by {name}. Traceback of forward call that induced the previous calculation:\n{}",
                    trace.recorded_at
                );
                std::iter::once(text).chain(trace.induced_by).collect()
            }
            None => vec![format!(
                "\n\nPrevious calculation was induced by {name}. No forward pass information available. Enable detect anomaly during forward pass for more information."
            )],
        };
        INSIDE.with_borrow_mut(|inside| inside.push(said));
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(Vec::pop);
    }
}

/// Tells the user where the node that failed was recorded, and adds it to the error.
#[cold]
pub(crate) fn explain(name: &str, trace: Option<Trace>, e: Error) -> Error {
    // The error matters more than a warning that is made an error.
    let report = |text: &str| HOOKS.get().map_or((), |h| (h.report)(text));
    let Some(trace) = trace else {
        report(&format!(
            "Error detected in {name}. No forward pass information available. Enable detect anomaly during forward pass for more information."
        ));
        return e;
    };
    let at = &trace.recorded_at;
    report(&format!("Error detected in {name}. Traceback of forward call that caused the error:\n{at}"));
    trace.induced_by.iter().for_each(|text| report(text));
    match at.trim_end().lines().rev().find(|l| l.trim_start().starts_with("File ")) {
        Some(line) if e.kind() != ErrorKind::Pending => {
            Error::new(e.kind(), format!("{} (recorded at {})", e.text(), line.trim()))
        }
        _ => e,
    }
}

/// Refuses gradients that hold NaN.
#[cold]
pub(crate) fn check(name: &str, grads: &[Option<Tensor>]) -> Result<()> {
    if !is_anomaly_check_nan_enabled() {
        return Ok(());
    }
    for (i, g) in grads.iter().enumerate() {
        let Some(g) = g else { continue };
        if !g.dtype().is_differentiable() || g.device().is_meta() {
            continue;
        }
        let _off = GradGuard::new(false);
        let g = g.shallow();
        let odd = g.ne(&g)?.any(None::<&[i64]>, false)?;
        let host = oneflow_core::copy_to_host(&odd)?;
        // SAFETY: one element of bool, on the host.
        if unsafe { *host.data_ptr() } != 0 {
            return Err(Error::runtime(format!("Function '{name}' returned nan values in its {i}th output.")));
        }
    }
    Ok(())
}
