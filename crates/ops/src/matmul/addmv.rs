//! `addmv`: `beta * input + alpha * (mat @ vec)`.

use super::addmm::{factor, times};
use super::*;
use crate::named::addmv;

pub(super) const COMPOSED: OpDef = OpDef {
    faces: Faces::FN_METHOD_OUT,
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    cost,
    // Products with vectors keep their precision, and what they are made of with them.
    amp: Amp::WIDEST,
    ..OpDef::BASE
};

/// `beta * input + alpha * product`, rounded once where the dtype is a half type.
pub(super) fn affine(c: &Call<'_>, product: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Tensor> {
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
    scalar_range::check_factor(c, dtype, c.arg(addmv::BETA).scalar())?;
    scalar_range::check_factor(c, dtype, c.arg(addmv::ALPHA).scalar())?;
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
        Some(beta) if beta.parts() == (0.0, 0.0) => out,
        beta => times(&cast(x)?.expand(&shape)?, beta)?.add(&out)?,
    };
    if out.dtype() == dtype { Ok(out) } else { out.to_copy_with(Some(dtype), None) }
}

#[cold]
pub(super) fn mismatch(c: &Call<'_>, what: &str) -> Error {
    let sizes = |at: In| c.opt(at).map_or(&[][..], |t| t.sizes());
    Error::runtime(format!("{}(): {what}, got {:?} and {:?}", c.name(), sizes(addmv::MAT), sizes(addmv::VEC)))
}

pub static OP: OpDef = OpDef {
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
