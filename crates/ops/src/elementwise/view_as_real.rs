//! `view_as_real`, `view_as_complex`: A view of a complex tensor as reals, with the parts as a last dimension of
//! size two.

use crate::named::{view_as_complex, view_as_real};
use crate::prelude::*;

/// Both parts of a complex tensor as a last dimension of two.
fn as_real(x: &Tensor, outs: &mut Outs) -> Result<()> {
    let mut sizes = Dims::from_slice(x.sizes());
    let mut strides: Dims = x.strides().iter().map(|s| s * 2).collect();
    sizes.push(2);
    strides.push(1);
    outs.view_as(view_as_real::INPUT, x, x.dtype().to_real(), sizes, strides, x.offset() * 2)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("view_as_real(Tensor(a) input) -> Tensor(a)"),
    doc: "A view of a complex tensor as reals, with the parts as a last dimension of size two.

Example::

    >>> oneflow.view_as_real(oneflow.tensor([1 + 2j]))
    tensor([[1., 2.]])",
    faces: Faces::FN,
    infer: |c, outs| {
        let x = c.t(view_as_real::INPUT)?;
        if !x.dtype().is_complex() {
            return Err(Error::type_("view_as_real is only supported for complex tensors"));
        }
        as_real(x, outs)
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| out.set(view_as_real::INPUT, || c.g()?.contiguous()?.view_as_complex()),
    },
    sbp: SbpRule::of(Rows::View(super::complex::same_dims)),
    samples: super::complex::complex_samples,
    ..super::complex::VIEW
};

pub static VIEW_AS_COMPLEX: OpDef = OpDef {
    sig: Sig::parse("view_as_complex(Tensor(a) input) -> Tensor(a)"),
    doc: "A view of reals, whose last dimension holds the two parts, as complex numbers.

Example::

    >>> oneflow.view_as_complex(oneflow.tensor([[1., 2.]]))
    tensor([1.+2.j])",
    faces: Faces::FN,
    infer: |c, outs| {
        let x = c.t(view_as_complex::INPUT)?;
        if !matches!(x.dtype(), DType::F16 | DType::F32 | DType::F64) {
            return Err(Error::not_implemented(format!(
                "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {}",
                x.dtype().scalar_type_name()
            )));
        }
        let Some((&2, sizes)) = x.sizes().split_last() else {
            return Err(Error::runtime(if x.ndim() == 0 {
                "Input tensor must have one or more dimensions"
            } else {
                "Tensor must have a last dimension of size 2"
            }));
        };
        let (last, strides) = x.strides().split_last().unwrap_or((&1, &[]));
        if *last != 1 {
            return Err(Error::runtime("Tensor must have a last dimension with stride 1"));
        }
        if strides.iter().any(|s| s % 2 != 0) {
            return Err(Error::runtime("Tensor must have a stride divisible by 2 for all but last dimension"));
        }
        if x.offset() % 2 != 0 {
            return Err(Error::runtime("Tensor must have a storage_offset divisible by 2"));
        }
        let strides = strides.iter().map(|s| s / 2).collect();
        outs.view_as(
            view_as_complex::INPUT,
            x,
            super::complex::of_parts(x.dtype()),
            Dims::from_slice(sizes),
            strides,
            x.offset() / 2,
        )
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| out.set(view_as_complex::INPUT, || c.g()?.view_as_real()),
    },
    sbp: SbpRule::of(Rows::View(|c, groups| {
        for i in 0..c.t(view_as_complex::INPUT)?.ndim() as u8 - 1 {
            groups.push(DimGroup { ins: SmallVec::from_slice(&[i]), outs: SmallVec::from_slice(&[i]) });
        }
        Ok(())
    })),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 2])]), Sample::new(vec![SampleArg::f32(&[2, 3, 2])])],
    amp: Amp::FLOAT32_ON_HOST,
    ..super::complex::VIEW
};
