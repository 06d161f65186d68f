//! `count_nonzero`: The number of elements that are not zero, of all or over the given dimension(s).

use super::*;
use crate::named::count_nonzero;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("count_nonzero(Tensor input, int[1]? dim=None) -> Tensor"),
    doc: "The number of elements that are not zero, of all or over the given dimension(s).

Example::

    >>> oneflow.count_nonzero(oneflow.tensor([1, 0, 2]))
    tensor(2)",
    faces: Faces::FN_METHOD,
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let x = c.t(count_nonzero::INPUT)?;
        let set = if x.dtype() == DType::Bool { x.clone() } else { x.ne(0i64)? };
        give(outs, set.sum(c.arg(count_nonzero::DIM).ints(), false)?)
    }),
    samples: || {
        let x = || SampleArg::i64(&[3, 4], 0, 3);
        vec![Sample::new(vec![x()]), Sample::new(vec![x(), SampleArg::Ints(vec![1])])]
    },
    ..COMPOSED
};
