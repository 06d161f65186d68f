//! `fill`: Fills the tensor with one value (a number or a 0-dim tensor).

use crate::named::fill;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("fill(Tensor input, Tensor|Scalar value) -> Tensor"),
    doc: "Fills the tensor with one value (a number or a 0-dim tensor).

Example::

    >>> oneflow.zeros(2).fill_(3)
    tensor([3., 3.])",
    faces: Faces::FN.or(Faces::INPLACE),
    infer: |c, outs| {
        if let Some(v) = c.opt(fill::VALUE)
            && v.ndim() > 0
        {
            return Err(Error::runtime(format!(
                "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
                v.ndim()
            )));
        }
        if let Some(s) = c.arg(fill::VALUE_SCALAR).scalar() {
            let x = c.t(fill::INPUT)?;
            scalar_range::check_many(c, x.dtype(), s, x.numel())?;
        }
        super::copy::infer(c, outs)
    },
    kernel: Kernel::Prim {
        prim: &FILL,
        lower: |c, outs, l| {
            let to = &outs[fill::RESULT];
            match c.arg(fill::VALUE_SCALAR).scalar() {
                Some(s) => {
                    l.with(super::fill_params(scalar_range::written(to.dtype(), s)));
                }
                None => {
                    l.prim = &COPY;
                    l.input_expanded(fill::VALUE, c.t(fill::VALUE)?, &super::copy::once(to));
                }
            }
            super::copy::write_once(l, to);
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            super::copy::forgotten(c, out)?;
            out.set(fill::VALUE, || Ok(c.g()?.clone()))
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[] }),
    sparse: Sparse::Places,
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Float(1.5)])],
    traits: super::copy::WRITE.traits.or(Traits::FILLS),
    ..super::copy::WRITE
};
