//! PAIR_DISTANCES: norms of the differences of all pairs of rows, of which none is kept.

use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{
    Acc, Float, Launch, Num, PairDistancesParams, Reg, Register, Simd, View, WithSimd, dispatch, isa,
};
use std::marker::PhantomData;

/// Rows of the second operand that a row of the first meets at a time.
const SIDE: usize = 4;

pub unsafe fn pair_distances(l: &Launch<'_>) -> Result<()> {
    let (a, b, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let PairDistancesParams { p } = l.read()?;
    let is_row = |v: &View| v.strides.last() == Some(&1) || v.sizes.last() == Some(&1);
    if a.ndim() < 2 || !is_row(&a) || !is_row(&b) || a.dtype != b.dtype {
        return Err(Error::not_implemented("pair_distances: rows whose elements lie apart"));
    }
    // SAFETY: the views are valid by the launch's contract.
    unsafe {
        match a.dtype {
            DType::F32 => by_norm::<f32>(&a, &b, &out, p),
            DType::F64 => by_norm::<f64>(&a, &b, &out, p),
            other => return Err(Error::not_implemented(format!("pair_distances: no kernel for {other}"))),
        }
    }
    Ok(())
}

/// How sizes of differences become a distance.
trait Norm: 'static {
    fn join<R: Register>(acc: R, size: R, p: R) -> R;
    /// The lanes joined, and the root.
    fn finish<R: Register>(acc: R, p: f64) -> R;
}

macro_rules! norms {
    ($($name:ident, |$acc:ident, $size:ident, $p:ident| $join:expr, |$sum:ident, $q:ident| $root:expr;)*) => {$(
        struct $name;
        impl Norm for $name {
            #[inline(always)]
            fn join<R: Register>($acc: R, $size: R, $p: R) -> R {
                $join
            }
            #[inline(always)]
            fn finish<R: Register>($sum: R, $q: f64) -> R {
                $root
            }
        }
    )*};
}
norms! {
    Count, |acc, size, _p| acc + R::select(size.is_nan(), size, R::from_mask(size.is_true())), |sum, _p| sum;
    Sum, |acc, size, _p| acc + size, |sum, _p| sum;
    Euclidean, |acc, size, _p| size.fma(size, acc), |sum, _p| sum.sqrt();
    Other, |acc, size, p| acc + size.pow(p), |sum, p| sum.pow(R::splat(1.0 / p));
}
unsafe fn by_norm<T: Float<Acc = T> + Acc>(a: &View, b: &View, out: &View, p: f64) {
    // SAFETY: the caller's.
    unsafe {
        if p == 0.0 {
            pairs::<T, Count>(a, b, out, p)
        } else if p == 1.0 {
            pairs::<T, Sum>(a, b, out, p)
        } else if p == 2.0 {
            pairs::<T, Euclidean>(a, b, out, p)
        } else {
            pairs::<T, Other>(a, b, out, p)
        }
    }
}

/// One row of the first operand with all rows of the second.
struct Line<T, N> {
    a: *const T,
    b: *const T,
    out: *mut T,
    /// Elements of a row.
    m: usize,
    /// Rows of the second operand, and what lies between them and between results.
    n: usize,
    steps: [isize; 2],
    p: f64,
    norm: PhantomData<N>,
}

impl<T: Float<Acc = T> + Acc, N: Norm> WithSimd for Line<T, N> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let mut j = 0;
        // SAFETY: rows lie in the operands.
        unsafe {
            while j + SIDE <= self.n {
                self.some::<S, SIDE>(j);
                j += SIDE;
            }
            while j < self.n {
                self.some::<S, 1>(j);
                j += 1;
            }
        }
    }
}

impl<T: Float<Acc = T> + Acc, N: Norm> Line<T, N> {
    /// `K` rows of the second operand from row `j` on: their sums do not wait for each other.
    #[inline(always)]
    unsafe fn some<S: Simd, const K: usize>(&self, j: usize) {
        let (w, zero) = (Reg::<S, T>::WIDTH, Reg::<S, T>::splat(0.0));
        let p = Reg::<S, T>::splat(self.p);
        let mut acc = [zero; K];
        // SAFETY: every load stays in its row; missing lanes are equal in both and differ by nothing.
        unsafe {
            let row = |k: usize| self.b.offset((j + k) as isize * self.steps[0]);
            let mut i = 0;
            while i + w <= self.m {
                let a = Reg::<S, T>::load(self.a.add(i));
                for (k, acc) in acc.iter_mut().enumerate() {
                    *acc = N::join(*acc, (a - Reg::<S, T>::load(row(k).add(i))).abs(), p);
                }
                i += w;
            }
            if i < self.m {
                let left = self.m - i;
                let a = Reg::<S, T>::load_partial(self.a.add(i), left);
                for (k, acc) in acc.iter_mut().enumerate() {
                    *acc = N::join(*acc, (a - Reg::<S, T>::load_partial(row(k).add(i), left)).abs(), p);
                }
            }
            for (k, acc) in acc.into_iter().enumerate() {
                let joined: T = acc.sum();
                *self.out.offset((j + k) as isize * self.steps[1]) = N::finish(joined, self.p);
            }
        }
    }
}

unsafe fn pairs<T: Float<Acc = T> + Acc, N: Norm>(a: &View, b: &View, out: &View, p: f64) {
    let d = out.ndim();
    let (rows, n, m) = (d - 2, out.sizes[d - 1] as usize, a.sizes[d - 1] as usize);
    // Of every operand the batch and the rows of the first one; the second stays for those.
    let mut b_rows: Vec<i64> = b.strides[..=rows].to_vec();
    b_rows[rows] = 0;
    let grid = Grid::new(&out.sizes[..=rows], [&out.strides[..=rows], &a.strides[..=rows], &b_rows]);
    let steps = [b.strides[rows] as isize, out.strides[d - 1] as isize];
    let (po, pa, pb) = (Shared::<T>::new(out.ptr), Shared::<T>::new(a.ptr), Shared::<T>::new(b.ptr));
    let isa = isa();
    split(grid.len(), (n * m.max(4)) as f64 * 0.15, &|r| {
        grid.each(r, |_, [o, x, y]| {
            let line = Line::<T, N> {
                a: pa.at(x).cast_const(),
                b: pb.at(y).cast_const(),
                out: po.at(o),
                m,
                n,
                steps,
                p,
                norm: PhantomData,
            };
            dispatch(isa, line);
        });
    });
}
