//! Determinants.

use super::*;
use crate::named::{det, logdet, slogdet};

/// The diagonal of U, and the sign of the permutation of rows.
fn factored(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let [lu, pivots, _] = a.linalg_lu_factor_ex_with(true, 0)?;
    let places = pivots.ones_like()?.cumsum(-1)?;
    let exchanges = pivots.ne(&places)?.sum(&[-1], false)?;
    let sign = exchanges.remainder(2i64)?.mul(-2i64)?.add(1i64)?.to_copy_with(Some(a.dtype()), None)?;
    Ok((diagonal(&lu)?, sign))
}

/// `A^H X = diag(d)` with zeros of the factor's diagonal moved a little: a singular matrix has a gradient too.
fn solve_adjoint(a: &Tensor, d: &Tensor) -> Result<Tensor> {
    let n = a.sizes()[a.ndim() - 1];
    let d = diag_embed(&d.unsqueeze(-1)?.expand(&a.sizes()[..a.ndim() - 1])?)?;
    let [lu, pivots, _] = a.linalg_lu_factor_ex_with(true, 0)?;
    let eps = if real_dtype(a.dtype()) == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
    let moved = diagonal(&lu)?.eq(0.0)?.to_copy_with(Some(a.dtype()), None)?.mul(eps)?;
    let lu = lu.add(&diag_embed(&moved)?)?;
    lu::solve(&lu, &pivots.linalg_lu_permutation(n)?, &d, true)
}

pub static DET: OpDef = OpDef {
    sig: Sig::parse("det(Tensor input) -> Tensor"),
    doc: "Determinants of square matrices.

Example::

    >>> oneflow.det(oneflow.tensor([[2., 0.], [0., 3.]]))
    tensor(6.)",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        let a = c.t(det::INPUT)?;
        square("linalg.det", a)?;
        outs.push(a.dtype(), a.device(), lead(a))
    },
    compose: Some(|c, outs| {
        let a = c.t(det::INPUT)?;
        square("linalg.det", a)?;
        let (u, sign) = factored(a)?;
        outs.give(u.prod(Some(-1), false)?.mul(&sign)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(det::INPUT, &[det::INPUT]), Save::out(det::RESULT, &[det::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(det::INPUT, || solve_adjoint(c.x(det::INPUT)?, &c.g()?.mul(&c.y(det::RESULT)?.conj()?)?)),
    },
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 3])]), Sample::new(vec![SampleArg::f32(&[2, 2, 2])])],
    ..LINALG
};

pub static SLOGDET: OpDef = OpDef {
    sig: Sig::parse("slogdet(Tensor input) -> (Tensor sign, Tensor logabsdet)"),
    doc: "Signs of determinants, and the logarithms of their magnitudes.

Example::

    >>> oneflow.slogdet(oneflow.tensor([[0., 1.], [1., 0.]])).sign
    tensor(-1.)",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        let a = c.t(slogdet::INPUT)?;
        square("linalg.slogdet", a)?;
        outs.push(a.dtype(), a.device(), lead(a))?;
        outs.push(real_dtype(a.dtype()), a.device(), lead(a))
    },
    compose: Some(|c, outs| {
        let a = c.t(slogdet::INPUT)?;
        square("linalg.slogdet", a)?;
        let (u, sign) = factored(a)?;
        outs.give(u.sgn()?.prod(Some(-1), false)?.mul(&sign)?);
        outs.give(u.abs()?.log()?.sum(&[-1], false)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(slogdet::INPUT, &[slogdet::INPUT]), Save::out(slogdet::SIGN, &[slogdet::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(slogdet::INPUT, || {
                let (a, sign) = (c.x(slogdet::INPUT)?, c.y(slogdet::SIGN)?);
                let mut g = match gradient(c, 1) {
                    Some(g) => g.to_copy_with(Some(a.dtype()), None)?,
                    None => sign.zeros_like()?,
                };
                if let (true, Some(gs)) = (a.dtype().is_complex(), gradient(c, 0)) {
                    // A turn of the sign: only its imaginary part is one.
                    let turn = gs.conj()?.mul(sign)?.imag()?;
                    g = turn.zeros_like()?.complex(&turn)?.neg()?.add(&g)?;
                }
                solve_adjoint(a, &g)
            })
        },
    },
    sbp: SbpRule::of(Rows::Compose),
    samples: DET.samples,
    ..LINALG
};

pub static LOGDET: OpDef = OpDef {
    sig: Sig::parse("logdet(Tensor input) -> Tensor"),
    doc: "Logarithms of determinants: NaN where one is negative.

Example::

    >>> oneflow.logdet(oneflow.eye(2))
    tensor(0.)",
    faces: Faces::FN_METHOD,
    compose: Some(|c, outs| {
        let a = c.t(logdet::INPUT)?;
        let [sign, log] = a.slogdet()?;
        outs.give(match a.dtype().is_complex() {
            true => sign.log()?.add(&log)?,
            false => sign.eq(-1.0)?.r#where(f64::NAN, &log)?,
        });
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::range(&[2, 1, 1], 0.5, 2.0)])],
    ..LINALG
};
