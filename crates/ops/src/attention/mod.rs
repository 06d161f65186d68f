//! Scaled dot-product attention: the public op, the fused op below it and its backward.
//!
//! The fused ops take four dimensions and hold no weights; the public op brings any rank there. Their compositions hold the
//! weights and serve second derivatives, devices without the kernel and masks the kernel does not take.

use crate::named::scaled_dot_product_attention as at;
use crate::prelude::*;

pub mod native_attention;
pub mod scaled_dot_product_attention;
mod weights;

fn check(c: &Call<'_>) -> Result<()> {
    let (q, k, v) = (c.t(at::QUERY)?, c.t(at::KEY)?, c.t(at::VALUE)?);
    if q.dtype() != k.dtype() || q.dtype() != v.dtype() {
        return Err(Error::runtime(format!(
            "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and value.dtype: {} instead.",
            q.dtype(),
            k.dtype(),
            v.dtype()
        )));
    }
    if !q.dtype().is_float() {
        return Err(Error::runtime(format!("expected scalar type Float but found {}", q.dtype().scalar_type_name())));
    }
    if q.device() != k.device() || q.device() != v.device() {
        return Err(Error::runtime(format!(
            "Expected query, key, and value to have the same device type, but got query.device: {} key.device: {} and value.device: {} instead.",
            q.device(),
            k.device(),
            v.device()
        )));
    }
    if q.ndim() < 2 || k.ndim() < 2 || v.ndim() < 2 {
        return Err(Error::runtime(format!(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {} key.dim: {} and value.dim: {} instead.",
            q.ndim(),
            k.ndim(),
            v.ndim()
        )));
    }
    if let Some(m) = c.opt(at::ATTN_MASK) {
        if m.dtype() != DType::Bool && m.dtype() != DType::F32 && m.dtype() != q.dtype() {
            return Err(Error::runtime(format!(
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {} and  query.dtype: {} instead.",
                m.dtype(),
                q.dtype()
            )));
        }
        if c.bool(at::IS_CAUSAL) {
            return Err(Error::runtime(
                "scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True",
            ));
        }
    }
    Ok(())
}

/// Sizes but the last two.
fn lead(t: &Tensor) -> &[i64] {
    &t.sizes()[..t.ndim() - 2]
}

/// The tensor broadcast to these leading sizes (an absent `heads` keeps its own) and seen with four dimensions. Heads without a
/// batch are one each, unless they are `grouped`.
fn four_dims(t: &Tensor, lead: &[i64], grouped: bool) -> Result<Tensor> {
    let own = &t.sizes()[t.ndim() - 2..];
    let mut sizes = lead.to_vec();
    sizes.extend(own);
    let t = if t.sizes() == sizes { t.clone() } else { t.expand(&sizes)? };
    match lead.len() {
        0 => t.unsqueeze(0)?.unsqueeze(0),
        1 => t.unsqueeze(if grouped { 0 } else { 1 }),
        2 => Ok(t),
        n => {
            let batch = lead[..n - 1].iter().product();
            t.reshape(&[batch, lead[n - 1], own[0], own[1]])
        }
    }
}

pub(super) fn compose(c: &Call<'_>) -> Result<Tensor> {
    check(c)?;
    let (q, k, v, p, causal) =
        (c.t(at::QUERY)?, c.t(at::KEY)?, c.t(at::VALUE)?, c.float(at::DROPOUT_P)?, c.bool(at::IS_CAUSAL));
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::value(format!("dropout probability has to be between 0 and 1, but got {p}")));
    }
    let width = q.sizes()[q.ndim() - 1];
    let scale = c.arg(at::SCALE).float().unwrap_or(1.0 / (width as f64).sqrt());
    let n = q.ndim().max(k.ndim()).max(v.ndim()) - 2;
    let no_fit = |e: Error| e.context(format_args!("scaled_dot_product_attention(): "));
    // Key and value keep their own number of heads where the query's are groups of them.
    let grouped = c.bool(at::ENABLE_GQA) && q.ndim() > 2 && k.ndim() > 2 && v.ndim() > 2;
    let (q_lead, kv_lead) = if grouped {
        let heads = [q, k, v].map(|t| t.sizes()[t.ndim() - 3]);
        if heads[1] == 0 || heads[1] != heads[2] || heads[0] % heads[1] != 0 {
            return Err(Error::runtime(format!(
                "scaled_dot_product_attention(): Number of heads in key and value must divide the number of heads in query, but got {heads:?} heads of query, key and value"
            )));
        }
        let outer = |t: &Tensor| Dims::from_slice(&t.sizes()[..t.ndim() - 3]);
        let outer =
            broadcast_shapes(&broadcast_shapes(&outer(q), &outer(k)).map_err(no_fit)?, &outer(v)).map_err(no_fit)?;
        let with = |heads: i64| outer.iter().copied().chain([heads]).collect::<Vec<_>>();
        (with(heads[0]), with(heads[1]))
    } else {
        let all = broadcast_shapes(&broadcast_shapes(lead(q), lead(k)).map_err(no_fit)?, lead(v)).map_err(no_fit)?;
        (all.to_vec(), all.to_vec())
    };
    let mask = match c.opt(at::ATTN_MASK) {
        // The one batch that there is.
        Some(m) if n == 1 && m.ndim() == 4 && m.sizes()[0] == 1 => Some(m.select(0, 0)?),
        m => m.cloned(),
    };
    let mask = match mask {
        Some(m) if n != 2 && m.ndim() > 2 => {
            let m = if q_lead.len() + 2 == m.ndim() && n < 2 { m } else { m.expand(&full_mask(&m, &q_lead))? };
            Some(four_dims(&m, lead(&m), grouped)?)
        }
        m => m,
    };
    let (q4, k4, v4) =
        (four_dims(q, &q_lead, grouped)?, four_dims(k, &kv_lead, grouped)?, four_dims(v, &kv_lead, grouped)?);
    let out = native_attention::attention(&q4, &k4, &v4, mask.as_ref(), p, causal, scale)?;
    if n == 2 {
        return Ok(out);
    }
    let mut sizes = q_lead;
    sizes.extend([q.sizes()[q.ndim() - 2], v.sizes()[v.ndim() - 1]]);
    // Heads lie inside of rows in batches alone.
    let out = if grouped && n == 1 { out.contiguous()? } else { out };
    out.reshape(&sizes)
}

/// The mask's last two sizes below the leading sizes of the query.
fn full_mask(m: &Tensor, lead: &[i64]) -> Vec<i64> {
    let mut sizes = lead.to_vec();
    sizes.extend(&m.sizes()[m.ndim() - 2..]);
    sizes
}
