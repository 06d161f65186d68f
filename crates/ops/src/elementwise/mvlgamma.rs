//! `mvlgamma`: Logarithm of the multivariate gamma function of dimension `p`.

use super::unary;
use crate::named::mvlgamma;
use crate::prelude::*;
use std::f64::consts::PI;

fn mvlgamma_takes(c: &Call<'_>) -> Result<()> {
    if c.int(mvlgamma::P)? < 1 {
        return Err(Error::runtime("p has to be greater than or equal to 1"));
    }
    if c.t(mvlgamma::INPUT)?.dtype() == DType::Bool {
        return Err(Error::runtime("The input tensor may not be a boolean tensor."));
    }
    Ok(())
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("mvlgamma(Tensor input, int p) -> Tensor"),
    doc: "Logarithm of the multivariate gamma function of dimension `p`.

Example::

    >>> oneflow.mvlgamma(oneflow.tensor([3.]), 2)
    tensor([1.5502])",
    infer: |c, outs| {
        mvlgamma_takes(c)?;
        unary::real_float(c, outs)
    },
    compose: Some(|c, outs| {
        mvlgamma_takes(c)?;
        let (x, p) = (c.t(mvlgamma::INPUT)?, c.int(mvlgamma::P)?);
        let d = promote::to_float(x.dtype());
        let x = if d == x.dtype() { x.clone() } else { x.to_copy_with(Some(d), None)? };
        // A constant in p, and lgamma at x, x - 1/2, ... The steps lie where x does, on every rank.
        let wide: Dims = x.sizes().iter().copied().chain([p]).collect();
        let ones = x.unsqueeze(-1)?.expand(&wide)?.ones_like()?;
        let halves = ones.cumsum(-1)?.sub(1.0)?.div(2.0)?;
        let sum = x.unsqueeze(-1)?.sub(&halves)?.lgamma()?.sum(&[-1], false)?;
        outs.give(sum.add(p as f64 * (p - 1) as f64 / 4.0 * PI.ln())?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::range(&[3], 2.0, 4.0), SampleArg::Int(2)])],
    ..super::special_rules::REAL
};
