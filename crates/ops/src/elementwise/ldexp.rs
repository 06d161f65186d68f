//! `ldexp`: `input * 2 ** other`.

use super::{binary, two_tensors};
use crate::named::ldexp;
use crate::prelude::*;

/// The dtype of two to the power of `y`, as a factor of `x`.
fn power_dtype(x: &Tensor, y: &Tensor) -> DType {
    if y.dtype().is_int() && x.dtype().is_differentiable() { x.dtype() } else { promote::to_float(y.dtype()) }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("ldexp(Tensor input, Tensor other) -> Tensor"),
    doc: "`input * 2 ** other`.

Example::

    >>> oneflow.ldexp(oneflow.tensor([1.]), oneflow.tensor([3]))
    tensor([8.])",
    infer: |c, outs| {
        // Two to an integer is of the input's float dtype, or the default one; to a float, of that one.
        let (x, y) = (c.t(ldexp::INPUT)?, c.t(ldexp::OTHER)?);
        let power = power_dtype(x, y);
        let (mut dim, mut zero) = (None, None);
        for (t, d) in [(x, x.dtype()), (y, power)] {
            let slot: &mut Option<DType> = if t.ndim() > 0 { &mut dim } else { &mut zero };
            *slot = Some(match *slot {
                None => d,
                Some(p) => oneflow_base::promote(p, d)?,
            });
        }
        super::push_broadcast(c, promote::combine(dim, zero, None)?, outs)
    },
    compose: Some(|c, outs| {
        let (x, y) = (c.t(ldexp::INPUT)?, c.t(ldexp::OTHER)?);
        let d = power_dtype(x, y);
        let y = if y.dtype() == d { y.clone() } else { y.to_copy_with(Some(d), None)? };
        outs.give(x.mul(&f::pow_scalar(Scalar::Float(2.0), &y)?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: two_tensors,
    ..binary::ARITH
};
