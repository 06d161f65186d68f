//! Convolutions with one channel in and one out a group, or few: forward, the gradient for the input and that for the weight.
//!
//! Planes: a plane is copied once with what pads it, every stride-th element side by side; then a tap is a shifted load, and
//! a plane is one long line, whatever its width (a few sums between the rows are thrown away). Channels side by side: a
//! register of channels at a time, where a group has only one. Every sum has a fixed order.

use crate::correlate::{Correlation, reach};
use crate::geometry::{Image, Three, Window};
use crate::pool::by_channel;
use crate::stored::{Stored, load, load_sum, madd, store};
use crate::weights::Tap;
use oneflow_kernels_gemm::micro::{Acc, Reg, Slot, with_scratch};
use oneflow_kernels_prim::rows::split;
use oneflow_kernels_prim::{Num, Register, Simd, WithSimd, dispatch, isa};
use std::marker::PhantomData;
use std::ops::Range;

/// Channels a group may have of each kind.
pub const FEW: usize = 8;

/// A group is one channel of each, or few channels of planes.
pub fn fits(c: &Correlation<'_>) -> bool {
    let (n, channels) = (c.weight.n, c.weight.channels);
    let few = n <= FEW && channels <= FEW && !by_channel(&[&c.src, &c.dst]);
    c.groups > 1 && (few || (n == 1 && channels == 1)) && Layout::new(c).is_small()
}

/// # Safety
/// As `Correlation::run`.
pub unsafe fn run<T: Stored>(c: &Correlation<'_>) {
    let ([n, _, d, h, w], channels) = (c.dst.sizes, c.groups);
    let per_channel = (c.weight.taps.len() + 4) as f64 * 0.1;
    if by_channel(&[&c.src, &c.dst]) {
        let mut weights = vec![T::Acc::ZERO; c.weight.taps.len() * channels];
        let mut bias = vec![T::Acc::ZERO; channels];
        for g in 0..channels {
            // SAFETY: the caller's weight and bias.
            unsafe {
                (0..c.weight.taps.len()).for_each(|t| weights[t * channels + g] = weight::<T>(c, g, [0, 0, t]));
                bias[g] = first_sum::<T>(c, g);
            }
        }
        return split(n * d * h, per_channel * (w * channels) as f64, &|r| {
            for i in r {
                dispatch(isa(), Line::<T> { c, weights: &weights, bias: &bias, at: [i / (d * h), i / h % d, i % h] });
            }
        });
    }
    let layout = Layout::new(c);
    let n_from = c.weight.channels * layout.n_elements() + SLACK;
    let room = (n_from + layout.n_sums() + SLACK) * size_of::<T::Acc>();
    let per_group = per_channel * (c.weight.n * c.weight.channels) as f64;
    split(n * c.groups, per_group * (layout.n_elements() + d * h * w) as f64, &|r| {
        with_scratch(Slot::A, room, |scratch| {
            let from: *mut T::Acc = scratch.cast();
            let sums = from.wrapping_add(n_from);
            for i in r {
                dispatch(isa(), Plane::<T> { c, layout: &layout, n: i / c.groups, g: i % c.groups, from, sums });
            }
        });
    });
}

/// # Safety
/// The group has the output, the channel and the tap.
#[inline(always)]
unsafe fn weight<T: Stored>(c: &Correlation<'_>, g: usize, [o, i, tap]: [usize; 3]) -> T::Acc {
    let w = &c.weight;
    let at = g as isize * c.group_stride + o as isize * w.n_stride + i as isize * w.c_stride + w.taps[tap].weight;
    // SAFETY: by the caller.
    unsafe { (*c.weight.ptr.cast::<T>().offset(at)).widen() }
}

/// # Safety
/// The bias has the channel.
#[inline(always)]
unsafe fn first_sum<T: Stored>(c: &Correlation<'_>, g: usize) -> T::Acc {
    // SAFETY: by the caller.
    c.bias.map_or(T::Acc::ZERO, |(b, stride)| unsafe { (*b.cast::<T>().offset(g as isize * stride)).widen() })
}

/// Registers of neighbours computed together.
const TOGETHER_IN_LINE: usize = 8;
/// Numbers that may be read or written behind the end of a line.
const SLACK: usize = 16 * (TOGETHER_IN_LINE + 1);

/// A padded plane in memory: for every remainder by the step the positions that have it.
pub struct Layout {
    step: [usize; 3],
    /// Sums along a line from one that is wanted to the next: every other one is cheaper to leave than to sort out.
    pick: usize,
    /// The first position, which may lie outside.
    start: Three,
    /// Positions of a remainder along each dimension.
    len: [usize; 3],
    outputs: [usize; 3],
    inputs: [usize; 3],
    /// From an element of the source to the next: between them are zeros.
    gap: [usize; 3],
    shifts: Vec<usize>,
}

impl Layout {
    fn new(c: &Correlation<'_>) -> Layout {
        let shifts = c.weight.taps.iter().map(|t| t.shift).collect();
        Layout::of(shifts, c.step, c.dst.spatial(), c.src.spatial(), c.gap)
    }

    pub fn of(shifts: Vec<Three>, step: Three, outputs: [usize; 3], inputs: [usize; 3], gap: [usize; 3]) -> Layout {
        let inputs = std::array::from_fn(|d| inputs[d].saturating_sub(1).saturating_mul(gap[d]) + inputs[d].min(1));
        let (start, reach) = reach(shifts.iter().copied());
        let mut step = step.map(|s| s as usize);
        let pick = if step[2] == 2 { std::mem::replace(&mut step[2], 1) } else { 1 };
        let sums = [outputs[0], outputs[1], outputs[2].saturating_sub(1) * pick + 1];
        let len = std::array::from_fn(|d| sums[d] + reach[d] as usize / step[d]);
        let mut this = Layout { step, pick, start, len, outputs, inputs, gap, shifts: vec![] };
        this.shifts = shifts.iter().map(|s| this.place(std::array::from_fn(|d| (s[d] - start[d]) as usize))).collect();
        this
    }

    /// Where a position relative to the first lies.
    fn place(&self, at: [usize; 3]) -> usize {
        let ([_, sh, sw], [ld, lh, lw]) = (self.step, self.len);
        let phase: [usize; 3] = std::array::from_fn(|d| at[d] % self.step[d]);
        let within: [usize; 3] = std::array::from_fn(|d| at[d] / self.step[d]);
        let phase = (phase[0] * sh + phase[1]) * sw + phase[2];
        phase * (ld * lh * lw) + (within[0] * lh + within[1]) * lw + within[2]
    }

    pub fn n_elements(&self) -> usize {
        (0..3).map(|d| self.step[d] * self.len[d]).product()
    }

    /// From the first sum of a plane to the last.
    pub fn n_sums(&self) -> usize {
        let ([d, h, w], [_, lh, lw]) = (self.outputs, self.len);
        ((d - 1) * lh + h - 1) * lw + (w - 1) * self.pick + 1
    }

    /// Whether a padded plane is of the size of the planes it stands for.
    pub fn is_small(&self) -> bool {
        let product = |n: [usize; 3]| n.iter().map(|n| *n as f64).product::<f64>();
        let padded: f64 = (0..3).map(|d| self.step[d] as f64 * self.len[d] as f64).product();
        padded < 8.0 * (product(self.inputs) + product(self.outputs)) + 65536.0
    }

    /// Copies a plane.
    ///
    /// # Safety
    /// The plane lies in memory; `dst` has room for `n_elements` and the slack.
    #[inline(always)]
    unsafe fn fill<T: Stored, S: Simd>(&self, src: *const T, strides: [isize; 3], dst: *mut T::Acc) {
        let ([sd, sh, sw], [ld, lh, lw]) = (self.step, self.len);
        let gap = self.gap.map(|g| g as isize);
        for d in 0..sd * ld {
            for h in 0..sh * lh {
                let (id, ih) = (d as isize + self.start[0], h as isize + self.start[1]);
                let inside = (0..self.inputs[0] as isize).contains(&id) && (0..self.inputs[1] as isize).contains(&ih);
                let inside = inside && id % gap[0] == 0 && ih % gap[1] == 0;
                // SAFETY: only positions inside the plane are read; the lines lie in the buffer.
                unsafe {
                    let row = src.wrapping_offset(id / gap[0] * strides[0] + ih / gap[1] * strides[1]);
                    for phase in 0..sw {
                        let line = dst.add(self.place([d, h, phase]));
                        if !inside {
                            std::ptr::write_bytes(line, 0, lw);
                            continue;
                        }
                        // Position i of the line is element `first + i * step` of the row.
                        let (first, step) = (phase as isize + self.start[2], sw as isize);
                        let before = ((-first).max(0) as usize).div_ceil(sw).min(lw);
                        let end = ((self.inputs[2] as isize - first).max(0) as usize).div_ceil(sw).clamp(before, lw);
                        if gap[2] > 1 {
                            std::ptr::write_bytes(line, 0, lw);
                            let at = first + before as isize;
                            for i in (before + (-at).rem_euclid(gap[2]) as usize..end).step_by(self.gap[2]) {
                                *line.add(i) = (*row.offset((first + i as isize) / gap[2] * strides[2])).widen();
                            }
                            continue;
                        }
                        std::ptr::write_bytes(line, 0, before);
                        let from = row.wrapping_offset((first + before as isize * step) * strides[2]);
                        if step * strides[2] == 1 {
                            let width = Reg::<S, T>::WIDTH;
                            for i in (0..end - before).step_by(width) {
                                let n = width.min(end - before - i);
                                let v = match n == width {
                                    true => T::load::<S>(from.add(i)),
                                    false => T::load_partial::<S>(from.add(i), n),
                                };
                                v.store_partial(line.add(before + i), n);
                            }
                        } else {
                            for i in 0..end - before {
                                *line.add(before + i) = (*from.offset(i as isize * step * strides[2])).widen();
                            }
                        }
                        std::ptr::write_bytes(line.add(end), 0, lw - end);
                    }
                }
            }
        }
    }
}

/// One plane of the output.
struct Plane<'a, T: Stored> {
    c: &'a Correlation<'a>,
    layout: &'a Layout,
    n: usize,
    g: usize,
    from: *mut T::Acc,
    sums: *mut T::Acc,
}

impl<T: Stored> WithSimd for Plane<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Plane { c, layout, n, g, from, sums } = self;
        let (src, dst) = (&c.src, &c.dst);
        let width = Reg::<S, T>::WIDTH;
        // SAFETY: the caller's images; the buffers hold the plane and its sums, and the slack.
        unsafe {
            let strides = [src.strides[2], src.strides[3], src.strides[4]];
            let (n_in, n_out) = (c.weight.channels, c.weight.n);
            let mut taps = Vec::with_capacity(n_in * layout.shifts.len());
            for i in 0..if layout.shifts.is_empty() { 0 } else { n_in } {
                layout.fill::<T, S>(src.at::<T>(n, g * n_in + i, [0; 3]), strides, from.add(i * layout.n_elements()));
            }
            for o in 0..n_out {
                let bias = Reg::<S, T>::all_of(first_sum::<T>(c, g * n_out + o));
                taps.clear();
                for i in 0..n_in {
                    for (t, shift) in layout.shifts.iter().enumerate() {
                        let from = from.add(i * layout.n_elements() + shift).cast_const();
                        taps.push((from, weight::<T>(c, g, [o, i, t])));
                    }
                }
                for i in (0..layout.n_sums()).step_by(TOGETHER_IN_LINE * width) {
                    let mut sum = [bias; TOGETHER_IN_LINE];
                    for (from, w) in &taps {
                        let w = Reg::<S, T>::all_of(*w);
                        for (u, sum) in sum.iter_mut().enumerate() {
                            *sum = madd(<Reg<S, T> as Register>::load(from.add(i + u * width)), w, *sum);
                        }
                    }
                    for (u, sum) in sum.iter().enumerate() {
                        sum.store(sums.add(i + u * width));
                    }
                }
                let ([d, h, w], [_, lh, lw]) = (layout.outputs, layout.len);
                for row in 0..d * h {
                    let from = sums.add((row / h * lh + row % h) * lw);
                    let to = dst.at::<T>(n, g * n_out + o, [row / h, row % h, 0]);
                    let step = dst.strides[4];
                    if layout.pick > 1 {
                        for i in 0..w {
                            *to.offset(i as isize * step) = T::narrow(*from.add(i * layout.pick));
                        }
                        continue;
                    }
                    for i in (0..w).step_by(width) {
                        let v = <Reg<S, T> as Register>::load(from.add(i));
                        let (n, to) = (width.min(w - i), to.offset(i as isize * step));
                        match step {
                            1 if n == width => T::store::<S>(v, to),
                            1 => T::store_partial::<S>(v, to, n),
                            step => T::scatter::<S>(v, to, step, n),
                        }
                    }
                }
            }
        }
    }
}

/// One line of outputs, channels side by side.
struct Line<'a, T: Stored> {
    c: &'a Correlation<'a>,
    /// [tap, channel]
    weights: &'a [T::Acc],
    bias: &'a [T::Acc],
    /// n, d, h
    at: [usize; 3],
}

/// Sums computed together: of neighbouring positions, or at a line's ends of neighbouring channels.
const TOGETHER: usize = 8;

impl<T: Stored> WithSimd for Line<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let [n, d, h] = self.at;
        let (c, channels) = (self.c, self.c.groups);
        let width = Reg::<S, T>::WIDTH;
        let (n_w, step, next) = (c.dst.sizes[4] as isize, c.step[2], c.src.strides[4]);
        let size = c.src.sizes[4] as isize;
        // Taps of the lines inside: where each reads for the first position, its shift along the line, its weights.
        let tap = |(t, tap): (usize, &Tap)| {
            let at = [d as isize * c.step[0] + tap.shift[0], h as isize * c.step[1] + tap.shift[1]];
            let inside = (0..2).all(|i| (0..c.src.sizes[2 + i] as isize).contains(&at[i]));
            let from = at[0] * c.src.strides[2] + at[1] * c.src.strides[3] + tap.shift[2] * next;
            inside.then_some((from, tap.shift[2], t * channels))
        };
        let taps: Vec<(isize, isize, usize)> = c.weight.taps.iter().enumerate().filter_map(tap).collect();
        let (from, to) = (c.src.at::<T>(n, 0, [0; 3]).cast_const(), c.dst.at::<T>(n, 0, [d, h, 0]));
        let down = c.dst.strides[4];
        // Positions whose windows lie inside go together.
        let inside = |w: isize| taps.iter().all(|(_, shift, _)| (0..size).contains(&(w * step + shift)));
        let first = (0..n_w).find(|w| inside(*w)).unwrap_or(n_w);
        let end = (first..n_w).rev().find(|w| inside(*w)).map_or(first, |w| w + 1);
        let mut w = 0;
        while w < n_w {
            if w < first || w >= end || end - first < TOGETHER as isize {
                let sees = |(_, shift, _): &&(isize, isize, usize)| (0..size).contains(&(w * step + shift));
                let taps: Vec<_> = taps.iter().filter(sees).collect();
                for i in (0..channels).step_by(TOGETHER * width) {
                    let k = |u: usize| width.min(channels.saturating_sub(i + u * width));
                    let mut sum = [Reg::<S, T>::splat(0.0); TOGETHER];
                    // SAFETY: only positions and channels inside the images are touched.
                    unsafe {
                        for (u, sum) in sum.iter_mut().enumerate().take_while(|(u, _)| k(*u) > 0) {
                            let i = i + u * width;
                            *sum = load_sum::<Reg<S, T>>(self.bias.as_ptr().add(i), k(u));
                            for (offset, _, by) in &taps {
                                let by = load_sum::<Reg<S, T>>(self.weights.as_ptr().add(by + i), k(u));
                                *sum = madd(load::<S, T>(from.offset(offset + w * step * next).add(i), k(u)), by, *sum);
                            }
                            store::<S, T>(*sum, to.offset(w * down).add(i), k(u));
                        }
                    }
                }
                w += 1;
                continue;
            }
            // The last ones may be computed twice.
            let at = w.min(end - TOGETHER as isize);
            for i in (0..channels).step_by(width) {
                let k = width.min(channels - i);
                // SAFETY: only positions and channels inside the images are touched.
                unsafe {
                    let mut sum = [load_sum::<Reg<S, T>>(self.bias.as_ptr().add(i), k); TOGETHER];
                    for (offset, _, by) in &taps {
                        let by = load_sum::<Reg<S, T>>(self.weights.as_ptr().add(by + i), k);
                        let x = from.offset(offset + at * step * next).add(i);
                        if k == width {
                            for (u, sum) in sum.iter_mut().enumerate() {
                                *sum = madd(T::load::<S>(x.offset(u as isize * step * next)), by, *sum);
                            }
                        } else {
                            for (u, sum) in sum.iter_mut().enumerate() {
                                *sum = madd(T::load_partial::<S>(x.offset(u as isize * step * next), k), by, *sum);
                            }
                        }
                    }
                    for (u, sum) in sum.into_iter().enumerate() {
                        store::<S, T>(sum, to.offset((at + u as isize) * down).add(i), k);
                    }
                }
            }
            w = at + TOGETHER as isize;
        }
    }
}

/// The gradient for the weight of a convolution with few channels a group.
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
    pub unsafe fn run<T: Stored>(&self) {
        let (n, groups) = (self.grad.sizes[0], self.window.groups);
        let [n_out, n_in] = self.per_group();
        let per_pair = (n * self.layout.n_sums() * (self.taps.len() + 4)) as f64 * 0.1;
        if by_channel(&[self.src, self.grad]) {
            // A cache line of channels at a time.
            let run = 64 / size_of::<T>().max(4);
            return split(groups.div_ceil(run), per_pair * run as f64, &|r| {
                let channels = r.start * run..groups.min(r.end * run);
                dispatch(isa(), ColumnGrad::<T> { of: self, channels, stored: PhantomData });
            });
        }
        let (n_x, n_g) = (n_in * self.layout.n_elements() + SLACK, self.layout.n_sums() + SLACK);
        split(groups, per_pair * (n_out * n_in) as f64, &|r| {
            with_scratch(Slot::A, (n_x + n_g) * size_of::<T::Acc>(), |scratch| {
                let x: *mut T::Acc = scratch.cast();
                for group in r.clone() {
                    dispatch(isa(), PlaneGrad::<T> { of: self, group, x, g: x.wrapping_add(n_x) });
                }
            });
        });
    }

    /// Output and input channels of a group.
    fn per_group(&self) -> [usize; 2] {
        [self.weight.sizes[0] / self.window.groups, self.weight.sizes[1]]
    }
}

/// The weight gradient of one group.
struct PlaneGrad<'a, T: Stored> {
    of: &'a Gradient<'a>,
    group: usize,
    x: *mut T::Acc,
    g: *mut T::Acc,
}

/// Taps summed up together: those of a window of 3 x 3.
const TAPS: usize = 9;
const MOST_LANES: usize = 16;

impl<T: Stored> WithSimd for PlaneGrad<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let PlaneGrad { of: Gradient { grad, src, weight, taps, layout, .. }, group, x, g } = self;
        let ([n_out, n_in], [d, h, w], [_, lh, lw]) = (self.of.per_group(), layout.outputs, layout.len);
        let width = Reg::<S, T>::WIDTH;
        let mut sums = vec![0.0; n_out * n_in * taps.len()];
        // SAFETY: the caller's images; the buffers hold the planes and the slack.
        unsafe {
            // Between the rows of the gradient lie zeros. What lies behind the planes is multiplied by them.
            std::ptr::write_bytes(g, 0, layout.n_sums() + SLACK);
            std::ptr::write_bytes(x.add(n_in * layout.n_elements()), 0, SLACK);
            for (n, o) in (0..grad.sizes[0]).flat_map(|n| (0..n_out).map(move |o| (n, o))) {
                let strides = [src.strides[2], src.strides[3], src.strides[4]];
                for c in 0..if o == 0 { n_in } else { 0 } {
                    let plane = src.at::<T>(n, group * n_in + c, [0; 3]);
                    layout.fill::<T, S>(plane, strides, x.add(c * layout.n_elements()));
                }
                for row in 0..d * h {
                    let from = grad.at::<T>(n, group * n_out + o, [row / h, row % h, 0]).cast_const();
                    let to = g.add((row / h * lh + row % h) * lw);
                    match grad.strides[4] {
                        1 if layout.pick == 1 => {
                            for i in (0..w).step_by(width) {
                                let n = width.min(w - i);
                                T::load_partial::<S>(from.add(i), n).store_partial(to.add(i), n);
                            }
                        }
                        step => {
                            (0..w).for_each(|i| *to.add(i * layout.pick) = (*from.offset(i as isize * step)).widen())
                        }
                    }
                }
                // Channel by channel, some taps at a time.
                let chunks = taps.len().div_ceil(TAPS);
                for (c, first) in (0..n_in).flat_map(|c| (0..chunks).map(move |i| (c, i * TAPS))) {
                    let n_taps = TAPS.min(taps.len() - first);
                    let mut sum = [Reg::<S, T>::splat(0.0); TAPS];
                    let mut at = [x.cast_const(); TAPS];
                    (0..n_taps).for_each(|t| at[t] = x.add(c * layout.n_elements() + layout.shifts[first + t]));
                    for i in (0..layout.n_sums()).step_by(width) {
                        let by = <Reg<S, T> as Register>::load(g.add(i));
                        for t in 0..TAPS {
                            sum[t] = madd(<Reg<S, T> as Register>::load(at[t].add(i)), by, sum[t]);
                        }
                    }
                    for t in 0..n_taps {
                        sums[(o * n_in + c) * taps.len() + first + t] += T::number(sum[t].sum());
                    }
                }
            }
            for (i, sum) in sums.iter().enumerate() {
                let (o, c, t) = (i / taps.len() / n_in, i / taps.len() % n_in, i % taps.len());
                let to = weight.at::<T>(group * n_out + o, c, taps[t].map(|t| t as usize));
                *to = T::narrow(T::Acc::of(*sum));
            }
        }
    }
}

/// The weight gradients of channels that lie side by side.
struct ColumnGrad<'a, T> {
    of: &'a Gradient<'a>,
    channels: Range<usize>,
    stored: PhantomData<T>,
}

impl<T: Stored> WithSimd for ColumnGrad<'_, T> {
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
                sums.iter_mut().zip(lanes).for_each(|(a, b)| *a += T::number(b));
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

impl<T: Stored> GradRow<T> {
    /// Adds the products of `K` taps.
    #[inline(always)]
    unsafe fn add<S: Simd, const K: usize>(&self, shifts: [isize; K], near: &mut [Reg<S, T>]) {
        let mut sum: [Reg<S, T>; K] = std::array::from_fn(|t| near[t]);
        let inside = |w: isize, shift: isize| (0..self.n[1]).contains(&(w * self.step + shift));
        let all = |w: &isize| shifts.iter().all(|s| inside(*w, *s));
        let whole = self.k == Reg::<S, T>::WIDTH;
        // Positions whose windows lie inside, in between others.
        let first = (0..self.n[0]).find(|w| whole && all(w)).unwrap_or(self.n[0]);
        let end = (first..self.n[0]).rev().find(all).map_or(first, |w| w + 1);
        // SAFETY: by the caller.
        unsafe {
            for w in (0..first).chain(end..self.n[0]) {
                let g = load::<S, T>(self.g.offset(w * self.steps[0]), self.k);
                for t in 0..K {
                    if inside(w, shifts[t]) {
                        let at = (w * self.step + shifts[t]) * self.steps[1];
                        sum[t] = madd(load::<S, T>(self.x.offset(at), self.k), g, sum[t]);
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
