//! `swapaxes`, `swapdims`: Another name of `transpose`.

use super::{COMPOSED, give};
use crate::named::swapaxes;
use crate::prelude::*;

fn pair_samples() -> Vec<Sample> {
    vec![Sample::new(vec![SampleArg::f32(&[2, 3, 4]), SampleArg::Int(0), SampleArg::Int(2)])]
}

fn transposed(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    give(outs, c.t(swapaxes::INPUT)?.transpose(c.int(swapaxes::AXIS0)?, c.int(swapaxes::AXIS1)?)?)
}

pub static OP: OpDef = OpDef {
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
