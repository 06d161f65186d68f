//! `index_add`: A copy of `input` with the entries of `source`, times `alpha`, added at `index` along a dimension.

use crate::named::index_add;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("index_add(Tensor input, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"),
    doc: "A copy of `input` with the entries of `source`, times `alpha`, added at `index` along a dimension.

Example::

    >>> oneflow.index_add(oneflow.zeros(3), 0, oneflow.tensor([0, 0]), oneflow.ones(2))
    tensor([2., 0., 0.])",
    faces: Faces::ALL,
    infer: |c, outs| {
        let (x, i, s) = (c.t(index_add::INPUT)?, c.t(index_add::INDEX)?, c.t(index_add::SOURCE)?);
        if i.dtype() != DType::I64 && i.dtype() != DType::I32 {
            return Err(Error::runtime(format!(
                "index_add_(): Expected dtype int32/int64 for index but got: {}",
                i.dtype()
            )));
        }
        if x.dtype() != s.dtype() {
            return Err(Error::runtime(format!(
                "index_add_(): self ({}) and source ({}) must have the same scalar type",
                x.dtype(),
                s.dtype()
            )));
        }
        let d = wrap_dim(c.int(index_add::DIM)?, x.ndim())?;
        let fits = s.ndim() == x.ndim()
            && (0..x.ndim()).all(|k| if k == d { s.sizes()[k] == i.numel() } else { s.sizes()[k] == x.sizes()[k] });
        if !fits || i.ndim() > 1 {
            return Err(Error::runtime(format!(
                "index_add_(): source {:?} must match input {:?} except in dimension {d}, where it has the length of the index {:?}",
                s.sizes(),
                x.sizes(),
                i.sizes()
            )));
        }
        outs.push(x.dtype(), x.device(), x.sizes())
    },
    kernel: Kernel::Prim {
        prim: &SCATTER,
        lower: |c, outs, l| {
            if c.arg(index_add::ALPHA).scalar().is_some_and(|a| !a.is_one()) {
                return Err(Error::not_implemented("index_add: alpha is multiplied by the composition"));
            }
            let (x, i, s) = (c.t(index_add::INPUT)?, c.t(index_add::INDEX)?, c.t(index_add::SOURCE)?);
            if i.dtype() != DType::I64 {
                return Err(Error::not_implemented("index_add: int32 indices are cast by the composition"));
            }
            let d = wrap_dim(c.int(index_add::DIM)?, x.ndim())?;
            l.starts_as(index_add::INPUT);
            // The index along `d`, repeated over every other dim of the source.
            let mut strides: Dims = SmallVec::from_elem(0, s.ndim());
            if x.ndim() > 0 {
                strides[d] = i.strides().first().copied().unwrap_or(0);
            }
            l.input_as(index_add::INDEX, Dims::from_slice(s.sizes()), strides, i.offset());
            let _ = outs;
            l.input(index_add::SOURCE).output(index_add::RESULT).with(ScatterParams { dim: d, kind: ScatterKind::Add });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (x, i, s) = (c.t(index_add::INPUT)?, c.t(index_add::INDEX)?, c.t(index_add::SOURCE)?);
        let scaled = match c.arg(index_add::ALPHA).scalar() {
            Some(a) if !a.is_one() => s.mul(a)?,
            _ => s.clone(),
        };
        let i = if i.dtype() == DType::I64 { i.clone() } else { i.to_copy_with(Some(DType::I64), None)? };
        outs.give(x.index_add(c.int(index_add::DIM)?, &i, &scaled)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(index_add::INDEX, &[index_add::SOURCE])],
        fix: Fix::None,
        f: |c, out| {
            out.set(index_add::INPUT, || Ok(c.g()?.clone()))?;
            let d = c.arg(index_add::DIM).int().unwrap_or(0);
            out.set(index_add::SOURCE, || {
                let g = c.g()?.index_select(d, c.x(index_add::INDEX)?)?;
                match c.arg(index_add::ALPHA).scalar() {
                    Some(a) if !a.is_one() => g.mul(a.conj()),
                    _ => Ok(g),
                }
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let x = c.t(index_add::INPUT)?;
        let d = wrap_dim(c.int(index_add::DIM)?, x.ndim())?;
        for i in (0..x.ndim()).filter(|i| *i != d) {
            let s = Sbp::S(i as u8);
            rows.push(Row { ins: SmallVec::from_slice(&[s, Sbp::B, s]), outs: SmallVec::from_slice(&[s]) });
        }
        let (b, p) = (Sbp::B, Sbp::P_SUM);
        rows.push(Row { ins: SmallVec::from_slice(&[p, b, p]), outs: SmallVec::from_slice(&[p]) });
        rows.push(Row {
            ins: SmallVec::from_slice(&[p, Sbp::S(0), Sbp::S(d as u8)]),
            outs: SmallVec::from_slice(&[p]),
        });
        Ok(())
    })),
    samples: || {
        vec![Sample::new(vec![
            SampleArg::f32(&[3, 4]),
            SampleArg::Int(0),
            SampleArg::i64(&[5], 0, 3),
            SampleArg::f32(&[5, 4]),
        ])]
    },
    traits: Traits::EXACT_OUT.or(Traits::STARTS_AS_FIRST).or(Traits::READS_DISJOINT),
    limited: Limited::COMPLEX,
    ..OpDef::BASE
};
