//! `zeros_like`, `zeros`: A tensor filled with zeros.

use crate::named::zeros as at;
use crate::prelude::*;

pub static ZEROS_LIKE: OpDef = OpDef {
    sig: Sig::parse(
        "zeros_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    doc: "Zeros with the input's shape, dtype and device.

Example::

    >>> oneflow.zeros_like(oneflow.ones(2))
    tensor([0., 0.])",
    kernel: Kernel::Prim { prim: &FILL, lower: |_, _, l| super::lower_fill(l, Scalar::Int(0)) },
    sparse: Sparse::Zeros,
    ..super::full::LIKE
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("zeros(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor"),
    doc: "A tensor filled with zeros.

Example::

    >>> oneflow.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| super::push(c, c.ints(at::SIZE)?, c.arg(at::DTYPE), c.arg(at::DEVICE), outs),
    kernel: Kernel::Prim { prim: &FILL, lower: |_, _, l| super::lower_fill(l, Scalar::Int(0)) },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::NONE] }).with(Localize::Sizes(at::SIZE)),
    samples: || vec![Sample::new(vec![SampleArg::Ints(vec![2, 3])]), Sample::new(vec![SampleArg::Ints(vec![])])],
    ..OpDef::BASE
};
