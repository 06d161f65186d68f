//! `masked_scatter`: A copy of `input` with the elements of `source`, in order, where `mask` is true.

use super::{COMPOSED, give};
use crate::elementwise::where_::check_mask;
use crate::named::masked_scatter;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("masked_scatter(Tensor input, Tensor mask, Tensor source) -> Tensor"),
    doc: "A copy of `input` with the elements of `source`, in order, where `mask` is true.

Example::

    >>> oneflow.masked_scatter(oneflow.zeros(3), oneflow.tensor([True, False, True]), oneflow.tensor([1., 2.]))
    tensor([1., 0., 2.])",
    faces: Faces::FN_METHOD.or(Faces::INPLACE),
    compose: Some(|c, outs| {
        let (x, m, s) = (c.t(masked_scatter::INPUT)?, c.t(masked_scatter::MASK)?, c.t(masked_scatter::SOURCE)?);
        check_mask(m, "masked_scatter_ only supports boolean masks, but got mask with dtype")?;
        if x.dtype() != s.dtype() {
            return Err(Error::runtime(format!(
                "masked_scatter: expected self and source to have same dtypes but got {} and {}",
                x.dtype().scalar_type_name(),
                s.dtype().scalar_type_name()
            )));
        }
        let sizes = broadcast_shapes(x.sizes(), m.sizes())?;
        let m = if m.dtype() == DType::Bool { m.clone() } else { m.ne(0i64)? };
        let (x, m) = (x.expand(&sizes)?, m.expand(&sizes)?);
        if s.numel() == 0 {
            return give(outs, x.clone_contiguous()?);
        }
        // The n-th true position takes the n-th element.
        let places = m.reshape(&[-1])?.cumsum(0)?.sub(1i64)?;
        let places = m.reshape(&[-1])?.r#where(&places, 0i64)?.reshape(&sizes)?;
        let taken = s.reshape(&[-1])?.index([Some(&places)]).map_err(|e| match e.kind() {
            ErrorKind::Index => Error::runtime(format!(
                "masked_scatter(): Number of elements of source < number of ones in mask (source {:?}, mask {:?})",
                s.sizes(),
                m.sizes()
            )),
            _ => e,
        })?;
        give(outs, m.r#where(&taken, &x)?.contiguous()?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::bool(&[3, 4]), SampleArg::f32(&[12])])],
    ..COMPOSED
};
