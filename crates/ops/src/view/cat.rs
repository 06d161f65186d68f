//! `cat`: The tensors side by side along a dimension; their other sizes agree.

use crate::elementwise::channels_last;
use crate::named::cat;
use crate::prelude::*;

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
        let dim = wrap_dim(c.int(cat::DIM)?, shape.ndim())?;
        let mut sizes = Dims::from_slice(shape.sizes());
        if !kept.is_empty() {
            sizes[dim] = 0;
        }
        let mut dtype = first.dtype();
        for t in c.ins.iter().flatten() {
            dtype = oneflow_base::promote(dtype, t.dtype())?;
        }
        for (i, t) in &kept {
            let same = t.ndim() == shape.ndim() && (0..t.ndim()).all(|d| d == dim || t.sizes()[d] == shape.sizes()[d]);
            if !same {
                return Err(Error::runtime(format!(
                    "cat(): Sizes of tensors must match except in dimension {dim}. Expected {:?} but got {:?} for tensor number {i} in the list.",
                    shape.sizes(),
                    t.sizes()
                )));
            }
            sizes[dim] += t.sizes()[dim];
        }
        // Channels stay last where they are last in all of them.
        let format = if sizes.len() == 5 { "channels_last_3d" } else { "channels_last" };
        let is_last = |t: &Tensor| -> Result<bool> {
            Ok(!t.is_contiguous() && channels_last(format, t.sizes())?.is_some_and(|s| s.as_slice() == t.strides()))
        };
        if matches!(sizes.len(), 4 | 5) && !kept.is_empty() {
            let all = kept.iter().map(|(_, t)| is_last(t)).collect::<Result<Vec<_>>>()?;
            if all.iter().all(|l| *l)
                && let Some(strides) = channels_last(format, &sizes)?
            {
                return outs.push_strided(dtype, first.device(), sizes, strides);
            }
        }
        outs.push(dtype, first.device(), &sizes)
    },
    kernel: Kernel::Prim {
        prim: &CONCAT,
        lower: |c, outs, l| {
            for (i, _) in kept(c) {
                l.input(cat::TENSORS.nth(c.args, i));
            }
            l.output(cat::RESULT).with(DimParams { dim: wrap_dim(c.int(cat::DIM)?, outs[cat::RESULT].ndim())? });
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            let g = c.g()?;
            let dim = wrap_dim(c.arg(cat::DIM).int().unwrap_or(0), g.ndim())?;
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
    amp: Amp::Widest,
    samples: || {
        let t = |a: &[i64], b: &[i64], d| {
            Sample::new(vec![SampleArg::List(vec![SampleArg::f32(a), SampleArg::f32(b)]), SampleArg::Int(d)])
        };
        vec![t(&[2, 3], &[2, 3], 0), t(&[2, 3], &[2, 1], 1), t(&[2, 0], &[2, 3], -1), t(&[4], &[2], 0)]
    },
    ..OpDef::BASE
};
