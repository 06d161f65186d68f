//! `masked_select`: The elements where `mask` is true, as a vector.

use crate::elementwise::where_::check_mask;
use crate::named::masked_select;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("masked_select(Tensor input, Tensor mask) -> Tensor"),
    doc: "The elements where `mask` is true, as a vector.

Example::

    >>> oneflow.masked_select(oneflow.tensor([1., 2., 3.]), oneflow.tensor([True, False, True]))
    tensor([1., 3.])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, _| {
        Err(Error::not_implemented(format!(
            "{}(): the shape of the result depends on the data; it has none before it runs",
            c.name()
        )))
    },
    shape: ShapeOf::Data,
    compose: Some(|c, outs| {
        let (x, m) = (c.t(masked_select::INPUT)?, c.t(masked_select::MASK)?);
        // OneFlow's takes floats too, true where they are not zero.
        if !(m.dtype().is_float() && oneflow_conventions()) {
            check_mask(m, "masked_select: expected BoolTensor for mask, but got mask with dtype")?;
        }
        let sizes = broadcast_shapes(x.sizes(), m.sizes())?;
        let (x, m) = (x.expand(&sizes)?.reshape(&[-1])?, m.expand(&sizes)?.reshape(&[-1])?);
        outs.give(x.index_select(0, &m.nonzero()?.reshape(&[-1])?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    traits: Traits::HOST_SYNC.or(Traits::EXACT_OUT),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::bool(&[3, 4])])],
    ..OpDef::BASE
};
