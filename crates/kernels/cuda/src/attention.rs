//! ATTENTION and its backward by tiles, the weights never in memory. The backward computes them again from the log-sum-exps; every
//! gradient belongs to one block, which adds in order.

use crate::launch::{Argument, Family, Key, Scratch, address, ceil_div, rows, run};
use crate::random::PHILOX;
use crate::text::{Builder, c_type, float};
use oneflow_base::{DType, Error, Result};
use oneflow_ep::cuda::{Grid, Text};
use oneflow_kernels_prim::philox::{Window, threshold};
use oneflow_kernels_prim::{AttentionParams, Launch, View};

/// The widest rows a block's registers hold, in steps of 16.
const MOST_TILES: u64 = 16;

const FORWARD: u8 = 0;
const DELTA: u8 = 1;
const KEYS: u8 = 2;
const ROWS: u8 = 3;

/// `part`: see the template; widths of query and value in steps of 16.
pub fn text(part: u8, dtype: DType, mask: DType, [e_tiles, v_tiles]: [u64; 2]) -> Result<Text> {
    let b = Builder::new("attention").variant("PART", part).variant("E_TILES", e_tiles).variant("V_TILES", v_tiles);
    let b = b.compute("C", float("attention", dtype)?.compute())?.dtype("T", dtype)?.dtype("M", mask)?;
    let b = b.define("MASK_BOOL", (mask == DType::Bool) as u8).define("BM", tile(dtype));
    Ok(b.push(PHILOX).push(include_str!("text/attention.cu")).finish())
}

/// Rows and keys of a tile: its numbers fit the shared memory that every block has.
fn tile(dtype: DType) -> i64 {
    if dtype == DType::F64 { 32 } else { 64 }
}

/// The template's parameter.
#[repr(C)]
#[derive(Clone, Copy)]
struct Problem {
    batch: i64,
    heads: i64,
    kv_heads: i64,
    rows: i64,
    keys: i64,
    width: i64,
    value_width: i64,
    causal: i64,
    scale: f64,
    drop_scale: f64,
    seed: u64,
    offset: u64,
    first: u64,
    window: [i64; 4],
    threshold: i64,
    query: *mut u8,
    key: *mut u8,
    value: *mut u8,
    mask: *mut u8,
    out: *mut u8,
    lse: *mut u8,
    grad: *mut u8,
    delta: *mut u8,
    grad_query: *mut u8,
    grad_key: *mut u8,
    grad_value: *mut u8,
    grad_mask: *mut u8,
    q: [i64; 4],
    k: [i64; 4],
    v: [i64; 4],
    m: [i64; 4],
    o: [i64; 4],
    g: [i64; 4],
    gq: [i64; 4],
    gk: [i64; 4],
    gv: [i64; 4],
    stat: [i64; 3],
}
impl Argument for Problem {}

fn strides<const N: usize>(v: &View<'_>) -> Result<[i64; N]> {
    v.strides.try_into().map_err(|_| Error::runtime(format!("attention: {N} dimensions are needed, got {:?}", v.sizes)))
}

/// What the texts depend on.
#[derive(Clone, Copy)]
struct Kind {
    dtype: DType,
    mask: DType,
    tiles: [u64; 2],
}

impl Problem {
    /// Query, key, value and mask from input `at` on; `out` and the log-sum-exps.
    fn new(l: &Launch<'_>, at: usize, out: &View<'_>, lse: &View<'_>) -> Result<(Problem, Kind)> {
        let (q, k, v, mask) = (l.input(at)?, l.input(at + 1)?, l.input(at + 2)?, l.opt_input(at + 3));
        let AttentionParams { scale, causal, p, seed, offset, shard } = l.read()?;
        let dtype = float("attention", q.dtype)?;
        let mask_dtype = mask.map_or(DType::Bool, |m| m.dtype);
        if ![DType::Bool, DType::F32, dtype].contains(&mask_dtype) || [k.dtype, v.dtype, out.dtype] != [dtype; 3] {
            c_type("attention", mask_dtype)?;
            return Err(Error::not_implemented(format!("attention: a {mask_dtype} mask for {dtype} on CUDA")));
        }
        let steps = |n: i64| (ceil_div(n, 16).max(1) as u64).next_power_of_two();
        let tiles = [steps(q.sizes[3]), steps(v.sizes[3])];
        if tiles.iter().any(|t| *t > MOST_TILES) {
            return Err(Error::not_implemented("attention: CUDA kernels take heads of at most 256 columns"));
        }
        let mut problem = Problem {
            batch: q.sizes[0],
            heads: q.sizes[1],
            kv_heads: k.sizes[1],
            rows: q.sizes[2],
            keys: k.sizes[2],
            width: q.sizes[3],
            value_width: v.sizes[3],
            causal: causal as i64,
            scale,
            drop_scale: if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 },
            seed,
            offset,
            first: 0,
            window: [0; 4],
            threshold: 0,
            query: q.ptr,
            key: k.ptr,
            value: v.ptr,
            mask: address(mask),
            out: out.ptr,
            lse: lse.ptr,
            grad: std::ptr::null_mut(),
            delta: std::ptr::null_mut(),
            grad_query: std::ptr::null_mut(),
            grad_key: std::ptr::null_mut(),
            grad_value: std::ptr::null_mut(),
            grad_mask: std::ptr::null_mut(),
            q: strides(&q)?,
            k: strides(&k)?,
            v: strides(&v)?,
            m: mask.map_or(Ok([0; 4]), |m| strides(&m))?,
            o: strides(out)?,
            g: [0; 4],
            gq: [0; 4],
            gk: [0; 4],
            gv: [0; 4],
            stat: strides(lse)?,
        };
        if p > 0.0 {
            let window = Window::new(&shard, &[q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]])?;
            problem.first = window.first();
            problem.window.copy_from_slice(window.strides());
            problem.threshold = threshold(p) as i64;
        }
        Ok((problem, Kind { dtype, mask: mask_dtype, tiles }))
    }

    fn launch(&self, l: &Launch<'_>, part: u8, kind: Kind, grid: Grid) -> Result<()> {
        let Kind { dtype, mask, tiles } = kind;
        let key = Key::new(Family::Attention).small(part as u64).dtype(dtype).dtype(mask);
        let key = tiles.iter().fold(key, |key, t| key.small(t.ilog2() as u64));
        // SAFETY: the argument is the template's; the views are valid by the launch's contract.
        unsafe { run(l.queue, key, || text(part, dtype, mask, tiles), grid, crate::launch::args![*self]) }
    }

    /// A block for every tile of `n` rows of `heads` heads.
    fn tiles(&self, kind: Kind, n: i64, heads: i64) -> Grid {
        Grid::linear((ceil_div(n, tile(kind.dtype)) * self.batch * heads).min(1 << 30) as u32, 256)
    }
}

pub unsafe fn attention(l: &Launch<'_>) -> Result<()> {
    let (p, kind) = Problem::new(l, 0, &l.output(0)?, &l.output(1)?)?;
    p.launch(l, FORWARD, kind, p.tiles(kind, p.rows, p.heads))
}

pub unsafe fn attention_backward(l: &Launch<'_>) -> Result<()> {
    let (grad, outs) = (l.input(0)?, [l.output(0)?, l.output(1)?, l.output(2)?]);
    let (mut p, kind) = Problem::new(l, 1, &l.input(5)?, &l.input(6)?)?;
    let n_rows = p.batch * p.heads * p.rows;
    let delta = Scratch::new(l.queue, n_rows, kind.dtype.compute().size())?;
    (p.grad, p.g, p.delta) = (grad.ptr, strides(&grad)?, delta.ptr());
    (p.grad_query, p.gq) = (outs[0].ptr, strides(&outs[0])?);
    (p.grad_key, p.gk) = (outs[1].ptr, strides(&outs[1])?);
    (p.grad_value, p.gv) = (outs[2].ptr, strides(&outs[2])?);
    p.grad_mask = address(l.opt_output(3));
    p.launch(l, DELTA, kind, rows(n_rows, p.value_width, true).0)?;
    p.launch(l, KEYS, kind, p.tiles(kind, p.keys, p.kv_heads))?;
    p.launch(l, ROWS, kind, p.tiles(kind, p.rows, p.heads))
}
