//! QR factorisation, and its Householder form.

use super::*;
use crate::named::{geqrf, linalg_householder_product, linalg_qr};

pub static GEQRF_OP: OpDef = OpDef {
    sig: Sig::parse("geqrf(Tensor input) -> (Tensor a, Tensor tau)"),
    doc: "QR in Householder form: R above the diagonal, the reflections below it and in `tau`.

Example::

    >>> oneflow.geqrf(oneflow.tensor([[3.], [4.]])).a
    tensor([[-5.0000],
            [ 0.5000]])",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        let a = c.t(geqrf::INPUT)?;
        let (m, n) = matrix("geqrf", a)?;
        push_columns(outs, a, a.dtype(), Dims::from_slice(a.sizes()))?;
        outs.push(a.dtype(), a.device(), &joined(lead(a), &[m.min(n)]))
    },
    kernel: Kernel::Prim {
        prim: &GEQRF,
        lower: |_, _, l| {
            l.input(geqrf::INPUT).output(geqrf::A).output(geqrf::TAU);
            Ok(())
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| batch_rows(c, 2, rows))),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 3])]), Sample::new(vec![SampleArg::f32(&[2, 4, 2])])],
    ..LINALG
};

pub static PRODUCT: OpDef = OpDef {
    sig: Sig::parse("linalg_householder_product(Tensor input, Tensor tau, int columns=-1) -> Tensor"),
    doc: "The first columns of a product of Householder reflections.",
    infer: |c, outs| {
        const NAME: &str = "torch.linalg.householder_product";
        let (a, tau) = (c.t(linalg_householder_product::INPUT)?, c.t(linalg_householder_product::TAU)?);
        let (m, n) = matrix(NAME, a)?;
        let n = if c.int(linalg_householder_product::COLUMNS)? < 0 {
            n
        } else {
            c.int(linalg_householder_product::COLUMNS)?
        };
        let k = tau.sizes().last().copied().unwrap_or(0);
        if c.int(linalg_householder_product::COLUMNS)? < 0 && m < n {
            return Err(Error::runtime(format!(
                "{NAME}: input.shape[-2] must be greater than or equal to input.shape[-1]"
            )));
        }
        if n < k || m < k {
            return Err(Error::runtime(format!(
                "{NAME}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
            )));
        }
        if tau.ndim() + 1 != a.ndim() {
            return Err(Error::runtime(format!(
                "{NAME}: Expected tau to have one dimension less than input, but got tau.ndim equal to {} and input.ndim is equal to {}",
                tau.ndim(),
                a.ndim()
            )));
        }
        if tau.sizes()[..tau.ndim() - 1] != *lead(a) {
            return Err(Error::runtime(format!(
                "{NAME}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {:?}",
                &tau.sizes()[..tau.ndim() - 1]
            )));
        }
        if tau.dtype() != a.dtype() {
            return Err(Error::runtime(format!(
                "{NAME}: tau dtype {} does not match input dtype {}",
                tau.dtype().scalar_type_name(),
                a.dtype().scalar_type_name()
            )));
        }
        push_columns(outs, a, a.dtype(), joined(lead(a), &[m, n]))
    },
    kernel: Kernel::Prim {
        prim: &HOUSEHOLDER_PRODUCT,
        lower: |_, _, l| {
            l.input(linalg_householder_product::INPUT)
                .input(linalg_householder_product::TAU)
                .output(linalg_householder_product::RESULT);
            Ok(())
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| batch_rows(c, 1, rows))),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[4, 3]), SampleArg::f32(&[3])])],
    ..LINALG
};

/// Columns of Q; of none with "r".
fn mode(c: &Call<'_>) -> Result<(i64, bool)> {
    let (m, n) = matrix("linalg.qr", c.t(linalg_qr::A)?)?;
    match c.str(linalg_qr::MODE)? {
        "reduced" => Ok((m.min(n), true)),
        "complete" => Ok((m, true)),
        "r" => Ok((m.min(n), false)),
        other => Err(Error::runtime(format!(
            "qr received unrecognized mode '{other}' but expected one of 'reduced' (default), 'r', or 'complete'"
        ))),
    }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("linalg_qr(Tensor A, str mode=\"reduced\") -> (Tensor Q, Tensor R)"),
    doc: "Matrices with orthonormal columns times upper triangular ones.",
    infer: |c, outs| {
        let (columns, with_q) = mode(c)?;
        let a = c.t(linalg_qr::A)?;
        let (m, n) = matrix("linalg.qr", a)?;
        match with_q {
            true => push_columns(outs, a, a.dtype(), joined(lead(a), &[m, columns]))?,
            false => outs.push(a.dtype(), a.device(), &[0])?,
        }
        push_columns(outs, a, a.dtype(), joined(lead(a), &[columns, n]))
    },
    compose: Some(|c, outs| {
        let (columns, with_q) = mode(c)?;
        let a = c.t(linalg_qr::A)?;
        let (m, n) = matrix("linalg.qr", a)?;
        let [packed, tau] = a.geqrf()?;
        outs.give(match with_q {
            true => packed.narrow(-1, 0, m.min(n))?.linalg_householder_product(&tau, columns)?,
            false => a.new_empty(&[0])?,
        });
        // Transposed, so that columns stay contiguous.
        let r = packed.narrow(-2, 0, columns)?;
        outs.give(r.transpose(-2, -1)?.tril(0)?.transpose(-2, -1)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::out(linalg_qr::Q, &[linalg_qr::A]), Save::out(linalg_qr::R, &[linalg_qr::A])],
        fix: Fix::None,
        f: |c, out| {
            out.set(linalg_qr::A, || {
                let (q, r) = (c.y(linalg_qr::Q)?, c.y(linalg_qr::R)?);
                let sizes = &c.in_meta(linalg_qr::A)?.sizes;
                let (m, n) = (sizes[sizes.len() - 2], sizes[sizes.len() - 1]);
                match c.arg(linalg_qr::MODE).str() {
                    Some("r") => {
                        return Err(Error::runtime(
                            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, mode='reduced') if you are going to require gradients.",
                        ));
                    }
                    Some("complete") if m > n => {
                        return Err(Error::runtime(
                            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols",
                        ));
                    }
                    _ => {}
                }
                backward(gradient(c, 0), gradient(c, 1), q, r)
            })
        },
    },
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        let t = |s: &[i64]| Sample::new(vec![SampleArg::f32(s)]);
        vec![t(&[3, 3]), t(&[2, 4, 2]), t(&[2, 3])]
    },
    ..LINALG
};

fn backward(gq: Option<&Tensor>, gr: Option<&Tensor>, q: &Tensor, r: &Tensor) -> Result<Tensor> {
    let (k, n) = (r.sizes()[r.ndim() - 2], r.sizes()[r.ndim() - 1]);
    if n <= k {
        return tall(gq, gr, q, r);
    }
    // R = [R1 | Q^H A2]: what comes to the right part goes on to A2 and to Q.
    let (r1, r2) = (r.narrow(-1, 0, k)?, r.narrow(-1, k, n - k)?);
    let Some(gr) = gr else {
        let left = tall(gq, None, q, &r1)?;
        let right = q.matmul(&r2)?.zeros_like()?;
        return f::cat([&left, &right], -1);
    };
    let (gr1, gr2) = (gr.narrow(-1, 0, k)?, gr.narrow(-1, k, n - k)?);
    let through = q.matmul(&r2.matmul(&gr2.adjoint()?)?)?;
    let gq = match gq {
        Some(gq) => gq.add(&through)?,
        None => through,
    };
    f::cat([&tall(Some(&gq), Some(&gr1), q, &r1)?, &q.matmul(&gr2)?], -1)
}

fn tall(gq: Option<&Tensor>, gr: Option<&Tensor>, q: &Tensor, r: &Tensor) -> Result<Tensor> {
    let rh = r.adjoint()?;
    let inner = match (gq, gr) {
        (Some(gq), Some(gr)) => gr.matmul(&rh)?.sub(&q.adjoint()?.matmul(gq)?)?,
        (Some(gq), None) => q.adjoint()?.matmul(gq)?.neg()?,
        (None, Some(gr)) => gr.matmul(&rh)?,
        (None, None) => return q.matmul(r)?.zeros_like(),
    };
    // The upper triangle made Hermitian; the diagonal counts once.
    let upper = inner.triu(0)?;
    let whole = upper.add(&upper.adjoint()?)?;
    let n = whole.sizes()[whole.ndim() - 1];
    let diagonal = on_diagonal(q, n)?;
    let whole = diagonal.r#where(&whole.mul(0.5)?, &whole)?;
    let ga = q.matmul(&whole)?;
    let ga = match gq {
        Some(gq) => ga.add(gq)?,
        None => ga,
    };
    solve_right(&rh, &ga, false)
}
