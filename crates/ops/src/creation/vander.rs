//! `vander`: The matrix of powers of a vector's elements: N columns, the highest power first unless `increasing`.

use super::{COMPOSED, give};
use crate::named::vander;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("vander(Tensor x, int? N=None, bool increasing=False) -> Tensor"),
    doc: "The matrix of powers of a vector's elements: N columns, the highest power first unless `increasing`.

Example::

    >>> oneflow.vander(oneflow.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [4, 2, 1],
            [9, 3, 1]])",
    faces: Faces::FN,
    compose: Some(|c, outs| {
        let x = c.t(vander::X)?;
        if x.ndim() != 1 {
            return Err(Error::runtime("x must be a one-dimensional tensor."));
        }
        let n = c.arg(vander::N).int().unwrap_or(x.numel());
        if n < 0 {
            return Err(Error::runtime(format!("N must be non-negative, got {n}")));
        }
        let dtype = if x.dtype().is_differentiable() { x.dtype() } else { DType::I64 };
        let x = if x.dtype() == dtype { x.clone() } else { x.to_copy_with(Some(dtype), None)? };
        if n == 0 {
            return give(outs, x.new_zeros(&[x.numel(), 0])?);
        }
        let ones = x.new_ones(&[x.numel(), 1])?;
        let powers = f::cat([&ones, &x.unsqueeze(1)?.expand(&[x.numel(), n - 1])?], 1)?.cumprod(1)?;
        give(outs, if c.bool(vander::INCREASING) { powers } else { powers.flip(&[1])? })
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3])])],
    ..COMPOSED
};
