//! Transforms of lines: complex through rustfft, real through realfft.

use realfft::RealFftPlanner;
pub use rustfft::FftNum;
use rustfft::FftPlanner;
use rustfft::num_complex::Complex;
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;

/// A real type with transforms.
pub trait Line: FftNum {
    /// Runs a pass over some of its lines.
    ///
    /// # Safety
    /// The lines lie in the source and the destination of the pass, and nobody else writes those of the destination.
    unsafe fn lines(pass: &Pass<'_, Self>, range: std::ops::Range<usize>);
}
macro_rules! lines {
    ($($t:ty)*) => {$(
        impl Line for $t {
            unsafe fn lines(pass: &Pass<'_, $t>, range: std::ops::Range<usize>) {
                lines(pass, range)
            }
        }
    )*};
}
lines!(f32 f64);

/// The planners of one thread: plans are kept for every length met.
struct Planners<R: FftNum>(FftPlanner<R>, RealFftPlanner<R>);

thread_local! {
    static PLANNERS: RefCell<HashMap<TypeId, Box<dyn Any>>> = RefCell::default();
}

fn with_planners<R: FftNum, Out>(f: impl FnOnce(&mut Planners<R>) -> Out) -> Option<Out> {
    PLANNERS.with_borrow_mut(|all| {
        let planners = all
            .entry(TypeId::of::<R>())
            .or_insert_with(|| Box::new(Planners::<R>(FftPlanner::new(), RealFftPlanner::new())));
        planners.downcast_mut().map(f)
    })
}

/// What is done to each line.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Complex {
        inverse: bool,
    },
    RealToComplex,
    ComplexToReal,
    /// Only the element type changes.
    Widen,
}

/// One pass over the lines of a dimension.
#[derive(Clone, Copy)]
pub struct Pass<'a, R> {
    pub kind: Kind,
    pub dim: usize,
    pub src: *const u8,
    pub src_strides: &'a [i64],
    pub n_src: usize,
    pub dst: *mut u8,
    pub dst_strides: &'a [i64],
    pub n_dst: usize,
    /// Of the other dimensions; those of `dim` are not read.
    pub sizes: &'a [i64],
    pub scale: R,
    pub conjugate: bool,
}

// SAFETY: tasks read and write lines of their own.
unsafe impl<R: Sync> Sync for Pass<'_, R> {}

/// Element offset of a line.
fn offset(pass_sizes: &[i64], dim: usize, strides: &[i64], line: usize) -> isize {
    let mut rest = line as i64;
    let mut at = 0;
    for d in (0..pass_sizes.len()).rev() {
        if d != dim {
            at += rest % pass_sizes[d] * strides[d];
            rest /= pass_sizes[d];
        }
    }
    at as isize
}

fn lines<R: FftNum>(p: &Pass<'_, R>, range: std::ops::Range<usize>) {
    let stride = |s: &[i64]| s.get(p.dim).map_or(0, |&s| s as isize);
    let (src_step, dst_step) = (stride(p.src_strides), stride(p.dst_strides));
    let zero = Complex::new(R::zero(), R::zero());
    let mut c = vec![zero; p.n_src.max(p.n_dst)];
    let mut r = vec![R::zero(); p.n_src.max(p.n_dst)];
    let read_real = matches!(p.kind, Kind::RealToComplex | Kind::Widen);
    let plan = with_planners::<R, _>(|planners| match p.kind {
        Kind::Complex { inverse: false } => (Some(planners.0.plan_fft_forward(p.n_src)), None, None),
        Kind::Complex { inverse: true } => (Some(planners.0.plan_fft_inverse(p.n_src)), None, None),
        Kind::RealToComplex => (None, Some(planners.1.plan_fft_forward(p.n_src)), None),
        Kind::ComplexToReal => (None, None, Some(planners.1.plan_fft_inverse(p.n_dst))),
        Kind::Widen => (None, None, None),
    });
    let Some((complex, forward, backward)) = plan else { return };
    let scratch_len = [
        complex.as_ref().map(|f| f.get_inplace_scratch_len()),
        forward.as_ref().map(|f| f.get_scratch_len()),
        backward.as_ref().map(|f| f.get_scratch_len()),
    ];
    let mut scratch = vec![zero; scratch_len.into_iter().flatten().max().unwrap_or(0)];
    for line in range {
        let src_at = offset(p.sizes, p.dim, p.src_strides, line);
        let dst_at = offset(p.sizes, p.dim, p.dst_strides, line);
        // SAFETY: the line lies in the source view.
        unsafe {
            if read_real {
                let src = p.src.cast::<R>().offset(src_at);
                (0..p.n_src).for_each(|i| r[i] = *src.offset(i as isize * src_step));
            } else {
                let src = p.src.cast::<Complex<R>>().offset(src_at);
                (0..p.n_src).for_each(|i| c[i] = *src.offset(i as isize * src_step));
            }
        }
        match p.kind {
            Kind::Complex { .. } => {
                if let Some(plan) = &complex {
                    plan.process_with_scratch(&mut c[..p.n_src], &mut scratch);
                }
            }
            Kind::RealToComplex => {
                if let Some(plan) = &forward {
                    // Only lengths can be wrong here, and they are the plan's.
                    let _ = plan.process_with_scratch(&mut r[..p.n_src], &mut c[..p.n_dst], &mut scratch);
                }
                if p.conjugate {
                    c.iter_mut().for_each(|z| z.im = -z.im);
                }
            }
            Kind::ComplexToReal => {
                let half = p.n_dst / 2 + 1;
                c[half.min(p.n_src)..].fill(zero);
                if p.conjugate {
                    c.iter_mut().for_each(|z| z.im = -z.im);
                }
                // A real line has none there.
                c[0].im = R::zero();
                if p.n_dst.is_multiple_of(2) {
                    c[half - 1].im = R::zero();
                }
                if let Some(plan) = &backward {
                    let _ = plan.process_with_scratch(&mut c[..half], &mut r[..p.n_dst], &mut scratch);
                }
            }
            Kind::Widen => (0..p.n_src).for_each(|i| c[i] = Complex::new(r[i], R::zero())),
        }
        // SAFETY: the line lies in the destination view, and only this task writes it.
        unsafe {
            if p.kind == Kind::ComplexToReal {
                let dst = p.dst.cast::<R>().offset(dst_at);
                (0..p.n_dst).for_each(|i| *dst.offset(i as isize * dst_step) = r[i] * p.scale);
            } else {
                let dst = p.dst.cast::<Complex<R>>().offset(dst_at);
                (0..p.n_dst).for_each(|i| *dst.offset(i as isize * dst_step) = c[i] * p.scale);
            }
        }
    }
}
