//! Systems and inverses from a Cholesky factor.

use super::*;

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
        let (b, l) = (c.t(0)?, c.t(1)?);
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
        outs.give(solve(c.t(0)?, c.t(1)?, c.bool(0))?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::In(1, 0b11), Save::Out(0, 0b10)],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (l, upper) = (c.x(1)?, c.arg(0).bool());
            let gb = c.g()?.cholesky_solve(l, upper)?;
            out.set(1, || {
                let common = gb.matmul(&c.y(0)?.adjoint()?)?;
                negated_product(l, &common.add(&common.adjoint()?)?, upper)
            })?;
            out.set(0, || Ok(gb))
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
        let l = c.t(0)?;
        square("cholesky_inverse", l)?;
        push_columns(outs, l, l.dtype(), Dims::from_slice(l.sizes()))
    },
    compose: Some(|c, outs| {
        let l = c.t(0)?;
        let n = square("cholesky_inverse", l)?;
        let unit = diag_embed(&l.new_ones(&[n])?)?.expand(l.sizes())?;
        outs.give(solve(&unit, l, c.bool(0))?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::In(0, 1), Save::Out(0, 1)],
        fix: Fix::None,
        f: |c, out| {
            out.set(0, || {
                let (g, l, inverse) = (c.g()?, c.x(0)?, c.y(0)?);
                let common = inverse.matmul(&g.add(&g.adjoint()?)?)?.matmul(inverse)?;
                negated_product(l, &common, c.arg(0).bool())
            })
        },
    },
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::range(&[2, 1, 1], 0.5, 2.0)])],
    ..LINALG
};
