//! Sequences: arange, linspace, eye.

use crate::named::{arange, arange_start, eye, linspace};
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
    let float = outs[arange::RESULT].dtype().is_differentiable();
    l.output(arange::RESULT).param(float);
    if float {
        l.param(start.to_f64()).param(step.to_f64())
    } else {
        l.param(start.to_i64()).param(step.to_i64())
    };
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

pub static LINSPACE: OpDef = OpDef {
    sig: Sig::parse(
        "linspace(Scalar start, Scalar end, int steps, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "`steps` numbers, evenly spaced, from `start` to `end` (inclusive).

Example::

    >>> oneflow.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        let n = c.int(linspace::STEPS)?;
        if n < 0 {
            return Err(Error::runtime("linspace(): number of steps must be non-negative"));
        }
        super::push(
            c,
            &[n],
            Arg::DType(super::ranges::dtype_of(c, linspace::START, linspace::END, linspace::DTYPE)?),
            c.arg(linspace::DEVICE),
            outs,
        )
    },
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::LINSPACE,
        lower: |c, outs, l| {
            if outs[linspace::RESULT].dtype().is_complex() {
                return Err(Error::not_implemented("linspace: complex numbers are composed"));
            }
            let end = |at: At<Scalar>| c.arg(at).scalar().unwrap_or(Scalar::Int(0)).to_f64();
            l.output(linspace::RESULT).param(end(linspace::START)).param(end(linspace::END));
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let n = c.int(linspace::STEPS)?;
        if n < 0 {
            return Err(Error::runtime("linspace(): number of steps must be non-negative"));
        }
        let dtype = super::ranges::dtype_of(c, linspace::START, linspace::END, linspace::DTYPE)?;
        let exact = |at: At<Scalar>| super::ranges::exact(c.arg(at).scalar().unwrap_or(Scalar::Int(0)));
        let values = super::ranges::between(
            &exact(linspace::START)?,
            &exact(linspace::END)?,
            n,
            dtype,
            c.arg(linspace::DEVICE).device(),
        )?;
        outs.give(if values.dtype() == dtype { values } else { values.to_copy_with(Some(dtype), None)? });
        Ok(())
    }),
    sbp: SbpRule::of(Rows::OnlyB { why: "it has no input whose layout it could follow" }),
    samples: || vec![Sample::new(vec![SampleArg::Float(0.0), SampleArg::Float(1.0), SampleArg::Int(5)])],
    ..OpDef::BASE
};

pub static EYE: OpDef = OpDef {
    sig: Sig::parse(
        "eye(int n, int? m=None, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Ones on the diagonal, zeros elsewhere.

Example::

    >>> oneflow.eye(2)
    tensor([[1., 0.],
            [0., 1.]])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        let n = c.int(eye::N)?;
        super::push(c, &[n, c.arg(eye::M).int().unwrap_or(n)], c.arg(eye::DTYPE), c.arg(eye::DEVICE), outs)
    },
    compose: Some(|c, outs| {
        let n = c.int(eye::N)?;
        let m = c.arg(eye::M).int().unwrap_or(n);
        if n < 0 || m < 0 {
            return Err(Error::runtime(format!("eye(): n and m must be greater or equal to 0, got {n} and {m}")));
        }
        // Refuses what no memory can hold before anything is made.
        (c.op.infer)(c, outs)?;
        outs.clear();
        let device = c.arg(eye::DEVICE).device();
        let out = f::zeros_with(&[n, m], c.arg(eye::DTYPE).dtype(), device, false)?;
        out.diagonal(0, 0, 1)?.fill_(1.0)?;
        outs.give(out);
        Ok(())
    }),
    sbp: SbpRule::of(Rows::OnlyB { why: "it has no input whose layout it could follow" }),
    samples: || vec![Sample::new(vec![SampleArg::Int(3)]), Sample::new(vec![SampleArg::Int(2), SampleArg::Int(4)])],
    ..OpDef::BASE
};
