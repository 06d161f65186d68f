//! `logspace`: `steps` numbers whose logarithms (to `base`) are evenly spaced from `start` to `end` (inclusive).

use super::give;
use crate::named::logspace;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "logspace(Tensor|Scalar start, Tensor|Scalar end, int steps, float base=10.0, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "`steps` numbers whose logarithms (to `base`) are evenly spaced from `start` to `end` (inclusive).

Example::

    >>> oneflow.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])",
    compose: Some(|c, outs| {
        let n = super::linspace::steps(c, c.int(logspace::STEPS)?)?;
        let device = c.arg(logspace::DEVICE).device().or(c.ins.iter().flatten().next().map(|t| t.device()));
        let dtype = super::linspace::dtype_of(c, logspace::START_SCALAR, logspace::END_SCALAR, logspace::DTYPE)?;
        let start = super::linspace::end(c, logspace::START, logspace::START_SCALAR, "start")?;
        let end = super::linspace::end(c, logspace::END, logspace::END_SCALAR, "end")?;
        // The only number of a sequence is not rounded before the power is taken.
        let exponents = if n == 1 && !dtype.is_complex() { DType::F64 } else { dtype };
        let logs = super::linspace::between(&start, &end, n, exponents, device)?;
        give(outs, super::linspace::cast(f::pow_scalar(c.float(logspace::BASE)?, &logs)?, dtype)?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::Float(0.0), SampleArg::Float(1.0), SampleArg::Int(5)])],
    ..super::linspace::RANGE
};
