//! Elements repeated or turned round: repeat, tile, roll, rot90, fliplr, flipud.

use super::{COMPOSED, give};
use crate::named::{fliplr, flipud, repeat, roll, rot90, tile};
use crate::prelude::*;

fn ints_samples(all: &[(&[i64], &[i64])]) -> Vec<Sample> {
    all.iter().map(|(s, i)| Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(i.to_vec())])).collect()
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("repeat(Tensor input, int[] repeats) -> Tensor"),
    doc: "The tensor copied `repeats[i]` times along each dimension; further counts lead as new dimensions.

Example::

    >>> oneflow.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])",
    faces: Faces::METHOD,
    compose: Some(|c, outs| {
        let (x, times) = (c.t(repeat::INPUT)?, c.ints(repeat::REPEATS)?);
        if times.len() < x.ndim() {
            return Err(Error::runtime(
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
            ));
        }
        if let Some(t) = times.iter().find(|t| **t < 0) {
            return Err(Error::runtime(format!(
                "repeat(): Trying to create tensor with negative dimension {t}: {times:?}"
            )));
        }
        let lead = times.len() - x.ndim();
        let (mut split, mut wide, mut all) = (Dims::new(), Dims::new(), Dims::new());
        for (i, &t) in times.iter().enumerate() {
            let n = i.checked_sub(lead).map_or(1, |k| x.sizes()[k]);
            split.extend_from_slice(&[1, n]);
            wide.extend_from_slice(&[t, n]);
            all.push(t.checked_mul(n).ok_or_else(|| Error::runtime("repeat(): sizes overflow"))?);
        }
        give(outs, x.reshape(&split)?.expand(&wide)?.clone_contiguous()?.view(&all)?)
    }),
    samples: || ints_samples(&[(&[2, 3], &[2, 1]), (&[3], &[2, 2]), (&[], &[3]), (&[2], &[0]), (&[2, 3], &[1, 1])]),
    ..COMPOSED
};

pub static TILE: OpDef = OpDef {
    sig: Sig::parse("tile(Tensor input, int[] dims) -> Tensor"),
    doc: "The tensor copied along each dimension; missing counts are ones in front.

Example::

    >>> oneflow.tile(oneflow.tensor([1, 2]), (2,))
    tensor([1, 2, 1, 2])",
    compose: Some(|c, outs| {
        let (x, dims) = (c.t(tile::INPUT)?, c.ints(tile::DIMS)?);
        let mut times: Dims = SmallVec::from_elem(1, x.ndim().saturating_sub(dims.len()));
        times.extend_from_slice(dims);
        give(outs, x.repeat(&times)?)
    }),
    samples: || ints_samples(&[(&[2, 3], &[2]), (&[3], &[2, 2])]),
    ..COMPOSED
};

pub static ROLL: OpDef = OpDef {
    sig: Sig::parse("roll(Tensor input, int[1] shifts, int[1] dims=[]) -> Tensor"),
    doc: "The elements moved along dimensions, those beyond the end coming back at the start. Without `dims` the tensor is
rolled as if flat.

Example::

    >>> oneflow.roll(oneflow.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])",
    compose: Some(|c, outs| {
        let (x, shifts, dims) = (c.t(roll::INPUT)?, c.ints(roll::SHIFTS)?, c.ints(roll::DIMS)?);
        if shifts.is_empty() {
            return Err(Error::runtime("`shifts` required"));
        }
        if dims.is_empty() && shifts.len() == 1 {
            return give(outs, x.reshape(&[-1])?.roll(shifts, &[0])?.view(x.sizes())?);
        }
        if shifts.len() != dims.len() {
            return Err(Error::runtime(format!(
                "shifts and dimensions must align. shifts: {}, dims:{}",
                shifts.len(),
                dims.len()
            )));
        }
        let mut y = x.clone();
        if x.numel() == 0 {
            return give(outs, x.cloned()?);
        }
        if x.ndim() == 0 && !dims.is_empty() {
            return Err(Error::index("Dimension specified as 0 but tensor has no dimensions"));
        }
        for (&by, &d) in shifts.iter().zip(dims) {
            let d = wrap_dim(d, x.ndim())?;
            let n = x.sizes().get(d).copied().unwrap_or(0);
            let at = if n > 0 { (n - by.rem_euclid(n)) % n } else { 0 };
            if at > 0 {
                let d = d as i64;
                y = f::cat([&y.slice(d, Some(at), None, 1)?, &y.slice(d, Some(0), Some(at), 1)?], d)?;
            }
        }
        give(outs, if y.same(x) { x.cloned()? } else { y })
    }),
    samples: || {
        let t = |s: &[i64], by: &[i64], d: &[i64]| {
            Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(by.to_vec()), SampleArg::Ints(d.to_vec())])
        };
        vec![t(&[5], &[2], &[]), t(&[3, 4], &[-1, 5], &[0, 1]), t(&[3, 4], &[3], &[]), t(&[3], &[0], &[0])]
    },
    ..COMPOSED
};

pub static ROT90: OpDef = OpDef {
    sig: Sig::parse("rot90(Tensor input, int k=1, int[] dims=[0,1]) -> Tensor"),
    doc: "The plane of two dimensions turned `k` times by 90 degrees, from the first towards the second.

Example::

    >>> oneflow.rot90(oneflow.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])",
    compose: Some(|c, outs| {
        let (x, dims) = (c.t(rot90::INPUT)?, c.ints(rot90::DIMS)?);
        let &[a, b] = dims else {
            return Err(Error::runtime(format!("expected total rotation dims == 2, but got dims = {}", dims.len())));
        };
        if x.ndim() < 2 {
            return Err(Error::runtime(format!("expected total dims >= 2, but got total dims = {}", x.ndim())));
        }
        let same = |a: i64, b: i64| a == b || a.abs_diff(b) == x.ndim() as u64;
        if same(a, b) {
            return Err(Error::runtime(format!(
                "expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}"
            )));
        }
        for d in [a, b] {
            if d < -(x.ndim() as i64) || d >= x.ndim() as i64 {
                return Err(Error::runtime(format!("Rotation dim out of range, dim = {d}")));
            }
        }
        give(
            outs,
            match c.int(rot90::K)?.rem_euclid(4) {
                1 => x.flip(&[b])?.transpose(a, b)?,
                2 => x.flip(&[a, b])?,
                3 => x.flip(&[a])?.transpose(a, b)?,
                _ => x.clone_contiguous()?,
            },
        )
    }),
    samples: || {
        let t = |s: &[i64], k, d: &[i64]| {
            Sample::new(vec![SampleArg::f32(s), SampleArg::Int(k), SampleArg::Ints(d.to_vec())])
        };
        vec![t(&[2, 3], 1, &[0, 1]), t(&[2, 3, 4], 2, &[1, 2]), t(&[2, 3], -1, &[0, 1]), t(&[2, 3], 4, &[0, 1])]
    },
    ..COMPOSED
};

pub static FLIPLR: OpDef = OpDef {
    sig: Sig::parse("fliplr(Tensor input) -> Tensor"),
    doc: "A copy with the columns in reverse order.

Example::

    >>> oneflow.fliplr(oneflow.tensor([[1, 2]]))
    tensor([[2, 1]])",
    compose: Some(|c, outs| match c.t(fliplr::INPUT)?.ndim() {
        0 | 1 => Err(Error::runtime("Input must be >= 2-d.")),
        _ => give(outs, c.t(fliplr::INPUT)?.flip(&[1])?),
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3])])],
    ..COMPOSED
};

pub static FLIPUD: OpDef = OpDef {
    sig: Sig::parse("flipud(Tensor input) -> Tensor"),
    doc: "A copy with the rows in reverse order.

Example::

    >>> oneflow.flipud(oneflow.tensor([[1], [2]]))
    tensor([[2],
            [1]])",
    compose: Some(|c, outs| match c.t(flipud::INPUT)?.ndim() {
        0 => Err(Error::runtime("Input must be >= 1-d.")),
        _ => give(outs, c.t(flipud::INPUT)?.flip(&[0])?),
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3])])],
    ..COMPOSED
};
