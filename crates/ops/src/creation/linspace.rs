//! `linspace`: `steps` numbers, evenly spaced, from `start` to `end` (inclusive).

use super::{COMPOSED, WHERE_IT_LIES, give};
use crate::named::{linspace, linspace_tensors};
use crate::prelude::*;

pub static OP: OpDef = OpDef {
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
            Arg::DType(super::linspace::dtype_of(c, linspace::START, linspace::END, linspace::DTYPE)?),
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
            if outs[linspace::RESULT].numel() == 1 {
                return Err(Error::not_implemented("linspace: a single number is composed, of the start alone"));
            }
            let end = |at: At<Scalar>| c.arg(at).scalar().unwrap_or(Scalar::Int(0)).to_f64();
            l.output(linspace::RESULT).with(LinspaceParams { start: end(linspace::START), end: end(linspace::END) });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let n = c.int(linspace::STEPS)?;
        if n < 0 {
            return Err(Error::runtime("linspace(): number of steps must be non-negative"));
        }
        let dtype = super::linspace::dtype_of(c, linspace::START, linspace::END, linspace::DTYPE)?;
        let exact = |at: At<Scalar>| super::linspace::exact(c.arg(at).scalar().unwrap_or(Scalar::Int(0)));
        let values = super::linspace::between(
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

/// The dtype of a sequence: what was asked for, else complex where an end is, else the default float.
pub fn dtype_of(c: &Call<'_>, start: At<Scalar>, end: At<Scalar>, dtype: At<DType>) -> Result<DType> {
    let numbers = [c.arg(start), c.arg(end)].into_iter().filter_map(|a| a.scalar());
    let is_complex = numbers.clone().any(|s| s.category() == Category::Complex)
        || c.ins.iter().flatten().any(|t| t.dtype().is_complex());
    let found = if is_complex { default_dtype().to_complex() } else { default_dtype() };
    match c.arg(dtype).dtype() {
        Some(d) if is_complex && !d.is_complex() => Err(Error::runtime(format!(
            "{}(): inferred dtype {found} can't be safely cast to passed dtype {d}",
            c.name()
        ))),
        Some(d) => Ok(d),
        None => Ok(found),
    }
}

/// The numbers of a 0-dim tensor or a number, in double precision; tensors keep the gradient.
pub(super) fn end(c: &Call<'_>, tensor: In, number: At<Scalar>, name: &str) -> Result<Tensor> {
    match c.opt(tensor) {
        Some(t) if t.ndim() > 0 => {
            Err(Error::runtime(format!("{}(): {name} must be a 0-dim tensor, got {:?}", c.name(), t.sizes())))
        }
        Some(t) => t.to_copy_with(Some(double(t.dtype().is_complex())), None),
        None => {
            let number = c.arg(number).scalar().unwrap_or(Scalar::Int(0));
            let dtype = double(number.category() == Category::Complex);
            // Where the other end lies, which may be on many ranks.
            match c.ins.iter().flatten().next() {
                Some(other) => other.new_full_with(&[], number, Some(dtype), None, false),
                None => exact(number),
            }
        }
    }
}

/// A number in double precision.
pub fn exact(s: Scalar) -> Result<Tensor> {
    f::full_with(&[], s, Some(double(s.category() == Category::Complex)), None, false)
}

fn double(is_complex: bool) -> DType {
    if is_complex { DType::C128 } else { DType::F64 }
}

pub(super) fn steps(c: &Call<'_>, n: i64) -> Result<i64> {
    if n < 0 {
        return Err(Error::runtime(format!("{}(): number of steps must be non-negative", c.name())));
    }
    Ok(n)
}

/// `n` numbers from `a` to `b` (rounded to the result's dtype), counted from the nearer end so that both ends are exact.
pub fn between(a: &Tensor, b: &Tensor, n: i64, dtype: DType, device: Option<Device>) -> Result<Tensor> {
    let rounded = |t: &Tensor| -> Result<Tensor> {
        if dtype == DType::F64 || dtype.is_complex() {
            return Ok(t.clone());
        }
        t.to_copy_with(Some(dtype), None)?.to_copy_with(Some(DType::F64), None)
    };
    let (a, b) = (rounded(a)?, rounded(b)?);
    let i = a.new_ones_with(&[n], Some(DType::F64), device, false)?.cumsum(0)?.sub(1.0)?;
    if n == 1 {
        return i.eq(0.0)?.r#where(&a, &a);
    }
    let step = b.sub(&a)?.div((n - 1).max(1) as f64)?;
    let (up, down) = (i.mul(&step)?.add(&a)?, i.sub((n - 1) as f64)?.mul(&step)?.add(&b)?);
    i.lt(n / 2)?.r#where(&up, &down)
}

pub(super) fn cast(t: Tensor, dtype: DType) -> Result<Tensor> {
    if t.dtype() == dtype { Ok(t) } else { t.to_copy_with(Some(dtype), None) }
}

pub(super) const RANGE: OpDef =
    OpDef { faces: Faces::FN.or(Faces::OUT), grad: Grad::Never, sbp: WHERE_IT_LIES, ..COMPOSED };

pub static LINSPACE: OpDef = OpDef {
    sig: Sig::parse(
        "linspace.tensors(Tensor|Scalar start, Tensor|Scalar end, int steps, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    compose: Some(|c, outs| {
        let n = steps(c, c.int(linspace_tensors::STEPS)?)?;
        let device = c.arg(linspace_tensors::DEVICE).device().or(c.ins.iter().flatten().next().map(|t| t.device()));
        let dtype = dtype_of(c, linspace_tensors::START_SCALAR, linspace_tensors::END_SCALAR, linspace_tensors::DTYPE)?;
        let start = end(c, linspace_tensors::START, linspace_tensors::START_SCALAR, "start")?;
        let end = end(c, linspace_tensors::END, linspace_tensors::END_SCALAR, "end")?;
        let values = between(&start, &end, n, dtype, device)?;
        give(outs, cast(values, dtype)?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[]), SampleArg::f32(&[]), SampleArg::Int(5)])],
    ..RANGE
};
