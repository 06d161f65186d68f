//! `lerp`: `input + weight * (end - input)`, with broadcasting.

use super::{binary, dual};
use crate::named::{addcmul, lerp};
use crate::prelude::*;

/// `x + w * (y - x)`, counted from the end that is nearer: at a weight of one it is `y`.
#[inline(always)]
fn from_nearer<L: Lanes>(x: L, y: L, w: L) -> L {
    let near = w.abs().lt(L::splat(0.5));
    L::select(near, w, w - L::splat(1.0)).mul_add(y - x, L::select(near, x, y))
}

static TENSOR: Expr = expr!(float "lerp", |x, y, w| from_nearer(x, y, w)).complex(complex!(|x, y, w| x + w * (y - x)));

static SCALAR: Expr =
    expr!(float "lerp_scalar", |x, y; p| from_nearer(x, y, p[0])).complex(complex!(|x, y; p| x + p[0] * (y - x)));

pub(super) fn three() -> Vec<Sample> {
    let t =
        |s: &[i64], u: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::f32(s), SampleArg::range(u, 0.5, 2.0)]);
    vec![t(&[3, 4], &[3, 4]), t(&[3, 4], &[4]), t(&[], &[])]
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("lerp(Tensor input, Tensor end, Tensor|Scalar weight) -> Tensor"),
    doc: "`input + weight * (end - input)`, with broadcasting.

Example::

    >>> oneflow.lerp(oneflow.tensor([0.]), oneflow.tensor([10.]), 0.3)
    tensor([3.])",
    infer: |c, outs| {
        let (x, y) = (c.t(lerp::INPUT)?, c.t(lerp::END)?);
        if x.dtype() != y.dtype() {
            return Err(Error::runtime(format!(
                "lerp(): expected dtype {} for `end` but got dtype {}",
                x.dtype(),
                y.dtype()
            )));
        }
        super::push_broadcast(c, x.dtype(), outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| {
        binary::lower_wide(c, o[lerp::RESULT].dtype().compute(), p, &TENSOR, &SCALAR)
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(lerp::WEIGHT, &[lerp::INPUT, lerp::END]),
            Save::of(lerp::INPUT, &[lerp::WEIGHT]),
            Save::of(lerp::END, &[lerp::WEIGHT]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let by = |g: &Tensor| match c.arg(lerp::WEIGHT_SCALAR).scalar() {
                Some(w) => g.mul(w.conj()),
                None => g.mul(&dual(c.x(lerp::WEIGHT)?)?),
            };
            out.set(lerp::INPUT, || c.g()?.sub(&by(c.g()?)?))?;
            out.set(lerp::END, || by(c.g()?))?;
            out.set(lerp::WEIGHT, || c.g()?.mul(&dual(&c.x(lerp::END)?.sub(c.x(lerp::INPUT)?)?)?))
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[lerp::INPUT, lerp::END])] }),
    samples: three,
    ..binary::ARITH
};

pub(super) fn lower(c: &Call<'_>, outs: &Outs, p: &mut Params, expr: &'static Expr) -> Result<&'static Expr> {
    let compute = outs[addcmul::RESULT].dtype().compute();
    p.push(compute.into());
    super::push_scalar(p, compute, c.arg(addcmul::VALUE).scalar().unwrap_or(Scalar::Int(1)));
    Ok(expr)
}
