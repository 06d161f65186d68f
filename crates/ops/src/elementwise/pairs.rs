//! Functions of two numbers beside arithmetic: logarithms of sums, distances, signs, neighbours, greatest and least.

use super::{binary, two_tensors, unary};
use crate::named::{
    bitwise_left_shift, bitwise_left_shift_scalar_tensor, copysign, float_power, float_power_scalar, fmax, fmin,
    heaviside, hypot, ldexp, logaddexp, logaddexp2, nextafter, special_xlog1py, special_xlog1py_self_scalar,
    special_zeta, special_zeta_self_scalar, xlog1py_pair, xlogy, xlogy_pair, xlogy_scalar_self, zeta_pair,
};
use crate::prelude::*;

static LOGADDEXP_EXPR: Expr = expr!(float "logaddexp", |x, y| special::logaddexp(x, y))
    .complex(complex!(|x, y| special::logaddexp_complex(x, y)));
static LOGADDEXP2_EXPR: Expr = expr!(float "logaddexp2", |x, y| special::logaddexp2(x, y));
static HYPOT_EXPR: Expr = expr!(float "hypot", |x, y| Cx::new(x, y).abs());
static COPYSIGN_EXPR: Expr = expr!(float "copysign", |x, y| x.copysign(y));
static COPYSIGN_SCALAR: Expr = expr!(float "copysign_scalar", |x; p| x.copysign(p[0]));
static NEXTAFTER_EXPR: Expr = expr!(float "nextafter", |x, y| x.next_after(y));
static FMAX_EXPR: Expr = expr!(num "fmax", |x, y| L::select(y.is_nan(), x, L::select(x.is_nan(), y, x.maximum(y))));
static FMIN_EXPR: Expr = expr!(num "fmin", |x, y| L::select(y.is_nan(), x, L::select(x.is_nan(), y, x.minimum(y))));
static HEAVISIDE_EXPR: Expr = expr!(num "heaviside", |x, v| {
    let zero = L::splat(0.0);
    L::select(x.eq(zero), v, L::from_mask(zero.lt(x)))
});
static XLOGY_EXPR: Expr = expr!(float "xlogy", |x, y| {
    let zero = L::splat(0.0);
    L::select(y.is_nan(), y, L::select(x.eq(zero), zero, x * y.log()))
});
static XLOG1PY_EXPR: Expr = expr!(float "xlog1py", |x, y| {
    let zero = L::splat(0.0);
    L::select(y.is_nan(), y, L::select(x.eq(zero), zero, x * y.log1p()))
});
static ZETA_EXPR: Expr = expr!(float "zeta", |x, q| special::zeta(x, q));
static GCD_EXPR: Expr = expr!(int "gcd", |x, y| x.gcd(y));
static LCM_EXPR: Expr = expr!(int "lcm", |x, y| {
    let g = x.gcd(y);
    L::select(g.eq(L::splat(0.0)), g, (x.div_trunc(g) * y).abs())
});
static SHIFT_LEFT: Expr = expr!(int "bitwise_left_shift", |x, y| x.shl(y));
static SHIFT_LEFT_SCALAR: Expr = expr!(int "bitwise_left_shift_scalar", |x; p| x.shl(p[0]));
static SHIFT_RIGHT: Expr = expr!(int "bitwise_right_shift", |x, y| x.shr(y));
static SHIFT_RIGHT_SCALAR: Expr = expr!(int "bitwise_right_shift_scalar", |x; p| x.shr(p[0]));

/// The promoted dtype, which must be a float (or none of those refused).
fn float_only(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let d = binary::common(c)?;
    if !d.is_float() {
        return Err(unary::not_implemented(c, d));
    }
    binary::infer(c, outs)
}

/// As `float_only`, complex numbers too.
fn differentiable_only(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let d = binary::common(c)?;
    if !d.is_differentiable() {
        return Err(unary::not_implemented(c, d));
    }
    binary::infer(c, outs)
}

fn to_real_float(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let d = binary::common(c)?;
    if d.is_complex() {
        return Err(unary::not_implemented(c, d));
    }
    binary::infer_float(c, outs)
}

pub static LOGADDEXP: OpDef = OpDef {
    sig: Sig::parse("logaddexp(Tensor input, Tensor other) -> Tensor"),
    doc: "`log(exp(input) + exp(other))`, without overflow.

Example::

    >>> oneflow.logaddexp(oneflow.tensor([0.]), oneflow.tensor([0.]))
    tensor([0.6931])",
    faces: Faces::FN_METHOD_OUT,
    infer: differentiable_only,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &LOGADDEXP_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(logaddexp::INPUT, &[logaddexp::INPUT, logaddexp::OTHER]),
            Save::of(logaddexp::OTHER, &[logaddexp::INPUT, logaddexp::OTHER]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let apart = super::dual(&c.x(logaddexp::OTHER)?.sub(c.x(logaddexp::INPUT)?)?)?;
            out.set(logaddexp::INPUT, || c.g()?.mul(&apart.neg()?.sigmoid()?))?;
            out.set(logaddexp::OTHER, || c.g()?.mul(&apart.sigmoid()?))
        },
    },
    samples: two_tensors,
    ..binary::ARITH
};

pub static LOGADDEXP2: OpDef = OpDef {
    sig: Sig::parse("logaddexp2(Tensor input, Tensor other) -> Tensor"),
    doc: "`log2(2 ** input + 2 ** other)`, without overflow.

Example::

    >>> oneflow.logaddexp2(oneflow.tensor([1.]), oneflow.tensor([1.]))
    tensor([2.])",
    faces: Faces::FN_METHOD_OUT,
    infer: float_only,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &LOGADDEXP2_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(logaddexp2::INPUT, &[logaddexp2::INPUT, logaddexp2::OTHER]),
            Save::of(logaddexp2::OTHER, &[logaddexp2::INPUT, logaddexp2::OTHER]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let apart = c.x(logaddexp2::OTHER)?.sub(c.x(logaddexp2::INPUT)?)?.mul(std::f64::consts::LN_2)?;
            out.set(logaddexp2::INPUT, || c.g()?.mul(&apart.neg()?.sigmoid()?))?;
            out.set(logaddexp2::OTHER, || c.g()?.mul(&apart.sigmoid()?))
        },
    },
    samples: two_tensors,
    ..binary::ARITH
};

pub static HYPOT: OpDef = OpDef {
    sig: Sig::parse("hypot(Tensor input, Tensor other) -> Tensor"),
    doc: "`sqrt(input ** 2 + other ** 2)`, without overflow.

Example::

    >>> oneflow.hypot(oneflow.tensor([3.]), oneflow.tensor([4.]))
    tensor([5.])",
    infer: float_only,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &HYPOT_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(hypot::INPUT, &[hypot::INPUT]),
            Save::of(hypot::OTHER, &[hypot::OTHER]),
            Save::out(hypot::RESULT, &[hypot::INPUT, hypot::OTHER]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(hypot::INPUT, || c.g()?.mul(&c.x(hypot::INPUT)?.div(c.y(hypot::RESULT)?)?))?;
            out.set(hypot::OTHER, || c.g()?.mul(&c.x(hypot::OTHER)?.div(c.y(hypot::RESULT)?)?))
        },
    },
    samples: two_tensors,
    ..binary::ARITH
};

pub static COPYSIGN: OpDef = OpDef {
    sig: Sig::parse("copysign(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "The magnitude of `input` with the sign of `other`.

Example::

    >>> oneflow.copysign(oneflow.tensor([1., 2.]), -1)
    tensor([-1., -2.])",
    infer: to_real_float,
    kernel: Kernel::Elementwise(|c, o, p| {
        binary::lower(c, o[copysign::RESULT].dtype().compute(), p, &COPYSIGN_EXPR, &COPYSIGN_SCALAR)
    }),
    grad: Grad::Rule {
        save: &[Save::of(copysign::INPUT, &[copysign::INPUT]), Save::out(copysign::RESULT, &[copysign::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(copysign::INPUT, || {
                let ratio = c.y(copysign::RESULT)?.div(c.x(copysign::INPUT)?)?;
                c.x(copysign::INPUT)?.eq(0.0)?.r#where(0.0, &c.g()?.mul(&ratio)?)
            })?;
            out.set(copysign::OTHER, || c.g()?.zeros_like())
        },
    },
    ..binary::ARITH
};

/// The next number of a real type, by counting bits: as integers of sign and magnitude its numbers lie in order.
fn step_of_bits(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let (word, sign) = match x.dtype().size() {
        2 => (DType::I16, i64::from(i16::MIN)),
        4 => (DType::I32, i64::from(i32::MIN)),
        _ => (DType::I64, i64::MIN),
    };
    let bits = x.clone_contiguous()?.view_dtype(word)?;
    let magnitude = bits.bitwise_and(!sign)?;
    let place = bits.lt(0i64)?.r#where(&magnitude.neg()?, &magnitude)?;
    let up = y.gt(x)?.to_copy_with(Some(word), None)?;
    let next = place.add(&up.mul(2i64)?.sub(1i64)?)?;
    let coded = next.lt(0i64)?.r#where(&next.neg()?.bitwise_or(sign)?, &next)?;
    let stepped = coded.view_dtype(x.dtype())?;
    let moved = x.eq(y)?.r#where(y, &stepped)?;
    x.isnan()?.logical_or(&y.isnan()?)?.r#where(&x.add(y)?, &moved)
}

pub static NEXTAFTER: OpDef = OpDef {
    sig: Sig::parse("nextafter(Tensor input, Tensor other) -> Tensor"),
    doc: "The next number after `input` towards `other`.

Example::

    >>> oneflow.nextafter(oneflow.tensor([1.]), oneflow.tensor([2.])) > 1
    tensor([True])",
    infer: |c, outs| {
        let d = binary::common(c)?;
        if !matches!(d, DType::F32 | DType::F64 | DType::F16 | DType::BF16) {
            return Err(unary::not_implemented(c, d));
        }
        binary::infer(c, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| {
        let d = o[nextafter::RESULT].dtype();
        // The formula steps in the dtype of computation, which is finer than a half type.
        if d.compute() != d {
            return Err(unary::not_implemented(c, d));
        }
        unary::by_output(o, p, &NEXTAFTER_EXPR)
    }),
    compose: Some(|c, outs| {
        let d = binary::common(c)?;
        let (x, y) =
            (c.t(nextafter::INPUT)?.to_copy_with(Some(d), None)?, c.t(nextafter::OTHER)?.to_copy_with(Some(d), None)?);
        let together = f::broadcast_tensors([&x, &y])?;
        outs.give(step_of_bits(&together[0], &together[1])?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(nextafter::INPUT, &[nextafter::INPUT]), Save::of(nextafter::OTHER, &[nextafter::INPUT])],
        fix: Fix::Broadcast,
        // A step along with the first operand; where both are equal there is none.
        f: |c, out| {
            out.set(nextafter::INPUT, || {
                c.g()?
                    .mul(&c.x(nextafter::INPUT)?.ne(c.x(nextafter::OTHER)?)?.to_copy_with(Some(c.g()?.dtype()), None)?)
            })?;
            out.set(nextafter::OTHER, || c.g()?.zeros_like())
        },
    },
    samples: two_tensors,
    ..binary::ARITH
};

/// The gradient goes to the operand that was taken; a tie is shared.
fn taken(c: &GradCall<'_>, out: &mut Grads, first: Result<Tensor>) -> Result<()> {
    let (x, y) = (c.x(fmax::INPUT)?, c.x(fmax::OTHER)?);
    let first = first?.logical_or(&y.isnan()?)?;
    let half = x.eq(y)?.r#where(&c.g()?.mul(0.5)?, c.g()?)?;
    let tie = x.eq(y)?;
    out.set(fmax::INPUT, || first.logical_or(&tie)?.r#where(&half, 0.0))?;
    out.set(fmax::OTHER, || first.logical_not()?.logical_or(&tie)?.r#where(&half, 0.0))
}

pub static FMAX: OpDef = OpDef {
    sig: Sig::parse("fmax(Tensor input, Tensor other) -> Tensor"),
    doc: "The greater of both operands; where one is NaN the other.

Example::

    >>> oneflow.fmax(oneflow.tensor([1., -1.]).sqrt(), oneflow.tensor([3., 2.]))
    tensor([3., 2.])",
    faces: Faces::FN_METHOD_OUT,
    infer: binary::infer_real,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &FMAX_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(fmax::INPUT, &[fmax::INPUT, fmax::OTHER]), Save::of(fmax::OTHER, &[fmax::INPUT, fmax::OTHER])],
        fix: Fix::Broadcast,
        f: |c, out| taken(c, out, c.x(fmax::INPUT)?.gt(c.x(fmax::OTHER)?)),
    },
    samples: two_tensors,
    limited: Limited::ORDER,
    ..binary::ARITH
};

pub static FMIN: OpDef = OpDef {
    sig: Sig::parse("fmin(Tensor input, Tensor other) -> Tensor"),
    doc: "The smaller of both operands; where one is NaN the other.

Example::

    >>> oneflow.fmin(oneflow.tensor([1., oneflow.nan]), oneflow.tensor([3., 2.]))
    tensor([1., 2.])",
    faces: Faces::FN_METHOD_OUT,
    infer: binary::infer_real,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &FMIN_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(fmin::INPUT, &[fmin::INPUT, fmin::OTHER]), Save::of(fmin::OTHER, &[fmin::INPUT, fmin::OTHER])],
        fix: Fix::Broadcast,
        f: |c, out| taken(c, out, c.x(fmin::INPUT)?.lt(c.x(fmin::OTHER)?)),
    },
    samples: two_tensors,
    limited: Limited::ORDER,
    ..binary::ARITH
};

pub static HEAVISIDE: OpDef = OpDef {
    sig: Sig::parse("heaviside(Tensor input, Tensor values) -> Tensor"),
    doc: "Zero where `input` is negative, one where it is positive, `values` where it is zero.

Example::

    >>> oneflow.heaviside(oneflow.tensor([-1., 0., 2.]), oneflow.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])",
    infer: |c, outs| {
        let (x, v) = (c.t(heaviside::INPUT)?, c.t(heaviside::VALUES)?);
        if x.dtype().is_complex() || v.dtype().is_complex() {
            return Err(Error::not_implemented("heaviside is not yet implemented for complex tensors."));
        }
        if x.dtype() != v.dtype() {
            return Err(Error::not_implemented("heaviside is not yet implemented for tensors with different dtypes."));
        }
        binary::infer(c, outs)
    },
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &HEAVISIDE_EXPR)),
    samples: two_tensors,
    ..binary::ARITH
};

pub static XLOGY: OpDef = OpDef {
    sig: Sig::parse("xlogy(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "`input * log(other)`, zero where `input` is zero.

Example::

    >>> oneflow.xlogy(oneflow.tensor([0., 2.]), oneflow.tensor([0., 1.]))
    tensor([0., 0.])",
    infer: to_real_float,
    compose: Some(|c, outs| {
        let other = number_as_tensor(c, c.t(xlogy::INPUT)?, xlogy::OTHER_SCALAR, binary::common(c)?)?;
        outs.give(c.t(xlogy::INPUT)?.xlogy_pair(&other)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: positive_second,
    traits: Traits::ALIAS_OK,
    ..binary::ARITH
};

pub static XLOGY_SELF: OpDef = OpDef {
    sig: Sig::parse("xlogy.Scalar_Self(Scalar input, Tensor other) -> Tensor"),
    doc: "",
    faces: Faces::FN.or(Faces::OUT),
    infer: to_real_float_first,
    compose: Some(|c, outs| {
        outs.give(first_number(c)?.xlogy_pair(c.t(xlogy_scalar_self::OTHER)?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::Float(1.5), SampleArg::range(&[3], 0.5, 2.0)])],
    ..binary::ARITH
};

pub static XLOGY_PAIR: OpDef = OpDef {
    sig: Sig::parse("xlogy_pair(Tensor input, Tensor other) -> Tensor"),
    doc: "xlogy of two tensors.",
    faces: Faces::PRIVATE,
    infer: to_real_float,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &XLOGY_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(xlogy_pair::INPUT, &[xlogy_pair::INPUT, xlogy_pair::OTHER]),
            Save::of(xlogy_pair::OTHER, &[xlogy_pair::INPUT, xlogy_pair::OTHER]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (x, y) = (c.x(xlogy_pair::INPUT)?, c.x(xlogy_pair::OTHER)?);
            out.set(xlogy_pair::INPUT, || {
                let flat = x.eq(0.0)?.logical_and(&y.le(0.0)?)?;
                c.g()?.mul(&flat.r#where(0.0, &y.log()?)?)
            })?;
            out.set(xlogy_pair::OTHER, || c.g()?.mul(x)?.div(y))
        },
    },
    samples: positive_second,
    ..binary::ARITH
};

pub static XLOG1PY: OpDef = OpDef {
    sig: Sig::parse("special_xlog1py(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "`input * log1p(other)`, zero where `input` is zero.

Example::

    >>> oneflow.special.xlog1py(oneflow.tensor([0., 2.]), oneflow.tensor([-1., 0.]))
    tensor([0., 0.])",
    faces: Faces::PRIVATE.or(Faces::OUT),
    infer: to_real_float,
    compose: Some(|c, outs| {
        let other =
            number_as_tensor(c, c.t(special_xlog1py::INPUT)?, special_xlog1py::OTHER_SCALAR, binary::common(c)?)?;
        outs.give(c.t(special_xlog1py::INPUT)?.xlog1py_pair(&other)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: positive_second,
    ..binary::ARITH
};

pub static XLOG1PY_SELF: OpDef = OpDef {
    sig: Sig::parse("special_xlog1py.self_scalar(Scalar input, Tensor other) -> Tensor"),
    doc: "",
    faces: Faces::PRIVATE.or(Faces::OUT),
    infer: to_real_float_first,
    compose: Some(|c, outs| {
        outs.give(first_number(c)?.xlog1py_pair(c.t(special_xlog1py_self_scalar::OTHER)?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::Float(1.5), SampleArg::range(&[3], 0.5, 2.0)])],
    ..binary::ARITH
};

pub static XLOG1PY_PAIR: OpDef = OpDef {
    sig: Sig::parse("xlog1py_pair(Tensor input, Tensor other) -> Tensor"),
    doc: "xlog1py of two tensors.",
    faces: Faces::PRIVATE,
    infer: to_real_float,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &XLOG1PY_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(xlog1py_pair::INPUT, &[xlog1py_pair::INPUT, xlog1py_pair::OTHER]),
            Save::of(xlog1py_pair::OTHER, &[xlog1py_pair::INPUT, xlog1py_pair::OTHER]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (x, y) = (c.x(xlog1py_pair::INPUT)?, c.x(xlog1py_pair::OTHER)?);
            out.set(xlog1py_pair::INPUT, || {
                let flat = x.eq(0.0)?.logical_and(&y.le(-1.0)?)?;
                c.g()?.mul(&flat.r#where(0.0, &y.log1p()?)?)
            })?;
            out.set(xlog1py_pair::OTHER, || c.g()?.mul(x)?.div(&y.add(1.0)?))
        },
    },
    samples: positive_second,
    ..binary::ARITH
};

pub static ZETA: OpDef = OpDef {
    sig: Sig::parse("special_zeta(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "Hurwitz's zeta function, elementwise.

Example::

    >>> oneflow.special.zeta(oneflow.tensor([2.]), 1)
    tensor([1.6449])",
    faces: Faces::PRIVATE.or(Faces::OUT),
    infer: to_real_float,
    compose: Some(|c, outs| {
        let other = number_as_tensor(c, c.t(special_zeta::INPUT)?, special_zeta::OTHER_SCALAR, binary::common(c)?)?;
        outs.give(c.t(special_zeta::INPUT)?.zeta_pair(&other)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::range(&[4], 2.0, 4.0), SampleArg::range(&[4], 1.0, 3.0)])],
    ..binary::ARITH
};

pub static ZETA_SELF: OpDef = OpDef {
    sig: Sig::parse("special_zeta.self_scalar(Scalar input, Tensor other) -> Tensor"),
    doc: "",
    faces: Faces::PRIVATE,
    infer: to_real_float_first,
    compose: Some(|c, outs| {
        outs.give(first_number(c)?.zeta_pair(c.t(special_zeta_self_scalar::OTHER)?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::Float(2.5), SampleArg::range(&[3], 0.5, 2.0)])],
    ..binary::ARITH
};

pub static ZETA_PAIR: OpDef = OpDef {
    sig: Sig::parse("zeta_pair(Tensor input, Tensor other) -> Tensor"),
    doc: "zeta of two tensors.",
    faces: Faces::PRIVATE,
    infer: to_real_float,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ZETA_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(zeta_pair::INPUT, &[zeta_pair::OTHER]), Save::of(zeta_pair::OTHER, &[zeta_pair::OTHER])],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (x, q) = (c.x(zeta_pair::INPUT)?, c.x(zeta_pair::OTHER)?);
            out.set(zeta_pair::INPUT, || {
                Err(Error::not_implemented("the derivative for 'self' is not implemented: zeta(x, q) in x"))
            })?;
            out.set(zeta_pair::OTHER, || c.g()?.mul(&x.neg()?.mul(&x.add(1.0)?.zeta_pair(q)?)?))
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::range(&[4], 2.0, 4.0), SampleArg::range(&[4], 1.0, 3.0)])],
    ..binary::ARITH
};

fn positive_second() -> Vec<Sample> {
    let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::range(b, 0.2, 3.0)]);
    vec![t(&[5], &[5]), t(&[3, 4], &[4]), t(&[], &[])]
}

/// The dtype of a number with a tensor.
fn to_real_float_first(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let d = result_type(c.ins.iter().flatten().copied(), c.arg(xlogy_scalar_self::INPUT).scalar())?;
    if d.is_complex() {
        return Err(unary::not_implemented(c, d));
    }
    super::push_broadcast(c, promote::to_float(d), outs)
}

/// The second operand as a tensor, also where it is a number.
pub(super) fn number_as_tensor(c: &Call<'_>, like: &Tensor, number: At<Scalar>, dtype: DType) -> Result<Tensor> {
    match c.arg(number).scalar() {
        Some(s) => like.new_full_with(&[], s, Some(promote::to_float(dtype)), None, false),
        None => Ok(c.t(xlogy::OTHER)?.clone()),
    }
}

/// The number of argument 0 in the dtype it has with the tensor.
pub(super) fn first_number(c: &Call<'_>) -> Result<Tensor> {
    let s = c.arg(xlogy_scalar_self::INPUT).scalar().unwrap_or(Scalar::Int(0));
    let d = promote::to_float(result_type(c.ins.iter().flatten().copied(), Some(s))?);
    c.t(xlogy_scalar_self::OTHER)?.new_full_with(&[], s, Some(d), None, false)
}

const INTEGERS: OpDef = OpDef {
    infer: |c, outs| {
        let d = binary::common(c)?;
        if !d.is_int() {
            return Err(unary::not_implemented(c, d));
        }
        binary::infer(c, outs)
    },
    samples: || {
        let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::i64(a, -20, 20), SampleArg::i64(b, 0, 9)]);
        vec![t(&[5], &[5]), t(&[3, 4], &[4])]
    },
    ..binary::ARITH
};

pub static GCD: OpDef = OpDef {
    sig: Sig::parse("gcd(Tensor input, Tensor other) -> Tensor"),
    doc: "The greatest common divisor, elementwise.

Example::

    >>> oneflow.gcd(oneflow.tensor([12]), oneflow.tensor([18]))
    tensor([6])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &GCD_EXPR)),
    ..INTEGERS
};

pub static LCM: OpDef = OpDef {
    sig: Sig::parse("lcm(Tensor input, Tensor other) -> Tensor"),
    doc: "The least common multiple, elementwise.

Example::

    >>> oneflow.lcm(oneflow.tensor([4]), oneflow.tensor([6]))
    tensor([12])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &LCM_EXPR)),
    ..INTEGERS
};

/// Shifts are of the result's own width: what a distance of eight does to a byte is not what it does to a long.
fn shift(
    c: &Call<'_>,
    o: &Outs,
    p: &mut Params,
    tensor: &'static Expr,
    scalar: &'static Expr,
) -> Result<&'static Expr> {
    binary::lower(c, o[bitwise_left_shift::RESULT].dtype().compute(), p, tensor, scalar)
}

pub static LEFT_SHIFT: OpDef = OpDef {
    sig: Sig::parse("bitwise_left_shift(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "`input` shifted left by `other` bits.

Example::

    >>> oneflow.bitwise_left_shift(oneflow.tensor([1, 3]), 2)
    tensor([ 4, 12])",
    kernel: Kernel::Elementwise(|c, o, p| shift(c, o, p, &SHIFT_LEFT, &SHIFT_LEFT_SCALAR)),
    traits: Traits::ALIAS_OK.or(Traits::NUMBER_FIRST),
    ..INTEGERS
};

pub static RIGHT_SHIFT: OpDef = OpDef {
    sig: Sig::parse("bitwise_right_shift(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "`input` shifted right by `other` bits, with its sign.

Example::

    >>> oneflow.bitwise_right_shift(oneflow.tensor([-8, 12]), 2)
    tensor([-2,  3])",
    kernel: Kernel::Elementwise(|c, o, p| shift(c, o, p, &SHIFT_RIGHT, &SHIFT_RIGHT_SCALAR)),
    traits: Traits::ALIAS_OK.or(Traits::NUMBER_FIRST),
    ..INTEGERS
};

/// A number with a tensor, by the op of two tensors.
macro_rules! number_first {
    ($c:ident, $outs:ident, $method:ident) => {{
        let s = $c.arg(bitwise_left_shift_scalar_tensor::INPUT).scalar().unwrap_or(Scalar::Int(0));
        let d = result_type($c.ins.iter().flatten().copied(), Some(s))?;
        $outs.give(
            $c.t(bitwise_left_shift_scalar_tensor::OTHER)?
                .new_full_with(&[], s, Some(d), None, false)?
                .$method($c.t(bitwise_left_shift_scalar_tensor::OTHER)?)?,
        );
        Ok(())
    }};
}

const NUMBER_FIRST: OpDef = OpDef {
    faces: Faces::FN,
    infer: |c, outs| {
        let d = result_type(c.ins.iter().flatten().copied(), c.arg(bitwise_left_shift_scalar_tensor::INPUT).scalar())?;
        super::push_broadcast(c, d, outs)
    },
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::Int(7), SampleArg::i64(&[4], 1, 5)])],
    ..binary::ARITH
};

pub static LEFT_SHIFT_SELF: OpDef = OpDef {
    sig: Sig::parse("bitwise_left_shift.Scalar_Tensor(Scalar input, Tensor other) -> Tensor"),
    doc: "",
    compose: Some(|c, outs| number_first!(c, outs, bitwise_left_shift)),
    ..NUMBER_FIRST
};

pub static RIGHT_SHIFT_SELF: OpDef = OpDef {
    sig: Sig::parse("bitwise_right_shift.Scalar_Tensor(Scalar input, Tensor other) -> Tensor"),
    doc: "",
    compose: Some(|c, outs| number_first!(c, outs, bitwise_right_shift)),
    ..NUMBER_FIRST
};

pub static REMAINDER_SELF: OpDef = OpDef {
    sig: Sig::parse("remainder.Scalar_Tensor(Scalar input, Tensor other) -> Tensor"),
    doc: "",
    compose: Some(|c, outs| number_first!(c, outs, remainder)),
    ..NUMBER_FIRST
};

/// The dtype of two to the power of `y`, as a factor of `x`.
fn power_dtype(x: &Tensor, y: &Tensor) -> DType {
    if y.dtype().is_int() && x.dtype().is_differentiable() { x.dtype() } else { promote::to_float(y.dtype()) }
}

pub static LDEXP: OpDef = OpDef {
    sig: Sig::parse("ldexp(Tensor input, Tensor other) -> Tensor"),
    doc: "`input * 2 ** other`.

Example::

    >>> oneflow.ldexp(oneflow.tensor([1.]), oneflow.tensor([3]))
    tensor([8.])",
    infer: |c, outs| {
        // Two to an integer is of the input's float dtype, or the default one; to a float, of that one.
        let (x, y) = (c.t(ldexp::INPUT)?, c.t(ldexp::OTHER)?);
        let power = power_dtype(x, y);
        let (mut dim, mut zero) = (None, None);
        for (t, d) in [(x, x.dtype()), (y, power)] {
            let slot: &mut Option<DType> = if t.ndim() > 0 { &mut dim } else { &mut zero };
            *slot = Some(match *slot {
                None => d,
                Some(p) => oneflow_base::promote(p, d)?,
            });
        }
        super::push_broadcast(c, promote::combine(dim, zero, None)?, outs)
    },
    compose: Some(|c, outs| {
        let (x, y) = (c.t(ldexp::INPUT)?, c.t(ldexp::OTHER)?);
        let d = power_dtype(x, y);
        let y = if y.dtype() == d { y.clone() } else { y.to_copy_with(Some(d), None)? };
        outs.give(x.mul(&f::pow_scalar(Scalar::Float(2.0), &y)?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: two_tensors,
    ..binary::ARITH
};

/// A destination that would round what is asked for in double precision.
fn powers_into(c: &Call<'_>, d: DType) -> Result<()> {
    let Dest::Into([dest]) = c.dest else { return Ok(()) };
    if dest.dtype() == d {
        return Ok(());
    }
    let what = match c.ins.iter().flatten().any(|t| t.same(dest)) {
        true => "base given to float_power_",
        false => "output given to float_power",
    };
    Err(Error::runtime(format!(
        "the {what} has dtype {} but the operation's result requires dtype {}",
        dest.dtype().scalar_type_name(),
        d.scalar_type_name()
    )))
}

pub static FLOAT_POWER: OpDef = OpDef {
    sig: Sig::parse("float_power(Tensor input, Tensor|Scalar exponent) -> Tensor"),
    doc: "`input ** exponent` in double precision.

Example::

    >>> oneflow.float_power(oneflow.tensor([2]), 3)
    tensor([8.], dtype=oneflow.float64)",
    infer: |c, outs| {
        let d = if binary::common(c)?.is_complex() { DType::C128 } else { DType::F64 };
        powers_into(c, d)?;
        super::push_broadcast(c, d, outs)
    },
    compose: Some(|c, outs| {
        let d = if binary::common(c)?.is_complex() { DType::C128 } else { DType::F64 };
        let x = c.t(float_power::INPUT)?.to_copy_with(Some(d), None)?;
        outs.give(match c.arg(float_power::EXPONENT_SCALAR).scalar() {
            Some(s) => x.pow(s)?,
            None => x.pow(&c.t(float_power::EXPONENT)?.to_copy_with(Some(d), None)?)?,
        });
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::range(&[3, 4], 0.2, 2.0), SampleArg::Float(1.5)])],
    ..binary::ARITH
};

pub static FLOAT_POWER_SELF: OpDef = OpDef {
    sig: Sig::parse("float_power.Scalar(Scalar input, Tensor exponent) -> Tensor"),
    doc: "",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        let d = result_type(c.ins.iter().flatten().copied(), c.arg(float_power_scalar::INPUT).scalar())?;
        let d = if d.is_complex() { DType::C128 } else { DType::F64 };
        powers_into(c, d)?;
        super::push_broadcast(c, d, outs)
    },
    compose: Some(|c, outs| {
        let s = c.arg(float_power_scalar::INPUT).scalar().unwrap_or(Scalar::Int(1));
        let complex = result_type(c.ins.iter().flatten().copied(), Some(s))?.is_complex();
        let e = c
            .t(float_power_scalar::EXPONENT)?
            .to_copy_with(Some(if complex { DType::C128 } else { DType::F64 }), None)?;
        outs.give(f::pow_scalar(s, &e)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::Float(2.0), SampleArg::f32(&[3])])],
    ..binary::ARITH
};
