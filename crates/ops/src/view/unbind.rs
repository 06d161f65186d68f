//! `unbind_copy`, `unbind`: A view of every index along a dimension, which disappears.

use super::{COMPOSED, VIEW, give_all};
use crate::named::{unbind, unbind_copy};
use crate::prelude::*;

pub static UNBIND_COPY: OpDef = OpDef {
    sig: Sig::parse("unbind_copy(Tensor input, int dim=0) -> Tensor[]"),
    doc: "Copies of the slices along a dimension, which disappears.

Example::

    >>> len(oneflow.unbind_copy(oneflow.zeros(2, 3)))
    2",
    faces: Faces::FN,
    compose: Some(|c, outs| {
        give_all(outs, super::tensor_split::copied(c.t(unbind_copy::INPUT)?.unbind(c.int(unbind_copy::DIM)?)?)?)
    }),
    samples: || super::tensor_split::int_samples(&[3, 2], 0),
    ..COMPOSED
};

/// The stack along `dim`, its dimensions in memory in the order of the strides: what led to the parts leads back to a
/// gradient without gaps.
fn stack_like(parts: &[Tensor], dim: usize, strides: &[i64]) -> Result<Tensor> {
    let mut order: Vec<i64> = (0..strides.len() as i64).collect();
    order.sort_by_key(|d| std::cmp::Reverse(strides[*d as usize]));
    if order.is_sorted() {
        return f::stack(parts, dim as i64);
    }
    let (mut back, mut of_part, mut at) = (vec![0; order.len()], Vec::with_capacity(order.len()), 0);
    for (i, &d) in order.iter().enumerate() {
        back[d as usize] = i as i64;
        match d == dim as i64 {
            true => at = i as i64,
            false => of_part.push(d - i64::from(d > dim as i64)),
        }
    }
    let parts = parts.iter().map(|p| p.permute(&of_part)).collect::<Result<Vec<_>>>()?;
    f::stack(&parts, at)?.permute(&back)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("unbind(Tensor(a) input, int dim=0) -> Tensor(a)[]"),
    doc: "A view of every index along a dimension, which disappears.

Example::

    >>> oneflow.unbind(oneflow.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))",
    infer: |c, outs| {
        let x = c.t(unbind::INPUT)?;
        if x.ndim() == 0 {
            return Err(Error::index("Dimension specified as 0 but tensor has no dimensions"));
        }
        let d = wrap_dim(c.int(unbind::DIM)?, x.ndim())?;
        outs.views_of(unbind::INPUT);
        for i in 0..super::split::part_count("unbind", x.sizes()[d])? as i64 {
            let (mut sizes, mut strides) = (Dims::from_slice(x.sizes()), Dims::from_slice(x.strides()));
            sizes.remove(d);
            let stride = strides.remove(d);
            outs.view(unbind::INPUT, x, sizes, strides, x.offset() + i * stride)?;
        }
        Ok(())
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            out.set(unbind::INPUT, || {
                let some =
                    c.outs_grad.iter().flatten().next().ok_or_else(|| Error::runtime("unbind: no gradient arrived"))?;
                let all: Vec<Tensor> = c
                    .outs_grad
                    .iter()
                    .map(|g| g.clone().map_or_else(|| some.zeros_like(), Ok))
                    .collect::<Result<_>>()?;
                let m = c.in_meta(unbind::INPUT)?;
                stack_like(&all, wrap_dim(c.arg(unbind::DIM).int().unwrap_or(0), m.sizes.len())?, &m.strides)
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let x = c.t(unbind::INPUT)?;
        let d = wrap_dim(c.int(unbind::DIM)?, x.ndim())?;
        let n = x.sizes()[d] as usize;
        for i in (0..x.ndim()).filter(|i| *i != d) {
            let to = Sbp::S((i - (i > d) as usize) as u8);
            rows.push(Row { ins: SmallVec::from_slice(&[Sbp::S(i as u8)]), outs: SmallVec::from_elem(to, n) });
        }
        rows.push(Row { ins: SmallVec::from_slice(&[Sbp::P_SUM]), outs: SmallVec::from_elem(Sbp::P_SUM, n) });
        Ok(())
    })),
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![SampleArg::f32(&[3, 4])]), Sample::new(vec![SampleArg::f32(&[3, 2]), i(1)])]
    },
    sparse: Sparse::Unbind,
    ..VIEW
};
