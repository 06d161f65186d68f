//! Optimizer updates: all tensors in one call, each in one pass over memory; and the check and scaling of gradients.
//!
//! What a step does is a `Rule`. Chunks of operands that are not contiguous in the compute dtype pass through small buffers.

use crate::mem::{by_register, read};
use oneflow_base::{DType, Error, Result, by_float, no_kernel_for};
use oneflow_kernels_prim::rows::{Grid, split};
use oneflow_kernels_prim::{
    Acc, Float, Isa, Lanes, Launch, MAX_HYPER, MAX_NUMBERS, MAX_SCALARS, MAX_STATES, Num, Reg, Register, Rule, Simd,
    UnscaleParams, UpdateParams, View, WithSimd, dispatch, isa,
};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};

/// The number in a 0-dim input.
unsafe fn number(v: Option<View>) -> Result<Option<f64>> {
    // SAFETY: a 0-dim view has one element.
    v.map(|v| unsafe { read(&v, 0) }).transpose()
}

pub unsafe fn update(l: &Launch<'_>) -> Result<()> {
    let UpdateParams { rule, n, maximize, hyper: given } = l.read()?;
    let rule = Rule::by_id(rule)?;
    let (mut hyper, mut numbers) = ([0.0; MAX_HYPER], [0.0; MAX_NUMBERS]);
    if given.0.len() != rule.n_hyper {
        return Err(Error::runtime(format!("optimizer update: {} of {} options", given.0.len(), rule.n_hyper)));
    }
    hyper[..rule.n_hyper].copy_from_slice(&given.0);
    // SAFETY: the views are valid by the launch's contract.
    unsafe {
        if let Some(v) = l.opt_input(n + rule.n_numbers + 2) {
            if v.numel() != rule.n_hyper {
                return Err(Error::runtime(format!("optimizer update: {} of {} options", v.numel(), rule.n_hyper)));
            }
            for (k, h) in hyper.iter_mut().take(rule.n_hyper).enumerate() {
                *h = read(&v, k as isize)?;
            }
        }
        for (k, x) in numbers.iter_mut().take(rule.n_numbers).enumerate() {
            *x = read(&l.input(n + k)?, 0)?;
        }
        let at = n + rule.n_numbers;
        let (scale, found_inf) = (number(l.opt_input(at))?, number(l.opt_input(at + 1))?);
        if found_inf.is_some_and(|v| v != 0.0) {
            return Ok(());
        }
        let mut c = [0.0; MAX_SCALARS + 1];
        c[0] = if maximize { -1.0 } else { 1.0 } / scale.unwrap_or(1.0);
        c[1..].copy_from_slice(&(rule.scalars)(&hyper, &numbers));
        Tensors { l, n, rule, narrow: c.map(|v| v as f32), c }.update()
    }
}

/// Elements a buffer holds.
const CHUNK: usize = 512;
/// Elements of work that stay together.
const UNIT: usize = 8192;
/// Parameter, gradient and states.
const OPERANDS: usize = MAX_STATES + 2;

/// The launch as tensors of operands, and the constants in both compute dtypes.
struct Tensors<'a> {
    l: &'a Launch<'a>,
    n: usize,
    rule: &'static Rule,
    c: [f64; MAX_SCALARS + 1],
    narrow: [f32; MAX_SCALARS + 1],
}

// SAFETY: tasks touch disjoint elements of the views.
unsafe impl Sync for Tensors<'_> {}

/// A compute dtype's tile of a rule.
trait Step: Acc {
    unsafe fn step(isa: Isa, t: &Tensors<'_>, n: usize, at: &[*mut Self; OPERANDS]);
}
impl Step for f32 {
    #[inline]
    unsafe fn step(isa: Isa, t: &Tensors<'_>, n: usize, at: &[*mut f32; OPERANDS]) {
        // SAFETY: by the caller.
        unsafe { t.rule.tile_f32(isa)(n, at.as_ptr(), t.narrow.as_ptr()) }
    }
}
impl Step for f64 {
    #[inline]
    unsafe fn step(isa: Isa, t: &Tensors<'_>, n: usize, at: &[*mut f64; OPERANDS]) {
        // SAFETY: by the caller.
        unsafe { t.rule.tile_f64(isa)(n, at.as_ptr(), t.c.as_ptr()) }
    }
}

impl Tensors<'_> {
    fn operand(&self, i: usize, k: usize) -> Result<View<'_>> {
        match k {
            0 => self.l.output(i),
            1 => self.l.input(i),
            k => self.l.output((k - 1) * self.n + i),
        }
    }

    unsafe fn update(&self) -> Result<()> {
        let n_operands = self.rule.n_states + 2;
        // Everything is checked before anything is written.
        let (mut ends, mut units, mut elements) = (SmallVec::<[usize; 64]>::with_capacity(self.n), 0, 0);
        for i in 0..self.n {
            let numel = self.operand(i, 0)?.numel();
            for k in 0..n_operands {
                let v = self.operand(i, k)?;
                if !v.dtype.is_float() {
                    return Err(no_kernel_for("optimizer update", v.dtype));
                }
                if v.numel() != numel {
                    return Err(Error::runtime(format!(
                        "optimizer update ({}): {numel} parameters but {} of operand {k}",
                        self.rule.name,
                        v.numel()
                    )));
                }
            }
            elements += numel;
            units += numel.div_ceil(UNIT);
            ends.push(units);
        }
        let isa = isa();
        split(units, 0.6 * elements as f64 / units.max(1) as f64, &|r| {
            let mut i = ends.partition_point(|e| *e <= r.start);
            for u in r {
                while ends[i] <= u {
                    i += 1;
                }
                let from = (u - if i == 0 { 0 } else { ends[i - 1] }) * UNIT;
                // SAFETY: the operands are checked; units are disjoint.
                unsafe {
                    match self.operand(i, 0) {
                        Ok(p) if p.dtype == DType::F64 => self.unit::<f64>(isa, i, from),
                        _ => self.unit::<f32>(isa, i, from),
                    }
                }
            }
        });
        Ok(())
    }

    /// One unit of tensor `i`, in compute dtype `A`.
    unsafe fn unit<A: Step>(&self, isa: Isa, i: usize, from: usize) {
        let Ok(p) = self.operand(i, 0) else { return };
        let (len, n_operands) = ((p.numel() - from).min(UNIT), self.rule.n_states + 2);
        let mut views = [p; OPERANDS];
        for (k, v) in views[..n_operands].iter_mut().enumerate() {
            let Ok(operand) = self.operand(i, k) else { return };
            *v = operand;
        }
        let plain = |v: &View| v.dtype == A::DTYPE && v.is_contiguous();
        if views[..n_operands].iter().all(plain) {
            let at = views.map(|v| v.ptr.cast::<A>().wrapping_add(from));
            // SAFETY: every operand holds `len` elements from there on.
            return unsafe { A::step(isa, self, len, &at) };
        }
        let mut buffers = [[A::splat(0.0); CHUNK]; OPERANDS];
        for from in (from..from + len).step_by(CHUNK) {
            let len = CHUNK.min(p.numel() - from);
            let mut at = [std::ptr::null_mut(); OPERANDS];
            for k in 0..n_operands {
                at[k] = if plain(&views[k]) {
                    views[k].ptr.cast::<A>().wrapping_add(from)
                } else {
                    buffers[k].as_mut_ptr()
                };
                if !plain(&views[k]) {
                    // SAFETY: the elements lie inside the view.
                    unsafe { fetch(isa, &views[k], from, &mut buffers[k][..len]) };
                }
            }
            // SAFETY: every operand or buffer holds `len` elements.
            unsafe { A::step(isa, self, len, &at) };
            for k in (0..n_operands).filter(|k| *k != 1 && !plain(&views[*k])) {
                // SAFETY: as above.
                unsafe { bring(isa, &views[k], from, &buffers[k][..len]) };
            }
        }
    }
}

/// Whether a view is contiguous and its dtype's compute dtype is `A`: registers convert it.
fn converts<A: Acc>(v: &View) -> bool {
    v.dtype.compute() == A::DTYPE && v.is_contiguous()
}

/// Elements `from..` of a view, row-major, as numbers.
unsafe fn fetch<A: Acc>(isa: Isa, v: &View, from: usize, to: &mut [A]) {
    let _: Result<()> = by_float!("optimizer update", v.dtype, T => {
        let p = v.ptr.cast::<T>();
        // SAFETY: by the caller; `converts` makes the compute dtypes equal.
        unsafe {
            if converts::<A>(v) {
                dispatch(isa, Widen { from: p.add(from), to: to.as_mut_ptr().cast(), len: to.len() });
            } else {
                let grid = Grid::new(v.sizes, [v.strides]);
                grid.each(from..from + to.len(), |i, [o]| to[i - from] = A::of((*p.offset(o)).widen().to_f64()));
            }
        }
        Ok(())
    });
}

/// Writes numbers to elements `from..` of a view.
unsafe fn bring<A: Acc>(isa: Isa, v: &View, from: usize, numbers: &[A]) {
    let _: Result<()> = by_float!("optimizer update", v.dtype, T => {
        let p = v.ptr.cast::<T>();
        // SAFETY: by the caller; `converts` makes the compute dtypes equal.
        unsafe {
            if converts::<A>(v) {
                dispatch(isa, Narrow { from: numbers.as_ptr().cast(), to: p.add(from), len: numbers.len() });
            } else {
                let grid = Grid::new(v.sizes, [v.strides]);
                let put = |v: A| T::narrow(<T as Float>::Acc::of(v.to_f64()));
                grid.each(from..from + numbers.len(), |i, [o]| *p.offset(o) = put(numbers[i - from]));
            }
        }
        Ok(())
    });
}

struct Widen<T: Float> {
    from: *const T,
    to: *mut T::Acc,
    len: usize,
}

impl<T: Float> WithSimd for Widen<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: both hold len elements.
        unsafe {
            by_register!(Reg<S, T>, self.len, |i, k, _u| { T::load_n::<S>(self.from.add(i), k).store_n(self.to.add(i), k); })
        }
    }
}

struct Narrow<T: Float> {
    from: *const T::Acc,
    to: *mut T,
    len: usize,
}

impl<T: Float> WithSimd for Narrow<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: both hold len elements.
        unsafe {
            by_register!(Reg<S, T>, self.len, |i, k, _u| { T::store_n::<S>(Register::load_n(self.from.add(i), k), self.to.add(i), k); })
        }
    }
}

pub unsafe fn unscale(l: &Launch<'_>) -> Result<()> {
    let UnscaleParams { n } = l.read()?;
    // SAFETY: a 0-dim view has one element.
    let factor = unsafe { read(&l.input(0)?, 0)? };
    let flag = l.output(n)?;
    if flag.dtype != DType::F32 {
        return Err(no_kernel_for("unscale", flag.dtype));
    }
    for i in 0..n {
        let v = l.output(i)?;
        if !v.dtype.is_float() {
            return Err(no_kernel_for("unscale", v.dtype));
        }
    }
    let (found, isa) = (AtomicBool::new(false), isa());
    for i in 0..n {
        let v = Writable(l.output(i)?);
        let units = v.0.numel().div_ceil(UNIT);
        split(units, 0.2 * UNIT as f64, &|r| {
            let (from, to) = (r.start * UNIT, (r.end * UNIT).min(v.get().numel()));
            // SAFETY: parts are disjoint and lie inside the view.
            if unsafe { unscale_part(isa, v.get(), from, to, factor) } {
                found.store(true, Ordering::Relaxed);
            }
        });
    }
    if found.into_inner() {
        // SAFETY: the flag is one f32.
        unsafe { flag.ptr.cast::<f32>().write(1.0) };
    }
    Ok(())
}

struct Writable<'a>(View<'a>);
// SAFETY: tasks touch disjoint elements of the view.
unsafe impl Sync for Writable<'_> {}
impl<'a> Writable<'a> {
    fn get(&self) -> &View<'a> {
        &self.0
    }
}

/// Scales elements `from..to`; whether one of them was not finite.
unsafe fn unscale_part(isa: Isa, v: &View, from: usize, to: usize, factor: f64) -> bool {
    let mut bad = false;
    let _: Result<()> = by_float!("unscale", v.dtype, T => {
        let p = v.ptr.cast::<T>();
        // SAFETY: by the caller.
        unsafe {
            if v.is_contiguous() {
                bad = dispatch(isa, Unscale { at: p.add(from), len: to - from, factor });
            } else {
                Grid::new(v.sizes, [v.strides]).each(from..to, |_, [o]| {
                    let x = (*p.offset(o)).widen().to_f64();
                    bad |= !x.is_finite();
                    *p.offset(o) = T::narrow(<T as Float>::Acc::of(x * factor));
                });
            }
        }
        Ok(())
    });
    bad
}

struct Unscale<T: Float> {
    at: *mut T,
    len: usize,
    factor: f64,
}

impl<T: Float> WithSimd for Unscale<T> {
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(self) -> bool {
        let (factor, zero) = (Reg::<S, T>::splat(self.factor), Reg::<S, T>::splat(0.0));
        // Infinities and NaN times zero are NaN, and stay in the sum.
        let mut probe = [zero; 4];
        // SAFETY: the pointer is valid for `len` elements.
        unsafe {
            by_register!(Reg<S, T>, self.len, |i, k, u| {
                let x = T::load_n::<S>(self.at.add(i), k);
                probe[u] = x.fma(zero, probe[u]);
                T::store_n::<S>(x * factor, self.at.add(i), k);
            });
        }
        <Reg<S, T> as Register>::any(((probe[0] + probe[1]) + (probe[2] + probe[3])).is_nan())
    }
}
