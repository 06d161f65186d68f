//! `logsumexp`: `log(sum(exp(x)))` over dimension(s), without overflow.

use super::*;
use crate::named::logsumexp;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("logsumexp(Tensor input, int[1] dim, bool keepdim=False) -> Tensor"),
    doc: "`log(sum(exp(x)))` over dimension(s), without overflow.

Example::

    >>> oneflow.logsumexp(oneflow.tensor([0., 0.]), 0)
    tensor(0.6931)",
    faces: Faces::FN_METHOD_OUT,
    compose: Some(|c, outs| {
        let x = c.t(logsumexp::INPUT)?;
        let x = &if x.dtype().is_differentiable() { x.clone() } else { x.to_copy_with(Some(default_dtype()), None)? };
        let dims = c.ints(logsumexp::DIM)?;
        if x.numel() == 0 {
            outs.give(x.exp()?.sum(dims, c.bool(logsumexp::KEEPDIM))?.log()?);
            return Ok(());
        }
        let top = if x.dtype().is_complex() { x.real()? } else { x.clone() }.amax(dims, true)?;
        // An infinite maximum is the answer itself: subtracting it would give NaN.
        let top = top.isfinite()?.r#where(&top, 0.0)?;
        let sum = x.sub(&top)?.exp()?.sum(dims, true)?.log()?.add(&top)?;
        let out = if c.bool(logsumexp::KEEPDIM) {
            sum
        } else {
            let mask = dim_mask("logsumexp", c.arg(logsumexp::DIM), x.ndim())?;
            let sizes: Dims =
                x.sizes().iter().enumerate().filter(|(i, _)| mask >> i & 1 == 0).map(|(_, s)| *s).collect();
            sum.reshape(&sizes)?
        };
        outs.give(out);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Ints(vec![1])])],
    ..super::REDUCE
};
