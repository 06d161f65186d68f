//! `arange`: The numbers from zero to `end` (exclusive).

use crate::named::{arange, arange_start};
use crate::prelude::*;

/// Whether this is the overload that takes nothing but the end.
fn from_zero(c: &Call<'_>) -> bool {
    c.op.sig.overload.is_empty()
}

/// start, end and step as given by the overload.
fn numbers(c: &Call<'_>) -> Result<(Scalar, Scalar, Scalar)> {
    let s = |at: At<Scalar>| {
        c.arg(at).scalar().ok_or_else(|| Error::type_("arange(): start, end and step must be numbers"))
    };
    Ok(match from_zero(c) {
        true => (Scalar::Int(0), s(arange::END)?, Scalar::Int(1)),
        false => (s(arange_start::START)?, s(arange_start::END)?, s(arange_start::STEP)?),
    })
}

fn infer_arange(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let (start, end, step) = numbers(c)?;
    let (a, b, s) = (start.to_f64(), end.to_f64(), step.to_f64());
    if s == 0.0 {
        return Err(Error::runtime("arange(): step must be nonzero"));
    }
    if !a.is_finite() || !b.is_finite() {
        return Err(Error::runtime(format!("arange(): unsupported range: {a} -> {b}")));
    }
    if (s > 0.0) != (b >= a) && a != b {
        return Err(Error::runtime(format!(
            "arange(): upper bound and lower bound inconsistent with step sign ({a}, {b}, {s})"
        )));
    }
    let integral = [start, end, step].iter().all(|x| x.category() <= Category::Int);
    let len = if integral {
        let (a, b, s) = (start.to_i64() as i128, end.to_i64() as i128, step.to_i64() as i128);
        let n = (b - a + s - s.signum()) / s;
        i64::try_from(n).map_err(|_| Error::runtime("arange(): the range has too many elements"))?
    } else {
        let n = ((b - a) / s).ceil();
        if n > i64::MAX as f64 / 16.0 {
            return Err(Error::runtime(format!("arange(): invalid size, possible overflow ({n} elements)")));
        }
        n as i64
    };
    let (dtype, device) = match from_zero(c) {
        true => (c.arg(arange::DTYPE), c.arg(arange::DEVICE)),
        false => (c.arg(arange_start::DTYPE), c.arg(arange_start::DEVICE)),
    };
    let dtype = dtype.dtype().unwrap_or(if integral { DType::I64 } else { default_dtype() });
    super::push(c, &[len], Arg::DType(dtype), device, outs)
}

fn lower_arange(c: &Call<'_>, outs: &Outs, l: &mut Lowered) -> Result<()> {
    let (start, _, step) = numbers(c)?;
    // An integer result counts in whole numbers, however its ends were written.
    let is_float = outs[arange::RESULT].dtype().is_differentiable();
    let word = |v: Scalar| if is_float { Word::from(v.to_f64()) } else { Word::from(v.to_i64()) };
    l.output(arange::RESULT).with(ArangeParams { is_float, start: word(start), step: word(step) });
    Ok(())
}

const ARANGE_BASE: OpDef = OpDef {
    faces: Faces::FN.or(Faces::OUT),
    infer: infer_arange,
    kernel: Kernel::Prim { prim: &ARANGE, lower: lower_arange },
    sbp: SbpRule::of(Rows::OnlyB { why: "it has no input whose layout it could follow" }),
    ..OpDef::BASE
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "arange(Scalar end, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "The numbers from zero to `end` (exclusive).

Example::

    >>> oneflow.arange(3)
    tensor([0, 1, 2])",
    samples: || vec![Sample::new(vec![SampleArg::Int(5)]), Sample::new(vec![SampleArg::Float(2.5)])],
    ..ARANGE_BASE
};

pub static START: OpDef = OpDef {
    sig: Sig::parse(
        "arange.start(Scalar start, Scalar end, Scalar step=1, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "The numbers from `start` to `end` (exclusive) by `step`.

Example::

    >>> oneflow.arange(1, 2, 0.5)
    tensor([1.0000, 1.5000])",
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![i(1), i(9), i(3)]), Sample::new(vec![i(3), i(-4), i(-2)])]
    },
    ..ARANGE_BASE
};
