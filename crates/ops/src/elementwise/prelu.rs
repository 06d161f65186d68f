//! `prelu`, `prelu_kernel`: `x` where it is positive, `weight * x` elsewhere; one weight, or one a channel
//! (dimension one).

use super::unary;
use crate::named::{prelu, prelu_kernel};
use crate::prelude::*;

static PRELU_EXPR: Expr = expr!(float "prelu", |x, w| L::select(x.gt(L::splat(0.0)), x, x * w));

/// The weight with its channels at the input's dimension one.
fn by_channel(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    if w.ndim() == 0 || x.ndim() < 2 {
        return Ok(w.clone());
    }
    let mut sizes: Dims = SmallVec::from_elem(1, x.ndim());
    sizes[1] = w.numel();
    w.reshape(&sizes)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("prelu(Tensor input, Tensor weight) -> Tensor"),
    doc: "`x` where it is positive, `weight * x` elsewhere; one weight, or one a channel (dimension one).

Source: He et al., \"Delving Deep into Rectifiers\", 2015.

Example::

    >>> oneflow.prelu(oneflow.tensor([-1., 2.]), oneflow.tensor([0.25]))
    tensor([-0.2500,  2.0000])",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        let (x, w) = (c.t(prelu::INPUT)?, c.t(prelu::WEIGHT)?);
        if x.dtype() != w.dtype() {
            return Err(Error::runtime(format!(
                "prelu: Type promoting not supported. Got {} and {}",
                x.dtype().scalar_type_name(),
                w.dtype().scalar_type_name()
            )));
        }
        if w.ndim() > 1 {
            return Err(Error::runtime(format!(
                "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}",
                w.ndim()
            )));
        }
        if w.numel() != 1 {
            if x.ndim() == 0 {
                return Err(Error::runtime("Not allow zero-dim input tensor."));
            }
            let channels = if x.ndim() > 1 { x.sizes()[1] } else { 1 };
            if channels != w.numel() {
                return Err(Error::runtime(format!(
                    "Mismatch of parameter numbers and input channel size. Found parameter numbers = {} and channel size = {channels}.",
                    w.numel()
                )));
            }
        }
        super::push_like(x, x.dtype(), x.device(), None, outs)
    },
    compose: Some(|c, outs| {
        (c.op.infer)(c, &mut Outs::new())?;
        let (x, w) = (c.t(prelu::INPUT)?, c.t(prelu::WEIGHT)?);
        let y = x.prelu_kernel(&by_channel(x, w)?)?;
        outs.give(if x.ndim() == 0 { y.reshape(&[])? } else { y });
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        let t = |s: &[i64], w: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::f32(w)]);
        vec![t(&[5], &[1]), t(&[2, 3, 4], &[3]), t(&[], &[1])]
    },
    amp: Amp::LOWER,
    ..unary::FLOAT
};

pub static PRELU_KERNEL: OpDef = OpDef {
    sig: Sig::parse("prelu_kernel(Tensor input, Tensor weight) -> Tensor"),
    doc: "prelu whose weight broadcasts to the input.",
    faces: Faces::PRIVATE,
    infer: |c, outs| super::push_broadcast(c, c.t(prelu_kernel::INPUT)?.dtype(), outs),
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &PRELU_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(prelu_kernel::INPUT, &[prelu_kernel::INPUT, prelu_kernel::WEIGHT]),
            Save::of(prelu_kernel::WEIGHT, &[prelu_kernel::INPUT]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let up = c.x(prelu_kernel::INPUT)?.gt(0.0)?;
            out.set(prelu_kernel::INPUT, || up.r#where(c.g()?, &c.g()?.mul(c.x(prelu_kernel::WEIGHT)?)?))?;
            out.set(prelu_kernel::WEIGHT, || up.r#where(0.0, &c.g()?.mul(c.x(prelu_kernel::INPUT)?)?))
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3]), SampleArg::f32(&[3])])],
    traits: super::binary::ARITH.traits.or(Traits::FLAT),
    ..super::binary::ARITH
};
