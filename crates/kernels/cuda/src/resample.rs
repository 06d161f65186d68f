//! RESAMPLE: one dimension after another, by a table of windows and weights that the device makes.

use crate::elementwise::copy_views;
use crate::launch::{Family, Key, Scratch, args, linear, run};
use crate::nest::Nest;
use crate::text::{Builder, float};
use oneflow_base::{DType, Result, contiguous_strides};
use oneflow_ep::Queue;
use oneflow_ep::cuda::Text;
use oneflow_kernels_prim::{Launch, ResampleMode, ResampleParams, View};

const TABLE: u8 = 0;
const SUMS: u8 = 1;
const TRANSPOSED: u8 = 2;

/// The text of the tables of a mode.
pub fn table_text(mode: ResampleMode, compute: DType) -> Result<Text> {
    let b = Builder::new("resample table").define("PART", TABLE).variant("MODE", mode as u8).compute("C", compute)?;
    Ok(b.options(&["--fmad=false"]).push(include_str!("text/resample.cu")).finish())
}

pub fn text(transposed: bool, from: DType, to: DType) -> Result<Text> {
    let part = if transposed { TRANSPOSED } else { SUMS };
    let b = Builder::new("resample").variant("PART", part).compute("C", from.compute())?;
    Ok(b.dtype("T", from)?.dtype("O", to)?.push(include_str!("text/resample.cu")).finish())
}

/// How one dimension is resized, in the direction of the forward.
struct Map {
    mode: ResampleMode,
    align: bool,
    antialias: bool,
    /// Input elements an output element; zero: by the sizes.
    scale: f64,
    d_in: i64,
    d_out: i64,
}

impl Map {
    /// The most elements of a window.
    fn most(&self) -> i64 {
        let scale = match (self.align, self.scale > 0.0) {
            (true, _) => (self.d_in as f64 - 1.0) / (self.d_out as f64 - 1.0).max(1.0),
            (false, true) => self.scale,
            (false, false) => self.d_in as f64 / self.d_out as f64,
        };
        let wide = |radius: f64| ((2.0 * radius * scale.max(1.0)).ceil() as i64 + 3).min(self.d_in.max(1));
        match self.mode {
            ResampleMode::Nearest | ResampleMode::NearestExact => 1,
            ResampleMode::Linear if self.antialias => wide(1.0),
            ResampleMode::Cubic if self.antialias => wide(2.0),
            ResampleMode::Linear => 2,
            ResampleMode::Cubic => 4,
            ResampleMode::Area => self.d_in / self.d_out + 2,
        }
    }

    /// Keeps every element as it is.
    fn is_identity(&self) -> bool {
        let plain = matches!(self.mode, ResampleMode::Area) || (self.mode == ResampleMode::Linear && !self.antialias);
        self.d_in == self.d_out && plain
    }
}

/// The table of a dimension: starts and counts of windows, and their weights.
struct Table {
    words: Scratch,
    weights: Scratch,
    n: i64,
    most: i64,
}

impl Table {
    fn new(queue: Queue, m: &Map, compute: DType) -> Result<Table> {
        let (n, most) = (m.d_out, m.most());
        let t = Table {
            words: Scratch::new(queue, 2 * n, 8)?,
            weights: Scratch::new(queue, n * most, compute.size())?,
            n,
            most,
        };
        let key = Key::new(Family::Resample).small(TABLE as u64).dtype(compute).small(m.mode as u64);
        let (align, antialias) = (m.align as i32, m.antialias as i32);
        // SAFETY: the arguments are the template's; windows have at most `most` elements.
        unsafe {
            run(
                queue,
                key,
                || table_text(m.mode, compute),
                linear(n),
                args![t.words.ptr(), t.counts(), t.weights.ptr(), most, m.d_in, n, align, antialias, m.scale],
            )?
        };
        Ok(t)
    }
    fn counts(&self) -> *mut u8 {
        self.words.ptr().wrapping_add(self.n as usize * 8)
    }
}

/// Resizes dimension `dim` of `x` into `out`.
fn pass(queue: Queue, dim: usize, t: &Table, x: &View<'_>, out: &View<'_>, transposed: bool) -> Result<()> {
    let without: Vec<i64> = x.strides.iter().enumerate().map(|(d, s)| if d == dim { 0 } else { *s }).collect();
    let along: Vec<i64> = (0..x.ndim()).map(|d| (d == dim) as i64).collect();
    let geo = Nest::new(out.sizes, &[out.strides, &without, &along]).ordered().geo("resample")?;
    let key = Key::new(Family::Resample).small(SUMS as u64 + transposed as u64).dtype(x.dtype).dtype(out.dtype);
    let stride = x.strides[dim];
    // SAFETY: the arguments are the template's; windows lie inside the dimension.
    unsafe {
        run(
            queue,
            key,
            || text(transposed, x.dtype, out.dtype),
            linear(geo.n()),
            args![x.ptr, out.ptr, stride, t.words.ptr(), t.counts(), t.weights.ptr(), t.most, t.n, geo],
        )
    }
}

pub unsafe fn resample(l: &Launch<'_>) -> Result<()> {
    let (x, y) = (l.input(0)?, l.output(0)?);
    let compute = float("resample", x.dtype)?.compute();
    let ResampleParams { mode, align_corners: align, antialias, transposed, scales } = l.read()?;
    let k = scales.len();
    let lead = x.ndim().saturating_sub(k);
    if y.numel() == 0 {
        return Ok(());
    }
    let mut maps = Vec::new();
    for i in (0..k).rev() {
        let (from, to) = (x.sizes[lead + i], y.sizes[lead + i]);
        let (d_in, d_out) = if transposed { (to, from) } else { (from, to) };
        let map = Map { mode, align, antialias, scale: scales[i], d_in, d_out };
        if !map.is_identity() {
            maps.push((lead + i, map));
        }
    }
    if maps.is_empty() {
        // SAFETY: equal sizes, by the launch's contract valid.
        return unsafe { copy_views(l.queue, &y, &x) };
    }
    // What lies between two passes is in the compute dtype, without gaps.
    let mut sizes = x.sizes.to_vec();
    let mut held: Option<Scratch> = None;
    for (i, (dim, map)) in maps.iter().enumerate() {
        let table = Table::new(l.queue, map, compute)?;
        let before = (sizes.clone(), contiguous_strides(&sizes));
        sizes[*dim] = y.sizes[*dim];
        let after = contiguous_strides(&sizes);
        let from =
            held.as_ref().map_or(x, |h| View { ptr: h.ptr(), dtype: compute, sizes: &before.0, strides: &before.1 });
        if i + 1 == maps.len() {
            return pass(l.queue, *dim, &table, &from, &y, transposed);
        }
        let room = Scratch::new(l.queue, sizes.iter().product(), compute.size())?;
        let to = View { ptr: room.ptr(), dtype: compute, sizes: &sizes, strides: &after };
        pass(l.queue, *dim, &table, &from, &to, transposed)?;
        held = Some(room);
    }
    Ok(())
}
