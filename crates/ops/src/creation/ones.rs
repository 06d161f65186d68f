//! `ones`, `ones_like`: A tensor filled with ones.

use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("ones(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor"),
    doc: "A tensor filled with ones.

Example::

    >>> oneflow.ones(2)
    tensor([1., 1.])",
    kernel: Kernel::Prim { prim: &FILL, lower: |_, _, l| super::lower_fill(l, Scalar::Int(1)) },
    ..super::full::SIZED
};

pub static ONES_LIKE: OpDef = OpDef {
    sig: Sig::parse(
        "ones_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    doc: "Ones with the input's shape, dtype and device.

Example::

    >>> oneflow.ones_like(oneflow.zeros(2))
    tensor([1., 1.])",
    kernel: Kernel::Prim { prim: &FILL, lower: |_, _, l| super::lower_fill(l, Scalar::Int(1)) },
    sparse: Sparse::Places,
    ..super::full::LIKE
};
