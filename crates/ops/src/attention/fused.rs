//! Attention over four dimensions in one kernel, with the log-sum-exps its backward needs, and that backward.

use super::weights;
use crate::prelude::*;

/// Attention over four dimensions. A position of the generator is taken only where something is dropped.
pub fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    p: f64,
    causal: bool,
    scale: f64,
) -> Result<Tensor> {
    let rng = if p > 0.0 {
        let (seed, offset) = default_generator().take(1);
        Arg::Rng { seed, offset }
    } else {
        Arg::None
    };
    if crate::random::is_in_order(rng) {
        return weights::composed([q, k, v], mask, p, causal, scale, rng);
    }
    let args = [Arg::Float(p), Arg::Bool(causal), Arg::Float(scale), rng];
    let mut outs = Outs::new();
    oneflow_core::dispatch(&Call::new(&NATIVE, &[Some(q), Some(k), Some(v), mask], &args), &mut outs)?;
    Ok(outs[0].clone())
}

/// [b, h, l, s] of a call whose query is input `at`.
fn score_sizes(c: &Call<'_>, at: usize) -> Result<[i64; 4]> {
    let (q, k) = (c.t(at)?.sizes(), c.t(at + 1)?.sizes());
    Ok([q[0], q[1], q[2], k[2]])
}

/// Whether the heads of a row lie nearer to each other than the rows of a head.
fn heads_inside(t: &Tensor) -> bool {
    t.sizes()[1] > 1 && t.sizes()[2] > 1 && t.strides()[1] < t.strides()[2]
}

/// Results lie in memory as what they belong to: heads inside rows where they do there.
fn push_rows(outs: &mut Outs, like: &Tensor, sizes: [i64; 4], heads_inside: bool) -> Result<()> {
    if !heads_inside {
        return outs.push(like.dtype(), like.device(), &sizes);
    }
    let [b, h, l, e] = sizes;
    let s = contiguous_strides(&[b, l, h, e]);
    outs.push_strided(
        like.dtype(),
        like.device(),
        Dims::from_slice(&sizes),
        Dims::from_slice(&[s[0], s[2], s[1], s[3]]),
    )
}

fn infer(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let (q, k, v) = (c.t(0)?, c.t(1)?, c.t(2)?);
    let fits = q.ndim() == 4 && k.ndim() == 4 && v.ndim() == 4 && {
        let (q, k, v) = (q.sizes(), k.sizes(), v.sizes());
        let heads = q[1] == k[1] || (k[1] > 0 && q[1] % k[1] == 0);
        q[0] == k[0] && k[..3] == v[..3] && q[3] == k[3] && heads
    };
    if !fits {
        return Err(Error::runtime(format!(
            "scaled_dot_product_attention(): query {:?}, key {:?} and value {:?} do not fit together: (*, heads, L, E), (*, heads, S, E) and (*, heads, S, V) are needed",
            q.sizes(),
            k.sizes(),
            v.sizes()
        )));
    }
    if !q.dtype().is_float() {
        return Err(Error::not_implemented(format!(
            "\"scaled_dot_product_attention\" not implemented for '{}'",
            q.dtype().scalar_type_name()
        )));
    }
    fits::typed(c, 1, q.dtype())?;
    fits::typed(c, 2, q.dtype())?;
    let scores = score_sizes(c, 0)?;
    if let Some(m) = c.opt(3)
        && !broadcast_shapes(m.sizes(), &scores).is_ok_and(|s| s[..] == scores)
    {
        return Err(Error::runtime(format!(
            "The expanded size of the tensor must match the existing size: attn_mask {:?} does not broadcast to the scores {scores:?}",
            m.sizes()
        )));
    }
    let sizes = [scores[0], scores[1], scores[2], v.sizes()[3]];
    push_rows(outs, q, sizes, heads_inside(q))?;
    outs.push(q.dtype().compute(), q.device(), &scores[..3])
}

/// Pushes scale, causal, p, seed, offset and window, from the arguments p, causal, scale and rng.
fn push_params(l: &mut Lowered, [p, causal, scale]: [Arg<'_>; 3], rng: Arg<'_>, keys: i64) -> Result<()> {
    let (seed, offset) = if p.float().unwrap_or(0.0) > 0.0 { rng.rng()? } else { (0, 0) };
    l.param(scale.float().unwrap_or(1.0)).param(causal.bool()).param(p.float().unwrap_or(0.0));
    l.param(seed).param(offset);
    let window = weights::scores_window(rng, keys);
    l.param((window.len() / 2) as i64);
    window.iter().for_each(|w| {
        l.param(*w);
    });
    Ok(())
}

fn lower_mask(c: &Call<'_>, l: &mut Lowered, at: usize, scores: &[i64; 4]) -> Result<()> {
    match c.opt(at) {
        None => l.ins.push(None),
        Some(m) if m.dtype() == DType::F32 && c.t(0)?.dtype() == DType::F64 => {
            return Err(Error::not_implemented(format!("attention: a {} mask for doubles", m.dtype())));
        }
        Some(m) => {
            l.input_expanded(at, m, scores);
        }
    }
    Ok(())
}

/// Two products a score forward, five backward.
fn cost(c: &Call<'_>, outs: &[Meta], at: usize, forward: bool) -> Cost {
    let mut cost = Cost::bytes_only(c, outs);
    if let (Ok(scores), Ok(q), Ok(v)) = (score_sizes(c, at), c.t(at), c.t(at + 2)) {
        let n = scores.iter().map(|s| *s as f64).product::<f64>();
        let (e, v) = (q.sizes()[3] as f64, v.sizes()[3] as f64);
        cost.flops = 2.0 * n * if forward { e + v } else { 3.0 * e + 2.0 * v };
        cost.products = true;
    }
    cost
}

/// Splits over batch and heads. `order` says of each input: a tensor with heads, one of key or value, the mask.
fn rows(c: &Call<'_>, at: usize, rows: &mut Vec<Row>) -> Result<()> {
    let (scores, kv_heads) = (score_sizes(c, at)?, c.t(at + 1)?.sizes()[1]);
    let backward = at == 1;
    let mask = |dim: usize| -> Sbp {
        let Some(m) = c.opt(at + 3) else { return Sbp::B };
        match (m.ndim() + dim).checked_sub(4) {
            Some(d) if m.sizes()[d] == scores[dim] && scores[dim] > 1 => Sbp::S(d as u8),
            _ => Sbp::B,
        }
    };
    let mut push = |dim: usize, kv: Sbp, kv_grad: Sbp| {
        let s = Sbp::S(dim as u8);
        let ins = (0..c.ins.len()).filter(|i| c.ins[*i].is_some()).map(|i| match i.wrapping_sub(at) {
            1 | 2 => kv,
            3 => mask(dim),
            _ => s,
        });
        let outs = if backward {
            SmallVec::from_slice(&[s, kv_grad, kv_grad, if c.bool(3) { s } else { Sbp::B }])
        } else {
            SmallVec::from_slice(&[s, s])
        };
        rows.push(Row { ins: ins.collect(), outs });
    };
    push(0, Sbp::S(0), Sbp::S(0));
    if scores[1] == kv_heads {
        push(1, Sbp::S(1), Sbp::S(1));
    } else if kv_heads == 1 {
        push(1, Sbp::B, Sbp::P_SUM);
    }
    Ok(())
}

fn tensors(backward: bool) -> Vec<Vec<SampleArg>> {
    let t = SampleArg::f32;
    /// The query's shape, the key's heads and length, the value's width, the mask, causal.
    type Case = ([i64; 4], [i64; 2], i64, SampleArg, bool);
    let shapes: [Case; 4] = [
        ([2, 4, 6, 8], [4, 6], 8, SampleArg::None, true),
        ([2, 4, 5, 3], [2, 7], 5, t(&[2, 1, 5, 7]), false),
        ([2, 4, 5, 3], [4, 7], 3, SampleArg::bool(&[5, 7]), false),
        ([4, 4, 5, 3], [1, 7], 3, SampleArg::None, false),
    ];
    shapes
        .into_iter()
        .map(|(q, [g, s], v, mask, causal)| {
            let (b, h, l) = (q[0], q[1], q[2]);
            let mut args = vec![t(&q), t(&[b, g, s, q[3]]), t(&[b, g, s, v]), mask];
            if backward {
                args.insert(0, t(&[b, h, l, v]));
            }
            args.extend([SampleArg::Float(0.0), SampleArg::Bool(causal), SampleArg::Float(0.5)]);
            args
        })
        .collect()
}

pub static NATIVE: OpDef = OpDef {
    sig: Sig::parse(
        "native_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, float dropout_p, bool is_causal, float scale, *, Generator? generator=None) -> (Tensor output, Tensor logsumexp)",
    ),
    doc: "Attention of query [b, h, l, e] over key [b, g, s, e] and value [b, g, s, v]; g divides h. Also the rows' log-sum-exps.",
    faces: Faces::PRIVATE,
    infer,
    kernel: Kernel::Prim {
        prim: &ATTENTION,
        lower: |c, _, l| {
            let scores = score_sizes(c, 0)?;
            l.input(0).input(1).input(2);
            lower_mask(c, l, 3, &scores)?;
            l.output(0).output(1);
            push_params(l, [c.arg(0), c.arg(1), c.arg(2)], c.arg(3), scores[3])
        },
    },
    compose: Some(weights::forward),
    grad: Grad::Rule {
        save: &[
            Save::In(0, 0b1111),
            Save::In(1, 0b1111),
            Save::In(2, 0b1111),
            Save::In(3, 0b1111),
            Save::Out(0, 0b1111),
            Save::Out(1, 0b1111),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let ins =
                [Some(c.g()?), Some(c.x(0)?), Some(c.x(1)?), Some(c.x(2)?), c.opt_x(3), Some(c.y(0)?), Some(c.y(1)?)];
            let args = [c.arg(0), c.arg(1), c.arg(2), Arg::Bool(out.needs(3)), c.arg(3)];
            let mut grads = Outs::new();
            oneflow_core::dispatch(&Call::new(&BACKWARD, &ins, &args), &mut grads)?;
            (0..4).try_for_each(|i| out.set(i, || Ok(grads[i].clone())))
        },
    },
    differentiable: 0b1,
    sbp: SbpRule::of(Rows::Custom(|c, out| rows(c, 0, out))),
    cost: |c, outs| cost(c, outs, 0, true),
    traits: Traits::RANDOM,
    samples: || tensors(false).into_iter().map(Sample::new).collect(),
    ..OpDef::BASE
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "native_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor? attn_mask, Tensor output, Tensor logsumexp, float dropout_p, bool is_causal, float scale, bool needs_mask, *, Generator? generator=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value, Tensor grad_mask)",
    ),
    doc: "Gradients of attention; that of the mask has the scores' sizes and is empty unless `needs_mask`.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        // What the forward asked of its inputs, and gives.
        let args = [c.arg(0), c.arg(1), c.arg(2), c.arg(4)];
        let mut forward = Outs::new();
        infer(&Call::new(&NATIVE, c.ins.get(1..5).unwrap_or(&[]), &args), &mut forward)?;
        for (i, like) in [(0, &forward[0]), (5, &forward[0]), (6, &forward[1])] {
            fits::sized(c, i, like.sizes())?;
            fits::typed(c, i, like.dtype())?;
        }
        for i in 1..4 {
            let t = c.t(i)?;
            let s = t.sizes();
            push_rows(outs, t, [s[0], s[1], s[2], s[3]], heads_inside(t))?;
        }
        let scores = score_sizes(c, 1)?;
        outs.push(c.t(1)?.dtype(), c.t(1)?.device(), if c.bool(3) { &scores } else { &[0] })
    },
    kernel: Kernel::Prim {
        prim: &ATTENTION_BACKWARD,
        lower: |c, _, l| {
            let scores = score_sizes(c, 1)?;
            l.input(0).input(1).input(2).input(3);
            lower_mask(c, l, 4, &scores)?;
            l.input(5).input(6).output(0).output(1).output(2);
            if c.bool(3) {
                l.output(3);
            } else {
                l.no_output();
            }
            push_params(l, [c.arg(0), c.arg(1), c.arg(2)], c.arg(4), scores[3])
        },
    },
    compose: Some(weights::backward),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Custom(|c, out| rows(c, 1, out))),
    cost: |c, outs| cost(c, outs, 1, false),
    traits: Traits::RANDOM,
    ..OpDef::BASE
};
