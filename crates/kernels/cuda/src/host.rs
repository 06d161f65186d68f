//! Primitives without a kernel for GPUs: their operands are copied to the host, the CPU's kernel runs, and the results are
//! copied back.
//!
//! The calling thread waits for the device, so this is for what is rare in training: decompositions, Fourier transforms, complex
//! numbers. Each primitive says so once, through the function that `set_notice` was given.

use crate::launch::{cuda, is_question};
use oneflow_base::{Device, DeviceType, Result};
use oneflow_ep::{Copy, Provider, Queue};
use oneflow_kernels_prim::{Launch, Primitive, View};
use std::collections::HashSet;
use std::sync::{Mutex, OnceLock};

/// Says a notice; an error where the user wants to hear of it that way.
pub type NoticeFn = fn(&str) -> Result<()>;

static NOTICE: OnceLock<NoticeFn> = OnceLock::new();

/// Installs who says the notices; once, at start-up.
pub fn set_notice(f: NoticeFn) {
    let _ = NOTICE.set(f);
}

/// Once a primitive.
fn notice(primitive: &Primitive, why: &str) -> Result<()> {
    say_once(primitive.name, || format!("{why}; it runs on the host, and each call waits for the device"))
}

/// Says something about a thing, the first time that there is something to say about it.
pub fn say_once(about: &'static str, what: impl FnOnce() -> String) -> Result<()> {
    static SAID: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut said = SAID.lock().unwrap_or_else(|e| e.into_inner());
    let first = said.get_or_insert_default().insert(about);
    drop(said);
    match NOTICE.get() {
        Some(say) if first => say(&format!("{about}: {}", what())),
        _ => Ok(()),
    }
}

/// How far a view's elements reach below and above its first one.
pub fn reach(v: &View<'_>) -> (i64, i64) {
    v.sizes.iter().zip(v.strides).fold((0, 0), |(low, high), (n, s)| {
        let end = (n - 1).max(0) * s;
        (low + end.min(0), high + end.max(0))
    })
}

/// The memory between a view's first and last element, on the host.
struct Mirror {
    words: Vec<u64>,
    device: *mut u8,
    bytes: usize,
    /// From the start of the memory to the view's first element.
    first: usize,
}

impl Mirror {
    unsafe fn new(queue: Queue, v: &View<'_>) -> Result<Mirror> {
        let (low, high) = if v.numel() == 0 { (0, -1) } else { reach(v) };
        let (size, first) = (v.dtype.size(), -low as usize);
        let bytes = (high - low + 1) as usize * size;
        let device = v.ptr.wrapping_sub(first * size);
        let mut words = vec![0u64; bytes.div_ceil(8).max(1)];
        // SAFETY: the range holds the view's elements, and what lies between them in their storage.
        unsafe { cuda()?.copy(queue, Copy::DeviceToHost, words.as_mut_ptr().cast(), device, bytes)? };
        Ok(Mirror { words, device, bytes, first: first * size })
    }

    fn view<'a>(&mut self, v: &View<'a>) -> View<'a> {
        View { ptr: self.words.as_mut_ptr().cast::<u8>().wrapping_add(self.first), ..*v }
    }

    unsafe fn back(&self, queue: Queue) -> Result<()> {
        // SAFETY: the range `new` read from.
        unsafe { cuda()?.copy(queue, Copy::HostToDevice, self.device, self.words.as_ptr().cast(), self.bytes) }
    }
}

/// Runs a launch by the CPU's kernel.
///
/// # Safety
/// The contract of `prim::KernelFn`.
pub unsafe fn run(primitive: &'static Primitive, l: &Launch<'_>) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { run_because(primitive, l, "there is no CUDA kernel for these operands") }
}

/// As `run`, with the reason for the notice.
///
/// # Safety
/// As for `run`.
pub unsafe fn run_because(primitive: &'static Primitive, l: &Launch<'_>, why: &str) -> Result<()> {
    if is_question() {
        return ask_host(primitive, l);
    }
    notice(primitive, why)?;
    // SAFETY: the caller's promise.
    unsafe { run_silently(primitive, l) }
}

/// As `run`, without a notice: for errors in the host's words.
///
/// # Safety
/// As for `run`.
pub unsafe fn run_silently(primitive: &'static Primitive, l: &Launch<'_>) -> Result<()> {
    let kernel = primitive.on(DeviceType::CPU)?;
    let mirrors = |views: &[Option<View<'_>>]| -> Result<Vec<Option<Mirror>>> {
        // SAFETY: the views are valid by the launch's contract.
        views.iter().map(|v| v.as_ref().map(|v| unsafe { Mirror::new(l.queue, v) }).transpose()).collect()
    };
    // Outputs come along: some are updated, and what lies between the elements of others stays.
    let (mut ins, mut outs) = (mirrors(l.ins)?, mirrors(l.outs)?);
    let (in_views, out_views) = (mirrored(l.ins, &mut ins), mirrored(l.outs, &mut outs));
    let queue = Queue { device: Device::CPU, raw: std::ptr::null_mut() };
    // SAFETY: the views lie in the mirrors, which have their extents.
    unsafe { kernel(&Launch { outs: &out_views, ins: &in_views, params: l.params, expr: l.expr, queue })? };
    for m in outs.iter().flatten() {
        // SAFETY: by the launch's contract outputs are written by nobody else.
        unsafe { m.back(l.queue)? };
    }
    Ok(())
}

/// Asks the CPU's kernel by a launch on zeros, which takes as long as one that counts.
fn ask_host(primitive: &'static Primitive, l: &Launch<'_>) -> Result<()> {
    let kernel = primitive.on(DeviceType::CPU)?;
    let zeros = |views: &[Option<View<'_>>]| -> Vec<Option<Mirror>> {
        let zeros = |v: &View<'_>| {
            let (low, high) = if v.numel() == 0 { (0, -1) } else { reach(v) };
            let (size, first) = (v.dtype.size(), -low as usize);
            let bytes = (high - low + 1) as usize * size;
            Mirror { words: vec![0u64; bytes.div_ceil(8).max(1)], device: v.ptr, bytes, first: first * size }
        };
        views.iter().map(|v| v.as_ref().map(zeros)).collect()
    };
    let (mut ins, mut outs) = (zeros(l.ins), zeros(l.outs));
    let (in_views, out_views) = (mirrored(l.ins, &mut ins), mirrored(l.outs, &mut outs));
    let queue = Queue { device: Device::CPU, raw: std::ptr::null_mut() };
    // SAFETY: the views lie in the mirrors, which have their extents.
    unsafe { kernel(&Launch { outs: &out_views, ins: &in_views, params: l.params, expr: l.expr, queue }) }
}

/// Views of the mirrors in place of the device's.
fn mirrored<'a>(views: &[Option<View<'a>>], mirrors: &mut [Option<Mirror>]) -> Vec<Option<View<'a>>> {
    views.iter().zip(mirrors).map(|(v, m)| v.as_ref().zip(m.as_mut()).map(|(v, m)| m.view(v))).collect()
}

/// Whether a launch is of complex numbers.
pub fn is_complex(l: &Launch<'_>) -> bool {
    l.ins.iter().chain(l.outs).flatten().any(|v| v.dtype.is_complex())
}
