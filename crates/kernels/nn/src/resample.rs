//! RESAMPLE: trailing dimensions resized one after another, each element a weighted sum of neighbours.
//!
//! Every mode, and the adjoint of every mode, is a table of windows and weights for each dimension; one loop serves all. A
//! plane (or, channels last, a sample) belongs to one task: the same result for any number of threads.

use crate::mem::with_scratch;
use crate::row::Row;
use oneflow_base::{Dims, Result, by_float};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{
    Acc, Float, Lanes, Launch, Num, Reg, Register, ResampleMode, ResampleParams, Simd, View, WithSimd, dispatch, isa,
};

pub unsafe fn resample(l: &Launch<'_>) -> Result<()> {
    let x = l.input(0)?;
    // SAFETY: the views are valid by the launch's contract.
    by_float!("resample", x.dtype, T => unsafe { resample_of::<T>(l, &x) })
}

/// For each element of the result the first element of its window, and the weights of the window.
struct Table<A> {
    start: Vec<usize>,
    /// Where the weights of element i begin; one more at the end.
    at: Vec<usize>,
    weights: Vec<A>,
}

/// How one dimension is resized.
#[derive(Clone, Copy)]
struct Map {
    mode: ResampleMode,
    align_corners: bool,
    antialias: bool,
    /// Input elements an output element; zero: by the sizes.
    scale: f64,
}

impl<A: Acc> Table<A> {
    /// Windows that may repeat an element at the borders: `f` calls back with (element, weight).
    fn of(n: usize, mut f: impl FnMut(usize, &mut dyn FnMut(usize, f64))) -> Table<A> {
        let mut t = Table { start: Vec::with_capacity(n), at: vec![0], weights: Vec::new() };
        let mut window: Vec<(usize, f64)> = Vec::new();
        for i in 0..n {
            window.clear();
            f(i, &mut |j, w| window.push((j, w)));
            let from = window.iter().map(|(j, _)| *j).min().unwrap_or(0);
            let to = window.iter().map(|(j, _)| *j + 1).max().unwrap_or(0);
            let base = t.weights.len();
            t.weights.resize(base + (to - from), A::of(0.0));
            for (j, w) in &window {
                let at = base + j - from;
                t.weights[at] = A::of(t.weights[at].to_f64() + w);
            }
            t.start.push(from);
            t.at.push(t.weights.len());
        }
        t
    }

    fn new(m: Map, d_in: usize, d_out: usize) -> Table<A> {
        let last = d_in.saturating_sub(1);
        // Positions are computed in the compute dtype, as torch does: the last bit decides which neighbour is nearest.
        let scale = match m.align_corners {
            true if d_out > 1 => A::of((d_in as f64 - 1.0) / (d_out as f64 - 1.0)),
            true => A::of(0.0),
            false if m.scale > 0.0 => A::of(m.scale),
            false => A::of(d_in as f64) / A::of(d_out as f64),
        };
        let source = |i: usize| match m.align_corners {
            true => scale * A::of(i as f64),
            false => scale * (A::of(i as f64) + A::of(0.5)) - A::of(0.5),
        };
        let inside = |j: f64| (j.max(0.0) as usize).min(last);
        if m.antialias && matches!(m.mode, ResampleMode::Linear | ResampleMode::Cubic) {
            return Self::antialiased(m, scale.to_f64(), d_in, d_out);
        }
        match m.mode {
            ResampleMode::Nearest => {
                Self::of(d_out, |i, put| put(inside((scale * A::of(i as f64)).floor().to_f64()), 1.0))
            }
            ResampleMode::NearestExact => {
                let at = |i: usize| (scale * (A::of(i as f64) + A::of(0.5))).floor().to_f64();
                Self::of(d_out, |i, put| put(inside(at(i)), 1.0))
            }
            // The same size keeps every element, whatever the scale says.
            ResampleMode::Linear if d_in == d_out => Self::of(d_out, |i, put| put(i, 1.0)),
            ResampleMode::Linear => Self::of(d_out, |i, put| {
                let x = source(i).maximum(A::of(0.0));
                let j = inside(x.floor().to_f64());
                let t = (x - A::of(j as f64)).to_f64().clamp(0.0, 1.0);
                put(j, (A::of(1.0) - A::of(t)).to_f64());
                put((j + 1).min(last), t);
            }),
            ResampleMode::Cubic => Self::of(d_out, |i, put| {
                let x = source(i);
                let j = x.floor().to_f64().min(last as f64);
                let t = (x - A::of(j)).to_f64().clamp(0.0, 1.0);
                for (k, w) in cubic(t).into_iter().enumerate() {
                    put(inside(j - 1.0 + k as f64), w);
                }
            }),
            ResampleMode::Area => Self::of(d_out, |i, put| {
                let (from, to) = (i * d_in / d_out, ((i + 1) * d_in).div_ceil(d_out));
                (from..to).for_each(|j| put(j, 1.0 / (to - from) as f64));
            }),
        }
    }

    /// The filter widened to all elements that an element of a smaller result covers.
    fn antialiased(m: Map, scale: f64, d_in: usize, d_out: usize) -> Table<A> {
        let radius = if m.mode == ResampleMode::Linear { 1.0 } else { 2.0 };
        let (support, shrink) = if scale >= 1.0 { (radius * scale, 1.0 / scale) } else { (radius, 1.0) };
        let weight = |x: f64| match m.mode {
            ResampleMode::Linear => (1.0 - x.abs()).max(0.0),
            _ => wide_cubic(x.abs()),
        };
        Self::of(d_out, |i, put| {
            let center = scale * (i as f64 + 0.5);
            let from = (center - support + 0.5).max(0.0) as usize;
            let to = ((center + support + 0.5).max(0.0) as usize).min(d_in);
            let at = |j: usize| weight((j as f64 - center + 0.5) * shrink);
            let total: f64 = (from..to).map(at).sum();
            (from..to).for_each(|j| put(j, if total == 0.0 { 0.0 } else { at(j) / total }));
        })
    }

    /// The adjoint: for each element of the input (of `n`) the elements of the result that read it.
    fn transposed(self, n: usize) -> Table<A> {
        let mut readers: Vec<Vec<(usize, f64)>> = vec![Vec::new(); n];
        for (i, from) in self.start.iter().enumerate() {
            for (k, w) in self.weights[self.at[i]..self.at[i + 1]].iter().enumerate() {
                readers[from + k].push((i, w.to_f64()));
            }
        }
        Self::of(n, |j, put| readers[j].iter().for_each(|(i, w)| put(*i, *w)))
    }

    /// The windows as pairs where some have two elements and none more; halves of a single one, since infinity times zero is
    /// no number.
    fn pairs(&self) -> Option<Pairs<A>> {
        if self.weights.len() == self.start.len() {
            return None;
        }
        let mut pairs = Vec::with_capacity(self.start.len());
        for (i, &s) in self.start.iter().enumerate() {
            let s = u32::try_from(s).ok()?;
            match self.weights[self.at[i]..self.at[i + 1]] {
                [w] => pairs.push((s, s, w * A::of(0.5), w * A::of(0.5))),
                [v, w] => pairs.push((s, s + 1, v, w)),
                _ => return None,
            }
        }
        Some(pairs)
    }

    fn is_identity(&self, d_in: usize) -> bool {
        let one = |w: &A| w.to_f64() == 1.0;
        self.start.len() == d_in
            && self.weights.len() == d_in
            && self.weights.iter().all(one)
            && self.start.iter().enumerate().all(|(i, s)| i == *s)
    }
}

/// Keys, "Cubic Convolution Interpolation for Digital Image Processing", 1981; with a = -3/4.
fn cubic(t: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

/// The same with a = -1/2, as image libraries filter.
fn wide_cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    match x {
        x if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
        x if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
        _ => 0.0,
    }
}

/// Windows of at most two elements, when single numbers are resized: (first, second, their weights).
type Pairs<A> = Vec<(u32, u32, A, A)>;

/// One dimension's pass: `n` lines of `d_in` blocks to `n` lines of `d_out` blocks.
struct Pass<A> {
    table: Table<A>,
    pairs: Option<Pairs<A>>,
    n: usize,
    d_in: usize,
    d_out: usize,
    block: usize,
}

unsafe fn resample_of<T: Float>(l: &Launch<'_>, x: &View) -> Result<()>
where
    T::Acc: Float<Acc = T::Acc>,
{
    let (y, isa) = (l.output(0)?, isa());
    let ResampleParams { mode, align_corners, antialias, transposed, scales } = l.read()?;
    let k = scales.len();
    let lead = x.ndim() - k;
    // Channels last: they are the innermost block of every pass.
    let last = lead == 2 && x.sizes[1] > 1 && x.strides[1] == 1 && y.strides[1] == 1;
    let order: Vec<usize> =
        if last { [0].into_iter().chain(2..x.ndim()).chain([1]).collect() } else { (0..x.ndim()).collect() };
    let permuted = |v: &[i64]| -> Dims { order.iter().map(|d| v[*d]).collect() };
    let (xn, xt, yn, yt) = (permuted(x.sizes), permuted(x.strides), permuted(y.sizes), permuted(y.strides));
    let xv = View { sizes: &xn, strides: &xt, ..*x };
    let yv = View { sizes: &yn, strides: &yt, ..y };
    let (lead, inner) = if last { (1, x.sizes[1] as usize) } else { (lead, 1) };

    let mut passes = Vec::new();
    let mut block = inner;
    for i in (0..k).rev() {
        let (d_in, d_out) = (xn[lead + i] as usize, yn[lead + i] as usize);
        let map = Map { mode, align_corners, antialias, scale: scales[i] };
        let table = match transposed {
            false => Table::<T::Acc>::new(map, d_in, d_out),
            true => Table::<T::Acc>::new(map, d_out, d_in).transposed(d_out),
        };
        let n = xn[lead..lead + i].iter().product::<i64>() as usize;
        if !table.is_identity(d_in) {
            let pairs = if block == 1 { table.pairs() } else { None };
            passes.push(Pass { table, pairs, n, d_in, d_out, block });
        }
        block *= d_out;
    }
    if passes.is_empty() {
        // Something must move the elements: a pass of ones.
        let n = xn[lead..].iter().product::<i64>() as usize;
        passes.push(Pass { table: Table::of(1, |_, put| put(0, 1.0)), pairs: None, n: 1, d_in: 1, d_out: 1, block: n });
    }
    let between = passes[..passes.len() - 1].iter().map(|p| p.n * p.d_out * p.block).max().unwrap_or(0);

    let outer = Grid::new(&xn[..lead], [&xt[..lead], &yt[..lead]]);
    let (xr, yr) = (Row::trailing(&xv, xn.len() - lead), Row::trailing(&yv, yn.len() - lead));
    let (x, y) = (Shared::<T>::new(x.ptr), Shared::<T>::new(y.ptr));
    let work: f64 = passes.iter().map(|p| 0.4 * (p.n * p.block * p.table.weights.len()) as f64).sum();
    let bytes = (xr.scratch() + yr.scratch()) * size_of::<T>();
    let passes = &passes;
    split(outer.len(), work + 50.0, &|r| {
        with_scratch(2 * between * size_of::<T::Acc>(), |buffers| {
            let buffers = [buffers.cast::<T::Acc>(), buffers.cast::<T::Acc>().wrapping_add(between)];
            with_scratch(bytes, |scratch| {
                let (xs, ys) = (scratch.cast::<T>(), scratch.cast::<T>().wrapping_add(xr.scratch()));
                outer.each(r, |_, [xo, yo]| {
                    // SAFETY: the offsets are those of planes; the scratch has room for one of each, the buffers for
                    // the greatest result between two passes.
                    unsafe {
                        let (x, to) = (xr.read(x.at(xo), xs), y.at(yo));
                        let y = yr.place(to, ys);
                        let n = passes.len();
                        for (i, p) in passes.iter().enumerate() {
                            let (from, into) = (buffers[(i + 1) % 2], buffers[i % 2]);
                            match (i == 0, i + 1 == n) {
                                (true, true) => dispatch(isa, Step { x, y, p }),
                                (true, false) => dispatch(isa, Step { x, y: into, p }),
                                (false, true) => dispatch(isa, Step { x: from.cast_const(), y, p }),
                                (false, false) => dispatch(isa, Step { x: from.cast_const(), y: into, p }),
                            }
                        }
                        yr.finish(to, ys);
                    }
                });
            })
        })
    });
    Ok(())
}

struct Step<'a, X: Float, Y> {
    x: *const X,
    y: *mut Y,
    p: &'a Pass<X::Acc>,
}

impl<X: Float, Y: Float<Acc = X::Acc>> WithSimd for Step<'_, X, Y> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Pass { table, pairs, n, d_in, d_out, block } = self.p;
        let width = Reg::<S, X>::WIDTH;
        for line in 0..*n {
            // SAFETY: windows lie inside a line; lines and blocks inside the planes.
            unsafe {
                let (x, y) = (self.x.add(line * d_in * block), self.y.add(line * d_out * block));
                if let Some(pairs) = pairs {
                    for (i, (a, b, v, w)) in pairs.iter().enumerate() {
                        let (a, b) = ((*x.add(*a as usize)).widen(), (*x.add(*b as usize)).widen());
                        *y.add(i) = Y::narrow(a.fma(*v, b * *w));
                    }
                    continue;
                }
                for i in 0..*d_out {
                    let weights = table.weights.get_unchecked(table.at[i]..table.at[i + 1]);
                    let from = x.add(*table.start.get_unchecked(i) * block);
                    if *block == 1 {
                        let mut v = X::Acc::of(0.0);
                        for (t, w) in weights.iter().enumerate() {
                            v = (*from.add(t)).widen().fma(*w, v);
                        }
                        *y.add(i) = Y::narrow(v);
                        continue;
                    }
                    let to = y.add(i * block);
                    let mut at = 0;
                    while at < *block {
                        let k = width.min(block - at);
                        let mut v = Reg::<S, X>::splat(0.0);
                        for (t, w) in weights.iter().enumerate() {
                            v = X::load_n::<S>(from.add(t * block + at), k).fma(Reg::<S, X>::all_of(*w), v);
                        }
                        Y::store_n::<S>(v, to.add(at), k);
                        at += width;
                    }
                }
            }
        }
    }
}
