//! Writing values into an existing tensor: `copy_`, `fill_`, `zero_`. In-place forms of ops that forget their input.

use crate::named::{copy, fill, zero};
use crate::prelude::*;

/// The result has the input's meta, whatever is written.
fn infer(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let x = c.t(copy::INPUT)?;
    crate::elementwise::push_like(x, x.dtype(), x.device(), None, outs)
}

/// What was overwritten has no part in the result: its gradient is zero, and not absent.
pub fn forgotten(c: &GradCall<'_>, out: &mut Grads) -> Result<()> {
    out.set(copy::INPUT, || c.g()?.zeros_like())
}

const WRITE: OpDef = OpDef { faces: Faces::INPLACE, infer, traits: Traits::ALIAS_OK, ..OpDef::BASE };

pub static COPY_OP: OpDef = OpDef {
    sig: Sig::parse("copy(Tensor input, Tensor src, bool non_blocking=False) -> Tensor"),
    traits: Traits::ALIAS_OK.or(Traits::NUMBERS),
    doc: "Copies the elements of `src`, broadcast and cast, into the tensor.

Example::

    >>> oneflow.zeros(2).copy_(oneflow.tensor([1, 2]))
    tensor([1., 2.])",
    infer: |c, outs| {
        let (x, src) = (c.t(copy::INPUT)?, c.t(copy::SRC)?);
        if broadcast_shapes(x.sizes(), src.sizes()).is_ok_and(|s| s.as_slice() != x.sizes()) || src.ndim() > x.ndim() {
            return Err(Error::runtime(format!(
                "copy_(): output with shape {:?} doesn't match the broadcast shape of the source {:?}",
                x.sizes(),
                src.sizes()
            )));
        }
        broadcast_shapes(x.sizes(), src.sizes()).map_err(|e| e.context("copy_(): "))?;
        infer(c, outs)
    },
    kernel: Kernel::Prim {
        prim: &COPY,
        lower: |c, outs, l| {
            l.input_expanded(copy::SRC, c.t(copy::SRC)?, outs[copy::RESULT].sizes()).output(copy::RESULT);
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            forgotten(c, out)?;
            out.set(copy::SRC, || Ok(c.g()?.clone()))
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[copy::INPUT, copy::SRC])] }),
    samples: || {
        let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b)]);
        vec![t(&[3, 4], &[3, 4]), t(&[3, 4], &[4]), t(&[3], &[])]
    },
    sparse: Sparse::Copy,
    ..WRITE
};

pub static FILL_OP: OpDef = OpDef {
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
            scalar_range::check(c, c.t(fill::INPUT)?.dtype(), s)?;
        }
        infer(c, outs)
    },
    kernel: Kernel::Prim {
        prim: &FILL,
        lower: |c, outs, l| match c.arg(fill::VALUE_SCALAR).scalar() {
            Some(s) => super::lower_fill(l, scalar_range::written(outs[fill::RESULT].dtype(), s)),
            None => {
                l.prim = &COPY;
                l.input_expanded(fill::VALUE, c.t(fill::VALUE)?, outs[fill::RESULT].sizes()).output(fill::RESULT);
                Ok(())
            }
        },
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            forgotten(c, out)?;
            out.set(fill::VALUE, || Ok(c.g()?.clone()))
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[] }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Float(1.5)])],
    ..WRITE
};

pub static ZERO: OpDef = OpDef {
    sig: Sig::parse("zero(Tensor input) -> Tensor"),
    doc: "Fills the tensor with zeros.

Example::

    >>> oneflow.ones(2).zero_()
    tensor([0., 0.])",
    kernel: Kernel::Prim { prim: &FILL, lower: |_, _, l| super::lower_fill(l, Scalar::Int(0)) },
    grad: Grad::Rule { save: &[], fix: Fix::None, f: forgotten },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[zero::INPUT])] }),
    samples: crate::elementwise::unary::samples,
    sparse: Sparse::Zeros,
    ..WRITE
};
