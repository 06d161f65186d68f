//! `hardtanh`, `hardtanh_backward`: Elements limited to [min_val, max_val].

use super::unary;
use crate::named::{hardtanh, hardtanh_backward};
use crate::prelude::*;

static TANH_EXPR: Expr = expr!(num "hardtanh", |x; p| x.maximum(p[0]).minimum(p[1]));

static TANH_BACKWARD_EXPR: Expr = expr!(num "hardtanh_backward", |g, x; p| {
    L::select(p[0].lt(x) & x.lt(p[1]), g, L::splat(0.0))
});

/// The limits of a hardtanh call.
fn limits(lo: Arg<'_>, hi: Arg<'_>) -> (Scalar, Scalar) {
    (lo.scalar().unwrap_or(Scalar::Int(-1)), hi.scalar().unwrap_or(Scalar::Int(1)))
}

fn numeric(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let d = c.t(hardtanh::INPUT)?.dtype();
    if d == DType::Bool || d.is_complex() {
        return Err(Error::not_implemented(format!(
            "\"{}_cpu\" not implemented for '{}'",
            c.name(),
            d.scalar_type_name()
        )));
    }
    unary::like(c, outs)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("hardtanh(Tensor input, Scalar min_val=-1, Scalar max_val=1) -> Tensor"),
    doc: "Elements limited to [min_val, max_val].

Example::

    >>> oneflow.nn.functional.hardtanh(oneflow.tensor([-3., 0.5]))
    tensor([-1.0000,  0.5000])",
    infer: |c, outs| {
        let (_, hi) = limits(c.arg(hardtanh::MIN_VAL), c.arg(hardtanh::MAX_VAL));
        if c.t(hardtanh::INPUT)?.dtype() == DType::U8 && hi.to_f64() < 0.0 {
            return Err(Error::runtime(format!("hardtanh(): max_val {} is outside of what uint8 holds", hi.to_f64())));
        }
        numeric(c, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| {
        unary::with_scalars(c, o, p, &TANH_EXPR, &[hardtanh::MIN_VAL.any(), hardtanh::MAX_VAL.any()])
    }),
    grad: Grad::Rule {
        save: &[Save::of(hardtanh::INPUT, &[hardtanh::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let (lo, hi) = limits(c.arg(hardtanh::MIN_VAL), c.arg(hardtanh::MAX_VAL));
            out.set(hardtanh::INPUT, || c.g()?.hardtanh_backward(c.x(hardtanh::INPUT)?, lo, hi))
        },
    },
    faces: Faces::NN.or(Faces::INPLACE),
    ..unary::FLOAT
};

pub static HARDTANH_BACKWARD: OpDef = OpDef {
    sig: Sig::parse("hardtanh_backward(Tensor grad_output, Tensor input, Scalar min_val, Scalar max_val) -> Tensor"),
    doc: "Gradient of hardtanh.",
    kernel: Kernel::Elementwise(|c, o, p| {
        unary::with_scalars(
            c,
            o,
            p,
            &TANH_BACKWARD_EXPR,
            &[hardtanh_backward::MIN_VAL.any(), hardtanh_backward::MAX_VAL.any()],
        )
    }),
    compose: Some(|c, outs| {
        let ((lo, hi), x) = (
            limits(c.arg(hardtanh_backward::MIN_VAL), c.arg(hardtanh_backward::MAX_VAL)),
            c.t(hardtanh_backward::INPUT)?,
        );
        outs.give(x.le(lo)?.logical_or(&x.ge(hi)?)?.r#where(0.0, c.t(hardtanh_backward::GRAD_OUTPUT)?)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(hardtanh_backward::INPUT, &[hardtanh_backward::GRAD_OUTPUT])],
        fix: Fix::None,
        f: |c, out| {
            let (lo, hi) = limits(c.arg(hardtanh_backward::MIN_VAL), c.arg(hardtanh_backward::MAX_VAL));
            out.set(hardtanh_backward::GRAD_OUTPUT, || {
                c.g()?.hardtanh_backward(c.x(hardtanh_backward::INPUT)?, lo, hi)
            })?;
            out.set(hardtanh_backward::INPUT, || c.g()?.zeros_like())
        },
    },
    samples: || {
        let g = SampleArg::f32(&[3, 4]);
        vec![Sample::new(vec![g.clone(), g, SampleArg::Float(-0.5), SampleArg::Float(0.7)])]
    },
    ..unary::BACKWARD
};
