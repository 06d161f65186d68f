//! `glu`: The first half along `dim` times the sigmoid of the second.

use super::unary;
use crate::named::glu;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("glu(Tensor input, int dim=-1) -> Tensor"),
    doc: "The first half along `dim` times the sigmoid of the second.

Source: Dauphin et al., \"Language Modeling with Gated Convolutional Networks\", 2017.

Example::

    >>> oneflow.nn.functional.glu(oneflow.tensor([1., 0.]))
    tensor([0.5000])",
    infer: |c, outs| {
        let x = c.t(glu::INPUT)?;
        if x.ndim() == 0 {
            return Err(Error::runtime("glu does not support 0-dimensional tensors"));
        }
        let d = wrap_dim(c.int(glu::DIM)?, x.ndim())?;
        if x.sizes()[d] % 2 != 0 {
            return Err(Error::runtime(format!(
                "Halving dimension must be even, but dimension {d} is size {}",
                x.sizes()[d]
            )));
        }
        let mut sizes = Dims::from_slice(x.sizes());
        sizes[d] /= 2;
        outs.push(x.dtype(), x.device(), &sizes)
    },
    compose: Some(|c, outs| {
        (c.op.infer)(c, &mut Outs::new())?;
        let (x, dim) = (c.t(glu::INPUT)?, c.int(glu::DIM)?);
        let half = x.sizes()[wrap_dim(dim, x.ndim())?] / 2;
        outs.give(x.narrow(dim, 0, half)?.mul(&x.narrow(dim, half, half)?.sigmoid()?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        vec![Sample::new(vec![SampleArg::f32(&[3, 4])]), Sample::new(vec![SampleArg::f32(&[4, 3]), SampleArg::Int(0)])]
    },
    faces: Faces::NN,
    ..unary::FLOAT
};
