//! What forms ask of a call: its factor, its dtype, and the error of one that has no form.

use oneflow_base::{Arg, Error, Result, Scalar};
use oneflow_core::{AnyArg, Call, Tensor};
use oneflow_ops::TensorOps;

#[cold]
pub(crate) fn refused(c: &Call<'_>) -> Error {
    Error::not_implemented(format!("{}(): has no form for sparse tensors ({})", c.name(), c.describe()))
}

/// Values in the dtype that a call like `zeros_like` asks for.
pub(crate) fn in_dtype(c: &Call<'_>, values: Tensor) -> Result<Tensor> {
    match c.args.first().and_then(|a| a.dtype()) {
        Some(dtype) if dtype != values.dtype() => values.to_copy_with(Some(dtype), None),
        _ => Ok(values),
    }
}

/// No values of these sizes, in the dtype and on the device that a call like `new_zeros` asks for.
pub(crate) fn new_values(c: &Call<'_>, like: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    like.new_zeros_with(sizes, c.arg(AnyArg::nth(1)).dtype(), c.arg(AnyArg::nth(2)).device(), false)
}

/// The factor `alpha` of an addition, with a sign.
pub(crate) fn scaled(alpha: Arg<'_>, sign: i64) -> Scalar {
    match alpha {
        Arg::Float(a) => Scalar::Float(a * sign as f64),
        Arg::Int(a) => Scalar::Int(a * sign),
        Arg::Complex(re, im) => Scalar::Complex(re * sign as f64, im * sign as f64),
        _ => Scalar::Int(sign),
    }
}
