//! Integer products, wrapping as torch's do. Plain row-by-row loops, vectorised by the compiler.

use crate::args::{GemmArgs, Mat};
use crate::isa::{Isa, for_isa};

pub(crate) trait Int: Copy + Send + Sync + 'static {
    const ZERO: Self;
    fn of(v: f64) -> Self;
    fn madd(self, a: Self, b: Self) -> Self;
}

macro_rules! int {
    ($($t:ty)*) => {$(
        impl Int for $t {
            const ZERO: $t = 0;
            fn of(v: f64) -> $t {
                v as $t
            }
            #[inline(always)]
            fn madd(self, a: $t, b: $t) -> $t {
                self.wrapping_add(a.wrapping_mul(b))
            }
        }
    )*};
}
int!(i8 u8 i16 i32 i64);

/// Columns of C summed at a time, in a buffer that stays in L1.
const COLUMNS: usize = 256;

/// Rows `rows` of one product.
///
/// # Safety
/// The matrices cover the problem and C overlaps neither operand.
pub(crate) unsafe fn rows<T: Int>(isa: Isa, args: &GemmArgs, (a, b, c): (Mat, Mat, Mat), rows: std::ops::Range<usize>) {
    // SAFETY: the tier is available and the contract the same.
    unsafe {
        for_isa!(isa, fn run<T: Int>(args: &GemmArgs, a: Mat, b: Mat, c: Mat, start: usize, end: usize) = body)(
            args, a, b, c, rows.start, rows.end,
        )
    }
}

#[inline(always)]
unsafe fn body<T: Int>(args: &GemmArgs, a: Mat, b: Mat, c: Mat, start: usize, end: usize) {
    let (alpha, beta) = (T::of(args.alpha), T::of(args.beta));
    let (pa, pb, pc) = (a.ptr.cast::<T>(), b.ptr.cast::<T>(), c.ptr.cast::<T>());
    for i in start..end {
        for j in (0..args.n).step_by(COLUMNS) {
            let n = COLUMNS.min(args.n - j);
            let mut sum = [T::ZERO; COLUMNS];
            // SAFETY: (i, j .. j + n) lies in C and every (i, p), (p, j) in the operands.
            unsafe {
                for p in 0..args.k as isize {
                    let x = *pa.offset(i as isize * a.rs + p * a.cs);
                    let row = pb.offset(p * b.rs + j as isize * b.cs);
                    if b.cs == 1 {
                        for (q, sum) in sum[..n].iter_mut().enumerate() {
                            *sum = sum.madd(x, *row.add(q));
                        }
                    } else {
                        for (q, sum) in sum[..n].iter_mut().enumerate() {
                            *sum = sum.madd(x, *row.offset(q as isize * b.cs));
                        }
                    }
                }
                for (q, &sum) in sum[..n].iter().enumerate() {
                    let c = pc.offset(i as isize * c.rs + (j + q) as isize * c.cs);
                    let old = if args.beta == 0.0 { T::ZERO } else { *c };
                    *c = T::ZERO.madd(alpha, sum).madd(beta, old);
                }
            }
        }
    }
}
