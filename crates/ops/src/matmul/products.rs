//! Products with fixed ranks or an added term: mm, bmm, mv, dot, addmm, baddbmm, outer, linear.

use super::*;

fn ranks<'a>(c: &Call<'a>, a: usize, b: usize) -> Result<(&'a Tensor, &'a Tensor)> {
    let (x, y) = (c.t(0)?, c.t(1)?);
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
        outs.give(a.matmul(b)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[6]), SampleArg::f32(&[6])])],
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

/// `beta * input + alpha * product`, without the factors that are one.
fn combined(c: &Call<'_>, product: Tensor) -> Result<Tensor> {
    let (beta, alpha) = (c.arg(0).scalar(), c.arg(1).scalar());
    let one = |s: Option<Scalar>| s.is_none_or(|s| s.to_f64() == 1.0);
    let product = if one(alpha) { product } else { product.mul(alpha.unwrap_or(Scalar::Int(1)))? };
    match beta {
        Some(b) if b.to_f64() == 0.0 => Ok(product),
        b if one(b) => product.add(c.t(0)?),
        b => product.add(&c.t(0)?.mul(b.unwrap_or(Scalar::Int(1)))?),
    }
}

fn product_of(c: &Call<'_>, rank: usize) -> Result<Tensor> {
    let (a, b) = (c.t(1)?, c.t(2)?);
    if a.ndim() != rank || b.ndim() != rank {
        return Err(Error::runtime(format!(
            "{}(): mat1 and mat2 must be {rank}-D tensors, got {:?} and {:?}",
            c.name(),
            a.sizes(),
            b.sizes()
        )));
    }
    let out = a.matmul(b)?;
    if broadcast_shapes(c.t(0)?.sizes(), out.sizes()).is_ok_and(|s| s.as_slice() == out.sizes()) {
        return Ok(out);
    }
    Err(Error::runtime(format!(
        "{}(): The expanded size of the input {:?} must match the product {:?}",
        c.name(),
        c.t(0)?.sizes(),
        out.sizes()
    )))
}

pub static ADDMM: OpDef = OpDef {
    sig: Sig::parse("addmm(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"),
    doc: "`beta * input + alpha * (mat1 @ mat2)`.

Example::

    >>> oneflow.addmm(oneflow.zeros(1), oneflow.ones(1, 2), oneflow.ones(2, 1))
    tensor([[2.]])",
    faces: Faces::ALL,
    compose: Some(|c, outs| {
        outs.give(combined(c, product_of(c, 2)?)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[8]), SampleArg::f32(&[4, 6]), SampleArg::f32(&[6, 8])])],
    ..COMPOSED
};

pub static BADDBMM: OpDef = OpDef {
    sig: Sig::parse("baddbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"),
    doc: "`beta * input + alpha * (batch1 @ batch2)`, batch by batch.

Example::

    >>> oneflow.baddbmm(oneflow.zeros(1), oneflow.ones(3, 1, 2), oneflow.ones(3, 2, 1)).shape
    oneflow.Size([3, 1, 1])",
    faces: Faces::ALL,
    compose: Some(|c, outs| {
        outs.give(combined(c, product_of(c, 3)?)?);
        Ok(())
    }),
    samples: || {
        vec![Sample::new(vec![SampleArg::f32(&[2, 4, 8]), SampleArg::f32(&[2, 4, 6]), SampleArg::f32(&[2, 6, 8])])]
    },
    ..COMPOSED
};
