//! `scaled_dot_product_attention`: `softmax(query @ key.T * scale + mask) @ value`, without holding the weights.

use crate::named::scaled_dot_product_attention as at;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    ),
    doc: "`softmax(query @ key.T * scale + mask) @ value`, without holding the weights.

Args:
    query: (*, heads, L, E).
    key: (*, heads, S, E).
    value: (*, heads, S, V).
    attn_mask: broadcastable to (*, heads, L, S); bool (True takes part) or added to the scores.
    dropout_p: probability of dropping an attention weight. It applies in evaluation too: pass 0 there.
    is_causal: position i sees keys 0..i only; excludes `attn_mask`.
    scale: defaults to `1 / sqrt(E)`.
    enable_gqa: key and value have fewer heads, each read by as many heads of the query in a row.

Returns:
    (*, heads, L, V). A row that sees no key gives zeros.

Sources: Vaswani et al., \"Attention Is All You Need\", 2017; Dao et al., \"FlashAttention\", 2022.

Example::

    >>> q = oneflow.ones(1, 1, 2, 4)
    >>> oneflow.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).shape
    oneflow.Size([1, 1, 2, 4])",
    faces: Faces::NN,
    compose: Some(|c, outs| {
        outs.give(super::compose(c)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    amp: Amp::LOWER,
    // Two products for every row of the result and every key.
    cost: |c, outs| {
        let mut cost = Cost::bytes_only(c, outs);
        if let (Ok(k), [.., rows, v]) = (c.t(at::KEY), &outs[at::RESULT.index()].sizes[..])
            && let [.., keys, e] = *k.sizes()
        {
            let lead =
                outs[at::RESULT.index()].sizes[..outs[at::RESULT.index()].sizes.len() - 2].iter().product::<i64>();
            cost.flops = 2.0 * (lead * rows * keys) as f64 * (e + v) as f64;
            cost.products = true;
        }
        cost
    },
    samples: || {
        let t = SampleArg::f32;
        let call = |q: &[i64], k: &[i64], v: &[i64]| Sample::new(vec![t(q), t(k), t(v)]);
        vec![
            call(&[2, 4, 6, 8], &[2, 4, 6, 8], &[2, 4, 6, 8]),
            call(&[2, 4, 5, 3], &[2, 4, 7, 3], &[2, 4, 7, 5]).kw("scale", SampleArg::Float(0.3)),
            call(&[2, 4, 6, 8], &[2, 2, 6, 8], &[2, 2, 6, 8])
                .kw("enable_gqa", SampleArg::Bool(true))
                .kw("is_causal", SampleArg::Bool(true)),
            call(&[2, 4, 6, 8], &[2, 4, 3, 8], &[2, 4, 3, 8]).kw("attn_mask", t(&[6, 3])),
            call(&[4, 6, 8], &[4, 6, 8], &[4, 6, 8]).kw("is_causal", SampleArg::Bool(true)),
            call(&[6, 8], &[5, 8], &[5, 8]).kw("attn_mask", SampleArg::bool(&[6, 5])),
            call(&[2, 2, 2, 3, 4], &[2, 2, 2, 3, 4], &[2, 2, 2, 3, 4]),
            call(&[2, 2, 0, 4], &[2, 2, 3, 4], &[2, 2, 3, 4]),
        ]
    },
    ..OpDef::BASE
};
