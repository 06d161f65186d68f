//! A multiply-add, and copies of rows in whole registers.

use oneflow_kernels_prim::{Acc, Register, Simd, WithSimd};

/// `a * b + c`; machines without the instruction round twice.
#[inline(always)]
pub fn madd<R: Register>(a: R, b: R, c: R) -> R {
    if R::WIDTH == 1 { a * b + c } else { a.fma(b, c) }
}

/// Where one run of a row comes from and goes to.
#[derive(Clone, Copy, Debug)]
pub struct Seg {
    pub from: isize,
    pub to: usize,
    pub len: usize,
}

/// Gathers rows: row `i` of `dst` receives the segments from `src + offsets[i]`. Whole registers are read and stored:
/// behind a segment's end lies what the next one overwrites.
pub struct CopyRows<'a, A: Acc> {
    pub src: *const A,
    pub offsets: &'a [isize],
    pub segs: &'a [Seg],
    pub dst: *mut A,
    pub dst_rs: usize,
}

impl<A: Acc> WithSimd for CopyRows<'_, A> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = <A::Reg<S> as Register>::WIDTH;
        for (i, offset) in self.offsets.iter().enumerate() {
            for seg in self.segs {
                let src = self.src.wrapping_offset(offset + seg.from);
                let dst = self.dst.wrapping_add(i * self.dst_rs + seg.to);
                for at in (0..seg.len).step_by(width) {
                    // SAFETY: the caller's rows lie in the buffers, with spare bytes behind both.
                    unsafe { <A::Reg<S> as Register>::load(src.add(at)).store(dst.add(at)) };
                }
            }
        }
    }
}
