//! `aminmax`: The smallest and the greatest element, of all or along a dimension.

use super::*;
use crate::named::aminmax;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("aminmax(Tensor input, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)"),
    doc: "The smallest and the greatest element, of all or along a dimension.

Example::

    >>> oneflow.aminmax(oneflow.tensor([1., 3.])).max
    tensor(3.)",
    compose: Some(|c, outs| {
        let (x, keep) = (c.t(aminmax::INPUT)?, c.bool(aminmax::KEEPDIM));
        if x.numel() == 0 && c.arg(aminmax::DIM).is_none() {
            return Err(Error::runtime(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.",
            ));
        }
        let one = c.arg(aminmax::DIM).int().map(|d| [d]);
        let dims = one.as_ref().map_or(&[][..], |d| &d[..]);
        if let Some(&[d]) = one.as_ref()
            && x.sizes().get(wrap_dim(d, x.ndim())?) == Some(&0)
        {
            return Err(Error::index(format!("aminmax: Expected reduction dim {d} to have non-zero size.")));
        }
        give_all(outs, [x.amin(dims, keep)?, x.amax(dims, keep)?])
    }),
    samples: || {
        let x = || vec![SampleArg::f32(&[3, 4])];
        vec![Sample::new(x()), Sample::new(x()).kw("dim", SampleArg::Int(1))]
    },
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};
