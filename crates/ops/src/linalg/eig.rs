//! Eigenvalues of general matrices.

use super::*;
use crate::named::linalg_eig as at;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("linalg_eig(Tensor input, bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)"),
    doc: "Eigenvalues and, unless turned off, eigenvectors of square matrices, complex.",
    infer: |c, outs| {
        let a = c.t(at::INPUT)?;
        let n = square("linalg.eig", a)?;
        let dtype = complex_dtype(a.dtype());
        outs.push(dtype, a.device(), &joined(lead(a), &[n]))?;
        match c.bool(at::COMPUTE_V) {
            true => push_columns(outs, a, dtype, Dims::from_slice(a.sizes())),
            false => outs.push(dtype, a.device(), &[0]),
        }
    },
    kernel: Kernel::Prim {
        prim: &EIG,
        lower: |c, _, l| {
            l.input(at::INPUT).output(at::EIGENVALUES);
            if c.bool(at::COMPUTE_V) {
                l.output(at::EIGENVECTORS);
            } else {
                l.no_output();
            }
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::out(at::EIGENVALUES, &[at::INPUT]), Save::out(at::EIGENVECTORS, &[at::INPUT])],
        // A real matrix takes the real part.
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(at::INPUT, || {
                let (w, v) = (c.y(at::EIGENVALUES)?, c.y(at::EIGENVECTORS)?);
                let vh = v.adjoint()?;
                let Some(gv) = gradient(c, 1) else {
                    let [x, _] = vh.linalg_solve_ex_with(&c.g()?.unsqueeze(-1)?.mul(&vh)?, true, 0)?;
                    return Ok(x);
                };
                let n = w.sizes()[w.ndim() - 1];
                let diagonal = on_diagonal(w, n)?;
                let inner = vh.matmul(gv)?;
                let own = super::diagonal(&inner)?.real()?.unsqueeze(-2)?;
                let inner = inner.sub(&vh.matmul(v)?.mul(&own)?)?;
                let gaps = w.unsqueeze(-2)?.sub(&w.unsqueeze(-1)?)?.conj()?;
                let inner = inner.div(&diagonal.r#where(1.0, &gaps)?)?;
                let inner = diagonal.r#where(0.0, &inner)?;
                let inner = match gradient(c, 0) {
                    Some(gw) => inner.add(&diag_embed(gw)?)?,
                    None => inner,
                };
                let [x, _] = vh.linalg_solve_ex_with(&inner.matmul(&vh)?, true, 0)?;
                Ok(x)
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| if c.bool(at::COMPUTE_V) { batch_rows(c, 2, rows) } else { Ok(()) })),
    ..LINALG
};
