//! Lets other threads of the language above run while a long kernel works.
//!
//! Sizes, strides and memory of tensors change only under the language's lock. So all of a call happens under it, and only the
//! launch itself runs without: on copies of sizes and strides, and on pinned memory. Threads without the lock (the runtime's)
//! change nothing here.

use crate::storage::{Pin, any_reserved};
use crate::{Storage, Tensor};
use oneflow_base::{Dims, Result};
use oneflow_kernels_prim::{KernelFn, Launch, View};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::OnceLock;

/// From this many elements on, others may run meanwhile: such a launch takes tens of microseconds at least.
pub const LONG_WORK: i64 = 1 << 17;

/// Runs the closure on this thread without the language's lock, if the thread holds it.
type Release = fn(&mut dyn FnMut());
static RELEASE: OnceLock<Release> = OnceLock::new();

/// Installs the hook; once, by the binding.
pub fn set_release(release: Release) {
    let _ = RELEASE.set(release);
}

thread_local! {
    static MAY: Cell<bool> = const { Cell::new(false) };
}

/// While this lives, other threads run during long launches of this thread. Its owner holds handles on all tensors of the call.
pub struct MayRelease(bool);

impl MayRelease {
    pub fn new(may: bool) -> MayRelease {
        MayRelease(MAY.replace(may))
    }
}

impl Drop for MayRelease {
    fn drop(&mut self) {
        MAY.set(self.0);
    }
}

/// Returns true if other threads run during long launches of this thread.
#[inline]
pub fn may_release() -> bool {
    MAY.get()
}

/// Runs a kernel; a long one without the language's lock, and none where an operand holds no memory.
///
/// # Safety
/// As for `KernelFn`; `operands` are the tensors of the launch's views.
#[inline]
pub(crate) unsafe fn run_kernel<'a>(
    kernel: KernelFn,
    launch: &Launch<'_>,
    operands: impl Iterator<Item = &'a Tensor> + Clone,
) -> Result<()> {
    if any_reserved() {
        let storages: SmallVec<[&Storage; 8]> =
            operands.clone().filter_map(Tensor::storage).filter(|s| s.is_reserved()).collect();
        if !storages.is_empty() {
            launch.outs.iter().flatten().filter(|v| !is_inside(v, &storages)).for_each(zero);
            return Ok(());
        }
    }
    if MAY.get() && is_long(launch) {
        // SAFETY: the caller's promise.
        return unsafe { run_released(kernel, launch, &operands.filter_map(Tensor::storage).collect::<Vec<_>>()) };
    }
    // SAFETY: the caller's promise.
    unsafe { kernel(launch) }
}

/// Whether a view lies in one of these storages.
fn is_inside(v: &View<'_>, storages: &[&Storage]) -> bool {
    storages.iter().any(|s| (s.ptr() as usize..s.ptr() as usize + s.bytes()).contains(&(v.ptr as usize)))
}

/// Zeros in place of values that nobody computes; of views with gaps, nothing.
fn zero(v: &View<'_>) {
    let n: i64 = v.sizes.iter().product();
    let reach: i64 = v.sizes.iter().zip(v.strides).map(|(n, s)| (n - 1) * s).sum();
    if n > 0 && v.strides.iter().all(|s| *s >= 0) && reach + 1 == n {
        // SAFETY: a launch's results are valid for writes, and this one has as many elements as places.
        unsafe { std::ptr::write_bytes(v.ptr, 0, n as usize * v.dtype.size()) };
    }
}

fn is_long(launch: &Launch<'_>) -> bool {
    let views = launch.ins.iter().chain(launch.outs).flatten();
    views.map(|v| v.numel() as i64).fold(0, i64::saturating_add) >= LONG_WORK
}

/// # Safety
/// As for `run_kernel`.
#[cold]
unsafe fn run_released(kernel: KernelFn, launch: &Launch<'_>, storages: &[&Storage]) -> Result<()> {
    let _pins: SmallVec<[Pin; 8]> = storages.iter().map(|s| s.pin()).collect();
    let dims = |views: &[Option<View<'_>>]| -> SmallVec<[Option<(Dims, Dims)>; 4]> {
        views.iter().map(|v| v.map(|v| (Dims::from_slice(v.sizes), Dims::from_slice(v.strides)))).collect()
    };
    let (in_dims, out_dims) = (dims(launch.ins), dims(launch.outs));
    let (ins, outs) = (own(launch.ins, &in_dims), own(launch.outs, &out_dims));
    let own = Launch { ins: &ins, outs: &outs, ..*launch };
    let mut result = Ok(());
    // SAFETY: the caller's promise; the pins keep the memory, and the sizes are copies.
    without_lock(&mut || result = unsafe { kernel(&own) });
    result
}

/// The views with copied sizes and strides.
fn own<'a>(views: &[Option<View<'_>>], dims: &'a [Option<(Dims, Dims)>]) -> SmallVec<[Option<View<'a>>; 4]> {
    let pairs = views.iter().zip(dims);
    pairs
        .map(|(v, d)| match (v, d) {
            (Some(v), Some((sizes, strides))) => Some(View { ptr: v.ptr, dtype: v.dtype, sizes, strides }),
            _ => None,
        })
        .collect()
}

/// Runs `f` without the language's lock where this thread holds it.
pub fn without_lock(f: &mut dyn FnMut()) {
    match RELEASE.get() {
        Some(release) => release(f),
        None => f(),
    }
}
