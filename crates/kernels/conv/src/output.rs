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
            block.runs(dst, |i, at, rows| {
                let to = dst.at::<T>(at[0], channel, [at[1], at[2], at[3]]);
                let (sums, n, activation) = (sums.wrapping_add(i * ld), channels.len(), self.activation);
                dispatch(prim::isa(), StoreRows { sums, ld, rows, n, bias, activation, to, step: dst.strides[4] });
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

/// Positions of a line, each with its channels side by side.
struct StoreRows<T: GemmFloat> {
    sums: *const T::Acc,
    /// From the sums of a position to the next one's, and between their places.
    ld: usize,
    step: isize,
    rows: usize,
    n: usize,
    bias: Option<(*const T, isize)>,
    activation: Activation,
    to: *mut T,
}

impl<T: GemmFloat> WithSimd for StoreRows<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = Reg::<S, T>::WIDTH;
        for i in (0..self.n).step_by(width) {
            let n = width.min(self.n - i);
            // SAFETY: sums are readable in whole registers; n channels lie at every destination and in the bias.
            unsafe {
                let bias =
                    self.bias.map(|(b, stride)| T::gather::<S>(b.wrapping_offset(i as isize * stride), stride, n));
                for row in 0..self.rows {
                    let sum = <Reg<S, T> as Register>::load(self.sums.add(row * self.ld + i));
                    let to = self.to.wrapping_offset(row as isize * self.step).wrapping_add(i);
                    let v = finish::<T, S>(self.activation, bias.map_or(sum, |b| sum + b));
                    match n == width {
                        true => T::store::<S>(v, to),
                        false => T::store_n::<S>(v, to, n),
                    }
                }
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
