//! Sums and means that leave NaN out.

use super::*;

/// The tensor with zeros in place of NaN.
fn zeroed(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_float() { x.isnan()?.r#where(0.0, x) } else { Ok(x.clone()) }
}

pub static NANSUM: OpDef = OpDef {
    sig: Sig::parse("nansum(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor"),
    doc: "Sum of the elements that are not NaN.

Example::

    >>> oneflow.nansum(oneflow.tensor([1., oneflow.nan]))
    tensor(1.)",
    compose: Some(|c, outs| {
        let x = c.t(0)?;
        if x.dtype().is_complex() {
            return Err(Error::runtime("nansum does not support complex inputs"));
        }
        give(outs, zeroed(x)?.sum_with(c.arg(0).ints(), c.bool(1), c.arg(2).dtype())?)
    }),
    ..COMPOSED
};

pub static NANMEAN: OpDef = OpDef {
    sig: Sig::parse("nanmean(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor"),
    doc: "Mean of the elements that are not NaN.

Example::

    >>> oneflow.nanmean(oneflow.tensor([1., oneflow.nan, 3.]))
    tensor(2.)",
    compose: Some(|c, outs| {
        let (x, dims, keep) = (c.t(0)?, c.arg(0).ints(), c.bool(1));
        if !x.dtype().is_differentiable() {
            return Err(Error::not_implemented(format!(
                "nanmean(): expected input to have floating point or complex dtype but got {}",
                x.dtype().scalar_type_name()
            )));
        }
        let n = x.isnan()?.logical_not()?.sum(dims, keep)?;
        give(outs, zeroed(x)?.sum_with(dims, keep, c.arg(2).dtype())?.div(&n)?)
    }),
    ..COMPOSED
};
