//! Activations that pull small values to zero, and the gated linear unit.

use super::unary;
use crate::named::{glu, hardshrink, shrink_backward, softshrink};
use crate::prelude::*;

static HARD_EXPR: Expr = expr!(float "hardshrink", |x; p| L::select(x.abs().le(p[0]), L::splat(0.0), x));
static SOFT_EXPR: Expr = expr!(float "softshrink", |x; p| {
    // NaN stays: zero times it.
    let y = L::select(p[0].lt(x), x - p[0], x * L::splat(0.0));
    L::select(x.lt(-p[0]), x + p[0], y)
});
static BACKWARD_EXPR: Expr = expr!(float "shrink_backward", |g, x; p| L::select(p[0].lt(x.abs()), g, L::splat(0.0)));

fn lambda(a: Arg<'_>) -> Scalar {
    a.scalar().unwrap_or(Scalar::Float(0.5))
}

const SHRINK_GRAD: Grad = Grad::Rule {
    save: &[Save::of(hardshrink::INPUT, &[hardshrink::INPUT])],
    fix: Fix::None,
    f: |c, out| {
        out.set(hardshrink::INPUT, || c.g()?.shrink_backward(c.x(hardshrink::INPUT)?, lambda(c.arg(hardshrink::LAMBD))))
    },
};

pub static HARDSHRINK: OpDef = OpDef {
    sig: Sig::parse("hardshrink(Tensor input, Scalar lambd=0.5) -> Tensor"),
    doc: "`x` where its absolute value is above `lambd`, zero elsewhere.

Example::

    >>> oneflow.hardshrink(oneflow.tensor([-1., 0.2]))
    tensor([-1.,  0.])",
    infer: unary::floating,
    kernel: Kernel::Elementwise(|c, o, p| unary::with_scalars(c, o, p, &HARD_EXPR, &[hardshrink::LAMBD.any()])),
    grad: SHRINK_GRAD,
    faces: Faces::FN_METHOD_OUT,
    ..unary::FLOAT
};

pub static SOFTSHRINK: OpDef = OpDef {
    sig: Sig::parse("softshrink(Tensor input, Scalar lambd=0.5) -> Tensor"),
    doc: "`x` moved towards zero by `lambd`; zero where it is closer than that.

Example::

    >>> oneflow.nn.functional.softshrink(oneflow.tensor([-1., 0.2]))
    tensor([-0.5000,  0.0000])",
    infer: |c, outs| {
        let l = lambda(c.arg(softshrink::LAMBD)).to_f64();
        if l < 0.0 || l.is_nan() {
            return Err(Error::runtime(format!("lambda must be greater or equal to 0, but found to be {l}.")));
        }
        unary::floating(c, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| unary::with_scalars(c, o, p, &SOFT_EXPR, &[softshrink::LAMBD.any()])),
    grad: SHRINK_GRAD,
    faces: Faces::NN,
    ..unary::FLOAT
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse("shrink_backward(Tensor grad_output, Tensor input, Scalar lambd) -> Tensor"),
    doc: "Gradient of hardshrink and softshrink.",
    kernel: Kernel::Elementwise(|c, o, p| {
        unary::with_scalars(c, o, p, &BACKWARD_EXPR, &[shrink_backward::LAMBD.any()])
    }),
    compose: Some(|c, outs| {
        outs.give(
            c.t(shrink_backward::INPUT)?
                .abs()?
                .gt(lambda(c.arg(shrink_backward::LAMBD)))?
                .r#where(c.t(shrink_backward::GRAD_OUTPUT)?, 0.0)?,
        );
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(shrink_backward::INPUT, &[shrink_backward::GRAD_OUTPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(shrink_backward::GRAD_OUTPUT, || {
                c.g()?.shrink_backward(c.x(shrink_backward::INPUT)?, lambda(c.arg(shrink_backward::LAMBD)))
            })?;
            out.set(shrink_backward::INPUT, || c.g()?.zeros_like())
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::f32(&[3, 4]), SampleArg::Float(0.5)])],
    ..unary::BACKWARD
};

pub static GLU: OpDef = OpDef {
    sig: Sig::parse("glu(Tensor input, int dim=-1) -> Tensor"),
    doc: "The first half along `dim` times the sigmoid of the second.

Source: Dauphin et al., \"Language Modeling with Gated Convolutional Networks\", 2017.

Example::

    >>> oneflow.nn.functional.glu(oneflow.tensor([1., 0.]))
    tensor([0.5000])",
    infer: |c, outs| {
        let x = c.t(glu::INPUT)?;
        if x.ndim() == 0 {
            return Err(Error::runtime("glu does not support 0-dimensional tensors"));
        }
        let d = wrap_dim(c.int(glu::DIM)?, x.ndim())?;
        if x.sizes()[d] % 2 != 0 {
            return Err(Error::runtime(format!(
                "Halving dimension must be even, but dimension {d} is size {}",
                x.sizes()[d]
            )));
        }
        let mut sizes = Dims::from_slice(x.sizes());
        sizes[d] /= 2;
        outs.push(x.dtype(), x.device(), &sizes)
    },
    compose: Some(|c, outs| {
        (c.op.infer)(c, &mut Outs::new())?;
        let (x, dim) = (c.t(glu::INPUT)?, c.int(glu::DIM)?);
        let half = x.sizes()[wrap_dim(dim, x.ndim())?] / 2;
        outs.give(x.narrow(dim, 0, half)?.mul(&x.narrow(dim, half, half)?.sigmoid()?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        vec![Sample::new(vec![SampleArg::f32(&[3, 4])]), Sample::new(vec![SampleArg::f32(&[4, 3]), SampleArg::Int(0)])]
    },
    faces: Faces::NN,
    ..unary::FLOAT
};
