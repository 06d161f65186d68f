//! FILL and ARANGE.

use crate::io::Io;
use crate::nest::Nest;
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::rows::{self, Shared};
use oneflow_kernels_prim::{Launch, View, Word};

/// A number of the launch as the bytes of an element; complex numbers get no imaginary part.
fn element(dtype: DType, is_float: bool, value: Word) -> Result<[u8; 16]> {
    let mut bytes = [0u8; 16];
    let kind = match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        d => d,
    };
    // SAFETY: one element is at most sixteen bytes.
    unsafe {
        if is_float {
            f64::store(kind)?(&value.f64(), 1, bytes.as_mut_ptr(), 1);
        } else {
            i64::store(kind)?(&value.i64(), 1, bytes.as_mut_ptr(), 1);
        }
    }
    Ok(bytes)
}

pub unsafe fn fill(l: &Launch<'_>) -> Result<()> {
    let out = l.output(0)?;
    let bytes = element(out.dtype, l.param(0)?.bool(), l.param(1)?)?;
    // SAFETY: the launch's contract.
    unsafe { fill_view(out, bytes) };
    Ok(())
}

/// Sets every element of a view to the given bytes.
///
/// # Safety
/// The view is valid for writes.
pub unsafe fn fill_view(out: View<'_>, bytes: [u8; 16]) {
    let p = bytes.as_ptr();
    // SAFETY: the pattern has sixteen bytes; the view is the caller's.
    unsafe {
        match out.dtype.size() {
            1 => fill_as::<u8>(out, bytes[0]),
            2 => fill_as::<u16>(out, p.cast::<u16>().read_unaligned()),
            4 => fill_as::<u32>(out, p.cast::<u32>().read_unaligned()),
            8 => fill_as::<u64>(out, p.cast::<u64>().read_unaligned()),
            _ => fill_as::<u128>(out, p.cast::<u128>().read_unaligned()),
        }
    }
}

unsafe fn fill_as<E: Copy + Send + Sync>(out: View<'_>, v: E) {
    if out.numel() == 0 {
        return;
    }
    let nest = Nest::new(out.sizes, &[out.strides]);
    let (n, stride) = (nest.inner(), nest.inner_strides()[0]);
    let dst = Shared::<E>::new(out.ptr);
    let run = |at: isize, n: usize| {
        // SAFETY: the run lies in the view. Complex numbers may be less aligned than their size.
        unsafe {
            if stride == 1 {
                (0..n as isize).for_each(|i| dst.at(at + i).write_unaligned(v));
            } else {
                (0..n as isize).for_each(|i| dst.at(at + i * stride).write_unaligned(v));
            }
        }
    };
    let ns = 0.03 * size_of::<E>() as f64;
    if nest.ndim() == 1 {
        rows::split(n.div_ceil(4096), ns * 4096.0, &|r| {
            let (a, b) = (r.start * 4096, n.min(r.end * 4096));
            run(a as isize * stride, b - a);
        });
    } else {
        rows::split(nest.rows(1), ns * n as f64, &|r| {
            let mut walk = nest.walk(1, r.start);
            for _ in r {
                run(walk.offsets[0], n);
                walk.next();
            }
        });
    }
}

pub unsafe fn arange(l: &Launch<'_>) -> Result<()> {
    let out = l.output(0)?;
    if out.ndim() != 1 {
        return Err(Error::runtime(format!("arange: expected a 1-D output, got shape {:?}", out.sizes)));
    }
    // SAFETY: the launch's contract.
    unsafe {
        if l.param(0)?.bool() {
            let (start, step) = (l.param(1)?.f64(), l.param(2)?.f64());
            sequence::<f64>(out, |i| start + i as f64 * step)
        } else {
            let (start, step) = (l.param(1)?.i64(), l.param(2)?.i64());
            sequence::<i64>(out, |i| start.wrapping_add((i as i64).wrapping_mul(step)))
        }
    }
}

unsafe fn sequence<T: Io>(out: View<'_>, f: impl Fn(usize) -> T + Sync) -> Result<()> {
    const CHUNK: usize = 512;
    let store = T::store(out.dtype)?;
    let (n, stride) = (out.numel(), out.strides[0] as isize);
    let dst = Shared::<u8>::new(out.ptr);
    rows::split(n.div_ceil(CHUNK), CHUNK as f64 * 0.5, &|r| {
        let mut buf = [T::default(); CHUNK];
        for c in r {
            let m = CHUNK.min(n - c * CHUNK);
            for (i, b) in buf.iter_mut().enumerate().take(m) {
                *b = f(c * CHUNK + i);
            }
            let at = (c * CHUNK) as isize * stride * out.dtype.size() as isize;
            // SAFETY: the chunk lies in the view.
            unsafe { store(buf.as_ptr(), m, dst.at(at), stride) };
        }
    });
    Ok(())
}
