//! Eigenvalues of symmetric matrices.

use super::*;
use crate::named::linalg_eigh as at;

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "linalg_eigh(Tensor input, str UPLO=\"L\", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)",
    ),
    doc: "Eigenvalues in ascending order and, unless turned off, eigenvectors of symmetric (Hermitian) matrices.",
    infer: |c, outs| {
        let a = c.t(at::INPUT)?;
        let n = square("linalg.eigh", a)?;
        uplo(c)?;
        outs.push(real_dtype(a.dtype()), a.device(), &joined(lead(a), &[n]))?;
        match c.bool(at::COMPUTE_V) {
            true => push_columns(outs, a, a.dtype(), Dims::from_slice(a.sizes())),
            false => outs.push(a.dtype(), a.device(), &[0]),
        }
    },
    kernel: Kernel::Prim {
        prim: &EIGH,
        lower: |c, _, l| {
            l.input(at::INPUT).output(at::EIGENVALUES);
            if c.bool(at::COMPUTE_V) {
                l.output(at::EIGENVECTORS);
            } else {
                l.no_output();
            }
            l.with(EighParams { upper: uplo(c)? });
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::out(at::EIGENVALUES, &[at::INPUT]), Save::out(at::EIGENVECTORS, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(at::INPUT, || {
                let (w, v) = (c.y(at::EIGENVALUES)?, c.y(at::EIGENVECTORS)?);
                let vh = v.adjoint()?;
                let Some(gv) = gradient(c, 1) else {
                    return v.mul(&c.g()?.unsqueeze(-2)?)?.matmul(&vh);
                };
                let n = w.sizes()[w.ndim() - 1];
                let diagonal = on_diagonal(w, n)?;
                let gaps = diagonal.r#where(1.0, &w.unsqueeze(-2)?.sub(&w.unsqueeze(-1)?)?)?;
                let inner = vh.matmul(gv)?.div(&gaps)?;
                let inner = diagonal.r#where(0.0, &inner)?;
                let inner = match gradient(c, 0) {
                    Some(gw) => inner.add(&diag_embed(gw)?)?,
                    None => inner,
                };
                v.matmul(&inner.matmul(&vh)?)
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| if c.bool(at::COMPUTE_V) { batch_rows(c, 2, rows) } else { Ok(()) })),
    // The gradient is that of a symmetric matrix: only with one element is every matrix one.
    samples: || vec![Sample::new(vec![SampleArg::f32(&[4, 1, 1])])],
    ..LINALG
};

/// Whether the upper triangle is read.
fn uplo(c: &Call<'_>) -> Result<bool> {
    match c.str(at::UPLO)? {
        "L" | "l" => Ok(false),
        "U" | "u" => Ok(true),
        other => Err(Error::runtime(format!("Expected UPLO argument to be 'L' or 'U', but got {other}"))),
    }
}
