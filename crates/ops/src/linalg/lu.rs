//! LU factorisation with partial pivoting.

use super::*;
use crate::named::{linalg_lu_factor_ex, linalg_lu_permutation};

pub static EX: OpDef = OpDef {
    sig: Sig::parse(
        "linalg_lu_factor_ex(Tensor input, *, bool pivot=True, int check=0) -> (Tensor LU, Tensor pivots, Tensor info)",
    ),
    doc: "Unit lower and upper triangular factors in one matrix, the exchanges of rows, and the first zero of the diagonal. `check` says in whose words a zero raises (0: nobody's).",
    infer: |c, outs| {
        let a = c.t(linalg_lu_factor_ex::INPUT)?;
        let name = match c.int(linalg_lu_factor_ex::CHECK)? {
            2 => "linalg.inv",
            3 => "linalg.solve",
            _ => "linalg.lu_factor",
        };
        let (m, n) = matrix(name, a)?;
        push_columns(outs, a, a.dtype(), Dims::from_slice(a.sizes()))?;
        outs.push(DType::I32, a.device(), &joined(lead(a), &[m.min(n)]))?;
        outs.push(DType::I32, a.device(), lead(a))
    },
    kernel: Kernel::Prim {
        prim: &LU_FACTOR,
        lower: |c, _, l| {
            l.input(linalg_lu_factor_ex::INPUT)
                .output(linalg_lu_factor_ex::LU)
                .output(linalg_lu_factor_ex::PIVOTS)
                .output(linalg_lu_factor_ex::INFO)
                .with(LuFactorParams {
                    pivot: c.bool(linalg_lu_factor_ex::PIVOT),
                    check: SingularCheck::from_u64(c.int(linalg_lu_factor_ex::CHECK)? as u64)
                        .unwrap_or(SingularCheck::None),
                });
            Ok(())
        },
    },
    differentiable: OutMask::of(&[linalg_lu_factor_ex::LU]),
    grad: Grad::Rule {
        save: &[
            Save::out(linalg_lu_factor_ex::LU, &[linalg_lu_factor_ex::INPUT]),
            Save::out(linalg_lu_factor_ex::PIVOTS, &[linalg_lu_factor_ex::INPUT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            out.set(linalg_lu_factor_ex::INPUT, || {
                backward(c.g()?, c.y(linalg_lu_factor_ex::LU)?, c.y(linalg_lu_factor_ex::PIVOTS)?)
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| batch_rows(c, 3, rows))),
    samples: || {
        let t = |s: &[i64]| Sample::new(vec![SampleArg::f32(s)]);
        vec![t(&[3, 3]), t(&[2, 3, 4]), t(&[4, 2])]
    },
    ..LINALG
};

/// The factors of a packed matrix: `[m, k]` and `[k, n]`.
pub fn unpack(lu: &Tensor) -> Result<(Tensor, Tensor)> {
    let (m, n) = (lu.sizes()[lu.ndim() - 2], lu.sizes()[lu.ndim() - 1]);
    let k = m.min(n);
    let left = lu.narrow(-1, 0, k)?;
    let diagonal = on_diagonal(&left, k)?;
    let unit = if m == k {
        diagonal
    } else {
        let below = left.new_zeros_with(&[m - k, k], Some(DType::Bool), None, false)?;
        f::cat([&diagonal, &below], 0)?
    };
    let lower = unit.r#where(1.0, &left.tril(-1)?)?;
    Ok((lower, lu.narrow(-2, 0, k)?.triu(0)?))
}

/// Rows of `x` brought where the factorisation took them from: `P x`.
pub fn put_back(x: &Tensor, order: &Tensor) -> Result<Tensor> {
    take_rows(x, &order.argsort(-1, false)?)
}

/// `P^T x`.
pub fn take_rows(x: &Tensor, order: &Tensor) -> Result<Tensor> {
    let index = order.unsqueeze(-1)?;
    let batch = broadcast_shapes(lead(&index), lead(x))?;
    let (m, n) = (x.sizes()[x.ndim() - 2], x.sizes()[x.ndim() - 1]);
    x.expand(&joined(&batch, &[m, n]))?.gather(-2, &index.expand(&joined(&batch, &[m, n]))?)
}

fn backward(g: &Tensor, lu: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    let (m, n) = (lu.sizes()[lu.ndim() - 2], lu.sizes()[lu.ndim() - 1]);
    let k = m.min(n);
    let (l, u) = unpack(lu)?;
    let (gl, gu) = (g.narrow(-1, 0, k)?.tril(-1)?, g.narrow(-2, 0, k)?.triu(0)?);
    let order = pivots.linalg_lu_permutation(m)?;
    let (l1, u1) = (l.narrow(-2, 0, k)?, u.narrow(-1, 0, k)?);
    let (gl1, gu1) = (gl.narrow(-2, 0, k)?, gu.narrow(-1, 0, k)?);
    let mut lower = l1.adjoint()?.matmul(&gl1)?;
    let mut upper = gu1.matmul(&u1.adjoint()?)?;
    if n > k {
        let (u2, gu2) = (u.narrow(-1, k, n - k)?, gu.narrow(-1, k, n - k)?);
        lower = lower.sub(&gu2.matmul(&u2.adjoint()?)?)?;
    }
    if m > k {
        let (l2, gl2) = (l.narrow(-2, k, m - k)?, gl.narrow(-2, k, m - k)?);
        upper = upper.sub(&l2.adjoint()?.matmul(&gl2)?)?;
    }
    let middle = lower.tril(-1)?.add(&upper.triu(0)?)?;
    let (l1h, u1h) = (l1.adjoint()?, u1.adjoint()?);
    let ga = if n > k {
        let left = solve_right(&u1h, &middle, false)?;
        let whole = f::cat([&left, &gu.narrow(-1, k, n - k)?], -1)?;
        l1h.linalg_solve_triangular_with(&whole, true, true, true)?
    } else {
        let mut top = l1h.linalg_solve_triangular_with(&middle, true, true, true)?;
        if m > k {
            top = f::cat([&top, &gl.narrow(-2, k, m - k)?], -2)?;
        }
        solve_right(&u1h, &top, false)?
    };
    put_back(&ga, &order)
}

pub static PERMUTATION: OpDef = OpDef {
    sig: Sig::parse("linalg_lu_permutation(Tensor input, int rows) -> Tensor"),
    doc: "The order of rows that pivots bring about.",
    infer: |c, outs| {
        let p = c.t(linalg_lu_permutation::INPUT)?;
        let Some((_, batch)) = p.sizes().split_last() else {
            return Err(Error::runtime("torch.lu_unpack: LU_pivots needs at least one dimension"));
        };
        if p.dtype() != DType::I32 {
            return Err(Error::runtime(
                "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: this function is intended to be used with the output produced by torch.linalg.lu_factor",
            ));
        }
        outs.push(DType::I64, p.device(), &joined(batch, &[c.int(linalg_lu_permutation::ROWS)?]))
    },
    kernel: Kernel::Prim {
        prim: &LU_PERMUTATION,
        lower: |_, _, l| {
            l.input(linalg_lu_permutation::INPUT).output(linalg_lu_permutation::RESULT);
            Ok(())
        },
    },
    sbp: SbpRule::of(Rows::OnlyB { why: "pivots are a column of their matrix" }),
    ..LINALG
};

/// `A X = B` (or `A^H X = B`) with the factors of A.
pub fn solve(lu: &Tensor, order: &Tensor, b: &Tensor, adjoint: bool) -> Result<Tensor> {
    if adjoint {
        let h = lu.adjoint()?;
        let y = solve_left(&h, b, false)?;
        let y = h.linalg_solve_triangular_with(&y, true, true, true)?;
        return put_back(&y, order);
    }
    let y = lu.linalg_solve_triangular_with(&take_rows(b, order)?, false, true, true)?;
    solve_left(lu, &y, true)
}
