//! Reading index tensors: everything is checked here, before a kernel writes. Only gathers of neighbours check for themselves.

use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::rows::Grid;
use oneflow_kernels_prim::{Simd, View, WithSimd, dispatch, isa};
use smallvec::SmallVec;

/// Checked indices or the element offsets they lead to; inline for short ones.
pub type Offsets = SmallVec<[i64; 128]>;

/// torch's text for an index outside a dimension.
#[cold]
pub fn out_of_bounds(index: i64, dim: usize, size: i64) -> Error {
    Error::index(format!("index {index} is out of bounds for dimension {dim} with size {size}"))
}

/// The elements of an index tensor in row-major order.
fn each(v: &View, f: &mut dyn FnMut(usize, i64)) -> Result<()> {
    let mut grid = Grid::new(v.sizes, [v.strides]);
    let (n, [step]) = grid.pop_inner();
    macro_rules! walk {
        ($t:ty) => {
            grid.each(0..grid.len(), |i, [off]| {
                // SAFETY: the offsets lie inside the view, which is valid for reads.
                (0..n).for_each(|j| f(i * n + j, unsafe { *v.ptr.cast::<$t>().offset(off + j as isize * step) } as i64))
            })
        };
    }
    match v.dtype {
        DType::I64 => walk!(i64),
        DType::I32 => walk!(i32),
        other => return Err(Error::index(format!("tensors used as indices must be int64 or int32, but got {other}"))),
    }
    Ok(())
}

/// Whether one of the indices lies outside `0..size`: without branches, so that it runs at the speed of memory.
pub struct Outside<'a>(pub &'a [i64], pub i64);
impl WithSimd for Outside<'_> {
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(self) -> bool {
        self.0.iter().fold(false, |any, &i| any | (i as u64 >= self.1 as u64))
    }
}

/// The plain case of `add_offsets`; whether an index lies outside.
struct AddOffsets<'a> {
    all: &'a [i64],
    size: i64,
    stride: i64,
    wrap: bool,
    offsets: &'a mut [i64],
}
impl WithSimd for AddOffsets<'_> {
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(self) -> bool {
        let mut outside = false;
        for (offset, &raw) in self.offsets.iter_mut().zip(self.all) {
            let i = if self.wrap && raw < 0 { raw + self.size } else { raw };
            outside |= i as u64 >= self.size as u64;
            *offset += i.wrapping_mul(self.stride);
        }
        outside
    }
}

/// Adds `index * stride` to each of `offsets`. Negative indices count from the end where `wrap` says so.
pub fn add_offsets(v: &View, dim: usize, size: i64, stride: i64, wrap: bool, offsets: &mut [i64]) -> Result<()> {
    if v.dtype == DType::I64 && v.is_contiguous() {
        // SAFETY: a contiguous view is valid for its number of elements.
        let all = unsafe { std::slice::from_raw_parts(v.ptr.cast::<i64>(), v.numel()) };
        let outside = dispatch(isa(), AddOffsets { all, size, stride, wrap, offsets });
        let is_bad = |i: &&i64| ((if wrap && **i < 0 { **i + size } else { **i }) as u64) >= size as u64;
        return match all.iter().find(|i| outside && is_bad(i)) {
            Some(&raw) => Err(out_of_bounds(raw, dim, size)),
            None => Ok(()),
        };
    }
    let mut bad = None;
    each(v, &mut |p, raw| {
        let i = if wrap && raw < 0 { raw + size } else { raw };
        if (i as u64) < size as u64 {
            offsets[p] += i * stride;
        } else if bad.is_none() {
            bad = Some(raw);
        }
    })?;
    bad.map_or(Ok(()), |raw| Err(out_of_bounds(raw, dim, size)))
}

/// Checks that every index lies in `0..size`.
pub fn check(v: &View, dim: usize, size: i64) -> Result<()> {
    if v.dtype == DType::I64 && v.is_contiguous() {
        // SAFETY: a contiguous view is valid for its number of elements.
        let all = unsafe { std::slice::from_raw_parts(v.ptr.cast::<i64>(), v.numel()) };
        const BLOCK: usize = 4096;
        let isa = isa();
        let bad = all.chunks(BLOCK).position(|c| dispatch(isa, Outside(c, size)));
        return match bad {
            None => Ok(()),
            Some(b) => {
                let at = all[b * BLOCK..].iter().find(|i| (**i as u64) >= size as u64);
                Err(out_of_bounds(at.copied().unwrap_or_default(), dim, size))
            }
        };
    }
    let mut bad = None;
    each(v, &mut |_, i| {
        if (i as u64) >= size as u64 && bad.is_none() {
            bad = Some(i);
        }
    })?;
    bad.map_or(Ok(()), |i| Err(out_of_bounds(i, dim, size)))
}
