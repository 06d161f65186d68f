//! Any layout of a storage, and writing into one: the two ops in-place on views is made of.

use super::VIEW;
use crate::prelude::*;

/// Whether two indices may name the same element.
fn overlapping(size: &[i64], stride: &[i64]) -> bool {
    let mut dims: SmallVec<[(i64, i64); 6]> =
        stride.iter().copied().zip(size.iter().copied()).filter(|(_, n)| *n > 1).collect();
    dims.sort_unstable();
    let mut reach = 0;
    dims.iter().any(|(s, n)| {
        let meets = *s <= reach;
        reach += (n - 1) * s;
        meets
    })
}

/// Size, stride and offset of a layout that lies inside `n` elements.
fn checked(c: &Call<'_>, arg: usize, offset: i64, n: Option<i64>) -> Result<(Dims, Dims)> {
    let (size, stride) = (c.ints(arg)?, c.ints(arg + 1)?);
    let name = c.name();
    if size.len() != stride.len() {
        return Err(Error::runtime(format!(
            "{name}(): mismatch in length of strides and shape: size {size:?}, stride {stride:?}"
        )));
    }
    if stride.iter().any(|s| *s < 0) {
        return Err(Error::runtime(format!(
            "{name}(): Negative strides are not supported at the moment, got strides: {stride:?}"
        )));
    }
    if size.iter().any(|s| *s < 0) {
        return Err(Error::runtime(format!("{name}(): Trying to create tensor with negative dimension: {size:?}")));
    }
    let end = size.iter().zip(stride).try_fold(offset, |end, (n, s)| end.checked_add((n - 1).checked_mul(*s)?));
    let empty = size.contains(&0);
    let inside = offset >= 0 && (empty || end.is_some_and(|e| n.is_none_or(|n| e < n)));
    if !inside {
        return Err(Error::runtime(format!(
            "{name}(): size {size:?}, stride {stride:?}, storage offset {offset} are out of bounds for storage of {} elements",
            n.unwrap_or(i64::MAX)
        )));
    }
    Ok((Dims::from_slice(size), Dims::from_slice(stride)))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("as_strided(Tensor(a) input, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)"),
    doc: "A view of the input's storage with the given size, stride and offset (in elements).

Example::

    >>> oneflow.as_strided(oneflow.arange(6), (2, 2), (3, 1))
    tensor([[0, 1],
            [3, 4]])",
    infer: |c, outs| {
        let x = c.t(0)?;
        let offset = c.arg(2).int().unwrap_or(x.offset());
        let n = x.storage().map(|s| (s.bytes() / x.dtype().size()) as i64);
        let (size, stride) = checked(c, 0, offset, n)?;
        outs.view(0, x, size, stride, offset)
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            // The gradient of a view of a dense tensor lies at the same places of a zero tensor.
            let m = c.in_meta(0)?;
            let (size, stride) = (c.arg(0).ints().unwrap_or(&[]), c.arg(1).ints().unwrap_or(&[]));
            out.set(0, || {
                let zeros = c.g()?.new_zeros(&m.sizes)?;
                if !overlapping(size, stride) {
                    return zeros.as_strided_scatter(c.g()?, size, stride, c.arg(2).int());
                }
                // Elements seen more than once gather the gradients of all their places.
                let n = m.numel();
                // Made from the gradient, so that they live where it does: on this device, or over its ranks.
                let places = c.g()?.new_ones_with(&[n], Some(DType::I64), None, false)?.cumsum(0)?.sub(1i64)?;
                let places = places.as_strided(size, stride, c.arg(2).int())?;
                let seen: i64 = size.iter().product();
                let sum = zeros.reshape(&[n])?.index_add(0, &places.reshape(&[seen])?, &c.g()?.reshape(&[seen])?)?;
                sum.reshape(&m.sizes)
            })
        },
    },
    sbp: SbpRule::of(Rows::OnlyB { why: "strides speak of the whole storage" }),
    samples: || {
        let t = |s: &[i64], n: &[i64], st: &[i64], o: i64| {
            Sample::new(vec![
                SampleArg::f32(s),
                SampleArg::Ints(n.to_vec()),
                SampleArg::Ints(st.to_vec()),
                SampleArg::Int(o),
            ])
        };
        vec![t(&[6], &[2, 2], &[3, 1], 0), t(&[4, 3], &[3, 2], &[1, 3], 2), t(&[3], &[], &[], 1)]
    },
    ..VIEW
};

pub static SCATTER: OpDef = OpDef {
    sig: Sig::parse(
        "as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
    ),
    doc:
        "A copy of `input` (dense, from its storage's start) in which the elements of the given layout come from `src`.

Example::

    >>> oneflow.as_strided_scatter(oneflow.zeros(4), oneflow.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        let (x, src, size) = (c.t(0)?, c.t(1)?, c.ints(0)?);
        if src.sizes() != size {
            return Err(Error::runtime(format!(
                "as_strided_scatter(): expected src to have a size equal to the slice: src {:?}, slice {size:?}",
                src.sizes()
            )));
        }
        // The input's own offset does not count in the dense copy.
        checked(c, 0, c.arg(2).int().map_or(0, |o| o - x.offset()), Some(x.numel()))?;
        outs.push(x.dtype(), x.device(), x.sizes())
    },
    kernel: Kernel::Prim {
        prim: &COPY,
        lower: |c, _, l| {
            l.init = Some(0);
            let (size, stride) = (Dims::from_slice(c.ints(0)?), Dims::from_slice(c.ints(1)?));
            // The input's own offset does not count in the dense copy.
            let offset = c.arg(2).int().map_or(0, |o| o - c.t(0).map_or(0, Tensor::offset));
            l.input(1).output_as(0, size, stride, offset);
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let (size, stride) = (c.arg(0).ints().unwrap_or(&[]), c.arg(1).ints().unwrap_or(&[]));
            out.set(1, || c.g()?.contiguous()?.as_strided(size, stride, c.arg(2).int()))?;
            out.set(0, || {
                let zeros = c.g()?.new_zeros(size)?;
                c.g()?.as_strided_scatter(&zeros, size, stride, c.arg(2).int())
            })
        },
    },
    sbp: SbpRule::of(Rows::OnlyB { why: "strides speak of the whole storage" }),
    samples: || {
        vec![Sample::new(vec![
            SampleArg::f32(&[6]),
            SampleArg::f32(&[2, 2]),
            SampleArg::Ints(vec![2, 2]),
            SampleArg::Ints(vec![3, 1]),
            SampleArg::Int(1),
        ])]
    },
    ..OpDef::BASE
};
