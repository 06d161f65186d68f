//! `nonzero`, `nonzero_tuple`: Indices of the non-zero elements, one row each.

use crate::named::{nonzero, nonzero_tuple};
use crate::prelude::*;

fn count(x: &Tensor) -> Result<i64> {
    let n = Tensor::empty(DType::I64, x.device(), &[])?;
    let mut l = Lowered::new(&COUNT_NONZERO);
    l.input(nonzero::INPUT).output(nonzero::RESULT);
    run_lowered(&l, &[Some(x)], std::slice::from_ref(&n))?;
    let host = copy_to_host(&n)?;
    // SAFETY: the host copy holds one i64.
    Ok(unsafe { host.data_ptr().cast::<i64>().read() })
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("nonzero(Tensor input) -> Tensor"),
    doc: "Indices of the non-zero elements, one row each.

Example::

    >>> oneflow.nonzero(oneflow.tensor([0, 3, 0, 4]))
    tensor([[1],
            [3]])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, _| {
        Err(Error::not_implemented(format!(
            "{}(): the shape of the result depends on the data; it has none before it runs",
            c.name()
        )))
    },
    shape: ShapeOf::Data,
    kernel: Kernel::Host(|c, outs| {
        let x = c.t(nonzero::INPUT)?;
        // One column a dimension, each contiguous.
        let n = count(x)?;
        let (sizes, strides) = ([n, x.ndim() as i64], [1, n]);
        let out = Tensor::shell(DType::I64, x.device(), Dims::from_slice(&sizes), Dims::from_slice(&strides))?;
        out.materialize()?;
        let mut l = Lowered::new(&NONZERO);
        l.input(nonzero::INPUT).output(nonzero::RESULT);
        run_lowered(&l, &[Some(x)], std::slice::from_ref(&out))?;
        outs.give(out);
        Ok(())
    }),
    traits: Traits::HOST_SYNC.or(Traits::EXACT_OUT),
    samples: || vec![Sample::new(vec![SampleArg::bool(&[3, 4])]), Sample::new(vec![SampleArg::bool(&[])])],
    limited: Limited::COMPLEX,
    ..OpDef::BASE
};

pub static TUPLE: OpDef = OpDef {
    sig: Sig::parse("nonzero_tuple(Tensor input) -> Tensor[]"),
    doc: "Indices of the non-zero elements, one tensor a dimension: what `nonzero(as_tuple=True)` gives.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| {
        let x = c.t(nonzero_tuple::INPUT)?;
        // A number counts as one element of a vector.
        let set = if x.ndim() == 0 { x.reshape(&[1])?.nonzero()? } else { x.nonzero()? };
        for part in set.unbind(1)? {
            outs.give(part);
        }
        Ok(())
    }),
    kernel: Kernel::None,
    ..OP
};
