//! Planes: blocks of rows of outputs, from padded copies of the planes of a group.
//!
//! A band of rows of all channels of a group is copied once and serves all its outputs. Weights are brought into the order
//! in which they are read before the first band.

use super::layout::{Column, Layout, Row, Rows};
use super::rows::{Taps, column, column_of, store_row};
use super::{Depthwise, SLACK};
use crate::algorithm::Correlation;
use crate::output::finish;
use oneflow_kernels_gemm::micro::{GemmFloat, Slot, with_scratch};
use oneflow_kernels_gemm::{Parallel, Pool};
use oneflow_kernels_prim::rows::{Shared, split};
use oneflow_kernels_prim::{Acc, Reg, Register, Simd, WithSimd, dispatch, isa};
use std::ops::Range;

/// The padded planes of a group, and where the taps of every phase read them.
pub struct Planes<'a> {
    of: &'a Depthwise<'a>,
    /// Of one band.
    layout: Layout,
    /// Rows of outputs of a phase, and bands.
    n_rows: usize,
    n_bands: usize,
    /// A phase's taps, by columns.
    columns: Vec<Vec<Column>>,
    readers: Vec<Reader>,
    /// Weights of one channel of outputs.
    n_weights: usize,
}

/// Elements of the planes of a band, where there are that many: it and the outputs stay in the second cache.
const BAND: usize = 1 << 15;
/// A band has at least so many rows: it copies a few rows that its neighbours copy too.
const LEAST_ROWS: usize = 8;

impl<'a> Planes<'a> {
    pub fn new(of: &'a Depthwise<'a>) -> Planes<'a> {
        let whole = of.layout();
        let [d, n_rows, w] = whole.outputs;
        let (first, n_items) = (&of.phases[0], of.dst.sizes[0] * of.phases[0].groups);
        let wanted = if Pool.threads() > 1 { (4 * Pool.threads()).div_ceil(n_items.max(1)) } else { 1 };
        let bands = (first.weight.channels * whole.n_elements()).div_ceil(BAND).max(wanted);
        let most = if d == 1 { (n_rows / LEAST_ROWS).max(1) } else { 1 };
        let per_band = n_rows.div_ceil(bands.min(most)).max(1);
        let layout = whole.band([d, per_band, w]);
        let mut first_tap = 0;
        let columns = of.phases.iter().map(|p| {
            let taps = first_tap..first_tap + p.weight.taps.len();
            first_tap = taps.end;
            layout.columns(taps.clone()).into_iter().map(move |mut c| {
                c.taps.iter_mut().for_each(|t| *t -= taps.start);
                c
            })
        });
        let columns: Vec<Vec<Column>> = columns.map(Iterator::collect).collect();
        let mut n_weights = 0;
        let readers = columns.iter().map(|columns| {
            let first_weight = n_weights;
            let places = |i: usize| columns.iter().map(move |c| (i, c));
            let columns: Vec<(usize, usize)> = (0..first.weight.channels)
                .flat_map(places)
                .map(|(i, c)| (i * layout.n_elements() + c.place, c.taps.len()))
                .collect();
            n_weights += columns.iter().map(|(_, n)| n).sum::<usize>();
            Reader { taps: Taps::of(columns.iter().map(|c| c.1)), columns, first_weight }
        });
        let readers = readers.collect();
        Planes { of, n_bands: n_rows.div_ceil(per_band), layout, n_rows, columns, readers, n_weights }
    }

    /// # Safety
    /// As `Correlation::run`.
    pub unsafe fn run<T: GemmFloat>(&self) {
        let (c, n_taps) = (&self.of.phases[0], self.layout.shifts.len());
        let n_from = c.weight.channels * self.layout.n_elements() + self.layout.spare();
        // Blocks of every phase of a line, and a line.
        let line = self.layout.outputs[2] + SLACK;
        let n_lines = if self.of.every[2] == 1 { 0 } else { self.of.every[2] * line * (Rows::MOST + 1) };
        let room = (n_from + n_lines + SLACK) * size_of::<T::Acc>();
        let n_outputs = self.of.dst.spatial().iter().product::<usize>() / self.n_bands;
        let per_group = 0.1 * (n_taps + 4) as f64 * (c.weight.n * c.weight.channels) as f64;
        let per_item = per_group * (self.layout.n_elements() + n_outputs) as f64;
        let n_weights = c.groups * c.weight.n * self.n_weights;
        with_scratch(Slot::B, n_weights * size_of::<T::Acc>(), |weights| {
            let weights = Shared::<T::Acc>::new(weights);
            // SAFETY: the caller's weight; the buffer has a place for each.
            split(c.groups, 2.0 * (c.weight.n * self.n_weights) as f64, &|r| unsafe { self.read::<T>(r, weights) });
            split(self.of.dst.sizes[0] * c.groups * self.n_bands, per_item, &|r| {
                with_scratch(Slot::A, room, |scratch| {
                    let from: *mut T::Acc = scratch.cast();
                    let lines = from.wrapping_add(n_from);
                    let weights = weights.at(0).cast_const();
                    dispatch(isa(), Groups::<T> { of: self, r, from, lines, weights });
                });
            });
        });
    }

    /// The weights of some groups, in the order in which they are read.
    unsafe fn read<T: GemmFloat>(&self, groups: Range<usize>, weights: Shared<T::Acc>) {
        let phases = self.of.phases;
        for (g, o) in groups.flat_map(|g| (0..phases[0].weight.n).map(move |o| (g, o))) {
            let mut to = weights.at(((g * phases[0].weight.n + o) * self.n_weights) as isize);
            for (columns, phase) in self.columns.iter().zip(phases) {
                for (i, column) in (0..phase.weight.channels).flat_map(|i| columns.iter().map(move |c| (i, c))) {
                    for tap in &column.taps {
                        // SAFETY: by the caller.
                        unsafe {
                            *to = phase.weight::<T>(g, [o, i, *tap]);
                            to = to.add(1);
                        }
                    }
                }
            }
        }
    }
}

/// The outputs of some bands of groups: of all of an image, then of the next.
struct Groups<'a, T: GemmFloat> {
    of: &'a Planes<'a>,
    r: Range<usize>,
    from: *mut T::Acc,
    lines: *mut T::Acc,
    weights: *const T::Acc,
}

/// How a phase reads the planes: columns by where they begin and their number of taps.
struct Reader {
    columns: Vec<(usize, usize)>,
    taps: Taps,
    /// Where its weights begin among those of an output.
    first_weight: usize,
}

/// A band of a group of an image.
#[derive(Clone, Copy)]
struct Band {
    n: usize,
    g: usize,
    /// Its first row and how many it has, of a phase.
    first: usize,
    n_rows: usize,
}

impl<T: GemmFloat> WithSimd for Groups<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Planes { layout, of, n_bands, n_rows, .. } = self.of;
        let (groups, per_band) = (of.phases[0].groups, layout.outputs[1]);
        let channels = if layout.shifts.is_empty() { 0 } else { of.phases[0].weight.channels };
        let strides = [of.src.strides[2], of.src.strides[3], of.src.strides[4]];
        let wide = self.from.wrapping_add(channels * layout.n_elements() + SLACK);
        let mut copied: Option<(usize, Vec<Row>)> = None;
        for i in self.r.clone() {
            let (n, g, first) = (i / n_bands / groups, i / n_bands % groups, i % n_bands * per_band);
            let band = Band { n, g, first, n_rows: per_band.min(n_rows - first) };
            if copied.as_ref().is_none_or(|(of, _)| *of != first) {
                // SAFETY: the buffer holds the planes. What pads them stays for all planes of the band.
                unsafe { std::ptr::write_bytes(self.from, 0, channels * layout.n_elements()) };
                copied = Some((first, layout.rows(strides, first)));
            }
            for (i, (_, rows)) in (0..channels).flat_map(|i| copied.iter().map(move |c| (i, c))) {
                let plane = of.src.at::<T>(n, g * channels + i, [0; 3]);
                // SAFETY: the caller's images; the buffer holds the planes and what is written behind them.
                unsafe {
                    layout.fill::<T, S>(rows, (plane, strides[2]), (self.from.add(i * layout.n_elements()), wide));
                }
            }
            // SAFETY: as above.
            unsafe {
                match Rows::of(band.n_rows) {
                    Rows::Eight => self.outputs::<S, 8>(band),
                    Rows::Seven => self.outputs::<S, 7>(band),
                    Rows::Four => self.outputs::<S, 4>(band),
                    Rows::One => self.outputs::<S, 1>(band),
                }
            }
        }
    }
}

impl<T: GemmFloat> Groups<'_, T> {
    /// All outputs of a band, `R` rows of every phase at a time; the last ones may be computed twice.
    #[inline(always)]
    unsafe fn outputs<S: Simd, const R: usize>(&self, band: Band) {
        let (layout, first) = (&self.of.layout, &self.of.of.phases[0]);
        let [d, _, _] = layout.outputs;
        if self.of.of.every == [1; 3] && self.of.of.dst.strides[4] == 1 {
            for (id, ih) in (0..d).flat_map(|d| (0..band.n_rows).step_by(R).map(move |h| (d, h))) {
                let ih = ih.min(band.n_rows - R);
                for o in 0..first.weight.n {
                    // SAFETY: by the caller.
                    unsafe { self.plain_block::<S, R>(band, o, [id, ih]) };
                }
            }
            return;
        }
        for (id, ih) in (0..d).flat_map(|d| (0..band.n_rows).step_by(R).map(move |h| (d, h))) {
            let ih = ih.min(band.n_rows - R);
            for o in 0..first.weight.n {
                // SAFETY: by the caller.
                unsafe { self.block::<S, R>(band, o, [id, ih]) };
            }
        }
    }

    /// `R` rows of neighbours of one output of a single phase.
    #[inline(always)]
    unsafe fn plain_block<S: Simd, const R: usize>(&self, band: Band, o: usize, [id, ih]: [usize; 2]) {
        let (layout, Depthwise { dst, phases, .. }) = (&self.of.layout, self.of.of);
        let (c, reader, [_, _, w], [_, lh, lw]) = (&phases[0], &self.of.readers[0], layout.outputs, layout.len);
        let channel = band.g * c.weight.n + o;
        let weights = self.weights.wrapping_add(channel * self.of.n_weights);
        let from = self.from.wrapping_add((id * lh + ih) * lw);
        let (to, down) = (dst.at::<T>(band.n, channel, [id, band.first + ih, 0]), dst.strides[3]);
        let width = Reg::<S, T>::WIDTH;
        // What a short row spills lies in the next one, which is stored after it.
        let spills = w < width && 2 * w >= width && down == w as isize;
        // SAFETY: the buffer holds the plane; the positions lie in the image.
        unsafe {
            let bias = Reg::<S, T>::all_of(c.first_sum::<T>(channel));
            for i in (0..w).step_by(width) {
                // Whole registers: the last one may be computed twice in part.
                let i = i.min(w.saturating_sub(width));
                let sums = reader.sums::<Reg<S, T>, R>(from.add(i), lw, weights, bias);
                for (r, sum) in sums.into_iter().enumerate() {
                    let (sum, to) = (finish::<T, S>(c.activation, sum), to.offset(r as isize * down).add(i));
                    match spills && r + 1 < R {
                        true => T::store::<S>(sum, to),
                        false => T::store_n::<S>(sum, to, width.min(w - i)),
                    }
                }
            }
        }
    }

    /// `R` rows of every phase of one output.
    #[inline(always)]
    unsafe fn block<S: Simd, const R: usize>(&self, Band { n, g, first, .. }: Band, o: usize, [id, ih]: [usize; 2]) {
        let (layout, Depthwise { dst, phases, every, .. }) = (&self.of.layout, self.of.of);
        let (channel, w) = (g * phases[0].weight.n + o, layout.outputs[2]);
        let weights = self.weights.wrapping_add(channel * self.of.n_weights);
        // SAFETY: by the caller.
        let bias = Reg::<S, T>::all_of(unsafe { phases[0].first_sum::<T>(channel) });
        let [_, n_rows, n_columns] = dst.spatial();
        let (lh, lw, width, step) = (layout.len[1], layout.len[2], Reg::<S, T>::WIDTH, dst.strides[4]);
        // Blocks of a phase, `ld` apart in every row, and the line they make up.
        let ld = every[2] * (w + SLACK);
        let whole = self.lines.wrapping_add(R * ld);
        let from = self.from.wrapping_add((id * lh + ih) * lw);
        for lines in 0..every[0] * every[1] {
            let at_d = id * every[0] + lines / every[1];
            let row = |r: usize| (first + ih + r) * every[1] + lines % every[1];
            if at_d >= dst.sizes[2] {
                continue;
            }
            let in_line = &self.of.readers[lines * every[2]..(lines + 1) * every[2]];
            for (phase, reader) in in_line.iter().enumerate() {
                let weights = weights.wrapping_add(reader.first_weight);
                for i in (0..w).step_by(width) {
                    // Whole registers: the last one may be computed twice in part.
                    let i = i.min(w.saturating_sub(width));
                    // SAFETY: the buffer holds the plane and the blocks; the positions lie in the image.
                    unsafe {
                        let sums = reader.sums::<Reg<S, T>, R>(from.add(i), lw, weights, bias);
                        for (r, sum) in sums.into_iter().enumerate() {
                            if every[2] > 1 {
                                sum.store(self.lines.add(r * ld + phase * (w + SLACK) + i));
                                continue;
                            }
                            if row(r) >= n_rows {
                                continue;
                            }
                            let sum = finish::<T, S>(phases[0].activation, sum);
                            let to = dst.at::<T>(n, channel, [at_d, row(r), i]);
                            match (step, width.min(w - i)) {
                                (1, n) => T::store_n::<S>(sum, to, n),
                                (step, n) => T::scatter::<S>(sum, to, step, n),
                            }
                        }
                    }
                }
            }
            for r in (0..if every[2] > 1 { R } else { 0 }).filter(|r| row(*r) < n_rows) {
                // SAFETY: as above.
                unsafe {
                    mix(self.lines.add(r * ld), w + SLACK, (every[2], w), whole);
                    store_row::<T, S>(whole, n_columns, dst.at::<T>(n, channel, [at_d, row(r), 0]), step);
                }
            }
        }
    }
}

/// `parts` runs of `n` numbers, `ld` apart, one number of each after the other.
///
/// # Safety
/// The numbers lie in memory that does not overlap.
#[inline(always)]
unsafe fn mix<A: Copy>(from: *const A, ld: usize, (parts, n): (usize, usize), to: *mut A) {
    // SAFETY: by the caller.
    unsafe {
        if parts != 2 {
            return (0..n * parts).for_each(|i| *to.add(i) = *from.add(i % parts * ld + i / parts));
        }
        let [a, b] = [from, from.add(ld)].map(|p| std::slice::from_raw_parts(p, n));
        let (pairs, _) = std::slice::from_raw_parts_mut(to, 2 * n).as_chunks_mut::<2>();
        pairs.iter_mut().zip(a.iter().zip(b)).for_each(|(to, (a, b))| *to = [*a, *b]);
    }
}

impl Reader {
    /// A register of sums in each of `R` rows.
    ///
    /// # Safety
    /// The plane is readable where the columns reach; there is a weight for every tap.
    #[inline(always)]
    unsafe fn sums<G: Register, const R: usize>(
        &self,
        x: *const G::Elem,
        ld: usize,
        mut by: *const G::Elem,
        bias: G,
    ) -> [G; R] {
        // SAFETY: by the caller.
        unsafe {
            match self.taps {
                Taps::Three => self.equal_sums::<G, R, 3>(x, ld, by, bias),
                Taps::Five => self.equal_sums::<G, R, 5>(x, ld, by, bias),
                Taps::Any => {
                    let mut sum = [bias; R];
                    for (place, n) in &self.columns {
                        column::<G, R>(x.add(*place), ld, (by, *n), &mut sum);
                        by = by.add(*n);
                    }
                    sum
                }
            }
        }
    }

    /// As `sums`, where every column has `K` taps.
    #[inline(always)]
    unsafe fn equal_sums<G: Register, const R: usize, const K: usize>(
        &self,
        x: *const G::Elem,
        ld: usize,
        mut by: *const G::Elem,
        bias: G,
    ) -> [G; R] {
        let mut sum = [bias; R];
        for (place, _) in &self.columns {
            // SAFETY: by the caller.
            unsafe {
                column_of::<G, R, K>(x.add(*place), ld, by, &mut sum);
                by = by.add(K);
            }
        }
        sum
    }
}

impl Correlation<'_> {
    /// # Safety
    /// The group has the output, the channel and the tap.
    #[inline(always)]
    pub unsafe fn weight<T: GemmFloat>(&self, g: usize, [o, i, tap]: [usize; 3]) -> T::Acc {
        let w = &self.weight;
        let at = g as isize * self.group_stride + o as isize * w.n_stride + i as isize * w.c_stride;
        // SAFETY: by the caller.
        unsafe { (*w.ptr.cast::<T>().offset(at + w.taps[tap].weight)).widen() }
    }

    /// # Safety
    /// The bias has the channel.
    #[inline(always)]
    pub unsafe fn first_sum<T: GemmFloat>(&self, channel: usize) -> T::Acc {
        // SAFETY: by the caller.
        self.bias
            .map_or(T::Acc::ZERO, |(b, stride)| unsafe { (*b.cast::<T>().offset(channel as isize * stride)).widen() })
    }
}
