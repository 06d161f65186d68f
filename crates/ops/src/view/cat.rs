//! `cat`: The tensors side by side along a dimension; their other sizes agree.

use crate::elementwise::channels_last;
use crate::named::cat;
use crate::prelude::*;

/// Whether the strides are in the order of channels_last, of a whole tensor or of a part of one.
fn has_channels_last(sizes: &[i64], strides: &[i64]) -> bool {
    let n = sizes.len();
    if strides[1] == 0 {
        return false;
    }
    // From the innermost: channels, then the last dimension to the first one after them, then the batch.
    let mut least = 0;
    for d in std::iter::once(1).chain((2..n).rev()).chain(std::iter::once(0)) {
        if sizes[d] == 0 || strides[d] < least || (d == 0 && least == strides[1]) {
            return false;
        }
        least = strides[d] * sizes[d].max(1);
    }
    true
}

/// Strides of the tensors' concatenation: channels stay last where they are last in all of them.
pub(super) fn joined_strides(mut parts: impl Iterator<Item = (Dims, Dims)>, sizes: &[i64]) -> Result<Dims> {
    let format = if sizes.len() == 5 { "channels_last_3d" } else { "channels_last" };
    if matches!(sizes.len(), 4 | 5)
        && parts.all(|(sizes, strides)| has_channels_last(&sizes, &strides))
        && let Some(strides) = channels_last(format, sizes)?
    {
        return Ok(strides);
    }
    Ok(contiguous_strides(sizes))
}

/// The tensors that count: torch ignores 1-D empty ones.
fn kept<'a>(c: &Call<'a>) -> Vec<(usize, &'a Tensor)> {
    c.ins.iter().enumerate().filter_map(|(i, t)| t.map(|t| (i, t))).filter(|(_, t)| t.sizes() != [0]).collect()
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("cat(Tensor[] tensors, int dim=0) -> Tensor"),
    doc: "The tensors side by side along a dimension; their other sizes agree.

Example::

    >>> oneflow.cat([oneflow.tensor([1]), oneflow.tensor([2, 3])])
    tensor([1, 2, 3])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        if c.ins.is_empty() {
            return Err(Error::value("cat(): expected a non-empty list of Tensors"));
        }
        let first = c.t(cat::TENSORS.first())?;
        let kept = kept(c);
        let shape = kept.first().map_or(first, |k| k.1);
        if let Some((i, _)) = kept.iter().find(|k| k.1.ndim() == 0) {
            return Err(Error::runtime(format!("zero-dimensional tensor (at position {i}) cannot be concatenated")));
        }
        let mut dtype = first.dtype();
        for t in c.ins.iter().flatten() {
            dtype = oneflow_base::promote(dtype, t.dtype())?;
        }
        if kept.is_empty() {
            // Side by side along whatever dimension.
            return outs.push(dtype, first.device(), &[0]);
        }
        let dim = wrap_dim(c.int(cat::DIM)?, shape.ndim())?;
        let mut sizes = Dims::from_slice(shape.sizes());
        sizes[dim] = 0;
        for (i, t) in &kept {
            let (a, b) = (shape.sizes(), t.sizes());
            if a.len() != b.len() {
                return Err(Error::runtime(format!(
                    "cat(): Tensors must have same number of dimensions: got {} and {} for tensor number {i} in the list, of sizes {a:?} and {b:?}",
                    a.len(),
                    b.len()
                )));
            }
            if let Some(d) = (0..a.len()).find(|d| *d != dim && a[*d] != b[*d]) {
                return Err(Error::runtime(format!(
                    "cat(): Sizes of tensors must match except in dimension {dim}. Expected size {} but got size {} for tensor number {i} in the list, of sizes {a:?} and {b:?}",
                    a[d], b[d]
                )));
            }
            sizes[dim] += t.sizes()[dim];
        }
        let parts = kept.iter().map(|(_, t)| (Dims::from_slice(t.sizes()), Dims::from_slice(t.strides())));
        let strides = joined_strides(parts, &sizes)?;
        outs.push_strided(dtype, first.device(), sizes, strides)
    },
    kernel: Kernel::Prim {
        prim: &CONCAT,
        lower: |c, outs, l| {
            let kept = kept(c);
            for (i, _) in &kept {
                l.input(cat::TENSORS.nth(c.args, *i));
            }
            let dim = if kept.is_empty() { 0 } else { wrap_dim(c.int(cat::DIM)?, outs[cat::RESULT].ndim())? };
            l.output(cat::RESULT).with(DimParams { dim });
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            let g = c.g()?;
            // Empty ones alone may name any dimension.
            let dim = wrap_dim(c.arg(cat::DIM).int().unwrap_or(0), g.ndim()).unwrap_or(0);
            let mut at = 0;
            for i in cat::TENSORS.all(c.args) {
                let m = c.in_meta(i)?;
                if m.sizes.as_slice() == [0] && g.ndim() != 1 {
                    out.set(i, || g.new_zeros(&[0]))?;
                    continue;
                }
                let n = m.sizes[dim];
                out.set(i, || g.slice(dim as i64, Some(at), Some(at + n), 1))?;
                at += n;
            }
            Ok(())
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let n = c.ins.len();
        let dim = wrap_dim(c.int(cat::DIM)?, c.t(cat::TENSORS.first())?.ndim())?;
        for i in (0..c.t(cat::TENSORS.first())?.ndim()).filter(|i| *i != dim) {
            let s = Sbp::S(i as u8);
            rows.push(Row { ins: SmallVec::from_elem(s, n), outs: SmallVec::from_slice(&[s]) });
        }
        rows.push(Row { ins: SmallVec::from_elem(Sbp::P_SUM, n), outs: SmallVec::from_slice(&[Sbp::P_SUM]) });
        Ok(())
    })),
    amp: Amp::WIDEST,
    samples: || {
        let t = |a: &[i64], b: &[i64], d| {
            Sample::new(vec![SampleArg::List(vec![SampleArg::f32(a), SampleArg::f32(b)]), SampleArg::Int(d)])
        };
        vec![t(&[2, 3], &[2, 3], 0), t(&[2, 3], &[2, 1], 1), t(&[2, 0], &[2, 3], -1), t(&[4], &[2], 0)]
    },
    sparse: Sparse::Cat,
    ..OpDef::BASE
};
