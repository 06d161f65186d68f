//! Elements picked and scattered by an index of the result's shape.

use super::{cast_index, check_index, only_wide};
use crate::prelude::*;

/// Sizes of `index` may not exceed those of `x`, except along `dim`.
fn check(c: &Call<'_>, x: &Tensor, index: &Tensor, dim: usize) -> Result<()> {
    check_index(c.name(), index, true)?;
    if index.numel() == 0 {
        return Ok(());
    }
    if index.ndim().max(1) != x.ndim().max(1) {
        return Err(Error::runtime(format!(
            "{}(): Index tensor must have the same number of dimensions as input tensor (index {:?}, input {:?})",
            c.name(),
            index.sizes(),
            x.sizes()
        )));
    }
    if index.ndim() == x.ndim() && (0..x.ndim()).any(|i| i != dim && index.sizes()[i] > x.sizes()[i]) {
        return Err(Error::runtime(format!(
            "{}(): Size does not match: expected index {:?} to be no larger than self {:?} apart from dimension {dim}",
            c.name(),
            index.sizes(),
            x.sizes()
        )));
    }
    Ok(())
}

/// Sizes (and strides) of an index without elements, whose own shape does not count.
fn nothing(x: &Tensor, index: &Tensor) -> Option<Dims> {
    (index.numel() == 0).then(|| SmallVec::from_elem(0, x.ndim().max(1)))
}

/// A 0-dim tensor seen with one dimension.
fn push_input(l: &mut Lowered, i: usize, t: &Tensor) {
    if t.ndim() == 0 {
        l.input_as(i, Dims::from_slice(&[1]), Dims::from_slice(&[1]), t.offset());
    } else {
        l.input(i);
    }
}

fn push_output(l: &mut Lowered, t: &Tensor) {
    if t.ndim() == 0 {
        l.output_as(0, Dims::from_slice(&[1]), Dims::from_slice(&[1]), t.offset());
    } else {
        l.output(0);
    }
}

pub fn rows(c: &Call<'_>, n_ins: usize, rows: &mut Vec<Row>) -> Result<()> {
    let x = c.t(0)?;
    let (dim, index) = (wrap_dim(c.int(0)?, x.ndim())?, c.t(1)?);
    for i in 0..x.ndim().min(index.ndim()) {
        if i != dim && x.sizes()[i] == index.sizes()[i] {
            let s = Sbp::S(i as u8);
            rows.push(Row { ins: SmallVec::from_elem(s, n_ins), outs: SmallVec::from_slice(&[s]) });
        }
    }
    Ok(())
}

pub static GATHER_OP: OpDef = OpDef {
    sig: Sig::parse("gather(Tensor input, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"),
    doc: "`out[i][j] = input[index[i][j]][j]` for `dim=0`, and so on.

Example::

    >>> oneflow.gather(oneflow.tensor([[1., 2.], [3., 4.]]), 1, oneflow.tensor([[0], [1]]))
    tensor([[1.],
            [4.]])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let (x, i) = (c.t(0)?, c.t(1)?);
        check(c, x, i, wrap_dim(c.int(0)?, x.ndim())?)?;
        outs.push(x.dtype(), x.device(), i.sizes())
    },
    kernel: Kernel::Prim {
        prim: &GATHER,
        lower: |c, outs, l| {
            only_wide(c, 1)?;
            push_input(l, 0, c.t(0)?);
            match nothing(c.t(0)?, c.t(1)?) {
                Some(none) => {
                    l.input_as(1, none.clone(), none.clone(), 0).output_as(0, none.clone(), none, 0);
                }
                None => {
                    push_input(l, 1, c.t(1)?);
                    push_output(l, &outs[0]);
                }
            }
            l.param(wrap_dim(c.int(0)?, c.t(0)?.ndim())? as i64);
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        outs.give(c.t(0)?.gather(c.int(0)?, &cast_index(c, 1)?)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::In(1, 0b1)],
        fix: Fix::None,
        f: |c, out| {
            let d = c.arg(0).int().unwrap_or(0);
            out.set(0, || c.g()?.new_zeros(&c.in_meta(0)?.sizes)?.scatter_add(d, c.x(1)?, c.g()?))
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, r| rows(c, 2, r))),
    samples: || {
        let t =
            |s: &[i64], d, i: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d), SampleArg::i64(i, 0, 3)]);
        vec![t(&[3, 4], 0, &[2, 4]), t(&[4, 3], 1, &[4, 5]), t(&[3], -1, &[4]), t(&[3, 2], 0, &[0, 2])]
    },
    traits: Traits::EXACT_OUT,
    ..OpDef::BASE
};

pub fn infer_scatter(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let (x, i) = (c.t(0)?, c.t(1)?);
    check(c, x, i, wrap_dim(c.int(0)?, x.ndim())?)?;
    if let Some(src) = c.opt(2) {
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
    only_wide(c, 1)?;
    let (x, i, src) = (c.t(0)?, c.t(1)?, c.t(2)?);
    super::moves_only(x.dtype(), kind)?;
    l.init = Some(0);
    if let Some(none) = nothing(x, i) {
        l.input_as(1, none.clone(), none.clone(), i.offset()).input_as(2, none.clone(), none, src.offset());
        push_output(l, &outs[0]);
        l.param(wrap_dim(c.int(0)?, x.ndim())? as i64).param(kind as u64);
        return Ok(());
    }
    push_input(l, 1, i);
    // Only the part of the source under the index counts.
    if src.ndim() == 0 {
        push_input(l, 2, src);
    } else {
        l.input_as(2, Dims::from_slice(i.sizes()), Dims::from_slice(src.strides()), src.offset());
    }
    push_output(l, &outs[0]);
    l.param(wrap_dim(c.int(0)?, x.ndim())? as i64).param(kind as u64);
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
        outs.give(c.t(0)?.scatter_add(c.int(0)?, &cast_index(c, 1)?, c.t(2)?)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::In(1, 0b100)],
        fix: Fix::None,
        f: |c, out| {
            let d = c.arg(0).int().unwrap_or(0);
            out.set(0, || Ok(c.g()?.clone()))?;
            out.set(2, || under(c.g()?.gather(d, c.x(1)?)?, &c.in_meta(2)?.sizes))
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, r| rows(c, 3, r))),
    samples: scatter_samples,
    traits: Traits::EXACT_OUT.or(Traits::STARTS_AS_FIRST).or(Traits::READS_APART),
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
        outs.give(c.t(0)?.scatter_src(c.int(0)?, &cast_index(c, 1)?, c.t(2)?)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::In(1, 0b101)],
        fix: Fix::None,
        f: |c, out| {
            let d = c.arg(0).int().unwrap_or(0);
            out.set(0, || c.g()?.scatter_value(d, c.x(1)?, 0.0))?;
            out.set(2, || under(c.g()?.gather(d, c.x(1)?)?, &c.in_meta(2)?.sizes))
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, r| rows(c, 3, r))),
    samples: scatter_samples,
    traits: Traits::EXACT_OUT.or(Traits::STARTS_AS_FIRST).or(Traits::READS_APART),
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
        let (x, i) = (c.t(0)?, c.t(1)?);
        let value = c.arg(1).scalar().unwrap_or(Scalar::Int(0));
        scalar_range::check(c, x.dtype(), value)?;
        let src = x.new_full(&[], value)?;
        outs.give(x.scatter_src(c.int(0)?, i, &src.expand(i.sizes())?)?);
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
    traits: Traits::EXACT_OUT.or(Traits::STARTS_AS_FIRST).or(Traits::READS_APART),
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
        reduce_kind(c.str(1)?)?;
        infer_scatter(c, outs)
    },
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::SCATTER,
        lower: |c, o, l| lower_scatter(c, o, l, reduce_kind(c.str(1)?)?),
    },
    compose: Some(|c, outs| {
        outs.give(c.t(0)?.scatter_reduce(c.int(0)?, &cast_index(c, 1)?, c.t(2)?, c.str(1)?)?);
        Ok(())
    }),
    sbp: SbpRule::of(Rows::Custom(|c, r| rows(c, 3, r))),
    samples: || scatter_samples().into_iter().map(|s| s.kw("reduce", SampleArg::Str("multiply"))).collect(),
    traits: Traits::EXACT_OUT.or(Traits::READS_APART),
    ..OpDef::BASE
};

pub static SCATTER_VALUE_REDUCE: OpDef = OpDef {
    sig: Sig::parse("scatter.value_reduce(Tensor input, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor"),
    doc: "",
    faces: Faces::ALL,
    infer: |c, outs| {
        reduce_kind(c.str(2)?)?;
        infer_scatter(c, outs)
    },
    compose: Some(|c, outs| {
        let (x, i) = (c.t(0)?, c.t(1)?);
        let value = c.arg(1).scalar().unwrap_or(Scalar::Int(0));
        let src = x.new_full(&[], value)?;
        outs.give(x.scatter_reduce(c.int(0)?, i, &src.expand(i.sizes())?, c.str(2)?)?);
        Ok(())
    }),
    samples: || {
        let i = SampleArg::i64(&[2, 4], 0, 3);
        let args = vec![SampleArg::f32(&[3, 4]), SampleArg::Int(0), i, SampleArg::Float(2.0)];
        vec![Sample::new(args).kw("reduce", SampleArg::Str("add"))]
    },
    traits: Traits::EXACT_OUT.or(Traits::READS_APART),
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
