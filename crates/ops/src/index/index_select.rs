//! `index_select`: The entries at `index` (1-D) along a dimension.

use crate::named::index_select;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("index_select(Tensor input, int dim, Tensor index) -> Tensor"),
    doc: "The entries at `index` (1-D) along a dimension.

Example::

    >>> oneflow.index_select(oneflow.tensor([1., 2., 3.]), 0, oneflow.tensor([2, 0]))
    tensor([3., 1.])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let (x, i) = (c.t(index_select::INPUT)?, c.t(index_select::INDEX)?);
        if i.ndim() > 1 {
            return Err(Error::index("index_select(): Index is supposed to be a vector"));
        }
        if i.dtype() != DType::I64 && i.dtype() != DType::I32 {
            return Err(Error::runtime(format!(
                "index_select(): Expected dtype int32 or int64 for index, but got {}",
                i.dtype()
            )));
        }
        let d = wrap_dim(c.int(index_select::DIM)?, x.ndim())?;
        let mut sizes = Dims::from_slice(x.sizes());
        if x.ndim() > 0 {
            sizes[d] = i.numel();
        }
        outs.push(x.dtype(), x.device(), &sizes)
    },
    kernel: Kernel::Prim {
        prim: &INDEX_SELECT,
        lower: |c, outs, l| {
            let (x, i) = (c.t(index_select::INPUT)?, c.t(index_select::INDEX)?);
            let d = wrap_dim(c.int(index_select::DIM)?, x.ndim())?;
            let one = || Dims::from_slice(&[1]);
            if x.ndim() == 0 {
                l.input_as(index_select::INPUT, one(), one(), x.offset());
                l.input_as(index_select::INDEX, one(), one(), i.offset());
                l.output_as(index_select::RESULT, one(), one(), outs[index_select::RESULT].offset());
            } else {
                l.input(index_select::INPUT);
                if i.ndim() == 0 {
                    l.input_as(index_select::INDEX, one(), one(), i.offset())
                } else {
                    l.input(index_select::INDEX)
                };
                l.output(index_select::RESULT);
            }
            l.with(DimParams { dim: d });
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::of(index_select::INDEX, &[index_select::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let d = c.arg(index_select::DIM).int().unwrap_or(0);
            out.set(index_select::INPUT, || {
                c.g()?.new_zeros(&c.in_meta(index_select::INPUT)?.sizes)?.index_add(
                    d,
                    c.x(index_select::INDEX)?,
                    c.g()?,
                )
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let x = c.t(index_select::INPUT)?;
        let d = wrap_dim(c.int(index_select::DIM)?, x.ndim())?;
        for i in (0..x.ndim()).filter(|i| *i != d) {
            let s = Sbp::S(i as u8);
            rows.push(Row { ins: SmallVec::from_slice(&[s, Sbp::B]), outs: SmallVec::from_slice(&[s]) });
        }
        let (b, p, s) = (Sbp::B, Sbp::P_SUM, Sbp::S(d as u8));
        rows.push(Row { ins: SmallVec::from_slice(&[p, b]), outs: SmallVec::from_slice(&[p]) });
        rows.push(Row { ins: SmallVec::from_slice(&[b, Sbp::S(0)]), outs: SmallVec::from_slice(&[s]) });
        Ok(())
    })),
    samples: || {
        let t = |s: &[i64], d, n| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d), SampleArg::i64(&[n], 0, 3)]);
        vec![t(&[3, 4], 0, 5), t(&[4, 3], 1, 2), t(&[3], -1, 4), t(&[3, 2], 0, 0)]
    },
    traits: Traits::EXACT_OUT,
    sparse: Sparse::IndexSelect,
    ..OpDef::BASE
};
