//! `isclose`: True where `abs(input - other) <= atol + rtol * abs(other)`.

use crate::named::isclose;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "isclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
    ),
    doc: "True where `abs(input - other) <= atol + rtol * abs(other)`.

Example::

    >>> oneflow.isclose(oneflow.tensor([1., 2.]), oneflow.tensor([1., 2.1]))
    tensor([ True, False])",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        let (x, y) = (c.t(isclose::INPUT)?, c.t(isclose::OTHER)?);
        if x.dtype() != y.dtype() {
            return Err(Error::runtime(format!(
                "{} did not match {}",
                x.dtype().scalar_type_name(),
                y.dtype().scalar_type_name()
            )));
        }
        for (name, v) in [("rtol", c.float(isclose::RTOL)?), ("atol", c.float(isclose::ATOL)?)] {
            if v < 0.0 || v.is_nan() {
                return Err(Error::runtime(format!("{name} must be greater than or equal to zero, but got {v}")));
            }
        }
        super::push_broadcast(c, DType::Bool, outs)
    },
    compose: Some(|c, outs| {
        (c.op.infer)(c, &mut Outs::new())?;
        let (x, y, rtol, atol) =
            (c.t(isclose::INPUT)?, c.t(isclose::OTHER)?, c.float(isclose::RTOL)?, c.float(isclose::ATOL)?);
        let mut close = x.eq(y)?;
        if c.bool(isclose::EQUAL_NAN) && x.dtype().is_differentiable() {
            close = close.logical_or(&x.isnan()?.logical_and(&y.isnan()?)?)?;
        }
        if rtol != 0.0 || atol != 0.0 {
            // Integers are compared as floats; booleans have no difference.
            let wide = |t: &Tensor| match t.dtype() {
                DType::Bool => t.to_copy_with(Some(default_dtype()), None),
                d if d.is_int() => t.to_copy_with(Some(DType::F64), None),
                _ => Ok(t.clone()),
            };
            let (x, y) = (wide(x)?, wide(y)?);
            let allowed = y.mul(rtol)?.abs()?.add(atol)?;
            let actual = x.sub(&y)?.abs()?;
            close = close.logical_or(&actual.isfinite()?.logical_and(&actual.le(&allowed)?)?)?;
        }
        outs.give(close);
        Ok(())
    }),
    sbp: SbpRule::of(Rows::Compose),
    samples: super::two_tensors,
    ..OpDef::BASE
};
