//! A `Tensor|Scalar` argument, as gradient rules write it: `g.mul(&x)`, `g.mul(2.0)`.

use oneflow_base::Scalar;
use oneflow_core::Tensor;

#[derive(Clone, Copy)]
pub enum Operand<'a> {
    Tensor(&'a Tensor),
    Scalar(Scalar),
}

impl<'a> From<&'a Tensor> for Operand<'a> {
    fn from(t: &'a Tensor) -> Self {
        Operand::Tensor(t)
    }
}
impl From<f64> for Operand<'_> {
    fn from(v: f64) -> Self {
        Operand::Scalar(Scalar::Float(v))
    }
}
impl From<i64> for Operand<'_> {
    fn from(v: i64) -> Self {
        Operand::Scalar(Scalar::Int(v))
    }
}
impl From<Scalar> for Operand<'_> {
    fn from(v: Scalar) -> Self {
        Operand::Scalar(v)
    }
}
