//! `conj`, `conj_physical`: The complex conjugate, elementwise; a real tensor itself.

use super::unary;
use crate::named::{conj, conj_physical};
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("conj(Tensor(a) input) -> Tensor(a)"),
    doc: "The complex conjugate, elementwise; a real tensor itself.

Example::

    >>> oneflow.conj(oneflow.tensor([1 + 2j]))
    tensor([1.-2.j])",
    infer: unary::same,
    compose: Some(|c, outs| {
        let x = c.t(conj::INPUT)?;
        outs.give(if x.dtype().is_complex() { x.conj_physical()? } else { x.clone() });
        Ok(())
    }),
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(conj::INPUT, || super::dual(c.g()?)) },
    sbp: SbpRule::of(Rows::View(super::complex::same_dims)),
    samples: super::complex::complex_samples,
    ..super::complex::VIEW
};

static CONJ_EXPR: Expr = expr!(num "conj_physical", |x| x).complex(complex!(|x| x.conj()));

pub static CONJ_PHYSICAL: OpDef = OpDef {
    sig: Sig::parse("conj_physical(Tensor input) -> Tensor"),
    doc: "The complex conjugate, elementwise, in new memory.

Example::

    >>> oneflow.conj_physical(oneflow.tensor([1 + 2j]))
    tensor([1.-2.j])",
    infer: unary::like,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &CONJ_EXPR)),
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(conj_physical::INPUT, || super::dual(c.g()?)) },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[conj_physical::INPUT])] }),
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    limited: Limited::COMPLEX,
    sparse: Sparse::LinearValues,
    ..unary::SAME
};
