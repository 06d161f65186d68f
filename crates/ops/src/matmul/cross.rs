//! `linalg_cross`: Cross products of vectors of three components along a dimension.

use super::*;
use crate::named::linalg_cross;

/// The three components one (two) places on, around.
fn turned(t: &Tensor, dim: i64, by: i64) -> Result<Tensor> {
    f::cat([&t.narrow(dim, by, 3 - by)?, &t.narrow(dim, 0, by)?], dim)
}

pub static OP: OpDef = OpDef {
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
    amp: Amp::WIDEST,
    traits: Traits::EXACT_OUT,
    ..super::addmv::COMPOSED
};
