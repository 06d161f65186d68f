//! Attention over four dimensions in one kernel, with the log-sum-exps its backward needs, and that backward.

use super::weights;
use std::sync::atomic::{AtomicU8, Ordering};

/// Whether a vendor's library may do the attention of calls from now on.
static LIBRARY: AtomicU8 = AtomicU8::new(Library::Own as u8);

/// Says whether a vendor's library may do attention: of eager calls and of traces, whose backward follows the forward.
pub fn set_library(library: Library) {
    LIBRARY.store(library as u8, Ordering::Relaxed);
}

/// What `set_library` said last, as an argument of the ops.
pub fn library() -> Arg<'static> {
    Arg::Int(LIBRARY.load(Ordering::Relaxed) as i64)
}
use crate::named::{native_attention, native_attention_backward};
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
    let args = [Arg::Float(p), Arg::Bool(causal), Arg::Float(scale), library(), rng];
    let mut outs = Outs::new();
    oneflow_core::dispatch(&Call::new(&NATIVE, &[Some(q), Some(k), Some(v), mask], &args), &mut outs)?;
    Ok(outs[native_attention::OUTPUT].clone())
}

/// Where a call has its query, key, value and mask.
type Operands = [In; 4];

const FORWARD_OPERANDS: Operands =
    [native_attention::QUERY, native_attention::KEY, native_attention::VALUE, native_attention::ATTN_MASK];
const BACKWARD_OPERANDS: Operands = [
    native_attention_backward::QUERY,
    native_attention_backward::KEY,
    native_attention_backward::VALUE,
    native_attention_backward::ATTN_MASK,
];

/// [b, h, l, s] of a call.
fn score_sizes(c: &Call<'_>, [query, key, ..]: Operands) -> Result<[i64; 4]> {
    let (q, k) = (c.t(query)?.sizes(), c.t(key)?.sizes());
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
    let (q, k, v) = (c.t(native_attention::QUERY)?, c.t(native_attention::KEY)?, c.t(native_attention::VALUE)?);
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
    fits::typed(c, native_attention::KEY, q.dtype())?;
    fits::typed(c, native_attention::VALUE, q.dtype())?;
    let scores = score_sizes(c, FORWARD_OPERANDS)?;
    if let Some(m) = c.opt(native_attention::ATTN_MASK)
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

/// Pushes scale, causal, p, seed, offset, library and window, from the arguments p, causal, scale, library and rng.
fn push_params(l: &mut Lowered, [p, causal, scale, library]: [Arg<'_>; 4], rng: Arg<'_>, keys: i64) -> Result<()> {
    let number = library.int().unwrap_or(0);
    let library = u64::try_from(number).ok().and_then(Library::from_u64).ok_or_else(|| {
        Error::value(format!("native_attention: library is 0 (own kernels), 1 (first) or 2 (only), not {number}"))
    })?;
    let (seed, offset) = if p.float().unwrap_or(0.0) > 0.0 { rng.rng()? } else { (0, 0) };
    l.with(AttentionParams {
        scale: scale.float().unwrap_or(1.0),
        causal: causal.bool(),
        p: p.float().unwrap_or(0.0),
        seed,
        offset,
        library,
        shard: Shard(SmallVec::from_slice(&weights::scores_window(rng, keys))),
    });
    Ok(())
}

fn lower_mask(c: &Call<'_>, l: &mut Lowered, [query, .., mask]: Operands, scores: &[i64; 4]) -> Result<()> {
    match c.opt(mask) {
        None => l.ins.push(None),
        Some(m) if m.dtype() == DType::F32 && c.t(query)?.dtype() == DType::F64 => {
            return Err(Error::not_implemented(format!("attention: a {} mask for doubles", m.dtype())));
        }
        Some(m) => {
            l.input_expanded(mask, m, scores);
        }
    }
    Ok(())
}

/// Two products a score forward, five backward.
fn cost(c: &Call<'_>, outs: &[Meta], operands: Operands, forward: bool) -> Cost {
    let mut cost = Cost::bytes_only(c, outs);
    if let (Ok(scores), Ok(q), Ok(v)) = (score_sizes(c, operands), c.t(operands[0]), c.t(operands[2])) {
        let n = scores.iter().map(|s| *s as f64).product::<f64>();
        let (e, v) = (q.sizes()[3] as f64, v.sizes()[3] as f64);
        cost.flops = 2.0 * n * if forward { e + v } else { 3.0 * e + 2.0 * v };
        cost.products = true;
    }
    cost
}

/// Splits over batch and heads. `order` says of each input: a tensor with heads, one of key or value, the mask.
fn rows(c: &Call<'_>, operands: Operands, needs_mask: Option<bool>, rows: &mut Vec<Row>) -> Result<()> {
    let [query, key, _, mask_at] = operands;
    let (scores, kv_heads) = (score_sizes(c, operands)?, c.t(key)?.sizes()[1]);
    let mask = |dim: usize| -> Sbp {
        let Some(m) = c.opt(mask_at) else { return Sbp::B };
        match (m.ndim() + dim).checked_sub(4) {
            Some(d) if m.sizes()[d] == scores[dim] && scores[dim] > 1 => Sbp::S(d as u8),
            _ => Sbp::B,
        }
    };
    let mut push = |dim: usize, kv: Sbp, kv_grad: Sbp| {
        let s = Sbp::S(dim as u8);
        let ins = (0..c.ins.len()).filter(|i| c.ins[*i].is_some()).map(|i| match i.wrapping_sub(query.index()) {
            1 | 2 => kv,
            3 => mask(dim),
            _ => s,
        });
        let outs = match needs_mask {
            Some(needs) => SmallVec::from_slice(&[s, kv_grad, kv_grad, if needs { s } else { Sbp::B }]),
            None => SmallVec::from_slice(&[s, s]),
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
        "native_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, float dropout_p, bool is_causal, float scale, int library=0, *, Generator? generator=None) -> (Tensor output, Tensor logsumexp)",
    ),
    doc: "Attention of query [b, h, l, e] over key [b, g, s, e] and value [b, g, s, v]; g divides h. Also the rows' log-sum-exps.",
    faces: Faces::PRIVATE,
    infer,
    kernel: Kernel::Prim {
        prim: &ATTENTION,
        lower: |c, _, l| {
            let scores = score_sizes(c, FORWARD_OPERANDS)?;
            l.input(native_attention::QUERY).input(native_attention::KEY).input(native_attention::VALUE);
            lower_mask(c, l, FORWARD_OPERANDS, &scores)?;
            l.output(native_attention::OUTPUT).output(native_attention::LOGSUMEXP);
            push_params(
                l,
                [
                    c.arg(native_attention::DROPOUT_P),
                    c.arg(native_attention::IS_CAUSAL),
                    c.arg(native_attention::SCALE),
                    c.arg(native_attention::LIBRARY),
                ],
                c.arg(native_attention::GENERATOR),
                scores[3],
            )
        },
    },
    compose: Some(weights::forward),
    grad: Grad::Rule {
        save: &[
            Save::of(
                native_attention::QUERY,
                &[native_attention::QUERY, native_attention::KEY, native_attention::VALUE, native_attention::ATTN_MASK],
            ),
            Save::of(
                native_attention::KEY,
                &[native_attention::QUERY, native_attention::KEY, native_attention::VALUE, native_attention::ATTN_MASK],
            ),
            Save::of(
                native_attention::VALUE,
                &[native_attention::QUERY, native_attention::KEY, native_attention::VALUE, native_attention::ATTN_MASK],
            ),
            Save::of(
                native_attention::ATTN_MASK,
                &[native_attention::QUERY, native_attention::KEY, native_attention::VALUE, native_attention::ATTN_MASK],
            ),
            Save::out(
                native_attention::OUTPUT,
                &[native_attention::QUERY, native_attention::KEY, native_attention::VALUE, native_attention::ATTN_MASK],
            ),
            Save::out(
                native_attention::LOGSUMEXP,
                &[native_attention::QUERY, native_attention::KEY, native_attention::VALUE, native_attention::ATTN_MASK],
            ),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let ins = [
                Some(c.g()?),
                Some(c.x(native_attention::QUERY)?),
                Some(c.x(native_attention::KEY)?),
                Some(c.x(native_attention::VALUE)?),
                c.opt_x(native_attention::ATTN_MASK),
                Some(c.y(native_attention::OUTPUT)?),
                Some(c.y(native_attention::LOGSUMEXP)?),
            ];
            let args = [
                c.arg(native_attention::DROPOUT_P),
                c.arg(native_attention::IS_CAUSAL),
                c.arg(native_attention::SCALE),
                Arg::Bool(out.needs(native_attention::ATTN_MASK)),
                c.arg(native_attention::LIBRARY),
                c.arg(native_attention::GENERATOR),
            ];
            let mut grads = Outs::new();
            oneflow_core::dispatch(&Call::new(&BACKWARD, &ins, &args), &mut grads)?;
            let of = [
                (native_attention::QUERY, native_attention_backward::GRAD_QUERY),
                (native_attention::KEY, native_attention_backward::GRAD_KEY),
                (native_attention::VALUE, native_attention_backward::GRAD_VALUE),
                (native_attention::ATTN_MASK, native_attention_backward::GRAD_MASK),
            ];
            of.into_iter().try_for_each(|(input, grad)| out.set(input, || Ok(grads[grad].clone())))
        },
    },
    differentiable: OutMask::of(&[native_attention::OUTPUT]),
    sbp: SbpRule::of(Rows::Custom(|c, out| rows(c, FORWARD_OPERANDS, None, out))),
    cost: |c, outs| cost(c, outs, FORWARD_OPERANDS, true),
    traits: Traits::RANDOM,
    samples: || tensors(false).into_iter().map(Sample::new).collect(),
    ..OpDef::BASE
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "native_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor? attn_mask, Tensor output, Tensor logsumexp, float dropout_p, bool is_causal, float scale, bool needs_mask, int library=0, *, Generator? generator=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value, Tensor grad_mask)",
    ),
    doc: "Gradients of attention; that of the mask has the scores' sizes and is empty unless `needs_mask`.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        // What the forward asked of its inputs, and gives.
        let args = [
            c.arg(native_attention_backward::DROPOUT_P),
            c.arg(native_attention_backward::IS_CAUSAL),
            c.arg(native_attention_backward::SCALE),
            c.arg(native_attention_backward::LIBRARY),
            c.arg(native_attention_backward::GENERATOR),
        ];
        let mut forward = Outs::new();
        infer(&Call::new(&NATIVE, &BACKWARD_OPERANDS.map(|at| c.opt(at)), &args), &mut forward)?;
        let (output, logsumexp) = (&forward[native_attention::OUTPUT], &forward[native_attention::LOGSUMEXP]);
        for (at, like) in [
            (native_attention_backward::GRAD_OUT, output),
            (native_attention_backward::OUTPUT, output),
            (native_attention_backward::LOGSUMEXP, logsumexp),
        ] {
            fits::sized(c, at, like.sizes())?;
            fits::typed(c, at, like.dtype())?;
        }
        let [query, key, value, _] = BACKWARD_OPERANDS;
        for at in [query, key, value] {
            let t = c.t(at)?;
            let s = t.sizes();
            push_rows(outs, t, [s[0], s[1], s[2], s[3]], heads_inside(t))?;
        }
        let scores = score_sizes(c, BACKWARD_OPERANDS)?;
        outs.push(
            c.t(native_attention_backward::QUERY)?.dtype(),
            c.t(native_attention_backward::QUERY)?.device(),
            if c.bool(native_attention_backward::NEEDS_MASK) { &scores } else { &[0] },
        )
    },
    kernel: Kernel::Prim {
        prim: &ATTENTION_BACKWARD,
        lower: |c, _, l| {
            let scores = score_sizes(c, BACKWARD_OPERANDS)?;
            l.input(native_attention_backward::GRAD_OUT)
                .input(native_attention_backward::QUERY)
                .input(native_attention_backward::KEY)
                .input(native_attention_backward::VALUE);
            lower_mask(c, l, BACKWARD_OPERANDS, &scores)?;
            l.input(native_attention_backward::OUTPUT)
                .input(native_attention_backward::LOGSUMEXP)
                .output(native_attention_backward::GRAD_QUERY)
                .output(native_attention_backward::GRAD_KEY)
                .output(native_attention_backward::GRAD_VALUE);
            if c.bool(native_attention_backward::NEEDS_MASK) {
                l.output(native_attention_backward::GRAD_MASK);
            } else {
                l.no_output();
            }
            push_params(
                l,
                [
                    c.arg(native_attention_backward::DROPOUT_P),
                    c.arg(native_attention_backward::IS_CAUSAL),
                    c.arg(native_attention_backward::SCALE),
                    c.arg(native_attention_backward::LIBRARY),
                ],
                c.arg(native_attention_backward::GENERATOR),
                scores[3],
            )
        },
    },
    compose: Some(weights::backward),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Custom(|c, out| {
        rows(c, BACKWARD_OPERANDS, Some(c.bool(native_attention_backward::NEEDS_MASK)), out)
    })),
    cost: |c, outs| cost(c, outs, BACKWARD_OPERANDS, false),
    traits: Traits::RANDOM,
    ..OpDef::BASE
};
