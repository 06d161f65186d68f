//! Sequences of other kinds: logspace, linspace and logspace between tensors, vander, triangle indices.

use super::{COMPOSED, WHERE_IT_LIES, give};
use crate::named::{linspace_tensors, logspace, tril_indices, vander};
use crate::prelude::*;

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
fn end(c: &Call<'_>, tensor: In, number: At<Scalar>, name: &str) -> Result<Tensor> {
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

fn steps(c: &Call<'_>, n: i64) -> Result<i64> {
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
    let step = b.sub(&a)?.div((n - 1).max(1) as f64)?;
    let (up, down) = (i.mul(&step)?.add(&a)?, i.sub((n - 1) as f64)?.mul(&step)?.add(&b)?);
    if n > 1 { i.lt(n / 2)?.r#where(&up, &down) } else { Ok(up) }
}

fn cast(t: Tensor, dtype: DType) -> Result<Tensor> {
    if t.dtype() == dtype { Ok(t) } else { t.to_copy_with(Some(dtype), None) }
}

const RANGE: OpDef = OpDef { faces: Faces::FN.or(Faces::OUT), grad: Grad::Never, sbp: WHERE_IT_LIES, ..COMPOSED };

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

pub static LOGSPACE: OpDef = OpDef {
    sig: Sig::parse(
        "logspace(Tensor|Scalar start, Tensor|Scalar end, int steps, float base=10.0, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "`steps` numbers whose logarithms (to `base`) are evenly spaced from `start` to `end` (inclusive).

Example::

    >>> oneflow.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])",
    compose: Some(|c, outs| {
        let n = steps(c, c.int(logspace::STEPS)?)?;
        let device = c.arg(logspace::DEVICE).device().or(c.ins.iter().flatten().next().map(|t| t.device()));
        let dtype = dtype_of(c, logspace::START_SCALAR, logspace::END_SCALAR, logspace::DTYPE)?;
        let start = end(c, logspace::START, logspace::START_SCALAR, "start")?;
        let end = end(c, logspace::END, logspace::END_SCALAR, "end")?;
        let logs = between(&start, &end, n, dtype, device)?;
        give(outs, cast(f::pow_scalar(c.float(logspace::BASE)?, &logs)?, dtype)?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::Float(0.0), SampleArg::Float(1.0), SampleArg::Int(5)])],
    ..RANGE
};

pub static VANDER: OpDef = OpDef {
    sig: Sig::parse("vander(Tensor x, int? N=None, bool increasing=False) -> Tensor"),
    doc: "The matrix of powers of a vector's elements: N columns, the highest power first unless `increasing`.

Example::

    >>> oneflow.vander(oneflow.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [4, 2, 1],
            [9, 3, 1]])",
    faces: Faces::FN,
    compose: Some(|c, outs| {
        let x = c.t(vander::X)?;
        if x.ndim() != 1 {
            return Err(Error::runtime("x must be a one-dimensional tensor."));
        }
        let n = c.arg(vander::N).int().unwrap_or(x.numel());
        if n < 0 {
            return Err(Error::runtime(format!("N must be non-negative, got {n}")));
        }
        let dtype = if x.dtype().is_differentiable() { x.dtype() } else { DType::I64 };
        let x = if x.dtype() == dtype { x.clone() } else { x.to_copy_with(Some(dtype), None)? };
        if n == 0 {
            return give(outs, x.new_zeros(&[x.numel(), 0])?);
        }
        let ones = x.new_ones(&[x.numel(), 1])?;
        let powers = f::cat([&ones, &x.unsqueeze(1)?.expand(&[x.numel(), n - 1])?], 1)?.cumprod(1)?;
        give(outs, if c.bool(vander::INCREASING) { powers } else { powers.flip(&[1])? })
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3])])],
    ..COMPOSED
};

/// Entries on and below a diagonal of a matrix, or (not `lower`) on and above it; `None` beyond an int64.
fn entries(rows: i64, cols: i64, diagonal: i64, lower: bool) -> Option<i64> {
    // Columns of row i below the diagonal: i + start, cut to 0..=cols.
    let start = diagonal as i128 + lower as i128;
    let positive = |shift: i128| {
        let first = (-shift).clamp(0, rows as i128);
        let n = rows as i128 - first;
        // Of an arithmetic series: the number of its terms by the sum of the first and the last.
        n.checked_mul(2 * shift + first + rows as i128 - 1).map(|twice| twice / 2)
    };
    let below = positive(start)?.checked_sub(positive(start - cols as i128)?)?;
    let all = rows as i128 * cols as i128;
    i64::try_from(if lower { below } else { all - below }).ok()
}

/// Rows and columns of a triangle, row by row. `lower` or upper.
fn triangle(c: &Call<'_>, lower: bool) -> Result<Tensor> {
    let (rows, cols, at) = (c.int(tril_indices::ROW)?, c.int(tril_indices::COL)?, c.int(tril_indices::OFFSET)?);
    if rows < 0 || cols < 0 {
        let (what, n) = if rows < 0 { ("row", rows) } else { ("col", cols) };
        return Err(Error::runtime(format!("{what} must be non-negative, got {n}")));
    }
    let dtype = c.arg(tril_indices::DTYPE).dtype().unwrap_or(DType::I64);
    if !matches!(dtype, DType::I64 | DType::I32) {
        return Err(Error::runtime(format!("\"{}\" not implemented for '{}'", c.name(), dtype.scalar_type_name())));
    }
    // How many entries the rows above hold says which row an entry is in.
    let device = c.arg(tril_indices::DEVICE).device();
    let total = entries(rows, cols, at, lower)
        .ok_or_else(|| Error::runtime(format!("{}(): {rows} rows and {cols} columns are too many", c.name())))?;
    if total == 0 {
        return f::zeros_with(&[2, 0], Some(dtype), device, false);
    }
    let row = f::arange_with(rows, Some(DType::I64), device, false)?;
    let number = |v: i64| Some(Scalar::Int(v));
    let diagonal = row.add(at.clamp(-rows, cols))?;
    let (first, length) = if lower {
        (row.zeros_like()?, diagonal.add(1i64)?.clamp(number(0), number(cols))?)
    } else {
        let first = diagonal.clamp(number(0), number(cols))?;
        let length = first.rsub(cols)?;
        (first, length)
    };
    let ends = length.cumsum(0)?;
    let i = f::arange_with(total, Some(DType::I64), device, false)?;
    let of = ends.searchsorted_with(&i, false, true, None, None)?;
    let column = i.sub(&ends.sub(&length)?.index_select(0, &of)?)?.add(&first.index_select(0, &of)?)?;
    let both = f::stack([&of, &column], 0)?;
    if dtype == DType::I64 { Ok(both) } else { both.to_copy_with(Some(dtype), None) }
}

const INDICES: OpDef = OpDef {
    faces: Faces::FN,
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![i(3), i(4), i(0)]), Sample::new(vec![i(4), i(3), i(-1)]), Sample::new(vec![i(0), i(3)])]
    },
    ..RANGE
};

pub static TRIL_INDICES: OpDef = OpDef {
    sig: Sig::parse(
        "tril_indices(int row, int col, int offset=0, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Rows and columns of the lower triangle of a matrix, row by row.

Example::

    >>> oneflow.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])",
    compose: Some(|c, outs| give(outs, triangle(c, true)?)),
    ..INDICES
};

pub static TRIU_INDICES: OpDef = OpDef {
    sig: Sig::parse(
        "triu_indices(int row, int col, int offset=0, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Rows and columns of the upper triangle of a matrix, row by row.

Example::

    >>> oneflow.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])",
    compose: Some(|c, outs| give(outs, triangle(c, false)?)),
    ..INDICES
};
