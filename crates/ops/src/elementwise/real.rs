//! `real`, `imag`: A view of the real parts; a real tensor itself.

use super::unary;
use crate::named::{imag, real};
use crate::prelude::*;

/// One part of a complex tensor.
fn part(x: &Tensor, i: i64, outs: &mut Outs) -> Result<()> {
    let strides: Dims = x.strides().iter().map(|s| s * 2).collect();
    outs.view_as(real::INPUT, x, x.dtype().to_real(), Dims::from_slice(x.sizes()), strides, x.offset() * 2 + i)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("real(Tensor(a) input) -> Tensor(a)"),
    doc: "A view of the real parts; a real tensor itself.

Example::

    >>> oneflow.real(oneflow.tensor([1 + 2j]))
    tensor([1.])",
    faces: Faces::FN,
    infer: |c, outs| {
        let x = c.t(real::INPUT)?;
        if x.dtype().is_complex() { part(x, 0, outs) } else { unary::same(c, outs) }
    },
    // A real tensor is its own real part.
    compose: Some(|c, outs| {
        let x = c.t(real::INPUT)?;
        outs.give(if x.dtype().is_complex() { x.view_as_real()?.select(-1, 0)? } else { x.clone() });
        Ok(())
    }),
    grad: Grad::Rule { save: &[], fix: Fix::Broadcast, f: |c, out| out.set(real::INPUT, || Ok(c.g()?.clone())) },
    sbp: SbpRule::of(Rows::View(super::complex::same_dims)),
    samples: super::complex::complex_samples,
    sparse: Sparse::LinearValues,
    ..super::complex::VIEW
};

pub static IMAG: OpDef = OpDef {
    sig: Sig::parse("imag(Tensor(a) input) -> Tensor(a)"),
    doc: "A view of the imaginary parts.

Example::

    >>> oneflow.imag(oneflow.tensor([1 + 2j]))
    tensor([2.])",
    faces: Faces::FN,
    infer: |c, outs| {
        let x = c.t(imag::INPUT)?;
        if !x.dtype().is_complex() {
            return Err(Error::type_("imag is not implemented for tensors with non-complex dtypes."));
        }
        part(x, 1, outs)
    },
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(imag::INPUT, || c.g()?.mul(super::complex::I)) },
    sbp: SbpRule::of(Rows::View(super::complex::same_dims)),
    samples: super::complex::complex_samples,
    sparse: Sparse::LinearValues,
    ..super::complex::VIEW
};
