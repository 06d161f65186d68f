//! `bincount`: How often each of 0, 1, 2, ... occurs, or the sum of its weights.

use super::{COMPOSED, give, on_host, wide};
use crate::named::bincount;
use crate::prelude::*;

/// An op that reads some numbers on the host to know its shape.
pub(super) const COUNTED: OpDef = OpDef {
    shape: ShapeOf::Data,
    sbp: SbpRule::of(Rows::OnlyB { why: "the shape of the result depends on all the data" }),
    traits: Traits::HOST_SYNC,
    ..COMPOSED
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("bincount(Tensor input, Tensor? weights=None, int minlength=0) -> Tensor"),
    doc: "How often each of 0, 1, 2, ... occurs, or the sum of its weights.

Example::

    >>> oneflow.bincount(oneflow.tensor([0, 2, 2]))
    tensor([1, 0, 2])",
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let (x, w, least) = (c.t(bincount::INPUT)?, c.opt(bincount::WEIGHTS), c.int(bincount::MINLENGTH)?);
        if least < 0 {
            return Err(Error::runtime(format!("minlength should be >= 0, got {least}")));
        }
        let text = "bincount only supports 1-d non-negative integral inputs.";
        if !x.dtype().is_int() {
            return Err(Error::runtime(format!("{text} (got {})", x.dtype())));
        }
        if x.ndim() != 1 && x.numel() > 0 {
            return Err(Error::runtime(text));
        }
        let i = wide(&x.reshape(&[-1])?)?;
        let n = if i.numel() == 0 {
            0
        } else {
            let ends = on_host(&f::stack([&i.amin(&[], false)?, &i.amax(&[], false)?], 0)?)?;
            if ends[0] < 0 {
                return Err(Error::runtime(text));
            }
            ends[1] + 1
        };
        let counted = match w {
            None => i.ones_like()?,
            Some(w) if w.sizes() != x.sizes() => {
                return Err(Error::runtime("weights should be 1-d and have the same length as input"));
            }
            Some(w) if w.dtype() == DType::F32 => w.reshape(&[-1])?,
            Some(w) => w.to_copy_with(Some(DType::F64), None)?.reshape(&[-1])?,
        };
        let dtype = counted.dtype();
        give(outs, i.new_zeros_with(&[n.max(least)], Some(dtype), None, false)?.index_add(0, &i, &counted)?)
    }),
    samples: || {
        vec![
            Sample::new(vec![SampleArg::i64(&[8], 0, 5)]),
            Sample::new(vec![SampleArg::i64(&[8], 0, 5), SampleArg::f32(&[8]), SampleArg::Int(9)]),
        ]
    },
    ..COUNTED
};
