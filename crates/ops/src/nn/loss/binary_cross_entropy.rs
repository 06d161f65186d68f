//! Binary cross entropy of probabilities and of logits.

use super::*;
use crate::elementwise::unary;
use crate::named::{
    binary_cross_entropy, binary_cross_entropy_with_logits, binary_entropy, binary_entropy_backward,
    binary_entropy_of_probability, binary_entropy_of_probability_backward,
};

static LOGITS_EXPR: Expr = expr!(float "binary_entropy", |x, t| {
    (L::splat(1.0) - t) * x + (-x).maximum(L::splat(0.0)) + (-x.abs()).exp().log1p()
});
static LOGITS_WEIGHTED_EXPR: Expr = expr!(float "binary_entropy_weighted", |x, t, w| {
    let soft = (-x).maximum(L::splat(0.0)) + (-x.abs()).exp().log1p();
    (L::splat(1.0) - t) * x + (L::splat(1.0) + (w - L::splat(1.0)) * t) * soft
});
static LOGITS_BACKWARD_EXPR: Expr = expr!(float "binary_entropy_backward", |g, x, t| g * (x.sigmoid() - t));
static LOGITS_WEIGHTED_BACKWARD_EXPR: Expr = expr!(float "binary_entropy_weighted_backward", |g, x, t, w| {
    g * (L::splat(1.0) - t - (L::splat(1.0) + (w - L::splat(1.0)) * t) * (-x).sigmoid())
});

/// Logits, targets within [0, 1], and perhaps the factor of the positive class.
fn samples(backward: bool) -> Vec<Sample> {
    let t = |a: &[i64], w: Option<&[i64]>| {
        let mut args = vec![SampleArg::f32(a); 1 + usize::from(backward)];
        args.push(SampleArg::range(a, 0.0, 1.0));
        args.push(w.map_or(SampleArg::None, |w| SampleArg::range(w, 0.5, 2.0)));
        Sample::new(args)
    };
    vec![t(&[3, 4], None), t(&[3, 4], Some(&[4])), t(&[], None)]
}

pub static LOGITS: OpDef = OpDef {
    sig: Sig::parse("binary_entropy(Tensor input, Tensor target, Tensor? pos_weight) -> Tensor"),
    doc: "Binary cross entropy of logits, elementwise.",
    kernel: Kernel::Elementwise(|c, o, p| {
        unary::by_output(
            o,
            p,
            if c.opt(binary_entropy::POS_WEIGHT).is_some() { &LOGITS_WEIGHTED_EXPR } else { &LOGITS_EXPR },
        )
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(
                binary_entropy::INPUT,
                &[binary_entropy::INPUT, binary_entropy::TARGET, binary_entropy::POS_WEIGHT],
            ),
            Save::of(
                binary_entropy::TARGET,
                &[binary_entropy::INPUT, binary_entropy::TARGET, binary_entropy::POS_WEIGHT],
            ),
            Save::of(binary_entropy::POS_WEIGHT, &[binary_entropy::INPUT, binary_entropy::TARGET]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (g, x, t) = (c.g()?, c.x(binary_entropy::INPUT)?, c.x(binary_entropy::TARGET)?);
            // softplus(-x), with its gradient.
            let soft = || x.binary_entropy(&x.ones_like()?, None);
            out.set(binary_entropy::INPUT, || g.binary_entropy_backward(x, t, c.opt_x(binary_entropy::POS_WEIGHT)))?;
            out.set(binary_entropy::TARGET, || match c.opt_x(binary_entropy::POS_WEIGHT) {
                Some(w) => w.sub(1.0)?.mul(&soft()?)?.sub(x)?.mul(g),
                None => x.neg()?.mul(g),
            })?;
            out.set(binary_entropy::POS_WEIGHT, || t.mul(&soft()?)?.mul(g))
        },
    },
    samples: || samples(false),
    ..POINTWISE
};

pub static LOGITS_BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "binary_entropy_backward(Tensor grad_output, Tensor input, Tensor target, Tensor? pos_weight) -> Tensor",
    ),
    doc: "Gradient of the logits.",
    kernel: Kernel::Elementwise(|c, o, p| {
        unary::by_output(
            o,
            p,
            if c.opt(binary_entropy_backward::POS_WEIGHT).is_some() {
                &LOGITS_WEIGHTED_BACKWARD_EXPR
            } else {
                &LOGITS_BACKWARD_EXPR
            },
        )
    }),
    compose: Some(|c, outs| {
        let (g, x, t) = (
            c.t(binary_entropy_backward::GRAD_OUTPUT)?,
            c.t(binary_entropy_backward::INPUT)?,
            c.t(binary_entropy_backward::TARGET)?,
        );
        let factor = match c.opt(binary_entropy_backward::POS_WEIGHT) {
            Some(w) => w.sub(1.0)?.mul(t)?.add(1.0)?.mul(&x.neg()?.sigmoid()?)?,
            None => x.neg()?.sigmoid()?,
        };
        outs.give(t.neg()?.add(1.0)?.sub(&factor)?.mul(g)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[binary_entropy_backward::GRAD_OUTPUT])] }),
    samples: || samples(true),
    ..POINTWISE
};

fn same_sizes(c: &Call<'_>) -> Result<()> {
    let (x, t) = (c.t(binary_cross_entropy_with_logits::INPUT)?, c.t(binary_cross_entropy_with_logits::TARGET)?);
    if x.sizes() == t.sizes() {
        return Ok(());
    }
    Err(Error::value(match c.name() {
        "binary_cross_entropy" => format!(
            "Using a target size ({:?}) that is different to the input size ({:?}) is deprecated. Please ensure they have the same size.",
            t.sizes(),
            x.sizes()
        ),
        _ => format!("Target size ({:?}) must be the same as input size ({:?})", t.sizes(), x.sizes()),
    }))
}

fn public_samples(low: f64, high: f64) -> Vec<Sample> {
    let t = |s: &[i64], r| {
        Sample::new(vec![SampleArg::range(s, low, high), SampleArg::range(s, 0.0, 1.0)])
            .kw("reduction", SampleArg::Str(r))
    };
    vec![t(&[3, 4], "mean"), t(&[2, 3, 4], "sum"), t(&[5], "none"), t(&[], "mean")]
}

pub static WITH_LOGITS: OpDef = OpDef {
    sig: Sig::parse(
        "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, str reduction=\"mean\", Tensor? pos_weight=None) -> Tensor",
    ),
    doc: "Binary cross entropy between logits and probabilities, reduced.

Example::

    >>> oneflow.nn.functional.binary_cross_entropy_with_logits(oneflow.zeros(2), oneflow.tensor([0., 1.]))
    tensor(0.6931)",
    compose: Some(|c, outs| {
        check_reduction(c.str(binary_cross_entropy_with_logits::REDUCTION)?)?;
        same_sizes(c)?;
        let losses = c.t(binary_cross_entropy_with_logits::INPUT)?.binary_entropy(
            c.t(binary_cross_entropy_with_logits::TARGET)?,
            c.opt(binary_cross_entropy_with_logits::POS_WEIGHT),
        )?;
        outs.give(reduce(
            weighted(losses, c.opt(binary_cross_entropy_with_logits::WEIGHT))?,
            c.str(binary_cross_entropy_with_logits::REDUCTION)?,
        )?);
        Ok(())
    }),
    samples: || public_samples(-3.0, 3.0),
    ..LOSS
};

// The logarithms are bounded as torch bounds them: a loss of at most 100.
static EXPR: Expr = expr!(float "binary_entropy_of_probability", |x, t| {
    let least = L::splat(-100.0);
    (t - L::splat(1.0)) * (-x).log1p().maximum(least) - t * x.log().maximum(least)
});
static BACKWARD_EXPR: Expr = expr!(float "binary_entropy_of_probability_backward", |g, x, t| {
    g * (x - t) / ((L::splat(1.0) - x) * x).maximum(L::splat(1e-12))
});

fn probability_samples(backward: bool) -> Vec<Sample> {
    let t = |s: &[i64]| {
        let mut args = vec![SampleArg::range(s, 0.1, 0.9); 2];
        if backward {
            args.insert(0, SampleArg::f32(s));
        }
        Sample::new(args)
    };
    vec![t(&[3, 4]), t(&[])]
}

pub static PROBABILITY: OpDef = OpDef {
    sig: Sig::parse("binary_entropy_of_probability(Tensor input, Tensor target) -> Tensor"),
    doc: "Binary cross entropy of probabilities, elementwise.",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(
                binary_entropy_of_probability::INPUT,
                &[binary_entropy_of_probability::INPUT, binary_entropy_of_probability::TARGET],
            ),
            Save::of(binary_entropy_of_probability::TARGET, &[binary_entropy_of_probability::INPUT]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (g, x) = (c.g()?, c.x(binary_entropy_of_probability::INPUT)?);
            out.set(binary_entropy_of_probability::INPUT, || {
                g.binary_entropy_of_probability_backward(x, c.x(binary_entropy_of_probability::TARGET)?)
            })?;
            out.set(binary_entropy_of_probability::TARGET, || {
                let least = Some(Scalar::Float(-100.0));
                let other = x.neg()?.log1p()?.clamp(least, None)?;
                other.sub(&x.log()?.clamp(least, None)?)?.mul(g)
            })
        },
    },
    samples: || probability_samples(false),
    ..POINTWISE
};

pub static PROBABILITY_BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "binary_entropy_of_probability_backward(Tensor grad_output, Tensor input, Tensor target) -> Tensor",
    ),
    doc: "Gradient of the probabilities.",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &BACKWARD_EXPR)),
    compose: Some(|c, outs| {
        let (g, x, t) = (
            c.t(binary_entropy_of_probability_backward::GRAD_OUTPUT)?,
            c.t(binary_entropy_of_probability_backward::INPUT)?,
            c.t(binary_entropy_of_probability_backward::TARGET)?,
        );
        let variance = x.neg()?.add(1.0)?.mul(x)?.clamp(Some(Scalar::Float(1e-12)), None)?;
        outs.give(g.mul(&x.sub(t)?)?.div(&variance)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Elementwise {
        linear: &[InMask::of(&[binary_entropy_of_probability_backward::GRAD_OUTPUT])],
    }),
    samples: || probability_samples(true),
    ..POINTWISE
};

pub static BINARY: OpDef = OpDef {
    sig: Sig::parse(
        "binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, str reduction=\"mean\") -> Tensor",
    ),
    doc: "Binary cross entropy between probabilities, reduced.

Example::

    >>> oneflow.nn.functional.binary_cross_entropy(oneflow.tensor([0.5]), oneflow.tensor([1.]))
    tensor(0.6931)",
    compose: Some(|c, outs| {
        check_reduction(c.str(binary_cross_entropy::REDUCTION)?)?;
        same_sizes(c)?;
        let losses =
            c.t(binary_cross_entropy::INPUT)?.binary_entropy_of_probability(c.t(binary_cross_entropy::TARGET)?)?;
        outs.give(reduce(
            weighted(losses, c.opt(binary_cross_entropy::WEIGHT))?,
            c.str(binary_cross_entropy::REDUCTION)?,
        )?);
        Ok(())
    }),
    samples: || public_samples(0.1, 0.9),
    ..LOSS
};
