//! `linalg_inv_ex`: Inverse matrices, and where the factorisation met a zero.

use super::*;
use crate::named::linalg_inv_ex;

pub static INV: OpDef = OpDef {
    sig: Sig::parse("linalg_inv_ex(Tensor input, *, int check=0) -> (Tensor inverse, Tensor info)"),
    doc: "Inverse matrices, and where the factorisation met a zero.",
    infer: |c, outs| {
        let a = c.t(linalg_inv_ex::INPUT)?;
        square("linalg.inv", a)?;
        push_columns(outs, a, a.dtype(), Dims::from_slice(a.sizes()))?;
        outs.push(DType::I32, a.device(), lead(a))
    },
    compose: Some(|c, outs| {
        let a = c.t(linalg_inv_ex::INPUT)?;
        let n = square("linalg.inv", a)?;
        let [lu, pivots, info] = a.linalg_lu_factor_ex_with(true, c.int(linalg_inv_ex::CHECK)?)?;
        let unit = diag_embed(&a.new_ones(&[n])?)?.expand(a.sizes())?;
        outs.give(lu::solve(&lu, &pivots.linalg_lu_permutation(n)?, &unit, false)?);
        outs.give(info);
        Ok(())
    }),
    differentiable: OutMask::of(&[linalg_inv_ex::INVERSE]),
    grad: Grad::Rule {
        save: &[Save::out(linalg_inv_ex::INVERSE, &[linalg_inv_ex::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(linalg_inv_ex::INPUT, || {
                let h = c.y(linalg_inv_ex::INVERSE)?.adjoint()?;
                h.matmul(&c.g()?.matmul(&h)?)?.neg()
            })
        },
    },
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 3])]), Sample::new(vec![SampleArg::f32(&[2, 2, 2])])],
    ..LINALG
};
