//! Rows of one channel, (n, c) of [n, c, ...]: their moments, the affine map, and both for the backward. What batch and group
//! norm are made of.

use crate::mem::{by_register, total};
use crate::row::Row;
use oneflow_base::{Result, by_float};
use oneflow_kernels_prim::rows::Shared;
use oneflow_kernels_prim::{Acc, Float, Lanes, Num, Reg, Register, Simd, View, WithSimd};

/// One operand of the walk by channels.
pub struct Rows<T> {
    pub at: Shared<T>,
    /// Strides of the batch and of the channels.
    pub down: isize,
    pub across: isize,
    pub row: Row,
}

impl<T: Float> Rows<T> {
    pub fn new(v: &View) -> Rows<T> {
        let row = Row::trailing(v, v.ndim() - 2);
        Rows { at: Shared::new(v.ptr), down: v.strides[0] as isize, across: v.strides[1] as isize, row }
    }
    /// Whether rows are read where they lie.
    pub fn direct(&self) -> bool {
        self.row.scratch() == 0
    }
    /// First element of (n, c).
    pub fn at(&self, n: usize, c: usize) -> *mut T {
        self.at.at(n as isize * self.down + c as isize * self.across)
    }
    /// Element (n, c) as a contiguous row.
    ///
    /// # Safety
    /// As `Row::read`; the indices are inside.
    pub unsafe fn read(&self, n: usize, c: usize, scratch: *mut T) -> *const T {
        // SAFETY: by the caller.
        unsafe { self.row.read(self.at(n, c), scratch) }
    }
}

/// Mean and sum of squared deviations, of a growing number of elements.
#[derive(Clone, Copy)]
pub struct Moments {
    pub n: f64,
    pub mean: f64,
    pub m2: f64,
}

impl Moments {
    pub const NONE: Moments = Moments { n: 0.0, mean: 0.0, m2: 0.0 };

    /// Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
    #[inline(always)]
    pub fn and(self, o: Moments) -> Moments {
        let n = self.n + o.n;
        if o.n == 0.0 || n == 0.0 {
            return self;
        }
        let d = o.mean - self.mean;
        Moments { n, mean: self.mean + d * (o.n / n), m2: self.m2 + o.m2 + d * d * (self.n * o.n / n) }
    }
}

/// The stride of a 1-D view.
pub fn step(v: &View) -> isize {
    v.strides.first().map_or(0, |s| *s as isize)
}

/// # Safety
/// The offset lies inside the view, which is valid for writes.
pub unsafe fn write(v: &View, offset: isize, x: f64) -> Result<()> {
    by_float!("batch_norm", v.dtype, T => {
        // SAFETY: by the caller.
        unsafe { *v.ptr.cast::<T>().offset(offset) = T::narrow(<T as Float>::Acc::of(x)) };
        Ok(())
    })
}

/// What a channel's gradients follow from: sum of g, sum of g (x - mean).
pub type Sums = [f64; 2];

/// Mean and squared deviations of `lines` rows, `down` apart; few enough to stay in a cache between its two passes.
pub struct RowMoments<T> {
    pub x: *const T,
    pub n: usize,
    pub lines: usize,
    pub down: isize,
}

impl<T: Float> WithSimd for RowMoments<T> {
    type Output = Moments;
    #[inline(always)]
    fn run<S: Simd>(self) -> Moments {
        let RowMoments { x, n, lines, down } = self;
        let count = (n * lines) as f64;
        // SAFETY: the rows hold n elements.
        unsafe {
            let mut acc = [Reg::<S, T>::splat(0.0); 4];
            for line in 0..lines as isize {
                let x = x.offset(line * down);
                by_register!(Reg<S, T>, n, |i, k, u| {
                    acc[u] = acc[u] + T::load_n::<S>(x.add(i), k);
                });
            }
            let mean = total(acc) * T::Acc::splat(1.0 / count);
            let m = Reg::<S, T>::all_of(mean);
            let mut acc = [Reg::<S, T>::splat(0.0); 4];
            for line in 0..lines as isize {
                let x = x.offset(line * down);
                by_register!(Reg<S, T>, n, |i, k, u| {
                    // The lanes beyond the row do not deviate.
                    let d = T::load_or::<S>(x.add(i), k, m) - m;
                    acc[u] = d.fma(d, acc[u]);
                });
            }
            Moments { n: count, mean: mean.to_f64(), m2: total(acc).to_f64() }
        }
    }
}

/// `y = (x - mean) scale + shift` on `lines` rows.
pub struct ApplyRow<T: Float> {
    pub x: *const T,
    pub y: *mut T,
    pub n: usize,
    pub lines: usize,
    /// From row to row of x and of y.
    pub down: [isize; 2],
    pub mean: T::Acc,
    pub scale: T::Acc,
    pub shift: T::Acc,
}

impl<T: Float> WithSimd for ApplyRow<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let (m, a, b) =
            (Reg::<S, T>::all_of(self.mean), Reg::<S, T>::all_of(self.scale), Reg::<S, T>::all_of(self.shift));
        for line in 0..self.lines as isize {
            // SAFETY: the rows hold n elements.
            unsafe {
                let (x, y) = (self.x.offset(line * self.down[0]), self.y.offset(line * self.down[1]));
                by_register!(Reg<S, T>, self.n, |i, k, _u| {
                    T::store_n::<S>((T::load_n::<S>(x.add(i), k) - m).fma(a, b), y.add(i), k);
                });
            }
        }
    }
}

/// Sums over `lines` rows.
pub struct RowSums<T: Float> {
    pub g: *const T,
    pub x: *const T,
    pub n: usize,
    pub lines: usize,
    pub down: [isize; 2],
    pub mean: T::Acc,
}

impl<T: Float> WithSimd for RowSums<T> {
    type Output = Sums;
    #[inline(always)]
    fn run<S: Simd>(self) -> Sums {
        let m = Reg::<S, T>::all_of(self.mean);
        let (mut a, mut b) = ([Reg::<S, T>::splat(0.0); 4], [Reg::<S, T>::splat(0.0); 4]);
        for line in 0..self.lines as isize {
            // SAFETY: the rows hold n elements; lanes beyond them have a zero gradient.
            unsafe {
                let (g, x) = (self.g.offset(line * self.down[0]), self.x.offset(line * self.down[1]));
                by_register!(Reg<S, T>, self.n, |i, k, u| {
                    let g = T::load_n::<S>(g.add(i), k);
                    a[u] = a[u] + g;
                    b[u] = g.fma(T::load_n::<S>(x.add(i), k) - m, b[u]);
                });
            }
        }
        [total(a).to_f64(), total(b).to_f64()]
    }
}

/// `gx = a g + b + (m - x) q` on `lines` rows.
pub struct BackwardRow<T: Float> {
    pub g: *const T,
    pub x: *const T,
    pub gx: *mut T,
    pub n: usize,
    pub lines: usize,
    pub down: [isize; 3],
    /// a, b, m, q
    pub by: [T::Acc; 4],
}

impl<T: Float> WithSimd for BackwardRow<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let ([a, b, m, q], [dg, dx, dy]) = (self.by.map(Reg::<S, T>::all_of), self.down);
        for line in 0..self.lines as isize {
            // SAFETY: the rows hold n elements.
            unsafe {
                let (g, x) = (self.g.offset(line * dg), self.x.offset(line * dx));
                let gx = self.gx.offset(line * dy);
                by_register!(Reg<S, T>, self.n, |i, k, _u| {
                    let g = T::load_n::<S>(g.add(i), k).fma(a, b);
                    let d = m - T::load_n::<S>(x.add(i), k);
                    T::store_n::<S>(d.fma(q, g), gx.add(i), k);
                });
            }
        }
    }
}
