//! Rows of a tensor by index along one dimension, and adding to them.

use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("index_select(Tensor input, int dim, Tensor index) -> Tensor"),
    doc: "The entries at `index` (1-D) along a dimension.

Example::

    >>> oneflow.index_select(oneflow.tensor([1., 2., 3.]), 0, oneflow.tensor([2, 0]))
    tensor([3., 1.])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let (x, i) = (c.t(0)?, c.t(1)?);
        if i.ndim() > 1 {
            return Err(Error::index("index_select(): Index is supposed to be a vector"));
        }
        if i.dtype() != DType::I64 && i.dtype() != DType::I32 {
            return Err(Error::runtime(format!(
                "index_select(): Expected dtype int32 or int64 for index, but got {}",
                i.dtype()
            )));
        }
        let d = wrap_dim(c.int(0)?, x.ndim())?;
        let mut sizes = Dims::from_slice(x.sizes());
        if x.ndim() > 0 {
            sizes[d] = i.numel();
        }
        outs.push(x.dtype(), x.device(), &sizes)
    },
    kernel: Kernel::Prim {
        prim: &INDEX_SELECT,
        lower: |c, outs, l| {
            let (x, i) = (c.t(0)?, c.t(1)?);
            let d = wrap_dim(c.int(0)?, x.ndim())?;
            let one = || Dims::from_slice(&[1]);
            if x.ndim() == 0 {
                l.input_as(0, one(), one(), x.offset());
                l.input_as(1, one(), one(), i.offset());
                l.output_as(0, one(), one(), outs[0].offset());
            } else {
                l.input(0);
                if i.ndim() == 0 {
                    l.input_as(1, one(), one(), i.offset())
                } else {
                    l.input(1)
                };
                l.output(0);
            }
            l.param(d as i64);
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::In(1, 0b1)],
        fix: Fix::None,
        f: |c, out| {
            let d = c.arg(0).int().unwrap_or(0);
            out.set(0, || c.g()?.new_zeros(&c.in_meta(0)?.sizes)?.index_add(d, c.x(1)?, c.g()?))
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let x = c.t(0)?;
        let d = wrap_dim(c.int(0)?, x.ndim())?;
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
    ..OpDef::BASE
};

pub static ADD: OpDef = OpDef {
    sig: Sig::parse("index_add(Tensor input, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"),
    doc: "A copy of `input` with the entries of `source`, times `alpha`, added at `index` along a dimension.

Example::

    >>> oneflow.index_add(oneflow.zeros(3), 0, oneflow.tensor([0, 0]), oneflow.ones(2))
    tensor([2., 0., 0.])",
    faces: Faces::ALL,
    infer: |c, outs| {
        let (x, i, s) = (c.t(0)?, c.t(1)?, c.t(2)?);
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
        let d = wrap_dim(c.int(0)?, x.ndim())?;
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
            if c.arg(1).scalar().is_some_and(|a| a.to_f64() != 1.0) {
                return Err(Error::not_implemented("index_add: alpha is multiplied by the composition"));
            }
            let (x, i, s) = (c.t(0)?, c.t(1)?, c.t(2)?);
            if i.dtype() != DType::I64 {
                return Err(Error::not_implemented("index_add: int32 indices are cast by the composition"));
            }
            let d = wrap_dim(c.int(0)?, x.ndim())?;
            l.init = Some(0);
            // The index along `d`, repeated over every other dim of the source.
            let mut strides: Dims = SmallVec::from_elem(0, s.ndim());
            if x.ndim() > 0 {
                strides[d] = i.strides().first().copied().unwrap_or(0);
            }
            l.input_as(1, Dims::from_slice(s.sizes()), strides, i.offset());
            let _ = outs;
            l.input(2).output(0).param(d as i64).param(ScatterKind::Add as u64);
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (x, i, s) = (c.t(0)?, c.t(1)?, c.t(2)?);
        let scaled = match c.arg(1).scalar() {
            Some(a) if a.to_f64() != 1.0 => s.mul(a)?,
            _ => s.clone(),
        };
        let i = if i.dtype() == DType::I64 { i.clone() } else { i.to_copy_with(Some(DType::I64), None)? };
        outs.give(x.index_add(c.int(0)?, &i, &scaled)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::In(1, 0b100)],
        fix: Fix::None,
        f: |c, out| {
            out.set(0, || Ok(c.g()?.clone()))?;
            let d = c.arg(0).int().unwrap_or(0);
            out.set(2, || {
                let g = c.g()?.index_select(d, c.x(1)?)?;
                match c.arg(1).scalar() {
                    Some(a) if a.to_f64() != 1.0 => g.mul(a),
                    _ => Ok(g),
                }
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let x = c.t(0)?;
        let d = wrap_dim(c.int(0)?, x.ndim())?;
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
    traits: Traits::EXACT_OUT.or(Traits::STARTS_AS_FIRST).or(Traits::READS_APART),
    limited: Limited::COMPLEX,
    ..OpDef::BASE
};
