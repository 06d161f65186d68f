//! The gradient for the weight of a convolution with few channels a group.

use super::layout::{Column, Layout, Rows};
use super::rows::column_grad;
use crate::element::madd;
use crate::geometry::{Image, Three, Window};
use crate::pool::by_channel;
use oneflow_kernels_gemm::micro::{GemmFloat, Slot, with_scratch};
use oneflow_kernels_prim::rows::split;
use oneflow_kernels_prim::{Acc, Num, Reg, Register, Simd, WithSimd, dispatch, isa};
use std::marker::PhantomData;
use std::ops::Range;

pub struct Gradient<'a> {
    pub grad: &'a Image,
    pub src: &'a Image,
    pub weight: &'a Image,
    pub taps: &'a [Three],
    pub window: &'a Window,
    pub layout: Layout,
}

impl Gradient<'_> {
    /// Where a tap reads the source.
    #[inline(always)]
    fn shift(&self, tap: Three) -> Three {
        self.window.shift(tap)
    }

    /// # Safety
    /// The images hold `T` and are valid for their sizes.
    pub unsafe fn run<T: GemmFloat>(&self) {
        let (n, groups) = (self.grad.sizes[0], self.window.groups);
        let [n_out, n_in] = self.per_group();
        let n_outputs = self.layout.outputs.iter().product::<usize>();
        let per_pair = (n * n_outputs * (self.taps.len() + 4)) as f64 * 0.1;
        if by_channel(&[self.src, self.grad]) {
            // A cache line of channels at a time.
            let run = 64 / size_of::<T>().max(4);
            return split(groups.div_ceil(run), per_pair * run as f64, &|r| {
                let channels = r.start * run..groups.min(r.end * run);
                dispatch(isa(), ColumnGrad::<T> { of: self, channels, stored: PhantomData });
            });
        }
        let n_x = n_in * self.layout.n_elements() + self.layout.spare();
        let columns = self.layout.columns(0..self.taps.len());
        split(groups, per_pair * (n_out * n_in) as f64, &|r| {
            with_scratch(Slot::A, n_x * size_of::<T::Acc>(), |scratch| {
                for group in r.clone() {
                    dispatch(isa(), PlaneGrad::<T> { of: self, columns: &columns, group, x: scratch.cast() });
                }
            });
        });
    }

    /// Output and input channels of a group.
    fn per_group(&self) -> [usize; 2] {
        [self.weight.sizes[0] / self.window.groups, self.weight.sizes[1]]
    }
}

const MOST_LANES: usize = 16;
/// Positions that are summed in the compute dtype: more than one plane of these goes on in f64.
const SUMMED: usize = 4096;

/// The weight gradient of one group.
struct PlaneGrad<'a, T: GemmFloat> {
    of: &'a Gradient<'a>,
    columns: &'a [Column],
    group: usize,
    x: *mut T::Acc,
}

impl<T: GemmFloat> WithSimd for PlaneGrad<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let PlaneGrad { of: Gradient { grad, src, weight, taps, layout, .. }, group, x, .. } = self;
        let ([n_out, n_in], [d, h, _], [_, lh, lw]) = (self.of.per_group(), layout.outputs, layout.len);
        let mut sums = vec![0.0; n_out * n_in * taps.len()];
        // The sums of some planes, in the order of the columns.
        let mut near = vec![Reg::<S, T>::splat(0.0); sums.len()];
        let strides = [src.strides[2], src.strides[3], src.strides[4]];
        let rows = layout.rows(strides, 0);
        let n_positions = layout.outputs.iter().product::<usize>();
        let mut n_summed = 0;
        let wide = x.wrapping_add(n_in * layout.n_elements() + super::SLACK);
        // SAFETY: the caller's images; the buffer holds the planes and the rows read behind them.
        unsafe {
            std::ptr::write_bytes(x, 0, n_in * layout.n_elements());
            for n in 0..grad.sizes[0] {
                for c in 0..n_in {
                    let plane = src.at::<T>(n, group * n_in + c, [0; 3]);
                    layout.fill::<T, S>(&rows, (plane, strides[2]), (x.add(c * layout.n_elements()), wide));
                }
                for (o, c) in (0..n_out).flat_map(|o| (0..n_in).map(move |c| (o, c))) {
                    let near = &mut near[(o * n_in + c) * taps.len()..][..taps.len()];
                    let from = x.wrapping_add(c * layout.n_elements()).cast_const();
                    for id in 0..d {
                        let mut ih = 0;
                        while ih < h {
                            let (g, from) =
                                (grad.at::<T>(n, group * n_out + o, [id, ih, 0]), from.add((id * lh + ih) * lw));
                            ih += match Rows::of(h - ih) {
                                Rows::Eight => self.rows::<S, 8>(from, g, near),
                                Rows::Seven => self.rows::<S, 7>(from, g, near),
                                Rows::Four => self.rows::<S, 4>(from, g, near),
                                Rows::One => self.rows::<S, 1>(from, g, near),
                            };
                        }
                    }
                }
                n_summed += n_positions;
                if n_summed + n_positions <= SUMMED && n + 1 < grad.sizes[0] {
                    continue;
                }
                n_summed = 0;
                for (near, sums) in near.chunks(taps.len()).zip(sums.chunks_mut(taps.len())) {
                    for (t, near) in self.columns.iter().flat_map(|c| &c.taps).zip(near) {
                        sums[*t] += near.sum().to_f64();
                    }
                }
                near.fill(Reg::<S, T>::splat(0.0));
            }
            for (i, sum) in sums.iter().enumerate() {
                let (o, c, t) = (i / taps.len() / n_in, i / taps.len() % n_in, i % taps.len());
                let to = weight.at::<T>(group * n_out + o, c, taps[t].map(|t| t as usize));
                *to = T::narrow(T::Acc::of(*sum));
            }
        }
    }
}

impl<T: GemmFloat> PlaneGrad<'_, T> {
    /// Adds the products of `R` rows of gradients to the sums of every column of taps; returns `R`.
    #[inline(always)]
    unsafe fn rows<S: Simd, const R: usize>(&self, x: *const T::Acc, g: *const T, near: &mut [Reg<S, T>]) -> usize {
        let Gradient { grad, layout, .. } = self.of;
        let (ld, width, step) = (layout.len[2], Reg::<S, T>::WIDTH, grad.strides[4]);
        for i in (0..layout.outputs[2]).step_by(width) {
            let n = width.min(layout.outputs[2] - i);
            // SAFETY: the positions lie in the gradient and the plane.
            unsafe {
                let mut rows = [Reg::<S, T>::splat(0.0); R];
                for r in 0..R {
                    let from = g.offset(r as isize * grad.strides[3] + i as isize * step);
                    rows[r] = match step {
                        1 => T::load_n::<S>(from, n),
                        step => T::gather::<S>(from, step, n),
                    };
                }
                let mut at = 0;
                for column in self.columns {
                    let near = &mut near[at..at + column.taps.len()];
                    match n == width {
                        true => column_grad::<_, R, true>(x.add(column.place + i), ld, n, &rows, near),
                        false => column_grad::<_, R, false>(x.add(column.place + i), ld, n, &rows, near),
                    }
                    at += near.len();
                }
            }
        }
        R
    }
}

/// The weight gradients of channels that lie side by side.
struct ColumnGrad<'a, T> {
    of: &'a Gradient<'a>,
    channels: Range<usize>,
    stored: PhantomData<T>,
}

impl<T: GemmFloat> WithSimd for ColumnGrad<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Gradient { grad, src, weight, taps, layout, .. } = self.of;
        let width = Reg::<S, T>::WIDTH;
        let step = self.of.window.stride;
        let [_, _, n_d, n_h, n_w] = src.sizes.map(|n| n as isize);
        let channels = self.channels.clone();
        let n_registers = channels.len().div_ceil(width);
        // The sums of one image, [register, tap]; those of all are kept wide.
        let mut near = vec![Reg::<S, T>::splat(0.0); n_registers * taps.len()];
        let mut sums = vec![[0.0; MOST_LANES]; near.len()];
        for n in 0..grad.sizes[0] {
            near.fill(Reg::<S, T>::splat(0.0));
            for (d, h) in (0..layout.outputs[0]).flat_map(|d| (0..layout.outputs[1]).map(move |h| (d, h))) {
                let mut first = 0;
                // Taps of one line of the window share the lines they read.
                for line in taps.chunk_by(|a, b| a[..2] == b[..2]) {
                    let at = first;
                    first += line.len();
                    let shift = self.of.shift(line[0]);
                    let (id, ih) = (d as isize * step[0] + shift[0], h as isize * step[1] + shift[1]);
                    if !(0..n_d).contains(&id) || !(0..n_h).contains(&ih) {
                        continue;
                    }
                    for r in 0..n_registers {
                        let c = channels.start + r * width;
                        let row = GradRow::<T> {
                            g: grad.at::<T>(n, c, [d, h, 0]),
                            x: src.at::<T>(n, c, [id as usize, ih as usize, 0]),
                            steps: [grad.strides[4], src.strides[4]],
                            n: [layout.outputs[2] as isize, n_w],
                            step: step[2],
                            k: width.min(channels.end - c),
                        };
                        let near = &mut near[r * taps.len() + at..][..line.len()];
                        for (taps, near) in line.chunks(LINE).zip(near.chunks_mut(LINE)) {
                            let shift = |t: &Three| self.of.shift(*t)[2];
                            // SAFETY: only positions and channels inside the images are touched.
                            unsafe {
                                match taps.len() {
                                    3 => row.add::<S, 3>(std::array::from_fn(|t| shift(&taps[t])), near),
                                    LINE => row.add::<S, LINE>(std::array::from_fn(|t| shift(&taps[t])), near),
                                    _ => taps
                                        .iter()
                                        .zip(near.chunks_mut(1))
                                        .for_each(|(t, near)| row.add::<S, 1>([shift(t)], near)),
                                }
                            }
                        }
                    }
                }
            }
            for (sums, near) in sums.iter_mut().zip(&near) {
                let mut lanes = [T::Acc::ZERO; MOST_LANES];
                // SAFETY: no register has more lanes.
                unsafe { near.store(lanes.as_mut_ptr()) };
                sums.iter_mut().zip(lanes).for_each(|(a, b)| *a += b.to_f64());
            }
        }
        for c in channels.clone() {
            let (r, lane) = ((c - channels.start) / width, (c - channels.start) % width);
            for (t, tap) in taps.iter().enumerate() {
                let sum = sums[r * taps.len() + t][lane];
                // SAFETY: the weight has the tap.
                unsafe { *weight.at::<T>(c, 0, tap.map(|t| t as usize)) = T::narrow(T::Acc::of(sum)) };
            }
        }
    }
}

/// Most taps of a line that are summed up together.
const LINE: usize = 7;

/// One line of gradients and a line of the image that some taps read for it, in a register of channels.
struct GradRow<T> {
    g: *const T,
    x: *const T,
    /// From position to position.
    steps: [isize; 2],
    /// Positions of both.
    n: [isize; 2],
    step: isize,
    k: usize,
}

impl<T: GemmFloat> GradRow<T> {
    /// Adds the products of `K` taps.
    #[inline(always)]
    unsafe fn add<S: Simd, const K: usize>(&self, shifts: [isize; K], near: &mut [Reg<S, T>]) {
        let mut sum = [Reg::<S, T>::splat(0.0); K];
        sum.copy_from_slice(&near[..K]);
        let inside = |w: isize, shift: isize| (0..self.n[1]).contains(&(w * self.step + shift));
        let all = |w: &isize| shifts.iter().all(|s| inside(*w, *s));
        let whole = self.k == Reg::<S, T>::WIDTH;
        // Positions whose windows lie inside, in between others.
        let first = (0..self.n[0]).find(|w| whole && all(w)).unwrap_or(self.n[0]);
        let end = (first..self.n[0]).rev().find(all).map_or(first, |w| w + 1);
        // SAFETY: by the caller.
        unsafe {
            for w in (0..first).chain(end..self.n[0]) {
                let g = T::load_n::<S>(self.g.offset(w * self.steps[0]), self.k);
                for t in 0..K {
                    if inside(w, shifts[t]) {
                        let at = (w * self.step + shifts[t]) * self.steps[1];
                        sum[t] = madd(T::load_n::<S>(self.x.offset(at), self.k), g, sum[t]);
                    }
                }
            }
            let offsets = shifts.map(|s| s * self.steps[1]);
            for w in first..end {
                let g = T::load::<S>(self.g.offset(w * self.steps[0]));
                let x = self.x.wrapping_offset(w * self.step * self.steps[1]);
                for t in 0..K {
                    sum[t] = madd(T::load::<S>(x.offset(offsets[t])), g, sum[t]);
                }
            }
        }
        near[..K].copy_from_slice(&sum);
    }
}
