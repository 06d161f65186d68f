//! Rectifiers with a slope below zero (fixed, learned), and the plain threshold.

use super::unary;
use crate::named::{leaky_relu, leaky_relu_backward, prelu, prelu_kernel, threshold};
use crate::prelude::*;

static EXPR: Expr = expr!(float "leaky_relu", |x; p| L::select(x.gt(L::splat(0.0)), x, x * p[0]));
static BACKWARD_EXPR: Expr = expr!(float "leaky_relu_backward", |g, x; p| {
    L::select(x.gt(L::splat(0.0)), g, g * p[0])
});

fn slope(a: Arg<'_>) -> Scalar {
    a.scalar().unwrap_or(Scalar::Float(0.01))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("leaky_relu(Tensor input, Scalar negative_slope=0.01) -> Tensor"),
    doc: "`x` where it is positive, `negative_slope * x` elsewhere.

Example::

    >>> oneflow.nn.functional.leaky_relu(oneflow.tensor([-1., 2.]), 0.1)
    tensor([-0.1000,  2.0000])",
    infer: unary::floating,
    kernel: Kernel::Elementwise(|c, o, p| unary::with_scalars(c, o, p, &EXPR, &[leaky_relu::NEGATIVE_SLOPE.any()])),
    grad: Grad::Rule {
        save: &[Save::of(leaky_relu::INPUT, &[leaky_relu::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(leaky_relu::INPUT, || {
                c.g()?.leaky_relu_backward(c.x(leaky_relu::INPUT)?, slope(c.arg(leaky_relu::NEGATIVE_SLOPE)))
            })
        },
    },
    faces: Faces::NN.or(Faces::INPLACE),
    ..unary::FLOAT
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse("leaky_relu_backward(Tensor grad_output, Tensor input, Scalar negative_slope) -> Tensor"),
    doc: "Gradient of leaky_relu.",
    kernel: Kernel::Elementwise(|c, o, p| {
        unary::with_scalars(c, o, p, &BACKWARD_EXPR, &[leaky_relu_backward::NEGATIVE_SLOPE.any()])
    }),
    compose: Some(|c, outs| {
        let (g, x) = (c.t(leaky_relu_backward::GRAD_OUTPUT)?, c.t(leaky_relu_backward::INPUT)?);
        outs.give(x.gt(0.0)?.r#where(g, &g.mul(slope(c.arg(leaky_relu_backward::NEGATIVE_SLOPE)))?)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(leaky_relu_backward::INPUT, &[leaky_relu_backward::GRAD_OUTPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(leaky_relu_backward::GRAD_OUTPUT, || {
                c.g()?.leaky_relu_backward(
                    c.x(leaky_relu_backward::INPUT)?,
                    slope(c.arg(leaky_relu_backward::NEGATIVE_SLOPE)),
                )
            })?;
            out.set(leaky_relu_backward::INPUT, || c.g()?.zeros_like())
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::f32(&[3, 4]), SampleArg::Float(0.1)])],
    ..unary::BACKWARD
};

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

pub static PRELU: OpDef = OpDef {
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
    ..super::binary::ARITH
};

static THRESHOLD_EXPR: Expr = expr!(num "threshold", |x; p| L::select(x.le(p[0]), p[1], x));

pub static THRESHOLD: OpDef = OpDef {
    sig: Sig::parse("threshold(Tensor input, Scalar threshold, Scalar value) -> Tensor"),
    doc: "`x` where it is above `threshold`, `value` elsewhere.

Example::

    >>> oneflow.threshold(oneflow.tensor([-1., 2.]), 0.5, 9.)
    tensor([9., 2.])",
    faces: Faces::FN.or(Faces::INPLACE).or(Faces::OUT),
    infer: |c, outs| {
        if c.t(threshold::INPUT)?.dtype() == DType::Bool {
            return Err(Error::not_implemented("\"threshold_cpu\" not implemented for 'Bool'"));
        }
        unary::same(c, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| {
        unary::with_scalars(c, o, p, &THRESHOLD_EXPR, &[threshold::THRESHOLD.any(), threshold::VALUE.any()])
    }),
    grad: Grad::Rule {
        save: &[Save::of(threshold::INPUT, &[threshold::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(threshold::INPUT, || {
                c.g()?.threshold_backward(
                    c.x(threshold::INPUT)?,
                    c.arg(threshold::THRESHOLD).scalar().unwrap_or(Scalar::Int(0)),
                )
            })
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Float(0.3), SampleArg::Float(-2.0)])],
    ..unary::SAME
};
