//! `geometric`: Fills the tensor with numbers of trials until the first success of probability `p`.

use super::draw::{FILL_WITH, in_order};
use crate::named::geometric;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("geometric(Tensor input, float p, *, Generator? generator=None) -> Tensor"),
    doc: "Fills the tensor with numbers of trials until the first success of probability `p`.

Example::

    >>> oneflow.zeros(2).geometric_(0.5).min() >= 1
    tensor(True)",
    infer: |c, outs| {
        let d = c.t(geometric::INPUT)?.dtype();
        if d == DType::Bool || d.is_complex() {
            return Err(Error::not_implemented(format!(
                "\"geometric_\" not implemented for '{}'",
                d.scalar_type_name()
            )));
        }
        (FILL_WITH.infer)(c, outs)
    },
    compose: Some(|c, outs| {
        let p = c.float(geometric::P)?;
        if !(p > 0.0 && p < 1.0) {
            return Err(Error::runtime(format!("geometric_ expects p to be in (0, 1), but got p={p}")));
        }
        (c.op.infer)(c, &mut Outs::new())?;
        let x = c.t(geometric::INPUT)?;
        if super::is_in_order(c.arg(geometric::GENERATOR)) {
            outs.give(in_order(x, RandomKind::Geometric, p, 0.0, c.arg(geometric::GENERATOR))?);
            return Ok(());
        }
        let g = super::distributions::generator(c.arg(geometric::GENERATOR))?;
        let u = x.contiguous()?.rand_like_with(Some(&g), Some(DType::F64), None, false, None)?;
        // One minus a number of [0, 1) has a logarithm.
        let trials = u.neg()?.log1p()?.div((-p).ln_1p())?.ceil()?.clamp(Some(Scalar::Float(1.0)), None)?;
        outs.give(trials.to_copy_with(Some(x.dtype()), None)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Float(0.4)])],
    ..super::distributions::FILL_BY_PARTS
};
