//! Products with vectors: addmv, addr, addbmm, vdot, inner, kron, cross. All composed.

use super::addmm::{factor, times};
use super::*;
use crate::named::{addbmm, addmv, addr, inner, kron, linalg_cross, vdot};

const COMPOSED: OpDef = OpDef {
    faces: Faces::FN_METHOD_OUT,
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    cost,
    // Products with vectors keep their precision, and what they are made of with them.
    amp: Amp::Widest,
    ..OpDef::BASE
};

/// `beta * input + alpha * product`, rounded once where the dtype is a half type.
fn affine(c: &Call<'_>, product: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let (x, a, b) = (c.t(addmv::INPUT)?, c.t(addmv::MAT)?, c.t(addmv::VEC)?);
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "{}(): expected both factors to have the same dtype, but got {} and {}",
            c.name(),
            a.dtype().scalar_type_name(),
            b.dtype().scalar_type_name()
        )));
    }
    let dtype = promote::result_type([x, a].into_iter(), None)?;
    let wide = if dtype.is_float() { dtype.compute() } else { dtype };
    let cast = |t: &Tensor| if t.dtype() == wide { Ok(t.clone()) } else { t.to_copy_with(Some(wide), None) };
    let out = times(&product(&cast(a)?, &cast(b)?)?, factor(c.arg(addmv::ALPHA), dtype))?;
    let shape = Dims::from_slice(out.sizes());
    if broadcast_shapes(x.sizes(), &shape).map_or(true, |s| s != shape) {
        return Err(Error::runtime(format!(
            "{}(): The expanded size of the input {:?} must match the product's {:?}",
            c.name(),
            x.sizes(),
            shape.as_slice()
        )));
    }
    let out = match factor(c.arg(addmv::BETA), dtype) {
        // A term without weight is not read: it may hold anything.
        Some(beta) if beta.to_f64() == 0.0 => out,
        beta => times(&cast(x)?.expand(&shape)?, beta)?.add(&out)?,
    };
    if out.dtype() == dtype { Ok(out) } else { out.to_copy_with(Some(dtype), None) }
}

#[cold]
fn mismatch(c: &Call<'_>, what: &str) -> Error {
    let sizes = |at: In| c.opt(at).map_or(&[][..], |t| t.sizes());
    Error::runtime(format!("{}(): {what}, got {:?} and {:?}", c.name(), sizes(addmv::MAT), sizes(addmv::VEC)))
}

pub static ADDMV: OpDef = OpDef {
    sig: Sig::parse("addmv(Tensor input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor"),
    doc: "`beta * input + alpha * (mat @ vec)`.

Example::

    >>> oneflow.addmv(oneflow.ones(1), oneflow.ones(1, 2), oneflow.ones(2))
    tensor([3.])",
    faces: Faces::ALL,
    compose: Some(|c, outs| {
        let (m, v) = (c.t(addmv::MAT)?, c.t(addmv::VEC)?);
        if m.ndim() != 2 || v.ndim() != 1 || m.sizes()[1] != v.sizes()[0] {
            return Err(mismatch(c, "expected a matrix and a vector of as many elements as it has columns"));
        }
        outs.give(affine(c, |m, v| m.matmul(v))?);
        Ok(())
    }),
    samples: || {
        let s = || Sample::new(vec![SampleArg::f32(&[4]), SampleArg::f32(&[4, 6]), SampleArg::f32(&[6])]);
        vec![s(), s().kw("alpha", SampleArg::Float(0.5)).kw("beta", SampleArg::Float(2.0))]
    },
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};

pub static ADDR: OpDef = OpDef {
    sig: Sig::parse("addr(Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"),
    doc: "`beta * input + alpha * outer(vec1, vec2)`.

Example::

    >>> oneflow.addr(oneflow.ones(1), oneflow.tensor([1., 2.]), oneflow.tensor([3.]))
    tensor([[4.],
            [7.]])",
    faces: Faces::ALL,
    compose: Some(|c, outs| {
        if c.t(addr::VEC1)?.ndim() != 1 || c.t(addr::VEC2)?.ndim() != 1 {
            return Err(mismatch(c, "Expected 1-D arguments vec1 and vec2"));
        }
        if !promote::result_type([c.t(addr::INPUT)?, c.t(addr::VEC1)?, c.t(addr::VEC2)?].into_iter(), None)?
            .is_differentiable()
        {
            for (at, name) in [(addr::BETA, "beta"), (addr::ALPHA, "alpha")] {
                if matches!(c.arg(at).scalar(), Some(Scalar::Float(_) | Scalar::Complex(..))) {
                    return Err(Error::runtime(format!(
                        "For integral input tensors, argument {name} must not be a floating point number."
                    )));
                }
            }
        }
        outs.give(affine(c, |a, b| a.unsqueeze(1)?.mul(b))?);
        Ok(())
    }),
    samples: || {
        let s = || Sample::new(vec![SampleArg::f32(&[4, 3]), SampleArg::f32(&[4]), SampleArg::f32(&[3])]);
        vec![s(), s().kw("alpha", SampleArg::Float(0.5)).kw("beta", SampleArg::Float(2.0))]
    },
    ..COMPOSED
};

pub static ADDBMM: OpDef = OpDef {
    sig: Sig::parse("addbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"),
    doc: "`beta * input + alpha * sum(batch1 @ batch2)` over the batch.

Example::

    >>> oneflow.addbmm(oneflow.zeros(1), oneflow.ones(3, 1, 2), oneflow.ones(3, 2, 1))
    tensor([[6.]])",
    faces: Faces::ALL,
    compose: Some(|c, outs| {
        let (a, b) = (c.t(addbmm::BATCH1)?, c.t(addbmm::BATCH2)?);
        if a.ndim() != 3 || b.ndim() != 3 || a.sizes()[0] != b.sizes()[0] || a.sizes()[2] != b.sizes()[1] {
            return Err(mismatch(
                c,
                "batch1 and batch2 must be 3-D tensors with the same number of matrices, which can be multiplied",
            ));
        }
        outs.give(
            affine(c, |a, b| {
                // The batch is a part of the contraction: one product instead of a batch that is summed.
                let (n, m, k, p) = (a.sizes()[0], a.sizes()[1], a.sizes()[2], b.sizes()[2]);
                a.transpose(0, 1)?.reshape(&[m, n * k])?.matmul(&b.reshape(&[n * k, p])?)
            })?
            .contiguous()?,
        );
        Ok(())
    }),
    samples: || {
        vec![Sample::new(vec![SampleArg::f32(&[4, 8]), SampleArg::f32(&[2, 4, 6]), SampleArg::f32(&[2, 6, 8])])]
    },
    amp: Amp::Lower,
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};

pub static VDOT: OpDef = OpDef {
    sig: Sig::parse("vdot(Tensor input, Tensor other) -> Tensor"),
    doc: "Inner product of two vectors, conjugating the first.

Example::

    >>> oneflow.vdot(oneflow.tensor([1., 2.]), oneflow.tensor([3., 4.]))
    tensor(11.)",
    compose: Some(|c, outs| {
        let (a, b) = (c.t(vdot::INPUT)?, c.t(vdot::OTHER)?);
        if a.ndim() != 1 || b.ndim() != 1 {
            return Err(Error::runtime(format!(
                "vdot(): 1D tensors expected, but got {}D and {}D tensors",
                a.ndim(),
                b.ndim()
            )));
        }
        if a.dtype() != b.dtype() {
            return Err(Error::runtime(format!(
                "dot : expected both vectors to have same dtype, but found {} and {}",
                a.dtype().scalar_type_name(),
                b.dtype().scalar_type_name()
            )));
        }
        if a.numel() != b.numel() {
            return Err(Error::runtime(format!(
                "inconsistent tensor size, expected tensor {:?} and src {:?} to have the same number of elements, but got {} and {} elements respectively",
                a.sizes(),
                b.sizes(),
                a.numel(),
                b.numel()
            )));
        }
        outs.give(a.conj()?.matmul(b)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[6]), SampleArg::f32(&[6])])],
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};

pub static INNER: OpDef = OpDef {
    sig: Sig::parse("inner(Tensor input, Tensor other) -> Tensor"),
    doc: "Sums of products over the last dimensions of two tensors.

Example::

    >>> oneflow.inner(oneflow.tensor([1., 2.]), oneflow.tensor([3., 4.]))
    tensor(11.)",
    compose: Some(|c, outs| {
        let (a, b) = (c.t(inner::INPUT)?, c.t(inner::OTHER)?);
        let (Some(&k), Some(&k2)) = (a.sizes().last(), b.sizes().last()) else {
            outs.give(a.mul(b)?);
            return Ok(());
        };
        if k != k2 {
            return Err(Error::runtime(format!(
                "inner() the last dimension must match on both input tensors but got shapes {:?} and {:?}",
                a.sizes(),
                b.sizes()
            )));
        }
        let shape: Dims = a.sizes()[..a.ndim() - 1].iter().chain(&b.sizes()[..b.ndim() - 1]).copied().collect();
        outs.give(as_rows(a)?.matmul(&as_rows(b)?.transpose(0, 1)?)?.reshape(&shape)?);
        Ok(())
    }),
    samples: || {
        let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b)]);
        vec![t(&[6], &[6]), t(&[2, 3], &[4, 3]), t(&[2, 2, 3], &[3])]
    },
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};

pub static KRON: OpDef = OpDef {
    sig: Sig::parse("kron(Tensor input, Tensor other) -> Tensor"),
    doc: "Kronecker product: every element of the first times the whole second.

Example::

    >>> oneflow.kron(oneflow.tensor([1., 2.]), oneflow.tensor([1., 1.]))
    tensor([1., 1., 2., 2.])",
    compose: Some(|c, outs| {
        let (a, b) = (c.t(kron::INPUT)?, c.t(kron::OTHER)?);
        let n = a.ndim().max(b.ndim());
        let size = |t: &Tensor, d: usize| if d + t.ndim() < n { 1 } else { t.sizes()[d + t.ndim() - n] };
        let (mut left, mut right, mut shape) = (Dims::new(), Dims::new(), Dims::new());
        for d in 0..n {
            left.extend([size(a, d), 1]);
            right.extend([1, size(b, d)]);
            shape.push(size(a, d) * size(b, d));
        }
        outs.give(a.reshape(&left)?.mul(&b.reshape(&right)?)?.reshape(&shape)?);
        Ok(())
    }),
    samples: || {
        let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b)]);
        vec![t(&[2, 3], &[4, 2]), t(&[2], &[3, 2])]
    },
    amp: Amp::Follow,
    ..COMPOSED
};

/// The three components one (two) places on, around.
fn turned(t: &Tensor, dim: i64, by: i64) -> Result<Tensor> {
    f::cat([&t.narrow(dim, by, 3 - by)?, &t.narrow(dim, 0, by)?], dim)
}

pub static CROSS: OpDef = OpDef {
    sig: Sig::parse("linalg_cross(Tensor input, Tensor other, *, int dim=-1) -> Tensor"),
    doc: "Cross products of vectors of three components along a dimension.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| {
        let (a, b, dim) = (c.t(linalg_cross::INPUT)?, c.t(linalg_cross::OTHER)?, c.int(linalg_cross::DIM)?);
        if a.ndim() != b.ndim() {
            return Err(Error::runtime("linalg.cross: inputs must have the same number of dimensions."));
        }
        let d = wrap_dim(dim, a.ndim())?;
        let size = |t: &Tensor| t.sizes().get(d).copied().unwrap_or(1);
        if size(a) != 3 || size(b) != 3 {
            return Err(Error::runtime(format!(
                "linalg.cross: inputs dimension {dim} must have length 3. Got {} and {}",
                size(a),
                size(b)
            )));
        }
        let shape = broadcast_shapes(a.sizes(), b.sizes())?;
        let (a, b) = (a.expand(&shape)?, b.expand(&shape)?);
        let product = |i, j| turned(&a, dim, i)?.mul(&turned(&b, dim, j)?);
        outs.give(product(1, 2)?.sub(&product(2, 1)?)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[4, 3]), SampleArg::f32(&[4, 3])])],
    amp: Amp::Widest,
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};
