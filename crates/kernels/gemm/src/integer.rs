//! Integer products, wrapping as torch's do. Plain row-by-row loops, vectorised by the compiler.

use crate::args::{GemmArgs, Mat};
use oneflow_kernels_prim::{Isa, Simd, WithSimd, dispatch};

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
    for i in rows {
        let row = i as isize;
        for j in (0..args.n).step_by(COLUMNS) {
            let column = j as isize;
            let task = Block {
                args,
                a: Line { ptr: a.ptr.cast::<T>().wrapping_offset(row * a.rs), stride: a.cs },
                b: Line { ptr: b.ptr.cast::<T>().wrapping_offset(column * b.cs), stride: b.cs },
                b_rs: b.rs,
                c: Line { ptr: c.ptr.cast::<T>().wrapping_offset(row * c.rs + column * c.cs), stride: c.cs },
                n: COLUMNS.min(args.n - j),
            };
            dispatch(isa.lanes(), task);
        }
    }
}

#[derive(Clone, Copy)]
struct Line<T> {
    ptr: *mut T,
    stride: isize,
}

/// A part of one row of C.
struct Block<'a, T> {
    args: &'a GemmArgs<'a>,
    a: Line<T>,
    b: Line<T>,
    b_rs: isize,
    c: Line<T>,
    n: usize,
}

impl<T: Int> WithSimd for Block<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Block { args, a, b, b_rs, c, n } = self;
        let (alpha, beta) = (T::of(args.alpha), T::of(args.beta));
        let mut sum = [T::ZERO; COLUMNS];
        // SAFETY: the block lies in C and every element of A and B it sums in the operands, by the contract of `rows`.
        unsafe {
            for p in 0..args.k as isize {
                let x = *a.ptr.offset(p * a.stride);
                let row = b.ptr.offset(p * b_rs);
                if b.stride == 1 {
                    for (q, sum) in sum[..n].iter_mut().enumerate() {
                        *sum = sum.madd(x, *row.add(q));
                    }
                } else {
                    for (q, sum) in sum[..n].iter_mut().enumerate() {
                        *sum = sum.madd(x, *row.offset(q as isize * b.stride));
                    }
                }
            }
            for (q, &sum) in sum[..n].iter().enumerate() {
                let c = c.ptr.offset(q as isize * c.stride);
                let old = if args.beta == 0.0 { T::ZERO } else { *c };
                *c = T::ZERO.madd(alpha, sum).madd(beta, old);
            }
        }
    }
}
