//! The same values in row-major order.

use crate::elementwise::{channels_last, push_like};
use crate::named::{clone_contiguous, contiguous};
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("contiguous(Tensor(a) input, *, MemoryFormat? memory_format=None) -> Tensor(a)"),
    doc: "The tensor itself where it is contiguous, a contiguous copy otherwise.

Example::

    >>> oneflow.zeros(2, 3).t().contiguous().stride()
    (2, 1)",
    faces: Faces::METHOD,
    infer: |c, outs| {
        outs.push(c.t(contiguous::INPUT)?.dtype(), c.t(contiguous::INPUT)?.device(), c.t(contiguous::INPUT)?.sizes())
    },
    compose: Some(|c, outs| {
        let x = c.t(contiguous::INPUT)?;
        outs.give(match channels_last(c.arg(contiguous::MEMORY_FORMAT).str().unwrap_or(""), x.sizes())? {
            Some(s) if x.sizes().iter().zip(x.strides().iter().zip(&s)).all(|(n, (a, b))| *n == 1 || a == b) => {
                x.clone()
            }
            Some(_) => x.clone_contiguous_with(c.arg(contiguous::MEMORY_FORMAT).str())?,
            None if x.is_contiguous() => x.clone(),
            None => x.clone_contiguous()?,
        });
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: crate::elementwise::unary::samples,
    sparse: Sparse::Same,
    ..OpDef::BASE
};

/// The copy: an elementwise identity with a dense result.
pub static COPY_OP: OpDef = OpDef {
    sig: Sig::parse("clone_contiguous(Tensor input, *, MemoryFormat? memory_format=None) -> Tensor"),
    doc: "A contiguous copy, in the memory format given.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(clone_contiguous::INPUT)?;
        push_like(
            x,
            x.dtype(),
            x.device(),
            c.arg(clone_contiguous::MEMORY_FORMAT).str().or(Some("contiguous_format")),
            outs,
        )
    },
    kernel: Kernel::Prim {
        prim: &COPY,
        lower: |_, _, l| {
            l.input(clone_contiguous::INPUT).output(clone_contiguous::RESULT);
            Ok(())
        },
    },
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(clone_contiguous::INPUT, || Ok(c.g()?.clone())) },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[clone_contiguous::INPUT])] }),
    samples: crate::elementwise::unary::samples,
    sparse: Sparse::Clone,
    ..OpDef::BASE
};
