//! `cauchy`: Fills the tensor with numbers of the Cauchy distribution.

use super::draw::{FILL_WITH, in_order};
use crate::named::cauchy;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("cauchy(Tensor input, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor"),
    doc: "Fills the tensor with numbers of the Cauchy distribution.

Example::

    >>> oneflow.zeros(2).cauchy_().shape
    oneflow.Size([2])",
    infer: |c, outs| {
        super::draw::continuous(c, c.t(cauchy::INPUT)?.dtype())?;
        (FILL_WITH.infer)(c, outs)
    },
    compose: Some(|c, outs| {
        if c.float(cauchy::SIGMA)? <= 0.0 {
            return Err(Error::runtime(format!(
                "cauchy_ expects sigma > 0.0, but found sigma={}",
                c.float(cauchy::SIGMA)?
            )));
        }
        (c.op.infer)(c, &mut Outs::new())?;
        if super::is_in_order(c.arg(cauchy::GENERATOR)) {
            outs.give(in_order(
                c.t(cauchy::INPUT)?,
                RandomKind::Cauchy,
                c.float(cauchy::MEDIAN)?,
                c.float(cauchy::SIGMA)?,
                c.arg(cauchy::GENERATOR),
            )?);
            return Ok(());
        }
        let x = c.t(cauchy::INPUT)?.empty_like()?;
        x.uniform_with_(-0.5, 0.5, Some(&super::distributions::generator(c.arg(cauchy::GENERATOR))?))?;
        outs.give(x.mul(std::f64::consts::PI)?.tan()?.mul(c.float(cauchy::SIGMA)?)?.add(c.float(cauchy::MEDIAN)?)?);
        Ok(())
    }),
    ..super::distributions::FILL_BY_PARTS
};
