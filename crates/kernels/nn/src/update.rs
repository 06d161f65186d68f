//! The optimizers' updates, ADAM and SGD: all tensors in one call, each in one pass over memory.
//!
//! A rule works on registers. Chunks of operands that are not contiguous in the compute dtype pass through small buffers.

use crate::mem::{Acc, Float, Reg, by_float, by_register, load, not_float, read, store};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::rows::{Grid, split};
use oneflow_kernels_prim::{Isa, Launch, Num, Register, Simd, View, WithSimd, dispatch, isa};
use smallvec::SmallVec;

/// What one step does to a parameter `p` with gradient `g` and states `s`.
trait Rule: Sync + Copy {
    fn step<R: Register>(&self, p: R, g: R, s: [R; 2]) -> (R, [R; 2]);
}

/// torch's Adam and AdamW.
#[derive(Clone, Copy)]
struct Adam {
    /// 1, or -1 to maximise, over the gradients' scale.
    grad: f64,
    /// Weight decay added to the gradient (Adam).
    decay: f64,
    /// What the parameter is multiplied by (AdamW).
    shrink: f64,
    beta1: f64,
    beta2: f64,
    /// -lr / (1 - beta1^t)
    rate: f64,
    /// 1 / sqrt(1 - beta2^t)
    root: f64,
    eps: f64,
}

impl Rule for Adam {
    #[inline(always)]
    fn step<R: Register>(&self, p: R, g: R, [m, v]: [R; 2]) -> (R, [R; 2]) {
        let g = R::splat(self.decay).fma(p, g * R::splat(self.grad));
        let m = R::splat(1.0 - self.beta1).fma(g - m, m);
        let v = v * R::splat(self.beta2) + R::splat(1.0 - self.beta2) * g * g;
        let denom = v.sqrt().fma(R::splat(self.root), R::splat(self.eps));
        let p = p * R::splat(self.shrink);
        (R::splat(self.rate).fma(m / denom, p), [m, v])
    }
}

#[derive(Clone, Copy)]
struct Sgd {
    grad: f64,
    decay: f64,
    /// -lr
    rate: f64,
    momentum: f64,
    /// 1 - dampening
    keep: f64,
    /// The buffer's content is arbitrary and becomes the gradient.
    first: bool,
    has_momentum: bool,
    nesterov: bool,
}

impl Rule for Sgd {
    #[inline(always)]
    fn step<R: Register>(&self, p: R, g: R, [b, z]: [R; 2]) -> (R, [R; 2]) {
        let mut g = R::splat(self.decay).fma(p, g * R::splat(self.grad));
        let mut b = b;
        if self.has_momentum {
            b = if self.first { g } else { b * R::splat(self.momentum) + g * R::splat(self.keep) };
            g = if self.nesterov { R::splat(self.momentum).fma(b, g) } else { b };
        }
        (R::splat(self.rate).fma(g, p), [b, z])
    }
}

/// The number in a 0-dim input.
unsafe fn number(v: Option<View>) -> Result<Option<f64>> {
    // SAFETY: a 0-dim view has one element.
    v.map(|v| unsafe { read(&v, 0) }).transpose()
}

/// Gradient factor; none where the step is to be skipped.
unsafe fn gradient_factor(l: &Launch<'_>, at: usize, maximize: bool) -> Result<Option<f64>> {
    // SAFETY: by the caller's contract.
    let (scale, found_inf) = unsafe { (number(l.opt_input(at))?, number(l.opt_input(at + 1))?) };
    if found_inf.is_some_and(|v| v != 0.0) {
        return Ok(None);
    }
    Ok(Some(if maximize { -1.0 } else { 1.0 } / scale.unwrap_or(1.0)))
}

pub unsafe fn adam(l: &Launch<'_>) -> Result<()> {
    let n = l.param(0)?.usize();
    let (beta1, beta2) = (l.param(1)?.f64(), l.param(2)?.f64());
    let (decay, eps, decoupled) = (l.param(3)?.f64(), l.param(4)?.f64(), l.param(6)?.bool());
    // SAFETY: the views are valid by the launch's contract.
    unsafe {
        let (lr, step) = (read(&l.input(n)?, 0)?, read(&l.input(n + 1)?, 0)?);
        let Some(grad) = gradient_factor(l, n + 2, l.param(5)?.bool())? else { return Ok(()) };
        let rule = Adam {
            grad,
            decay: if decoupled { 0.0 } else { decay },
            shrink: if decoupled { 1.0 - lr * decay } else { 1.0 },
            beta1,
            beta2,
            rate: -lr / (1.0 - beta1.powf(step)),
            root: 1.0 / (1.0 - beta2.powf(step)).sqrt(),
            eps,
        };
        update::<_, 2>(l, n, rule)
    }
}

pub unsafe fn sgd(l: &Launch<'_>) -> Result<()> {
    let n = l.param(0)?.usize();
    let (momentum, dampening, decay) = (l.param(1)?.f64(), l.param(2)?.f64(), l.param(3)?.f64());
    let first = l.param(6)?.bool();
    // SAFETY: the views are valid by the launch's contract.
    unsafe {
        let lr = read(&l.input(n)?, 0)?;
        let Some(grad) = gradient_factor(l, n + 1, l.param(5)?.bool())? else { return Ok(()) };
        let has_momentum = momentum != 0.0;
        let rule = Sgd {
            grad,
            decay,
            rate: -lr,
            momentum,
            keep: 1.0 - dampening,
            first,
            has_momentum,
            nesterov: l.param(4)?.bool(),
        };
        if has_momentum { update::<_, 1>(l, n, rule) } else { update::<_, 0>(l, n, rule) }
    }
}

/// Elements a buffer holds.
const CHUNK: usize = 512;
/// Elements of work that stay together.
const UNIT: usize = 8192;

/// The launch as tensors of operands: parameter, gradient, `NS` states.
struct Tensors<'a, const NS: usize> {
    l: &'a Launch<'a>,
    n: usize,
}

// SAFETY: tasks touch disjoint elements of the views.
unsafe impl<const NS: usize> Sync for Tensors<'_, NS> {}

impl<const NS: usize> Tensors<'_, NS> {
    fn operand(&self, i: usize, k: usize) -> Result<View<'_>> {
        match k {
            0 => self.l.output(i),
            1 => self.l.input(i),
            k => self.l.output((k - 1) * self.n + i),
        }
    }
}

unsafe fn update<U: Rule, const NS: usize>(l: &Launch<'_>, n: usize, rule: U) -> Result<()> {
    let tensors = Tensors::<NS> { l, n };
    // Everything is checked before anything is written.
    let (mut ends, mut units, mut elements) = (SmallVec::<[usize; 64]>::with_capacity(n), 0, 0);
    for i in 0..n {
        let numel = tensors.operand(i, 0)?.numel();
        for k in 0..NS + 2 {
            let v = tensors.operand(i, k)?;
            if !v.dtype.is_float() {
                return Err(not_float("optimizer update", v.dtype));
            }
            if v.numel() != numel {
                return Err(Error::runtime(format!(
                    "optimizer update: {numel} parameters but {} of operand {k}",
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
                match tensors.operand(i, 0) {
                    Ok(p) if p.dtype == DType::F64 => unit::<f64, U, NS>(isa, &tensors, i, from, rule),
                    _ => unit::<f32, U, NS>(isa, &tensors, i, from, rule),
                }
            }
        }
    });
    Ok(())
}

/// One unit of tensor `i`, in compute dtype `A`.
unsafe fn unit<A: Acc, U: Rule, const NS: usize>(isa: Isa, t: &Tensors<NS>, i: usize, from: usize, rule: U) {
    let Ok(p) = t.operand(i, 0) else { return };
    let len = (p.numel() - from).min(UNIT);
    let mut views = [p; 4];
    for (k, v) in views[..NS + 2].iter_mut().enumerate() {
        let Ok(operand) = t.operand(i, k) else { return };
        *v = operand;
    }
    let plain = |v: &View| v.dtype == A::DTYPE && v.is_contiguous();
    if views[..NS + 2].iter().all(plain) {
        let at = views.map(|v| v.ptr.cast::<A>().wrapping_add(from));
        return dispatch(isa, Step::<A, U, NS> { at, len, rule });
    }
    let mut buffers = [[A::splat(0.0); CHUNK]; 4];
    for from in (from..from + len).step_by(CHUNK) {
        let len = CHUNK.min(p.numel() - from);
        let mut at = [std::ptr::null_mut(); 4];
        for k in 0..NS + 2 {
            at[k] =
                if plain(&views[k]) { views[k].ptr.cast::<A>().wrapping_add(from) } else { buffers[k].as_mut_ptr() };
            if !plain(&views[k]) {
                // SAFETY: the elements lie inside the view.
                unsafe { fetch(isa, &views[k], from, &mut buffers[k][..len]) };
            }
        }
        dispatch(isa, Step::<A, U, NS> { at, len, rule });
        for k in (0..NS + 2).filter(|k| *k != 1 && !plain(&views[*k])) {
            // SAFETY: as above.
            unsafe { bring(isa, &views[k], from, &buffers[k][..len]) };
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
                grid.each(from..from + to.len(), |i, [o]| to[i - from] = A::of((*p.offset(o)).get().wide()));
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
                let put = |v: A| T::put(<T as Float>::Acc::of(v.wide()));
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
            by_register!(Reg<S, T>, self.len, |i, k, _u| { store(T::load::<S>(self.from.add(i), k), self.to.add(i), k); })
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
            by_register!(Reg<S, T>, self.len, |i, k, _u| { T::store::<S>(load(self.from.add(i), k), self.to.add(i), k); })
        }
    }
}

/// The rule over `len` elements of parameter, gradient and states.
struct Step<A, U, const NS: usize> {
    at: [*mut A; 4],
    len: usize,
    rule: U,
}

impl<A: Acc, U: Rule, const NS: usize> WithSimd for Step<A, U, NS> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let (Step { at, len, rule }, zero) = (self, A::Reg::<S>::splat(0.0));
        // SAFETY: every operand holds len elements.
        unsafe {
            by_register!(A::Reg<S>, len, |i, k, _u| {
                let (p, g): (A::Reg<S>, A::Reg<S>) = (load(at[0].add(i), k), load(at[1].add(i), k));
                let mut s = [zero; 2];
                if NS > 0 {
                    s[0] = load(at[2].add(i), k);
                }
                if NS > 1 {
                    s[1] = load(at[3].add(i), k);
                }
                let (p, s) = rule.step(p, g, s);
                store(p, at[0].add(i), k);
                if NS > 0 {
                    store(s[0], at[2].add(i), k);
                }
                if NS > 1 {
                    store(s[1], at[3].add(i), k);
                }
            });
        }
    }
}
