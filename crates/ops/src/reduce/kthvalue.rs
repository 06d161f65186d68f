//! `kthvalue`: The k-th smallest elements along a dimension (counted from one), and where they are.

use super::*;
use crate::named::kthvalue;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("kthvalue(Tensor input, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"),
    doc: "The k-th smallest elements along a dimension (counted from one), and where they are.

Example::

    >>> oneflow.kthvalue(oneflow.tensor([3., 1., 2.]), 2).values
    tensor(2.)",
    compose: Some(|c, outs| {
        let (x, k, keep) = (c.t(kthvalue::INPUT)?, c.int(kthvalue::K)?, c.bool(kthvalue::KEEPDIM));
        let d = wrap_dim(c.int(kthvalue::DIM)?, x.ndim())?;
        let n = x.sizes().get(d).copied().unwrap_or(1);
        if k < 1 || k > n {
            return Err(Error::runtime(format!("kthvalue(): selected number k out of range for dimension {d}")));
        }
        if x.ndim() == 0 {
            return give_all(outs, [x.cloned()?, x.zeros_like_with(Some(DType::I64), None, false, None)?]);
        }
        let d = d as i64;
        for t in x.sort(d, false)? {
            let t = t.slice(d, Some(k - 1), Some(k), 1)?;
            outs.give(if keep { t.contiguous()? } else { t.squeeze_dim(&[d])?.contiguous()? });
        }
        Ok(())
    }),
    samples: || {
        let i = SampleArg::Int;
        let t = |s: &[i64], k, d| Sample::new(vec![SampleArg::f32(s), i(k), i(d)]);
        vec![t(&[3, 4], 2, -1), t(&[5, 3], 5, 0), t(&[], 1, 0)]
    },
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};
