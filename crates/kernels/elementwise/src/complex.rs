//! Reductions and scans of complex numbers. Sums are those of the parts, which are views of floats; products and truths walk
//! the numbers one by one.

use crate::io::{Io, unsupported};
use crate::nest::Nest;
use oneflow_base::{DType, Dims, Result};
use oneflow_kernels_prim::{Cx, ReduceKind, View};

/// The dtype of the parts.
pub fn part(dtype: DType) -> DType {
    if dtype == DType::C64 { DType::F32 } else { DType::F64 }
}

/// Sizes and strides of a complex view as floats, with the parts as a last dimension.
pub struct Parts {
    ptr: *mut u8,
    dtype: DType,
    sizes: Dims,
    strides: Dims,
}

impl Parts {
    pub fn of(v: View<'_>) -> Parts {
        let mut sizes = Dims::from_slice(v.sizes);
        let mut strides: Dims = v.strides.iter().map(|s| s * 2).collect();
        sizes.push(2);
        strides.push(1);
        Parts { ptr: v.ptr, dtype: part(v.dtype), sizes, strides }
    }
    /// Both parts.
    pub fn both(&self) -> View<'_> {
        View { ptr: self.ptr, dtype: self.dtype, sizes: &self.sizes, strides: &self.strides }
    }
    /// The real (0) or imaginary (1) part.
    pub fn one(&self, i: usize) -> View<'_> {
        let n = self.sizes.len() - 1;
        View {
            ptr: self.ptr.wrapping_add(i * self.dtype.size()),
            dtype: self.dtype,
            sizes: &self.sizes[..n],
            strides: &self.strides[..n],
        }
    }
}

/// Runs `f` on the parts of views of which at least one is complex: part by part where both are, else on the real parts.
///
/// # Safety
/// The views are valid for what `f` does with them.
pub unsafe fn by_parts(x: View<'_>, out: View<'_>, f: &dyn Fn(View<'_>, View<'_>) -> Result<()>) -> Result<()> {
    if x.dtype.is_complex() && out.dtype.is_complex() {
        return f(Parts::of(x).both(), Parts::of(out).both());
    }
    if x.dtype.is_complex() {
        return f(Parts::of(x).one(0), out);
    }
    let parts = Parts::of(out);
    // SAFETY: the imaginary part of the output is a view of floats.
    unsafe { crate::fill::fill_view(parts.one(1), [0; 16]) };
    f(x, parts.one(0))
}

/// Products and truths over the dimensions that `out` keeps with size one.
///
/// # Safety
/// As for the launch of REDUCE.
pub unsafe fn reduce(x: View<'_>, out: View<'_>, kind: ReduceKind) -> Result<()> {
    type Wide = Cx<f64>;
    let (load, store) = (Wide::load(x.dtype)?, Wide::store(out.dtype)?);
    let join: fn(Wide, Wide) -> Wide = match kind {
        ReduceKind::Prod => |a, b| a * b,
        ReduceKind::Any => |a, b| Cx::from_mask(a.is_true() | b.is_true()),
        ReduceKind::All => |a, b| Cx::from_mask(a.is_true() & b.is_true()),
        _ => return Err(unsupported(x.dtype)),
    };
    let identity = Cx::splat(if kind == ReduceKind::Any { 0.0 } else { 1.0 });
    let is_kept = |d: &usize| x.sizes[*d] == out.sizes[*d];
    let pick = |v: &[i64], keep: bool| -> Dims { (0..x.ndim()).filter(|d| is_kept(d) == keep).map(|d| v[d]).collect() };
    let kept = Nest::new(&pick(x.sizes, true), &[&pick(x.strides, true), &pick(out.strides, true)]);
    let (inner_sizes, inner_strides) = (pick(x.sizes, false), pick(x.strides, false));
    let reduced = Nest::new(&inner_sizes, &[&inner_strides]);
    let empty = inner_sizes.contains(&0);
    if out.numel() == 0 {
        return Ok(());
    }
    let mut at = kept.walk(0, 0);
    let mut buf = [Wide::default(); 256];
    for _ in 0..kept.rows(0) {
        let mut acc = identity;
        let mut walk = reduced.walk(1, 0);
        for _ in 0..if empty { 0 } else { reduced.rows(1) } {
            let (n, stride) = (reduced.inner(), reduced.inner_strides()[0]);
            for i in (0..n).step_by(buf.len()) {
                let m = buf.len().min(n - i);
                let offset = (at.offsets[0] + walk.offsets[0] + i as isize * stride) * x.dtype.size() as isize;
                // SAFETY: the run lies in the input.
                unsafe { load(x.ptr.offset(offset), stride, m, buf.as_mut_ptr()) };
                acc = buf[..m].iter().fold(acc, |a, b| join(a, *b));
            }
            walk.next();
        }
        // SAFETY: the output of this position.
        unsafe { store(&acc, 1, out.ptr.offset(at.offsets[1] * out.dtype.size() as isize), 1) };
        at.next();
    }
    Ok(())
}

/// Running products along a dimension.
///
/// # Safety
/// As for the launch of SCAN.
pub unsafe fn cumprod(x: View<'_>, out: View<'_>, dim: usize) -> Result<()> {
    type Wide = Cx<f64>;
    let (load, store) = (Wide::load(x.dtype)?, Wide::store(out.dtype)?);
    if out.numel() == 0 {
        return Ok(());
    }
    let without = |v: &[i64]| -> Dims { (0..v.len()).filter(|d| *d != dim).map(|d| v[d]).collect() };
    let lines = Nest::new(&without(x.sizes), &[&without(x.strides), &without(out.strides)]);
    let n = x.sizes.get(dim).copied().unwrap_or(1) as isize;
    let along = [x, out].map(|v| v.strides.get(dim).copied().unwrap_or(0) as isize);
    let mut at = lines.walk(0, 0);
    for _ in 0..lines.rows(0) {
        let mut acc = Cx::splat(1.0);
        for i in 0..n {
            let mut v = Wide::default();
            // SAFETY: the line lies in both views; an element is read before it is written.
            unsafe {
                load(x.ptr.offset((at.offsets[0] + i * along[0]) * x.dtype.size() as isize), 1, 1, &mut v);
                acc = acc * v;
                store(&acc, 1, out.ptr.offset((at.offsets[1] + i * along[1]) * out.dtype.size() as isize), 1);
            }
        }
        at.next();
    }
    Ok(())
}
