//! The convolution itself: for every position of a grid, a sum over taps and channels of a source image.
//!
//! Blocks of positions are tasks. A block's region of the source is brought into the cache once, with channels side by side;
//! rows of positions are gathered from it for one pass over k at a time and multiplied with packed weights; the sums are
//! stored with the bias added. Nothing the size of the unfolded image exists. Forward and the gradient for the input are
//! both this; only taps, step and strides differ.

use crate::depthwise::{self, FEW};
use crate::geometry::{Block, Blocks, Image, Three};
use crate::pool::by_channel;
use crate::region::{Region, SPARE};
use crate::store::{Store, tile_len};
use crate::stored::{CopyRows, Seg, Stored};
use crate::weights::{Passes, Tap, Weight};
use crate::winograd::Winograd;
use oneflow_kernels_gemm::micro::{Acc, Kernels, Mode, Slot, Tile, with_scratch};
use oneflow_kernels_gemm::{BatchDim, Epilogue, GemmArgs, Isa, Mat, Parallel, Pool, gemm};
use oneflow_kernels_prim::rows::Shared;
use oneflow_kernels_prim::{self as prim, Register, Simd, WithSimd, dispatch};
use std::ops::Range;

/// `dst[n, o, j] = bias[o] + sum over taps and c of src[n, c, j * step + shift] * weight[o, c, tap]`, group by group.
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
}

// SAFETY: tasks only read through the pointers, and write disjoint positions of the destination.
unsafe impl Sync for Correlation<'_> {}

/// The smallest shift and how far the others reach beyond it.
pub fn reach(shifts: impl Iterator<Item = Three> + Clone) -> (Three, Three) {
    let least = |d: usize| shifts.clone().map(|s| s[d]).min().unwrap_or(0);
    let most = |d: usize| shifts.clone().map(|s| s[d]).max().unwrap_or(0);
    (std::array::from_fn(least), std::array::from_fn(|d| most(d) - least(d)))
}

/// k packed at a time: a panel of rows stays in the first cache.
const KC: usize = 384;
/// Rows of a block, and sums it keeps.
const BLOCK_ROWS: usize = 224;
const BLOCK_SUMS: usize = 1 << 17;

/// The parts of a task's scratch, in elements.
struct Room {
    region: usize,
    tile: usize,
    rows: usize,
    sums: usize,
}

impl Correlation<'_> {
    /// # Safety
    /// Images, weight and bias hold `T` and are valid for what the sizes and taps reach.
    pub unsafe fn run<T: Stored>(&self) {
        if let Some([src, dst]) = self.as_matrices() {
            // SAFETY: the contract is the same.
            return unsafe { self.multiply::<T>(src, dst) };
        }
        if depthwise::fits(self) {
            // SAFETY: the contract is the same.
            return unsafe { depthwise::run::<T>(self) };
        }
        if let Some(winograd) = Winograd::<T>::new(self) {
            // SAFETY: the contract is the same.
            return unsafe { winograd.run() };
        }
        let isa = Isa::active();
        let ker = T::Mode::kernels(isa);
        let passes = Passes::new(self.weight.k(), KC);
        let columns = self.weight.n.next_multiple_of(ker.lanes);
        let grid = [self.dst.sizes[0], self.dst.sizes[2], self.dst.sizes[3], self.dst.sizes[4]];
        let blocks = Blocks::new(grid, (BLOCK_SUMS / columns.max(1)).clamp(BLOCK_ROWS, 1024));
        let len = passes.k * columns;
        with_scratch(Slot::B, (self.groups * len) * size_of::<T::Acc>() + SPARE, |packed| {
            let packed = Shared::<T::Acc>::new(packed);
            for g in 0..self.groups {
                let ptr = self.weight.ptr.cast::<T>().wrapping_offset(g as isize * self.group_stride).cast();
                // SAFETY: the group's weight, and its part of the buffer.
                unsafe {
                    Weight { ptr, ..self.weight }.pack::<T>(
                        isa,
                        passes,
                        Shared::new(packed.at((g * len) as isize).cast()),
                    )
                };
            }
            // Few blocks leave threads idle: share out the channels too.
            let n_blocks = blocks.len() * self.groups;
            let panels = self.weight.n.div_ceil(ker.nr);
            let splits =
                (3 * Pool.threads()).div_ceil(n_blocks.max(1)).min(if Pool.threads() > 1 { panels } else { 1 });
            let per_split = panels.div_ceil(splits.max(1)) * ker.nr;
            let splits = self.weight.n.div_ceil(per_split.max(1));
            let task = |i: usize| {
                let (block, split) = (i / splits, i % splits);
                let (g, block) = (block / blocks.len(), blocks.get(block % blocks.len()));
                let cols = split * per_split..((split + 1) * per_split).min(self.weight.n);
                let work =
                    BlockWork::<T> { c: self, isa, ker, passes, columns, packed: packed.at((g * len) as isize), g };
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

/// Positions of an image from which packing the weights again for each image costs nothing.
const MANY_POSITIONS: usize = 256;

impl Correlation<'_> {
    /// The steps from position to position of both images, where a single tap makes every image a matrix product.
    fn as_matrices(&self) -> Option<[isize; 2]> {
        let (src, dst) = (&self.src, &self.dst);
        let plain = matches!(self.weight.taps, [Tap { shift: [0, 0, 0], .. }]) && self.step == [1; 3];
        let large = self.weight.n > FEW || self.weight.channels > FEW;
        if !plain || !large || src.sizes[2..] != dst.sizes[2..] {
            return None;
        }
        let many = dst.spatial().iter().product::<usize>() >= MANY_POSITIONS;
        let fits = many || by_channel(&[src, dst]);
        Some([src.position_step()?, dst.position_step()?]).filter(|_| fits)
    }

    /// Every image as [positions, channels] times the weight.
    unsafe fn multiply<T: Stored>(&self, src_step: isize, dst_step: isize) {
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
            epilogue: Epilogue {
                bias: self.bias.map(|_| Mat::new(bias.cast::<T>(), 0, bias_step)),
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

struct BlockWork<'a, T: Stored> {
    c: &'a Correlation<'a>,
    isa: Isa,
    ker: &'static Kernels<T::Acc, T::Acc>,
    passes: Passes,
    /// Columns of the packed weights.
    columns: usize,
    packed: *const T::Acc,
    g: usize,
}

impl<T: Stored> BlockWork<'_, T> {
    unsafe fn run(&self, block: Block, cols: Range<usize>) {
        let (c, ker) = (self.c, self.ker);
        let (least, reach) = reach(c.weight.taps.iter().map(|t| t.shift));
        let extent = |d: usize| (block.len[d + 1] - 1) * c.step[d] as usize + reach[d] as usize + 1;
        let region = Region::new([block.len[0], extent(0), extent(1), extent(2)], c.weight.channels, ker.lanes);
        let rows = block.n_positions();
        let ld = cols.len().next_multiple_of(ker.lanes);
        let row_len = self.passes.step + ker.lanes;
        let room = Room {
            region: region.n_elements() + ker.nr,
            tile: tile_len(ker.nr),
            rows: (ker.mc.min(rows) + ker.mr) * row_len,
            sums: rows * ld + ker.nr,
        };
        let n = room.region + room.tile + room.rows + room.sums;
        let bytes = (n * size_of::<T::Acc>()).next_multiple_of(64) + rows * size_of::<isize>();
        with_scratch(Slot::A, bytes + SPARE, |scratch| {
            let region_at: *mut T::Acc = scratch.cast();
            // SAFETY: the parts lie in the scratch one after the other; the caller's contract covers the images.
            unsafe {
                let tile = region_at.add(room.region);
                let rows_at = tile.add(room.tile);
                let sums = rows_at.add(room.rows);
                let offsets: *mut isize = scratch.add((n * size_of::<T::Acc>()).next_multiple_of(64)).cast();
                if self.passes.k == 0 {
                    std::ptr::write_bytes(sums, 0, rows * ld);
                } else {
                    let start = std::array::from_fn(|d| block.start[d + 1] as isize * c.step[d] + least[d]);
                    let channels = self.g * c.weight.channels..(self.g + 1) * c.weight.channels;
                    region.fill::<T>(self.isa, &c.src, channels, block.start[0], start, region_at, tile);
                    block.each(|i, [n, d, h, w]| {
                        let pos = [d as isize * c.step[0], h as isize * c.step[1], w as isize * c.step[2]];
                        *offsets.add(i) = region.offset(n, pos);
                    });
                    let offsets = std::slice::from_raw_parts_mut(offsets, rows);
                    let classes = classes(c, &block);
                    let rows = (rows_at, row_len);
                    self.multiply((&region, least), region_at, (offsets, &classes), cols.clone(), rows, (sums, ld));
                }
                let channel = self.g * c.weight.n;
                let store = Store { dst: &c.dst, bias: c.bias, isa: self.isa };
                store.block::<T>(block, channel + cols.start..channel + cols.end, (sums, ld), tile);
            }
        });
    }

    /// Where the k of a pass lie in the region, next to each other as far as possible.
    fn segments(&self, region: &Region, least: Three, ks: &Range<usize>, start: usize) -> Vec<Seg> {
        let (taps, channels) = (self.c.weight.taps, self.c.weight.channels);
        let mut segs: Vec<Seg> = Vec::with_capacity(taps.len());
        let mut k = ks.start;
        while k < ks.end {
            let (tap, c) = (taps[k / channels], k % channels);
            let len = (channels - c).min(ks.end - k);
            let shift = std::array::from_fn(|d| tap.shift[d] - least[d]);
            let from = region.offset(0, shift) + c as isize;
            match segs.last_mut() {
                Some(last) if last.from + last.len as isize == from => last.len += len,
                _ => segs.push(Seg { from, to: k - start, len }),
            }
            k += len;
        }
        segs
    }

    unsafe fn multiply(
        &self,
        (region, least): (&Region, Three),
        src: *const T::Acc,
        (offsets, classes): (&mut [isize], &[Class]),
        cols: Range<usize>,
        (rows_at, row_len): (*mut T::Acc, usize),
        (sums, ld): (*mut T::Acc, usize),
    ) {
        let ker = self.ker;
        let block_rows = (ker.mc / ker.mr).max(1) * ker.mr;
        let mut tile = Stack([T::Acc::ZERO; 14 * 32]);
        for class in classes {
            let mut add = false;
            for pass in 0..self.passes.len() {
                let ks = self.passes.get(pass);
                let parts = class.parts(self.c.weight.channels, &ks);
                if parts.is_empty() {
                    continue;
                }
                let segs: Vec<Seg> = parts.iter().flat_map(|p| self.segments(region, least, p, ks.start)).collect();
                let b = self.packed.wrapping_add(ks.start * self.columns);
                for rows in class.rows.chunks(block_rows) {
                    let from: Vec<isize> = rows.iter().map(|r| offsets[*r]).collect();
                    dispatch(prim::isa(), CopyRows { src, offsets: &from, segs: &segs, dst: rows_at, dst_rs: row_len });
                    let panels = rows.len().div_ceil(ker.mr);
                    for col in cols.clone().step_by(ker.nr) {
                        let n_registers = ker.nr.min(self.c.weight.n - col).div_ceil(ker.lanes);
                        let width = n_registers * ker.lanes;
                        for panel in 0..panels {
                            let (from, to) = (panel * rows.len() / panels, (panel + 1) * rows.len() / panels);
                            let rows = &rows[from..to];
                            let in_order = rows[rows.len() - 1] - rows[0] + 1 == rows.len();
                            let (c, c_rs) = match in_order {
                                true => (sums.wrapping_add(rows[0] * ld + (col - cols.start)), ld),
                                false => (tile.0.as_mut_ptr(), width),
                            };
                            for (i, part) in parts.iter().enumerate() {
                                let t = Tile {
                                    k: part.len(),
                                    a: rows_at.wrapping_add(from * row_len + part.start - ks.start).cast_const(),
                                    a_rs: row_len as isize,
                                    a_cs: 1,
                                    b: b.wrapping_add(col * ks.len() + (part.start - ks.start) * width),
                                    b_rs: width as isize,
                                    c,
                                    c_rs: c_rs as isize,
                                    alpha: T::Acc::ONE,
                                    add: i > 0 || (in_order && add),
                                };
                                // SAFETY: rows, panel and sums are whole in their buffers.
                                unsafe { ker.table[1][rows.len() - 1][n_registers - 1](&t) };
                            }
                            if !in_order {
                                let to = sums.wrapping_add(col - cols.start);
                                dispatch(prim::isa(), AddRows { tile: c, width, rows, to, ld, add });
                            }
                        }
                    }
                }
                add = true;
            }
            if !add {
                // No tap reaches these positions.
                for row in &class.rows {
                    // SAFETY: the row lies in the sums.
                    unsafe { std::ptr::write_bytes(sums.add(row * ld), 0, ld) };
                }
            }
        }
    }
}

/// Positions of a block that see the same taps inside the image: the zeros around it are not multiplied.
struct Class {
    taps: u64,
    n_taps: usize,
    rows: Vec<usize>,
}

/// More classes than this leave too few rows in each.
const MOST_CLASSES: usize = 27;

fn classes(c: &Correlation<'_>, block: &Block) -> Vec<Class> {
    let taps = c.weight.taps;
    let all = if taps.len() >= 64 { u64::MAX } else { (1 << taps.len()) - 1 };
    let whole = || vec![Class { taps: all, n_taps: taps.len(), rows: (0..block.n_positions()).collect() }];
    if taps.len() > 64 {
        return whole();
    }
    // The taps that reach the image from each coordinate.
    let seen: [Vec<u64>; 3] = std::array::from_fn(|d| {
        let of = |i: usize| {
            let at = (block.start[d + 1] + i) as isize * c.step[d];
            let inside = |t: &Tap| (0..c.src.sizes[2 + d] as isize).contains(&(at + t.shift[d]));
            taps.iter().enumerate().filter(|(_, t)| inside(t)).fold(0, |m, (i, _)| m | 1u64 << i)
        };
        (0..block.len[d + 1]).map(of).collect()
    });
    let mut classes: Vec<Class> = Vec::new();
    block.each(|row, [_, d, h, w]| {
        let taps_here = seen[0][d] & seen[1][h] & seen[2][w];
        match classes.iter_mut().find(|c| c.taps == taps_here) {
            Some(class) => class.rows.push(row),
            None => classes.push(Class { taps: taps_here, n_taps: taps.len(), rows: vec![row] }),
        }
    });
    if classes.len() > MOST_CLASSES { whole() } else { classes }
}

impl Class {
    /// The runs of k in a pass that belong to the class's taps.
    fn parts(&self, channels: usize, ks: &Range<usize>) -> Vec<Range<usize>> {
        let mut parts: Vec<Range<usize>> = Vec::new();
        for t in (0..self.n_taps).filter(|t| *t >= 64 || self.taps >> t & 1 == 1) {
            let (start, end) = ((t * channels).max(ks.start), ((t + 1) * channels).min(ks.end));
            if start >= end {
                continue;
            }
            match parts.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => parts.push(start..end),
            }
        }
        parts
    }
}

#[repr(align(64))]
struct Stack<A>([A; 14 * 32]);

/// A tile's rows, brought or added to rows of the sums that are not neighbours.
struct AddRows<'a, A: Acc> {
    tile: *const A,
    width: usize,
    rows: &'a [usize],
    to: *mut A,
    ld: usize,
    add: bool,
}

impl<A: Acc> WithSimd for AddRows<'_, A> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        for (i, row) in self.rows.iter().enumerate() {
            for j in (0..self.width).step_by(<A::Reg<S> as Register>::WIDTH) {
                // SAFETY: tile and sums hold whole registers.
                unsafe {
                    let to = self.to.add(row * self.ld + j);
                    let mut v = <A::Reg<S> as Register>::load(self.tile.add(i * self.width + j));
                    if self.add {
                        v = v + <A::Reg<S> as Register>::load(to);
                    }
                    v.store(to);
                }
            }
        }
    }
}
