//! What the kernels of ATTENTION and its backward are given, whichever units multiply.

use crate::launch::{Argument, address, ceil_div, drawn};
use crate::text::{c_type, float};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::philox::{Window, threshold};
use oneflow_kernels_prim::{AttentionParams, Launch, View};

/// The widest rows a block's registers hold, in steps of 16.
const MOST_TILES: u64 = 16;

/// What every kernel of attention is given.
pub const PROBLEM: &str = include_str!("text/attention_problem.cu");

pub const FORWARD: u8 = 0;
pub const DELTA: u8 = 1;
pub const KEYS: u8 = 2;
pub const ROWS: u8 = 3;

/// The template's parameter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Problem {
    pub batch: i64,
    pub heads: i64,
    pub kv_heads: i64,
    pub rows: i64,
    pub keys: i64,
    pub width: i64,
    pub value_width: i64,
    pub causal: i64,
    pub scale: f64,
    pub drop_scale: f64,
    pub seed: u64,
    pub offset: u64,
    pub first: u64,
    pub drawn: *const u64,
    pub window: [i64; 4],
    pub threshold: i64,
    pub query: *mut u8,
    pub key: *mut u8,
    pub value: *mut u8,
    pub mask: *mut u8,
    pub out: *mut u8,
    pub lse: *mut u8,
    pub grad: *mut u8,
    pub delta: *mut u8,
    pub grad_query: *mut u8,
    pub grad_key: *mut u8,
    pub grad_value: *mut u8,
    pub grad_mask: *mut u8,
    pub q: [i64; 4],
    pub k: [i64; 4],
    pub v: [i64; 4],
    pub m: [i64; 4],
    pub o: [i64; 4],
    pub g: [i64; 4],
    pub gq: [i64; 4],
    pub gk: [i64; 4],
    pub gv: [i64; 4],
    pub stat: [i64; 3],
}
impl Argument for Problem {}

pub fn strides<const N: usize>(v: &View<'_>) -> Result<[i64; N]> {
    v.strides.try_into().map_err(|_| Error::runtime(format!("attention: {N} dimensions are needed, got {:?}", v.sizes)))
}

/// What the texts depend on.
#[derive(Clone, Copy)]
pub struct Kind {
    pub dtype: DType,
    pub mask: DType,
    pub tiles: [u64; 2],
}

impl Problem {
    /// Query, key, value and mask from input `at` on; `out` and the log-sum-exps.
    pub fn new(l: &Launch<'_>, at: usize, out: &View<'_>, lse: &View<'_>) -> Result<(Problem, Kind)> {
        let (q, k, v, mask) = (l.input(at)?, l.input(at + 1)?, l.input(at + 2)?, l.opt_input(at + 3));
        let AttentionParams { scale, causal, p, seed, offset, shard, .. } = l.read()?;
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
            drawn: std::ptr::null(),
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
            problem.drawn = drawn(l.queue)?;
            problem.window.copy_from_slice(window.strides());
            problem.threshold = threshold(p) as i64;
        }
        Ok((problem, Kind { dtype, mask: mask_dtype, tiles }))
    }
}
