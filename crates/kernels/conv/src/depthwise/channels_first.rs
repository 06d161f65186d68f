//! Planes: blocks of rows of outputs, from padded copies of the planes of a group.

use super::layout::{Column, Layout, ROWS};
use super::rows::{column, store_row};
use super::{Depthwise, SLACK};
use crate::algorithm::Correlation;
use crate::output::finish;
use oneflow_kernels_gemm::micro::{GemmFloat, Slot, with_scratch};
use oneflow_kernels_prim::rows::split;
use oneflow_kernels_prim::{Acc, Reg, Register, Simd, WithSimd, dispatch, isa};
use std::ops::Range;

/// The padded planes of a group, and where the taps of every phase read them.
pub struct Planes<'a> {
    of: &'a Depthwise<'a>,
    layout: Layout,
    /// A phase's taps, by columns.
    columns: Vec<Vec<Column>>,
}

impl<'a> Planes<'a> {
    pub fn new(of: &'a Depthwise<'a>) -> Planes<'a> {
        let layout = of.layout();
        let mut first = 0;
        let columns = of.phases.iter().map(|p| {
            let taps = first..first + p.weight.taps.len();
            first = taps.end;
            layout.columns(taps.clone()).into_iter().map(move |mut c| {
                c.taps.iter_mut().for_each(|t| *t -= taps.start);
                c
            })
        });
        let columns = columns.map(Iterator::collect).collect();
        Planes { of, layout, columns }
    }

    /// # Safety
    /// As `Correlation::run`.
    pub unsafe fn run<T: GemmFloat>(&self) {
        let (c, n_taps) = (&self.of.phases[0], self.layout.shifts.len());
        let n_from = c.weight.channels * self.layout.n_elements() + self.layout.spare();
        // Blocks of every phase of a line, and a line.
        let line = self.layout.outputs[2] + SLACK;
        let n_lines = if self.of.every[2] == 1 { 0 } else { self.of.every[2] * line * (ROWS + 1) };
        let room = (n_from + n_lines + SLACK) * size_of::<T::Acc>();
        let n_outputs = self.of.dst.spatial().iter().product::<usize>();
        let per_group = 0.1 * (n_taps + 4) as f64 * (c.weight.n * c.weight.channels) as f64;
        split(self.of.dst.sizes[0] * c.groups, per_group * (self.layout.n_elements() + n_outputs) as f64, &|r| {
            with_scratch(Slot::A, room, |scratch| {
                let from: *mut T::Acc = scratch.cast();
                let lines = from.wrapping_add(n_from);
                dispatch(isa(), Groups::<T> { of: self, r, from, lines });
            });
        });
    }
}

/// The outputs of some groups: of all of an image, then of the next.
struct Groups<'a, T: GemmFloat> {
    of: &'a Planes<'a>,
    r: Range<usize>,
    from: *mut T::Acc,
    lines: *mut T::Acc,
}

/// What reads a plane: columns by where they begin and their number of taps, and the weights in this order.
struct Reader<A> {
    columns: Vec<(usize, usize)>,
    weights: Vec<A>,
}

impl<T: GemmFloat> WithSimd for Groups<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let (layout, phases) = (&self.of.layout, self.of.of.phases);
        let mut readers: Vec<Reader<T::Acc>> =
            phases.iter().map(|_| Reader { columns: vec![], weights: vec![] }).collect();
        for i in self.r.clone() {
            let (n, g) = (i / phases[0].groups, i % phases[0].groups);
            // SAFETY: the caller's images; the buffer holds the planes and what is written behind them.
            unsafe {
                self.fill::<S>(n, g);
                for o in 0..phases[0].weight.n {
                    self.read(g, o, &mut readers);
                    match layout.outputs[1] {
                        ROWS.. => self.output::<S, ROWS>(n, g, o, &readers),
                        4.. => self.output::<S, 4>(n, g, o, &readers),
                        _ => self.output::<S, 1>(n, g, o, &readers),
                    }
                }
            }
        }
    }
}

impl<T: GemmFloat> Groups<'_, T> {
    /// Copies the planes of a group.
    #[inline(always)]
    unsafe fn fill<S: Simd>(&self, n: usize, g: usize) {
        let (layout, Depthwise { src, phases, .. }) = (&self.of.layout, self.of.of);
        let channels = if layout.shifts.is_empty() { 0 } else { phases[0].weight.channels };
        let strides = [src.strides[2], src.strides[3], src.strides[4]];
        for i in 0..channels {
            let plane = src.at::<T>(n, g * channels + i, [0; 3]);
            // SAFETY: by the caller.
            unsafe { layout.fill::<T, S>(plane, strides, self.from.add(i * layout.n_elements())) };
        }
    }

    /// What the phases of one channel of outputs read.
    unsafe fn read(&self, g: usize, o: usize, readers: &mut [Reader<T::Acc>]) {
        let phases = self.of.of.phases;
        for ((reader, columns), phase) in readers.iter_mut().zip(&self.of.columns).zip(phases) {
            reader.columns.clear();
            reader.weights.clear();
            for (i, column) in (0..phase.weight.channels).flat_map(|i| columns.iter().map(move |c| (i, c))) {
                reader.columns.push((i * self.of.layout.n_elements() + column.place, column.taps.len()));
                // SAFETY: the caller's weight.
                reader.weights.extend(column.taps.iter().map(|t| unsafe { phase.weight::<T>(g, [o, i, *t]) }));
            }
        }
    }

    /// One channel of outputs, `R` rows of every phase at a time; the last ones may be computed twice.
    #[inline(always)]
    unsafe fn output<S: Simd, const R: usize>(&self, n: usize, g: usize, o: usize, readers: &[Reader<T::Acc>]) {
        let (layout, Depthwise { dst, phases, every, .. }) = (&self.of.layout, self.of.of);
        let (channel, [d, h, w]) = (g * phases[0].weight.n + o, layout.outputs);
        // SAFETY: by the caller.
        let bias = Reg::<S, T>::all_of(unsafe { phases[0].first_sum::<T>(channel) });
        let [_, n_rows, n_columns] = dst.spatial();
        let (lh, lw, width, step) = (layout.len[1], layout.len[2], Reg::<S, T>::WIDTH, dst.strides[4]);
        // Blocks of a phase, `ld` apart in every row, and the line they make up.
        let ld = every[2] * (w + SLACK);
        let whole = self.lines.wrapping_add(R * ld);
        for (id, ih) in (0..d).flat_map(|d| (0..h).step_by(R).map(move |h| (d, h))) {
            let ih = ih.min(h - R);
            let from = self.from.wrapping_add((id * lh + ih) * lw);
            for lines in 0..every[0] * every[1] {
                let at_d = id * every[0] + lines / every[1];
                let row = |r: usize| (ih + r) * every[1] + lines % every[1];
                if at_d >= dst.sizes[2] {
                    continue;
                }
                let in_line = &readers[lines * every[2]..(lines + 1) * every[2]];
                for (phase, reader) in in_line.iter().enumerate() {
                    for i in (0..w).step_by(width) {
                        // Whole registers: the last one may be computed twice in part.
                        let i = i.min(w.saturating_sub(width));
                        // SAFETY: the buffer holds the plane and the blocks; the positions lie in the image.
                        unsafe {
                            let sums = reader.sums::<Reg<S, T>, R>(from.add(i), lw, bias);
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

impl<A: Acc> Reader<A> {
    /// A register of sums in each of `R` rows.
    ///
    /// # Safety
    /// The plane is readable where the columns reach.
    #[inline(always)]
    unsafe fn sums<G: Register<Elem = A>, const R: usize>(&self, x: *const A, ld: usize, bias: G) -> [G; R] {
        let (mut sum, mut by) = ([bias; R], self.weights.as_ptr());
        for (place, n) in &self.columns {
            // SAFETY: by the caller; there is a weight for every tap.
            unsafe {
                column::<G, R>(x.add(*place), ld, (by, *n), &mut sum);
                by = by.add(*n);
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
