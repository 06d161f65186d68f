//! `exponential`: Fills the tensor with exponential numbers of rate `lambd`.

use crate::named::exponential;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("exponential(Tensor input, float lambd=1, *, Generator? generator=None) -> Tensor"),
    doc: "Fills the tensor with exponential numbers of rate `lambd`.

Example::

    >>> oneflow.zeros(2).exponential_().shape
    oneflow.Size([2])",
    infer: |c, outs| {
        if c.float(exponential::LAMBD)? <= 0.0 {
            return Err(Error::runtime(format!(
                "exponential_ expects lambda > 0.0, but found lambda={}",
                c.float(exponential::LAMBD)?
            )));
        }
        super::draw::continuous(c, c.t(exponential::INPUT)?.dtype())?;
        (super::draw::FILL_WITH.infer)(c, outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| {
            super::draw::draw(
                l,
                RandomKind::Exponential,
                c.arg(exponential::GENERATOR),
                c.float(exponential::LAMBD)?,
                0.0,
            )
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..super::draw::FILL_WITH
};
