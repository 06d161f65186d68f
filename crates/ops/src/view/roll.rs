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
        if x.numel() == 0 {
            return give(outs, x.cloned()?);
        }
        if x.ndim() == 0 && !dims.is_empty() {
            return Err(Error::index("Dimension specified as 0 but tensor has no dimensions"));
        }
        // In pairs, the last dimension first.
        let mut widths = Dims::from_elem(0, 2 * x.ndim());
        let mut is_still = false;
        for (&by, &d) in shifts.iter().zip(dims) {
            let d = wrap_dim(d, x.ndim())?;
            let at = 2 * (x.ndim() - 1 - d);
            let by = by.rem_euclid(x.sizes()[d]);
            widths[at] = (widths[at] + by) % x.sizes()[d];
            widths[at + 1] = -widths[at];
            is_still |= by == 0;
        }
        let y = x.pad_nd(&widths, "roll", 0)?;
        // As PyTorch's, which is a `cat` with nothing then.
        give(outs, if is_still { y.contiguous()? } else { y })
    }),
    samples: || {
        let t = |s: &[i64], by: &[i64], d: &[i64]| {
            Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(by.to_vec()), SampleArg::Ints(d.to_vec())])
        };
        vec![t(&[5], &[2], &[]), t(&[3, 4], &[-1, 5], &[0, 1]), t(&[3, 4], &[3], &[]), t(&[3], &[0], &[0])]
    },
    ..COMPOSED
};
