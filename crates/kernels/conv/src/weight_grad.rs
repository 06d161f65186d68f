//! The gradient of a convolution for its weight: for every output channel, channel and tap a sum over all positions.
//!
//! A product whose k are positions: A is the output's gradient, B the gathered regions of x; bfloat16 goes in pairs where the
//! machine multiplies pairs. The positions are walked in blocks, in order; threads share out channels, so that the order of a sum never changes.

use crate::bf16_pairs::PairedRows;
use crate::depthwise::{self, FEW};
use crate::direct_weight_grad::LinesGrad;
use crate::element::{CopyRows, Seg};
use crate::geometry::{Block, Blocks, Image, Three, Window};
use crate::implicit_gemm::{PairRows, pairs};
use crate::output::tile_len;
use crate::pool::by_channel;
use crate::region::{Region, SPARE, TILE};
use crate::tiles;
use crate::winograd::WinogradGrad;
use oneflow_base::DType;
use oneflow_kernels_gemm::micro::{Ahead, GemmFloat, Kernels, Mode, Onto, Slot, Strip, Tile, with_scratch};
use oneflow_kernels_gemm::{GemmArgs, Mat, Parallel, Pool, gemm};
use oneflow_kernels_prim::rows::{Shared, copy_run, split};
use oneflow_kernels_prim::{self as prim, Acc, Isa, dispatch};
use std::any::TypeId;
use std::ops::Range;

pub struct WeightGrad {
    pub grad: Image,
    pub src: Image,
    /// The result.
    pub weight: Image,
    pub window: Window,
}

/// Positions of a block: k of one product.
const BLOCK_ROWS: usize = 512;
/// Bytes of a line of the caches.
const LINE: usize = 64;
/// Sums a task keeps: they stay in the second cache.
const TASK_SUMS: usize = 1 << 18;

impl WeightGrad {
    /// # Safety
    /// The images hold `T` and are valid for their sizes.
    pub unsafe fn run<T: GemmFloat>(&self) {
        let taps: Vec<Three> = self.window.taps().collect();
        if let Some(depthwise) = self.depthwise(&taps) {
            // SAFETY: the contract is the same.
            return unsafe { depthwise.run::<T>() };
        }
        if let Some(winograd) = WinogradGrad::<T>::new(self) {
            // SAFETY: the contract is the same.
            return unsafe { winograd.run() };
        }
        // SAFETY: the contract is the same.
        if unsafe { self.multiply::<T>() } {
            return;
        }
        if let Some(lines) = LinesGrad::<T>::new(self) {
            // SAFETY: the contract is the same.
            return unsafe { lines.run() };
        }
        let isa = prim::isa();
        let ker = T::Mode::kernels(isa);
        let grid = [self.grad.sizes[0], self.grad.sizes[2], self.grad.sizes[3], self.grad.sizes[4]];
        let work = Work::<T> {
            c: self,
            isa,
            ker,
            pairs: pairs::<T>(),
            taps,
            blocks: Blocks::new(grid, BLOCK_ROWS),
            stored: std::marker::PhantomData,
        };
        let groups = self.window.groups;
        let (n_out, n_in) = (self.weight.sizes[0] / groups, self.weight.sizes[1]);
        if self.weight.numel() == 0 {
            return;
        }
        // Channels of x in whole registers while the sums fit; then, for idle threads, output channels in whole panels.
        let fitting = (TASK_SUMS / (n_out * work.taps.len()).max(1)).max(ker.lanes) / ker.lanes * ker.lanes;
        let per_in = n_in.div_ceil(n_in.div_ceil(fitting)).next_multiple_of(ker.lanes).min(n_in);
        let in_splits = n_in.div_ceil(per_in);
        let wanted = if Pool.threads() > 1 { (2 * Pool.threads()).div_ceil(groups * in_splits) } else { 1 };
        let per_out = n_out.div_ceil(wanted).next_multiple_of(ker.mr).min(n_out);
        let out_splits = n_out.div_ceil(per_out);
        let task = |i: usize| {
            let (split, g) = (i % (in_splits * out_splits), i / (in_splits * out_splits));
            let (first_in, first_out) = (split % in_splits * per_in, split / in_splits * per_out);
            let ins = first_in..(first_in + per_in).min(n_in);
            let outs = first_out..(first_out + per_out).min(n_out);
            // SAFETY: the caller's contract; tasks have their own channels.
            unsafe { work.run(g, ins, outs) };
        };
        match groups * in_splits * out_splits {
            1 => task(0),
            n => Pool.run(n, &task),
        }
    }
}

impl WeightGrad {
    /// A single tap that reads every position: a product of matrices, image by image where positions of all are not one line.
    ///
    /// # Safety
    /// As `run`.
    unsafe fn multiply<T: GemmFloat>(&self) -> bool {
        let (grad, src, w, weight) = (&self.grad, &self.src, &self.window, &self.weight);
        let (n_out, n_in) = (weight.sizes[0] / w.groups, weight.sizes[1]);
        let plain = w.kernel == [1; 3] && w.stride == [1; 3] && w.padding == [0; 3];
        let (Some(g_step), Some(x_step)) = (grad.position_step(), src.position_step()) else { return false };
        let n = grad.spatial().iter().product::<usize>();
        if !plain || n_out.min(n_in) <= FEW || grad.numel() == 0 || grad.spatial() != src.spatial() {
            return false;
        }
        let chained = [(grad, g_step), (src, x_step)].iter().all(|(i, step)| i.strides[0] == n as isize * step);
        if !chained && grad.sizes[0] > 1 && n < FEW_POSITIONS && [g_step, x_step] == [1; 2] {
            // One sum over all images, instead of many short ones that are added in memory.
            let lens = [grad, src].map(|i| i.sizes[0] * i.sizes[1] * n);
            with_scratch(Slot::Image, (lens[0] + lens[1]) * size_of::<T>(), |room| {
                let (first, second) =
                    (Shared::<T>::new(room), Shared::<T>::new(room.wrapping_add(lens[0] * size_of::<T>())));
                // SAFETY: the caller's images; the room has a place for both.
                unsafe {
                    let (grad, src) = (planes_chained(grad, n, first), planes_chained(src, n, second));
                    WeightGrad { grad, src, weight: *weight, window: *w }.multiply::<T>();
                }
            });
            return true;
        }
        let (images, k) = if chained { (1, grad.sizes[0] * n) } else { (grad.sizes[0], n) };
        let whole = TypeId::of::<T>() == TypeId::of::<T::Acc>();
        let dtype_c = if whole { T::DTYPE } else { DType::F32 };
        let mut sums = vec![T::Acc::ZERO; if whole { 0 } else { n_out * n_in }];
        for g in 0..w.groups {
            let to = weight.at::<T>(g * n_out, 0, [0; 3]);
            let c = match whole {
                true => Mat::new(to, weight.strides[0], weight.strides[1]),
                false => Mat::new(sums.as_mut_ptr(), n_in as isize, 1),
            };
            for i in 0..images {
                let a = Mat::new(grad.at::<T>(i, g * n_out, [0; 3]), grad.strides[1], g_step);
                let b = Mat::new(src.at::<T>(i, g * n_in, [0; 3]), x_step, src.strides[1]);
                let beta = if i > 0 { 1.0 } else { 0.0 };
                let args = GemmArgs { dtype_c, beta, ..GemmArgs::new(T::DTYPE, (n_out, n_in, k), a, b, c) };
                // SAFETY: the caller's images. Every float dtype has a product.
                let done = unsafe { gemm(&args, &Pool) };
                debug_assert!(done.is_ok(), "{done:?}");
            }
            for (i, sum) in sums.iter().enumerate() {
                // SAFETY: the weight has the element.
                unsafe { *weight.at::<T>(g * n_out + i / n_in, i % n_in, [0; 3]) = T::narrow(*sum) };
            }
        }
        true
    }

    /// If a group is one channel of each, or few channels of planes.
    fn depthwise<'a>(&'a self, taps: &'a [Three]) -> Option<depthwise::Gradient<'a>> {
        let (window, [n_out, n_in, ..]) = (&self.window, self.weight.sizes);
        if window.groups == 1 || self.grad.numel() == 0 {
            return None;
        }
        let per_group = n_out / window.groups;
        let few = per_group <= FEW && n_in <= FEW && !by_channel(&[&self.src, &self.grad]);
        if !few && (per_group != 1 || n_in != 1) {
            return None;
        }
        let shifts: Vec<Three> = taps.iter().map(|t| window.shift(*t)).collect();
        let layout = depthwise::Layout::of(&shifts, window.stride, self.grad.spatial(), self.src.spatial());
        let (grad, src, weight) = (&self.grad, &self.src, &self.weight);
        layout.is_small().then_some(depthwise::Gradient { grad, src, weight, taps, window, layout })
    }
}

/// Images of so few positions are taken together where each is a product.
const FEW_POSITIONS: usize = 128;

/// A copy whose channels have the positions of all images one after the other.
///
/// # Safety
/// The image holds `T` and has planes of `n` neighbours; `to` has room for it.
unsafe fn planes_chained<T: GemmFloat>(image: &Image, n: usize, to: Shared<T>) -> Image {
    let [images, channels, ..] = image.sizes;
    split(channels, (images * n) as f64 * 0.3, &|r| {
        for (c, i) in r.flat_map(|c| (0..images).map(move |i| (c, i))) {
            // SAFETY: by the caller.
            unsafe { copy_run(image.at::<T>(i, c, [0; 3]).cast_const(), to.at(((c * images + i) * n) as isize), n) };
        }
    });
    let [_, _, d, h, w] = image.sizes;
    let strides = [n, images * n, h * w, w, 1].map(|s| s as isize);
    Image { ptr: to.at(0).cast(), sizes: [images, channels, d, h, w], strides }
}

struct Work<'a, T: GemmFloat> {
    c: &'a WeightGrad,
    isa: Isa,
    ker: &'static Kernels<T::Acc, T::Acc>,
    /// With tiles of the same sizes.
    pairs: Option<&'static Kernels<u32, f32>>,
    taps: Vec<Three>,
    blocks: Blocks,
    stored: std::marker::PhantomData<T>,
}

/// The panel of output channels that `i` belongs to: all but equal heights.
fn panel(n: usize, mr: usize, i: usize) -> Range<usize> {
    let panels = n.div_ceil(mr);
    i * n / panels..(i + 1) * n / panels
}

impl<T: GemmFloat> Work<'_, T> {
    fn region(&self, len: [usize; 4], channels: usize) -> Region {
        let w = &self.c.window;
        let extent =
            |d: usize| (len[d + 1] - 1) * w.stride[d] as usize + (w.kernel[d] - 1) * w.dilation[d] as usize + 1;
        Region::new([len[0], extent(0), extent(1), extent(2)], channels, self.ker.lanes, 1)
    }

    /// Sums of one group's `ins` and `outs`, [outs, taps, ins].
    unsafe fn run(&self, g: usize, ins: Range<usize>, outs: Range<usize>) {
        let (ker, size) = (self.ker, size_of::<T::Acc>());
        let n_cols = self.taps.len() * ins.len();
        let ld = n_cols.next_multiple_of(ker.lanes);
        let rows = self.blocks.largest();
        // Every part begins on a line of the caches.
        let lines = |n: usize| (n + ker.nr).next_multiple_of(LINE / size);
        let region = lines(self.region(self.blocks.chunk(), ins.len()).n_elements());
        let tile = lines(tile_len(ker.nr));
        let (a_len, b_len, sums_len) = (lines(rows * outs.len()), lines(rows * ker.nr), lines(outs.len() * ld));
        // Rows of a product on tiles end with whole steps.
        let row = tiles::row_pairs(rows.div_ceil(2));
        let pairs_len = if self.pairs.is_some() { lines(outs.len() * row) + lines(row * ker.nr) } else { 0 };
        let n = region + tile + a_len + b_len + sums_len + pairs_len;
        let bytes = (n * size).next_multiple_of(64) + rows * size_of::<isize>();
        with_scratch(Slot::A, bytes + SPARE, |scratch| {
            let region_at: *mut T::Acc = scratch.cast();
            // SAFETY: the parts lie in the scratch one after the other; the caller's contract covers the images.
            unsafe {
                let tile_at = region_at.add(region);
                let a = tile_at.add(tile);
                let b = a.add(a_len);
                let sums = b.add(b_len);
                let paired: *mut u32 = sums.add(sums_len).cast();
                let paired = [paired, paired.add(lines(outs.len() * row))];
                let offsets: *mut isize = scratch.add((n * size).next_multiple_of(64)).cast();
                if self.blocks.is_empty() {
                    std::ptr::write_bytes(sums, 0, outs.len() * ld);
                }
                for i in 0..self.blocks.len() {
                    let block = self.blocks.get(i);
                    let w = &self.c.window;
                    let region = self.region(block.len, ins.len());
                    let start = std::array::from_fn(|d| block.start[d + 1] as isize * w.stride[d] - w.padding[d]);
                    let channel = g * self.c.weight.sizes[1];
                    let channels = channel + ins.start..channel + ins.end;
                    region.fill::<T>(self.isa, &self.c.src, channels, block.start[0], start, region_at, tile_at);
                    block.each(|i, [n, d, h, w_at]| {
                        let pos = [d as isize * w.stride[0], h as isize * w.stride[1], w_at as isize * w.stride[2]];
                        *offsets.add(i) = region.offset(n, pos);
                    });
                    let offsets = std::slice::from_raw_parts(offsets, block.n_positions());
                    #[cfg(target_arch = "x86_64")]
                    if tiles::used() && self.pairs.is_some() {
                        let first = g * (self.c.weight.sizes[0] / w.groups) + outs.start;
                        self.grad_rows(&block, first..first + outs.len(), paired[0]);
                        let from = (region_at.cast_const().cast(), offsets);
                        self.multiply_tiles(&region, from, outs.len(), paired, ((sums.cast(), ld), n_cols), i > 0);
                        continue;
                    }
                    self.pack_grad(&block, g * (self.c.weight.sizes[0] / w.groups) + outs.start, outs.len(), a);
                    if self.pairs.is_some() {
                        let (from, k) = (a.cast_const().cast::<f32>(), offsets.len());
                        for i in 0..outs.len().div_ceil(ker.mr) {
                            let rows = panel(outs.len(), ker.mr, i);
                            let (from, to) = (from.add(rows.start * k), paired[0].add(rows.start * k.div_ceil(2)));
                            dispatch(prim::isa(), PairRows { from, rows: k, width: rows.len(), to });
                        }
                    }
                    let (from, a) = ((region_at.cast_const(), offsets), (a.cast_const(), outs.len()));
                    self.multiply(&region, from, a, b, paired, (sums, ld, n_cols), i > 0);
                }
                let first = g * (self.c.weight.sizes[0] / self.c.window.groups);
                let (outs, taps) = (first + outs.start..first + outs.end, ins.len());
                store::<T>(&self.c.weight, (outs, ins), (sums, ld, taps), tile_at);
            }
        });
    }

    /// Rows of output channels as tiles are loaded: pairs of positions, and zeros up to a whole step.
    #[cfg(target_arch = "x86_64")]
    unsafe fn grad_rows(&self, block: &Block, outs: Range<usize>, to: *mut u32) {
        let (grad, n, k) = (&self.c.grad, outs.len(), block.n_positions());
        let (row, to) = (2 * tiles::row_pairs(k.div_ceil(2)), to.cast::<T>());
        for i in 0..n {
            // SAFETY: the row has its place.
            unsafe { to.add(i * row + k).write_bytes(0, row - k) };
        }
        block.runs(grad, |p, at, len| {
            let src = grad.at::<T>(at[0], outs.start, [at[1], at[2], at[3]]).cast_const();
            let (ws, ks) = (grad.strides[1], grad.strides[4]);
            // SAFETY: the positions lie in the gradient and in the rows.
            unsafe {
                if ks == 1 || len == 1 {
                    for i in 0..n {
                        std::ptr::copy_nonoverlapping(src.offset(i as isize * ws), to.add(i * row + p), len);
                    }
                    return;
                }
                for first in (0..n).step_by(TILE) {
                    for q in 0..len {
                        let from = src.offset(q as isize * ks);
                        for i in first..(first + TILE).min(n) {
                            *to.add(i * row + p + q) = *from.offset(i as isize * ws);
                        }
                    }
                }
            }
        });
    }

    /// As `multiply`, of rows that `grad_rows` made.
    #[cfg(target_arch = "x86_64")]
    unsafe fn multiply_tiles(
        &self,
        region: &Region,
        (src, offsets): (*const u32, &[isize]),
        n_rows: usize,
        [a, b]: [*mut u32; 2],
        (sums, n_cols): ((*mut f32, usize), usize),
        add: bool,
    ) {
        let pairs = offsets.len().div_ceil(2);
        let panel = |col: usize, width: usize, b: *mut u32| {
            let segs = self.segments(region, col..col + width);
            let dst_rs = width.next_multiple_of(self.ker.lanes);
            dispatch(prim::isa(), PairedRows { src, offsets, segs: &segs, dst: b, dst_rs });
            // SAFETY: the panel has a row for every pair up to a whole step; what was spilled behind the last is zero again.
            unsafe { b.add(pairs * dst_rs).write_bytes(0, (tiles::padded_pairs(pairs) - pairs) * dst_rs) };
        };
        // SAFETY: the rows, the panel and the sums are whole in their buffers.
        unsafe { tiles::Rows { ptr: a, rows: n_rows, pairs }.multiply(n_cols, b, sums, add, panel) }
    }

    /// Panels of output channels, k = positions.
    unsafe fn pack_grad(&self, block: &Block, first: usize, n: usize, a: *mut T::Acc) {
        let (grad, k) = (&self.c.grad, block.n_positions());
        for i in 0..n.div_ceil(self.ker.mr) {
            let rows = panel(n, self.ker.mr, i);
            block.runs(grad, |p, at, len| {
                let src = grad.at::<T>(at[0], first + rows.start, [at[1], at[2], at[3]]);
                let strip = Strip {
                    src: src.cast_const(),
                    ws: grad.strides[1],
                    ks: grad.strides[4],
                    width: rows.len(),
                    k: len,
                };
                let to = a.wrapping_add(rows.start * k + p * rows.len());
                // SAFETY: the positions lie in the gradient and the panel in its buffer; spills land in what is packed later.
                unsafe { T::Mode::pack(self.isa, strip, to, rows.len()) };
            });
        }
    }

    /// Where columns (tap, channel) lie in the region.
    fn segments(&self, region: &Region, cols: Range<usize>) -> Vec<Seg> {
        let (dilation, channels) = (self.c.window.dilation, region.channels);
        let mut segs: Vec<Seg> = Vec::new();
        let mut j = cols.start;
        while j < cols.end {
            let (tap, c) = (self.taps[j / channels], j % channels);
            let len = (channels - c).min(cols.end - j);
            let from = region.offset(0, std::array::from_fn(|d| tap[d] * dilation[d])) + c as isize;
            match segs.last_mut() {
                Some(last) if last.from + last.len as isize == from => last.len += len,
                _ => segs.push(Seg { from, to: j - cols.start, len }),
            }
            j += len;
        }
        segs
    }

    unsafe fn multiply(
        &self,
        region: &Region,
        (src, offsets): (*const T::Acc, &[isize]),
        (a, n_rows): (*const T::Acc, usize),
        b: *mut T::Acc,
        paired: [*mut u32; 2],
        (sums, ld, n_cols): (*mut T::Acc, usize, usize),
        add: bool,
    ) {
        let (ker, k) = (self.ker, offsets.len());
        for col in (0..n_cols).step_by(ker.nr) {
            let width = ker.nr.min(n_cols - col);
            let n_registers = width.div_ceil(ker.lanes);
            let segs = self.segments(region, col..col + width);
            let dst_rs = n_registers * ker.lanes;
            match self.pairs {
                None => dispatch(prim::isa(), CopyRows { src, offsets, segs: &segs, dst: b, dst_rs }),
                Some(_) => {
                    dispatch(prim::isa(), PairedRows { src: src.cast(), offsets, segs: &segs, dst: paired[1], dst_rs })
                }
            }
            for i in 0..n_rows.div_ceil(ker.mr) {
                let rows = panel(n_rows, ker.mr, i);
                if let Some(ker) = self.pairs {
                    let k = k.div_ceil(2);
                    let tile = Tile {
                        k,
                        a: paired[0].wrapping_add(rows.start * k).cast_const(),
                        a_rs: 1,
                        a_cs: rows.len() as isize,
                        b: paired[1].cast_const(),
                        b_rs: dst_rs as isize,
                        c: sums.wrapping_add(rows.start * ld + col).cast(),
                        c_rs: ld as isize,
                        alpha: 1.0,
                        onto: Onto::c(add),
                        ahead: Ahead::NOTHING,
                    };
                    // SAFETY: as below; sums of bfloat16 are f32.
                    unsafe { ker.table[0][rows.len() - 1][n_registers - 1](&tile) };
                    continue;
                }
                let tile = Tile {
                    k,
                    a: a.wrapping_add(rows.start * k),
                    a_rs: 1,
                    a_cs: rows.len() as isize,
                    b,
                    b_rs: dst_rs as isize,
                    c: sums.wrapping_add(rows.start * ld + col),
                    c_rs: ld as isize,
                    alpha: T::Acc::ONE,
                    onto: Onto::c(add),
                    ahead: Ahead::NOTHING,
                };
                // SAFETY: panels and sums are whole in their buffers.
                unsafe { ker.table[0][rows.len() - 1][n_registers - 1](&tile) };
            }
        }
    }
}

/// Stores sums [output, tap, channel], outputs `ld` and taps `tap_ld` apart, of some of a group's channels.
///
/// # Safety
/// The weight holds `T`; the sums are readable in whole registers; `tile` has `tile_len`.
pub unsafe fn store<T: GemmFloat>(
    weight: &Image,
    (outs, ins): (Range<usize>, Range<usize>),
    (sums, ld, tap_ld): (*const T::Acc, usize, usize),
    tile: *mut T::Acc,
) {
    let isa = prim::isa();
    let [d, h, w] = weight.spatial();
    let n_taps = d * h * w;
    let position = |t: usize| [t / (h * w), t / w % h, t % w];
    let whole = n_taps <= T::Mode::kernels(isa).lanes
        && weight.strides[1] == n_taps as isize
        && (0..n_taps).all(|t| weight.offset(0, 0, position(t)) == t as isize);
    for o in outs.clone() {
        let row = sums.wrapping_add((o - outs.start) * ld);
        for c in (0..ins.len()).step_by(TILE) {
            let n = TILE.min(ins.len() - c);
            // SAFETY: the sums of a row are whole; the elements lie in the weight.
            unsafe {
                if whole {
                    let strip = Strip { src: row.add(c), ws: tap_ld as isize, ks: 1, width: n_taps, k: n };
                    T::Sums::pack(isa, strip, tile, n_taps);
                    let to = weight.at::<T>(o, ins.start + c, [0; 3]);
                    (0..n * n_taps).for_each(|i| *to.add(i) = T::narrow(*tile.add(i)));
                } else {
                    for t in 0..n_taps {
                        for i in c..c + n {
                            *weight.at::<T>(o, ins.start + i, position(t)) = T::narrow(*row.add(t * tap_ld + i));
                        }
                    }
                }
            }
        }
    }
}
