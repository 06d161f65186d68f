//! The gradient for the weight where the image has few channels: nothing is gathered.
//!
//! The taps of a line of the window are neighbours in a row of the image's region, so they are the rows of a product that are read
//! where they lie, one position after the other; its columns are the channels of the output's gradient. Pairs of bfloat16 are two
//! positions.

use crate::geometry::{Block, Blocks, Three};
use crate::implicit_gemm::pairs;
use crate::output::tile_len;
use crate::region::{Region, SPARE};
use crate::weight_grad::WeightGrad;
use crate::winograd::part;
use oneflow_base::bf16;
use oneflow_kernels_gemm::micro::{
    Ahead, Bf16Pairs, GemmFloat, Kernels, Mode, Onto, Panel, Slot, Strip, Tile, with_scratch,
};
use oneflow_kernels_gemm::{Parallel, Pool};
use oneflow_kernels_prim::{self as prim, Acc, Isa, Simd, WithSimd, dispatch};
use std::marker::PhantomData;
use std::ops::Range;

/// Shorter lines of outputs are summed better in blocks.
const LEAST_LINE: usize = 24;
/// Positions of a block.
const BLOCK_ROWS: usize = 1024;

pub struct LinesGrad<'a, T: GemmFloat> {
    of: &'a WeightGrad,
    isa: Isa,
    ker: &'static Kernels<T::Acc, T::Acc>,
    /// With tiles of the same sizes.
    pairs: Option<&'static Kernels<u32, f32>>,
    blocks: Blocks,
    stored: PhantomData<T>,
}

impl<'a, T: GemmFloat> LinesGrad<'a, T> {
    /// If channels are few and lines long enough.
    pub fn new(of: &'a WeightGrad) -> Option<Self> {
        let (isa, w, grad) = (prim::isa(), &of.window, &of.grad);
        let ker = T::Mode::kernels(isa);
        let (n_in, n_out) = (of.weight.sizes[1], of.weight.sizes[0] / w.groups);
        // Whole lines, so that a product is as long as a line.
        let sizes = [grad.sizes[0], grad.sizes[2], grad.sizes[3], grad.sizes[4]];
        let lines = (BLOCK_ROWS / sizes[3].max(1)).max(1) * sizes[3];
        let fits = n_in < ker.lanes && n_out >= ker.lanes && w.dilation[2] == 1 && sizes[3] >= LEAST_LINE;
        let blocks = Blocks::new(sizes, lines);
        let this = LinesGrad { of, isa, ker, pairs: pairs::<T>(), blocks, stored: PhantomData };
        (fits && of.grad.numel() > 0 && this.run_len() >= 4).then_some(this)
    }

    /// Neighbours that a line of taps reads.
    fn run_len(&self) -> usize {
        self.of.window.kernel[2] * self.of.weight.sizes[1]
    }

    /// # Safety
    /// As `WeightGrad::run`.
    pub unsafe fn run(&self) {
        let (ker, groups) = (self.ker, self.of.window.groups);
        let n_out = self.of.weight.sizes[0] / groups;
        // Threads have their own output channels, in whole panels.
        let panels = n_out.div_ceil(ker.nr);
        let splits = if Pool.threads() > 1 { panels.min((2 * Pool.threads()).div_ceil(groups)) } else { 1 };
        Pool.run(groups * splits, &|i| {
            let (g, split) = (i / splits, i % splits);
            let outs = split * panels / splits * ker.nr..((split + 1) * panels / splits * ker.nr).min(n_out);
            // SAFETY: by the caller; tasks have their own channels.
            unsafe { self.outputs(g, outs) }
        });
    }

    fn region(&self, len: [usize; 4]) -> Region {
        let w = &self.of.window;
        let extent =
            |d: usize| (len[d + 1] - 1) * w.stride[d] as usize + (w.kernel[d] - 1) * w.dilation[d] as usize + 1;
        Region::new([len[0], extent(0), extent(1), extent(2)], self.of.weight.sizes[1], self.ker.lanes, 1)
    }

    /// Sums of one group's `outs`, [tap, channel, output].
    unsafe fn outputs(&self, g: usize, outs: Range<usize>) {
        let (ker, weight) = (self.ker, &self.of.weight);
        let n_rows = weight.sizes[1..].iter().product::<usize>();
        let ld = outs.len().next_multiple_of(ker.lanes);
        let line = self.of.grad.sizes[4];
        let region = self.region(self.blocks.chunk()).n_elements() + 4 * ker.nr;
        let lens = [region, tile_len(ker.nr), line * ld + ker.nr, n_rows * ld + ker.nr];
        let paired = if self.pairs.is_some() { [region, line.div_ceil(2) * ld + ker.nr] } else { [0; 2] };
        let n = lens.iter().chain(&paired).sum::<usize>();
        with_scratch(Slot::A, n * size_of::<T::Acc>() + SPARE, |room| {
            // SAFETY: the parts lie in the scratch one after the other; the caller's contract covers the images.
            unsafe {
                let x: *mut T::Acc = room.cast();
                let tile = x.add(lens[0]);
                let grads = tile.add(lens[1]);
                let sums = grads.add(lens[2]);
                let pair_x: *mut u32 = sums.add(lens[3]).cast();
                let pair_g = pair_x.add(paired[0]);
                std::ptr::write_bytes(sums, 0, lens[3]);
                for i in 0..self.blocks.len() {
                    let block = self.blocks.get(i);
                    let (w, region) = (&self.of.window, self.region(block.len));
                    let start: Three =
                        std::array::from_fn(|d| block.start[d + 1] as isize * w.stride[d] - w.padding[d]);
                    let channels = g * weight.sizes[1]..(g + 1) * weight.sizes[1];
                    region.fill::<T>(self.isa, &self.of.src, channels, block.start[0], start, x, tile);
                    let step = w.stride[2] as usize * region.ld;
                    if self.pairs.is_some() {
                        // Behind the region lies what only a pair without a second position would multiply.
                        std::ptr::write_bytes(x.add(region.n_elements()), 0, 2 * ker.nr);
                        let n = region.n_elements() - step.min(region.n_elements());
                        dispatch(prim::isa(), Apart { from: x.cast::<f32>(), n, step, to: pair_x });
                    }
                    let lines = Block { len: [block.len[0], block.len[1], block.len[2], 1], ..block };
                    lines.each(|_, at| {
                        let from = std::array::from_fn(|d| at[d + 1] as isize * w.stride[d]);
                        let from = region.offset(at[0], from);
                        self.pack_line(&block, at, g, &outs, (grads, pair_g));
                        self.line(&region, from, (x, grads), (pair_x, pair_g), (sums, ld), outs.len());
                    });
                }
                self.store(g, outs, (sums, ld));
            }
        })
    }

    /// A line of gradients: panels of [position, channel], or of pairs and a last position without a second.
    unsafe fn pack_line(
        &self,
        block: &Block,
        at: [usize; 4],
        g: usize,
        outs: &Range<usize>,
        (to, pair_to): (*mut T::Acc, *mut u32),
    ) {
        let (grad, nr) = (&self.of.grad, self.ker.nr);
        let (first, k) = (g * (self.of.weight.sizes[0] / self.of.window.groups), grad.sizes[4]);
        let pos: [usize; 4] = std::array::from_fn(|d| block.start[d] + at[d]);
        for o in outs.clone().step_by(nr) {
            let src = grad.at::<T>(pos[0], first + o, [pos[1], pos[2], pos[3]]).cast_const();
            let n = nr.min(outs.end - o);
            let (strip, width) = (
                Strip { src, ws: grad.strides[1], ks: grad.strides[4], width: n, k },
                n.next_multiple_of(self.ker.lanes),
            );
            let o = o - outs.start;
            // SAFETY: the line lies in the gradient; panels are packed in the order they lie. Pairs are of bfloat16.
            unsafe {
                let mut single = strip;
                if self.pairs.is_some() {
                    let Strip { src, ws, ks, .. } = strip;
                    let panel = Panel { at: 0, width: n, dst: pair_to.add(o * k.div_ceil(2)), dst_width: width };
                    let strip = Strip { src: src.cast::<bf16>(), ws, ks, width: n, k };
                    Bf16Pairs::pack_panels(self.isa, strip, &[panel]);
                    single = Strip { src: src.offset((k / 2 * 2) as isize * ks), k: k % 2, ..single };
                }
                let at = (k - single.k) * width;
                T::Mode::pack(self.isa, single, to.add(o * k + at), width);
            }
        }
    }

    /// Adds the products of a line of positions.
    unsafe fn line(
        &self,
        region: &Region,
        from: isize,
        (x, grads): (*const T::Acc, *const T::Acc),
        (pair_x, pair_g): (*const u32, *const u32),
        (sums, ld): (*mut T::Acc, usize),
        n_outs: usize,
    ) {
        let (ker, w, run) = (self.ker, &self.of.window, self.run_len());
        let (k, step) = (self.of.grad.sizes[4], (w.stride[2] as usize * region.ld) as isize);
        let [kd, kh, _] = w.kernel;
        for (i, (d, h)) in (0..kd).flat_map(|d| (0..kh).map(move |h| (d, h))).enumerate() {
            let at = from + region.offset(0, [d as isize * w.dilation[0], h as isize * w.dilation[1], 0]);
            for col in (0..n_outs).step_by(ker.nr) {
                let n_registers = ker.nr.min(n_outs - col).div_ceil(ker.lanes);
                let b_rs = (n_registers * ker.lanes) as isize;
                for p in 0..run.div_ceil(ker.mr) {
                    let rows = part(run, ker.mr, p);
                    let at = at + rows.start as isize;
                    let c = sums.wrapping_add((i * run + rows.start) * ld + col);
                    let whole = Tile {
                        k,
                        a: x.wrapping_offset(at),
                        a_rs: 1,
                        a_cs: step,
                        b: grads.wrapping_add(col * k),
                        b_rs,
                        c,
                        c_rs: ld as isize,
                        alpha: T::Acc::ONE,
                        onto: Onto::C,
                        ahead: Ahead::NOTHING,
                    };
                    // SAFETY: region, line and sums are whole in their buffers; pairs are of bfloat16, whose sums are f32.
                    unsafe {
                        let Some(pairs) = self.pairs else {
                            ker.table[1][rows.len() - 1][n_registers - 1](&whole);
                            continue;
                        };
                        let tile = Tile {
                            k: k / 2,
                            a: pair_x.wrapping_offset(at),
                            a_rs: 1,
                            a_cs: 2 * step,
                            b: pair_g.wrapping_add(col * k.div_ceil(2)),
                            b_rs,
                            c: c.cast(),
                            c_rs: ld as isize,
                            alpha: 1.0,
                            onto: Onto::C,
                            ahead: Ahead::NOTHING,
                        };
                        pairs.table[1][rows.len() - 1][n_registers - 1](&tile);
                        if k % 2 == 1 {
                            // The last position has no second: no number beside it is multiplied by zero.
                            let a = whole.a.wrapping_offset((k - 1) as isize * step);
                            let b = whole.b.wrapping_offset((k - 1) as isize * b_rs);
                            ker.table[1][rows.len() - 1][n_registers - 1](&Tile { k: 1, a, b, ..whole });
                        }
                    }
                }
            }
        }
    }

    unsafe fn store(&self, g: usize, outs: Range<usize>, (sums, ld): (*const T::Acc, usize)) {
        let weight = &self.of.weight;
        let (first, n_in, [d, h, w]) =
            (g * (weight.sizes[0] / self.of.window.groups), weight.sizes[1], weight.spatial());
        for (o, c) in outs.clone().flat_map(|o| (0..n_in).map(move |c| (o, c))) {
            for t in 0..d * h * w {
                // SAFETY: the sums have the row, the weight the element.
                unsafe {
                    let sum = *sums.add((t * n_in + c) * ld + o - outs.start);
                    *weight.at::<T>(first + o, c, [t / (h * w), t / w % h, t % w]) = T::narrow(sum);
                }
            }
        }
    }
}

/// Pairs of bfloat16 numbers that lie `step` apart.
struct Apart {
    from: *const f32,
    n: usize,
    step: usize,
    to: *mut u32,
}

impl WithSimd for Apart {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: the numbers lie in the region, and the pairs elsewhere.
        unsafe {
            let low = std::slice::from_raw_parts(self.from.cast::<u32>(), self.n);
            let high = std::slice::from_raw_parts(self.from.add(self.step).cast::<u32>(), self.n);
            let to = std::slice::from_raw_parts_mut(self.to, self.n);
            to.iter_mut().zip(low.iter().zip(high)).for_each(|(to, (l, h))| *to = *l >> 16 | *h & 0xffff_0000);
        }
    }
}
