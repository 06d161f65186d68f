//! Singular values.

use super::*;
use crate::named::linalg_svd as at;

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "linalg_svd(Tensor input, bool full_matrices=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor Vh)",
    ),
    doc: "Singular values in descending order and, unless turned off, singular vectors.",
    infer: |c, outs| {
        let a = c.t(at::INPUT)?;
        let (m, n) = matrix("linalg.svd", a)?;
        let (full, vectors, k) = (c.bool(at::FULL_MATRICES), c.bool(at::COMPUTE_UV), m.min(n));
        let real = real_dtype(a.dtype());
        if !vectors {
            outs.push(a.dtype(), a.device(), &[0])?;
            outs.push(real, a.device(), &joined(lead(a), &[k]))?;
            return outs.push(a.dtype(), a.device(), &[0]);
        }
        push_columns(outs, a, a.dtype(), joined(lead(a), &[m, if full { m } else { k }]))?;
        outs.push(real, a.device(), &joined(lead(a), &[k]))?;
        push_columns(outs, a, a.dtype(), joined(lead(a), &[if full { n } else { k }, n]))
    },
    kernel: Kernel::Prim {
        prim: &SVD,
        lower: |c, _, l| {
            match c.bool(at::COMPUTE_UV) {
                true => l.input(at::INPUT).output(at::U).output(at::S).output(at::VH),
                false => l.input(at::INPUT).no_output().output(at::S).no_output(),
            };
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::out(at::U, &[at::INPUT]), Save::out(at::S, &[at::INPUT]), Save::out(at::VH, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(at::INPUT, || backward(c)),
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| if c.bool(at::COMPUTE_UV) { batch_rows(c, 3, rows) } else { Ok(()) })),
    samples: || {
        let t = |s: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::Bool(false)]);
        vec![t(&[3, 3]), t(&[2, 4, 2]), t(&[2, 3])]
    },
    ..LINALG
};

fn backward(c: &GradCall<'_>) -> Result<Tensor> {
    let (u, s, vh) = (c.y(at::U)?, c.y(at::S)?, c.y(at::VH)?);
    let k = s.sizes()[s.ndim() - 1];
    let (m, n) = (u.sizes()[u.ndim() - 2], vh.sizes()[vh.ndim() - 1]);
    // Columns beyond the k-th belong to no singular value.
    let (u, vh) = (u.narrow(-1, 0, k)?, vh.narrow(-2, 0, k)?);
    let gu = gradient(c, 0).map(|g| g.narrow(-1, 0, k)).transpose()?;
    let gvh = gradient(c, 2).map(|g| g.narrow(-2, 0, k)).transpose()?;
    let gs = gradient(c, 1);
    if let (None, None, Some(gs)) = (&gu, &gvh, gs) {
        return match m >= n {
            true => u.matmul(&gs.unsqueeze(-1)?.mul(&vh)?),
            false => u.mul(&gs.unsqueeze(-2)?)?.matmul(&vh),
        };
    }
    let skew = |x: Tensor| -> Result<Tensor> { x.sub(&x.adjoint()?) };
    let (row, column) = (s.unsqueeze(-2)?, s.unsqueeze(-1)?);
    let square = s.mul(s)?;
    let gaps = square.unsqueeze(-2)?.sub(&square.unsqueeze(-1)?)?;
    let gaps = on_diagonal(s, k)?.r#where(1.0, &gaps)?;
    let of_u = gu.as_ref().map(|g| skew(u.adjoint()?.matmul(g)?)).transpose()?;
    let of_v = gvh.as_ref().map(|g| skew(vh.matmul(&g.adjoint()?)?)).transpose()?;
    let mut ga = match (&of_u, &of_v) {
        (Some(x), Some(y)) => x.mul(&row)?.add(&column.mul(y)?)?.div(&gaps)?,
        (Some(x), None) => x.div(&gaps)?.mul(&row)?,
        (None, Some(y)) => column.mul(&y.div(&gaps)?)?,
        (None, None) => return u.matmul(&vh)?.zeros_like(),
    };
    if let Some(gs) = gs {
        ga = ga.add(&diag_embed(gs)?)?;
    }
    if let (true, Some(x), Some(_)) = (u.dtype().is_complex(), &of_u, &of_v) {
        ga = ga.add(&diag_embed(&diagonal(x)?.div(&s.mul(2.0)?)?)?)?;
    }
    if let (true, Some(gu)) = (m > k, &gu) {
        let scaled = gu.div(&row)?;
        let ga = u.matmul(&ga)?.add(&scaled)?.sub(&u.matmul(&u.adjoint()?.matmul(&scaled)?)?)?;
        return ga.matmul(&vh);
    }
    if let (true, Some(gvh)) = (n > k, &gvh) {
        let scaled = gvh.div(&column)?;
        let ga = ga.matmul(&vh)?.add(&scaled)?.sub(&scaled.matmul(&vh.adjoint()?)?.matmul(&vh)?)?;
        return u.matmul(&ga);
    }
    if m >= n { u.matmul(&ga.matmul(&vh)?) } else { u.matmul(&ga)?.matmul(&vh) }
}
