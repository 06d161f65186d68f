//! A tensor cut into several views: split, chunk, unbind.

use super::VIEW;
use crate::named::{chunk, split, unbind};
use crate::prelude::*;

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
fn parts(c: &Call<'_>) -> Result<(usize, Dims)> {
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

pub static CHUNK: OpDef = OpDef {
    sig: Sig::parse("chunk(Tensor(a) input, int chunks, int dim=0) -> Tensor(a)[]"),
    doc: "At most `chunks` views of equal size along a dimension.

Example::

    >>> [t.shape[0] for t in oneflow.chunk(oneflow.arange(5), 2)]
    [3, 2]",
    kernel: Kernel::None,
    compose: Some(|c, outs| {
        let (x, chunks) = (c.t(chunk::INPUT)?, c.int(chunk::CHUNKS)?);
        if x.ndim() == 0 {
            return Err(Error::runtime("chunk expects at least a 1-dimensional tensor"));
        }
        if chunks <= 0 {
            return Err(Error::runtime(format!("chunk expects `chunks` to be greater than 0, got: {chunks}")));
        }
        let n = x.sizes()[wrap_dim(c.int(chunk::DIM)?, x.ndim())?];
        let parts = match n {
            0 => x.split_sizes(&vec![0; part_count("chunk", chunks)?], c.int(chunk::DIM)?)?,
            n => x.split((n - 1) / chunks + 1, c.int(chunk::DIM)?)?,
        };
        parts.into_iter().for_each(|t| outs.give(t));
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![SampleArg::f32(&[5, 4]), i(2)]), Sample::new(vec![SampleArg::f32(&[3, 4]), i(3), i(1)])]
    },
    ..VIEW
};

/// The stack along `dim`, its dimensions in memory in the order of the strides: what led to the parts leads back to a
/// gradient without gaps.
fn stack_like(parts: &[Tensor], dim: usize, strides: &[i64]) -> Result<Tensor> {
    let mut order: Vec<i64> = (0..strides.len() as i64).collect();
    order.sort_by_key(|d| std::cmp::Reverse(strides[*d as usize]));
    if order.is_sorted() {
        return f::stack(parts, dim as i64);
    }
    let (mut back, mut of_part, mut at) = (vec![0; order.len()], Vec::with_capacity(order.len()), 0);
    for (i, &d) in order.iter().enumerate() {
        back[d as usize] = i as i64;
        match d == dim as i64 {
            true => at = i as i64,
            false => of_part.push(d - i64::from(d > dim as i64)),
        }
    }
    let parts = parts.iter().map(|p| p.permute(&of_part)).collect::<Result<Vec<_>>>()?;
    f::stack(&parts, at)?.permute(&back)
}

pub static UNBIND: OpDef = OpDef {
    sig: Sig::parse("unbind(Tensor(a) input, int dim=0) -> Tensor(a)[]"),
    doc: "A view of every index along a dimension, which disappears.

Example::

    >>> oneflow.unbind(oneflow.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))",
    infer: |c, outs| {
        let x = c.t(unbind::INPUT)?;
        if x.ndim() == 0 {
            return Err(Error::index("Dimension specified as 0 but tensor has no dimensions"));
        }
        let d = wrap_dim(c.int(unbind::DIM)?, x.ndim())?;
        outs.views_of(unbind::INPUT);
        for i in 0..part_count("unbind", x.sizes()[d])? as i64 {
            let (mut sizes, mut strides) = (Dims::from_slice(x.sizes()), Dims::from_slice(x.strides()));
            sizes.remove(d);
            let stride = strides.remove(d);
            outs.view(unbind::INPUT, x, sizes, strides, x.offset() + i * stride)?;
        }
        Ok(())
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            out.set(unbind::INPUT, || {
                let some =
                    c.outs_grad.iter().flatten().next().ok_or_else(|| Error::runtime("unbind: no gradient arrived"))?;
                let all: Vec<Tensor> = c
                    .outs_grad
                    .iter()
                    .map(|g| g.clone().map_or_else(|| some.zeros_like(), Ok))
                    .collect::<Result<_>>()?;
                let m = c.in_meta(unbind::INPUT)?;
                stack_like(&all, wrap_dim(c.arg(unbind::DIM).int().unwrap_or(0), m.sizes.len())?, &m.strides)
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let x = c.t(unbind::INPUT)?;
        let d = wrap_dim(c.int(unbind::DIM)?, x.ndim())?;
        let n = x.sizes()[d] as usize;
        for i in (0..x.ndim()).filter(|i| *i != d) {
            let to = Sbp::S((i - (i > d) as usize) as u8);
            rows.push(Row { ins: SmallVec::from_slice(&[Sbp::S(i as u8)]), outs: SmallVec::from_elem(to, n) });
        }
        rows.push(Row { ins: SmallVec::from_slice(&[Sbp::P_SUM]), outs: SmallVec::from_elem(Sbp::P_SUM, n) });
        Ok(())
    })),
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![SampleArg::f32(&[3, 4])]), Sample::new(vec![SampleArg::f32(&[3, 2]), i(1)])]
    },
    ..VIEW
};
