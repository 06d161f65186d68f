//! `uniform`: Fills the tensor with uniform numbers in [from, to).

use crate::named::uniform;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("uniform(Tensor input, float from=0, float to=1, *, Generator? generator=None) -> Tensor"),
    doc: "Fills the tensor with uniform numbers in [from, to).

Example::

    >>> oneflow.zeros(2).uniform_(1, 2).shape
    oneflow.Size([2])",
    infer: |c, outs| {
        let (a, b) = (c.float(uniform::FROM)?, c.float(uniform::TO)?);
        if a > b || a.is_nan() || b.is_nan() {
            return Err(Error::runtime(format!(
                "uniform_ expects to return a [from, to) range, but found from={a} > to={b}"
            )));
        }
        let dtype = c.t(uniform::INPUT)?.dtype();
        // Half types hold less than a double; the largest of the others bound themselves.
        let most = match dtype {
            DType::F16 => 65504.0,
            DType::BF16 => 3.389_531_389_251_535_5e38,
            DType::F32 => f32::MAX.into(),
            _ => f64::MAX,
        };
        for (what, end) in [("from", a), ("to", b)] {
            if end.abs() > most {
                return Err(Error::runtime(format!("uniform_(): {what} is out of bounds for {}", dtype.name())));
            }
        }
        if b - a > most {
            return Err(Error::runtime(format!(
                "uniform_ expects to-from <= {most:e}, the largest {}, but found to={b:e} and from={a:e} which result in \
                 to-from to exceed the limit",
                dtype.name()
            )));
        }
        super::draw::drawn(c, dtype)?;
        (super::draw::FILL_WITH.infer)(c, outs)
    },
    kernel: Kernel::Prim {
        prim: &RANDOM,
        lower: |c, _, l| {
            super::draw::draw(
                l,
                RandomKind::Uniform,
                c.arg(uniform::GENERATOR),
                c.float(uniform::FROM)?,
                c.float(uniform::TO)?,
            )
        },
    },
    compose: Some(|c, outs| {
        super::draw::of_parts(c, outs, c.arg(uniform::GENERATOR), |sizes, g, d, device| {
            let parts = f::empty_with(sizes, Some(d), Some(device), false, None)?;
            parts.uniform_with_(c.float(uniform::FROM)?, c.float(uniform::TO)?, Some(g))?;
            Ok(parts)
        })
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..super::draw::FILL_WITH
};
