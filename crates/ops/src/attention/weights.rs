//! Attention by other ops, with the weights in memory: the meaning of the fused ops.

use crate::named::{native_attention, native_attention_backward};
use crate::prelude::*;

/// Position of a draw over the scores: the window of a shard, given for a result [b, h, l, v], with its last dimension replaced.
pub fn scores_window(rng: Arg<'_>, keys: i64) -> Dims {
    let mut window = Dims::from_slice(rng.window());
    if window.len() == 8 {
        (window[3], window[7]) = (keys, 0);
    }
    window
}

/// The attention of a call by other ops, in the compute dtype.
pub struct Weights {
    pub query: Tensor,
    pub key: Tensor,
    pub value: Tensor,
    /// [b, h, l, s], before dropout.
    pub weights: Tensor,
    pub logsumexp: Tensor,
    /// What the weights are multiplied by: zeros and `1 / (1 - p)`.
    pub dropout: Option<Tensor>,
}

/// (*, g, s, e) to (*, h, s, e), each head `h / g` times in a row.
fn repeat_heads(x: &Tensor, heads: i64) -> Result<Tensor> {
    let s = x.sizes();
    if s[1] == heads {
        return Ok(x.clone());
    }
    let times = heads / s[1];
    x.unsqueeze(2)?.expand(&[s[0], s[1], times, s[2], s[3]])?.reshape(&[s[0], heads, s[2], s[3]])
}

/// The gradient of `repeat_heads`.
pub fn sum_heads(g: Tensor, kv_heads: i64) -> Result<Tensor> {
    let s = g.sizes();
    if s[1] == kv_heads {
        return Ok(g);
    }
    g.reshape(&[s[0], kv_heads, s[1] / kv_heads, s[2], s[3]])?.sum(&[2], false)
}

fn widened(x: &Tensor) -> Result<Tensor> {
    let wide = x.dtype().compute();
    if wide == x.dtype() { Ok(x.clone()) } else { x.to_copy_with(Some(wide), None) }
}

impl Weights {
    pub fn new(
        [q, k, v]: [&Tensor; 3],
        mask: Option<&Tensor>,
        p: f64,
        causal: bool,
        scale: f64,
        rng: Arg<'_>,
    ) -> Result<Weights> {
        let heads = q.sizes()[1];
        let (query, key, value) = (widened(q)?, repeat_heads(&widened(k)?, heads)?, repeat_heads(&widened(v)?, heads)?);
        let mut scores = query.mul(scale)?.matmul(&key.transpose(-2, -1)?)?;
        if causal {
            let (l, s) = (q.sizes()[2], k.sizes()[2]);
            let hidden = scores.new_ones(&[l, s])?.triu(1)?.gt(0.0)?;
            scores = scores.masked_fill(&hidden, f64::NEG_INFINITY)?;
        }
        scores = match mask {
            None => scores,
            Some(m) if m.dtype() == DType::Bool => scores.masked_fill(&m.logical_not()?, f64::NEG_INFINITY)?,
            Some(m) => scores.add(&widened(m)?)?,
        };
        let sizes = scores.sizes().to_vec();
        let (weights, logsumexp) = if sizes[3] == 0 {
            (scores.clone(), scores.sum(&[-1], false)?.add(f64::INFINITY)?)
        } else {
            // A row that sees nothing: its maximum is minus infinity, and its weights are to be zeros, not NaN.
            let max = scores.amax(&[-1], true)?;
            let max = max.masked_fill(&max.eq(f64::NEG_INFINITY)?, 0.0)?;
            let e = scores.sub(&max)?.exp()?;
            let sum = e.sum(&[-1], true)?;
            let empty = sum.eq(0.0)?;
            let safe = sum.masked_fill(&empty, 1.0)?;
            let stat = safe.log()?.add(&max)?.masked_fill(&empty, f64::INFINITY)?;
            (e.div(&safe)?, stat.reshape(&sizes[..3])?)
        };
        let dropout = if p > 0.0 {
            let ones = weights.new_ones(&sizes)?;
            let window = scores_window(rng, sizes[3]);
            let (seed, offset) = rng.rng()?;
            let rng = if window.is_empty() { rng } else { Arg::RngAt { seed, offset, window: &window } };
            // The first of two results; the mask alone is not scaled.
            let mut dropped = Outs::new();
            oneflow_core::dispatch(
                &Call::new(&crate::random::dropout::OP, &[Some(&ones)], &[Arg::Float(p), rng]),
                &mut dropped,
            )?;
            Some(dropped[0].clone())
        } else {
            None
        };
        Ok(Weights { query, key, value, weights, logsumexp, dropout })
    }

    /// The weights after dropout.
    pub fn dropped(&self) -> Result<Tensor> {
        match &self.dropout {
            Some(z) => self.weights.mul(z),
            None => Ok(self.weights.clone()),
        }
    }
}

pub fn forward(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let q = c.t(native_attention::QUERY)?;
    let w = Weights::new(
        [q, c.t(native_attention::KEY)?, c.t(native_attention::VALUE)?],
        c.opt(native_attention::ATTN_MASK),
        c.float(native_attention::DROPOUT_P)?,
        c.bool(native_attention::IS_CAUSAL),
        c.float(native_attention::SCALE)?,
        c.arg(native_attention::GENERATOR),
    )?;
    outs.give(narrowed(w.dropped()?.matmul(&w.value)?, q.dtype())?);
    outs.give(w.logsumexp);
    Ok(())
}

/// Attention of ops that have gradients of their own: what the fused kernels would draw by position is drawn in order.
pub fn composed(
    qkv: [&Tensor; 3],
    mask: Option<&Tensor>,
    p: f64,
    causal: bool,
    scale: f64,
    rng: Arg<'_>,
) -> Result<Tensor> {
    let w = Weights::new(qkv, mask, p, causal, scale, rng)?;
    narrowed(w.dropped()?.matmul(&w.value)?, qkv[0].dtype())
}

fn narrowed(x: Tensor, dtype: DType) -> Result<Tensor> {
    if x.dtype() == dtype { Ok(x) } else { x.to_copy_with(Some(dtype), None) }
}

pub fn backward(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let (g, q, k, v) = (
        widened(c.t(native_attention_backward::GRAD_OUT)?)?,
        c.t(native_attention_backward::QUERY)?,
        c.t(native_attention_backward::KEY)?,
        c.t(native_attention_backward::VALUE)?,
    );
    let (scale, kv_heads) = (c.float(native_attention_backward::SCALE)?, k.sizes()[1]);
    let w = Weights::new(
        [q, k, v],
        c.opt(native_attention_backward::ATTN_MASK),
        c.float(native_attention_backward::DROPOUT_P)?,
        c.bool(native_attention_backward::IS_CAUSAL),
        scale,
        c.arg(native_attention_backward::GENERATOR),
    )?;
    let grad_value = w.dropped()?.transpose(-2, -1)?.matmul(&g)?;
    let grad = g.matmul(&w.value.transpose(-2, -1)?)?;
    let grad = match &w.dropout {
        Some(z) => grad.mul(z)?,
        None => grad,
    };
    let shared = w.weights.mul(&grad)?.sum(&[-1], true)?;
    let grad_scores = w.weights.mul(&grad.sub(&shared)?)?;
    outs.give(narrowed(grad_scores.matmul(&w.key)?.mul(scale)?, q.dtype())?);
    let grad_key = grad_scores.transpose(-2, -1)?.matmul(&w.query)?.mul(scale)?;
    outs.give(narrowed(sum_heads(grad_key, kv_heads)?, q.dtype())?);
    outs.give(narrowed(sum_heads(grad_value, kv_heads)?, q.dtype())?);
    outs.give(if c.bool(native_attention_backward::NEEDS_MASK) {
        narrowed(grad_scores, q.dtype())?
    } else {
        q.new_empty(&[0])?
    });
    Ok(())
}
