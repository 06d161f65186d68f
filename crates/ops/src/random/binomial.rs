//! `binomial`, `binomial_doubles`: Numbers of successes in `count` trials of probability `prob`.

use crate::named::{binomial, binomial_doubles};
use crate::prelude::*;

fn counts_and_chances(c: &Call<'_>) -> Result<()> {
    for (at, what) in [(binomial::COUNT, "count"), (binomial::PROB, "prob")] {
        let d = c.t(at)?.dtype();
        if !d.is_float() {
            let name = d.scalar_type_name();
            return Err(Error::value(format!("binomial only supports floating-point dtypes for {what}, got: {name}")));
        }
    }
    Ok(())
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor"),
    doc: "Numbers of successes in `count` trials of probability `prob`.

Example::

    >>> oneflow.binomial(oneflow.tensor([3.]), oneflow.tensor([1.]))
    tensor([3.])",
    infer: |c, outs| {
        counts_and_chances(c)?;
        super::distributions::same_float(c, outs)
    },
    compose: Some(|c, outs| {
        counts_and_chances(c)?;
        super::distributions::in_doubles(c, outs, |t, g| t[0].binomial_doubles_with(&t[1], Some(g)))
    }),
    samples: || vec![Sample::new(vec![SampleArg::range(&[3, 4], 1.0, 20.0), SampleArg::range(&[4], 0.1, 0.9)])],
    ..super::distributions::BY_TENSORS
};

pub static BINOMIAL_DOUBLES: OpDef = OpDef {
    sig: Sig::parse("binomial_doubles(Tensor count, Tensor prob, *, Generator? generator=None) -> Tensor"),
    doc: "binomial of float64.",
    kernel: Kernel::Prim {
        prim: &RANDOM_BY,
        lower: |c, o, l| {
            super::distributions::by(
                l,
                c,
                o,
                RandomByKind::Binomial,
                &[binomial_doubles::COUNT, binomial_doubles::PROB],
                c.arg(binomial_doubles::GENERATOR),
            )
        },
    },
    ..super::distributions::DOUBLES
};
