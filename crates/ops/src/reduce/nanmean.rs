//! `nanmean`: Mean of the elements that are not NaN.

use super::*;
use crate::named::nanmean;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("nanmean(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor"),
    doc: "Mean of the elements that are not NaN.

Example::

    >>> oneflow.nanmean(oneflow.tensor([1., oneflow.nan, 3.]))
    tensor(2.)",
    compose: Some(|c, outs| {
        let (x, dims, keep) = (c.t(nanmean::INPUT)?, c.arg(nanmean::DIM).ints(), c.bool(nanmean::KEEPDIM));
        if !x.dtype().is_differentiable() {
            return Err(Error::not_implemented(format!(
                "nanmean(): expected input to have floating point or complex dtype but got {}",
                x.dtype().scalar_type_name()
            )));
        }
        let n = x.isnan()?.logical_not()?.sum(dims, keep)?;
        give(outs, super::nansum::zeroed(x)?.sum_with(dims, keep, c.arg(nanmean::DTYPE).dtype())?.div(&n)?)
    }),
    ..COMPOSED
};
