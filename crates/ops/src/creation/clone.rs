//! `clone`: A copy, in the input's memory order, that keeps the history.

use crate::elementwise::push_like;
use crate::named::clone;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("clone(Tensor input, *, MemoryFormat? memory_format=None) -> Tensor"),
    doc: "A copy, in the input's memory order, that keeps the history.

Example::

    >>> oneflow.clone(oneflow.tensor([1., 2.]))
    tensor([1., 2.])",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        let x = c.t(clone::INPUT)?;
        push_like(x, x.dtype(), x.device(), c.arg(clone::MEMORY_FORMAT).str(), outs)
    },
    kernel: Kernel::Prim {
        prim: &COPY,
        lower: |_, _, l| {
            l.input(clone::INPUT).output(clone::RESULT);
            Ok(())
        },
    },
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(clone::INPUT, || Ok(c.g()?.clone())) },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[clone::INPUT])] }),
    samples: crate::elementwise::unary::samples,
    sparse: Sparse::Clone,
    ..OpDef::BASE
};
