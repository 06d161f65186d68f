//! Pseudo-inverses: the gradient of one that is known.

use super::*;

pub static OF: OpDef = OpDef {
    sig: Sig::parse("linalg_pinv_of(Tensor input, Tensor inverse) -> Tensor"),
    doc: "The pseudo-inverse of `input`, which `inverse` holds, as a function of `input`.",
    infer: |c, outs| {
        let p = c.t(1)?;
        outs.push(p.dtype(), p.device(), p.sizes())
    },
    compose: Some(|c, outs| {
        outs.give(c.t(1)?.clone_contiguous()?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::In(0, 1), Save::Out(0, 1)],
        fix: Fix::None,
        f: |c, out| {
            out.set(0, || {
                let (g, a, p) = (c.g()?.adjoint()?, c.x(0)?, c.y(0)?);
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
