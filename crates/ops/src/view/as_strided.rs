//! Any layout of a storage, and writing into one: the two ops in-place on views is made of.

use super::VIEW;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("as_strided(Tensor(a) input, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)"),
    doc: "A view of the input's storage with the given size, stride and offset (in elements).

Example::

    >>> oneflow.as_strided(oneflow.arange(6), (2, 2), (3, 1))
    tensor([[0, 1],
            [3, 4]])",
    infer: |c, outs| {
        let x = c.t(0)?;
        let (size, stride) = (c.ints(0)?, c.ints(1)?);
        if size.len() != stride.len() {
            return Err(Error::runtime(format!(
                "as_strided(): mismatch in length of strides and shape: size {size:?}, stride {stride:?}"
            )));
        }
        if stride.iter().any(|s| *s < 0) {
            return Err(Error::runtime(format!(
                "as_strided(): Negative strides are not supported at the moment, got strides: {stride:?}"
            )));
        }
        let offset = c.arg(2).int().unwrap_or(x.offset());
        if x.storage().is_some() {
            x.alias(Dims::from_slice(size), Dims::from_slice(stride), offset)?;
        }
        outs.view(0, x, Dims::from_slice(size), Dims::from_slice(stride), offset)
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            // The gradient of a view of a dense tensor lies at the same places of a zero tensor.
            let m = c.in_meta(0)?;
            let (size, stride) = (c.arg(0).ints().unwrap_or(&[]), c.arg(1).ints().unwrap_or(&[]));
            out.set(0, || {
                let zeros = f::zeros_with(&m.sizes, Some(m.dtype), Some(m.device), false)?;
                zeros.as_strided_scatter(c.g()?, size, stride, c.arg(2).int())
            })
        },
    },
    sbp: SbpRule::of(Rows::OnlyB),
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
                let m = &c.out_metas[0];
                let zeros = f::zeros_with(size, Some(m.dtype), Some(m.device), false)?;
                c.g()?.as_strided_scatter(&zeros, size, stride, c.arg(2).int())
            })
        },
    },
    sbp: SbpRule::of(Rows::OnlyB),
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
