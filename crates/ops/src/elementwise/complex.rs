//! Complex numbers: their parts as views, their conjugates, and complex tensors made of reals.
//!
//! A conjugate is always computed, never a flag on the tensor: what other ops read is what memory holds.

use super::{binary, unary};
use crate::named::{
    angle, complex as complex_at, conj, conj_physical, imag, polar, real, sgn, view_as_complex, view_as_real,
};
use crate::prelude::*;

const VIEW: OpDef =
    OpDef { faces: Faces::FN_METHOD, kernel: Kernel::View, cost: |_, _| Cost::default(), ..OpDef::BASE };

/// i.
const I: Scalar = Scalar::Complex(0.0, 1.0);

/// The groups of a view whose dimensions are those of the input.
pub(super) fn same_dims(c: &Call<'_>, groups: &mut SmallVec<[DimGroup; 6]>) -> Result<()> {
    for i in 0..c.t(conj::INPUT)?.ndim() as u8 {
        groups.push(DimGroup { ins: SmallVec::from_slice(&[i]), outs: SmallVec::from_slice(&[i]) });
    }
    Ok(())
}

fn complex_samples() -> Vec<Sample> {
    let t = |s: &[i64]| SampleArg::Tensor { dtype: DType::C64, sizes: s.to_vec(), low: -2.0, high: 2.0 };
    vec![Sample::new(vec![t(&[5])]), Sample::new(vec![t(&[2, 3])]), Sample::new(vec![t(&[])])]
}

pub static CONJ: OpDef = OpDef {
    sig: Sig::parse("conj(Tensor(a) input) -> Tensor(a)"),
    doc: "The complex conjugate, elementwise; a real tensor itself.

Example::

    >>> oneflow.conj(oneflow.tensor([1 + 2j]))
    tensor([1.-2.j])",
    infer: unary::same,
    compose: Some(|c, outs| {
        let x = c.t(conj::INPUT)?;
        outs.give(if x.dtype().is_complex() { x.conj_physical()? } else { x.clone() });
        Ok(())
    }),
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(conj::INPUT, || super::dual(c.g()?)) },
    sbp: SbpRule::of(Rows::View(same_dims)),
    samples: complex_samples,
    ..VIEW
};

static CONJ_EXPR: Expr = expr!(num "conj_physical", |x| x).complex(complex!(|x| x.conj()));

pub static CONJ_PHYSICAL: OpDef = OpDef {
    sig: Sig::parse("conj_physical(Tensor input) -> Tensor"),
    doc: "The complex conjugate, elementwise, in new memory.

Example::

    >>> oneflow.conj_physical(oneflow.tensor([1 + 2j]))
    tensor([1.-2.j])",
    infer: unary::like,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &CONJ_EXPR)),
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(conj_physical::INPUT, || super::dual(c.g()?)) },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[conj_physical::INPUT])] }),
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    limited: Limited::COMPLEX,
    ..unary::SAME
};

/// Both parts of a complex tensor as a last dimension of two.
fn as_real(x: &Tensor, outs: &mut Outs) -> Result<()> {
    let mut sizes = Dims::from_slice(x.sizes());
    let mut strides: Dims = x.strides().iter().map(|s| s * 2).collect();
    sizes.push(2);
    strides.push(1);
    outs.view_as(view_as_real::INPUT, x, x.dtype().to_real(), sizes, strides, x.offset() * 2)
}

/// One part of a complex tensor.
fn part(x: &Tensor, i: i64, outs: &mut Outs) -> Result<()> {
    let strides: Dims = x.strides().iter().map(|s| s * 2).collect();
    outs.view_as(real::INPUT, x, x.dtype().to_real(), Dims::from_slice(x.sizes()), strides, x.offset() * 2 + i)
}

pub static REAL: OpDef = OpDef {
    sig: Sig::parse("real(Tensor(a) input) -> Tensor(a)"),
    doc: "A view of the real parts; a real tensor itself.

Example::

    >>> oneflow.real(oneflow.tensor([1 + 2j]))
    tensor([1.])",
    faces: Faces::FN,
    infer: |c, outs| {
        let x = c.t(real::INPUT)?;
        if x.dtype().is_complex() { part(x, 0, outs) } else { unary::same(c, outs) }
    },
    // A real tensor is its own real part.
    compose: Some(|c, outs| {
        let x = c.t(real::INPUT)?;
        outs.give(if x.dtype().is_complex() { x.view_as_real()?.select(-1, 0)? } else { x.clone() });
        Ok(())
    }),
    grad: Grad::Rule { save: &[], fix: Fix::Broadcast, f: |c, out| out.set(real::INPUT, || Ok(c.g()?.clone())) },
    sbp: SbpRule::of(Rows::View(same_dims)),
    samples: complex_samples,
    sparse: Sparse::LinearValues,
    ..VIEW
};

pub static IMAG: OpDef = OpDef {
    sig: Sig::parse("imag(Tensor(a) input) -> Tensor(a)"),
    doc: "A view of the imaginary parts.

Example::

    >>> oneflow.imag(oneflow.tensor([1 + 2j]))
    tensor([2.])",
    faces: Faces::FN,
    infer: |c, outs| {
        let x = c.t(imag::INPUT)?;
        if !x.dtype().is_complex() {
            return Err(Error::type_("imag is not implemented for tensors with non-complex dtypes."));
        }
        part(x, 1, outs)
    },
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(imag::INPUT, || c.g()?.mul(I)) },
    sbp: SbpRule::of(Rows::View(same_dims)),
    samples: complex_samples,
    sparse: Sparse::LinearValues,
    ..VIEW
};

pub static VIEW_AS_REAL: OpDef = OpDef {
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
    sbp: SbpRule::of(Rows::View(same_dims)),
    samples: complex_samples,
    ..VIEW
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
        if !matches!(x.dtype(), DType::F32 | DType::F64) {
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
            x.dtype().to_complex(),
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
    ..VIEW
};

static COMPLEX_EXPR: Expr = Expr::complex_only("complex", complex!(|re, im| Cx::new(re.re, im.re)));
static POLAR_EXPR: Expr = Expr::complex_only("polar", complex!(|r, t| Cx::new(r.re * t.re.cos(), r.re * t.re.sin())));

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
    super::push_broadcast(c, a.to_complex(), outs)
}

const OF_REALS: OpDef = OpDef {
    faces: Faces::FN.or(Faces::OUT),
    infer: two_reals,
    samples: || {
        let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b)]);
        vec![t(&[5], &[5]), t(&[3, 4], &[4]), t(&[], &[])]
    },
    ..binary::ARITH
};

pub static COMPLEX: OpDef = OpDef {
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

pub static POLAR: OpDef = OpDef {
    sig: Sig::parse("polar(Tensor abs, Tensor angle) -> Tensor"),
    doc: "A complex tensor of the given moduli and angles (radians).

Example::

    >>> oneflow.polar(oneflow.tensor([2.]), oneflow.tensor([0.]))
    tensor([2.+0.j])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &POLAR_EXPR)),
    grad: Grad::Rule {
        save: &[Save::out(polar::RESULT, &[polar::ABS, polar::ANGLE])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(polar::ABS, || c.g()?.conj()?.mul(&c.y(polar::RESULT)?.sgn()?)?.real())?;
            out.set(polar::ANGLE, || c.g()?.conj()?.mul(&c.y(polar::RESULT)?.mul(I)?)?.real())
        },
    },
    ..OF_REALS
};

static ANGLE_EXPR: Expr = expr!(float "angle", |x| {
    let (zero, pi) = (L::splat(0.0), L::splat(std::f64::consts::PI));
    L::select(x.is_nan(), x, L::select(x.lt(zero), pi, zero))
})
.complex(complex!(|x| Cx::real(x.arg())));

pub static ANGLE: OpDef = OpDef {
    sig: Sig::parse("angle(Tensor input) -> Tensor"),
    doc: "The angle of complex numbers in radians; of reals, pi where they are negative and zero elsewhere.

Example::

    >>> oneflow.angle(oneflow.tensor([1j]))
    tensor([1.5708])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| super::push_broadcast(c, promote::to_float(c.t(angle::INPUT)?.dtype()).to_real(), outs),
    kernel: Kernel::Elementwise(|c, _, p| unary::by_float(c, p, &ANGLE_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(angle::INPUT, &[angle::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let x = c.x(angle::INPUT)?;
            out.set(angle::INPUT, || {
                if !x.dtype().is_complex() {
                    return c.g()?.zeros_like();
                }
                let m = x.abs()?;
                let turn = x.mul(I)?.div(&m.mul(&m)?)?.mul(c.g()?)?;
                m.eq(0.0)?.r#where(0.0, &turn)
            })
        },
    },
    ..unary::FLOAT
};

static SGN_EXPR: Expr = expr!(num "sgn", |x| {
    let (zero, one) = (L::splat(0.0), L::splat(1.0));
    let s = L::select(x.gt(zero), one, L::select(x.lt(zero), -one, zero));
    L::select(x.is_nan(), zero, s)
})
.complex(complex!(|x| {
    let m = x.abs();
    let zero = L::splat(0.0);
    let y = Cx::new(x.re / m, x.im / m);
    Cx::select(m.eq(zero), Cx::splat(0.0), y)
}));

pub static SGN: OpDef = OpDef {
    sig: Sig::parse("sgn(Tensor input) -> Tensor"),
    doc: "The sign of reals; complex numbers divided by their absolute value.

Example::

    >>> oneflow.sgn(oneflow.tensor([3 + 4j]))
    tensor([0.6000+0.8000j])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &SGN_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(sgn::INPUT, &[sgn::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let x = c.x(sgn::INPUT)?;
            out.set(sgn::INPUT, || {
                if !x.dtype().is_complex() {
                    return c.g()?.zeros_like();
                }
                let (m, s, g) = (x.abs()?, x.sgn()?, c.g()?);
                let along = s.mul(&g.mul(&s.conj()?)?.real()?)?;
                m.eq(0.0)?.r#where(0.0, &g.sub(&along)?.div(&m)?)
            })
        },
    },
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    limited: Limited::COMPLEX,
    sparse: Sparse::Values,
    ..unary::SAME
};
