//! A tensor of zeros.

use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("zeros(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor"),
    doc: "A tensor filled with zeros.

Example::

    >>> oneflow.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| super::push(c, c.ints(0)?, c.arg(1), c.arg(2), outs),
    kernel: Kernel::Prim { prim: &FILL, lower: |_, _, l| super::lower_fill(l, Scalar::Int(0)) },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[0] }).with(Localize::Sizes(0)),
    samples: || vec![Sample::new(vec![SampleArg::Ints(vec![2, 3])]), Sample::new(vec![SampleArg::Ints(vec![])])],
    ..OpDef::BASE
};
