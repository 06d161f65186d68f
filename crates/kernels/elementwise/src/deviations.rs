//! SQUARE_DEVIATIONS: sums of squared deviations from the mean along runs that lie without gaps, divided by the first
//! parameter, and the root of that where the second says so; rounded once. Other layouts it declines.
//!
//! A block is read from memory for its mean and from the first cache for its deviations; blocks are joined by the formula of
//! Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979. Long runs are
//! cut by their length alone, so that the result does not depend on the number of threads.

use crate::nest::Nest;
use crate::vector::{Sum, fold_run};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::rows::{self, Shared};
use oneflow_kernels_prim::{DeviationsParams, Launch, Register, Simd, View, WithSimd, dispatch, isa};
use smallvec::SmallVec;

/// Elements that are looked at twice.
const BLOCK: usize = 1024;
/// Elements of a piece.
const PIECE: usize = 64 << 10;

pub unsafe fn square_deviations(l: &Launch<'_>) -> Result<()> {
    let (x, out) = (l.input(0)?, l.output(0)?);
    let DeviationsParams { divisor, root } = l.read()?;
    let by = (divisor, root);
    // SAFETY: the launch's contract.
    unsafe {
        match (x.dtype, out.dtype) {
            (DType::F32, DType::F32) => run::<f32>(&x, &out, by),
            (DType::F64, DType::F64) => run::<f64>(&x, &out, by),
            (d, _) => Err(Error::not_implemented(format!("square_deviations: dtype {d}"))),
        }
    }
}

/// Numbers, their mean and the sum of their squared deviations from it.
#[derive(Clone, Copy, Default)]
struct Moments {
    n: f64,
    mean: f64,
    deviations: f64,
}

impl Moments {
    #[inline(always)]
    fn join(self, o: Moments) -> Moments {
        let (n, apart) = (self.n + o.n, o.mean - self.mean);
        if self.n == 0.0 {
            return o;
        }
        let mean = self.mean + apart * (o.n / n);
        Moments { n, mean, deviations: self.deviations + o.deviations + apart * apart * (self.n * o.n / n) }
    }
}

trait Real: Copy + Send + Sync {
    fn of(v: f64) -> Self;
    fn to_f64(self) -> f64;
    /// # Safety
    /// `p` is valid for `n` reads.
    unsafe fn block<S: Simd>(p: *const Self, n: usize) -> Moments;
}

macro_rules! real {
    ($t:ident $reg:ident) => {
        impl Real for $t {
            fn of(v: f64) -> $t {
                v as $t
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            unsafe fn block<S: Simd>(p: *const $t, n: usize) -> Moments {
                // SAFETY: the caller's.
                unsafe { block::<S::$reg>(p, n, |v| v as f64) }
            }
        }
    };
}
real!(f32 F32);
real!(f64 F64);

#[inline(always)]
unsafe fn block<R: Register>(p: *const R::Elem, n: usize, wide: impl Fn(R::Elem) -> f64) -> Moments {
    let w = R::WIDTH;
    // SAFETY: every load stays below `n`; the array holds the widest register.
    unsafe {
        let mean = wide(fold_run::<R, Sum>(p, n)) / n as f64;
        let centre = R::splat(mean);
        let mut sums = [R::splat(0.0); 4];
        let mut i = 0;
        while i + 4 * w <= n {
            for (k, s) in sums.iter_mut().enumerate() {
                let d = R::load(p.add(i + k * w)) - centre;
                *s = d.fma(d, *s);
            }
            i += 4 * w;
        }
        while i < n {
            let m = w.min(n - i);
            let d = R::load_partial_or(p.add(i), m, centre) - centre;
            sums[0] = d.fma(d, sums[0]);
            i += m;
        }
        let around = wide(((sums[0] + sums[1]) + (sums[2] + sums[3])).sum());
        // The centre is the mean rounded.
        let mut first = [R::Elem::default(); 16];
        centre.store(first.as_mut_ptr());
        let off = mean - wide(first[0]);
        let exact = around - n as f64 * off * off;
        let deviations = match off.is_finite() {
            true if exact < 0.0 => 0.0,
            true => exact,
            // Numbers that are not finite, or whose sum overflows the format.
            false => return far(p, n, wide),
        };
        Moments { n: n as f64, mean, deviations }
    }
}

/// The moments of a block whose sum is not finite in its own format, in f64. NaN and infinity stay what they are.
#[cold]
unsafe fn far<E: Copy>(p: *const E, n: usize, wide: impl Fn(E) -> f64) -> Moments {
    // SAFETY: the caller's block.
    let values = || (0..n).map(|i| wide(unsafe { *p.add(i) }));
    let mean = values().sum::<f64>() / n as f64;
    Moments { n: n as f64, mean, deviations: values().map(|v| (v - mean) * (v - mean)).sum() }
}

/// Pieces `units` of runs of `n` elements, `n_pieces` each.
struct Pieces<'a, T> {
    x: Shared<T>,
    kept: &'a Nest,
    n: usize,
    n_pieces: usize,
    to: Shared<Moments>,
    units: std::ops::Range<usize>,
}

impl<T: Real> WithSimd for Pieces<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let mut walk = self.kept.walk(0, self.units.start / self.n_pieces);
        for u in self.units {
            let p = u % self.n_pieces;
            let (mut at, end) = (p * self.n / self.n_pieces, (p + 1) * self.n / self.n_pieces);
            let mut all = Moments::default();
            while at < end {
                let m = BLOCK.min(end - at);
                // SAFETY: the block lies in its run.
                all = all.join(unsafe { T::block::<S>(self.x.at(walk.offsets[0] + at as isize), m) });
                at += m;
            }
            // SAFETY: one slot a unit.
            unsafe { *self.to.at(u as isize) = all };
            if p + 1 == self.n_pieces {
                walk.next();
            }
        }
    }
}

unsafe fn run<T: Real>(x: &View<'_>, out: &View<'_>, (divisor, root): (f64, bool)) -> Result<()> {
    let zeroed: SmallVec<[i64; 6]> =
        out.strides.iter().zip(out.sizes).zip(x.sizes).map(|((s, o), i)| if o == i { *s } else { 0 }).collect();
    let nest = Nest::new(x.sizes, &[x.strides, &zeroed]);
    let last = nest.ndim() - 1;
    let is_reduced = |d: usize| nest.strides(d)[1] == 0;
    let by_runs = is_reduced(last) && nest.strides(last)[0] == 1 && !(0..last).any(is_reduced);
    if !by_runs || x.numel() == 0 || x.numel() == out.numel() {
        return Err(Error::not_implemented("square_deviations: the reduced elements are no runs"));
    }
    let kept = Nest::from_dims(2, (0..last).map(|d| (nest.sizes[d], nest.strides(d))));
    let (n, n_out) = (nest.inner(), kept.rows(0));
    let n_pieces = n.div_ceil(PIECE);
    let mut all: SmallVec<[Moments; 32]> = SmallVec::from_elem(Moments::default(), n_out * n_pieces);
    let to = Shared::<Moments>::new(all.as_mut_ptr().cast());
    let from = Shared::<T>::new(x.ptr);
    let ns = (n / n_pieces * size_of::<T>()) as f64 * 0.05 + 20.0;
    rows::split(n_out * n_pieces, ns, &|units| {
        dispatch(isa(), Pieces { x: from, kept: &kept, n, n_pieces, to, units });
    });
    let mut walk = kept.walk(0, 0);
    for pieces in all.chunks(n_pieces) {
        let mut joined = pieces.iter().fold(Moments::default(), |a, b| a.join(*b));
        // One result of all elements goes through their sum in the elements' own format, as PyTorch's does.
        if n_out == 1 && !T::of(joined.mean * joined.n).to_f64().is_finite() {
            joined.deviations += f64::INFINITY;
        }
        let variance = joined.deviations / divisor;
        let value = T::of(if root { variance.sqrt() } else { variance });
        // SAFETY: the output of this kept position.
        unsafe { *out.ptr.cast::<T>().offset(walk.offsets[1]) = value };
        walk.next();
    }
    Ok(())
}
