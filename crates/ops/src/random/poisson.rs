//! `poisson`, `poisson_doubles`: Poisson numbers of the given rates.

use crate::named::poisson_doubles;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("poisson(Tensor input, Generator? generator=None) -> Tensor"),
    doc: "Poisson numbers of the given rates.

Example::

    >>> oneflow.poisson(oneflow.zeros(2))
    tensor([0., 0.])",
    infer: super::distributions::same_float,
    compose: Some(|c, outs| super::distributions::in_doubles(c, outs, |t, g| t[0].poisson_doubles_with(Some(g)))),
    samples: || vec![Sample::new(vec![SampleArg::range(&[3, 4], 0.5, 20.0)])],
    ..super::distributions::BY_TENSORS
};

pub static POISSON_DOUBLES: OpDef = OpDef {
    sig: Sig::parse("poisson_doubles(Tensor input, *, Generator? generator=None) -> Tensor"),
    doc: "poisson of float64.",
    kernel: Kernel::Prim {
        prim: &RANDOM_BY,
        lower: |c, o, l| {
            super::distributions::by(
                l,
                c,
                o,
                RandomByKind::Poisson,
                &[poisson_doubles::INPUT],
                c.arg(poisson_doubles::GENERATOR),
            )
        },
    },
    ..super::distributions::DOUBLES
};
