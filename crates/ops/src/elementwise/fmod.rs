//! `fmod`: Remainder with the dividend's sign, as C's `fmod`.

use super::binary;
use crate::named::fmod;
use crate::prelude::*;

static FMOD_TENSOR: Expr = expr!(num "fmod", |x, y| x.rem_trunc(y)).nonzero(1);

static FMOD_SCALAR: Expr = expr!(num "fmod_scalar", |x; p| x.rem_trunc(p[0]));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("fmod(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "Remainder with the dividend's sign, as C's `fmod`.

Example::

    >>> oneflow.fmod(oneflow.tensor([-5, 5]), 3)
    tensor([-2,  2])",
    infer: |c, outs| {
        super::div::check_zero(c, binary::common(c)?)?;
        binary::infer(c, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| {
        binary::lower(c, o[fmod::RESULT].dtype().compute(), p, &FMOD_TENSOR, &FMOD_SCALAR)
    }),
    grad: Grad::Rule {
        save: &[Save::of(fmod::INPUT, &[fmod::OTHER]), Save::of(fmod::OTHER, &[fmod::OTHER])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(fmod::INPUT, || Ok(c.g()?.clone()))?;
            out.set(fmod::OTHER, || c.g()?.mul(&c.x(fmod::INPUT)?.div_with(c.x(fmod::OTHER)?, Some("trunc"))?)?.neg())
        },
    },
    samples: || {
        vec![
            Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::range(&[4], 0.5, 2.0)]),
            Sample::new(vec![SampleArg::i64(&[5], -9, 9), SampleArg::Int(3)]),
        ]
    },
    ..binary::ARITH
};
