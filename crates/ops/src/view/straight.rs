//! The beginning of what is made of straight lines: PyTorch computes its gradient of the input too, so that its second
//! derivative is zero and not absent.

use super::VIEW;
use crate::named::straight as at;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("straight(Tensor(a) input) -> Tensor(a)"),
    doc: "A view of the input; its gradient has derivatives of zero there.",
    traits: Traits::FLAT,
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(at::INPUT)?;
        outs.view(at::INPUT, x, Dims::from_slice(x.sizes()), Dims::from_slice(x.strides()), x.offset())
    },
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(at::INPUT, || Ok(c.g()?.clone())) },
    sbp: SbpRule::of(Rows::View(|c, groups| {
        for i in 0..c.t(at::INPUT)?.ndim() {
            groups.push(DimGroup { ins: SmallVec::from_slice(&[i as u8]), outs: SmallVec::from_slice(&[i as u8]) });
        }
        Ok(())
    })),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3])]), Sample::new(vec![SampleArg::f32(&[])])],
    ..VIEW
};
