//! Discrete Fourier transforms over any dimensions of strided tensors, one pass over lines for each.

use oneflow_base::{DType, Error, Result};
use oneflow_ep::cpu;
use oneflow_kernels_decompose::fft::{Kind, Line, Pass};
use oneflow_kernels_prim::{FftParams, Launch, View};

/// # Safety
/// The contract of `prim::KernelFn`.
pub(crate) unsafe fn fft(l: &Launch<'_>) -> Result<()> {
    let (x, y) = (l.input(0)?, l.output(0)?);
    let wide = x.dtype == DType::F64 || x.dtype == DType::C128;
    let same_width = wide == (y.dtype == DType::F64 || y.dtype == DType::C128);
    let floats = [x, y].iter().all(|v| matches!(v.dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128));
    if !floats || !same_width || (x.dtype.is_float() && y.dtype.is_float()) {
        return Err(Error::not_implemented(format!(
            "fft: no CPU kernel from {} to {}",
            x.dtype.name(),
            y.dtype.name()
        )));
    }
    match wide {
        true => transform::<f64>(l, x, y),
        false => transform::<f32>(l, x, y),
    }
}

fn transform<R: Line>(l: &Launch<'_>, x: View<'_>, y: View<'_>) -> Result<()> {
    let FftParams { inverse, scale, dims } = l.read()?;
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
    // The half that a real line has, or all of it: whichever the result has room for.
    first(Kind::RealToComplex, last, if others.is_empty() { scale } else { one });
    rest(others, scale);
    Ok(())
}

/// The other dimensions first, in a copy of the half that is there; the real lines last.
fn complex_to_real<R: Line>(
    x: View<'_>,
    y: View<'_>,
    (others, last): (&[usize], usize),
    inverse: bool,
    scale: R,
) -> Result<()> {
    let strides = oneflow_base::contiguous_strides(x.sizes);
    let mut between = vec![[R::zero(); 2]; if others.is_empty() { 0 } else { x.numel() }];
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

fn run<R: Line>(pass: Pass<'_, R>) {
    let n_lines: usize =
        pass.sizes.iter().enumerate().map(|(d, &s)| if d == pass.dim { 1 } else { s as usize }).product();
    // About this many elements a task.
    const ELEMENTS: usize = 1 << 14;
    let chunk = (ELEMENTS / pass.n_src.max(pass.n_dst).max(1)).max(1);
    let shared = &pass;
    cpu::parallel_for(n_lines.div_ceil(chunk), &|task| {
        // SAFETY: a pass is made of views that hold its lines, and tasks have lines of their own.
        unsafe { R::lines(shared, task * chunk..((task + 1) * chunk).min(n_lines)) }
    });
}
