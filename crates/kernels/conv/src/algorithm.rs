//! The convolution itself: for every position of a grid, a sum over taps and channels of a source image.
//!
//! Forward and the gradient for the input are both this; only taps, step and strides differ. This chooses how to sum: as a
//! matrix product, channel by channel, window by window, at Winograd's points, or tap by tap.

use crate::columns::Columns;
use crate::depthwise::{self, Depthwise, FEW};
use crate::geometry::{Image, Three};
use crate::implicit_gemm::Direct;
use crate::packed_weights::{Tap, Weight};
use crate::pool::by_channel;
use crate::winograd::Winograd;
use oneflow_kernels_gemm::micro::{GemmFloat, Slot, with_scratch};
use oneflow_kernels_gemm::{BatchDim, Epilogue, GemmArgs, Mat, PackedB, Pool, gemm};
use oneflow_kernels_prim::Activation;
use oneflow_kernels_prim::rows::{Shared, split};

/// `dst[n, o, j] = activation(bias[o] + sum over taps and c of src[n, c, j * step + shift] * weight[o, c, tap])`, group by
/// group.
pub struct Correlation<'a> {
    pub src: Image,
    pub dst: Image,
    /// The first group's weight; others follow at `group_stride`.
    pub weight: Weight<'a>,
    pub group_stride: isize,
    pub groups: usize,
    pub step: Three,
    /// First element and stride.
    pub bias: Option<(*const u8, isize)>,
    /// Applied to every finished sum.
    pub activation: Activation,
}

// SAFETY: tasks only read through the pointers, and write disjoint positions of the destination.
unsafe impl Sync for Correlation<'_> {}

/// The smallest shift and how far the others reach beyond it.
pub fn reach(shifts: impl Iterator<Item = Three> + Clone) -> (Three, Three) {
    let least = |d: usize| shifts.clone().map(|s| s[d]).min().unwrap_or(0);
    let most = |d: usize| shifts.clone().map(|s| s[d]).max().unwrap_or(0);
    (std::array::from_fn(least), std::array::from_fn(|d| most(d) - least(d)))
}

impl Correlation<'_> {
    /// # Safety
    /// Images, weight and bias hold `T` and are valid for what the sizes and taps reach.
    pub unsafe fn run<T: GemmFloat>(&self) {
        if let Some([src, dst]) = self.as_matrices() {
            // SAFETY: the contract is the same.
            return unsafe { self.multiply::<T>(src, dst, None) };
        }
        if let Some(dst) = self.reads_some_positions() {
            // SAFETY: the contract is the same.
            return unsafe { self.multiply_some::<T>(dst) };
        }
        if depthwise::fits(self) {
            // SAFETY: the contract is the same.
            return unsafe { Depthwise::of(self).run::<T>() };
        }
        if let Some(columns) = Columns::new::<T>(self) {
            // SAFETY: the contract is the same.
            return unsafe { columns.run::<T>() };
        }
        if let Some(winograd) = Winograd::<T>::new(self) {
            // SAFETY: the contract is the same.
            return unsafe { winograd.run() };
        }
        let (src, dst) = (self.src, self.dst);
        // SAFETY: the contract is the same.
        unsafe { Direct { src, dst, every: [1; 3], phases: std::slice::from_ref(self), prepared: None }.run::<T>() }
    }

    /// As `run`, of float32 and one group, with weights that were prepared in panels (`prepared`).
    ///
    /// # Safety
    /// As `run`; the weight's own elements are not read.
    pub unsafe fn run_panels(&self, panels: Shared<f32>) {
        if let Some([src, dst]) = self.as_matrices() {
            // SAFETY: the panels outlive the call; the contract is the same.
            return unsafe {
                let packed = PackedB::lent((self.weight.channels, self.weight.n), panels.at(0));
                self.multiply::<f32>(src, dst, Some(&packed))
            };
        }
        let (src, dst, phases, prepared) = (self.src, self.dst, std::slice::from_ref(self), Some(panels));
        // SAFETY: the contract is the same.
        unsafe { Direct { src, dst, every: [1; 3], phases, prepared }.run::<f32>() }
    }

    /// Whether a faster way than the sum over taps fits.
    pub fn is_special<T: GemmFloat>(&self) -> bool {
        self.as_matrices().is_some()
            || self.reads_some_positions().is_some()
            || depthwise::fits(self)
            || Columns::new::<T>(self).is_some()
            || Winograd::<T>::new(self).is_some()
    }
}

/// Positions of an image from which packing the weights again for each image costs nothing.
const MANY_POSITIONS: usize = 128;
/// Positions of an image from which planes are columns of one product.
const SOME_POSITIONS: usize = 32;

impl Correlation<'_> {
    /// The steps from position to position of both images, where a single tap makes every image a matrix product.
    fn as_matrices(&self) -> Option<[isize; 2]> {
        let (src, dst) = (&self.src, &self.dst);
        if !self.is_product() || self.step != [1; 3] || src.sizes[2..] != dst.sizes[2..] {
            return None;
        }
        let steps = [src.position_step()?, dst.position_step()?];
        let fits = self.many_positions() || by_channel(&[src, dst]) || (steps == [1; 2] && self.some_positions());
        fits.then_some(steps)
    }

    /// A single tap, without padding, of channels enough.
    fn is_product(&self) -> bool {
        let large = self.weight.n > FEW || self.weight.channels > FEW;
        large && matches!(self.weight.taps, [Tap { shift: [0, 0, 0], .. }])
    }

    fn many_positions(&self) -> bool {
        self.dst.spatial().iter().product::<usize>() >= MANY_POSITIONS
    }

    /// Whether planes are columns of one product.
    fn some_positions(&self) -> bool {
        self.groups == 1 && self.dst.spatial().iter().product::<usize>() >= SOME_POSITIONS
    }

    /// The step from position to position of the result, where a single tap reads every so many positions of planes, which are
    /// copied side by side.
    fn reads_some_positions(&self) -> Option<isize> {
        let (src, dst) = (&self.src, &self.dst);
        let inside = |d: usize| (dst.sizes[2 + d] as isize - 1) * self.step[d] < src.sizes[2 + d] as isize;
        let strided = self.step != [1; 3] && (0..3).all(inside) && self.is_product();
        let planes = strided && !by_channel(&[src, dst]);
        dst.position_step().filter(|step| planes && *step == 1 && (self.many_positions() || self.some_positions()))
    }

    /// As `multiply`, of copies of the planes with what is read.
    unsafe fn multiply_some<T: GemmFloat>(&self, dst_step: isize) {
        let ([n, channels, ..], [d, h, w]) = (self.src.sizes, self.dst.spatial());
        with_scratch(Slot::Image, n * channels * d * h * w * size_of::<T>(), |room| {
            let (positions, to) = (d * h * w, Shared::<T>::new(room));
            split(n * channels, positions as f64, &|r| {
                for i in r {
                    let mut to = to.at((i * positions) as isize);
                    for line in 0..d * h {
                        let at = [line / h * self.step[0] as usize, line % h * self.step[1] as usize, 0];
                        let from = self.src.at::<T>(i / channels, i % channels, at).cast_const();
                        let next = self.step[2] * self.src.strides[4];
                        // SAFETY: the positions lie in the image, as many in the buffer.
                        unsafe { (0..w).for_each(|w| *to.add(w) = *from.offset(w as isize * next)) };
                        to = to.wrapping_add(w);
                    }
                }
            });
            let p = positions as isize;
            let sizes = [n, channels, d, h, w];
            let strides = [channels as isize * p, p, (h * w) as isize, w as isize, 1];
            let copy = Correlation { src: Image { ptr: room, sizes, strides }, step: [1; 3], ..*self };
            // SAFETY: the copy holds the image's positions.
            unsafe { copy.multiply::<T>(1, dst_step, None) }
        })
    }

    /// Every image as [positions, channels] times the weight, which may be packed.
    unsafe fn multiply<T: GemmFloat>(&self, src_step: isize, dst_step: isize, packed: Option<&PackedB>) {
        let (src, dst, w) = (&self.src, &self.dst, &self.weight);
        let (k, n) = (w.channels as isize, w.n as isize);
        let shape = (dst.spatial().iter().product(), w.n, w.channels);
        let weight = w.ptr.cast::<T>().wrapping_offset(w.taps[0].weight);
        let (bias, bias_step) = self.bias.unwrap_or((std::ptr::null(), 0));
        let group = BatchDim {
            size: self.groups,
            a: k * src.strides[1],
            b: self.group_stride,
            c: n * dst.strides[1],
            bias: n * bias_step,
            ..BatchDim::default()
        };
        let image = BatchDim { size: dst.sizes[0], a: src.strides[0], c: dst.strides[0], ..BatchDim::default() };
        let batch = [group, image];
        let args = GemmArgs {
            batch: if self.groups == 1 { &batch[1..] } else { &batch },
            packed,
            epilogue: Epilogue {
                bias: self.bias.map(|_| Mat::new(bias.cast::<T>(), 0, bias_step)),
                activation: self.activation,
                ..Epilogue::default()
            },
            ..GemmArgs::new(
                T::DTYPE,
                shape,
                Mat::new(src.ptr.cast::<T>(), src_step, src.strides[1]),
                Mat::new(weight, w.c_stride, w.n_stride),
                Mat::new(dst.ptr.cast::<T>(), dst_step, dst.strides[1]),
            )
        };
        // SAFETY: the caller's images, weight and bias. Every float dtype has a product.
        let done = unsafe { gemm(&args, &Pool) };
        debug_assert!(done.is_ok(), "{done:?}");
    }
}
