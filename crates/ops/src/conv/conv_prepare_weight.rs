//! What the compiler puts before a run: a convolution's weight in the order in which `native_conv_prepared` multiplies it.

use super::*;
use crate::named::conv_prepare_weight as at;

/// A weight by its sizes, checked.
pub fn prepared(name: &str, sizes: &[i64], at_points: bool) -> Result<(PreparedWeight, i64)> {
    let weight = <[i64; 4]>::try_from(sizes).ok().map(|sizes| PreparedWeight { sizes, at_points });
    match weight.and_then(|w| Some((w, w.numbers()?))) {
        Some(found) => Ok(found),
        None => Err(Error::runtime(format!(
            "{name}(): a weight of shape {sizes:?} has no prepared form{}",
            if at_points { " at Winograd's points" } else { "" }
        ))),
    }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("conv_prepare_weight(Tensor weight, bool at_points) -> Tensor"),
    doc: "The weight of a convolution in two dimensions, of one group, as `native_conv_prepared` reads it: panels of outputs, or the same at the points of Winograd's algorithm.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let weight = c.t(at::WEIGHT)?;
        if weight.dtype() != DType::F32 {
            return Err(Error::not_implemented(format!(
                "\"conv_prepare_weight\" not implemented for '{}'",
                weight.dtype().scalar_type_name()
            )));
        }
        let (_, len) = prepared("conv_prepare_weight", weight.sizes(), c.bool(at::AT_POINTS))?;
        outs.push(weight.dtype(), weight.device(), &[len])
    },
    kernel: Kernel::Prim {
        prim: &CONV_PREPARE,
        lower: |c, _, l| {
            l.input(at::WEIGHT).output(at::RESULT);
            l.with(ConvPrepareParams { at_points: c.bool(at::AT_POINTS) });
            Ok(())
        },
    },
    sbp: SbpRule::of(Rows::OnlyB { why: "the compiler makes it after every rank has its own part" }),
    ..OpDef::BASE
};
