//! `eye`: Ones on the diagonal, zeros elsewhere.

use crate::named::eye;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "eye(int n, int? m=None, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Ones on the diagonal, zeros elsewhere.

Example::

    >>> oneflow.eye(2)
    tensor([[1., 0.],
            [0., 1.]])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        let n = c.int(eye::N)?;
        super::push(c, &[n, c.arg(eye::M).int().unwrap_or(n)], c.arg(eye::DTYPE), c.arg(eye::DEVICE), outs)
    },
    compose: Some(|c, outs| {
        let n = c.int(eye::N)?;
        let m = c.arg(eye::M).int().unwrap_or(n);
        if n < 0 || m < 0 {
            return Err(Error::runtime(format!("eye(): n and m must be greater or equal to 0, got {n} and {m}")));
        }
        // Refuses what no memory can hold before anything is made.
        (c.op.infer)(c, outs)?;
        outs.clear();
        let device = c.arg(eye::DEVICE).device();
        let out = f::zeros_with(&[n, m], c.arg(eye::DTYPE).dtype(), device, false)?;
        out.diagonal(0, 0, 1)?.fill_(1.0)?;
        outs.give(out);
        Ok(())
    }),
    sbp: SbpRule::of(Rows::OnlyB { why: "it has no input whose layout it could follow" }),
    samples: || vec![Sample::new(vec![SampleArg::Int(3)]), Sample::new(vec![SampleArg::Int(2), SampleArg::Int(4)])],
    ..OpDef::BASE
};
