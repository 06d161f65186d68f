//! `expand_as`, `expand`: A view in which dimensions of size one repeat (stride zero); -1 keeps a size.

use super::{COMPOSED, VIEW};
use crate::named::{expand as at, expand_as};
use crate::prelude::*;

pub static EXPAND_AS: OpDef = OpDef {
    sig: Sig::parse("expand_as(Tensor(a) input, Tensor other) -> Tensor(a)"),
    doc: "The tensor expanded to the other's size.

Example::

    >>> oneflow.ones(1).expand_as(oneflow.zeros(3)).shape
    oneflow.Size([3])",
    faces: Faces::METHOD,
    compose: Some(|c, outs| {
        outs.give(c.t(expand_as::INPUT)?.expand(c.t(expand_as::OTHER)?.sizes())?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 1]), SampleArg::f32(&[3, 4])])],
    ..COMPOSED
};

fn sizes_of(c: &Call<'_>) -> Result<Dims> {
    let (x, size) = (c.t(at::INPUT)?, c.ints(at::SIZE)?);
    if size.len() < x.ndim() {
        return Err(Error::runtime(format!(
            "expand({:?}, size={size:?}): the number of sizes provided ({}) must be greater or equal to the number of dimensions in the tensor ({})",
            x.sizes(),
            size.len(),
            x.ndim()
        )));
    }
    let lead = size.len() - x.ndim();
    let mut out = Dims::from_slice(size);
    for (i, s) in out.iter_mut().enumerate() {
        let have = i.checked_sub(lead).map(|k| x.sizes()[k]);
        *s = match (have, *s) {
            (Some(h), -1) => h,
            (None, -1) => {
                return Err(Error::runtime(format!(
                    "expand({:?}, size={size:?}): The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}",
                    x.sizes()
                )));
            }
            (Some(h), s) if h != 1 && h != s || s < 0 => return Err(unlike(x, size, i, h)),
            (None, s) if s < 0 => return Err(unlike(x, size, i, 1)),
            (_, s) => s,
        };
    }
    Ok(out)
}

#[cold]
fn unlike(x: &Tensor, size: &[i64], i: usize, have: i64) -> Error {
    Error::runtime(format!(
        "expand(): The expanded size of the tensor ({}) must match the existing size ({have}) at non-singleton dimension {i}. Target sizes: {size:?}. Tensor sizes: {:?}",
        size[i],
        x.sizes()
    ))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("expand(Tensor(a) input, int[] size, *, bool implicit=False) -> Tensor(a)"),
    doc: "A view in which dimensions of size one repeat (stride zero); -1 keeps a size.

Example::

    >>> oneflow.tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])",
    faces: Faces::METHOD,
    infer: |c, outs| {
        let x = c.t(at::INPUT)?;
        let sizes = sizes_of(c)?;
        let lead = sizes.len() - x.ndim();
        let mut strides: Dims = SmallVec::from_elem(0, sizes.len());
        for i in (0..sizes.len()).rev() {
            strides[i] = match i.checked_sub(lead) {
                Some(k) if x.sizes()[k] == sizes[i] => x.strides()[k],
                // A new dim of size one has the stride that a dense tensor has there.
                None if sizes[i] == 1 && x.ndim() > 0 => sizes[i + 1] * strides[i + 1],
                _ => 0,
            };
        }
        outs.view(at::INPUT, x, sizes, strides, x.offset())
    },
    grad: Grad::Rule { save: &[], fix: Fix::Broadcast, f: |c, out| out.set(at::INPUT, || Ok(c.g()?.clone())) },
    sbp: SbpRule::of(Rows::View(|c, groups| {
        let x = c.t(at::INPUT)?;
        let sizes = sizes_of(c)?;
        let lead = sizes.len() - x.ndim();
        for i in 0..sizes.len() {
            let kept = i.checked_sub(lead).filter(|k| x.sizes()[*k] == sizes[i]);
            groups.push(DimGroup {
                ins: kept.map(|k| k as u8).into_iter().collect(),
                outs: SmallVec::from_slice(&[i as u8]),
            });
        }
        Ok(())
    }))
    .with(Localize::Sizes(at::SIZE)),
    samples: || {
        let t = |s: &[i64], n: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(n.to_vec())]);
        vec![t(&[3, 1], &[3, 4]), t(&[3], &[2, 3]), t(&[1, 2], &[-1, 2]), t(&[], &[2, 2]), t(&[0, 1], &[0, 3])]
    },
    ..VIEW
};
