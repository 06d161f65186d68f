//! `tril_indices`, `triu_indices`: Rows and columns of the lower triangle of a matrix, row by row.

use super::give;
use crate::named::tril_indices;
use crate::prelude::*;

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
        let length = first.rsub(cols, 1)?;
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
    ..super::linspace::RANGE
};

pub static OP: OpDef = OpDef {
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
