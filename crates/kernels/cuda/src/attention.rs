//! ATTENTION and its backward by tiles, the weights never in memory. The backward computes them again from the log-sum-exps; every
//! gradient belongs to one block, which adds in order. 16-bit floats go to the tensor cores where they can (`attention_mma`); what is
//! here multiplies on the common units and takes every float, layout and width. cuDNN does it only where a program asks for that
//! (`attention_cudnn`).

use crate::attention_cudnn;
use crate::attention_mma::TensorCores;
use crate::attention_problem::{DELTA, FORWARD, KEYS, Kind, PROBLEM, Problem, ROWS, strides};
use crate::launch::{Family, Key, Scratch, address, ceil_div, rows, run};
use crate::random::PHILOX;
use crate::text::{Builder, float};
use oneflow_base::{DType, Result};
use oneflow_ep::cuda::{Grid, Text};
use oneflow_kernels_prim::Launch;

/// `part`: see the template; widths of query and value in steps of 16.
pub fn text(part: u8, dtype: DType, mask: DType, [e_tiles, v_tiles]: [u64; 2]) -> Result<Text> {
    let b = Builder::new("attention").variant("PART", part).variant("E_TILES", e_tiles).variant("V_TILES", v_tiles);
    let b = b.compute("C", float("attention", dtype)?.compute())?.dtype("T", dtype)?.dtype("M", mask)?;
    let b = b.define("MASK_BOOL", (mask == DType::Bool) as u8).define("BM", tile(dtype));
    Ok(b.push(PHILOX).push(PROBLEM).push(include_str!("text/attention.cu")).finish())
}

/// Rows and keys of a tile: its numbers fit the shared memory that every block has.
fn tile(dtype: DType) -> i64 {
    if dtype == DType::F64 { 32 } else { 64 }
}

impl Problem {
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
    let (p, kind) = attention_cudnn::heard(l, 0, Problem::new(l, 0, &l.output(0)?, &l.output(1)?))?;
    // SAFETY: the launch is this one.
    if unsafe { attention_cudnn::attention(l, 0, &p, kind)? } {
        return Ok(());
    }
    if let Some(tensor_cores) = TensorCores::of(&p, kind, l.queue)? {
        return tensor_cores.launch(l, &p, FORWARD);
    }
    p.launch(l, FORWARD, kind, p.tiles(kind, p.rows, p.heads))
}

pub unsafe fn attention_backward(l: &Launch<'_>) -> Result<()> {
    let (grad, outs) = (l.input(0)?, [l.output(0)?, l.output(1)?, l.output(2)?]);
    let (mut p, kind) = attention_cudnn::heard(l, 1, Problem::new(l, 1, &l.input(5)?, &l.input(6)?))?;
    // SAFETY: the launch is this one.
    if unsafe { attention_cudnn::attention(l, 1, &p, kind)? } {
        return Ok(());
    }
    let n_rows = p.batch * p.heads * p.rows;
    // Tensor cores keep two numbers a row there.
    let delta = Scratch::new(l.queue, 2 * n_rows, kind.dtype.compute().size())?;
    (p.grad, p.g, p.delta) = (grad.ptr, strides(&grad)?, delta.ptr());
    (p.grad_query, p.gq) = (outs[0].ptr, strides(&outs[0])?);
    (p.grad_key, p.gk) = (outs[1].ptr, strides(&outs[1])?);
    (p.grad_value, p.gv) = (outs[2].ptr, strides(&outs[2])?);
    p.grad_mask = address(l.opt_output(3));
    if let Some(tensor_cores) = TensorCores::of(&p, kind, l.queue)? {
        return [DELTA, KEYS, ROWS].into_iter().try_for_each(|part| tensor_cores.launch(l, &p, part));
    }
    p.launch(l, DELTA, kind, rows(n_rows, p.value_width, true).0)?;
    p.launch(l, KEYS, kind, p.tiles(kind, p.keys, p.kv_heads))?;
    p.launch(l, ROWS, kind, p.tiles(kind, p.rows, p.heads))
}
