//! DROPOUT: the mask of an element depends on (seed, offset, global element index) alone; see `prim::philox`.

use oneflow_base::{Result, by_float};
use oneflow_kernels_prim::philox::{Window, packed, packed_words, threshold};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{Acc, DropoutParams, Float, Launch, Num, Simd, View, WithSimd, dispatch, isa, mt19937};

/// Elements a task's unit: long enough to hide its start.
const BLOCK: usize = 1024;

pub unsafe fn dropout(l: &Launch<'_>) -> Result<()> {
    let (x, y, mask) = (l.input(0)?, l.output(0)?, l.output(1)?);
    let DropoutParams { p, seed, offset, shard } = l.read()?;
    let window = Window::new(&shard, x.sizes)?;
    if offset == mt19937::IN_ORDER && !window.is_whole() {
        return Err(mt19937::only_in_order("dropout", "a shard of a global tensor"));
    }
    by_float!("dropout", x.dtype, T => {
        if offset == mt19937::IN_ORDER {
            // SAFETY: the views are valid by the launch's contract.
            return unsafe { drop_in_order::<T>(&x, &y, &mask, p, seed) };
        }
        // SAFETY: the views are valid by the launch's contract.
        unsafe { drop_all::<T>(&x, &y, &mask, p, seed, offset, &window) };
        Ok(())
    })
}

unsafe fn drop_all<T: Float>(x: &View, y: &View, mask: &View, p: f64, seed: u64, offset: u64, window: &Window) {
    let mut grid = Grid::new(x.sizes, [x.strides, y.strides, mask.strides, window.strides()]);
    let (n, steps) = grid.pop_inner();
    let (x, y, mask) = (Shared::<T>::new(x.ptr), Shared::<T>::new(y.ptr), Shared::<u8>::new(mask.ptr));
    let (isa, blocks) = (isa(), n.div_ceil(BLOCK));
    let scale = T::Acc::of(if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 });
    split(grid.len() * blocks, n.min(BLOCK) as f64, &|r| {
        for u in r {
            let (row, from) = (u / blocks, u % blocks * BLOCK);
            let len = (n - from).min(BLOCK);
            grid.each(row..row + 1, |_, off| {
                let at = |k: usize| off[k] + from as isize * steps[k];
                let first = window.first().wrapping_add(at(3) as u64);
                let k = Drop {
                    x: x.at(at(0)),
                    y: y.at(at(1)),
                    mask: mask.at(at(2)),
                    steps,
                    len,
                    seed,
                    offset,
                    first,
                    scale,
                    bound: threshold(p),
                };
                dispatch(isa, k);
            });
        }
    });
}

/// As PyTorch composes it: ones of probability `1 - p`, divided by that in the dtype, times x.
unsafe fn drop_in_order<T: Float>(x: &View, y: &View, mask: &View, p: f64, id: u64) -> Result<()> {
    let registered = mt19937::engine(id)?;
    let mut e = registered.lock();
    let (from, to, kept) = (x.ptr.cast::<T>(), y.ptr.cast::<T>(), mask.ptr.cast::<u8>());
    let scale = T::narrow(T::Acc::of(mt19937::dropout_scale(p, x.dtype))).widen();
    mt19937::each_in_order(x.sizes, [x.strides, y.strides, mask.strides], |[i, o, m]| {
        // What is dropped for certain draws nothing.
        let is_kept = p < 1.0 && e.uniform_f64() < 1.0 - p;
        // SAFETY: the offsets are those of the views' elements.
        unsafe {
            *to.offset(o) = T::narrow((*from.offset(i)).widen() * if is_kept { scale } else { T::Acc::splat(0.0) });
            *kept.offset(m) = is_kept as u8;
        }
    });
    Ok(())
}

struct Drop<T: Float> {
    x: *const T,
    y: *mut T,
    mask: *mut u8,
    /// Of x, y, mask and the global index.
    steps: [isize; 4],
    len: usize,
    seed: u64,
    offset: u64,
    first: u64,
    scale: T::Acc,
    /// Dropped below this 24-bit number.
    bound: u32,
}

impl<T: Float> WithSimd for Drop<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        const N: usize = 64;
        let d = self;
        // SAFETY: all three hold len elements at their steps.
        unsafe {
            if d.steps == [1; 4] {
                // To the first element that opens a block.
                let mut i = (d.first.wrapping_neg() % 4).min(d.len as u64) as usize;
                d.one_by_one(0, i);
                while i + N <= d.len {
                    let w = packed_words(d.seed, d.offset, d.first.wrapping_add(i as u64) / 4);
                    let mut x = [T::narrow(d.scale); N];
                    std::ptr::copy_nonoverlapping(d.x.add(i), x.as_mut_ptr(), N);
                    let mut kept = [0u8; N];
                    for j in 0..N {
                        kept[j] = (w[j] >> 8 >= d.bound) as u8;
                        x[j] = T::narrow(x[j].widen() * d.factor(kept[j]));
                    }
                    std::ptr::copy_nonoverlapping(x.as_ptr(), d.y.add(i), N);
                    std::ptr::copy_nonoverlapping(kept.as_ptr(), d.mask.add(i), N);
                    i += N;
                }
                return d.one_by_one(i, d.len);
            }
            d.one_by_one(0, d.len)
        }
    }
}

impl<T: Float> Drop<T> {
    /// One number times x is what torch computes: NaN stays NaN.
    #[inline(always)]
    fn factor(&self, kept: u8) -> T::Acc {
        if kept != 0 { self.scale } else { T::Acc::splat(0.0) }
    }

    #[inline(always)]
    unsafe fn one_by_one(&self, from: usize, to: usize) {
        let [xs, ys, ms, is] = self.steps;
        let mut i = from;
        while i < to {
            let at = i as isize;
            let w = packed(self.seed, self.offset, self.first.wrapping_add((at * is) as u64));
            let kept = (w >> 8 >= self.bound) as u8;
            // SAFETY: by the caller.
            unsafe {
                *self.y.offset(at * ys) = T::narrow((*self.x.offset(at * xs)).widen() * self.factor(kept));
                *self.mask.offset(at * ms) = kept;
            }
            i += 1;
        }
    }
}
