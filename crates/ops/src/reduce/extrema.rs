//! What greatest and least elements share: the refusal of empty dimensions, the kernel that finds positions, samples.

use super::*;
use crate::named::{amax, max_dim};

/// A reduction to an extreme has no value for no elements.
pub(super) fn not_empty(c: &Call<'_>, mask: u64) -> Result<()> {
    let x = c.t(amax::INPUT)?;
    if x.sizes().iter().enumerate().any(|(i, s)| *s == 0 && mask >> i & 1 == 1) || (x.numel() == 0 && mask == 0) {
        let text = format!(
            "{}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument. (shape {:?})",
            c.name(),
            x.sizes()
        );
        // torch's class where no dim was named.
        let whole = c.op.sig.arg_index("dim").is_none_or(|i| matches!(c.args[i], Arg::Ints([])));
        return Err(if whole { Error::runtime(text) } else { Error::index(text) });
    }
    Ok(())
}

pub(super) fn whole(c: &Call<'_>, outs: &mut Outs, of: fn(&Tensor) -> Result<Tensor>) -> Result<()> {
    not_empty(c, dim_mask(c.name(), Arg::None, c.t(amax::INPUT)?.ndim())?)?;
    give(outs, of(c.t(amax::INPUT)?)?)
}

pub(super) fn lower_arg(c: &Call<'_>, outs: &Outs, l: &mut Lowered, is_max: bool, values: bool) -> Result<()> {
    let x = c.t(max_dim::INPUT)?;
    let dim = wrap_dim(c.arg(max_dim::DIM).int().unwrap_or(0), x.ndim())?;
    let sizes = kept_sizes(x.sizes(), if x.ndim() == 0 { 0 } else { 1 << dim });
    let strides = contiguous_strides(&sizes);
    l.input(max_dim::INPUT);
    if values {
        l.output_as(max_dim::VALUES, sizes.clone(), strides.clone(), outs[max_dim::VALUES].offset());
        l.output_as(max_dim::INDICES, sizes, strides, outs[max_dim::INDICES].offset());
    } else {
        l.no_output().output_as(max_dim::VALUES, sizes, strides, outs[max_dim::VALUES].offset());
    }
    l.with(ArgReduceParams { is_max, dim });
    Ok(())
}

/// Every dim but the reduced one may be split.
pub(super) fn along_dim_rows(c: &Call<'_>, rows: &mut Vec<Row>) -> Result<()> {
    let x = c.t(max_dim::INPUT)?;
    let Some(dim) = c.arg(max_dim::DIM).int() else { return Ok(()) };
    let (dim, keepdim) = (wrap_dim(dim, x.ndim())?, c.bool(max_dim::KEEPDIM));
    for i in (0..x.ndim()).filter(|i| *i != dim) {
        let to = Sbp::S((i - (!keepdim && i > dim) as usize) as u8);
        let n = c.op.sig.returns().len();
        rows.push(Row { ins: SmallVec::from_slice(&[Sbp::S(i as u8)]), outs: SmallVec::from_elem(to, n) });
    }
    Ok(())
}

pub(super) fn arg_samples() -> Vec<Sample> {
    let t = |s: &[i64], d, k| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d), SampleArg::Bool(k)]);
    vec![t(&[3, 4], 1, false), t(&[2, 3, 4], 1, true), t(&[5], 0, false), t(&[], 0, false)]
}
