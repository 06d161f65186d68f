//! Other names and small views of dimensions: swapaxes, moveaxis, adjoint, ravel.

use super::{COMPOSED, give};
use crate::named::{adjoint, moveaxis, ravel, swapaxes};
use crate::prelude::*;

fn pair_samples() -> Vec<Sample> {
    vec![Sample::new(vec![SampleArg::f32(&[2, 3, 4]), SampleArg::Int(0), SampleArg::Int(2)])]
}

fn transposed(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    give(outs, c.t(swapaxes::INPUT)?.transpose(c.int(swapaxes::AXIS0)?, c.int(swapaxes::AXIS1)?)?)
}

pub static SWAPAXES: OpDef = OpDef {
    sig: Sig::parse("swapaxes(Tensor(a) input, int axis0, int axis1) -> Tensor(a)"),
    doc: "Another name of `transpose`.

Example::

    >>> oneflow.swapaxes(oneflow.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])",
    compose: Some(transposed),
    samples: pair_samples,
    ..COMPOSED
};

pub static SWAPDIMS: OpDef = OpDef {
    sig: Sig::parse("swapdims(Tensor(a) input, int dim0, int dim1) -> Tensor(a)"),
    doc: "Another name of `transpose`.

Example::

    >>> oneflow.swapdims(oneflow.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])",
    compose: Some(transposed),
    samples: pair_samples,
    ..COMPOSED
};

pub static MOVEAXIS: OpDef = OpDef {
    sig: Sig::parse("moveaxis(Tensor(a) input, int[1] source, int[1] destination) -> Tensor(a)"),
    doc: "Another name of `movedim`.

Example::

    >>> oneflow.moveaxis(oneflow.zeros(2, 3, 4), 0, 2).shape
    oneflow.Size([3, 4, 2])",
    compose: Some(|c, outs| {
        give(outs, c.t(moveaxis::INPUT)?.movedim(c.ints(moveaxis::SOURCE)?, c.ints(moveaxis::DESTINATION)?)?)
    }),
    samples: || {
        vec![Sample::new(vec![SampleArg::f32(&[2, 3, 4]), SampleArg::Ints(vec![0, 1]), SampleArg::Ints(vec![2, 0])])]
    },
    ..COMPOSED
};

pub static ADJOINT: OpDef = OpDef {
    sig: Sig::parse("adjoint(Tensor(a) input) -> Tensor(a)"),
    doc: "The last two dimensions exchanged, and complex numbers conjugated.

Example::

    >>> oneflow.adjoint(oneflow.zeros(2, 3)).shape
    oneflow.Size([3, 2])",
    compose: Some(|c, outs| {
        let x = c.t(adjoint::INPUT)?;
        if x.ndim() < 2 {
            return Err(Error::runtime(format!(
                "tensor.adjoint() is only supported on matrices or batches of matrices. Got {}-D tensor.",
                x.ndim()
            )));
        }
        give(outs, x.transpose(-2, -1)?.conj()?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3])])],
    ..COMPOSED
};

pub static RAVEL: OpDef = OpDef {
    sig: Sig::parse("ravel(Tensor(a) input) -> Tensor(a)"),
    doc: "All elements as one dimension: a view where that is possible.

Example::

    >>> oneflow.ravel(oneflow.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])",
    compose: Some(|c, outs| give(outs, c.t(ravel::INPUT)?.contiguous()?.view(&[-1])?)),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3])]), Sample::new(vec![SampleArg::f32(&[])])],
    ..COMPOSED
};
