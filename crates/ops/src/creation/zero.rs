//! `zero`: Fills the tensor with zeros.

use crate::named::zero;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("zero(Tensor input) -> Tensor"),
    doc: "Fills the tensor with zeros.

Example::

    >>> oneflow.ones(2).zero_()
    tensor([0., 0.])",
    kernel: Kernel::Prim {
        prim: &FILL,
        lower: |_, outs, l| {
            l.with(super::fill_params(Scalar::Int(0)));
            super::copy::write_once(l, &outs[zero::RESULT]);
            Ok(())
        },
    },
    traits: super::copy::WRITE.traits.or(Traits::FILLS),
    grad: Grad::Rule { save: &[], fix: Fix::None, f: super::copy::forgotten },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[zero::INPUT])] }),
    samples: crate::elementwise::unary::samples,
    sparse: Sparse::Zeros,
    ..super::copy::WRITE
};
