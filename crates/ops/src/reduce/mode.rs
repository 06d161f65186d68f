//! `mode`: The most frequent elements along a dimension (the least of several), and where one of them is.

use super::*;
use crate::named::mode;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("mode(Tensor input, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"),
    doc: "The most frequent elements along a dimension (the least of several), and where one of them is.

Example::

    >>> oneflow.mode(oneflow.tensor([2., 1., 2.])).values
    tensor(2.)",
    compose: Some(|c, outs| {
        let (x, keep) = (c.t(mode::INPUT)?, c.bool(mode::KEEPDIM));
        let d = wrap_dim(c.int(mode::DIM)?, x.ndim())? as i64;
        if x.ndim() == 0 {
            return give_all(outs, [x.cloned()?, x.zeros_like_with(Some(DType::I64), None, false, None)?]);
        }
        let n = x.sizes()[d as usize];
        if n == 0 {
            return Err(Error::index(format!("mode(): Expected reduction dim {d} to have non-zero size.")));
        }
        let [values, indices] = x.sort(d, false)?;
        // How many equal elements stand before each; the first place of the longest run's end is the answer.
        let mut along: Dims = SmallVec::from_elem(1, x.ndim());
        along[d as usize] = n;
        let places = indices.ones_like()?.cumsum(d)?.sub(1i64)?;
        let starts = values.slice(d, Some(1), None, 1)?.ne(&values.slice(d, Some(0), Some(n - 1), 1)?)?;
        let first = starts.new_ones(&kept_sizes(x.sizes(), 1 << d))?;
        let starts = f::cat([&first, &starts], d)?.r#where(&places, 0i64)?.cumulative_extreme(d, true)?;
        let best = places.sub(&starts)?.argmax(Some(d), true)?;
        for t in [&values, &indices] {
            let t = t.gather(d, &best)?;
            outs.give(if keep { t } else { t.squeeze_dim(&[d])?.contiguous()? });
        }
        Ok(())
    }),
    samples: || {
        let t = |s: &[i64], d, k| Sample::new(vec![SampleArg::i64(s, 0, 3), SampleArg::Int(d), SampleArg::Bool(k)]);
        vec![t(&[3, 6], -1, false), t(&[5, 3], 0, true), t(&[], 0, false)]
    },
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};
