//! `_standard_gamma`, `gamma_doubles`: Gamma numbers of the given shapes and scale one.

use crate::named::gamma_doubles;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("_standard_gamma(Tensor input, Generator? generator=None) -> Tensor"),
    doc: "Gamma numbers of the given shapes and scale one.

Example::

    >>> oneflow._standard_gamma(oneflow.ones(3)).shape
    oneflow.Size([3])",
    infer: super::distributions::same_float,
    compose: Some(|c, outs| super::distributions::in_doubles(c, outs, |t, g| t[0].gamma_doubles_with(Some(g)))),
    grad: Grad::Never,
    samples: || vec![Sample::new(vec![SampleArg::range(&[3, 4], 0.5, 5.0)])],
    ..super::distributions::BY_TENSORS
};

pub static GAMMA_DOUBLES: OpDef = OpDef {
    sig: Sig::parse("gamma_doubles(Tensor input, *, Generator? generator=None) -> Tensor"),
    doc: "Gamma numbers of float64.",
    kernel: Kernel::Prim {
        prim: &RANDOM_BY,
        lower: |c, o, l| {
            super::distributions::by(
                l,
                c,
                o,
                RandomByKind::Gamma,
                &[gamma_doubles::INPUT],
                c.arg(gamma_doubles::GENERATOR),
            )
        },
    },
    ..super::distributions::DOUBLES
};
