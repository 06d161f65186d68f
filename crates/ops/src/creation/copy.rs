//! `copy`: Copies the elements of `src`, broadcast and cast, into the tensor.

use crate::named::{copy, zero};
use crate::prelude::*;

/// The result has the input's meta, whatever is written.
pub(super) fn infer(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let x = c.t(copy::INPUT)?;
    crate::elementwise::push_like(x, x.dtype(), x.device(), None, outs)
}

/// What was overwritten has no part in the result: its gradient is zero, and not absent.
pub fn forgotten(c: &GradCall<'_>, out: &mut Grads) -> Result<()> {
    out.set(copy::INPUT, || c.g()?.zeros_like())
}

pub(super) const WRITE: OpDef = OpDef { faces: Faces::INPLACE, infer, traits: Traits::ALIAS_OK, ..OpDef::BASE };

/// The sizes of what a tensor has in memory: what is expanded is one element.
pub fn once(to: &Tensor) -> Dims {
    to.sizes().iter().zip(to.strides()).map(|(n, s)| if *s == 0 { 1.min(*n) } else { *n }).collect()
}

/// The result of a fill, each element of its memory once.
pub fn write_once(l: &mut Lowered, to: &Tensor) {
    l.output_as(zero::RESULT, once(to), Dims::from_slice(to.strides()), to.offset());
}

pub static OP: OpDef = OpDef {
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
