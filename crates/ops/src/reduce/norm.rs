//! `vector_norm`: Vector norm over all elements or the given dimension(s).

use super::*;
use crate::named::vector_norm;

pub static NORM: OpDef = OpDef {
    sig: Sig::parse(
        "vector_norm(Tensor input, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor",
    ),
    doc: "Vector norm over all elements or the given dimension(s).",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| {
        let x = c.t(vector_norm::INPUT)?;
        let x = &match c.arg(vector_norm::DTYPE).dtype() {
            Some(d) if d != x.dtype() => x.to_copy_with(Some(d), None)?,
            _ => x.clone(),
        };
        // Complex numbers count by their sizes. The squares of half types are summed before they are rounded.
        let x = &if x.dtype().is_complex() { x.abs()? } else { x.clone() };
        let (given, wide) = (x.dtype(), x.dtype().compute());
        let x = &if wide == given || !given.is_float() { x.clone() } else { x.to_copy_with(Some(wide), None)? };
        let dims = c.arg(vector_norm::DIM).ints();
        let ord = c.arg(vector_norm::ORD).scalar().map_or(2.0, Scalar::to_f64);
        let keep = c.bool(vector_norm::KEEPDIM);
        let out = if ord == 2.0 {
            x.mul(x)?.sum(dims, keep)?.sqrt()?
        } else if ord == 1.0 {
            x.abs()?.sum(dims, keep)?
        } else if ord == f64::INFINITY {
            x.abs()?.amax(dims.unwrap_or(&[]), keep)?
        } else if ord == f64::NEG_INFINITY {
            x.abs()?.amin(dims.unwrap_or(&[]), keep)?
        } else if ord == 0.0 {
            x.ne(0.0)?.sum_with(dims, keep, Some(x.dtype()))?
        } else {
            x.abs()?.pow(ord)?.sum(dims, keep)?.pow(1.0 / ord)?
        };
        outs.give(if out.dtype() == given { out } else { out.to_copy_with(Some(given), None)? });
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        vec![
            Sample::new(vec![SampleArg::f32(&[3, 4])]),
            Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Float(1.0)]),
        ]
    },
    ..super::REDUCE
};
