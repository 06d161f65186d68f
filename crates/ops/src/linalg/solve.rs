//! `linalg_solve_ex`: The solution of a system of equations, and where the factorisation met a zero.

use super::*;
use crate::named::linalg_solve_ex;

/// Whether `b` is a batch of vectors for the matrices `a`.
fn is_vector(a: &[i64], b: &[i64]) -> bool {
    b.len() == 1 || (a.len() == b.len() + 1 && a[..a.len() - 1] == *b)
}

/// The batch dimensions of the result, and whether B holds vectors.
fn check(c: &Call<'_>) -> Result<(Dims, bool)> {
    const NAME: &str = "linalg.solve";
    let (a, b, left) = (c.t(linalg_solve_ex::A)?, c.t(linalg_solve_ex::B)?, c.bool(linalg_solve_ex::LEFT));
    let n = square(NAME, a)?;
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "{NAME}: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead",
            a.dtype().scalar_type_name(),
            b.dtype().scalar_type_name()
        )));
    }
    let vector = is_vector(a.sizes(), b.sizes());
    if vector {
        if !left {
            return Err(Error::runtime(format!(
                "{NAME}: Vector broadcasting of the left hand side is not supported for left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)"
            )));
        }
        let batch = broadcast_shapes(lead(a), &b.sizes()[..b.ndim() - 1])?;
        if b.sizes()[b.ndim() - 1] != n {
            return Err(incompatible(a, b));
        }
        return Ok((batch, true));
    }
    if b.ndim() < 2 {
        return Err(Error::runtime(format!(
            "{NAME}: The input tensor B must have at least 2 dimensions, but it is {:?}",
            b.sizes()
        )));
    }
    if b.sizes()[b.ndim() - if left { 2 } else { 1 }] != n {
        return Err(incompatible(a, b));
    }
    let batch =
        broadcast_shapes(lead(a), lead(b)).map_err(|e| e.context(format_args!("{NAME}: batch dimensions: ")))?;
    Ok((batch, false))
}

#[cold]
fn incompatible(a: &Tensor, b: &Tensor) -> Error {
    Error::runtime(format!(
        "linalg.solve: Incompatible shapes of A and B for the equation AX = B ({:?} and {:?})",
        a.sizes(),
        b.sizes()
    ))
}

pub static SOLVE: OpDef = OpDef {
    sig: Sig::parse(
        "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, int check=0) -> (Tensor result, Tensor info)",
    ),
    doc: "The solution of a system of equations, and where the factorisation met a zero.",
    infer: |c, outs| {
        let (batch, vector) = check(c)?;
        let (a, b, left) = (c.t(linalg_solve_ex::A)?, c.t(linalg_solve_ex::B)?, c.bool(linalg_solve_ex::LEFT));
        let b = b.sizes();
        let vectors = joined(&batch, &b[b.len() - 1..]);
        if vector && vectors.len() == 1 {
            outs.push(a.dtype(), a.device(), &vectors)?;
        } else if vector {
            push_columns(outs, a, a.dtype(), vectors)?;
        } else if left {
            push_columns(outs, a, a.dtype(), joined(&batch, &b[b.len() - 2..]))?;
        } else {
            outs.push(a.dtype(), a.device(), &joined(&batch, &b[b.len() - 2..]))?;
        }
        outs.push(DType::I32, a.device(), lead(a))
    },
    compose: Some(|c, outs| {
        let (_, vector) = check(c)?;
        let (a, b, left) = (c.t(linalg_solve_ex::A)?, c.t(linalg_solve_ex::B)?, c.bool(linalg_solve_ex::LEFT));
        let n = a.sizes()[a.ndim() - 1];
        let solve = |a: &Tensor, b: &Tensor| -> Result<(Tensor, Tensor)> {
            let [lu, pivots, info] = a.linalg_lu_factor_ex_with(true, c.int(linalg_solve_ex::CHECK)?)?;
            Ok((lu::solve(&lu, &pivots.linalg_lu_permutation(n)?, b, false)?, info))
        };
        let (x, info) = match (vector, left) {
            (true, _) => {
                let (x, info) = solve(a, &b.unsqueeze(-1)?)?;
                let x = x.squeeze_dim(&[-1])?;
                // A batch of vectors comes in the memory order of one matrix.
                (if x.ndim() > 1 { columns(&x)? } else { x }, info)
            }
            (false, true) => solve(a, b)?,
            (false, false) => {
                let (x, info) = solve(&a.transpose(-2, -1)?, &b.transpose(-2, -1)?)?;
                (x.transpose(-2, -1)?, info)
            }
        };
        outs.give(x);
        outs.give(info);
        Ok(())
    }),
    differentiable: OutMask::of(&[linalg_solve_ex::RESULT]),
    grad: Grad::Rule {
        save: &[
            Save::of(linalg_solve_ex::A, &[linalg_solve_ex::A, linalg_solve_ex::B]),
            Save::out(linalg_solve_ex::RESULT, &[linalg_solve_ex::A]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (a, left) = (c.x(linalg_solve_ex::A)?, c.arg(linalg_solve_ex::LEFT).bool());
            let vector = is_vector(a.sizes(), &c.in_meta(linalg_solve_ex::B)?.sizes);
            let g = if vector { c.g()?.unsqueeze(-1)? } else { c.g()?.clone() };
            let [gb, _] = a.adjoint()?.linalg_solve_ex_with(&g, left, 0)?;
            out.set(linalg_solve_ex::A, || {
                let x = if vector {
                    c.y(linalg_solve_ex::RESULT)?.unsqueeze(-1)?
                } else {
                    c.y(linalg_solve_ex::RESULT)?.clone()
                };
                let xh = x.adjoint()?;
                if left { gb.matmul(&xh)? } else { xh.matmul(&gb)? }.neg()
            })?;
            out.set(linalg_solve_ex::B, || if vector { gb.squeeze_dim(&[-1]) } else { Ok(gb.clone()) })
        },
    },
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b)]);
        vec![t(&[3, 3], &[3, 2]), t(&[2, 2, 2], &[2, 2, 3]), t(&[3, 3], &[3])]
    },
    ..LINALG
};
