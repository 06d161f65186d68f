//! `bernoulli`: Ones with the probabilities in `input`, and zeros.

use super::draw::{DRAW, FILL_WITH};
use crate::named::{bernoulli, bernoulli_float, bernoulli_p, bernoulli_tensor};
use crate::prelude::*;

/// One with the probability that a tensor says.
fn bernoulli(p: &Tensor, of: &Tensor, rng: Arg<'_>) -> Result<Tensor> {
    let d = if p.dtype().is_float() { p.dtype().compute() } else { default_dtype() };
    // By position the layout does not matter; in order it says which number is whose.
    let of = if super::is_in_order(rng) { of.clone() } else { of.contiguous()? };
    let u = of.rand_like_with(Some(&super::distributions::generator(rng)?), Some(d), None, false, None)?;
    u.lt(p)?.to_copy_with(Some(of.dtype()), None)
}

/// Zeros, as nothing is a function of the probabilities.
const ZERO_GRAD: Grad =
    Grad::Rule { save: &[], fix: Fix::Broadcast, f: |c, out| out.set(bernoulli::INPUT, || c.g()?.zeros_like()) };

pub static OP: OpDef = OpDef {
    sig: Sig::parse("bernoulli(Tensor input, *, Generator? generator=None) -> Tensor"),
    doc: "Ones with the probabilities in `input`, and zeros.

Example::

    >>> oneflow.bernoulli(oneflow.tensor([0., 1.]))
    tensor([0., 1.])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        super::distributions::float_only(c, c.t(bernoulli::INPUT)?.dtype())?;
        outs.push(c.t(bernoulli::INPUT)?.dtype(), c.t(bernoulli::INPUT)?.device(), c.t(bernoulli::INPUT)?.sizes())
    },
    compose: Some(|c, outs| {
        let p = c.t(bernoulli::INPUT)?;
        super::distributions::float_only(c, p.dtype())?;
        if !super::distributions::all_hold(p, || p.ge(0.0)?.logical_and(&p.le(1.0)?))? {
            return Err(Error::runtime("bernoulli(): Expected p_in >= 0 && p_in <= 1 to be true, but got false."));
        }
        // The result is contiguous whatever the probabilities' layout is.
        outs.give(bernoulli(p, &p.contiguous()?, c.arg(bernoulli::GENERATOR))?);
        Ok(())
    }),
    grad: ZERO_GRAD,
    sbp: SbpRule::of(Rows::OnlyB {
        why: "its draws are numbered by the whole tensor, whose sizes only the composition knows",
    }),
    samples: || vec![Sample::new(vec![SampleArg::range(&[3, 4], 0.1, 0.9)])],
    traits: DRAW.traits.or(Traits::ANY_OUT),
    ..DRAW
};

pub static BERNOULLI_P: OpDef = OpDef {
    sig: Sig::parse("bernoulli.p(Tensor input, float p, *, Generator? generator=None) -> Tensor"),
    doc: "",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        let p = c.float(bernoulli_p::P)?;
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::runtime(format!("bernoulli_ expects p to be in [0, 1], but got p={p}")));
        }
        outs.push(c.t(bernoulli_p::INPUT)?.dtype(), c.t(bernoulli_p::INPUT)?.device(), c.t(bernoulli_p::INPUT)?.sizes())
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| {
            super::draw::draw(l, RandomKind::Bernoulli, c.arg(bernoulli_p::GENERATOR), c.float(bernoulli_p::P)?, 0.0)
        },
    },
    grad: ZERO_GRAD,
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Float(0.3)])],
    ..DRAW
};

pub static BERNOULLI_FILL_P: OpDef = OpDef {
    sig: Sig::parse("bernoulli.float(Tensor input, float p=0.5, *, Generator? generator=None) -> Tensor"),
    doc: "Fills the tensor with ones of probability `p` and zeros.",
    infer: |c, outs| {
        let p = c.float(bernoulli_float::P)?;
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::runtime(format!("bernoulli_ expects p to be in [0, 1], but got p={p}")));
        }
        (FILL_WITH.infer)(c, outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| {
            super::draw::draw(
                l,
                RandomKind::Bernoulli,
                c.arg(bernoulli_float::GENERATOR),
                c.float(bernoulli_float::P)?,
                0.0,
            )
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..FILL_WITH
};

pub static BERNOULLI_FILL: OpDef = OpDef {
    sig: Sig::parse("bernoulli.Tensor(Tensor input, Tensor p, *, Generator? generator=None) -> Tensor"),
    doc: "",
    infer: FILL_WITH.infer,
    compose: Some(|c, outs| {
        outs.give(bernoulli(
            c.t(bernoulli_tensor::P)?,
            c.t(bernoulli_tensor::INPUT)?,
            c.arg(bernoulli_tensor::GENERATOR),
        )?);
        Ok(())
    }),
    sbp: SbpRule::of(Rows::OnlyB {
        why: "its draws are numbered by the whole tensor, whose sizes only the composition knows",
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::range(&[4], 0.1, 0.9)])],
    ..FILL_WITH
};
