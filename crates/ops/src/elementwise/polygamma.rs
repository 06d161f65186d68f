//! `polygamma`: The n-th derivative of digamma.

use super::unary;
use crate::named::polygamma;
use crate::prelude::*;
use oneflow_kernels_prim::special as s;

static TRIGAMMA_EXPR: Expr = expr!(float "trigamma", |x| s::trigamma(x));

// p: n + 1, (-1)^(n + 1) n!
static POLYGAMMA_EXPR: Expr = expr!(float "polygamma", |x; p| s::zeta(p[0], x) * p[1]);

fn order(c: &Call<'_>) -> Result<i64> {
    let n = c.int(polygamma::N)?;
    if n < 0 {
        return Err(Error::runtime("polygamma(n, x) does not support negative n."));
    }
    Ok(n)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("polygamma(int n, Tensor input) -> Tensor"),
    doc: "The n-th derivative of digamma.

Example::

    >>> oneflow.polygamma(1, oneflow.tensor([1.]))
    tensor([1.6449])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        order(c)?;
        unary::real_float(c, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| {
        let n = order(c)?;
        let expr = match n {
            0 => return unary::by_output(o, p, &super::digamma::DIGAMMA_EXPR),
            1 => return unary::by_output(o, p, &TRIGAMMA_EXPR),
            _ => unary::by_output(o, p, &POLYGAMMA_EXPR)?,
        };
        // Infinite from 171 on.
        let factorial: f64 = (1..=n.min(171)).map(|k| k as f64).product();
        p.push((n as f64 + 1.0).into());
        p.push((if n % 2 == 0 { -factorial } else { factorial }).into());
        Ok(expr)
    }),
    grad: Grad::Rule {
        save: &[Save::of(polygamma::INPUT, &[polygamma::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(polygamma::INPUT, || {
                c.g()?.mul(&f::polygamma(
                    c.arg(polygamma::N).int().unwrap_or(0).saturating_add(1),
                    c.x(polygamma::INPUT)?,
                )?)
            })
        },
    },
    samples: || {
        let t = |n| Sample::new(vec![SampleArg::Int(n), SampleArg::range(&[3, 4], 0.3, 3.0)]);
        vec![t(0), t(1), t(2)]
    },
    ..super::special_rules::REAL
};
