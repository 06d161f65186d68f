//! `complex`: A complex tensor of the given real and imaginary parts.

use super::{binary, unary};
use crate::named::{complex as complex_at, conj};
use crate::prelude::*;

pub(super) const VIEW: OpDef =
    OpDef { faces: Faces::FN_METHOD, kernel: Kernel::View, cost: |_, _| Cost::default(), ..OpDef::BASE };

/// i.
pub(super) const I: Scalar = Scalar::Complex(0.0, 1.0);

/// The groups of a view whose dimensions are those of the input.
pub(super) fn same_dims(c: &Call<'_>, groups: &mut SmallVec<[DimGroup; 6]>) -> Result<()> {
    for i in 0..c.t(conj::INPUT)?.ndim() as u8 {
        groups.push(DimGroup { ins: SmallVec::from_slice(&[i]), outs: SmallVec::from_slice(&[i]) });
    }
    Ok(())
}

pub(super) fn complex_samples() -> Vec<Sample> {
    let t = |s: &[i64]| SampleArg::Tensor { dtype: DType::C64, sizes: s.to_vec(), low: -2.0, high: 2.0 };
    vec![Sample::new(vec![t(&[5])]), Sample::new(vec![t(&[2, 3])]), Sample::new(vec![t(&[])])]
}

static COMPLEX_EXPR: Expr = Expr::complex_only("complex", complex!(|re, im| Cx::new(re.re, im.re)));

fn two_reals(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let (a, b) = (c.t(complex_at::REAL)?.dtype(), c.t(complex_at::IMAG)?.dtype());
    if !a.is_float() || !b.is_float() || a == DType::BF16 || b == DType::BF16 {
        return Err(Error::not_implemented(format!(
            "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
            a.scalar_type_name(),
            b.scalar_type_name()
        )));
    }
    if a != b {
        return Err(Error::runtime(format!(
            "Expected object of scalar type {} but got scalar type {} for second argument",
            a.scalar_type_name(),
            b.scalar_type_name()
        )));
    }
    super::push_broadcast(c, of_parts(a), outs)
}

/// The complex dtype whose parts have this dtype.
pub(super) fn of_parts(parts: DType) -> DType {
    if parts == DType::F16 { DType::C32 } else { parts.to_complex() }
}

pub(super) const OF_REALS: OpDef = OpDef {
    faces: Faces::FN.or(Faces::OUT),
    infer: two_reals,
    samples: || {
        let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b)]);
        vec![t(&[5], &[5]), t(&[3, 4], &[4]), t(&[], &[])]
    },
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    limited: Limited::COMPLEX,
    ..binary::ARITH
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("complex(Tensor real, Tensor imag) -> Tensor"),
    doc: "A complex tensor of the given real and imaginary parts.

Example::

    >>> oneflow.complex(oneflow.tensor([1.]), oneflow.tensor([2.]))
    tensor([1.+2.j])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &COMPLEX_EXPR)),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(complex_at::REAL, || c.g()?.real())?;
            out.set(complex_at::IMAG, || c.g()?.imag())
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[complex_at::REAL, complex_at::IMAG])] }),
    ..OF_REALS
};
