//! `l1_loss`: `|input - target|`, reduced.

use super::*;
use crate::named::l1_loss;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("l1_loss(Tensor input, Tensor target, str reduction=\"mean\", Tensor? weight=None) -> Tensor"),
    doc: "`|input - target|`, reduced.

Example::

    >>> oneflow.nn.functional.l1_loss(oneflow.tensor([1., 2.]), oneflow.tensor([0., 4.]))
    tensor(1.5000)",
    compose: Some(|c, outs| super::mse_loss::finish(c, outs, c.t(l1_loss::INPUT)?.sub(c.t(l1_loss::TARGET)?)?.abs()?)),
    samples: super::mse_loss::samples,
    ..LOSS
};
