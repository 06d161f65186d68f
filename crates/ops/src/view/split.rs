//! `unsafe_split`, `split`: Views of `split_size` elements each along a dimension, the last one shorter if need be.

use super::{COMPOSED, VIEW, give_all};
use crate::named::{split, unsafe_split};
use crate::prelude::*;

pub static UNSAFE_SPLIT: OpDef = OpDef {
    sig: Sig::parse("unsafe_split(Tensor input, int split_size, int dim=0) -> Tensor[]"),
    doc: "Parts of `split_size` elements that autograd does not take for views.

Example::

    >>> len(oneflow.unsafe_split(oneflow.arange(5), 2))
    3",
    compose: Some(|c, outs| {
        give_all(
            outs,
            super::tensor_split::unlinked(
                c.t(unsafe_split::INPUT)?.split(c.int(unsafe_split::SPLIT_SIZE)?, c.int(unsafe_split::DIM)?)?,
            ),
        )
    }),
    samples: || super::tensor_split::int_samples(&[5, 2], 2),
    ..COMPOSED
};

fn push_parts(c: &Call<'_>, dim: usize, lengths: &[i64], outs: &mut Outs) -> Result<()> {
    let x = c.t(split::INPUT)?;
    let mut at = x.offset();
    for &n in lengths {
        let mut sizes = Dims::from_slice(x.sizes());
        sizes[dim] = n;
        outs.view(split::INPUT, x, sizes, Dims::from_slice(x.strides()), at)?;
        at += n * x.strides()[dim];
    }
    Ok(())
}

/// The number of parts that a call makes: each is a tensor of its own, so that millions of them are a mistake.
pub(super) fn part_count(name: &str, n: i64) -> Result<usize> {
    const MOST: i64 = 1 << 24;
    if n > MOST {
        return Err(Error::runtime(format!(
            "{name}(): the result would be {n} tensors, more than the limit of {MOST}"
        )));
    }
    Ok(n.max(0) as usize)
}

/// The dimension and the lengths of the parts.
pub(super) fn parts(c: &Call<'_>) -> Result<(usize, Dims)> {
    let x = c.t(split::INPUT)?;
    if x.ndim() == 0 {
        return Err(Error::runtime("split expects at least a 1-dimensional tensor"));
    }
    let dim = wrap_dim(c.int(split::DIM)?, x.ndim())?;
    let n = x.sizes()[dim];
    match c.arg(split::SPLIT_SIZE) {
        Arg::Ints(lengths) => {
            if lengths.iter().any(|l| *l < 0) || lengths.iter().fold(0i64, |a, l| a.saturating_add(*l)) != n {
                return Err(Error::runtime(format!(
                    "split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {dim}), but got split_sizes={lengths:?}"
                )));
            }
            Ok((dim, Dims::from_slice(lengths)))
        }
        size => {
            let size =
                size.int().ok_or_else(|| Error::type_("split(): split_size must be an int or a list of ints"))?;
            if size < 0 {
                return Err(Error::runtime(format!(
                    "split expects split_size be non-negative, but got split_size={size}"
                )));
            }
            if size == 0 && n != 0 {
                return Err(Error::runtime(format!(
                    "split_size can only be 0 if dimension size is 0, but got dimension size of {n}"
                )));
            }
            let count = if size == 0 || n == 0 { 1 } else { (n - 1) / size + 1 };
            let count = part_count(c.name(), count)? as i64;
            Ok((dim, (0..count).map(|i| (n - i * size).min(size)).collect()))
        }
    }
}

/// Gradients of the parts side by side, zeros where nothing arrived.
fn joined(c: &GradCall<'_>, dim: i64) -> Result<Tensor> {
    let some = c.outs_grad.iter().flatten().next().ok_or_else(|| Error::runtime("split: no gradient arrived"))?;
    let all: Vec<Tensor> = c
        .outs_grad
        .iter()
        .zip(c.out_metas)
        .map(|(g, m)| g.clone().map_or_else(|| some.new_zeros(&m.sizes), Ok))
        .collect::<Result<_>>()?;
    f::cat(&all, dim)
}

const SPLIT: OpDef = OpDef {
    infer: |c, outs| {
        let (dim, lengths) = parts(c)?;
        push_parts(c, dim, &lengths, outs)
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let dim = c.arg(split::DIM).int().unwrap_or(0);
            out.set(split::INPUT, || joined(c, dim))
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let (dim, lengths) = parts(c)?;
        let each = |s: Sbp, rows: &mut Vec<Row>| {
            rows.push(Row { ins: SmallVec::from_slice(&[s]), outs: SmallVec::from_elem(s, lengths.len()) });
        };
        (0..c.t(split::INPUT)?.ndim()).filter(|i| *i != dim).for_each(|i| each(Sbp::S(i as u8), rows));
        each(Sbp::P_SUM, rows);
        Ok(())
    })),
    ..VIEW
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("split(Tensor(a) input, int split_size, int dim=0) -> Tensor(a)[]"),
    doc: "Views of `split_size` elements each along a dimension, the last one shorter if need be.

Example::

    >>> [t.shape[0] for t in oneflow.split(oneflow.arange(5), 2)]
    [2, 2, 1]",
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![SampleArg::f32(&[5, 4]), i(2)]), Sample::new(vec![SampleArg::f32(&[3, 4]), i(2), i(1)])]
    },
    ..SPLIT
};

pub static SIZES: OpDef = OpDef {
    sig: Sig::parse("split.sizes(Tensor(a) input, int[] split_size, int dim=0) -> Tensor(a)[]"),
    doc: "Views of the given lengths along a dimension.

Example::

    >>> [t.shape[0] for t in oneflow.split(oneflow.arange(5), [1, 4])]
    [1, 4]",
    samples: || vec![Sample::new(vec![SampleArg::f32(&[5, 4]), SampleArg::Ints(vec![1, 4]), SampleArg::Int(0)])],
    ..SPLIT
};
