//! FILL and ARANGE.

use crate::io::Io;
use crate::nest::Nest;
use crate::tiles::{STREAM_BYTES, fence};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::rows::{self, Shared};
use oneflow_kernels_prim::{
    ArangeParams, FillParams, Launch, LinspaceParams, Register, Simd, View, WithSimd, Word, dispatch, isa,
};

/// A number of the launch as the bytes of an element.
fn element(dtype: DType, is_float: bool, value: Word, imag: Option<f64>) -> Result<[u8; 16]> {
    let mut bytes = [0u8; 16];
    let kind = dtype.to_real();
    // SAFETY: one element is at most sixteen bytes.
    unsafe {
        if is_float {
            <f64 as Io>::store(kind)?(&value.f64(), 1, bytes.as_mut_ptr(), 1);
        } else {
            <i64 as Io>::store(kind)?(&value.i64(), 1, bytes.as_mut_ptr(), 1);
        }
        if let Some(imag) = imag.filter(|_| dtype.is_complex()) {
            <f64 as Io>::store(kind)?(&imag, 1, bytes.as_mut_ptr().add(kind.size()), 1);
        }
    }
    Ok(bytes)
}

pub unsafe fn fill(l: &Launch<'_>) -> Result<()> {
    let out = l.output(0)?;
    let FillParams { is_float, value, imaginary } = l.read()?;
    let bytes = element(out.dtype, is_float, value, imaginary)?;
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
    let stream = out.numel() * size_of::<E>() >= STREAM_BYTES;
    let run = |at: isize, n: usize| {
        // SAFETY: the run lies in the view. Complex numbers may be less aligned than their size.
        unsafe {
            if stride == 1 {
                fill_run(dst.at(at), n, v, stream);
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

/// One contiguous run.
unsafe fn fill_run<E: Copy>(dst: *mut E, n: usize, v: E, stream: bool) {
    // SAFETY: the caller's.
    unsafe {
        if size_of::<E>() == 1 {
            return std::ptr::write_bytes(dst.cast::<u8>(), *(&raw const v).cast::<u8>(), n);
        }
        let n_head = n.min(PATTERN / size_of::<E>());
        (0..n_head).for_each(|i| dst.add(i).write_unaligned(v));
        if n_head == n {
            return;
        }
        // The head is a whole number of elements: its bytes, repeated, are the rest.
        let mut pattern = [0u8; PATTERN];
        std::ptr::copy_nonoverlapping(dst.cast::<u8>(), pattern.as_mut_ptr(), PATTERN);
        dispatch(isa(), Repeat(&pattern, dst.cast(), n * size_of::<E>(), stream));
    }
}

/// Bytes of the widest register.
const PATTERN: usize = 64;

/// Repeats a pattern over bytes.
struct Repeat<'a>(&'a [u8; PATTERN], *mut u8, usize, bool);
impl WithSimd for Repeat<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Repeat(pattern, dst, n, stream) = self;
        let w = size_of::<S::F32>();
        // SAFETY: the destination holds `n` bytes; a pattern is a whole number of elements and of registers.
        unsafe {
            let mut i = 0;
            if stream && (dst as usize).is_multiple_of(w) {
                while i + PATTERN <= n {
                    for k in (0..PATTERN).step_by(w) {
                        S::F32::load(pattern.as_ptr().add(k).cast()).stream(dst.add(i + k).cast());
                    }
                    i += PATTERN;
                }
                fence();
            } else {
                while i + PATTERN <= n {
                    std::ptr::copy_nonoverlapping(pattern.as_ptr(), dst.add(i), PATTERN);
                    i += PATTERN;
                }
            }
            std::ptr::copy_nonoverlapping(pattern.as_ptr(), dst.add(i), n - i);
        }
    }
}

pub unsafe fn arange(l: &Launch<'_>) -> Result<()> {
    let out = l.output(0)?;
    if out.ndim() != 1 {
        return Err(Error::runtime(format!("arange: expected a 1-D output, got shape {:?}", out.sizes)));
    }
    let ArangeParams { is_float, start, step } = l.read()?;
    // SAFETY: the launch's contract.
    unsafe {
        if is_float {
            let (a, s) = (start.f64(), step.f64());
            sequence::<f64>(out, move |first, i| a + (first as f64 + i as f64) * s)
        } else {
            let (a, s) = (start.i64(), step.i64());
            sequence::<i64>(out, move |first, i| a.wrapping_add((first as i64).wrapping_add(i as i64).wrapping_mul(s)))
        }
    }
}

pub unsafe fn linspace(l: &Launch<'_>) -> Result<()> {
    let out = l.output(0)?;
    if out.ndim() != 1 {
        return Err(Error::runtime(format!("linspace: expected a 1-D output, got shape {:?}", out.sizes)));
    }
    let (load, store) = (<f64 as Io>::load(out.dtype)?, <f64 as Io>::store(out.dtype)?);
    let rounded = |v: f64| {
        let (mut bytes, mut back) = ([0u8; 16], 0.0);
        // SAFETY: one element is at most sixteen bytes.
        unsafe {
            store(&v, 1, bytes.as_mut_ptr(), 1);
            load(bytes.as_ptr(), 1, 1, &mut back);
        }
        back
    };
    let LinspaceParams { start, end } = l.read()?;
    let (a, b) = (rounded(start), rounded(end));
    let n = out.numel();
    let last = n.saturating_sub(1) as f64;
    let step = (b - a) / last.max(1.0);
    let middle = if n > 1 { (n / 2) as f64 } else { 1.0 };
    // SAFETY: the launch's contract.
    unsafe {
        sequence::<f64>(out, move |first, i| {
            let i = first as f64 + i as f64;
            let (up, down) = (i * step + a, (i - last) * step + b);
            if i < middle { up } else { down }
        })
    }
}

/// A piece of a sequence: first index, where it goes, and the rule.
struct Piece<'a, T, F>(usize, &'a mut [T], F);
impl<T: Io, F: Fn(usize, i32) -> T> WithSimd for Piece<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        for (i, v) in self.1.iter_mut().enumerate() {
            *v = (self.2)(self.0, i as i32);
        }
    }
}

/// Element `first + i` is `f(first, i)` with a small `i`: of 32 bits, which every instruction set casts to floats.
unsafe fn sequence<T: Io>(out: View<'_>, f: impl Fn(usize, i32) -> T + Sync + Copy) -> Result<()> {
    const CHUNK: usize = 512;
    let store = T::store(out.dtype)?;
    let (n, stride) = (out.numel(), out.strides[0] as isize);
    let dst = Shared::<u8>::new(out.ptr);
    rows::split(n.div_ceil(CHUNK), CHUNK as f64 * 0.3, &|r| {
        let mut buf = [T::default(); CHUNK];
        for c in r {
            let m = CHUNK.min(n - c * CHUNK);
            dispatch(isa(), Piece(c * CHUNK, &mut buf[..m], f));
            let at = (c * CHUNK) as isize * stride * out.dtype.size() as isize;
            // SAFETY: the chunk lies in the view.
            unsafe { store(buf.as_ptr(), m, dst.at(at), stride) };
        }
    });
    Ok(())
}
