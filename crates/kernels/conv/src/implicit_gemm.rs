//! Correlations summed tap by tap, block by block, where no faster way fits.
//!
//! Blocks of positions are tasks. A block's region of the source is brought into the cache once, with channels side by side,
//! and the micro-kernels read their rows where they lie in it: no window is ever copied. What belongs to a stride of the
//! result (the gradient for an image) are several correlations over one region, whose sums lie between each other. bfloat16
//! stays itself and goes in pairs where the machine multiplies pairs.

use crate::algorithm::{Correlation, reach};
use crate::bf16_pairs::Pairs;
use crate::geometry::{Block, Blocks, Image, Three};
use crate::output::{Store, tile_len};
use crate::packed_weights::Weight;
use crate::region::{Region, SPARE};
use crate::tiles::Gathered;
use crate::winograd::part;
use oneflow_base::bf16;
use oneflow_kernels_gemm::micro::{Ahead, Gather, GemmFloat, Kernels, Mode, Slot, bf16_kernels, with_scratch};
use oneflow_kernels_gemm::{FILLED, PANEL, Parallel, Pool};
use oneflow_kernels_prim::rows::Shared;
use oneflow_kernels_prim::{Acc, Activation, Isa, Simd, WithSimd, isa};
use std::any::TypeId;
use std::ops::Range;

/// Correlations over one source whose results are every `every`-th position of one image.
pub struct Direct<'a> {
    pub src: Image,
    pub dst: Image,
    pub every: [usize; 3],
    /// One for each remainder by `every`, the last dimension fastest.
    pub phases: &'a [Correlation<'a>],
    /// The weights of the one phase and the one group, of float32, in the panels of [`prepared`](crate::prepared).
    pub prepared: Option<Shared<f32>>,
}

/// How operands lie for the micro-kernels.
pub trait Operands<T: GemmFloat> {
    type P: Copy + 'static;
    /// Channels of one packed element.
    const TOGETHER: usize;
    fn kernels(isa: Isa) -> &'static Kernels<Self::P, T::Acc>;
    /// Packed elements of a panel along k, of so many that are not zeros at its end.
    fn along_k(n: usize) -> usize {
        n
    }
    /// Sets the sums another way than the kernels, if there is one here.
    ///
    /// # Safety
    /// As `tiles::Gathered::multiply`.
    unsafe fn gathered(_: &Gathered<'_, Self::P, T::Acc>) -> bool {
        false
    }
    /// Whether it gives the same: zeros around the image are multiplied by the packed weights, so all must be finite.
    fn may_gather(_: &[Self::P]) -> bool {
        false
    }
    /// As `Weight::pack`, with every tap's channels rounded up to packed elements.
    ///
    /// # Safety
    /// As `Weight::pack`.
    unsafe fn weights(weight: &Weight<'_>, isa: Isa, dst: Shared<Self::P>);
    /// As `Region::fill`, into packed elements.
    ///
    /// # Safety
    /// As `Region::fill`.
    unsafe fn region(
        region: &Region,
        isa: Isa,
        src: (&Image, Range<usize>, usize, Three),
        dst: *mut Self::P,
        tile: *mut T::Acc,
    );
}

/// In the compute dtype.
pub struct Whole;

impl<T: GemmFloat> Operands<T> for Whole {
    type P = T::Acc;
    const TOGETHER: usize = 1;
    fn kernels(isa: Isa) -> &'static Kernels<T::Acc, T::Acc> {
        T::Mode::kernels(isa)
    }
    unsafe fn weights(weight: &Weight<'_>, isa: Isa, dst: Shared<T::Acc>) {
        // SAFETY: the contract is the same.
        unsafe { weight.pack::<T>(isa, dst) }
    }
    unsafe fn region(
        region: &Region,
        isa: Isa,
        (src, channels, first, start): (&Image, Range<usize>, usize, Three),
        dst: *mut T::Acc,
        tile: *mut T::Acc,
    ) {
        // SAFETY: the contract is the same.
        unsafe { region.fill::<T>(isa, src, channels, first, start, dst, tile) }
    }
}

/// Rows of bfloat16 numbers, two and two as the halves of one row.
pub struct PairRows {
    pub from: *const f32,
    pub rows: usize,
    pub width: usize,
    pub to: *mut u32,
}

impl WithSimd for PairRows {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        for row in (0..self.rows).step_by(2) {
            // SAFETY: the caller's rows.
            unsafe {
                let low = self.from.add(row * self.width);
                let to = self.to.add(row / 2 * self.width);
                if row + 1 == self.rows {
                    (0..self.width).for_each(|i| *to.add(i) = (*low.add(i)).to_bits() >> 16);
                    continue;
                }
                let high = low.add(self.width);
                for i in 0..self.width {
                    *to.add(i) = (*low.add(i)).to_bits() >> 16 | (*high.add(i)).to_bits() & 0xffff_0000;
                }
            }
        }
    }
}

/// The kernels for pairs of `T`, where the machine has them.
pub fn pairs<T: GemmFloat>() -> Option<&'static Kernels<u32, f32>> {
    bf16_kernels(isa()).filter(|_| TypeId::of::<T>() == TypeId::of::<bf16>())
}

/// Packed weights from which packing them is worth more threads.
const LARGE_WEIGHTS: usize = 1 << 15;
/// Positions of a block, and sums it keeps.
const BLOCK_ROWS: usize = 224;
const BLOCK_SUMS: usize = 1 << 17;
/// Sums that stay in the second cache until they are stored.
const NEAR_SUMS: usize = 1 << 16;
/// Packed elements of k that are multiplied in one pass over a block: a panel of weights stays in the second cache.
const KC: usize = 512;

impl Direct<'_> {
    /// # Safety
    /// As `Correlation::run`, for each phase.
    pub unsafe fn run<T: GemmFloat>(&self) {
        // SAFETY: by the caller; pairs are taken of bfloat16 alone.
        unsafe {
            match pairs::<T>().is_some() {
                true => self.run_as::<bf16, Pairs>(),
                false => self.run_as::<T, Whole>(),
            }
        }
    }

    unsafe fn run_as<T: GemmFloat, O: Operands<T>>(&self) {
        let isa = isa();
        let ker = O::kernels(isa);
        let first = &self.phases[0];
        let (n, channels) = (first.weight.n, first.weight.channels);
        let columns = n.next_multiple_of(ker.lanes);
        // Packed elements of a phase's weights.
        let len_of = |c: &Correlation<'_>| O::along_k(c.weight.taps.len() * channels.div_ceil(O::TOGETHER)) * columns;
        let firsts: Vec<usize> = self
            .phases
            .iter()
            .scan(0, |at, p| {
                let first = *at;
                *at += len_of(p);
                Some(first)
            })
            .collect();
        let len = self.phases.iter().map(len_of).sum::<usize>();
        // The grid of every phase's positions, the last ones of which may lie beyond the image.
        let grid: [usize; 4] = std::array::from_fn(|d| match d {
            0 => self.dst.sizes[0],
            d => self.dst.sizes[1 + d].div_ceil(self.every[d - 1]),
        });
        let target = (BLOCK_SUMS / columns.max(1)).clamp(BLOCK_ROWS, 1024) / self.phases.len();
        let blocks = Blocks::new(grid, target.max(BLOCK_ROWS / 4));
        let (least, reach) = reach(self.phases.iter().flat_map(|p| p.weight.taps).map(|t| t.shift));
        let room = if self.prepared.is_some() { 0 } else { first.groups * len * size_of::<O::P>() + SPARE };
        with_scratch(Slot::B, room, |packed| {
            let packed = Shared::<O::P>::new(self.prepared.map_or(packed, |p| p.at(0).cast()));
            let weights = |i: usize| {
                let (g, phase, first) = (i / firsts.len(), &self.phases[i % firsts.len()], firsts[i % firsts.len()]);
                let ptr = phase.weight.ptr.cast::<T>().wrapping_offset(g as isize * phase.group_stride).cast();
                let to = Shared::new(packed.at((g * len + first) as isize).cast());
                // SAFETY: the group's weight, and its part of the buffer.
                unsafe { O::weights(&Weight { ptr, ..phase.weight }, isa, to) };
            };
            // Many groups are packed by all threads; the weights of one group are shared out where they are large.
            let n_weights = first.groups * firsts.len();
            match first.groups >= 2 * Pool.threads() && first.groups * len >= LARGE_WEIGHTS {
                _ if self.prepared.is_some() => {}
                true => Pool.run(n_weights, &weights),
                false => (0..n_weights).for_each(weights),
            }
            // SAFETY: the weights are packed, one after the other.
            let all = unsafe { std::slice::from_raw_parts(packed.at(0).cast_const(), first.groups * len) };
            let gathers = O::may_gather(all);
            let (panel, filled) = if self.prepared.is_some() { (PANEL, FILLED) } else { (ker.nr, ker.lanes) };
            // Few blocks leave threads idle: share out the channels too.
            let n_blocks = blocks.len() * first.groups;
            let panels = n.div_ceil(ker.nr);
            let splits =
                (3 * Pool.threads()).div_ceil(n_blocks.max(1)).min(if Pool.threads() > 1 { panels } else { 1 });
            let per_split = panels.div_ceil(splits.max(1)) * ker.nr;
            let splits = n.div_ceil(per_split.max(1));
            let task = |i: usize| {
                let (block, split) = (i / splits, i % splits);
                let (g, block) = (block / blocks.len(), blocks.get(block % blocks.len()));
                let cols = split * per_split..((split + 1) * per_split).min(n);
                let packed = packed.at((g * len) as isize).cast_const();
                let firsts = &firsts;
                let work = Work::<T, O> { of: self, isa, ker, least, reach, packed, panel, filled, firsts, g, gathers };
                // SAFETY: the caller's contract; tasks have their own positions and channels.
                unsafe { work.run(block, cols) };
            };
            match n_blocks * splits {
                1 => task(0),
                n => Pool.run(n, &task),
            }
        })
    }
}

struct Work<'a, T: GemmFloat, O: Operands<T>> {
    of: &'a Direct<'a>,
    isa: Isa,
    ker: &'static Kernels<O::P, T::Acc>,
    /// The smallest shift and how far the others reach beyond it.
    least: Three,
    reach: Three,
    packed: *const O::P,
    /// Columns of a panel of weights, and what the last one is filled up to.
    panel: usize,
    filled: usize,
    /// Where each phase's weights begin.
    firsts: &'a [usize],
    g: usize,
    /// `Operands::gathered` is asked.
    gathers: bool,
}

impl<T: GemmFloat, O: Operands<T>> Work<'_, T, O> {
    unsafe fn run(&self, block: Block, cols: Range<usize>) {
        let (of, ker, c) = (self.of, self.ker, &self.of.phases[0]);
        let extent = |d: usize| (block.len[d + 1] - 1) * c.step[d] as usize + self.reach[d] as usize + 1;
        let region =
            Region::new([block.len[0], extent(0), extent(1), extent(2)], c.weight.channels, ker.lanes, O::TOGETHER);
        let whole = self.positions(&block);
        // As many channels at a time as have their sums near.
        let near_sums = if self.gathers { BLOCK_SUMS } else { NEAR_SUMS };
        let near = (near_sums / whole.n_positions().max(1) / ker.nr).max(1) * ker.nr;
        let ld = cols.len().min(near).next_multiple_of(ker.lanes);
        let in_place = self.in_place(&cols);
        let rooms = [(region.n_elements() + ker.nr) / O::TOGETHER + 16, tile_len(ker.nr)];
        let n_sums = if in_place { 0 } else { whole.n_positions() * ld + ker.nr };
        let n = rooms.iter().sum::<usize>().next_multiple_of(16) + n_sums;
        with_scratch(Slot::A, n * size_of::<T::Acc>() + SPARE, |scratch| {
            let region_at: *mut O::P = scratch.cast();
            // SAFETY: the parts lie in the scratch one after the other; the caller's contract covers the images.
            unsafe {
                let tile = scratch.cast::<T::Acc>().add(rooms[0]);
                let start = std::array::from_fn(|d| block.start[d + 1] as isize * c.step[d] + self.least[d]);
                let channels = self.g * c.weight.channels..(self.g + 1) * c.weight.channels;
                if c.weight.channels > 0 {
                    O::region(&region, self.isa, (&of.src, channels, block.start[0], start), region_at, tile);
                }
                let ld_of_rows = if in_place { None } else { Some(ld) };
                let classes: Vec<_> =
                    (0..of.phases.len()).map(|p| self.classes(p, &block, &whole, &region, ld_of_rows)).collect();
                for start in cols.clone().step_by(near) {
                    let cols = start..(start + near).min(cols.end);
                    let first = self.g * c.weight.n + start;
                    let sums = match in_place {
                        true => of.dst.at::<T::Acc>(0, first, [0; 3]),
                        false => scratch.cast::<T::Acc>().add(n - n_sums),
                    };
                    for (phase, classes) in classes.iter().enumerate() {
                        self.multiply(phase, &region, region_at, classes, cols.clone(), sums);
                    }
                    if !in_place {
                        let store = Store { dst: &of.dst, bias: c.bias, activation: c.activation, isa: self.isa };
                        store.block::<T>(whole, first..first + cols.len(), (sums, ld), tile);
                    }
                }
            }
        })
    }

    /// Whether the sums are the result as they are: channels side by side, in whole registers.
    fn in_place(&self, cols: &Range<usize>) -> bool {
        let (same, dst) = (TypeId::of::<T>() == TypeId::of::<T::Acc>(), &self.of.dst);
        let bare = self.of.phases.iter().all(|c| c.bias.is_none() && c.activation == Activation::None);
        same && bare && dst.strides[1] == 1 && cols.len().is_multiple_of(self.ker.lanes)
    }

    /// The positions of the image that a block of every phase's positions stands for.
    fn positions(&self, block: &Block) -> Block {
        let (mut start, mut len) = (block.start, block.len);
        for d in 0..3 {
            start[d + 1] *= self.of.every[d];
            len[d + 1] = (len[d + 1] * self.of.every[d]).min(self.of.dst.sizes[2 + d] - start[d + 1]);
        }
        Block { start, len }
    }

    /// How many taps lie side by side in the region and the weights: a line of the window, where channels are few.
    fn side_by_side(&self, phase: usize, region: &Region) -> usize {
        let (taps, channels) = (self.of.phases[phase].weight.taps, region.channels as isize);
        let dense = region.ld == region.channels.next_multiple_of(O::TOGETHER);
        let Some(first) = taps.first().filter(|_| dense) else { return 1 };
        let line = taps.iter().take_while(|t| t.shift[..2] == first.shift[..2]).count();
        let near = taps.chunks(line).all(|l| {
            let at = |(i, t): (usize, &crate::packed_weights::Tap)| {
                t.shift == [l[0].shift[0], l[0].shift[1], l[0].shift[2] + i as isize]
            };
            l.len() == line && l.iter().enumerate().all(at)
        });
        if near && channels > 0 { line } else { 1 }
    }

    /// Rows of one phase, [in the region, in the sums], by the runs of taps they see inside the image. Sums lie `ld` apart, or
    /// are those of the image.
    fn classes(&self, phase: usize, block: &Block, whole: &Block, region: &Region, ld: Option<usize>) -> Vec<Class> {
        let (of, c) = (self.of, &self.of.phases[phase]);
        let (taps, line) = (c.weight.taps, self.side_by_side(phase, region));
        let runs: Vec<_> = taps.iter().step_by(line).collect();
        let all = if runs.len() >= 64 { u64::MAX } else { (1 << runs.len()) - 1 };
        // The runs that reach the image from each coordinate; a line of taps is read with the zeros beside the image.
        let seen: [Vec<u64>; 3] = std::array::from_fn(|d| {
            let one = |i: usize| {
                if runs.len() > 64 || (d == 2 && line > 1) {
                    return all;
                }
                let at = (block.start[d + 1] + i) as isize * c.step[d];
                let inside = |shift: isize| (0..of.src.sizes[2 + d] as isize).contains(&(at + shift));
                let mut bits = runs.iter().enumerate().filter(|(_, t)| inside(t.shift[d]));
                bits.by_ref().fold(0, |m, (i, _)| m | 1u64 << i)
            };
            (0..block.len[d + 1]).map(one).collect()
        });
        let [e0, e1, e2] = of.every;
        let at_phase = [phase / (e1 * e2), phase / e2 % e1, phase % e2];
        debug_assert!(at_phase[0] < e0);
        let [_, len_d, lh, lw] = whole.len;
        // Stretches of a line that see the same, up to the end of the image.
        let n_in_line = lw.saturating_sub(at_phase[2]).div_ceil(e2).min(seen[2].len());
        let stretches: Vec<_> =
            seen[2][..n_in_line].chunk_by(|a, b| a == b).map(|same| (same.len(), same[0])).collect();
        // A stride that overflows has one position a line, and is not used.
        let steps = [
            c.step[2].wrapping_mul(region.ld as isize) / O::TOGETHER as isize,
            e2 as isize * ld.map_or(of.dst.strides[4], |ld| ld as isize),
        ];
        // Neighbours are mostly of one class.
        let (mut classes, mut last): (Vec<Class>, usize) = (Vec::new(), 0);
        Block { start: block.start, len: [block.len[0], block.len[1], block.len[2], 1] }.each(|_, at| {
            let to: [usize; 3] = std::array::from_fn(|d| at[d + 1] * of.every[d] + at_phase[d]);
            if (0..3).any(|d| to[d] >= whole.len[d + 1]) {
                return;
            }
            let from = region.offset(at[0], std::array::from_fn(|d| at[d + 1] as isize * c.step[d]));
            let sum = match ld {
                Some(ld) => ((((at[0] * len_d + to[0]) * lh + to[1]) * lw + to[2]) * ld) as isize,
                None => of.dst.offset(whole.start[0] + at[0], 0, std::array::from_fn(|d| whole.start[d + 1] + to[d])),
            };
            let mut row = [from / O::TOGETHER as isize, sum];
            for &(n, beside) in &stretches {
                let runs = seen[0][at[1]] & seen[1][at[2]] & beside;
                if classes.get(last).is_none_or(|c| c.runs != runs) {
                    last = classes.iter().position(|c| c.runs == runs).unwrap_or(classes.len());
                }
                if last == classes.len() {
                    classes.push(Class { runs, rows: Vec::with_capacity(block.n_positions()) });
                }
                let at = |i: usize| std::array::from_fn(|j| row[j].wrapping_add(steps[j].wrapping_mul(i as isize)));
                classes[last].rows.extend((0..n).map(at));
                row = at(n);
            }
        });
        merged(classes, self.ker.mr)
    }

    unsafe fn multiply(
        &self,
        phase: usize,
        region: &Region,
        src: *const O::P,
        classes: &[Class],
        cols: Range<usize>,
        sums: *mut T::Acc,
    ) {
        let (ker, weight) = (self.ker, &self.of.phases[phase].weight);
        let line = self.side_by_side(phase, region);
        let per_run = line * weight.channels.div_ceil(O::TOGETHER);
        let (n_runs, k) = (weight.taps.len() / line, O::along_k(weight.taps.len() / line * per_run));
        let packed = self.packed.wrapping_add(self.firsts[phase]);
        let at = |run: usize| {
            let shift = std::array::from_fn(|d| weight.taps[run * line].shift[d] - self.least[d]);
            region.offset(0, shift) / O::TOGETHER as isize
        };
        let starts: Vec<isize> = (0..n_runs).map(at).collect();
        if self.gathers && k > 0 {
            let rows: Vec<_> = classes.iter().flat_map(|c| &c.rows).copied().collect();
            let (rows, cols, n) = (&rows[..], cols.clone(), weight.n);
            let all = Gathered { src, rows, runs: &starts, run: per_run, weight: packed, n, cols, sums };
            // SAFETY: rows, panels and sums are whole in their buffers.
            if unsafe { O::gathered(&all) } {
                return;
            }
        }
        // Where the weights of a column begin, and how far apart their rows are.
        let panel_at = |col: usize| {
            let panel = col / self.panel * self.panel;
            (panel * k + (col - panel), self.panel.min(weight.n - panel).next_multiple_of(self.filled))
        };
        let n_tiles = classes.iter().map(|c| c.rows.len().div_ceil(ker.mr)).sum();
        let mut begun = vec![false; classes.len()];
        let per_pass = (KC / per_run.max(1)).max(1);
        for first in (0..n_runs).step_by(per_pass) {
            let pass = first..n_runs.min(first + per_pass);
            for col in cols.clone().step_by(ker.nr) {
                let n_registers = ker.nr.min(weight.n - col).div_ceil(ker.lanes);
                let (panel_first, width) = panel_at(col);
                let to = sums.wrapping_add(col - cols.start);
                // The panel of the columns that follow, or of the next pass over the first ones.
                let next = match col + ker.nr < cols.end {
                    true => Some((col + ker.nr, pass.clone())),
                    false if pass.end < n_runs => Some((cols.start, pass.end..n_runs.min(pass.end + per_pass))),
                    false => None,
                };
                let next = next.map(|(col, pass)| {
                    let (at, width) = panel_at(col);
                    let from = packed.wrapping_add(at + pass.start * per_run * width);
                    (from, pass.len() * per_run * width * size_of::<O::P>())
                });
                let mut tile = 0;
                for (class, begun) in classes.iter().zip(&begun) {
                    let runs: Vec<[isize; 2]> = pass
                        .clone()
                        .filter(|r| *r >= 64 || class.runs >> r & 1 == 1)
                        .map(|r| [starts[r], (r * per_run * width) as isize])
                        .collect();
                    if runs.is_empty() {
                        continue;
                    }
                    let n = class.rows.len();
                    let steps = runs.len() * per_run;
                    for i in 0..n.div_ceil(ker.mr) {
                        let rows = &class.rows[part(n, ker.mr, i)];
                        let share = |(at, bytes)| Ahead::share(at, bytes, (tile, n_tiles), steps);
                        let ahead = next.map_or(Ahead::NOTHING, share);
                        tile += 1;
                        let t = Gather {
                            runs: &runs,
                            k: per_run,
                            a: src,
                            b: packed.wrapping_add(panel_first),
                            b_rs: width as isize,
                            c: to,
                            rows,
                            alpha: T::Acc::ONE,
                            add: *begun,
                            ahead,
                        };
                        // SAFETY: rows, panel and sums are whole in their buffers.
                        unsafe { ker.gather[rows.len() - 1][n_registers - 1](&t) };
                    }
                }
            }
            for (class, begun) in classes.iter().zip(&mut begun) {
                *begun |= pass.clone().any(|r| r >= 64 || class.runs >> r & 1 == 1);
            }
        }
        for (class, _) in classes.iter().zip(begun).filter(|(_, begun)| !begun) {
            // No tap reaches these positions.
            for row in &class.rows {
                // SAFETY: the row lies in the sums.
                unsafe { std::ptr::write_bytes(sums.offset(row[1]), 0, cols.len()) };
            }
        }
    }
}

/// Positions of a block that see the same runs of taps inside the image: the zeros around it are not multiplied, but where
/// tiles of few rows would cost more. There an infinite weight makes NaN of them.
struct Class {
    runs: u64,
    rows: Vec<[isize; 2]>,
}

impl Class {
    /// Steps of its tiles' sums, of so many rows at most: a tile of few rows waits for its weights.
    fn cost(runs: u64, n_rows: usize, mr: usize) -> usize {
        let n_tiles = n_rows.div_ceil(mr);
        runs.count_ones() as usize * n_tiles * n_rows.div_ceil(n_tiles.max(1)).max(FEW_ROWS.min(mr))
    }
}

/// Rows of a tile below which it takes no less time.
const FEW_ROWS: usize = 7;

/// Classes put together where that costs less: few rows go to more.
fn merged(mut classes: Vec<Class>, mr: usize) -> Vec<Class> {
    classes.sort_by_key(|c| std::cmp::Reverse(c.rows.len()));
    let mut kept: Vec<Class> = Vec::with_capacity(classes.len());
    for class in classes {
        let gain = |to: &Class| {
            let cost = |runs: u64, n_rows: usize| Class::cost(runs, n_rows, mr);
            let apart = cost(to.runs, to.rows.len()) + cost(class.runs, class.rows.len());
            apart.saturating_sub(cost(to.runs | class.runs, to.rows.len() + class.rows.len()))
        };
        match kept.iter_mut().max_by_key(|to| gain(to)).filter(|to| gain(to) > 0) {
            Some(to) => {
                to.runs |= class.runs;
                to.rows.extend(class.rows);
            }
            None => kept.push(class),
        }
    }
    kept
}
