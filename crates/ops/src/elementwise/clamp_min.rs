//! `clamp_min`, `clamp_max`: Elements of at least `min`.

use super::{binary, clamp};
use crate::Operand;
use crate::named::{clamp_max, clamp_min};
use crate::prelude::*;

const ONE_SIDE: OpDef = OpDef {
    infer: |c, outs| {
        let d = binary::common(c)?;
        if d.is_complex() {
            return Err(Error::runtime(format!("{} is not supported for complex types", c.name())));
        }
        let limit = super::scalar_arg(c, clamp_min::MIN_SCALAR);
        let (lo, hi) = if c.name() == "clamp_min" { (limit, None) } else { (None, limit) };
        clamp::check_limits(c, d, lo, hi)?;
        super::push_broadcast(c, d, outs)
    },
    ..binary::ARITH
};

/// Where the input is kept the gradient goes to it, elsewhere to the limit; two tensors share it where they tie.
fn grads(c: &GradCall<'_>, out: &mut Grads, inside: impl Fn(Operand<'_>) -> Result<Tensor>) -> Result<()> {
    let (x, g) = (c.x(clamp_min::INPUT)?, c.g()?);
    if let Some(s) = c.arg(clamp_min::MIN_SCALAR).scalar() {
        return out.set(clamp_min::INPUT, || inside(s.into())?.r#where(g, 0.0));
    }
    let limit = c.x(clamp_min::MIN)?;
    let (kept, tie) = (inside(limit.into())?, x.eq(limit)?);
    let half = g.mul(0.5)?;
    // Where one of them is NaN both get the gradient.
    let unordered = x.ne(x)?.logical_or(&limit.ne(limit)?)?;
    out.set(clamp_min::INPUT, || tie.r#where(&half, &kept.logical_or(&unordered)?.r#where(g, 0.0)?))?;
    out.set(clamp_min::MIN, || tie.r#where(&half, &kept.r#where(0.0, g)?))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("clamp_min(Tensor input, Tensor|Scalar min) -> Tensor"),
    doc: "Elements of at least `min`.

Example::

    >>> oneflow.clamp_min(oneflow.tensor([-1., 2.]), 0)
    tensor([0., 2.])",
    kernel: Kernel::Elementwise(|c, o, p| {
        binary::lower_limit(c, o[clamp_min::RESULT].dtype().compute(), p, &clamp::TENSOR_MIN_EXPR, &clamp::MIN)
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(clamp_min::INPUT, &[clamp_min::INPUT, clamp_min::MIN]),
            Save::of(clamp_min::MIN, &[clamp_min::INPUT, clamp_min::MIN]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| grads(c, out, |limit| c.x(clamp_min::INPUT)?.gt(limit)),
    },
    ..ONE_SIDE
};

pub static CLAMP_MAX: OpDef = OpDef {
    sig: Sig::parse("clamp_max(Tensor input, Tensor|Scalar max) -> Tensor"),
    doc: "Elements of at most `max`.

Example::

    >>> oneflow.clamp_max(oneflow.tensor([-1., 2.]), 0)
    tensor([-1.,  0.])",
    kernel: Kernel::Elementwise(|c, o, p| {
        binary::lower_limit(c, o[clamp_max::RESULT].dtype().compute(), p, &clamp::TENSOR_MAX_EXPR, &clamp::MAX)
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(clamp_max::INPUT, &[clamp_max::INPUT, clamp_max::MAX]),
            Save::of(clamp_max::MAX, &[clamp_max::INPUT, clamp_max::MAX]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| grads(c, out, |limit| c.x(clamp_max::INPUT)?.lt(limit)),
    },
    ..ONE_SIDE
};
