//! Systems and inverses from a Cholesky factor.

use super::*;
use crate::named::{cholesky_inverse, cholesky_solve};

fn solve(b: &Tensor, factor: &Tensor, upper: bool) -> Result<Tensor> {
    let h = factor.adjoint()?;
    let (lower, adjoint) = if upper { (&h, factor) } else { (factor, &h) };
    solve_left(adjoint, &solve_left(lower, b, false)?, true)
}

fn negated_product(factor: &Tensor, symmetric: &Tensor, upper: bool) -> Result<Tensor> {
    if upper { factor.matmul(symmetric)? } else { symmetric.matmul(factor)? }.neg()
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("cholesky_solve(Tensor input, Tensor L, bool upper=False) -> Tensor"),
    doc: "The solution of `A X = input` from the Cholesky factor of `A`.

Example::

    >>> oneflow.cholesky_solve(oneflow.tensor([[4.]]), oneflow.tensor([[2.]]))
    tensor([[1.]])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let (b, l) = (c.t(cholesky_solve::INPUT)?, c.t(cholesky_solve::L)?);
        if b.ndim() < 2 {
            let text = format!("b should have at least 2 dimensions, but has {} dimensions instead", b.ndim());
            return Err(Error::runtime(text));
        }
        if l.ndim() < 2 {
            let text = format!("u should have at least 2 dimensions, but has {} dimensions instead", l.ndim());
            return Err(Error::runtime(text));
        }
        let n = square("cholesky_solve", l)?;
        if b.sizes()[b.ndim() - 2] != n {
            return Err(Error::runtime(format!(
                "Incompatible matrix sizes for cholesky_solve: each A matrix is {n} by {n} but each b matrix is {} by {}",
                b.sizes()[b.ndim() - 2],
                b.sizes()[b.ndim() - 1]
            )));
        }
        let batch = broadcast_shapes(lead(b), lead(l))?;
        push_columns(outs, b, b.dtype(), joined(&batch, &b.sizes()[b.ndim() - 2..]))
    },
    compose: Some(|c, outs| {
        (c.op.infer)(c, &mut Outs::new())?;
        outs.give(solve(c.t(cholesky_solve::INPUT)?, c.t(cholesky_solve::L)?, c.bool(cholesky_solve::UPPER))?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(cholesky_solve::L, &[cholesky_solve::INPUT, cholesky_solve::L]),
            Save::out(cholesky_solve::RESULT, &[cholesky_solve::L]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (l, upper) = (c.x(cholesky_solve::L)?, c.arg(cholesky_solve::UPPER).bool());
            let gb = c.g()?.cholesky_solve(l, upper)?;
            out.set(cholesky_solve::L, || {
                let common = gb.matmul(&c.y(cholesky_solve::RESULT)?.adjoint()?)?;
                negated_product(l, &common.add(&common.adjoint()?)?, upper)
            })?;
            out.set(cholesky_solve::INPUT, || Ok(gb))
        },
    },
    sbp: SbpRule::of(Rows::Compose),
    // The gradient is that of a whole factor: a matrix of one element is one.
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 1, 3]), SampleArg::range(&[2, 1, 1], 0.5, 2.0)])],
    ..LINALG
};

pub static INVERSE: OpDef = OpDef {
    sig: Sig::parse("cholesky_inverse(Tensor input, bool upper=False) -> Tensor"),
    doc: "The inverse of a matrix from its Cholesky factor.

Example::

    >>> oneflow.cholesky_inverse(oneflow.tensor([[2.]]))
    tensor([[0.2500]])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let l = c.t(cholesky_inverse::INPUT)?;
        square("cholesky_inverse", l)?;
        push_columns(outs, l, l.dtype(), Dims::from_slice(l.sizes()))
    },
    compose: Some(|c, outs| {
        let l = c.t(cholesky_inverse::INPUT)?;
        let n = square("cholesky_inverse", l)?;
        let unit = diag_embed(&l.new_ones(&[n])?)?.expand(l.sizes())?;
        outs.give(solve(&unit, l, c.bool(cholesky_inverse::UPPER))?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(cholesky_inverse::INPUT, &[cholesky_inverse::INPUT]),
            Save::out(cholesky_inverse::RESULT, &[cholesky_inverse::INPUT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            out.set(cholesky_inverse::INPUT, || {
                let (g, l, inverse) = (c.g()?, c.x(cholesky_inverse::INPUT)?, c.y(cholesky_inverse::RESULT)?);
                let common = inverse.matmul(&g.add(&g.adjoint()?)?)?.matmul(inverse)?;
                negated_product(l, &common, c.arg(cholesky_inverse::UPPER).bool())
            })
        },
    },
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::range(&[2, 1, 1], 0.5, 2.0)])],
    ..LINALG
};
