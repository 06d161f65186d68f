//! Groups of few channels that lie side by side, taken together: a weight with zeros between the groups fills the registers.
//!
//! An infinity or a NaN times a zero between the groups would reach channels of other groups: images with one are not merged.

use crate::depthwise::FEW;
use crate::geometry::{Image, Window};
use crate::pool::by_channel;
use oneflow_kernels_gemm::micro::GemmFloat;
use oneflow_kernels_prim::rows::split;
use oneflow_kernels_prim::{Acc, Num, Reg, Register, Simd, WithSimd, dispatch, isa};
use std::sync::atomic::{AtomicBool, Ordering};

/// Channels from which on registers are full.
const FULL: usize = 16;

/// Merged groups and their weight: [out, channels of the merged groups, taps].
pub struct Merged<T> {
    data: Vec<T>,
    /// Groups in one.
    m: usize,
    weight: Image,
    groups: usize,
}

impl<T: GemmFloat> Merged<T> {
    /// If there are groups of few channels each, side by side in both images.
    pub fn new(weight: &Image, window: &Window, images: [&Image; 2]) -> Option<Self> {
        let (groups, [n_out, n_in, ..]) = (window.groups, weight.sizes);
        let per_group = n_out / groups.max(1);
        let few = (1..=FEW).contains(&per_group) && (1..=FEW).contains(&n_in) && per_group.max(n_in) > 1;
        if groups == 1 || !few || !by_channel(&images) {
            return None;
        }
        let most = FULL.div_ceil(per_group.min(n_in));
        let m = (1..=most).rev().find(|m| groups.is_multiple_of(*m))?;
        if m == 1 {
            return None;
        }
        let mut merged = *weight;
        merged.sizes[1] *= m;
        let mut step = 1;
        for d in (0..5).rev() {
            merged.strides[d] = step;
            step *= merged.sizes[d] as isize;
        }
        let mut data = vec![T::narrow(T::Acc::ZERO); step as usize];
        merged.ptr = data.as_mut_ptr().cast();
        Some(Merged { data, m, weight: merged, groups: groups / m })
    }

    /// Calls `f(where the weight has an element, where the merged one has it)`.
    fn each(&self, weight: &Image, mut f: impl FnMut(*mut T, usize)) {
        let ([n_out, n_in, d, h, w], n_taps) = (weight.sizes, weight.spatial().iter().product::<usize>());
        let per_group = n_out / (self.groups * self.m);
        for (o, c) in (0..n_out).flat_map(|o| (0..n_in).map(move |c| (o, c))) {
            let to = (o * n_in * self.m + o / per_group % self.m * n_in + c) * n_taps;
            debug_assert_eq!(n_taps, d * h * w);
            for t in 0..n_taps {
                f(weight.at::<T>(o, c, [t / (h * w), t / w % h, t % w]), to + t);
            }
        }
    }

    /// The merged weight and window, with the weight's elements.
    ///
    /// # Safety
    /// The weight holds `T`.
    pub unsafe fn merge(&mut self, weight: &Image, window: &Window) -> (Image, Window) {
        let mut data = std::mem::take(&mut self.data);
        // SAFETY: by the caller.
        self.each(weight, |from, to| data[to] = unsafe { *from });
        self.data = data;
        self.empty(window)
    }

    /// The merged weight and window, to be written.
    pub fn empty(&mut self, window: &Window) -> (Image, Window) {
        self.weight.ptr = self.data.as_mut_ptr().cast();
        (self.weight, Window { groups: self.groups, ..*window })
    }

    /// Brings back what belongs to the weight.
    ///
    /// # Safety
    /// The weight holds `T`, and nobody else writes it.
    pub unsafe fn gather(&self, weight: &Image) {
        // SAFETY: by the caller.
        self.each(weight, |to, from| unsafe { *to = self.data[from] });
    }
}

/// Whether all numbers of an image, whose channels lie side by side, are finite.
///
/// # Safety
/// The image holds `T`.
pub unsafe fn is_finite<T: GemmFloat>(image: &Image) -> bool {
    let [n, c, d, h, w] = image.sizes;
    let finite = AtomicBool::new(true);
    split(n * d * h, (w * c) as f64 * 0.05, &|r| {
        for i in r {
            let from = image.at::<T>(i / (d * h), 0, [i / h % d, i % h, 0]);
            // Positions that follow each other are one run.
            let (runs, len) = if image.strides[4] == c as isize { (1, w * c) } else { (w, c) };
            for run in 0..runs {
                let from = from.wrapping_offset(run as isize * image.strides[4]);
                if !dispatch(isa(), Finite::<T> { from, n: len }) {
                    return finite.store(false, Ordering::Relaxed);
                }
            }
        }
    });
    finite.into_inner()
}

/// Whether neighbours are finite.
struct Finite<T> {
    from: *const T,
    n: usize,
}

impl<T: GemmFloat> WithSimd for Finite<T> {
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(self) -> bool {
        let (zero, width) = (Reg::<S, T>::splat(0.0), Reg::<S, T>::WIDTH);
        // Zero times anything else is no number.
        let mut sums = [zero; 4];
        let whole = self.n / (4 * width) * (4 * width);
        for i in (0..whole).step_by(4 * width) {
            for (u, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the caller's image.
                *sum = unsafe { T::load::<S>(self.from.add(i + u * width)) } * zero + *sum;
            }
        }
        for i in (whole..self.n).step_by(width) {
            let n = width.min(self.n - i);
            // SAFETY: as above.
            sums[0] = unsafe { T::load_partial::<S>(self.from.add(i), n) } * zero + sums[0];
        }
        (sums[0] + sums[1] + (sums[2] + sums[3])).sum().to_f64() == 0.0
    }
}
