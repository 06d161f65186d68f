//! `index`: Advanced indexing with int64 tensors, one (or none) a dimension.

use crate::named::index;
use crate::prelude::*;

/// Where the index dimensions stand in the result, their common shape, and the result's sizes.
pub(super) struct Plan {
    pub(super) position: usize,
    pub(super) shape: Dims,
    pub(super) sizes: Dims,
}

impl Plan {
    /// The result in the memory order of an elementwise op of `x`, which does not move along the dimensions of indices, and the
    /// indices, as PyTorch lays it out.
    fn strides(&self, x: &Tensor, indices: &[Option<&Tensor>]) -> Dims {
        let n = self.sizes.len();
        let rest = (0..x.ndim()).filter(|d| indices.get(*d).copied().flatten().is_none());
        let mut from_x: Dims = rest.map(|d| x.strides()[d]).collect();
        from_x.insert_many(self.position, std::iter::repeat_n(0, self.shape.len()));
        let mut operands: SmallVec<[Dims; 4]> = SmallVec::from_elem(from_x, 1);
        for t in indices.iter().flatten() {
            // An index is seen with a dimension of one element for each other dimension of the result, as `reshape` makes them.
            let end = self.position + self.shape.len();
            let first = end - t.ndim();
            let around = |d: usize| match (d < first, t.sizes().first()) {
                (true, Some(size)) => size * t.strides()[0],
                _ => t.strides().last().copied().unwrap_or(1),
            };
            let mut own: Dims = (0..n).map(|d| if self.sizes[d] == 1 { around(d) } else { 0 }).collect();
            for (k, (size, stride)) in t.sizes().iter().zip(t.strides()).enumerate() {
                own[first + k] = if *size == self.sizes[first + k] { *stride } else { 0 };
            }
            operands.push(own);
        }
        crate::elementwise::dense_order(operands.len(), |t, d| operands[t][d], &self.sizes)
    }
}

pub(super) fn plan(c: &Call<'_>, indices: &[Option<&Tensor>]) -> Result<Plan> {
    let x = c.t(index::INPUT)?;
    if indices.is_empty() {
        return Err(Error::index(format!("{}(): at least one index must be provided", c.name())));
    }
    if indices.len() > x.ndim() {
        return Err(Error::index(format!(
            "too many indices for tensor of dimension {} (got {})",
            x.ndim(),
            indices.len()
        )));
    }
    let mut shape = Dims::new();
    for t in indices.iter().flatten() {
        if t.dtype() != DType::I64 {
            return Err(Error::index(format!(
                "tensors used as indices must be long, int, byte or bool tensors, got {} (masks and smaller integers are converted by the front end)",
                t.dtype()
            )));
        }
        shape = broadcast_shapes(&shape, t.sizes()).map_err(|_| {
            Error::index(format!(
                "shape mismatch: indexing tensors could not be broadcast together with shapes {:?}",
                indices.iter().flatten().map(|t| t.sizes()).collect::<Vec<_>>()
            ))
        })?;
    }
    let used: SmallVec<[usize; 6]> = indices.iter().enumerate().filter(|(_, t)| t.is_some()).map(|(i, _)| i).collect();
    if !shape.contains(&0) && used.iter().any(|d| x.sizes()[*d] == 0) {
        return Err(Error::index("index is out of bounds for dimension with size 0"));
    }
    let adjacent = used.windows(2).all(|w| w[1] == w[0] + 1);
    let position = if adjacent { used.first().copied().unwrap_or(0) } else { 0 };
    let rest = (0..x.ndim()).filter(|i| !used.contains(i));
    let mut sizes: Dims = rest.map(|i| x.sizes()[i]).collect();
    sizes.insert_from_slice(position, &shape);
    Ok(Plan { position, shape, sizes })
}

/// Index operands: one a dimension of x, broadcast to the common shape.
pub(super) fn push_indices(
    l: &mut Lowered,
    at: Ins,
    c: &Call<'_>,
    indices: &[Option<&Tensor>],
    ndim: usize,
    shape: &[i64],
) {
    for d in 0..ndim {
        match indices.get(d).copied().flatten() {
            Some(t) => {
                l.input_expanded(at.nth(c.args, d), t, shape);
            }
            None => l.ins.push(None),
        }
    }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("index(Tensor input, Tensor?[] indices) -> Tensor"),
    doc: "Advanced indexing with int64 tensors, one (or none) a dimension.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let indices = c.list(index::INDICES);
        let (x, plan) = (c.t(index::INPUT)?, plan(c, indices)?);
        if x.is_contiguous() && indices.iter().flatten().all(|t| t.is_contiguous()) {
            return outs.push(x.dtype(), x.device(), &plan.sizes);
        }
        let strides = plan.strides(x, indices);
        outs.push_strided(x.dtype(), x.device(), plan.sizes, strides)
    },
    kernel: Kernel::Prim {
        prim: &INDEX,
        lower: |c, _, l| {
            let indices = c.list(index::INDICES);
            let plan = plan(c, indices)?;
            l.input(index::INPUT);
            push_indices(l, index::INDICES, c, indices, c.t(index::INPUT)?.ndim(), &plan.shape);
            l.output(index::RESULT).with(IndexParams { position: plan.position, n_dims: plan.shape.len() });
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::from_list(index::INDICES, InMask::of(&[index::INPUT]))],
        fix: Fix::None,
        f: |c, out| {
            out.set(index::INPUT, || {
                let zeros = c.g()?.new_zeros(&c.in_meta(index::INPUT)?.sizes)?;
                zeros.index_put(c.xs(index::INDICES), c.g()?, true)
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let n = c.ins.len();
        let mut ins: SmallVec<[Sbp; 4]> = SmallVec::from_elem(Sbp::B, n);
        ins[0] = Sbp::P_SUM;
        rows.push(Row { ins, outs: SmallVec::from_slice(&[Sbp::P_SUM]) });
        Ok(())
    })),
    samples: || {
        let t = |s: &[i64], i: &[&[i64]]| {
            let indices = i.iter().map(|s| SampleArg::i64(s, 0, 3)).collect();
            Sample::new(vec![SampleArg::f32(s), SampleArg::List(indices)])
        };
        vec![t(&[3, 4], &[&[2]]), t(&[3, 4], &[&[2, 1], &[3]]), t(&[3], &[&[]])]
    },
    batch: Batching::Index,
    ..OpDef::BASE
};
