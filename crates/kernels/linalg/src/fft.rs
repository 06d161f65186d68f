//! Discrete Fourier transforms over any dimensions of strided tensors: one line at a time through rustfft, real lines
//! through realfft.

use oneflow_base::{DType, Error, Result};
use oneflow_ep::cpu;
use oneflow_kernels_prim::{Launch, View};
use realfft::num_complex::Complex;
use realfft::{FftNum, RealFftPlanner};
use rustfft::FftPlanner;
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;

/// # Safety
/// The contract of `prim::KernelFn`.
pub(crate) unsafe fn fft(l: &Launch<'_>) -> Result<()> {
    let (x, y) = (l.input(0)?, l.output(0)?);
    let wide = x.dtype == DType::F64 || x.dtype == DType::C128;
    let same_width = wide == (y.dtype == DType::F64 || y.dtype == DType::C128);
    let floats = [x, y].iter().all(|v| matches!(v.dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128));
    if !floats || !same_width || (x.dtype.is_float() && y.dtype.is_float()) {
        return Err(Error::not_implemented(format!("fft: no CPU kernel from {} to {}", x.dtype.name(), y.dtype.name())));
    }
    match wide {
        true => transform::<f64>(l, x, y),
        false => transform::<f32>(l, x, y),
    }
}

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
enum Kind {
    Complex { inverse: bool },
    RealToComplex,
    ComplexToReal,
    /// Only the element type changes.
    Widen,
}

/// One pass over the lines of a dimension.
#[derive(Clone, Copy)]
struct Pass<'a, R> {
    kind: Kind,
    dim: usize,
    src: *const u8,
    src_strides: &'a [i64],
    n_src: usize,
    dst: *mut u8,
    dst_strides: &'a [i64],
    n_dst: usize,
    /// Of the other dimensions; those of `dim` are not read.
    sizes: &'a [i64],
    scale: R,
    conjugate: bool,
}

// SAFETY: tasks read and write lines of their own.
unsafe impl<R: Sync> Sync for Pass<'_, R> {}

fn transform<R: FftNum>(l: &Launch<'_>, x: View<'_>, y: View<'_>) -> Result<()> {
    let (inverse, scale) = (l.param(0)?.bool(), l.param(1)?.f64());
    let n_dims = l.param(2)?.usize();
    let dims: Vec<usize> = (0..n_dims).map(|i| Ok(l.param(3 + i)?.usize())).collect::<Result<_>>()?;
    let scale = R::from_f64(scale).unwrap_or_else(R::one);
    let one = R::one();
    if x.numel() == 0 || y.numel() == 0 {
        return Ok(());
    }
    let complex = Kind::Complex { inverse };
    let size = |v: View<'_>, d: usize| v.sizes.get(d).map_or(1, |&s| s as usize);
    // In place over the result, after a first pass has filled it.
    let rest = |dims: &[usize], scale_last: R| {
        for (i, &dim) in dims.iter().enumerate() {
            let last = i + 1 == dims.len();
            let n = size(y, dim);
            run(Pass {
                kind: complex,
                dim,
                src: y.ptr,
                src_strides: y.strides,
                n_src: n,
                dst: y.ptr,
                dst_strides: y.strides,
                n_dst: n,
                sizes: y.sizes,
                scale: if last { scale_last } else { one },
                conjugate: false,
            });
        }
    };
    let first = |kind: Kind, dim: usize, scale: R| {
        run(Pass {
            kind,
            dim,
            src: x.ptr,
            src_strides: x.strides,
            n_src: size(x, dim),
            dst: y.ptr,
            dst_strides: y.strides,
            n_dst: size(y, dim),
            sizes: y.sizes,
            scale,
            conjugate: inverse,
        });
    };
    let Some((&last, others)) = dims.split_last() else {
        return Err(Error::not_implemented("fft: a transform over no dimension is a copy"));
    };
    if !y.dtype.is_complex() {
        return complex_to_real::<R>(x, y, (others, last), inverse, scale);
    }
    if x.dtype.is_complex() {
        let only = others.is_empty();
        first(complex, last, if only { scale } else { one });
        rest(others, scale);
        return Ok(());
    }
    let half = size(x, last) / 2 + 1;
    if size(y, last) == half {
        first(Kind::RealToComplex, last, if others.is_empty() { scale } else { one });
        rest(others, scale);
    } else {
        first(Kind::Widen, last, one);
        rest(&dims, scale);
    }
    Ok(())
}

/// The other dimensions first, in a copy of the half that is there; the real lines last.
fn complex_to_real<R: FftNum>(
    x: View<'_>,
    y: View<'_>,
    (others, last): (&[usize], usize),
    inverse: bool,
    scale: R,
) -> Result<()> {
    let strides = oneflow_base::contiguous_strides(x.sizes);
    let mut between = vec![Complex::<R>::new(R::zero(), R::zero()); if others.is_empty() { 0 } else { x.numel() }];
    let (mut src, mut src_strides) = (x.ptr.cast_const(), x.strides);
    for &dim in others {
        let n = x.sizes[dim] as usize;
        run(Pass {
            kind: Kind::Complex { inverse },
            dim,
            src,
            src_strides,
            n_src: n,
            dst: between.as_mut_ptr().cast(),
            dst_strides: &strides,
            n_dst: n,
            sizes: x.sizes,
            scale: R::one(),
            conjugate: false,
        });
        (src, src_strides) = (between.as_ptr().cast(), &strides);
    }
    run(Pass {
        kind: Kind::ComplexToReal,
        dim: last,
        src,
        src_strides,
        n_src: x.sizes[last] as usize,
        dst: y.ptr,
        dst_strides: y.strides,
        n_dst: y.sizes[last] as usize,
        sizes: y.sizes,
        scale,
        conjugate: !inverse,
    });
    Ok(())
}

fn run<R: FftNum>(pass: Pass<'_, R>) {
    let n_lines: usize =
        pass.sizes.iter().enumerate().map(|(d, &s)| if d == pass.dim { 1 } else { s as usize }).product();
    // About this many elements a task.
    const ELEMENTS: usize = 1 << 14;
    let chunk = (ELEMENTS / pass.n_src.max(pass.n_dst).max(1)).max(1);
    let shared = &pass;
    cpu::parallel_for(n_lines.div_ceil(chunk), &|task| lines(shared, task * chunk..((task + 1) * chunk).min(n_lines)));
}

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
