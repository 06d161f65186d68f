//! Sums of positions by channels, brought into the image with the bias added and the activation applied.

use crate::geometry::{Block, Image};
use crate::region::TILE;
use oneflow_kernels_gemm::micro::{GemmFloat, Mode, Strip};
use oneflow_kernels_prim::activations::activate;
use oneflow_kernels_prim::{self as prim, Activation, Isa, Reg, Register, Simd, WithSimd, dispatch};
use std::ops::Range;

pub struct Store<'a> {
    pub dst: &'a Image,
    /// First element and stride.
    pub bias: Option<(*const u8, isize)>,
    pub activation: Activation,
    pub isa: Isa,
}

/// Elements of the buffer that `Store::block` works in.
pub fn tile_len(nr: usize) -> usize {
    TILE * nr.max(16) + nr
}

impl Store<'_> {
    /// Stores a block's sums, rows `ld` apart, in `channels`.
    ///
    /// # Safety
    /// The image and the bias hold `T`; sums are readable in whole registers; `tile` has `tile_len`.
    pub unsafe fn block<T: GemmFloat>(
        &self,
        block: Block,
        channels: Range<usize>,
        (sums, ld): (*const T::Acc, usize),
        tile: *mut T::Acc,
    ) {
        let (dst, channel) = (self.dst, channels.start);
        let bias = self.bias.map(|(ptr, stride)| (ptr.cast::<T>().wrapping_offset(channel as isize * stride), stride));
        if dst.strides[1] == 1 && dst.sizes[1] > 1 {
            block.each(|i, at| {
                let p: [usize; 4] = std::array::from_fn(|d| block.start[d] + at[d]);
                let to = dst.at::<T>(p[0], channel, [p[1], p[2], p[3]]);
                let (sums, activation) = (sums.wrapping_add(i * ld), self.activation);
                let row = StoreRow { sums, n: channels.len(), bias, activation, to };
                dispatch(prim::isa(), row);
            });
            return;
        }
        let lanes = T::Mode::kernels(self.isa).lanes;
        block.runs(dst, |i, at, len| {
            for o in (0..channels.len()).step_by(TILE) {
                let k = TILE.min(channels.len() - o);
                for p in (0..len).step_by(lanes) {
                    let width = lanes.min(len - p);
                    let src = sums.wrapping_add((i + p) * ld + o);
                    let strip = Strip { src, ws: ld as isize, ks: 1, width, k };
                    let to = dst.at::<T>(at[0], channel + o, [at[1], at[2], at[3]]);
                    let step = dst.strides[4];
                    let store = StoreTile {
                        tile,
                        lanes,
                        n: k,
                        width,
                        bias: bias.map(|(b, s)| (b.wrapping_offset(o as isize * s), s)),
                        to: to.wrapping_offset(p as isize * step),
                        activation: self.activation,
                        step,
                        rs: dst.strides[1],
                    };
                    // SAFETY: the strip lies in the sums, the tile holds it.
                    unsafe { T::Sums::pack(self.isa, strip, tile, lanes) };
                    dispatch(prim::isa(), store);
                }
            }
        });
    }
}

/// The activation of sums, as an op of its own gives it: of what a tensor of `T` would hold.
///
/// # Safety
/// As of `T::rounded`.
#[inline(always)]
pub unsafe fn finish<T: GemmFloat, S: Simd>(activation: Activation, sums: Reg<S, T>) -> Reg<S, T> {
    if activation == Activation::None {
        return sums;
    }
    // SAFETY: by the caller.
    activate(activation, unsafe { T::rounded::<S>(sums) })
}

/// One position's channels, side by side.
struct StoreRow<T: GemmFloat> {
    sums: *const T::Acc,
    n: usize,
    bias: Option<(*const T, isize)>,
    activation: Activation,
    to: *mut T,
}

impl<T: GemmFloat> WithSimd for StoreRow<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = Reg::<S, T>::WIDTH;
        for i in (0..self.n).step_by(width) {
            let n = width.min(self.n - i);
            // SAFETY: sums are readable in whole registers; n channels lie at the destination and in the bias.
            unsafe {
                let mut v = <Reg<S, T> as Register>::load(self.sums.add(i));
                if let Some((b, stride)) = self.bias {
                    v = v + T::gather::<S>(b.wrapping_offset(i as isize * stride), stride, n);
                }
                T::store_n::<S>(finish::<T, S>(self.activation, v), self.to.add(i), n);
            }
        }
    }
}

/// `n` channels of up to a register of positions.
struct StoreTile<T: GemmFloat> {
    tile: *const T::Acc,
    lanes: usize,
    n: usize,
    width: usize,
    bias: Option<(*const T, isize)>,
    activation: Activation,
    to: *mut T,
    step: isize,
    rs: isize,
}

impl<T: GemmFloat> WithSimd for StoreTile<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = Reg::<S, T>::WIDTH;
        for o in 0..self.n {
            // SAFETY: the tile holds the rows in whole registers; the positions lie in the image.
            unsafe {
                let b = self
                    .bias
                    .map(|(b, stride)| <Reg<S, T> as Register>::all_of((*b.offset(o as isize * stride)).widen()));
                for i in (0..self.width).step_by(width) {
                    let n = width.min(self.width - i);
                    let mut v = <Reg<S, T> as Register>::load(self.tile.add(o * self.lanes + i));
                    if let Some(b) = b {
                        v = v + b;
                    }
                    v = finish::<T, S>(self.activation, v);
                    let to = self.to.offset(o as isize * self.rs + i as isize * self.step);
                    match self.step {
                        1 if n == width => T::store::<S>(v, to),
                        1 => T::store_partial::<S>(v, to, n),
                        step => T::scatter::<S>(v, to, step, n),
                    }
                }
            }
        }
    }
}
