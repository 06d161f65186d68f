//! FFT by cuFFT: operands are brought into signals that lie one behind the other, of up to three dimensions.
//!
//! Without the library, and for what it does not take, the host does it.

use crate::elementwise::copy_views;
use crate::launch::{Family, Key, Scratch, args, cuda, gpu, linear, run};
use crate::text::{Builder, unsupported};
use oneflow_base::{DType, Dims, Error, Result};
use oneflow_ep::Queue;
use oneflow_ep::cuda::Text;
use oneflow_ep::cuda::fft::{C_32F, C_64F, Plan, R_32F, R_64F, Signals};
use oneflow_kernels_prim::{FftParams, Launch, View};
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, LazyLock, Mutex};

/// Plans kept before all are forgotten.
const MAX_PLANS: usize = 256;

type Plans = HashMap<(u16, Signals), Arc<Mutex<Plan>>>;

/// `x` of F32 or F64.
pub fn scale_text(dtype: DType) -> Result<Text> {
    Ok(Builder::new("scale").dtype("T", dtype)?.push(include_str!("text/scale.cu")).finish())
}

pub unsafe fn fft(l: &Launch<'_>) -> Result<()> {
    let (x, y) = (l.input(0)?, l.output(0)?);
    let FftParams { inverse, scale, dims } = l.read()?;
    let (Some(&last), 1..=3) = (dims.last(), dims.len()) else {
        return Err(Error::not_implemented("fft: cuFFT takes one to three dimensions"));
    };
    if x.numel() == 0 || y.numel() == 0 {
        return Ok(());
    }
    let real = match (x.dtype, y.dtype) {
        (DType::F32 | DType::C64, DType::C64) | (DType::C64, DType::F32) => DType::F32,
        (DType::F64 | DType::C128, DType::C128) | (DType::C128, DType::F64) => DType::F64,
        (from, to) => return Err(unsupported("fft", if from.is_complex() { to } else { from })),
    };
    // Signals are the last dimensions of what the library sees.
    let order: Vec<usize> = (0..x.ndim()).filter(|d| !dims.contains(d)).chain(dims.iter().copied()).collect();
    let half = y.sizes[last] / 2 + 1;
    let (to_real, from_real) = (!y.dtype.is_complex(), !x.dtype.is_complex());
    let mut in_sizes: Vec<i64> = order.iter().map(|&d| x.sizes[d]).collect();
    let mut out_sizes: Vec<i64> = order.iter().map(|&d| y.sizes[d]).collect();
    let end = order.len() - 1;
    let mut widened = false;
    if to_real {
        if in_sizes[end] < half {
            return Err(Error::not_implemented("fft: cuFFT reads half of the last dimension"));
        }
        in_sizes[end] = half;
    } else if from_real && y.sizes[last] == x.sizes[last] && x.sizes[last] > 1 {
        // All of it, and not half: as of complex numbers.
        widened = true;
    } else if from_real {
        out_sizes[end] = x.sizes[last] / 2 + 1;
        if y.sizes[last] != out_sizes[end] {
            return Err(Error::not_implemented("fft: cuFFT writes half of the last dimension"));
        }
    }
    let from_complex = !from_real || widened;
    let n_lead = order.len() - dims.len();
    let signals = Signals {
        sizes: if to_real { out_sizes[n_lead..].to_vec() } else { in_sizes[n_lead..].to_vec() },
        count: in_sizes[..n_lead].iter().product(),
        from: data_type(real, from_complex),
        to: data_type(real, !to_real),
    };
    let plan = plan(l.queue, &signals)?;
    // A real transform goes one way in the library; the other one is that of conjugate numbers.
    let conjugate_in = to_real && !inverse;
    let conjugate_out = from_real && !widened && inverse;
    // SAFETY: the views are valid by the launch's contract; scratch memory has the sizes of what is written to it.
    unsafe {
        let mut held_in = None;
        let from = match in_order(&x, &order, &in_sizes).filter(|_| !to_real && !widened) {
            Some(ptr) => ptr,
            None => {
                let n: i64 = in_sizes.iter().product();
                let memory = Scratch::new(l.queue, n * if from_complex { 2 } else { 1 }, real.size())?;
                let parts = Parts { ptr: memory.ptr(), real, is_complex: from_complex };
                if widened {
                    cuda()?.memset(l.queue, memory.ptr(), 0, n as usize * 2 * real.size())?;
                }
                move_between(l.queue, &x, &order, &in_sizes, &parts, true)?;
                if conjugate_in {
                    scale_by(l.queue, memory.ptr(), real, 2 * n, [1.0, -1.0])?;
                }
                let ptr = memory.ptr();
                held_in = Some(memory);
                ptr
            }
        };
        let n: i64 = out_sizes.iter().product();
        let n_reals = n * if to_real { 1 } else { 2 };
        let direct = in_order(&y, &order, &out_sizes);
        let held_out = match direct {
            Some(_) => None,
            None => Some(Scratch::new(l.queue, n_reals, real.size())?),
        };
        let to = direct.or(held_out.as_ref().map(Scratch::ptr)).unwrap_or(y.ptr);
        {
            let mut plan = plan.lock().unwrap_or_else(|e| e.into_inner());
            let workspace = Scratch::new(l.queue, plan.workspace.max(1) as i64, 1)?;
            gpu(l.queue)?;
            plan.launch(from, to, inverse, workspace.ptr(), l.queue.raw)?;
        }
        drop(held_in);
        let odd = if conjugate_out { -scale } else { scale };
        if scale != 1.0 || conjugate_out {
            scale_by(l.queue, to, real, n_reals, [scale, if to_real { scale } else { odd }])?;
        }
        if direct.is_none() {
            let parts = Parts { ptr: to, real, is_complex: !to_real };
            move_between(l.queue, &y, &order, &out_sizes, &parts, false)?;
        }
    }
    Ok(())
}

fn data_type(real: DType, is_complex: bool) -> c_int {
    match (real, is_complex) {
        (DType::F32, false) => R_32F,
        (DType::F32, true) => C_32F,
        (_, false) => R_64F,
        (_, true) => C_64F,
    }
}

/// The kept plan. The device's context is current afterwards.
fn plan(queue: Queue, signals: &Signals) -> Result<Arc<Mutex<Plan>>> {
    static PLANS: LazyLock<Mutex<Plans>> = LazyLock::new(Default::default);
    let cuda = cuda()?;
    let fft = cuda.fft().map_err(|e| Error::not_implemented(e.text()))?;
    cuda.device(queue.device.index)?;
    let mut plans = PLANS.lock().unwrap_or_else(|e| e.into_inner());
    let key = (queue.device.index, signals.clone());
    if let Some(plan) = plans.get(&key) {
        return Ok(plan.clone());
    }
    if plans.len() >= MAX_PLANS {
        plans.clear();
    }
    // It may load kernels and allocate.
    let made = cuda.outside_of_captures(|| fft.plan(signals))?;
    Ok(plans.entry(key).or_insert(Arc::new(Mutex::new(made))).clone())
}

/// The address, where the elements lie one behind the other in this order of dimensions already.
fn in_order(v: &View<'_>, order: &[usize], sizes: &[i64]) -> Option<*mut u8> {
    let mut next = 1;
    for (&d, &n) in order.iter().zip(sizes).rev() {
        if n != v.sizes[d] || (n > 1 && v.strides[d] != next) {
            return None;
        }
        next *= n;
    }
    // Complex numbers are read and written as pairs.
    (v.ptr as usize).is_multiple_of(v.dtype.size()).then_some(v.ptr)
}

/// Signals one behind the other.
struct Parts {
    ptr: *mut u8,
    real: DType,
    is_complex: bool,
}

/// Copies between a view and signals: numbers as they are, or complex ones as pairs. Of real numbers that become complex ones the
/// imaginary parts stay.
unsafe fn move_between(
    queue: Queue,
    v: &View<'_>,
    order: &[usize],
    sizes: &[i64],
    parts: &Parts,
    to_parts: bool,
) -> Result<()> {
    let pairs = v.dtype.is_complex();
    let mut all: Dims = sizes.iter().copied().collect();
    let mut there: Dims = oneflow_base::contiguous_strides(sizes).iter().copied().collect();
    let mut here: Dims = order.iter().map(|&d| v.strides[d]).collect();
    if parts.is_complex {
        there.iter_mut().for_each(|s| *s *= 2);
    }
    if pairs {
        here.iter_mut().for_each(|s| *s *= 2);
        all.push(2);
        here.push(1);
        there.push(1);
    }
    let view = View { ptr: v.ptr, dtype: parts.real, sizes: &all, strides: &here };
    let part = View { ptr: parts.ptr, dtype: parts.real, sizes: &all, strides: &there };
    // SAFETY: the caller's promise.
    unsafe { if to_parts { copy_views(queue, &part, &view) } else { copy_views(queue, &view, &part) } }
}

/// Multiplies reals at even and odd places.
unsafe fn scale_by(queue: Queue, x: *mut u8, real: DType, n: i64, by: [f64; 2]) -> Result<()> {
    let key = Key::new(Family::Scale).dtype(real);
    let text = || scale_text(real);
    // SAFETY: the arguments are the template's.
    unsafe {
        match real {
            DType::F32 => run(queue, key, text, linear(n), args![x, n, by[0] as f32, by[1] as f32]),
            _ => run(queue, key, text, linear(n), args![x, n, by[0], by[1]]),
        }
    }
}
