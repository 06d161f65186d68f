//! `cumsum`: Running sum along a dimension.

use super::*;
use crate::named::cumsum;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("cumsum(Tensor input, int dim, *, DType? dtype=None) -> Tensor"),
    doc: "Running sum along a dimension.

Example::

    >>> oneflow.cumsum(oneflow.tensor([1., 2., 3.]), 0)
    tensor([1., 3., 6.])",
    kernel: Kernel::Prim { prim: &SCAN, lower: |c, outs, l| super::prod::lower_scan(c, outs, l, ReduceKind::Sum) },
    compose: Some(|c, outs| {
        let (x, d) = after_cast(c, cumsum::DTYPE)?;
        give(outs, x.cumsum_with(c.int(cumsum::DIM)?, Some(d))?)
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            let d = c.arg(cumsum::DIM).int().unwrap_or(0);
            out.set(cumsum::INPUT, || {
                let g = c.g()?;
                if g.ndim() == 0 { Ok(g.clone()) } else { g.flip(&[d])?.cumsum(d)?.flip(&[d]) }
            })
        },
    },
    limited: Limited::UNSIGNED,
    ..super::prod::SCAN_BASE
};
