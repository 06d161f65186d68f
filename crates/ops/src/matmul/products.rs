//! Products with fixed ranks: mm, bmm, mv, dot, outer.

use super::*;
use crate::named::mm as at;

fn ranks<'a>(c: &Call<'a>, a: usize, b: usize) -> Result<(&'a Tensor, &'a Tensor)> {
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

const COMPOSED: OpDef = OpDef {
    faces: Faces::FN_METHOD_OUT,
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    cost,
    amp: Amp::Lower,
    ..OpDef::BASE
};

pub static MM: OpDef = OpDef {
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

pub static BMM: OpDef = OpDef {
    sig: Sig::parse("bmm(Tensor input, Tensor mat2) -> Tensor"),
    doc: "Products of two batches of matrices of equal length.

Example::

    >>> oneflow.bmm(oneflow.ones(3, 1, 2), oneflow.ones(3, 2, 1)).shape
    oneflow.Size([3, 1, 1])",
    compose: Some(|c, outs| {
        let (a, b) = ranks(c, 3, 3)?;
        if a.sizes()[0] != b.sizes()[0] {
            return Err(Error::runtime(format!(
                "bmm(): Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
                a.sizes()[0],
                a.sizes()[2],
                b.sizes()[0],
                b.sizes()[1]
            )));
        }
        outs.give(a.matmul(b)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 4, 6]), SampleArg::f32(&[2, 6, 8])])],
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};

pub static MV: OpDef = OpDef {
    sig: Sig::parse("mv(Tensor input, Tensor vec) -> Tensor"),
    doc: "Product of a matrix and a vector.

Example::

    >>> oneflow.mv(oneflow.ones(1, 2), oneflow.ones(2))
    tensor([2.])",
    compose: Some(|c, outs| {
        let (a, b) = ranks(c, 2, 1)?;
        outs.give(a.matmul(b)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[4, 6]), SampleArg::f32(&[6])])],
    amp: Amp::Widest,
    traits: Traits::EXACT_OUT,
    sparse: Sparse::MatrixProduct,
    ..COMPOSED
};

pub static DOT: OpDef = OpDef {
    sig: Sig::parse("dot(Tensor input, Tensor tensor) -> Tensor"),
    doc: "Inner product of two vectors.

Example::

    >>> oneflow.dot(oneflow.tensor([1., 2.]), oneflow.tensor([3., 4.]))
    tensor(11.)",
    compose: Some(|c, outs| {
        let (a, b) = ranks(c, 1, 1)?;
        if a.dtype() != b.dtype() {
            return Err(Error::runtime(format!(
                "dot(): expected both vectors to have same dtype, but found {} and {}",
                a.dtype().scalar_type_name(),
                b.dtype().scalar_type_name()
            )));
        }
        outs.give(a.matmul(b)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[6]), SampleArg::f32(&[6])])],
    amp: Amp::Widest,
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};

pub static OUTER: OpDef = OpDef {
    sig: Sig::parse("outer(Tensor input, Tensor vec2) -> Tensor"),
    doc: "Outer product of two vectors.

Example::

    >>> oneflow.outer(oneflow.tensor([1., 2.]), oneflow.tensor([3.]))
    tensor([[3.],
            [6.]])",
    compose: Some(|c, outs| {
        let (a, b) = ranks(c, 1, 1)?;
        outs.give(a.unsqueeze(1)?.mul(b)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[4]), SampleArg::f32(&[3])])],
    ..COMPOSED
};
