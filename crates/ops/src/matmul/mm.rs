//! `mm`: Product of two matrices.

use super::*;
use crate::named::mm as at;

pub(super) fn ranks<'a>(c: &Call<'a>, a: usize, b: usize) -> Result<(&'a Tensor, &'a Tensor)> {
    let (x, y) = (c.t(at::INPUT)?, c.t(at::MAT2)?);
    if x.ndim() != a || y.ndim() != b {
        return Err(Error::runtime(format!(
            "{}(): expected a {a}D and a {b}D tensor, got {:?} and {:?}",
            c.name(),
            x.sizes(),
            y.sizes()
        )));
    }
    Ok((x, y))
}

pub(super) const COMPOSED: OpDef = OpDef {
    faces: Faces::FN_METHOD_OUT,
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    cost,
    amp: Amp::LOWER,
    ..OpDef::BASE
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("mm(Tensor input, Tensor mat2) -> Tensor"),
    doc: "Product of two matrices.

Example::

    >>> oneflow.mm(oneflow.ones(1, 2), oneflow.ones(2, 1))
    tensor([[2.]])",
    compose: Some(|c, outs| {
        let (a, b) = ranks(c, 2, 2)?;
        outs.give(a.matmul(b)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[4, 6]), SampleArg::f32(&[6, 8])])],
    traits: Traits::EXACT_OUT,
    sparse: Sparse::MatrixProduct,
    ..COMPOSED
};
