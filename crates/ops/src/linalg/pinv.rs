//! Pseudo-inverses: the gradient of one that is known.

use super::*;
use crate::named::linalg_pinv_of as at;

pub static OF: OpDef = OpDef {
    sig: Sig::parse("linalg_pinv_of(Tensor input, Tensor inverse) -> Tensor"),
    doc: "The pseudo-inverse of `input`, which `inverse` holds, as a function of `input`.",
    infer: |c, outs| {
        let p = c.t(at::INVERSE)?;
        outs.push(p.dtype(), p.device(), p.sizes())
    },
    compose: Some(|c, outs| {
        outs.give(c.t(at::INVERSE)?.clone_contiguous()?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(at::INPUT, &[at::INPUT]), Save::out(at::RESULT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(at::INPUT, || {
                let (g, a, p) = (c.g()?.adjoint()?, c.x(at::INPUT)?, c.y(at::RESULT)?);
                let ph = p.adjoint()?;
                let (m, n) = (a.sizes()[a.ndim() - 2], a.sizes()[a.ndim() - 1]);
                if m <= n {
                    let k = g.matmul(p)?;
                    let kp = k.matmul(&ph)?;
                    let outer = ph.matmul(p)?.matmul(&g.sub(&k.matmul(a)?)?)?;
                    return kp.sub(&p.matmul(&k)?.adjoint()?)?.sub(&a.matmul(p)?.matmul(&kp)?)?.add(&outer);
                }
                let k = p.matmul(&g)?;
                let pk = ph.matmul(&k)?;
                let outer = g.sub(&a.matmul(&k)?)?.matmul(p)?.matmul(&ph)?;
                outer.sub(&k.matmul(p)?.adjoint()?)?.add(&pk)?.sub(&pk.matmul(p)?.matmul(a)?)
            })
        },
    },
    sbp: SbpRule::of(Rows::OnlyB { why: "a matrix and its inverse are whole" }),
    ..LINALG
};
