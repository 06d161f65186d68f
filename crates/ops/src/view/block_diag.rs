//! `block_diag`: A matrix with the tensors (numbers, rows, matrices) as blocks on its diagonal.

use super::give;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("block_diag(Tensor[] tensors) -> Tensor"),
    doc: "A matrix with the tensors (numbers, rows, matrices) as blocks on its diagonal.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| {
        let blocks: Vec<Tensor> = c
            .ins
            .iter()
            .flatten()
            .enumerate()
            .map(|(i, t)| {
                if t.ndim() > 2 {
                    let text = "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input";
                    return Err(Error::runtime(format!("{text} {i} has {} dimensions", t.ndim())));
                }
                super::hstack::least_2d(t)
            })
            .collect::<Result<_>>()?;
        let Some(first) = blocks.first() else {
            return give(outs, f::empty(&[1, 0])?);
        };
        let dtype = blocks.iter().try_fold(first.dtype(), |d, b| oneflow_base::promote(d, b.dtype()))?;
        let width: i64 = blocks.iter().map(|b| b.sizes()[1]).sum();
        let mut at = 0;
        let mut rows = Vec::with_capacity(blocks.len());
        for b in &blocks {
            let (n, k) = (b.sizes()[0], b.sizes()[1]);
            let zeros = |w: i64| b.new_zeros_with(&[n, w], Some(dtype), None, false);
            rows.push(f::cat([&zeros(at)?, b, &zeros(width - at - k)?], 1)?);
            at += k;
        }
        give(outs, f::cat(&rows, 0)?)
    }),
    ..super::hstack::LIST
};
