//! `roll`: The elements moved along dimensions, those beyond the end coming back at the start. Without `dims` the
//! tensor is rolled as if flat.

use super::{COMPOSED, give};
use crate::named::roll;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
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
            // Without a shift too: the result lies in memory as one of `cat`.
            let d = d as i64;
            y = f::cat([&y.slice(d, Some(at), None, 1)?, &y.slice(d, Some(0), Some(at), 1)?], d)?;
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
