//! Cholesky factors.

use super::*;
use crate::named::linalg_cholesky_ex as at;

pub static EX: OpDef = OpDef {
    sig: Sig::parse(
        "linalg_cholesky_ex(Tensor input, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
    ),
    doc: "The Cholesky factor of symmetric positive-definite matrices, and where the factorisation failed.",
    infer: |c, outs| {
        let a = c.t(at::INPUT)?;
        square("linalg.cholesky", a)?;
        push_columns(outs, a, a.dtype(), Dims::from_slice(a.sizes()))?;
        outs.push(DType::I32, a.device(), lead(a))
    },
    kernel: Kernel::Prim {
        prim: &CHOLESKY,
        lower: |c, _, l| {
            l.input(at::INPUT)
                .output(at::L)
                .output(at::INFO)
                .with(CholeskyParams { upper: c.bool(at::UPPER), check: c.bool(at::CHECK_ERRORS) });
            Ok(())
        },
    },
    differentiable: OutMask::of(&[at::L]),
    grad: Grad::Rule {
        save: &[Save::out(at::L, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(at::INPUT, || {
                let upper = c.arg(at::UPPER).bool();
                let (g, l) = match upper {
                    true => (c.g()?.adjoint()?, c.y(at::L)?.adjoint()?),
                    false => (c.g()?.clone(), c.y(at::L)?.clone()),
                };
                let lh = l.adjoint()?;
                let phi = lh.matmul(&g)?.tril(0)?;
                let phi = phi.add(&phi.tril(-1)?.adjoint()?)?.mul(0.5)?;
                solve_right(&l, &solve_left(&lh, &phi, true)?, false)
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| batch_rows(c, 2, rows))),
    // Random matrices are positive-definite where they have one element.
    samples: || vec![Sample::new(vec![SampleArg::range(&[4, 1, 1], 0.5, 2.0)])],
    ..LINALG
};
