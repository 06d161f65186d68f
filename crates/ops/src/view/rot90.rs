//! `rot90`: The plane of two dimensions turned `k` times by 90 degrees, from the first towards the second.

use super::{COMPOSED, give};
use crate::named::rot90;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("rot90(Tensor input, int k=1, int[] dims=[0,1]) -> Tensor"),
    doc: "The plane of two dimensions turned `k` times by 90 degrees, from the first towards the second.

Example::

    >>> oneflow.rot90(oneflow.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])",
    compose: Some(|c, outs| {
        let (x, dims) = (c.t(rot90::INPUT)?, c.ints(rot90::DIMS)?);
        let &[a, b] = dims else {
            return Err(Error::runtime(format!("expected total rotation dims == 2, but got dims = {}", dims.len())));
        };
        if x.ndim() < 2 {
            return Err(Error::runtime(format!("expected total dims >= 2, but got total dims = {}", x.ndim())));
        }
        let same = |a: i64, b: i64| a == b || a.abs_diff(b) == x.ndim() as u64;
        if same(a, b) {
            return Err(Error::runtime(format!(
                "expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}"
            )));
        }
        for d in [a, b] {
            if d < -(x.ndim() as i64) || d >= x.ndim() as i64 {
                return Err(Error::runtime(format!("Rotation dim out of range, dim = {d}")));
            }
        }
        give(
            outs,
            match c.int(rot90::K)?.rem_euclid(4) {
                1 => x.flip(&[b])?.transpose(a, b)?,
                2 => x.flip(&[a, b])?,
                3 => x.flip(&[a])?.transpose(a, b)?,
                _ => x.clone_contiguous()?,
            },
        )
    }),
    samples: || {
        let t = |s: &[i64], k, d: &[i64]| {
            Sample::new(vec![SampleArg::f32(s), SampleArg::Int(k), SampleArg::Ints(d.to_vec())])
        };
        vec![t(&[2, 3], 1, &[0, 1]), t(&[2, 3, 4], 2, &[1, 2]), t(&[2, 3], -1, &[0, 1]), t(&[2, 3], 4, &[0, 1])]
    },
    ..COMPOSED
};
