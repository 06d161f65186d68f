//! scatter_reduce: sums, products, means and extremes at an index, with or without what was there.

use super::{COMPOSED, give};
use crate::named::{scatter_combine, scatter_reduce_two};
use crate::prelude::*;

/// The name that `scatter(reduce=)` knows the combination by, where there is one, and its identity.
fn identity(how: &str, dtype: DType) -> Result<Scalar> {
    let extreme = |low: bool| {
        Ok(match dtype {
            d if d.is_float() => Scalar::Float(if low { f64::NEG_INFINITY } else { f64::INFINITY }),
            d if d.is_complex() => {
                return Err(Error::not_implemented(format!("scatter_reduce(): has no {how} of {d}")));
            }
            DType::Bool => Scalar::Int(!low as i64),
            DType::U8 => Scalar::Int(if low { 0 } else { 255 }),
            d => {
                let max = i64::MAX >> (64 - 8 * d.size() as u32);
                Scalar::Int(if low { -max - 1 } else { max })
            }
        })
    };
    Ok(match how {
        "sum" | "mean" => Scalar::Int(0),
        "prod" => Scalar::Int(1),
        "amax" => extreme(true)?,
        "amin" => extreme(false)?,
        other => {
            return Err(Error::runtime(format!(
                "reduce argument must be either sum, prod, mean, amax or amin, got {other}"
            )));
        }
    })
}

/// The kernel: one combination, what was there included.
pub static COMBINE: OpDef = OpDef {
    sig: Sig::parse("scatter_combine(Tensor input, int dim, Tensor index, Tensor src, str reduce) -> Tensor"),
    doc: "A copy of `input` with `src` combined at `index`: \"prod\", \"amax\" or \"amin\".",
    faces: Faces::PRIVATE,
    infer: super::scatter::infer_scatter,
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::SCATTER,
        lower: |c, o, l| {
            super::scatter::lower_scatter(
                c,
                o,
                l,
                match c.str(scatter_combine::REDUCE)? {
                    "prod" => ScatterKind::Mul,
                    "amax" => ScatterKind::Max,
                    _ => ScatterKind::Min,
                },
            )
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, r| super::gather::rows(c, 3, r))),
    samples: || {
        super::scatter::scatter_samples()
            .into_iter()
            .map(|mut s| {
                s.args.push(SampleArg::Str("amax"));
                s
            })
            .collect()
    },
    ..OpDef::BASE
};

/// How many sources went to each place of the output, and the place itself if it counts.
fn counts(like: &Tensor, index: &Tensor, dim: i64, include: bool) -> Result<Tensor> {
    let dtype = Some(like.dtype().to_real());
    let filled = |sizes: &[i64], of: i64| like.new_full_with(sizes, of, dtype, None, false);
    filled(like.sizes(), include.into())?.scatter_add(dim, index, &filled(index.sizes(), 1)?)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "scatter_reduce.two(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
    ),
    doc: "A copy of `input` with the elements of `src` combined at `index` along a dimension: `reduce` is \"sum\", \"prod\",
\"mean\", \"amax\" or \"amin\". Without `include_self` what was there does not take part.

Example::

    >>> oneflow.scatter_reduce(oneflow.zeros(2), 0, oneflow.tensor([0, 0]), oneflow.tensor([1., 2.]), 'sum')
    tensor([3., 0.])",
    faces: Faces::ALL,
    infer: |c, outs| {
        identity(c.str(scatter_reduce_two::REDUCE)?, c.t(scatter_reduce_two::INPUT)?.dtype())?;
        super::scatter::infer_scatter(c, outs)
    },
    compose: Some(|c, outs| {
        let index = &super::wide(c.t(scatter_reduce_two::INDEX)?)?;
        let (x, src, how, include) = (c.t(scatter_reduce_two::INPUT)?, c.t(scatter_reduce_two::SRC)?, c.str(scatter_reduce_two::REDUCE)?, c.bool(scatter_reduce_two::INCLUDE_SELF));
        let dim = c.int(scatter_reduce_two::DIM)?;
        let none = identity(how, x.dtype())?;
        if index.numel() == 0 {
            return give(outs, x.cloned()?);
        }
        if how == "mean" && x.dtype() == DType::Bool {
            return Err(Error::not_implemented(format!("{}(): has no mean of booleans", c.name())));
        }
        let start = if include { x.clone() } else { x.scatter_value(dim, index, none)? };
        let combined = match how {
            "sum" => start.scatter_add(dim, index, src)?,
            "mean" => {
                let n = counts(x, index, dim, include)?;
                let n = n.clamp(Some(Scalar::Int(1)), None)?;
                let sum = start.scatter_add(dim, index, src)?;
                if x.dtype().is_differentiable() { sum.div(&n)? } else { sum.div_with(&n, Some("floor"))? }
            }
            _ => start.scatter_combine(dim, index, src, how)?,
        };
        give(outs, combined)
    }),
    grad: Grad::Rule {
        save: &[Save::of(scatter_reduce_two::INPUT, &[scatter_reduce_two::INPUT, scatter_reduce_two::SRC]), Save::of(scatter_reduce_two::INDEX, &[scatter_reduce_two::INPUT, scatter_reduce_two::SRC]), Save::of(scatter_reduce_two::SRC, &[scatter_reduce_two::INPUT, scatter_reduce_two::SRC]), Save::out(scatter_reduce_two::RESULT, &[scatter_reduce_two::INPUT, scatter_reduce_two::SRC])],
        fix: Fix::None,
        f: |c, out| {
            let (x, index, src, y, g) = (c.x(scatter_reduce_two::INPUT)?, c.x(scatter_reduce_two::INDEX)?, c.x(scatter_reduce_two::SRC)?, c.y(scatter_reduce_two::RESULT)?, c.g()?);
            let (dim, how, include) = (c.arg(scatter_reduce_two::DIM).int().unwrap_or(0), c.arg(scatter_reduce_two::REDUCE).str().unwrap_or(""), c.arg(scatter_reduce_two::INCLUDE_SELF).bool());
            if index.numel() == 0 {
                out.set(scatter_reduce_two::INPUT, || Ok(g.clone()))?;
                return out.set(scatter_reduce_two::SRC, || src.zeros_like());
            }
            // What was there has no part where a source came, unless it was included.
            let own = |t: Tensor| if include { Ok(t) } else { t.scatter_value(dim, index, 0.0) };
            let back = |t: Tensor| super::scatter::under(t, src.sizes());
            let seen = |t: &Tensor| t.gather(dim, index);
            let used = under_index(src, index)?;
            match how {
                "sum" => {
                    out.set(scatter_reduce_two::INPUT, || own(g.clone()))?;
                    out.set(scatter_reduce_two::SRC, || back(seen(g)?))
                }
                "mean" => {
                    let n = counts(x, index, dim, include)?.clamp(Some(Scalar::Int(1)), None)?;
                    let share = g.div(&n)?;
                    out.set(scatter_reduce_two::INPUT, || own(share.clone()))?;
                    out.set(scatter_reduce_two::SRC, || back(seen(&share)?))
                }
                "prod" => {
                    let masked = x.eq(0.0)?.r#where(1.0, x)?;
                    out.set(scatter_reduce_two::INPUT, || {
                        let others = masked.scatter_reduce_two_with(dim, index, src, how, include)?;
                        own(g.mul(&others)?.div(&masked)?)
                    })?;
                    out.set(scatter_reduce_two::SRC, || {
                        // A zero's factor is the product of what is no zero, times the other zeros: none, one, or
                        // several, whose product is zero with its slope. One is what their sum has beside this one.
                        let zero = used.eq(0.0)?;
                        let ones = zero.to_copy_with(Some(src.dtype()), None)?;
                        let none = x.zeros_like()?;
                        let mut n_zeros = none.scatter_add(dim, index, &ones)?;
                        let mut sum = none.scatter_add(dim, index, &zero.r#where(&used, 0.0)?)?;
                        if include {
                            let own_zero = x.eq(0.0)?;
                            n_zeros = n_zeros.add(&own_zero)?;
                            sum = sum.add(&own_zero.r#where(x, 0.0)?)?;
                        }
                        let (n_zeros, sum) = (seen(&n_zeros)?, seen(&sum)?);
                        let filled = zero.r#where(1.0, &used)?;
                        let rest = seen(&masked.scatter_reduce_two_with(dim, index, &filled, how, include)?)?;
                        let other_zeros = n_zeros.eq(2.0)?.r#where(&sum.sub(&used)?, 0.0)?;
                        let other_zeros = n_zeros.eq(1.0)?.r#where(1.0, &other_zeros)?;
                        let others = zero.r#where(&rest.mul(&other_zeros)?, &seen(y)?.div(&filled)?)?;
                        back(seen(g)?.mul(&others)?)
                    })
                }
                _ => {
                    let hit = used.eq(&seen(y)?)?.to_copy_with(Some(src.dtype()), None)?;
                    let mine = x.eq(y)?.to_copy_with(Some(x.dtype()), None)?;
                    let mine = own(mine)?;
                    let n = mine.scatter_add(dim, index, &hit)?;
                    let share = g.div(&n.clamp(Some(Scalar::Int(1)), None)?)?;
                    let touched = if include { share.mul(&mine)? } else {
                        // A place that no source reached passes its gradient on.
                        own(g.clone())?
                    };
                    out.set(scatter_reduce_two::INPUT, || Ok(touched))?;
                    out.set(scatter_reduce_two::SRC, || back(hit.mul(&seen(&share)?)?))
                }
            }
        },
    },
    samples: || {
        let t = |how| {
            Sample::new(vec![
                SampleArg::range(&[3, 4], 0.5, 2.0),
                SampleArg::Int(0),
                SampleArg::i64(&[2, 4], 0, 3),
                SampleArg::range(&[2, 4], 0.5, 2.0),
                SampleArg::Str(how),
            ])
        };
        vec![t("sum"), t("prod"), t("mean"), t("amax"), t("amin").kw("include_self", SampleArg::Bool(false))]
    },
    traits: Traits::EXACT_OUT.or(Traits::READS_DISJOINT),
    ..COMPOSED
};

/// The part of the source that the index covers.
fn under_index(src: &Tensor, index: &Tensor) -> Result<Tensor> {
    let mut part = src.clone();
    for d in 0..src.ndim().min(index.ndim()) {
        if part.sizes()[d] != index.sizes()[d] {
            part = part.slice(d as i64, Some(0), Some(index.sizes()[d]), 1)?;
        }
    }
    Ok(part)
}
