//! `scatter_add`, `scatter`: A copy of `input` with `src` added at `index` along a dimension.

use super::{cast_index, only_wide};
use crate::named::{scatter_add, scatter_reduce, scatter_src, scatter_value, scatter_value_reduce};
use crate::prelude::*;

pub fn infer_scatter(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let (x, i) = (c.t(scatter_add::INPUT)?, c.t(scatter_add::INDEX)?);
    super::gather::check(c, x, i, wrap_dim(c.int(scatter_add::DIM)?, x.ndim())?)?;
    if let Some(src) = c.opt(scatter_add::SRC) {
        if src.dtype() != x.dtype() {
            return Err(Error::runtime(format!(
                "{}(): Expected self.dtype to be equal to src.dtype (self {}, src {})",
                c.name(),
                x.dtype(),
                src.dtype()
            )));
        }
        let small = i.numel() > 0 && (src.ndim() != i.ndim() || (0..i.ndim()).any(|k| i.sizes()[k] > src.sizes()[k]));
        if small {
            return Err(Error::runtime(format!(
                "{}(): Expected index {:?} to be no larger than src {:?}",
                c.name(),
                i.sizes(),
                src.sizes()
            )));
        }
    }
    outs.push(x.dtype(), x.device(), x.sizes())
}

pub fn lower_scatter(c: &Call<'_>, outs: &Outs, l: &mut Lowered, kind: ScatterKind) -> Result<()> {
    only_wide(c, scatter_add::INDEX)?;
    let (x, i, src) = (c.t(scatter_add::INPUT)?, c.t(scatter_add::INDEX)?, c.t(scatter_add::SRC)?);
    super::moves_only(x.dtype(), kind)?;
    l.starts_as(scatter_add::INPUT);
    if let Some(none) = super::gather::nothing(x, i) {
        l.input_as(scatter_add::INDEX, none.clone(), none.clone(), i.offset()).input_as(
            scatter_add::SRC,
            none.clone(),
            none,
            src.offset(),
        );
        super::gather::push_output(l, &outs[scatter_add::RESULT]);
        l.with(ScatterParams { dim: wrap_dim(c.int(scatter_add::DIM)?, x.ndim())?, kind });
        return Ok(());
    }
    super::gather::push_input(l, scatter_src::INDEX, i);
    // Only the part of the source under the index counts.
    if src.ndim() == 0 {
        super::gather::push_input(l, scatter_src::SRC, src);
    } else {
        l.input_as(scatter_add::SRC, Dims::from_slice(i.sizes()), Dims::from_slice(src.strides()), src.offset());
    }
    super::gather::push_output(l, &outs[scatter_add::RESULT]);
    l.with(ScatterParams { dim: wrap_dim(c.int(scatter_add::DIM)?, x.ndim())?, kind });
    Ok(())
}

pub fn scatter_samples() -> Vec<Sample> {
    let t = |s: &[i64], d, i: &[i64]| {
        Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d), SampleArg::i64(i, 0, 3), SampleArg::f32(i)])
    };
    vec![t(&[3, 4], 0, &[2, 4]), t(&[4, 3], 1, &[4, 2]), t(&[3], -1, &[2])]
}

pub static SCATTER_ADD: OpDef = OpDef {
    sig: Sig::parse("scatter_add(Tensor input, int dim, Tensor index, Tensor src) -> Tensor"),
    doc: "A copy of `input` with `src` added at `index` along a dimension.

Example::

    >>> oneflow.scatter_add(oneflow.zeros(3), 0, oneflow.tensor([0, 0, 2]), oneflow.ones(3))
    tensor([2., 0., 1.])",
    faces: Faces::ALL,
    infer: infer_scatter,
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::SCATTER,
        lower: |c, o, l| lower_scatter(c, o, l, ScatterKind::Add),
    },
    compose: Some(|c, outs| {
        outs.give(c.t(scatter_add::INPUT)?.scatter_add(
            c.int(scatter_add::DIM)?,
            &cast_index(c, scatter_add::INDEX)?,
            c.t(scatter_add::SRC)?,
        )?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(scatter_add::INDEX, &[scatter_add::SRC])],
        fix: Fix::None,
        f: |c, out| {
            let d = c.arg(scatter_add::DIM).int().unwrap_or(0);
            out.set(scatter_add::INPUT, || Ok(c.g()?.clone()))?;
            out.set(scatter_add::SRC, || {
                under(c.g()?.gather(d, c.x(scatter_add::INDEX)?)?, &c.in_meta(scatter_add::SRC)?.sizes)
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, r| super::gather::rows(c, 3, r))),
    samples: scatter_samples,
    traits: Traits::EXACT_OUT.or(Traits::STARTS_AS_FIRST).or(Traits::READS_DISJOINT),
    ..OpDef::BASE
};

pub static SCATTER_OP: OpDef = OpDef {
    sig: Sig::parse("scatter.src(Tensor input, int dim, Tensor index, Tensor src) -> Tensor"),
    doc: "A copy of `input` with `src` written at `index` along a dimension.

Example::

    >>> oneflow.scatter(oneflow.zeros(3), 0, oneflow.tensor([2]), oneflow.ones(1))
    tensor([0., 0., 1.])",
    faces: Faces::ALL,
    infer: infer_scatter,
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::SCATTER,
        lower: |c, o, l| lower_scatter(c, o, l, ScatterKind::Set),
    },
    compose: Some(|c, outs| {
        outs.give(c.t(scatter_src::INPUT)?.scatter_src(
            c.int(scatter_src::DIM)?,
            &cast_index(c, scatter_src::INDEX)?,
            c.t(scatter_src::SRC)?,
        )?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(scatter_src::INDEX, &[scatter_src::INPUT, scatter_src::SRC])],
        fix: Fix::None,
        f: |c, out| {
            let d = c.arg(scatter_src::DIM).int().unwrap_or(0);
            out.set(scatter_src::INPUT, || c.g()?.scatter_value(d, c.x(scatter_src::INDEX)?, 0.0))?;
            out.set(scatter_src::SRC, || {
                under(c.g()?.gather(d, c.x(scatter_src::INDEX)?)?, &c.in_meta(scatter_src::SRC)?.sizes)
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, r| super::gather::rows(c, 3, r))),
    samples: scatter_samples,
    traits: Traits::EXACT_OUT.or(Traits::STARTS_AS_FIRST).or(Traits::READS_DISJOINT),
    ..OpDef::BASE
};

pub static SCATTER_VALUE: OpDef = OpDef {
    sig: Sig::parse("scatter.value(Tensor input, int dim, Tensor index, Scalar value) -> Tensor"),
    doc: "A copy of `input` with one number written at `index` along a dimension.

Example::

    >>> oneflow.scatter(oneflow.zeros(3), 0, oneflow.tensor([2]), 5.)
    tensor([0., 0., 5.])",
    faces: Faces::ALL,
    infer: infer_scatter,
    compose: Some(|c, outs| {
        let (x, i) = (c.t(scatter_value::INPUT)?, c.t(scatter_value::INDEX)?);
        let value = c.arg(scatter_value::VALUE).scalar().unwrap_or(Scalar::Int(0));
        scalar_range::check(c, x.dtype(), value)?;
        let src = x.new_full(&[], value)?;
        outs.give(x.scatter_src(c.int(scatter_value::DIM)?, i, &src.expand(i.sizes())?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        vec![Sample::new(vec![
            SampleArg::f32(&[3, 4]),
            SampleArg::Int(0),
            SampleArg::i64(&[2, 4], 0, 3),
            SampleArg::Float(2.0),
        ])]
    },
    traits: Traits::EXACT_OUT.or(Traits::STARTS_AS_FIRST).or(Traits::READS_DISJOINT),
    ..OpDef::BASE
};

fn reduce_kind(text: &str) -> Result<ScatterKind> {
    match text {
        "add" => Ok(ScatterKind::Add),
        "multiply" => Ok(ScatterKind::Mul),
        other => {
            Err(Error::runtime(format!("scatter(): reduce argument must be either add or multiply, got {other:?}")))
        }
    }
}

pub static SCATTER_REDUCE: OpDef = OpDef {
    sig: Sig::parse("scatter.reduce(Tensor input, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor"),
    doc: "With `reduce` \"add\" or \"multiply\", combined with what is there.",
    faces: Faces::ALL,
    infer: |c, outs| {
        reduce_kind(c.str(scatter_reduce::REDUCE)?)?;
        infer_scatter(c, outs)
    },
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::SCATTER,
        lower: |c, o, l| lower_scatter(c, o, l, reduce_kind(c.str(scatter_reduce::REDUCE)?)?),
    },
    compose: Some(|c, outs| {
        outs.give(c.t(scatter_reduce::INPUT)?.scatter_reduce(
            c.int(scatter_reduce::DIM)?,
            &cast_index(c, scatter_reduce::INDEX)?,
            c.t(scatter_reduce::SRC)?,
            c.str(scatter_reduce::REDUCE)?,
        )?);
        Ok(())
    }),
    sbp: SbpRule::of(Rows::Custom(|c, r| super::gather::rows(c, 3, r))),
    samples: || scatter_samples().into_iter().map(|s| s.kw("reduce", SampleArg::Str("multiply"))).collect(),
    traits: Traits::EXACT_OUT.or(Traits::READS_DISJOINT),
    ..OpDef::BASE
};

pub static SCATTER_VALUE_REDUCE: OpDef = OpDef {
    sig: Sig::parse("scatter.value_reduce(Tensor input, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor"),
    doc: "",
    faces: Faces::ALL,
    infer: |c, outs| {
        reduce_kind(c.str(scatter_value_reduce::REDUCE)?)?;
        infer_scatter(c, outs)
    },
    compose: Some(|c, outs| {
        let (x, i) = (c.t(scatter_value_reduce::INPUT)?, c.t(scatter_value_reduce::INDEX)?);
        let value = c.arg(scatter_value_reduce::VALUE).scalar().unwrap_or(Scalar::Int(0));
        let src = x.new_full(&[], value)?;
        outs.give(x.scatter_reduce(
            c.int(scatter_value_reduce::DIM)?,
            i,
            &src.expand(i.sizes())?,
            c.str(scatter_value_reduce::REDUCE)?,
        )?);
        Ok(())
    }),
    samples: || {
        let i = SampleArg::i64(&[2, 4], 0, 3);
        let args = vec![SampleArg::f32(&[3, 4]), SampleArg::Int(0), i, SampleArg::Float(2.0)];
        vec![Sample::new(args).kw("reduce", SampleArg::Str("add"))]
    },
    traits: Traits::EXACT_OUT.or(Traits::READS_DISJOINT),
    ..OpDef::BASE
};

/// The gradient of a source of which only the part under the index was used.
pub fn under(g: Tensor, sizes: &[i64]) -> Result<Tensor> {
    if g.sizes() == sizes {
        return Ok(g);
    }
    let zeros = g.new_zeros(sizes)?;
    zeros.as_strided(g.sizes(), zeros.strides(), None)?.copy_(&g, false)?;
    Ok(zeros)
}
