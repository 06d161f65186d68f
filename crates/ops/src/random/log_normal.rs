//! `log_normal`: Fills the tensor with numbers whose logarithm is normal.

use super::draw::in_order;
use crate::named::log_normal;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("log_normal(Tensor input, float mean=1, float std=2, *, Generator? generator=None) -> Tensor"),
    doc: "Fills the tensor with numbers whose logarithm is normal.

Example::

    >>> (oneflow.zeros(2).log_normal_() > 0).all()
    tensor(True)",
    compose: Some(|c, outs| {
        if c.float(log_normal::STD)? <= 0.0 {
            return Err(Error::runtime(format!(
                "log_normal_ expects std > 0.0, but found std={}",
                c.float(log_normal::STD)?
            )));
        }
        (c.op.infer)(c, &mut Outs::new())?;
        if super::is_in_order(c.arg(log_normal::GENERATOR)) {
            outs.give(in_order(
                c.t(log_normal::INPUT)?,
                RandomKind::LogNormal,
                c.float(log_normal::MEAN)?,
                c.float(log_normal::STD)?,
                c.arg(log_normal::GENERATOR),
            )?);
            return Ok(());
        }
        let x = c.t(log_normal::INPUT)?.empty_like()?;
        x.normal_with_(
            c.float(log_normal::MEAN)?,
            c.float(log_normal::STD)?,
            Some(&super::distributions::generator(c.arg(log_normal::GENERATOR))?),
        )?;
        outs.give(x.exp()?);
        Ok(())
    }),
    ..super::distributions::FILL_BY_PARTS
};
