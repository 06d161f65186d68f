//! The same values in row-major order.

use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("contiguous(Tensor(a) input, *, MemoryFormat? memory_format=None) -> Tensor(a)"),
    doc: "The tensor itself where it is contiguous, a contiguous copy otherwise.

Example::

    >>> oneflow.zeros(2, 3).t().contiguous().stride()
    (2, 1)",
    faces: Faces::METHOD,
    infer: |c, outs| outs.push(c.t(0)?.dtype(), c.t(0)?.device(), c.t(0)?.sizes()),
    compose: Some(|c, outs| {
        let x = c.t(0)?;
        outs.give(if x.is_contiguous() { x.clone() } else { x.clone_contiguous()? });
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: crate::elementwise::unary::samples,
    ..OpDef::BASE
};

/// The copy: an elementwise identity with a dense result.
pub static COPY_OP: OpDef = OpDef {
    sig: Sig::parse("clone_contiguous(Tensor input) -> Tensor"),
    doc: "A contiguous copy.",
    faces: Faces::PRIVATE,
    infer: |c, outs| outs.push(c.t(0)?.dtype(), c.t(0)?.device(), c.t(0)?.sizes()),
    kernel: Kernel::Prim {
        prim: &COPY,
        lower: |_, _, l| {
            l.input(0).output(0);
            Ok(())
        },
    },
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(0, || Ok(c.g()?.clone())) },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[0b1] }),
    samples: crate::elementwise::unary::samples,
    ..OpDef::BASE
};
