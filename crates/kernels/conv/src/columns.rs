//! Correlations of few positions and many weights, as of the last stages of a network on one image: every window is copied to
//! a column of a matrix, so that the weights, most of what is read, are multiplied where they lie and never packed.

use crate::algorithm::Correlation;
use crate::geometry::Three;
use oneflow_kernels_gemm::micro::{GemmFloat, Slot, with_scratch};
use oneflow_kernels_gemm::{BatchDim, Epilogue, GemmArgs, Mat, Pool, gemm};
use oneflow_kernels_prim::Acc;
use oneflow_kernels_prim::rows::{Shared, split};
use std::any::TypeId;

/// Weights from which packing them takes longer than copying the windows.
const MANY_WEIGHTS: usize = 1 << 17;

/// A correlation whose weights are rows of [channels, taps] or [taps, channels] without a gap.
pub struct Columns<'a> {
    c: &'a Correlation<'a>,
    /// The step from position to position of the result.
    dst_step: isize,
    taps_together: bool,
}

impl<'a> Columns<'a> {
    /// If the correlation has the form, and few positions beside its weights.
    pub fn new<T: GemmFloat>(c: &'a Correlation<'a>) -> Option<Columns<'a>> {
        let (w, n_taps) = (&c.weight, c.weight.taps.len());
        let positions = c.dst.sizes[0] * c.dst.spatial().iter().product::<usize>();
        let few = c.groups == 1 && 4 * positions <= w.n && w.n * w.k() >= MANY_WEIGHTS;
        if TypeId::of::<T>() != TypeId::of::<T::Acc>() || !few || n_taps < 2 {
            return None;
        }
        let spaced = |step: usize| w.taps.iter().enumerate().all(|(i, t)| t.weight == (i * step) as isize);
        let taps_together = w.c_stride == n_taps as isize && spaced(1);
        let channels_together = w.c_stride == 1 && spaced(w.channels);
        if !(taps_together || channels_together) {
            return None;
        }
        Some(Columns { c, dst_step: c.dst.position_step()?, taps_together })
    }

    /// # Safety
    /// As `Correlation::run`.
    pub unsafe fn run<T: GemmFloat>(&self) {
        let Correlation { src, dst, weight, .. } = self.c;
        let (positions, k) = (dst.spatial().iter().product::<usize>(), weight.k());
        with_scratch(Slot::Image, dst.sizes[0] * k * positions * size_of::<T>(), |room| {
            let to = Shared::<T>::new(room);
            split(src.sizes[0] * weight.channels, (weight.taps.len() * positions) as f64, &|range| {
                for i in range {
                    let (image, channel) = (i / weight.channels, i % weight.channels);
                    for (tap, at) in weight.taps.iter().enumerate() {
                        let row = match self.taps_together {
                            true => channel * weight.taps.len() + tap,
                            false => tap * weight.channels + channel,
                        };
                        // SAFETY: rows are disjoint and lie in the buffer.
                        unsafe { self.row(image, channel, at.shift, to.at(((image * k + row) * positions) as isize)) }
                    }
                }
            });
            // SAFETY: the buffer holds all columns; the rest is the caller's.
            unsafe { self.multiply::<T>(room.cast::<T>().cast_const(), positions) }
        })
    }

    /// What a tap reads of a channel, position by position.
    unsafe fn row<T: GemmFloat>(&self, image: usize, channel: usize, shift: Three, mut to: *mut T) {
        let Correlation { src, dst, step, .. } = self.c;
        let sizes = src.spatial().map(|n| n as isize);
        let inside = |d: usize, at: isize| (0..sizes[d]).contains(&at);
        let [n_depth, n_lines, n_line] = dst.spatial();
        for i in 0..n_depth * n_lines {
            let d = (i / n_lines) as isize * step[0] + shift[0];
            let h = (i % n_lines) as isize * step[1] + shift[1];
            let line = inside(0, d) && inside(1, h);
            let from = match line {
                true => src.at::<T>(image, channel, [d as usize, h as usize, 0]).cast_const(),
                false => std::ptr::null(),
            };
            for j in 0..n_line {
                let w = j as isize * step[2] + shift[2];
                // SAFETY: what is read lies in the image; the caller's row has room for every position.
                unsafe {
                    *to = if line && inside(2, w) { *from.offset(w * src.strides[4]) } else { T::narrow(T::Acc::ZERO) };
                    to = to.add(1);
                }
            }
        }
    }

    /// The weights times every image's columns.
    unsafe fn multiply<T: GemmFloat>(&self, columns: *const T, positions: usize) {
        let Correlation { dst, weight, bias, activation, .. } = self.c;
        let k = weight.k();
        let (bias_at, bias_step) = bias.unwrap_or((std::ptr::null(), 0));
        let image =
            BatchDim { size: dst.sizes[0], b: (k * positions) as isize, c: dst.strides[0], ..BatchDim::default() };
        let batch = [image];
        let args = GemmArgs {
            batch: &batch,
            epilogue: Epilogue {
                bias: bias.map(|_| Mat::new(bias_at.cast::<T>(), bias_step, 0)),
                activation: *activation,
                ..Epilogue::default()
            },
            ..GemmArgs::new(
                T::DTYPE,
                (weight.n, positions, k),
                Mat::new(weight.ptr.cast::<T>(), weight.n_stride, 1),
                Mat::new(columns, positions as isize, 1),
                Mat::new(dst.ptr.cast::<T>(), dst.strides[1], self.dst_step),
            )
        };
        // SAFETY: the caller's images, weight and bias. Every float dtype has a product.
        let done = unsafe { gemm(&args, &Pool) };
        debug_assert!(done.is_ok(), "{done:?}");
    }
}
